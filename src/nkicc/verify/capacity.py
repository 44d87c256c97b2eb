"""Does a core's program fit into SBUF and PSUM?

A tensor is alive from a write to the last read before the next write that starts afresh: between its last use and its
refilling the space is the allocator's to give to others. A loop is one point of program order, since its iterations
interleave. Sizes are bytes per partition: a tensor takes the same addresses on all partitions. The sum is a lower bound
(nothing is said of fragments), so what is refused cannot be allocated. What another core reads through an alias counts
where its own core uses it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from msgspec import Struct

from nkicc.ir.access import AccessPattern, Tensor
from nkicc.ir.base import Inst
from nkicc.ir.errors import fail
from nkicc.ir.program import Module, Program, walk
from nkicc.ir.types import Loc, Memory, Target

__all__ = ["check_capacity"]

_SHOWN = 5


class Life(Struct):
    """One life of a tensor: first and last position, whether it has been read, and the line where it begins."""

    tensor: Tensor
    first: int
    last: int
    loc: Loc | None
    was_read: bool = False


def check_capacity(module: Module) -> None:
    """NKC026, at the line whose tensor does not fit any more, if the live tensors of a core exceed SBUF or PSUM."""
    for program in module.programs:
        for core in range(len(program.cores)):
            _check_core(module, program, core)


def _check_core(module: Module, program: Program, core: int) -> None:
    for memory, have in _capacities(module.target):
        tensors = {
            t.name: t
            for t in (*program.tensors, *program.cores[core].tensors)
            if t.memory is memory and t.remote is None
        }
        if sum(t.partition_bytes for t in tensors.values()) > have:
            _check_lives(_lives(program, core, tensors), memory, have, module.target, core)


def _capacities(target: Target) -> tuple[tuple[Memory, int], ...]:
    return (Memory.sbuf, target.sbuf_partition_bytes), (Memory.psum, target.psum_partition_bytes)


def _lives(program: Program, core: int, tensors: dict[str, Tensor]) -> list[Life]:
    """The lives of the tensors that are used, by their beginnings."""
    lives: list[Life] = []
    current: dict[str, Life] = {}
    for position, outer in enumerate(program.cores[core].body):
        insts = list(walk((outer,)))
        read = {name for inst in insts for name in _read(inst)}
        for inst in insts:
            for name in (*[ap.tensor for ap in inst.writes()], *_read(inst)):
                if name not in tensors:
                    continue
                life = current.get(name)
                if life is None or (life.was_read and name not in read):
                    life = current[name] = Life(tensors[name], position, position, inst.loc or tensors[name].loc)
                    lives.append(life)
                life.last = position
                life.was_read = life.was_read or name in read
    return lives


def _read(inst: Inst) -> Iterator[str]:
    """The tensors whose content an instruction uses, those that hold its offsets included."""
    for ap in inst.reads():
        yield ap.tensor
    for ap in (*inst.writes(), *inst.reads()):
        for offset in (ap.scalar_offset, ap.vector_offset):
            if isinstance(offset, AccessPattern):
                yield offset.tensor


def _check_lives(lives: list[Life], memory: Memory, have: int, target: Target, core: int) -> None:
    need = 0
    ends: list[tuple[int, int]] = []  # (position of the last use, bytes) of the live tensors, as a heap
    for life in lives:
        while ends and ends[0][0] < life.first:
            need -= heapq.heappop(ends)[1]
        heapq.heappush(ends, (life.last, life.tensor.partition_bytes))
        need += life.tensor.partition_bytes
        if need <= have:
            continue
        live = [other for other in lives if other.first <= life.first <= other.last]
        largest = sorted((other.tensor for other in live), key=lambda t: (-t.partition_bytes, t.name))
        names = ", ".join(f"{t.name} ({t.partition_bytes})" for t in largest[:_SHOWN])
        more = f" and {len(largest) - _SHOWN} more" if len(largest) > _SHOWN else ""
        fail(
            "NKC026",
            memory=memory.value,
            need=need,
            target=target.value,
            have=have,
            tensors=names + more,
            core=core,
            loc=life.loc,
        )
