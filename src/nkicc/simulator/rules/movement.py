"""DMA, fills, copies and shuffles."""

from __future__ import annotations

import numpy as np

from nkicc.ir import isa
from nkicc.ir.access import AccessPattern
from nkicc.ir.base import Inst
from nkicc.ir.errors import fail
from nkicc.ir.isa.common import AnyNumber
from nkicc.ir.isa.movement import KEEP, QUADRANT
from nkicc.ir.types import COMMUTATIVE_REDUCERS, AluOp

from ..memory import AnyView, DynamicView
from ..numerics import assign, is_integer, to_compute, wide_type
from .common import Array, Context, Step, reducer, rule

Mask = np.ndarray | None


@rule(isa.InstDMACopy)
def dma_copy(inst: isa.InstDMACopy, ctx: Context) -> Step:
    dst = ctx.view(inst.dst, inst)
    srcs = [ctx.view(src, inst) for src in inst.srcs]
    if inst.mode is isa.DmaMode.cce:
        return _dma_fold(inst, dst, srcs)
    (src,) = srcs
    shape = dst.shape
    same_tensor = src.buffer is dst.buffer
    same_dtype = src.dtype == dst.dtype

    def run() -> None:
        value, exists = _read(src)
        if value.shape[1:] != shape:
            value = value.reshape(value.shape[0], *shape)
        if not same_dtype:
            value = to_compute(value)
        elif same_tensor:
            # A DMA reads its source as it was: an overlapping destination must not feed back.
            value = value.copy()
        _store(dst, value, exists, src.shape)

    return run


def _read(src: AnyView) -> tuple[Array, Mask]:
    """The content, and which (rank, row) of it exist (None: all)."""
    return src.read_masked() if type(src) is DynamicView else (src.read(), None)


def _store(dst: AnyView, value: Array, exists: Mask, shape: tuple[int, ...]) -> None:
    """Write the elements of `value` that come from rows of the source, of `shape`, that exist."""
    if exists is None:
        dst.write(value)
    elif isinstance(dst, DynamicView) and (exists.ndim == 1 or (dst.vector and dst.shape[0] == shape[0])):
        # Row by row, since two rows may go to one place.
        dst.write_masked(value, exists[:, None] if dst.vector and exists.ndim == 1 else exists)
    else:
        _merge(dst, value, _elements(exists, shape).reshape(-1, *dst.shape))


def _elements(exists: Array, shape: tuple[int, ...]) -> Array:
    """A mask of ranks or of (rank, row) as one of elements, (rows, *shape)."""
    mask = exists.reshape(*exists.shape, *[1] * (1 + len(shape) - exists.ndim))
    return np.broadcast_to(mask, (exists.shape[0], *shape))


def _merge(dst: AnyView, value: Array, mask: Array) -> None:
    """Write the elements of `value` that `mask` names and leave the others bit for bit."""
    cast = value
    if value.dtype != dst.dtype:
        cast = np.empty(value.shape, dst.dtype)
        assign(cast, value)
    dst.write(np.where(mask, cast, dst.read()))


def _dma_fold(inst: isa.InstDMACopy, dst: AnyView, srcs: list[AnyView]) -> Step:
    if inst.op not in (*COMMUTATIVE_REDUCERS, AluOp.bypass):
        fail("BIR066", kind="DMA CCE", op=inst.op.value, name=inst.name, loc=inst.loc)
    integers = all(is_integer(view.dtype) for view in (dst, *srcs))
    function = reducer(inst.op, integers)
    wide = wide_type(*[view.dtype for view in (dst, *srcs)])
    shape = dst.shape
    scattered = dst if isinstance(dst, DynamicView) and dst.vector else None

    def run() -> None:
        if scattered is not None:
            _refuse_repeated(inst, scattered)
        total: Array | None = None
        missing: Mask = None
        for src in srcs:
            value, exists = _read(src)
            value = value.reshape(value.shape[0], *shape).astype(wide)
            total = value if total is None else function(total, value)
            if exists is not None:
                missing = exists
        assert total is not None
        # What a scatter must not write, its destination drops by itself.
        _store(dst, total, missing if scattered is None else None, shape)

    return run


