"""The vector engine."""

from __future__ import annotations

import numpy as np

from nkicc.ir import isa
from nkicc.ir.access import AccessPattern
from nkicc.ir.errors import fail
from nkicc.ir.types import AluOp

from ..numerics import BITVEC, to_compute
from .common import Context, Number, Step, entry, function_of, rule, scalar_reader


@rule(isa.InstTensorTensor)
def tensor_tensor(inst: isa.InstTensorTensor, ctx: Context) -> Step:
    dst, data1, data2 = ctx.view(inst.dst, inst), ctx.view(inst.data1, inst), ctx.view(inst.data2, inst)
    function = function_of(inst, inst.op)
    enter = entry(inst, (inst.op,), (data1, data2, dst))
    shape = dst.shape

    def run() -> None:
        a, b = data1.read(), data2.read()
        if a.shape[1:] != shape:
            a = a.reshape(a.shape[0], *shape)
        if b.shape[1:] != shape:
            b = b.reshape(b.shape[0], *shape)
        dst.write(function(enter(a), enter(b)))

    return run


@rule(isa.InstTensorScalar)
def tensor_scalar(inst: isa.InstTensorScalar, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    ndim = len(data.shape) + 1
    stages: list[tuple[AluOp, Number, bool]] = [(inst.op0, inst.operand0, inst.reverse0)]
    if inst.op1 is not None:
        stages.append((inst.op1, inst.operand1, inst.reverse1))
    whole = all(isinstance(o, AccessPattern | int) for _, o, _ in stages)
    views = (data, dst) if whole else (data,)
    enter = entry(inst, tuple(op for op, _, _ in stages), views)
    if not whole and not any(op in BITVEC for op, _, _ in stages):
        enter = to_compute
    compiled = [
        (function_of(inst, op), scalar_reader(inst, operand, ctx, ndim), reverse) for op, operand, reverse in stages
    ]
    bits = any(op in BITVEC for op, _, _ in stages)

    def run() -> None:
        value = enter(data.read())
        for function, scalar, reverse in compiled:
            operand = scalar()
            operand = operand.astype(value.dtype) if bits else enter(operand)
            value = function(operand, value) if reverse else function(value, operand)
        dst.write(value)

    return run


@rule(isa.InstTensorReduce)
def tensor_reduce(inst: isa.InstTensorReduce, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    function = function_of(inst, inst.op)
    if not isinstance(function, np.ufunc):
        fail("NKC053", op=inst.op.value, inst=inst.label, operand="op", loc=inst.loc)
    axes = tuple(range(-inst.axes, 0))
    enter = entry(inst, (inst.op,), (data, dst))
    negate = inst.negate

    def run() -> None:
        value = function.reduce(enter(data.read()), axis=axes)
        dst.write(-value if negate else value)

    return run
