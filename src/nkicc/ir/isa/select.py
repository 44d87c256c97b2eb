"""Selection: one of two values per element, by position or by a predicate."""

from __future__ import annotations

from math import prod

from ..access import AccessPattern
from ..base import Inst, Scope
from ..errors import fail
from ..types import AluOp, DType
from .accumulate import Accumulate, ReduceCmd
from .alu import COMPARISONS, check_op
from .common import (
    FLOATS,
    LONG,
    WORD,
    AnyNumber,
    Operands,
    check_arch,
    check_dtype,
    check_integer,
    check_per_partition,
    check_tiles,
    not_both_in_psum,
    off_psum,
    per_partition,
    refuse_option,
    tiles_of,
)

__all__ = ["FLOAT32_MIN", "InstAffineSelect", "InstRangeSelect", "InstSelectReduce", "check_affine"]

FLOAT32_MIN = -(2 - 2.0**-23) * 2.0**127

_FLOAT32 = frozenset({DType.float32})
_RANGE_COMPARISONS = COMPARISONS - {AluOp.not_equal}
_PREDICATES = frozenset({DType.int8, DType.uint8, DType.int16, DType.uint16})
_MAX = frozenset({AluOp.max})
_CMDS = frozenset({ReduceCmd.reduce, ReduceCmd.reset_reduce})
#: Positions that float32 tells apart.
_MAX_POSITION = 1 << 24


class InstAffineSelect(Inst, frozen=True, kw_only=True):
    """dst[p, i] = on_true[p, i] if (offset + p · channel_multiplier + Σ index_k · step_k) cmp 0, else on_false, over
    `pattern` [[step, count], …] in 32-bit integers. Equal types are copied bit by bit, others cast through float32. On
    GpSimd, hence SBUF only (NKC030). Source: NKI documentation, nki.isa.affine_select."""

    dst: AccessPattern
    on_true: AccessPattern
    on_false: AnyNumber
    pattern: tuple[tuple[int, int], ...]
    channel_multiplier: int
    cmp: AluOp = AluOp.is_equal
    offset: int = 0

    def reads(self) -> Operands:
        return (self.on_true,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.on_true)
        off_psum(self, scope, self.dst, self.on_true)
        check_op(self, self.cmp, COMPARISONS, "cmp_op")
        check_affine(self, self.dst, self.pattern, self.offset, self.channel_multiplier)
        check_integer(self, self.on_false, "on_false_value", LONG)


class InstRangeSelect(Inst, frozen=True, kw_only=True):
    """dst[p, i] = on_true[p, i] if (range_start + i) cmp0 bound0[p] and (range_start + i) cmp1 bound1[p], else the
    lowest float32, for the row-major free position i. The bounds are float32 (P, 1) tiles, `on_true` is of floats,
    positions stay below 2^24. The accumulator takes the maximum. trn2 (BIR530).
    Source: NKI documentation, nki.isa.range_select."""

    dst: AccessPattern
    on_true: AccessPattern
    cmp0: AluOp
    cmp1: AluOp
    bound0: AccessPattern
    bound1: AccessPattern
    range_start: int = 0
    accumulate: Accumulate | None = None

    def reads(self) -> Operands:
        return (self.on_true, self.bound0, self.bound1)

    def writes(self) -> Operands:
        return (self.dst,) if self.accumulate is None else (self.dst, *self.accumulate.writes())

    def verify(self, scope: Scope) -> None:
        check_arch(self, scope, 30)
        check_tiles(self, scope, self.dst, self.on_true)
        check_op(self, self.cmp0, _RANGE_COMPARISONS, "comp_op0")
        check_op(self, self.cmp1, _RANGE_COMPARISONS, "comp_op1")
        check_dtype(self, scope, self.on_true, "on_true_tile", FLOATS)
        partitions = self.on_true.shape[0]
        check_per_partition(self, scope, self.bound0, "bound0", partitions, _FLOAT32)
        check_per_partition(self, scope, self.bound1, "bound1", partitions, _FLOAT32)
        last = self.range_start + per_partition(self.on_true) - 1
        if abs(self.range_start) > _MAX_POSITION or last > _MAX_POSITION:
            refuse_option(
                self,
                "range_start",
                self.range_start,
                f"integers that keep every position within {_MAX_POSITION}, as float32 counts them",
            )
        if self.accumulate is not None:
            self.accumulate.verify(self, scope, partitions, _MAX, _CMDS)


class InstSelectReduce(Inst, frozen=True, kw_only=True):
    """dst = on_true where predicate is not 0, else on_false; the other way round with `reverse_pred`. `on_false` is a
    constant or a (P, 1) tile; predicates have 8 or 16 bits, `on_true` is not of 32-bit integers, and not both are in
    PSUM (NKC030). The accumulator takes the maximum. Source: NKI documentation, nki.isa.select_reduce."""

    dst: AccessPattern
    predicate: AccessPattern
    on_true: AccessPattern
    on_false: AnyNumber | AccessPattern
    reverse_pred: bool = False
    accumulate: Accumulate | None = None

    def reads(self) -> Operands:
        return (self.predicate, self.on_true, *tiles_of(self.on_false))

    def writes(self) -> Operands:
        return (self.dst,) if self.accumulate is None else (self.dst, *self.accumulate.writes())

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.on_true, self.predicate)
        check_dtype(self, scope, self.predicate, "predicate", _PREDICATES)
        check_dtype(self, scope, self.on_true, "on_true", frozenset(DType) - {DType.int32, DType.uint32})
        not_both_in_psum(self, scope, self.on_true, self.predicate)
        partitions = self.on_true.shape[0]
        check_per_partition(self, scope, self.on_false, "on_false", partitions)
        if self.accumulate is not None:
            self.accumulate.verify(self, scope, partitions, _MAX, _CMDS)
            check_dtype(self, scope, self.accumulate.result, "reduce_res", FLOATS)


def check_affine(
    inst: Inst, dst: AccessPattern, pattern: tuple[tuple[int, int], ...], offset: int, channel_multiplier: int
) -> None:
    """Up to four [step, count] pairs (NKC034) that count the elements per partition of `dst` (NKC039), in numbers of at
    most 32 bits (NKC035)."""
    if not 1 <= len(pattern) <= 4:
        fail(
            "NKC034",
            inst=inst.label,
            expected="1 to 4",
            what="pairs of pattern",
            found=len(pattern),
            operand="pattern",
            loc=inst.loc,
        )
    if any(count < 1 or not WORD[0] <= step <= WORD[1] for step, count in pattern):
        refuse_option(
            inst,
            "pattern",
            [list(pair) for pair in pattern],
            f"[step, count] pairs with a step of {WORD[0]} to {WORD[1]} and a count of at least 1",
        )
    check_integer(inst, offset, "offset")
    check_integer(inst, channel_multiplier, "channel_multiplier")
    total = prod(count for _, count in pattern) * dst.shape[0]
    if total != dst.size:
        fail("NKC039", inst=inst.label, left=total, right=dst.size, operand="dst", loc=inst.loc)
