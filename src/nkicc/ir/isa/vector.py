"""The vector engine: element-wise arithmetic and reductions along the free dimensions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from ..access import AccessPattern
from ..base import Inst, Scope, verify_operands
from ..errors import fail
from ..types import AluOp, Engine
from .common import Number, Operands, check_tiles, on_chip

__all__ = ["InstTensorReduce", "InstTensorScalar", "InstTensorTensor"]


class InstTensorTensor(Inst, frozen=True, kw_only=True):
    """dst = data1 op data2, element by element."""

    dst: AccessPattern
    data1: AccessPattern
    data2: AccessPattern
    op: AluOp
    engine: Engine = Engine.unassigned

    def reads(self) -> Operands:
        return (self.data1, self.data2)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.data1, self.data2)


class InstTensorScalar(Inst, frozen=True, kw_only=True):
    """t = data op0 operand0; dst = t op1 operand1 (operands swapped if reversed). An operand is a constant or a (P, 1)
    tile."""

    dst: AccessPattern
    data: AccessPattern
    op0: AluOp
    operand0: Number | AccessPattern = 0
    reverse0: bool = False
    op1: AluOp | None = None
    operand1: Number | AccessPattern | None = None
    reverse1: bool = False
    engine: Engine = Engine.unassigned

    def reads(self) -> Operands:
        scalars = [o for o in (self.operand0, self.operand1) if isinstance(o, AccessPattern)]
        return (self.data, *scalars)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.data)
        verify_operands(self, scope)
        for operand in (self.operand0, self.operand1):
            if isinstance(operand, AccessPattern) and operand.size != self.data.shape[0]:
                fail(
                    "NKC033",
                    inst=self.label,
                    what="operand",
                    found=operand.shape,
                    expected=(self.data.shape[0], 1),
                    why="(one value per partition)",
                    operand="operand0",
                    loc=self.loc,
                )


class InstTensorReduce(Inst, frozen=True, kw_only=True):
    """dst = fold of data over its last `axes` dimensions."""

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
        shape = self.data.shape
        if self.axes >= len(shape):
            fail(
                "NKC035",
                inst=self.label,
                what="axis",
                found=self.axes,
                permitted="the last free axes",
                operand="axis",
                loc=self.loc,
            )
        kept = 1
        for extent in shape[: len(shape) - self.axes]:
            kept *= extent
        if self.dst.size != kept:
            fail("NKC039", inst=self.label, left=kept, right=self.dst.size, operand="dst", loc=self.loc)
