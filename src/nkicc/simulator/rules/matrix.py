"""The tensor engine."""

from __future__ import annotations

import numpy as np

from nkicc.ir import isa
from nkicc.ir.errors import fail

from ..memory import View
from ..numerics import to_compute
from .common import Array, Context, Step, rule


@rule(isa.InstMatmul)
def matmul(inst: isa.InstMatmul, ctx: Context) -> Step:
    dst = ctx.view(inst.dst, inst)
    stationary, moving = ctx.view(inst.stationary, inst), ctx.view(inst.moving, inst)
    # double_row contracts the first free dimension too; flattened with the partitions it is part of k.
    k = inst.stationary.shape[0] * (2 if inst.double_row else 1)
    multiply = _select if inst.is_transpose else _multiply
    accumulate = inst.accumulate
    shape = dst.shape

    def run() -> None:
        a, b = stationary.read(), moving.read()
        value = multiply(inst, a.reshape(a.shape[0], k, -1), b.reshape(b.shape[0], k, -1))
        value = value.reshape(value.shape[0], *shape)
        started = _start(dst, ctx) if type(dst) is View else None
        if accumulate is True or (accumulate is None and started is True):
            value = to_compute(dst.read()) + to_compute(value)
        elif accumulate is None and started is not None and started is not False:
            value = np.where(started, to_compute(dst.read()) + to_compute(value), value)
        dst.write(value)

    return run


def _multiply(inst: isa.InstMatmul, stationary: Array, moving: Array) -> Array:
    return np.matmul(to_compute(stationary).swapaxes(1, 2), to_compute(moving))


def _select(inst: isa.InstMatmul, stationary: Array, moving: Array) -> Array:
    """Transpose mode: column n of `moving` has a single one, which names the partition that becomes column n."""
    ones = moving != 0
    source = ones.argmax(axis=1)
    if (ones.sum(axis=1) != 1).any() or (np.take_along_axis(moving, source[:, None], 1) != 1).any():
        fail(
            "NKC035",
            inst=inst.label,
            what="moving",
            found="no selection of partitions",
            permitted="an identity matrix, or some of its columns, with is_transpose",
            operand="moving",
            loc=inst.loc,
        )
    if len(source) == 1:
        return stationary[:, source[0]].swapaxes(1, 2)
    return np.take_along_axis(stationary, source[:, :, None], 1).swapaxes(1, 2)


def _start(dst: View, ctx: Context) -> Array | bool:
    """Which elements of `dst` a matmul has written before, True or False if all agree; from now on it has all."""
    buffer, active = dst.buffer, ctx.lanes.active
    if buffer.started is None:
        buffer.started = np.zeros((1, buffer.tensor.size * buffer.dtype.itemsize), np.uint8)
    if active is not None and len(buffer.started) == 1:
        buffer.started = np.repeat(buffer.started, len(active), axis=0)
    flags = buffer.started
    # The flags shadow the storage byte for byte, so that the view's own strides find them.
    unsigned = np.dtype(f"u{dst.dtype.itemsize}")
    shadow = np.ndarray((len(flags), *dst.shape), unsigned, flags, dst.offset, (flags.shape[1], *dst.strides))
    if shadow.min():
        return True
    before = shadow != 0 if shadow.max() else False
    shadow[slice(None) if active is None else active] = np.iinfo(unsigned).max
    return before


@rule(isa.InstTranspose)
def transpose(inst: isa.InstTranspose, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    partitions = data.shape[0]
    aliased = dst.buffer is data.buffer

    def run() -> None:
        value = data.read()
        value = value.reshape(value.shape[0], partitions, -1).swapaxes(1, 2)
        dst.write(value.copy() if aliased else value)

    return run
