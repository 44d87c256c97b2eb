"""The vector engine: element-wise arithmetic.

It computes in float32 and rounds once into `dst`. Two exceptions are exact: operations on bits, and arithmetic of which
every operand is a 32-bit integer, as far as the instruction says so.
"""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope
from ..errors import fail
from ..types import AluOp, DType, Engine
from .accumulate import Accumulate, ReduceCmd
from .alu import ACCUMULATIONS, BITVEC, UNARY, check_arithmetic, check_ops
from .common import (
    FLOATS,
    INTEGERS,
    AnyNumber,
    Operands,
    check_arch,
    check_dtype,
    check_engine,
    check_per_partition,
    check_tiles,
    not_both_in_psum,
    off_psum,
    refuse_option,
    tiles_of,
)

__all__ = [
    "InstExponential",
    "InstReciprocal",
    "InstScalarTensorTensor",
    "InstTensorScalar",
    "InstTensorTensor",
    "check_operand",
]

_WORDS = frozenset({DType.int32, DType.uint32})
#: (op0, op1) that the scalar engine has for tensor_scalar before trn3.
_SCALAR_ENGINE_OPS = frozenset({(AluOp.mult, AluOp.add), (AluOp.mult, None), (AluOp.add, None)})


class InstTensorTensor(Inst, frozen=True, kw_only=True):
    """dst = data1 op data2, element by element.

    On GpSimd with 32-bit integers only, which is the default for those in SBUF, arithmetic is that of integers and
    wraps around. The vector engine computes everything in float32. `pow` runs on GpSimd. GpSimd does not reach PSUM,
    and not both inputs are in PSUM (NKC030). Source: NKI documentation, nki.isa.tensor_tensor.
    """

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
        check_ops(self, scope, (self.op,), (self.dst, self.data1, self.data2))
        operands = (self.dst, self.data1, self.data2)
        check_engine(self, scope, self.engine, Engine.dve, Engine.pool, operands=operands)
        if self.op is AluOp.pow:
            off_psum(self, scope, *operands)
        not_both_in_psum(self, scope, self.data1, self.data2)
        if self.op in UNARY:
            refuse_option(self, "op", self.op.value, "an operation of two operands")


class InstTensorScalar(Inst, frozen=True, kw_only=True):
    """t = data op0 operand0; dst = t op1 operand1, the sides swapped where reversed.

    An operand is a constant or a (P, 1) tile; arithmetic takes tiles of float32, or of 32-bit integers if `data` and
    `dst` are such, too. With integer operands and 32-bit integer `data` and `dst` the arithmetic is that of integers
    and wraps around. A unary operation has the operand 0. Source: NKI documentation, nki.isa.tensor_scalar.
    """

    dst: AccessPattern
    data: AccessPattern
    op0: AluOp
    operand0: AnyNumber | AccessPattern = 0
    reverse0: bool = False
    op1: AluOp | None = None
    operand1: AnyNumber | AccessPattern | None = None
    reverse1: bool = False
    engine: Engine = Engine.unassigned

    def reads(self) -> Operands:
        return (self.data, *tiles_of(self.operand0, self.operand1))

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.data)
        ops = (self.op0,) if self.op1 is None else (self.op0, self.op1)
        check_ops(self, scope, ops, (self.dst, self.data))
        words = scope.dtype(self.data) in _WORDS and scope.dtype(self.dst) in _WORDS
        check_operand(self, scope, self.op0, self.operand0, "operand0", self.data.shape[0], words)
        check_operand(self, scope, self.op1, self.operand1, "operand1", self.data.shape[0], words)
        self._verify_engine(scope)

    def _verify_engine(self, scope: Scope) -> None:
        operands = (self.dst, self.data, *tiles_of(self.operand0, self.operand1))
        check_engine(self, scope, self.engine, Engine.dve, Engine.activation, Engine.pool, operands=operands)
        found = self.op0.value if self.op1 is None else f"{self.op0.value}/{self.op1.value}"
        bits = self.op0 in BITVEC
        if self.engine is Engine.pool and (self.op0, self.op1) != (AluOp.rsqrt, None):
            refuse_option(self, "op", found, "rsqrt alone on GpSimd")
        if self.engine is Engine.activation and (
            bits or (scope.target.arch < 40 and (self.op0, self.op1) not in _SCALAR_ENGINE_OPS)
        ):
            refuse_option(self, "op", found, "mult/add, mult or add on the scalar engine, from trn3 all but bits")


