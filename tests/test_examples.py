"""Every example against its golden on every rank."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import nkicc
from nkicc.nki import Kernel

FILES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
NEEDS_TWO_CORES = {"lnc_swap"}


def load(path: Path) -> ModuleType:
    nkicc.activate()
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example(path: Path, ranks: int, lnc: int) -> None:
    module = load(path)
    (kernel,) = [value for value in vars(module).values() if isinstance(value, Kernel)]

    def run() -> list:
        return nkicc.run(kernel, ranks=ranks, lnc=lnc, inputs=lambda rank: module.inputs(rank, ranks)).outputs

    if lnc == 1 and path.stem in NEEDS_TWO_CORES:
        with pytest.raises(nkicc.NkiccError) as caught:
            run()
        assert caught.value.code == "NKC073"
        return
    outputs = run()
    assert len(outputs) == ranks
    for rank in range(ranks):
        golden = module.golden(rank, ranks)
        assert outputs[rank].dtype == golden.dtype
        np.testing.assert_allclose(outputs[rank], golden, rtol=1e-6)


def test_there_are_examples() -> None:
    assert {path.stem for path in FILES} >= {
        "all_gather_sbuf",
        "all_reduce",
        "all_to_all",
        "core_barrier",
        "lnc_swap",
        "rank_slice",
        "reduce_scatter",
        "ring_all_gather",
    }
