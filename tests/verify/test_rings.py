"""Whether what a ring brings is stored as the data of the rank it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import pytest

from nkicc import session
from nkicc.ir.access import AccessPattern
from nkicc.ir.bir import CCChannel, CollectiveKind, InstCollectiveCompute
from nkicc.ir.findings import Finding, Severity
from nkicc.ir.types import Loc
from nkicc.lowering import FULL, lower
from nkicc.nki import Kernel
from nkicc.verify import check

from ..examine import load
from ..simulator.bir_modules import module, tensor
from .helpers import errors, line_of, x_of

EXAMPLES = Path(__file__).parents[2] / "examples"


def checked(path: Path, ranks: int, lnc: int, passes: str | None = None) -> list[Finding]:
    loaded = load(path)
    (kernel,) = [value for value in vars(loaded).values() if isinstance(value, Kernel)]
    traced = session.trace(kernel, ranks=ranks, lnc=lnc, inputs=lambda rank: loaded.inputs(rank, ranks))
    return check(lower(traced.module) if passes is None else lower(traced.module, passes=passes))


def mutated(folder: Path, name: str, old: str, new: str) -> Path:
    text = (EXAMPLES / f"{name}.py").read_text()
    assert text.count(old) == 1
    path = folder / f"{name}.py"
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize("passes", [None, FULL])
@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_have_no_error(path: Path, ranks: int, lnc: int, passes: str | None) -> None:
    if path.stem == "lnc_swap" and lnc == 1:
        return
    assert [found for found in checked(path, ranks, lnc, passes) if found.severity is Severity.error] == []


FAULTS = [
    ("ring_all_gather", "iteration_id=step,", "iteration_id=step + 1,", "NKC147"),
    ("ring_all_gather", "iteration_id=step,", "iteration_id=max(step - 1, 0),", "NKC147"),
    ("ring_all_gather", "src=held[:, lane]", "src=free[:, lane]", "NKC147"),
    ("ring_all_gather", "[[free[:, lane]] for lane in lanes]", "[[free[:, lane]] for lane in lanes[::-1]]", "NKC148"),
    ("ring_all_gather", "channel_id=channel", "channel_id=0", "NKC148"),
    ("ring_all_gather", "channel_id=channel", "channel_id=1 - channel", "NKC148"),
    (
        "ring_all_gather",
        "iteration_id=step, replica_group=group",
        "iteration_id=step, replica_group=ReplicaGroup([[3, 2, 1, 0]])",
        "NKC149",
    ),
    ("all_gather_matmul", "iteration_id=step,", "iteration_id=step + 1,", "NKC147"),
    ("all_gather_matmul", "stationary=held[", "stationary=free[", "NKC147"),
]


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize(("name", "old", "new", "code"), FAULTS)
def test_planted_faults(tmp_path: Path, name: str, old: str, new: str, code: str, lnc: int) -> None:
    path = mutated(tmp_path, name, old, new)
    found = [f for f in checked(path, 4, lnc) if f.severity is Severity.error]
    assert {f.code for f in found} == {code}
    for f in found:
        assert f.loc is not None
        assert f.loc.file == str(path)
        assert "asked for here" in f.related[0].message


def ring(store: Any, hops: int = 1) -> Any:
    """A kernel that lets its input make some hops and then stores it by `store(result, buffers, owner)`."""

    def kernel(x: Any) -> Any:
        group = ncc.ReplicaGroup([[0, 1, 2, 3]])
        out = nl.ndarray((4, *x.shape), x.dtype, nl.shared_hbm)
        buffers = [nl.ndarray(x.shape, x.dtype) for _ in range(2)]
        nisa.dma_copy(buffers[0], x)
        for hop in range(hops):
            ncc.collective_permute_implicit([[buffers[hop % 2]]], [[buffers[(hop + 1) % 2]]], group)
        owner = ncc.collective_permute_implicit_current_processing_rank_id(2, group)
        store(out, buffers[hops % 2], owner)
        return out

    return kernel


def copied(out: Any, held: Any, owner: Any) -> None:
    tile = nl.ndarray(held.shape, held.dtype)
    nisa.tensor_copy(tile, held)
    nisa.dma_copy(out.select(0, owner), tile)


def scaled(out: Any, held: Any, owner: Any) -> None:
    nisa.tensor_scalar(held, held, nl.multiply, 2.0)
    nisa.dma_copy(out.select(0, owner), held)


def summed(out: Any, held: Any, owner: Any) -> None:
    """A sum over ranks has no rank: where it goes is the kernel's affair."""
    total = nl.ndarray(held.shape, held.dtype)
    nisa.memset(total, 0.0)
    nisa.tensor_tensor(total, total, held, nl.add)
    nisa.dma_copy(out.select(0, owner), total)


@pytest.mark.parametrize("hops", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("store", [copied, scaled])
def test_hops_are_counted_modulo_the_ring(store: Any, hops: int) -> None:
    found = errors(ring(store, hops), {"x": x_of(0)})
    # Without a hop there is no ring to speak of.
    assert [f.code for f in found] == ([] if hops in (0, 2, 6) else ["NKC147"])
    if found:
        assert found[0].loc is not None
        assert found[0].loc.line == line_of(store, "dma_copy")


def test_what_is_no_rank_s_data_is_left_alone() -> None:
    assert errors(ring(summed, 1), {"x": x_of(0)}) == []


@pytest.mark.parametrize("count", [1, 2])
def test_loops_of_the_device_are_unrolled(count: int) -> None:
    def kernel(x: Any) -> Any:
        group = ncc.ReplicaGroup([[0, 1, 2, 3]])
        out = nl.ndarray((4, *x.shape), x.dtype, nl.shared_hbm)
        a, b = (nl.ndarray(x.shape, x.dtype) for _ in range(2))
        nisa.dma_copy(a, x)

        def body(_: Any) -> None:
            ncc.collective_permute_implicit([[a]], [[b]], group)
            nisa.tensor_copy(a, b)

        nl.fori_loop(0, count, body)
        owner = ncc.collective_permute_implicit_current_processing_rank_id(2, group)
        nisa.dma_copy(out.select(0, owner), a)
        return out

    assert [f.code for f in errors(kernel, {"x": x_of(0)})] == ([] if count == 2 else ["NKC147"])


def test_a_channel_without_the_one_before_it() -> None:
    def step(channel: int, line: int) -> InstCollectiveCompute:
        return InstCollectiveCompute(
            srcs=(AccessPattern("a", ((4, 2), (1, 4))),),
            dsts=(AccessPattern("b", ((4, 2), (1, 4))),),
            cc_channel=CCChannel(CollectiveKind.PermuteImplicit, ((0, 1),)),
            channel_id=channel,
            loc=Loc("kernel.py", line),
        )

    shared = (tensor("a", (2, 4)), tensor("b", (2, 4)))
    found = check(module((step(0, 1), step(1, 2), step(1, 3)), shared=shared, ranks=2))
    (channel,) = [f for f in found if f.code == "CCO009"]
    assert channel.severity is Severity.warning
    assert channel.loc == Loc("kernel.py", 3)
    assert "CCO009" not in {f.code for f in check(module((step(0, 1), step(1, 2)), shared=shared, ranks=2))}
