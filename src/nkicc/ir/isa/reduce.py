"""Reductions along the free dimensions (vector engine) and across partitions (GpSimd)."""

from __future__ import annotations

from math import prod
from typing import Annotated

from msgspec import Meta

from ..access import AccessPattern
from ..base import Inst, Scope, verify_operands
from ..errors import fail
from ..types import AluOp
from .accumulate import Accumulate, ReduceCmd
from .alu import ACCUMULATIONS, BITVEC, REDUCTIONS, check_arithmetic, check_op, check_ops
from .common import AnyNumber, Operands, check_tiles, off_psum, on_chip, refuse_option, tiles_of
from .vector import check_operand

__all__ = ["InstTensorPartitionReduce", "InstTensorReduce", "InstTensorScalarReduce"]

_PARTITION_REDUCTIONS = frozenset({AluOp.add, AluOp.average, AluOp.max, AluOp.bitwise_or, AluOp.bitwise_and})


class InstTensorReduce(Inst, frozen=True, kw_only=True):
    """dst = fold of data over its last `axes` dimensions, left to right: for `subtract` the first element minus all
    others. Float32, or bits of integers; `negate` multiplies an arithmetic result by -1.
    Source: NKI documentation, nki.isa.tensor_reduce."""

    dst: AccessPattern
    data: AccessPattern
    op: AluOp
    axes: Annotated[int, Meta(ge=1, le=4)]
    negate: bool = False

    def reads(self) -> Operands:
        return (self.data,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        on_chip(self, scope, self.dst, self.data)
        check_op(self, self.op, REDUCTIONS)
        check_ops(self, scope, (self.op,), (self.dst, self.data))
        shape = self.data.shape
        if self.axes >= len(shape):
            refuse_option(self, "axis", self.axes, "the last free axes")
        if self.negate and self.op in BITVEC:
            refuse_option(self, f"negate with {self.op.value}", True, "False; only arithmetic results have a sign")
        kept = shape[: len(shape) - self.axes]
        if self.dst.size != prod(kept):
            fail("NKC039", inst=self.label, left=prod(kept), right=self.dst.size, operand="dst", loc=self.loc)
        if self.dst.shape[0] != shape[0]:
            fail(
                "NKC033",
                inst=self.label,
                what="dst",
                found=self.dst.shape,
                expected=kept,
                why="(the partitions of data)",
                operand="dst",
                loc=self.loc,
            )


class InstTensorPartitionReduce(Inst, frozen=True, kw_only=True):
    """dst[0, …] = fold of data over its partitions: add, max and average in float32, or bits of integers. On GpSimd,
    hence SBUF only (NKC030). Source: NKI documentation, nki.isa.tensor_partition_reduce."""

    dst: AccessPattern
    data: AccessPattern
    op: AluOp

    def reads(self) -> Operands:
        return (self.data,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        off_psum(self, scope, self.dst, self.data)
        check_op(self, self.op, _PARTITION_REDUCTIONS)
        if self.op in BITVEC:
            check_ops(self, scope, (self.op,), (self.dst, self.data))
        free = self.data.shape[1:]
        if self.dst.shape[0] != 1 or self.dst.size != prod(free):
            fail(
                "NKC033",
                inst=self.label,
                what="dst",
                found=self.dst.shape,
                expected=(1, *free),
                why="(data with one partition)",
                operand="dst",
                loc=self.loc,
            )


class InstTensorScalarReduce(Inst, frozen=True, kw_only=True):
    """dst = data op0 operand0 in float32, and the accumulator folds those values with add, mult, max or min. Arithmetic
    only; at most three free dimensions. Source: NKI documentation, nki.isa.tensor_scalar_reduce."""

    dst: AccessPattern
    data: AccessPattern
    op0: AluOp
    operand0: AnyNumber | AccessPattern
    accumulate: Accumulate

    def reads(self) -> Operands:
        return (self.data, *tiles_of(self.operand0), *self.accumulate.reads())

    def writes(self) -> Operands:
        return (self.dst, *self.accumulate.writes())

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.data)
        check_arithmetic(self, scope, (self.op0,))
        partitions = self.data.shape[0]
        check_operand(self, scope, self.op0, self.operand0, "operand0", partitions, words=False)
        for what, tile in (("dst", self.dst), ("data", self.data)):
            if len(tile.shape) > 4:
                fail(
                    "NKC034",
                    inst=self.label,
                    expected="up to 3",
                    what=f"free dimensions of {what}",
                    found=len(tile.shape) - 1,
                    operand=what,
                    loc=self.loc,
                )
        cmds = frozenset({ReduceCmd.reduce, ReduceCmd.reset_reduce, ReduceCmd.load_reduce})
        self.accumulate.verify(self, scope, partitions, ACCUMULATIONS, cmds)
