"""Index generation."""

from __future__ import annotations

import numpy as np

from nkicc.ir import isa

from .common import Array, Context, Step, rule

__all__ = ["affine"]


@rule(isa.InstIota)
def iota(inst: isa.InstIota, ctx: Context) -> Step:
    dst = ctx.view(inst.dst, inst)
    value = affine(dst.shape, inst.pattern, inst.offset, inst.channel_multiplier)
    return lambda: dst.write(value)


def affine(shape: tuple[int, ...], pattern: tuple[tuple[int, int], ...], offset: int, channel_multiplier: int) -> Array:
    """offset + p · channel_multiplier + Σ index_k · step_k in int32, which wraps around, as (1, *shape)."""
    counts = tuple(count for _, count in pattern)
    free = np.full(counts, offset, np.int64)
    for axis, (step, count) in enumerate(pattern):
        free += (np.arange(count) * step).reshape(-1, *[1] * (len(counts) - axis - 1))
    partitions = np.arange(shape[0]) * channel_multiplier
    return (partitions[:, None] + free.reshape(1, -1)).astype(np.int32).reshape(1, *shape)
