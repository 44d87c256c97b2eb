"""The scalar engine."""

from __future__ import annotations

from collections.abc import Callable

from nkicc.ir import isa
from nkicc.ir.types import ActFn, Engine

from ..activations import ACTIVATIONS, prelu
from ..numerics import to_compute
from .accumulate import accumulate
from .common import Array, Context, Step, function_of, rule, scalar_reader


@rule(isa.InstActivation)
def activation(inst: isa.InstActivation, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    ndim = len(data.shape) + 1
    function = ACTIVATIONS[inst.func]
    scale, bias = scalar_reader(inst, inst.scale, ctx, ndim), scalar_reader(inst, inst.bias, ctx, ndim)
    fold = inst.accumulate and accumulate(inst, inst.accumulate, ctx, Engine.activation, data.shape[0])

    def run() -> None:
        value = function(to_compute(data.read()) * to_compute(scale()) + to_compute(bias()))
        dst.write(value)
        if fold:
            fold(value)

    return run


@rule(isa.InstActivate2)
def activate2(inst: isa.InstActivate2, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    ndim = len(data.shape) + 1
    first, second = function_of(inst, inst.op0), function_of(inst, inst.op1)
    operand0, operand1 = scalar_reader(inst, inst.operand0, ctx, ndim), scalar_reader(inst, inst.operand1, ctx, ndim)
    reverse0, reverse1 = inst.reverse0, inst.reverse1
    function = _with_slope(inst, ctx, ndim)
    fold = inst.accumulate and accumulate(inst, inst.accumulate, ctx, Engine.activation, data.shape[0])

    def run() -> None:
        value, left, right = to_compute(data.read()), to_compute(operand0()), to_compute(operand1())
        value = first(left, value) if reverse0 else first(value, left)
        value = function(second(right, value) if reverse1 else second(value, right))
        dst.write(value)
        if fold:
            fold(value)

    return run


def _with_slope(inst: isa.InstActivate2, ctx: Context, ndim: int) -> Callable[[Array], Array]:
    if inst.func is not ActFn.prelu:
        return ACTIVATIONS[inst.func]
    slope = scalar_reader(inst, inst.slope, ctx, ndim)
    return lambda x: prelu(x, to_compute(slope()))
