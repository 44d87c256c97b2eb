"""Scans of the vector engine: each element depends on the one before it in its partition, row-major."""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope
from ..types import AluOp, DType
from .accumulate import Accumulate, ReduceCmd
from .alu import UNARY, check_arithmetic, check_op
from .common import AnyNumber, Operands, check_dtype, check_per_partition, check_tiles, not_both_in_psum, tiles_of
from .vector import check_operand

__all__ = ["InstTensorScalarCumulative", "InstTensorTensorScan"]

_BINARY = frozenset(AluOp) - UNARY
_CUMULATIONS = frozenset({AluOp.add, AluOp.subtract, AluOp.mult, AluOp.max, AluOp.min})
_NO_WORDS = frozenset(DType) - {DType.int32, DType.uint32}


class InstTensorTensorScan(Inst, frozen=True, kw_only=True):
    """dst[i] = (data0[i] op0 dst[i - 1]) op1 data1[i], with `initial` before the first; the sides of an operation are
    swapped where reversed. Float32 throughout: what follows sees the value before the cast to `dst`. `initial` is a
    constant or a (P, 1) tile; not both inputs are in PSUM (NKC030).
    Source: NKI documentation, nki.isa.tensor_tensor_scan."""

    dst: AccessPattern
    data0: AccessPattern
    data1: AccessPattern
    initial: AnyNumber | AccessPattern
    op0: AluOp
    op1: AluOp
    reverse0: bool = False
    reverse1: bool = False

    def reads(self) -> Operands:
        return (self.data0, self.data1, *tiles_of(self.initial))

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.data0, self.data1)
        check_arithmetic(self, scope, (self.op0, self.op1))
        check_op(self, self.op0, _BINARY, "op0")
        check_op(self, self.op1, _BINARY, "op1")
        not_both_in_psum(self, scope, self.data0, self.data1)
        check_per_partition(self, scope, self.initial, "initial", self.data0.shape[0])


class InstTensorScalarCumulative(Inst, frozen=True, kw_only=True):
    """accumulator = dst[i] = (src[i] op0 operand0) op accumulator, for `op` of `accumulate`: add, subtract, mult, max
    or min. Float32; no 32-bit integers. Source: NKI documentation, nki.isa.tensor_scalar_cumulative."""

    dst: AccessPattern
    src: AccessPattern
    op0: AluOp
    operand0: AnyNumber | AccessPattern
    accumulate: Accumulate

    def reads(self) -> Operands:
        return (self.src, *tiles_of(self.operand0), *self.accumulate.reads())

    def writes(self) -> Operands:
        return (self.dst, *self.accumulate.writes())

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.src)
        check_arithmetic(self, scope, (self.op0,))
        check_dtype(self, scope, self.dst, "dst", _NO_WORDS)
        check_dtype(self, scope, self.src, "src", _NO_WORDS)
        partitions = self.src.shape[0]
        check_operand(self, scope, self.op0, self.operand0, "operand0", partitions, words=False)
        cmds = frozenset({ReduceCmd.reduce, ReduceCmd.reset_reduce, ReduceCmd.load_reduce})
        self.accumulate.verify(self, scope, partitions, _CUMULATIONS, cmds)
