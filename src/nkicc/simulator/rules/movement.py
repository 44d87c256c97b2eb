"""DMA, fills and copies."""

from __future__ import annotations

import numpy as np

from nkicc.ir import isa
from nkicc.ir.errors import fail
from nkicc.ir.types import COMMUTATIVE_REDUCERS, AluOp

from ..memory import AnyView, DynamicView
from ..numerics import assign, is_integer
from .common import Context, Step, reducer, rule


@rule(isa.InstDMACopy)
def dma_copy(inst: isa.InstDMACopy, ctx: Context) -> Step:
    dst = ctx.view(inst.dst, inst)
    srcs = [ctx.view(src, inst) for src in inst.srcs]
    if inst.mode is isa.DmaMode.cce:
        return _dma_fold(inst, dst, srcs)
    (src,) = srcs
    shape = dst.shape
    same_tensor = src.buffer is dst.buffer
    masked = any(isinstance(v, DynamicView) and v.skip for v in (src, dst))
    if masked:
        return _dma_masked(dst, src, shape)

    def run() -> None:
        value = src.read()
        if value.shape[1:] != shape:
            value = value.reshape(value.shape[0], *shape)
        # A DMA reads its source as it was: an overlapping destination must not feed back.
        dst.write(value.copy() if same_tensor else value)

    return run


def _dma_masked(dst: AnyView, src: AnyView, shape: tuple[int, ...]) -> Step:
    def run() -> None:
        value, good = src.read_masked() if isinstance(src, DynamicView) else (src.read(), None)
        value = value.reshape(value.shape[0], *shape)
        if isinstance(dst, DynamicView):
            dst.write_masked(value, good)
        elif good is None:
            dst.write(value)
        else:
            good = good.reshape(*good.shape, *[1] * (value.ndim - good.ndim))
            dst.write(np.where(good, value, dst.read().astype(value.dtype)))

    return run


def _dma_fold(inst: isa.InstDMACopy, dst: AnyView, srcs: list[AnyView]) -> Step:
    if inst.op not in (*COMMUTATIVE_REDUCERS, AluOp.bypass):
        fail("BIR066", kind="DMA CCE", op=inst.op.value, name=inst.name, loc=inst.loc)
    function = reducer(inst.op, is_integer(dst.dtype))
    wide = np.dtype(np.int64 if is_integer(dst.dtype) else np.float32)
    shape = dst.shape

    def run() -> None:
        total = srcs[0].read().astype(wide)
        total = total.reshape(total.shape[0], *shape)
        for src in srcs[1:]:
            value = src.read()
            total = function(total, value.reshape(value.shape[0], *shape).astype(wide))
        dst.write(total)

    return run


@rule(isa.InstDMATranspose)
def dma_transpose(inst: isa.InstDMATranspose, ctx: Context) -> Step:
    dst, src = ctx.view(inst.dst, inst), ctx.view(inst.src, inst)
    axes = (0, *[axis + 1 for axis in inst.axes])
    return lambda: dst.write(src.read().transpose(axes))


@rule(isa.InstMemset)
def memset(inst: isa.InstMemset, ctx: Context) -> Step:
    dst = ctx.view(inst.dst, inst)
    value = np.asarray(inst.value).astype(np.float32 if isinstance(inst.value, float) else np.int64)
    filled = np.empty(dst.shape, dst.dtype)
    assign(filled, np.broadcast_to(value, dst.shape))
    filled = filled[None]
    return lambda: dst.write(filled)


@rule(isa.InstTensorCopy)
def tensor_copy(inst: isa.InstTensorCopy, ctx: Context) -> Step:
    dst, src = ctx.view(inst.dst, inst), ctx.view(inst.src, inst)
    if src.buffer is dst.buffer:
        return lambda: dst.write(src.read().copy())
    return lambda: dst.write(src.read())
