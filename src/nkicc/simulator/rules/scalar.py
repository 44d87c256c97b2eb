"""The scalar engine."""

from __future__ import annotations

from nkicc.ir import isa

from ..numerics import ACTIVATIONS, to_compute
from .common import Context, Step, rule, scalar_reader


@rule(isa.InstActivation)
def activation(inst: isa.InstActivation, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    ndim = len(data.shape) + 1
    function = ACTIVATIONS[inst.func]
    scale, bias = scalar_reader(inst, inst.scale, ctx, ndim), scalar_reader(inst, inst.bias, ctx, ndim)
    return lambda: dst.write(function(to_compute(data.read()) * to_compute(scale()) + to_compute(bias())))
