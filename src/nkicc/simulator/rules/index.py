"""Index generation and selection."""

from __future__ import annotations

import numpy as np

from nkicc.ir import isa

from .common import Context, Step, rule


@rule(isa.InstIota)
def iota(inst: isa.InstIota, ctx: Context) -> Step:
    dst = ctx.view(inst.dst, inst)
    shape = tuple(count for _, count in inst.pattern)
    free = np.full(shape, inst.offset, np.int64)
    for axis, (step, count) in enumerate(inst.pattern):
        free += (np.arange(count) * step).reshape(-1, *[1] * (len(shape) - axis - 1))
    partitions = np.arange(dst.shape[0]) * inst.channel_multiplier
    value = (partitions[:, None] + free.reshape(1, -1)).astype(np.int32).reshape(1, *dst.shape)
    return lambda: dst.write(value)