class InstScalarTensorTensor(Inst, frozen=True, kw_only=True):
    """dst = (data op0 operand0) op1 operand1, the sides swapped where reversed; operand0 is a constant or a (P, 1) tile
    of any type, operand1 a tile like `data`. Arithmetic in float32; `data` and operand1 are not both in PSUM (NKC030).
    Source: NKI documentation, nki.isa.scalar_tensor_tensor."""

    dst: AccessPattern
    data: AccessPattern
    op0: AluOp
    operand0: AnyNumber | AccessPattern
    op1: AluOp
    operand1: AccessPattern
    reverse0: bool = False
    reverse1: bool = False
    accumulate: Accumulate | None = None

    def reads(self) -> Operands:
        return (self.data, self.operand1, *tiles_of(self.operand0))

    def writes(self) -> Operands:
        return (self.dst,) if self.accumulate is None else (self.dst, *self.accumulate.writes())

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.data, self.operand1)
        check_arithmetic(self, scope, (self.op0, self.op1))
        not_both_in_psum(self, scope, self.data, self.operand1)
        check_per_partition(self, scope, self.operand0, "operand0", self.data.shape[0])
        if self.accumulate is not None:
            cmds = frozenset({ReduceCmd.reduce, ReduceCmd.reset_reduce})
            self.accumulate.verify(self, scope, self.data.shape[0], ACCUMULATIONS, cmds)


class InstReciprocal(Inst, frozen=True, kw_only=True):
    """dst = 1 / data in float32. Source: NKI documentation, nki.isa.reciprocal."""

    dst: AccessPattern
    data: AccessPattern

    def reads(self) -> Operands:
        return (self.data,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.data)


class InstExponential(Inst, frozen=True, kw_only=True):
    """dst = exp(src - max_value) in float32; max_value is a constant or a float32 (P, 1) tile. The accumulator sums.
    trn3 (BIR530). Source: NKI documentation, nki.isa.exponential."""

    dst: AccessPattern
    src: AccessPattern
    max_value: AnyNumber | AccessPattern = 0.0
    accumulate: Accumulate | None = None

    def reads(self) -> Operands:
        own = (self.src, *tiles_of(self.max_value))
        return own if self.accumulate is None else (*own, *self.accumulate.reads())

    def writes(self) -> Operands:
        return (self.dst,) if self.accumulate is None else (self.dst, *self.accumulate.writes())

    def verify(self, scope: Scope) -> None:
        check_arch(self, scope, 40)
        check_tiles(self, scope, self.dst, self.src)
        check_dtype(self, scope, self.dst, "dst", frozenset(DType) - {DType.uint32})
        for what, tile in (("dst", self.dst), ("src", self.src)):
            if len(tile.shape) > 4:
                fail(
                    "NKC034",
                    inst=self.label,
                    expected="up to 4",
                    what=f"dimensions of {what}",
                    found=len(tile.shape),
                    operand=what,
                    loc=self.loc,
                )
        partitions = self.src.shape[0]
        check_per_partition(self, scope, self.max_value, "max_value", partitions, frozenset({DType.float32}))
        if self.accumulate is not None:
            cmds = frozenset({ReduceCmd.reduce, ReduceCmd.reset_reduce, ReduceCmd.load_reduce})
            self.accumulate.verify(self, scope, partitions, frozenset({AluOp.add}), cmds)
            check_dtype(self, scope, self.accumulate.result, "reduce_res", FLOATS)


def check_operand(
    inst: Inst,
    scope: Scope,
    op: AluOp | None,
    operand: AnyNumber | AccessPattern | None,
    what: str,
    partitions: int,
    words: bool,
) -> None:
    """The scalar operand of an operation: none without an operation and none for a unary one, else a constant or a
    (P, 1) tile, integers for bits and float32 for arithmetic (or 32-bit integers if `words`). NKC033, NKC035."""
    if op is None or op in UNARY or op is AluOp.bypass:
        good, permitted = operand is None or (type(operand) in (int, float) and operand == 0), "None or 0"
    elif op in BITVEC:
        good, permitted = isinstance(operand, int | AccessPattern), "an integer or a tile of integers"
    else:
        good, permitted = operand is not None, "a number or a (P, 1) tile"
    if not good:
        refuse_option(
            inst,
            f"{what} of {op.value if op else 'no operation'}",
            operand.tensor if isinstance(operand, AccessPattern) else operand,
            permitted,
        )
    dtypes = INTEGERS if op in BITVEC else (_WORDS | {DType.float32}) if words else frozenset({DType.float32})
    check_per_partition(inst, scope, operand, what, partitions, dtypes)
