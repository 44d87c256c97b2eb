"""Races between the cores of a rank: what is one, what is none."""

from __future__ import annotations

import numpy as np
import pytest

from nkicc.engines import Options
from nkicc.ir.access import AccessPattern, Register
from nkicc.ir.bir import CCChannel, CollectiveKind, InstCollectiveCompute, InstCoreBarrier, InstGetGlobalRankId
from nkicc.ir.errors import NkiccError
from nkicc.ir.isa import InstDMACopy
from nkicc.ir.program import InstLoop, Module
from nkicc.ir.types import AluOp, Loc

from .bir_modules import module, run, sbuf, tensor

SCRATCH, X, Y = tensor("scratch", (2, 4)), tensor("x", (2, 4)), tensor("y", (2, 4))
OWN = sbuf("t", (1, 4))
DATA = np.random.default_rng(0).standard_normal((2, 2, 4)).astype(np.float32)


def row(name: str, index: int) -> AccessPattern:
    return AccessPattern(name, ((4, 1), (1, 4)), index * 4)


def all_reduce(src: str, loc: Loc | None = None) -> InstCollectiveCompute:
    channel = CCChannel(CollectiveKind.AllReduce, ((0, 1),), AluOp.add)
    return InstCollectiveCompute(
        name="ar", srcs=(tensor(src, (2, 4)).full(),), dsts=(Y.full(),), cc_channel=channel, loc=loc
    )


def exchange(*, barrier: bool, other: bool = True) -> Module:
    """Each core fills its row of the scratch tensor and reads a row: the other core's or its own."""
    bodies = []
    for core in (0, 1):
        wait = (InstCoreBarrier(data=SCRATCH.full(), cores=(0, 1)),) if barrier else ()
        read = row("scratch", 1 - core if other else core)
        bodies.append(
            (
                InstDMACopy(name="fill", dst=row("scratch", core), srcs=(row("x", core),), loc=Loc("k.py", 10 + core)),
                *wait,
                InstDMACopy(name="take", dst=OWN.full(), srcs=(read,), loc=Loc("k.py", 20 + core)),
                InstDMACopy(dst=row("y", core), srcs=(OWN.full(),)),
            )
        )
    return module(*bodies, shared=(SCRATCH, X, Y), own=(OWN,), inputs=("x",), outputs=("y",), ranks=2)


def test_a_barrier_orders_the_exchange() -> None:
    (y,) = run(exchange(barrier=True), x=DATA).outputs[0]
    assert np.array_equal(y, DATA[:, ::-1])


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_without_it_the_race_names_both_lines(seed: int | None) -> None:
    with pytest.raises(NkiccError) as error:
        run(exchange(barrier=False), Options(schedule=seed), x=DATA)
    assert error.value.code == "NKC120"
    core, loc = error.value.core, error.value.loc
    assert core is not None
    assert loc is not None
    assert f"core {1 - core}" in error.value.notes[0]
    lines = {loc.line, int(error.value.notes[0].rsplit(":", 1)[1])}
    assert lines in ({20, 11}, {21, 10}), "one core's read and the other's write"


def test_rows_of_their_own_are_no_race() -> None:
    (y,) = run(exchange(barrier=False, other=False), x=DATA).outputs[0]
    assert np.array_equal(y, DATA)


def test_the_watch_can_be_switched_off() -> None:
    assert run(exchange(barrier=False), Options(races=False), x=DATA).outputs


@pytest.mark.parametrize("same", [True, False])
def test_both_cores_may_write_the_same_bytes(same: bool) -> None:
    """Public kernels let both cores compute one result; different values are a race."""
    bodies = [(InstDMACopy(dst=Y.full(), srcs=((X if same or core == 0 else SCRATCH).full(),)),) for core in (0, 1)]
    built = module(*bodies, shared=(SCRATCH, X, Y), inputs=("x", "scratch"), outputs=("y",), ranks=2)
    if same:
        assert np.array_equal(run(built, x=DATA, scratch=DATA + 1).outputs[0][0], DATA)
    else:
        with pytest.raises(NkiccError, match="writes elements of 'y' that core 0 writes"):
            run(built, x=DATA, scratch=DATA + 1)


