"""How a collective is meant under LNC=2.

Public kernels use three readings, and all are legal: both cores of a rank issue it on the same shared tensors (one
operation per rank, the cores meet there); each core issues its own (core c exchanges with core c of the peers); one
core issues it for its rank while the other waits at a core barrier. Which one holds follows from the two cores'
sequences of collectives alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from enum import Enum

from msgspec import structs

from .bir import InstCollectiveCompute
from .errors import fail
from .program import Program, walk

__all__ = ["Reading", "meaning", "readings"]


Opcode = tuple[str, int, int, int, int]


class Reading(str, Enum):
    both = "both"
    lanes = "lanes"
    one = "one"


def readings(program: Program) -> list[list[Reading]]:
    """Per core, the reading of each of its global collectives in program order.

    A collective on core-private operands is `lanes`. On shared operands, equal neighbours in the two sequences are
    `both`; a core whose partner issues none is `one`; the same operation on different shared tensors is `lanes`. NKC104
    where the sequences differ in a way that has no such meaning.
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
    left, right = ([meaning(issued[core][k]) for k in on_shared[core]] for core in (0, 1))
    for tag, a0, a1, b0, b1 in _differences(left, right):
        if tag == "equal":
            reading = Reading.both
        elif tag in ("delete", "insert"):
            reading = Reading.one
        else:
            reading = Reading.lanes
            _same_work([issued[0][k] for k in on_shared[0][a0:a1]], [issued[1][k] for k in on_shared[1][b0:b1]])
        for core, span in ((0, on_shared[0][a0:a1]), (1, on_shared[1][b0:b1])):
            for k in span:
                found[core][k] = reading
    _no_reordering(issued, on_shared, found)
    return found


def _differences(left: list[InstCollectiveCompute], right: list[InstCollectiveCompute]) -> list[Opcode]:
    """Opcodes as difflib's. What the sequences share at their start, mostly all of them, costs linear time."""
    same = next((k for k, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    head: list[Opcode] = [("equal", 0, same, 0, same)] if same else []
    tail = SequenceMatcher(None, left[same:], right[same:], autojunk=False).get_opcodes()
    return head + [(tag, a0 + same, a1 + same, b0 + same, b1 + same) for tag, a0, a1, b0, b1 in tail]


def meaning(inst: InstCollectiveCompute) -> InstCollectiveCompute:
    """The instruction without what only tells one copy of it from another."""
    return structs.replace(inst, name="", loc=None, deps=(), queue=None)


def _same_work(left: Sequence[InstCollectiveCompute], right: Sequence[InstCollectiveCompute]) -> None:
    """Different operands on shared memory are two operations of one kind over the same groups, or a mistake."""
    if len(left) != len(right) or any(a.cc_channel != b.cc_channel for a, b in zip(left, right, strict=True)):
        a, b = left[0], right[0]
        fail(
            "NKC104",
            detail=f"core 0 has {a.label} where core 1 has {b.label}",
            core=1,
            loc=b.loc,
            notes=(f"core 0 issues {a.label} at {a.loc}",),
        )


def _no_reordering(
    issued: list[list[InstCollectiveCompute]], on_shared: list[list[int]], found: list[list[Reading]]
) -> None:
    """An operation that both cores issue, but at different places of their sequences, would be done twice."""
    alone = [
        {meaning(issued[core][k]): issued[core][k] for k in on_shared[core] if found[core][k] is Reading.one}
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