def _refuse_repeated(inst: Inst, dst: DynamicView) -> None:
    """NKC109 if two rows of a rank read and write one place. Rows out of bounds are no places, nor are those of a rank
    that has left the loop."""
    indices = dst.offsets()
    good = (indices >= 0) & (indices <= dst.last)
    if dst.lanes.active is not None:
        good = good & dst.lanes.active[:, None]
        indices = np.broadcast_to(indices, good.shape)
    found = np.sort(np.where(good, indices, -1 - np.arange(indices.shape[1])), axis=1)
    again = np.argwhere(found[:, 1:] == found[:, :-1])
    if again.size:
        row, at = again[0]
        fail(
            "NKC109",
            inst=inst.label,
            value=int(found[row, at]),
            name=dst.buffer.tensor.name,
            operand="vector_offset",
            rank=int(dst.buffer.ranks[row]) if indices.shape[0] > 1 else None,
            loc=inst.loc,
        )


@rule(isa.InstDMATranspose)
def dma_transpose(inst: isa.InstDMATranspose, ctx: Context) -> Step:
    dst, src = ctx.view(inst.dst, inst), ctx.view(inst.src, inst)
    axes = (0, *[axis + 1 for axis in inst.axes])
    same_tensor = src.buffer is dst.buffer

    def run() -> None:
        value, exists = _read(src)
        value = value.transpose(axes)
        if exists is None:
            dst.write(value.copy() if same_tensor else value)
        else:
            _merge(dst, value, _elements(exists, src.shape).transpose(axes))

    return run


@rule(isa.InstMemset)
def memset(inst: isa.InstMemset, ctx: Context) -> Step:
    dst = ctx.view(inst.dst, inst)
    filled = _filled(inst.value, dst)
    return lambda: dst.write(filled)


def _filled(value: AnyNumber, dst: AnyView) -> Array:
    """A constant in the shape and type of `dst`, for all ranks."""
    number = np.asarray(value) if type(value) is int else np.asarray(float(value), np.float32)
    filled = np.empty((1, *dst.shape), dst.dtype)
    assign(filled, np.broadcast_to(number, filled.shape))
    return filled


@rule(isa.InstTensorCopy)
def tensor_copy(inst: isa.InstTensorCopy, ctx: Context) -> Step:
    dst, src = ctx.view(inst.dst, inst), ctx.view(inst.src, inst)
    if src.dtype != dst.dtype:
        return lambda: dst.write(to_compute(src.read()))
    if src.buffer is dst.buffer:
        return lambda: dst.write(src.read().copy())
    return lambda: dst.write(src.read())


@rule(isa.InstTensorCopyPredicated)
def tensor_copy_predicated(inst: isa.InstTensorCopyPredicated, ctx: Context) -> Step:
    dst, predicate = ctx.view(inst.dst, inst), ctx.view(inst.predicate, inst)
    src = ctx.view(inst.src, inst) if isinstance(inst.src, AccessPattern) else None
    constant = None if isinstance(inst.src, AccessPattern) else _filled(inst.src, dst)
    shape, reverse = dst.shape, inst.reverse

    def run() -> None:
        value = constant if src is None else src.read()
        assert value is not None
        mask = (predicate.read() != 0) ^ reverse
        _merge(dst, value.reshape(-1, *shape), mask.reshape(-1, *shape))

    return run


@rule(isa.InstStreamShuffle)
def stream_shuffle(inst: isa.InstStreamShuffle, ctx: Context) -> Step:
    dst, src = ctx.view(inst.dst, inst), ctx.view(inst.src, inst)
    to = [p for p in range(dst.shape[0]) if inst.shuffle_mask[p % QUADRANT] != KEEP]
    origin = [p - p % QUADRANT + inst.shuffle_mask[p % QUADRANT] for p in to]
    absent = [row for row, p in enumerate(origin) if p >= src.shape[0]]
    origin = [p if p < src.shape[0] else 0 for p in origin]
    undefined = np.iinfo(dst.dtype).max if is_integer(dst.dtype) else np.nan
    width = dst.shape[1:]

    def run() -> None:
        value = src.read()
        value = value.reshape(*value.shape[:2], *width)[:, origin]
        value[:, absent] = undefined
        if len(to) < dst.shape[0]:
            old = dst.read()
            rows = max(value.shape[0], old.shape[0])
            moved, value = value, np.broadcast_to(old, (rows, *dst.shape)).copy()
            value[:, to] = moved
        dst.write(value)

    return run
