"""Mean and variance of sets of elements, as tuples (count, mean, variance · count)."""

from __future__ import annotations

import numpy as np

from nkicc.ir import isa

from ..numerics import to_compute
from .common import Array, Context, Step, rule


@rule(isa.InstBnStats)
def bn_stats(inst: isa.InstBnStats, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    partitions = data.shape[0]

    def run() -> None:
        value = data.read()
        value = to_compute(value.reshape(value.shape[0], partitions, -1))
        stats = np.empty((value.shape[0], partitions, 2, 3), np.float32)
        for half in range(2):
            _describe(value[..., half::2], stats[..., half, :])
        dst.write(stats)

    return run


def _describe(elements: Array, out: Array) -> None:
    """The tuple of the elements along the last axis. An empty set has mean and variance 0."""
    count = elements.shape[-1]
    mean = elements.sum(axis=-1) / np.float32(max(count, 1))
    out[..., 0] = count
    out[..., 1] = mean
    out[..., 2] = np.square(elements - mean[..., None]).sum(axis=-1)


@rule(isa.InstBnAggr)
def bn_aggr(inst: isa.InstBnAggr, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    partitions = data.shape[0]

    def run() -> None:
        value = data.read()
        sets = to_compute(value).reshape(value.shape[0], partitions, -1, 3)
        count, mean, spread = sets[..., 0], sets[..., 1], sets[..., 2]
        total = count.sum(axis=-1)
        whole = (count * mean).sum(axis=-1) / total
        between = (count * np.square(mean - whole[..., None])).sum(axis=-1)
        dst.write(np.stack([whole, (spread.sum(axis=-1) + between) / total], axis=-1))

    return run
