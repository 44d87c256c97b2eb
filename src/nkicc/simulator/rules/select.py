"""Selection by position or by a predicate."""

from __future__ import annotations

import numpy as np

from nkicc.ir import isa
from nkicc.ir.isa.select import FLOAT32_MIN
from nkicc.ir.types import Engine

from ..numerics import assign, to_compute
from .accumulate import accumulate, forget
from .common import Array, Context, Step, function_of, rule, scalar_reader
from .index import affine
from .vector import shaped


@rule(isa.InstAffineSelect)
def affine_select(inst: isa.InstAffineSelect, ctx: Context) -> Step:
    dst, on_true = ctx.view(inst.dst, inst), ctx.view(inst.on_true, inst)
    values = affine(dst.shape, inst.pattern, inst.offset, inst.channel_multiplier)
    predicate = function_of(inst, inst.cmp)(values, np.zeros_like(values)) != 0
    on_false = np.empty((), dst.dtype)
    assign(on_false, np.asarray(float(inst.on_false), np.float32))
    same_dtype = on_true.dtype == dst.dtype
    shape = dst.shape

    def run() -> None:
        value = shaped(on_true.read(), shape)
        if not same_dtype:
            value = _cast(to_compute(value), dst.dtype)
        dst.write(np.where(predicate, value, on_false))

    return run


def _cast(value: Array, dtype: np.dtype) -> Array:
    out = np.empty(value.shape, dtype)
    assign(out, value)
    return out


@rule(isa.InstRangeSelect)
def range_select(inst: isa.InstRangeSelect, ctx: Context) -> Step:
    dst, on_true = ctx.view(inst.dst, inst), ctx.view(inst.on_true, inst)
    bound0, bound1 = scalar_reader(inst, inst.bound0, ctx, 3), scalar_reader(inst, inst.bound1, ctx, 3)
    first, second = function_of(inst, inst.cmp0), function_of(inst, inst.cmp1)
    partitions = dst.shape[0]
    count = inst.on_true.size // partitions
    position = np.arange(inst.range_start, inst.range_start + count).astype(np.float32)
    lowest = np.float32(FLOAT32_MIN)
    fold = inst.accumulate and accumulate(inst, inst.accumulate, ctx, Engine.dve, partitions)

    def run() -> None:
        inside = (first(position, bound0()) != 0) & (second(position, bound1()) != 0)
        value = np.where(inside, to_compute(shaped(on_true.read(), (partitions, count))), lowest)
        dst.write(value)
        if fold:
            fold(value)
        else:
            forget(ctx, Engine.dve)

    return run


@rule(isa.InstSelectReduce)
def select_reduce(inst: isa.InstSelectReduce, ctx: Context) -> Step:
    dst, on_true = ctx.view(inst.dst, inst), ctx.view(inst.on_true, inst)
    predicate = ctx.view(inst.predicate, inst)
    on_false = scalar_reader(inst, inst.on_false, ctx, len(dst.shape) + 1)
    shape, reverse = dst.shape, inst.reverse_pred
    fold = inst.accumulate and accumulate(inst, inst.accumulate, ctx, Engine.dve, shape[0])

    def run() -> None:
        chosen = (shaped(predicate.read(), shape) != 0) ^ reverse
        value = np.where(chosen, to_compute(shaped(on_true.read(), shape)), to_compute(on_false()))
        dst.write(value)
        if fold:
            fold(value)
        else:
            forget(ctx, Engine.dve)

    return run
