"""The vector engine: element-wise arithmetic."""

from __future__ import annotations

import numpy as np

from nkicc.ir import isa
from nkicc.ir.access import AccessPattern
from nkicc.ir.isa.alu import BITVEC
from nkicc.ir.types import Engine, Memory

from ..memory import AnyView
from ..numerics import is_integer, to_compute
from .accumulate import accumulate, forget
from .common import Array, Context, Step, entry, function_of, rule, scalar_reader

__all__ = ["finish", "shaped"]


@rule(isa.InstTensorTensor)
def tensor_tensor(inst: isa.InstTensorTensor, ctx: Context) -> Step:
    dst, data1, data2 = ctx.view(inst.dst, inst), ctx.view(inst.data1, inst), ctx.view(inst.data2, inst)
    function = function_of(inst, inst.op)
    operands = (inst.dst, inst.data1, inst.data2)
    on_gpsimd = inst.engine is not Engine.dve and all(ctx.memory(ap) is not Memory.psum for ap in operands)
    enter = entry(inst, (inst.op,), (data1, data2, dst), exact=on_gpsimd)
    bits = inst.op in BITVEC
    shape = dst.shape

    def run() -> None:
        a, b = shaped(data1.read(), shape), shaped(data2.read(), shape)
        if bits:
            b = b.astype(a.dtype)
        finish(dst, function(enter(a), enter(b)))

    return run


@rule(isa.InstTensorScalar)
def tensor_scalar(inst: isa.InstTensorScalar, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    ndim = len(data.shape) + 1
    stages = [(inst.op0, inst.operand0, inst.reverse0)]
    if inst.op1 is not None:
        stages.append((inst.op1, 0 if inst.operand1 is None else inst.operand1, inst.reverse1))
    tiles = [ctx.view(operand, inst) for _, operand, _ in stages if isinstance(operand, AccessPattern)]
    whole = all(isinstance(operand, int | AccessPattern) for _, operand, _ in stages)
    enter = entry(inst, tuple(op for op, _, _ in stages), (data, dst, *tiles), exact=whole)
    compiled = [
        (function_of(inst, op), scalar_reader(inst, operand, ctx, ndim), reverse) for op, operand, reverse in stages
    ]
    bits = inst.op0 in BITVEC

    def run() -> None:
        value = enter(data.read())
        for function, scalar, reverse in compiled:
            operand = scalar()
            operand = operand.astype(value.dtype) if bits else enter(operand)
            value = function(operand, value) if reverse else function(value, operand)
        finish(dst, value)

    return run


@rule(isa.InstScalarTensorTensor)
def scalar_tensor_tensor(inst: isa.InstScalarTensorTensor, ctx: Context) -> Step:
    dst, data, operand1 = ctx.view(inst.dst, inst), ctx.view(inst.data, inst), ctx.view(inst.operand1, inst)
    operand0 = scalar_reader(inst, inst.operand0, ctx, len(data.shape) + 1)
    first, second = function_of(inst, inst.op0), function_of(inst, inst.op1)
    reverse0, reverse1 = inst.reverse0, inst.reverse1
    shape = data.shape
    fold = inst.accumulate and accumulate(inst, inst.accumulate, ctx, Engine.dve, shape[0])

    def run() -> None:
        value, scalar = to_compute(data.read()), to_compute(operand0())
        value = first(scalar, value) if reverse0 else first(value, scalar)
        other = to_compute(shaped(operand1.read(), shape))
        value = second(other, value) if reverse1 else second(value, other)
        dst.write(value)
        if fold:
            fold(value)

    return run


@rule(isa.InstReciprocal)
def reciprocal(inst: isa.InstReciprocal, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    return lambda: dst.write(np.float32(1) / to_compute(data.read()))


@rule(isa.InstExponential)
def exponential(inst: isa.InstExponential, ctx: Context) -> Step:
    dst, src = ctx.view(inst.dst, inst), ctx.view(inst.src, inst)
    largest = scalar_reader(inst, inst.max_value, ctx, len(src.shape) + 1)
    fold = inst.accumulate and accumulate(inst, inst.accumulate, ctx, Engine.dve, src.shape[0])

    def run() -> None:
        value = np.exp(to_compute(src.read()) - to_compute(largest()))
        dst.write(value)
        if fold:
            fold(value)
        else:
            forget(ctx, Engine.dve)

    return run


def shaped(value: Array, shape: tuple[int, ...]) -> Array:
    """`value`, (rows, …), with the elements of each row in `shape`, row-major."""
    return value if value.shape[1:] == shape else value.reshape(value.shape[0], *shape)


def finish(dst: AnyView, value: Array) -> None:
    """Write a result: integers wrap around in the integers of `dst`, floats are cast."""
    if is_integer(value.dtype) and is_integer(dst.dtype):
        value = value.astype(dst.dtype)
    dst.write(value)
