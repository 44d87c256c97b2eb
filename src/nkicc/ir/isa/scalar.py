"""The scalar engine: activation functions, in float32, with one rounding into `dst`."""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope
from ..errors import fail
from ..types import ActFn, AluOp, DType
from .accumulate import Accumulate, ReduceCmd
from .common import AnyNumber, Operands, check_arch, check_per_partition, check_tiles, refuse_option, tiles_of

__all__ = ["InstActivate2", "InstActivation"]

_CMDS = frozenset(ReduceCmd) - {ReduceCmd.load_reduce}
#: The (op0, op1) of activate2.
_STAGES = frozenset(
    {
        (AluOp.mult, AluOp.add),
        (AluOp.mult, AluOp.subtract),
        (AluOp.mult, AluOp.bypass),
        (AluOp.add, AluOp.bypass),
        (AluOp.subtract, AluOp.bypass),
        (AluOp.bypass, AluOp.bypass),
    }
)
_FOLDS = frozenset({AluOp.add, AluOp.max, AluOp.min, AluOp.abs_max, AluOp.abs_min})


class InstActivation(Inst, frozen=True, kw_only=True):
    """dst = f(data · scale + bias). `scale` is a constant or a float32 (P, 1) tile, `bias` a constant or a (P, 1) tile
    of any type; trn1 has no constant bias other than 0, and none at all for the reciprocal (NKC035). The accumulator
    adds up. Source: NKI documentation, nki.isa.activation."""

    dst: AccessPattern
    data: AccessPattern
    func: ActFn
    bias: AnyNumber | AccessPattern = 0.0
    scale: AnyNumber | AccessPattern = 1.0
    accumulate: Accumulate | None = None

    def reads(self) -> Operands:
        return (self.data, *tiles_of(self.bias, self.scale))

    def writes(self) -> Operands:
        return (self.dst,) if self.accumulate is None else (self.dst, *self.accumulate.writes())

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.data)
        partitions = self.data.shape[0]
        check_per_partition(self, scope, self.scale, "scale", partitions, frozenset({DType.float32}))
        check_per_partition(self, scope, self.bias, "bias", partitions)
        constant = not isinstance(self.bias, AccessPattern)
        if scope.target.arch < 30 and (self.bias != 0 if constant else self.func is ActFn.reciprocal):
            refuse_option(
                self, "bias", self.bias if constant else "a tile", "on trn1 a (P, 1) tile, and none for the reciprocal"
            )
        if self.func is ActFn.prelu:
            refuse_option(
                self, "op", self.func.value, "functions without a parameter; activate2 takes the slope of prelu"
            )
        if self.accumulate is not None:
            self.accumulate.verify(self, scope, partitions, frozenset({AluOp.add}), _CMDS)


class InstActivate2(Inst, frozen=True, kw_only=True):
    """dst = f((data op0 operand0) op1 operand1), the sides swapped where reversed; `slope` is that of prelu for
    negative inputs. Operands are constants or (P, 1) tiles. The accumulator folds with add, max, min, abs_max or
    abs_min. trn3 (BIR530). Source: NKI documentation, nki.isa.activate2."""

    dst: AccessPattern
    data: AccessPattern
    func: ActFn
    op0: AluOp
    operand0: AnyNumber | AccessPattern
    op1: AluOp
    operand1: AnyNumber | AccessPattern
    reverse0: bool = False
    reverse1: bool = False
    slope: AnyNumber | AccessPattern = 0.0
    accumulate: Accumulate | None = None

    def reads(self) -> Operands:
        return (self.data, *tiles_of(self.operand0, self.operand1, self.slope))

    def writes(self) -> Operands:
        return (self.dst,) if self.accumulate is None else (self.dst, *self.accumulate.writes())

    def verify(self, scope: Scope) -> None:
        check_arch(self, scope, 40)
        check_tiles(self, scope, self.dst, self.data)
        partitions = self.data.shape[0]
        if (self.op0, self.op1) not in _STAGES:
            refuse_option(
                self,
                "op0/op1",
                f"{self.op0.value}/{self.op1.value}",
                ", ".join(sorted(f"{a.value}/{b.value}" for a, b in _STAGES)),
            )
        for what, op, reverse in (("reverse0", self.op0, self.reverse0), ("reverse1", self.op1, self.reverse1)):
            if reverse and op is AluOp.bypass:
                refuse_option(self, f"{what} without an operation", True, "False")
        for what, tile in (("operand0", self.operand0), ("operand1", self.operand1), ("slope", self.slope)):
            check_per_partition(self, scope, tile, what, partitions)
        left, right = self.operand0, self.operand1
        if isinstance(left, AccessPattern) and isinstance(right, AccessPattern):
            a, b = scope.dtype(left), scope.dtype(right)
            if a is not b:
                fail(
                    "NKC032",
                    inst=self.label,
                    left="imm0",
                    left_dtype=a.value,
                    right="imm1",
                    right_dtype=b.value,
                    operand="imm1",
                    loc=self.loc,
                )
        if self.accumulate is not None:
            self.accumulate.verify(self, scope, partitions, _FOLDS, _CMDS)
