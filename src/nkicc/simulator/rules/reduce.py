"""Reductions along the free dimensions and across partitions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nkicc.ir import isa
from nkicc.ir.isa.alu import BITVEC
from nkicc.ir.types import AluOp, Engine

from ..numerics import to_compute
from .accumulate import accumulate
from .common import Array, Context, Step, entry, function_of, rule, scalar_reader

_LOGICAL: dict[AluOp, np.ufunc] = {
    AluOp.logical_and: np.logical_and,
    AluOp.logical_or: np.logical_or,
    AluOp.logical_xor: np.logical_xor,
}


@rule(isa.InstTensorReduce)
def tensor_reduce(inst: isa.InstTensorReduce, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    fold = _fold_of(inst)
    enter = entry(inst, (inst.op,), (data, dst), exact=False)
    kept = data.shape[: len(data.shape) - inst.axes]
    negate = inst.negate

    def run() -> None:
        value = enter(data.read())
        value = fold(value.reshape(value.shape[0], *kept, -1))
        dst.write(-value if negate else value)

    return run


def _fold_of(inst: isa.InstTensorReduce) -> Callable[[Array], Array]:
    """The fold over the last axis."""
    logical = _LOGICAL.get(inst.op)
    if logical is not None:
        return lambda value: logical.reduce(value, axis=-1).astype(np.float32)
    function = function_of(inst, inst.op)
    assert isinstance(function, np.ufunc)
    return lambda value: function.reduce(value, axis=-1, dtype=value.dtype)


@rule(isa.InstTensorPartitionReduce)
def tensor_partition_reduce(inst: isa.InstTensorPartitionReduce, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    if inst.op in BITVEC:
        bits = function_of(inst, inst.op)
        assert isinstance(bits, np.ufunc)
        return lambda: dst.write(bits.reduce(data.read(), axis=1, keepdims=True))
    function: Callable[..., Array] = {AluOp.add: np.sum, AluOp.average: np.mean, AluOp.max: np.max}[inst.op]
    return lambda: dst.write(function(to_compute(data.read()), axis=1, keepdims=True))


@rule(isa.InstTensorScalarReduce)
def tensor_scalar_reduce(inst: isa.InstTensorScalarReduce, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    operand = scalar_reader(inst, inst.operand0, ctx, len(data.shape) + 1)
    function = function_of(inst, inst.op0)
    fold = accumulate(inst, inst.accumulate, ctx, Engine.dve, data.shape[0])

    def run() -> None:
        value = function(to_compute(data.read()), to_compute(operand()))
        dst.write(value)
        fold(value)

    return run