@pytest.mark.parametrize("same", [True, False])
def test_both_cores_may_fill_a_tensor_twice(same: bool) -> None:
    """Kernels that know nothing of LNC run on both cores: each clears the result and fills it. In the end it holds what
    either wrote last, so only different endings are a race."""
    last = [X, X if same else SCRATCH]
    bodies = [
        (InstDMACopy(dst=Y.full(), srcs=(SCRATCH.full(),)), InstDMACopy(dst=Y.full(), srcs=(last[core].full(),)))
        for core in (0, 1)
    ]
    built = module(*bodies, shared=(SCRATCH, X, Y), inputs=("x", "scratch"), outputs=("y",), ranks=2)
    if same:
        assert np.array_equal(run(built, x=DATA, scratch=DATA + 1).outputs[0][0], DATA)
    else:
        with pytest.raises(NkiccError, match="NKC120"):
            run(built, x=DATA, scratch=DATA + 1)


def test_a_core_may_read_what_both_have_written() -> None:
    bodies = [
        (
            InstDMACopy(dst=SCRATCH.full(), srcs=(X.full(),)),
            InstDMACopy(dst=OWN.full(), srcs=(row("scratch", 1 - core),)),
            InstDMACopy(dst=row("y", core), srcs=(OWN.full(),)),
        )
        for core in (0, 1)
    ]
    built = module(*bodies, shared=(SCRATCH, X, Y), own=(OWN,), inputs=("x",), outputs=("y",), ranks=2)
    assert np.array_equal(run(built, x=DATA).outputs[0][0], DATA[:, ::-1])


def test_a_collective_that_both_issue_orders_them() -> None:
    bodies = [
        (
            InstDMACopy(dst=row("scratch", core), srcs=(row("x", core),)),
            all_reduce("scratch"),
            InstDMACopy(dst=OWN.full(), srcs=(row("y", 1 - core),)),
            InstDMACopy(dst=row("scratch", 1 - core), srcs=(OWN.full(),)),
        )
        for core in (0, 1)
    ]
    built = module(*bodies, shared=(SCRATCH, X, Y), own=(OWN,), inputs=("x",), outputs=("y", "scratch"), ranks=2)
    for got in run(built, x=DATA).outputs[0]:
        assert np.array_equal(np.broadcast_to(got, DATA.shape), np.broadcast_to(DATA.sum(0), DATA.shape))


def test_a_collective_of_one_core_without_a_barrier_races() -> None:
    reduce = all_reduce("x", Loc("k.py", 5))
    take = InstDMACopy(dst=OWN.full(), srcs=(row("y", 0),), loc=Loc("k.py", 9))
    with pytest.raises(NkiccError) as error:
        run(module((reduce,), (take,), shared=(X, Y), own=(OWN,), inputs=("x",), ranks=2), x=DATA)
    assert error.value.code == "NKC120"
    assert error.value.loc == Loc("k.py", 9)
    assert "'ar' at k.py:5" in error.value.notes[0]


def test_offsets_that_are_equal_on_all_ranks_are_followed() -> None:
    """Core 1 reads through a register what core 0 writes through one."""
    moving = AccessPattern("scratch", ((4, 1), (1, 4)), scalar_offset="r", indirect_stride=4)
    accesses = (
        InstDMACopy(dst=moving, srcs=(row("x", 0),)),
        InstDMACopy(dst=OWN.full(), srcs=(moving,)),
    )
    bodies = [(InstGetGlobalRankId(output=Register("r")), access) for access in accesses]
    built = module(*bodies, shared=(SCRATCH, X), own=(OWN,), inputs=("x",))
    with pytest.raises(NkiccError, match="NKC120"):
        run(built, x=DATA[:1])


def test_a_thousand_turns_with_barriers() -> None:
    """One core writes a cell, the other reads it, with two barriers a turn."""
    barrier = InstCoreBarrier(cores=(0, 1))
    write = InstDMACopy(dst=row("scratch", 0), srcs=(row("x", 0),))
    take = InstDMACopy(dst=OWN.full(), srcs=(row("scratch", 0),))
    bodies = [
        (InstLoop(register="i", start=0, stop=1000, body=turn),)
        for turn in ((write, barrier, barrier), (barrier, take, barrier))
    ]
    execution = run(module(*bodies, shared=(SCRATCH, X), own=(OWN,), inputs=("x",)), x=DATA[:1])
    assert execution.report.instructions == 6000
