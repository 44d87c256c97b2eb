"""How the instruction streams of a rank's cores meet, and whether two operands touch: what passes need to know.

Cores meet at core barriers, at local collectives and at SB2SB moves. A pass that adds a meeting must add it on every
core between the same two neighbours, or it makes the cores wait for different things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from nkicc.ir.access import AccessPattern, Tensor
from nkicc.ir.base import Inst
from nkicc.ir.bir import InstCollectiveCompute, InstCoreBarrier, InstGPSIMDSB2SB
from nkicc.ir.program import LOOPS, InstLoop, InstWhile, Module, Program, walk

__all__ = ["Body", "is_fence", "is_local", "is_meeting", "map_cores", "overlap", "same_trips", "writes_any"]

Body = Sequence[Any]
Tensors = Mapping[str, Tensor]


def map_cores(module: Module, rewrite: Callable[[Program, list[Body]], list[Body]]) -> Module:
    """The module with the bodies of each program's cores rewritten together; the same object if nothing changed."""
    programs = []
    changed = False
    for program in module.programs:
        before: list[Body] = [part.body for part in program.cores]
        after = rewrite(program, before)
        if all(new is old for new, old in zip(after, before, strict=True)):
            programs.append(program)
            continue
        changed = True
        cores = [replace(part, body=tuple(new)) for part, new in zip(program.cores, after, strict=True)]
        programs.append(replace(program, cores=tuple(cores)))
    return replace(module, programs=tuple(programs)) if changed else module


def is_fence(inst: Inst, cores: int) -> bool:
    """Whether the instruction is an unconditional barrier of all cores."""
    return type(inst) is InstCoreBarrier and len(set(inst.cores)) == cores and inst.mask is None


def is_local(inst: Inst) -> bool:
    """Whether the instruction is a collective between the cores of a rank."""
    return type(inst) is InstCollectiveCompute and inst.is_local


def is_meeting(inst: Inst, cores: int) -> bool:
    """Whether the cores of a rank meet at this instruction or, in a loop, inside of it."""
    if isinstance(inst, LOOPS):
        return any(is_meeting(i, cores) for i in inst.body)
    if type(inst) is InstCoreBarrier:
        return len(set(inst.cores)) == cores
    return is_local(inst) or type(inst) is InstGPSIMDSB2SB


def same_trips(loops: Sequence[InstLoop | InstWhile]) -> bool:
    """Whether loops that meet inside run equally often, as far as their bounds are known."""
    trips = {
        len(range(loop.start, loop.stop, loop.step))
        for loop in loops
        if isinstance(loop, InstLoop) and loop.step and isinstance(loop.start, int) and isinstance(loop.stop, int)
    }
    return len(trips) <= 1


def overlap(a: AccessPattern, b: AccessPattern, tensors: Tensors) -> bool:
    """Whether two operands of one core may touch the same bytes: never wrongly False."""
    if a.tensor != b.tensor:
        return False
    tensor = tensors.get(a.tensor)
    if tensor is None or a.is_dynamic or b.is_dynamic:
        return True
    rows_a, columns_a = _rectangle(a, tensor)
    rows_b, columns_b = _rectangle(b, tensor)
    return _intersect(rows_a, rows_b) and _intersect(columns_a, columns_b)


def _rectangle(ap: AccessPattern, tensor: Tensor) -> tuple[tuple[int, int], tuple[int, int]]:
    """First and last row (index of dimension 0) and byte within a row that a static pattern reaches."""
    item = (ap.dtype or tensor.dtype).size
    pitch = tensor.partition_bytes
    first, low = divmod(ap.offset * item, pitch)
    last, high = first, low + item - 1
    for stride, count in ap.pattern:
        reach = stride * item * (count - 1)
        if stride * item % pitch == 0:
            first, last = first + min(reach // pitch, 0), last + max(reach // pitch, 0)
        else:
            low, high = low + min(reach, 0), high + max(reach, 0)
    if low < 0 or high >= pitch:
        first, last = first + low // pitch, last + high // pitch
        low, high = 0, pitch - 1
    return (first, last), (low, high)


def _intersect(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]


def writes_any(insts: Iterable[Any], operands: Sequence[AccessPattern], tensors: Tensors) -> bool:
    """Whether any of the instructions, loops included, may write any of the operands."""
    return any(overlap(w, ap, tensors) for inst in walk(insts) for w in inst.writes() for ap in operands)
