"""Scans: a loop over the elements of a partition where NumPy has no accumulation of that kind."""

from __future__ import annotations

import numpy as np

from nkicc.ir import isa
from nkicc.ir.types import AluOp, Engine

from ..numerics import to_compute
from .accumulate import hold, starter, writer
from .common import Array, Context, Step, function_of, rule, scalar_reader


@rule(isa.InstTensorTensorScan)
def tensor_tensor_scan(inst: isa.InstTensorTensorScan, ctx: Context) -> Step:
    dst, data0, data1 = ctx.view(inst.dst, inst), ctx.view(inst.data0, inst), ctx.view(inst.data1, inst)
    initial = scalar_reader(inst, inst.initial, ctx, 2)
    first, second = function_of(inst, inst.op0), function_of(inst, inst.op1)
    reverse0, reverse1 = inst.reverse0, inst.reverse1
    partitions = dst.shape[0]

    def run() -> None:
        a, b = _columns(data0.read(), partitions), _columns(data1.read(), partitions)
        state = to_compute(initial())
        rows = max(a.shape[1], b.shape[1], state.shape[0] if state.ndim else 1)
        out = np.empty((len(a), rows, partitions), np.float32)
        for i in range(len(a)):
            state = first(state, a[i]) if reverse0 else first(a[i], state)
            state = second(b[i], state) if reverse1 else second(state, b[i])
            out[i] = state
        dst.write(np.moveaxis(out, 0, -1))

    return run


def _columns(value: Array, partitions: int) -> Array:
    """(rows, P, free…) as float32 (free, rows, P), one contiguous column after the other."""
    value = to_compute(value.reshape(value.shape[0], partitions, -1))
    return np.ascontiguousarray(np.moveaxis(value, -1, 0))


@rule(isa.InstTensorScalarCumulative)
def tensor_scalar_cumulative(inst: isa.InstTensorScalarCumulative, ctx: Context) -> Step:
    dst, src = ctx.view(inst.dst, inst), ctx.view(inst.src, inst)
    operand = scalar_reader(inst, inst.operand0, ctx, 3)
    function, cumulate = function_of(inst, inst.op0), function_of(inst, inst.accumulate.op)
    partitions = dst.shape[0]
    start, write = starter(inst, inst.accumulate, ctx, Engine.dve, partitions), writer(inst, inst.accumulate, ctx)
    subtracts = inst.accumulate.op is AluOp.subtract
    assert isinstance(cumulate, np.ufunc)

    def run() -> None:
        value = src.read()
        value = function(to_compute(value.reshape(value.shape[0], partitions, -1)), to_compute(operand()))
        total = start()
        if subtracts:
            value = _differences(value, total)
        else:
            rows = max(value.shape[0], total.shape[0])
            value = np.array(np.broadcast_to(value, (rows, *value.shape[1:])))
            value[..., 0] = cumulate(value[..., 0], total)
            value = cumulate.accumulate(value, axis=-1)
        hold(ctx, Engine.dve, value[..., -1].copy())
        dst.write(value)
        write(value[..., -1])

    return run


def _differences(value: Array, total: Array) -> Array:
    """total = out[i] = value[i] - total, one after the other."""
    out = np.empty((max(value.shape[0], total.shape[0]), *value.shape[1:]), np.float32)
    for i in range(value.shape[-1]):
        out[..., i] = total = value[..., i] - total
    return out
