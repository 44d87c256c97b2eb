"""Does a core's program fit into SBUF and PSUM?

A tensor lives from its first to its last use in program order; a loop is one point of that order, since its iterations
interleave. Sizes are bytes per partition: a tensor takes the same addresses on all partitions. What another core reads
through an alias counts where its own core uses it.
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
    """First and last position at which a tensor is used, and the line of the first use."""

    tensor: Tensor
    first: int
    last: int
    loc: Loc | None


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
    """The lives of the tensors that are used, by first use."""
    lives: dict[str, Life] = {}
    for position, outer in enumerate(program.cores[core].body):
        for inst in walk((outer,)):
            for name in _used(inst):
                if name not in tensors:
                    continue
                life = lives.get(name)
                if life is None:
                    lives[name] = Life(tensors[name], position, position, inst.loc or tensors[name].loc)
                else:
                    life.last = position
    return list(lives.values())


def _used(inst: Inst) -> Iterator[str]:
    for ap in (*inst.writes(), *inst.reads()):
        yield ap.tensor
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
