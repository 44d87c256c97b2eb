"""Every example against its golden on every rank."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import nkicc
from nkicc.nki import Kernel
from nkicc.pytest_plugin import Runner
from nkicc.session import Result

FOLDER = Path(__file__).parent.parent / "examples"
FILES = sorted(FOLDER.glob("*.py"))
NEEDS_TWO_CORES = {"lnc_swap"}
#: Largest error relative to the golden's largest magnitude, of those that compute with more than small integers.
INEXACT = {"ring_attention": 2e-6, "tensor_parallel_mlp": 2e-6}


def load(path: Path) -> ModuleType:
    nkicc.activate()
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.nkicc(ranks=[1, 2, 3, 4, 16], lnc=[1, 2])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_kernel(path: Path, nkicc_run: Runner) -> None:
    module, ranks = load(path), nkicc_run.ranks
    (kernel,) = [value for value in vars(module).values() if isinstance(value, Kernel)]
    goldens = [module.golden(rank, ranks) for rank in range(ranks)]
    error = INEXACT.get(path.stem, 0.0) * max(float(np.abs(golden).max()) for golden in goldens)

    def run() -> Result:
        return nkicc_run(kernel, inputs=lambda rank: module.inputs(rank, ranks), golden=goldens.__getitem__, atol=error)

    if nkicc_run.lnc == 1 and path.stem in NEEDS_TWO_CORES:
        with pytest.raises(nkicc.NkiccError) as caught:
            run()
        assert caught.value.code == "NKC073"
        return
    for rank, output in enumerate(run().outputs):
        assert output.dtype == goldens[rank].dtype


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_ranks_have_data_of_their_own(path: Path) -> None:
    """A kernel that mixes up its ranks must not pass: something differs from rank to rank, and so do the goldens unless
    every rank ends with the same."""
    module = load(path)
    first, second = (module.inputs(rank, 4) for rank in (0, 1))
    differ = any(isinstance(a, np.ndarray) and not np.array_equal(a, second[name]) for name, a in first.items())
    assert differ or not np.array_equal(module.golden(0, 4), module.golden(1, 4))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_docstring_ends_with_a_command_that_runs(path: Path) -> None:
    command = (load(path).__doc__ or "").strip().splitlines()[-1]
    program, *arguments = command.split()
    assert program == "nkicc"
    assert arguments[:2] == ["run", f"examples/{path.name}"]
    done = subprocess.run(
        [sys.executable, "-m", "nkicc.cli", *arguments], cwd=FOLDER.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_there_are_examples() -> None:
    assert {path.stem for path in FILES} == {
        "all_gather_matmul",
        "all_gather_sbuf",
        "all_reduce",
        "all_to_all",
        "core_barrier",
        "lnc_swap",
        "moe_all_to_all_v",
        "pipeline",
        "rank_slice",
        "reduce_scatter",
        "ring_all_gather",
        "ring_attention",
        "sequence_parallel",
        "tensor_parallel_mlp",
    }
