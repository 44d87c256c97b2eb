"""The report of a deadlock: equal states share an entry, the last meetings are told, and where sequences part."""

from __future__ import annotations

import numpy as np
import pytest

from nkicc.ir.base import Inst
from nkicc.ir.bir import CCChannel, CollectiveKind, InstCollectiveCompute, InstCollectiveSend, InstCoreBarrier
from nkicc.ir.errors import NkiccError
from nkicc.ir.program import Core, Level, Module, Program
from nkicc.ir.types import AluOp, Loc, Target, World
from nkicc.simulator import simulate

from .bir_modules import tensor

X, Y = tensor("x", (2, 2)), tensor("y", (2, 2))


def all_reduce(line: int, groups: tuple[tuple[int, ...], ...], op: AluOp = AluOp.add) -> Inst:
    return InstCollectiveCompute(
        name=f"ar{line}", srcs=(X.full(),), dsts=(Y.full(),), loc=Loc("k.py", line),
        cc_channel=CCChannel(CollectiveKind.AllReduce, groups, op),
    )  # fmt: skip


def send(line: int, peer: int) -> Inst:
    return InstCollectiveSend(name="s", srcs=(X.full(),), peer_id=peer, loc=Loc("k.py", line))


def barrier(line: int) -> Inst:
    return InstCoreBarrier(name=f"b{line}", cores=(0, 1), loc=Loc("k.py", line))


def deadlock(*bodies: tuple[tuple[Inst, ...], ...]) -> NkiccError:
    """What the run says if rank r runs bodies[r], one sequence per core."""
    programs = tuple(
        Program(f"p{rank}", tuple(Core(body=body) for body in cores), (X, Y), ("x",), (Y.full(),), ranks=(rank,))
        for rank, cores in enumerate(bodies)
    )
    built = Module(Level.bir, World(len(bodies), len(bodies[0])), Target.trn2, programs)
    data = [{"x": np.full((1, 2, 2), rank, np.float32)} for rank in range(len(bodies))]
    with pytest.raises(NkiccError) as error:
        simulate(built, data)
    assert error.value.code == "NKC100"
    return error.value


def states(error: NkiccError) -> list[str]:
    return [note for note in error.notes if ": wait" in note or note.endswith(": finished")]


def test_eight_ranks_at_two_lines_are_two_entries() -> None:
    """Every rank sends before it receives: ranks 0-3 at line 3, ranks 4-7 at line 4."""
    bodies = [((send(3 if rank < 4 else 4, (rank + 4) % 8),),) for rank in range(8)]
    error = deadlock(*bodies)
    assert error.message == "deadlock: rank 0 waits for rank 4, which waits for rank 0"
    assert states(error) == [
        "ranks 0-3: wait for ranks 4-7 in InstCollectiveSend 's' at k.py:3",
        "ranks 4-7: wait for ranks 0-3 in InstCollectiveSend 's' at k.py:4",
    ]
    assert error.loc == Loc("k.py", 3)


def test_a_rank_that_ends_early_is_named_with_what_it_did_last() -> None:
    whole = ((0, 1, 2, 3),)
    three = (all_reduce(1, whole), all_reduce(2, whole), all_reduce(3, whole))
    error = deadlock((three,), (three,), (three[:2],), (three,))
    assert error.message == ("deadlock: rank 0 waits in InstCollectiveCompute 'ar3' for rank 2, which has finished")
    assert states(error) == [
        "ranks 0-1, 3: wait for rank 2 in InstCollectiveCompute 'ar3' at k.py:3",
        "rank 2: finished",
    ]
    assert "ranks 0-1, 3 issued 3: AllReduce k.py:1, AllReduce k.py:2, AllReduce k.py:3" in error.notes
    assert "rank 2 issued 2: AllReduce k.py:1, AllReduce k.py:2" in error.notes
    assert error.notes[-2:] == (
        "first difference, number 3: ranks 0-1, 3 issue InstCollectiveCompute 'ar3' at k.py:3",
        "first difference, number 3: rank 2 issues nothing more",
    )


def test_only_the_last_meetings_are_told() -> None:
    whole = ((0, 1),)
    many = tuple(all_reduce(line, whole) for line in range(1, 10))
    error = deadlock((many,), (many[:-1],))
    assert ("rank 0 issued 9: … AllReduce k.py:6, AllReduce k.py:7, AllReduce k.py:8, AllReduce k.py:9") in error.notes
    assert any(note.startswith("first difference, number 9:") for note in error.notes)


def test_cores_that_pass_barriers_in_different_numbers() -> None:
    error = deadlock(((barrier(1), barrier(2)), (barrier(1),)), ((barrier(1), barrier(2)), (barrier(1),)))
    assert states(error) == [
        "ranks 0-1 core 0: wait for ranks 0-1 core 1 in InstCoreBarrier 'b2' at k.py:2",
        "ranks 0-1 core 1: finished",
    ]
    assert error.notes[-2:] == (
        "first difference, number 2: rank 0 core 0 issues InstCoreBarrier 'b2' at k.py:2",
        "first difference, number 2: rank 0 core 1 issues nothing more",
    )
    assert error.core == 0


def test_a_long_cycle_is_cut() -> None:
    error = deadlock(*[((send(rank, (rank + 1) % 9),),) for rank in range(9)])
    assert error.message == (
        "deadlock: rank 0 waits for rank 1, which waits for rank 2, which waits for rank 3, which …, which waits for "
        "rank 0"
    )
