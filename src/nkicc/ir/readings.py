"""How a collective is meant under LNC=2.

Public kernels use three readings, and all are legal: both cores of a rank issue it on the same shared tensors (one
operation per rank, the cores meet there); each core issues its own (core c exchanges with core c of the peers); one
core issues it for its rank while the other waits at a core barrier, or issues another. Which one holds follows from
the two cores' sequences of collectives and core barriers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from enum import Enum

from msgspec import structs

from .bir import InstCollectiveCompute, InstCoreBarrier
from .errors import fail
from .program import Program, walk

__all__ = ["Reading", "meaning", "readings"]


Opcode = tuple[str, int, int, int, int]


class Reading(str, Enum):
    """`each` is `one` on either core at the same time: nothing orders the two operations of the rank."""

    both = "both"
    lanes = "lanes"
    one = "one"
    each = "each"

    def lane(self, core: int) -> int:
        """Which core of other ranks an operation of `core` meets; -1 if it is the rank's, whichever core issues it."""
        return core if self in (Reading.lanes, Reading.each) else -1


def readings(program: Program) -> list[list[Reading]]:
    """Per core, the reading of each of its global collectives in program order.

    A collective on core-private operands is `lanes`. On shared operands, equal neighbours in the two sequences are
    `both`; a core whose partner issues none is `one`, and `each` if it issues something that has nothing to do with it;
    the same operation on different shared tensors is `lanes`. What a core barrier separates is never one operation: the
    sequences are compared from barrier to barrier. NKC104 where they differ in a way that has no such meaning.
    """
    shared = {tensor.name for tensor in program.tensors}
    issued = [
        [i for i in walk(core.body) if isinstance(i, InstCollectiveCompute) and not i.is_local]
        for core in program.cores
    ]
    found: list[list[Reading]] = [[Reading.lanes] * len(insts) for insts in issued]
    if len(issued) == 1:
        return found
    on_shared = [
        [k for k, inst in enumerate(insts) if all(ap.tensor in shared for ap in inst.dsts)] for insts in issued
    ]
    for ours, theirs in _between_barriers(program, on_shared):
        _read(issued, ours, theirs, found)
    _no_reordering(issued, on_shared, found)
    return found


def _read(
    issued: list[list[InstCollectiveCompute]], ours: list[int], theirs: list[int], found: list[list[Reading]]
) -> None:
    """The readings of collectives of core 0 and core 1 that no barrier separates, by their places."""
    left, right = ([meaning(issued[core][k]) for k in span] for core, span in ((0, ours), (1, theirs)))
    for tag, a0, a1, b0, b1 in _differences(left, right):
        if tag == "equal":
            reading = Reading.both
        elif tag in ("delete", "insert"):
            reading = Reading.one
        else:
            reading = _of_different([issued[0][k] for k in ours[a0:a1]], [issued[1][k] for k in theirs[b0:b1]])
        for core, span in ((0, ours[a0:a1]), (1, theirs[b0:b1])):
            for k in span:
                found[core][k] = reading


def _between_barriers(program: Program, on_shared: list[list[int]]) -> list[tuple[list[int], list[int]]]:
    """The places of each core's collectives, cut where the cores meet at barriers. All in one if the barriers of the
    two do not pair, which is a fault that other checks report, or are loops that differ."""
    stages: list[list[int]] = []
    barriers: list[int] = []
    for core in program.cores:
        passed, stage = 0, []
        for inst in walk(core.body):
            if isinstance(inst, InstCoreBarrier) and len(inst.cores) > 1:
                passed += 1
                if inst.mask is not None:
                    return [(on_shared[0], on_shared[1])]
            elif isinstance(inst, InstCollectiveCompute) and not inst.is_local:
                stage.append(passed)
        stages.append(stage)
        barriers.append(passed)
    if barriers[0] != barriers[1]:
        return [(on_shared[0], on_shared[1])]
    cut: dict[int, tuple[list[int], list[int]]] = {}
    for core in (0, 1):
        for k in on_shared[core]:
            cut.setdefault(stages[core][k], ([], []))[core].append(k)
    return list(cut.values())


def _differences(left: list[InstCollectiveCompute], right: list[InstCollectiveCompute]) -> list[Opcode]:
    """Opcodes as difflib's. What the sequences share at their start, mostly all of them, costs linear time."""
    same = next((k for k, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    head: list[Opcode] = [("equal", 0, same, 0, same)] if same else []
    tail = SequenceMatcher(None, left[same:], right[same:], autojunk=False).get_opcodes()
    return head + [(tag, a0 + same, a1 + same, b0 + same, b1 + same) for tag, a0, a1, b0, b1 in tail]


def meaning(inst: InstCollectiveCompute) -> InstCollectiveCompute:
    """The instruction without what only tells one copy of it from another."""
    return structs.replace(inst, name="", loc=None, deps=(), queue=None)


def _of_different(left: Sequence[InstCollectiveCompute], right: Sequence[InstCollectiveCompute]) -> Reading:
    """The reading of what core 0 issues where core 1 issues something else: one operation per core if they differ in
    their tensors alone, each core for its rank if neither touches what the other writes, or a mistake."""
    if len(left) == len(right) and all(a.cc_channel == b.cc_channel for a, b in zip(left, right, strict=True)):
        return Reading.lanes
    if _independent(left, right) and _independent(right, left):
        return Reading.each
    a, b = left[0], right[0]
    return fail(
        "NKC104",
        detail=f"core 0 has {a.label} where core 1 has {b.label}",
        core=1,
        loc=b.loc,
        notes=(f"core 0 issues {a.label} at {a.loc}",),
    )


def _independent(left: Sequence[InstCollectiveCompute], right: Sequence[InstCollectiveCompute]) -> bool:
    """Whether `left` writes to no tensor that `right` uses."""
    used = {ap.tensor for inst in right for ap in (*inst.reads(), *inst.writes())}
    return used.isdisjoint([ap.tensor for inst in left for ap in inst.writes()])


def _no_reordering(
    issued: list[list[InstCollectiveCompute]], on_shared: list[list[int]], found: list[list[Reading]]
) -> None:
    """An operation that both cores issue, but at different places of their sequences, would be done twice."""
    alone = [
        {
            meaning(issued[core][k]): issued[core][k]
            for k in on_shared[core]
            if found[core][k] in (Reading.one, Reading.each)
        }
        for core in (0, 1)
    ]
    for same in alone[0].keys() & alone[1].keys():
        a, b = alone[0][same], alone[1][same]
        fail(
            "NKC104",
            detail=f"{a.label} stands at different places",
            core=1,
            loc=b.loc,
            notes=(f"core 0 issues it at {a.loc}",),
        )
