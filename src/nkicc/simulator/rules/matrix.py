"""The tensor engine."""

from __future__ import annotations

import numpy as np

from nkicc.ir import isa
from nkicc.ir.access import AccessPattern

from ..numerics import to_compute
from .common import Array, Context, Step, rule


@rule(isa.InstMatmul)
def matmul(inst: isa.InstMatmul, ctx: Context) -> Step:
    dst = ctx.view(inst.dst, inst)
    stationary, moving = ctx.view(inst.stationary, inst), ctx.view(inst.moving, inst)
    k = inst.stationary.shape[0]
    buffer = dst.buffer
    size = buffer.tensor.size
    flags_index = _flat_index(inst.dst)

    def run() -> None:
        a, b = stationary.read(), moving.read()
        a = to_compute(a.reshape(a.shape[0], k, -1)).swapaxes(1, 2)
        b = to_compute(b.reshape(b.shape[0], k, -1))
        value = np.matmul(a, b)
        value = value.reshape(value.shape[0], *dst.shape)
        if buffer.started is None:
            buffer.started = np.zeros(size, bool)
        started = buffer.started[flags_index]
        if inst.accumulate is True or (inst.accumulate is None and started.all()):
            value = to_compute(dst.read()) + value
        elif inst.accumulate is None and started.any():
            value = np.where(started, to_compute(dst.read()) + value, value)
        buffer.started[flags_index] = True
        dst.write(value)

    return run


def _flat_index(ap: AccessPattern) -> Array:
    """Element indices of a static pattern, in the pattern's shape."""
    index = np.full(ap.shape, ap.offset, np.intp)
    for axis, (stride, count) in enumerate(ap.pattern):
        steps = np.arange(count) * stride
        index += steps.reshape(-1, *[1] * (len(ap.pattern) - axis - 1))
    return index


@rule(isa.InstTranspose)
def transpose(inst: isa.InstTranspose, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    partitions = data.shape[0]

    def run() -> None:
        value = data.read()
        dst.write(value.reshape(value.shape[0], partitions, -1).swapaxes(1, 2))

    return run
