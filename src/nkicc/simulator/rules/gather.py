"""GpSimd: gathers within SBUF, indices of non-zero elements, bounds of sequences."""

from __future__ import annotations

import msgspec
import numpy as np

from nkicc.ir import isa
from nkicc.ir.access import AccessPattern
from nkicc.ir.base import Inst
from nkicc.ir.errors import fail

from ..memory import AnyView
from .common import Array, Context, Step, rule

_GROUP = 16


@rule(isa.InstLocalGather)
def local_gather(inst: isa.InstLocalGather, ctx: Context) -> Step:
    dst, src, index = ctx.view(inst.dst, inst), ctx.view(inst.src_buffer, inst), ctx.view(inst.index, inst)
    groups = inst.src_buffer.shape[0] // _GROUP
    count = inst.indices_per_group
    neighbours = np.arange(inst.num_elem_per_idx)

    def run() -> None:
        first = index.read()
        # Partitions are the fast dimension of a group's list of indices.
        first = first.reshape(len(first), groups, _GROUP, -1).swapaxes(2, 3).reshape(len(first), groups, -1)
        wanted = first[..., :count, None].astype(np.int64) + neighbours
        data = src.read()
        data = data.reshape(len(data), groups, _GROUP, -1)
        wanted = _inside(wanted.reshape(len(wanted), groups, 1, -1), data.shape[-1], src, inst, ctx)
        dst.write(np.take_along_axis(data, wanted, -1))

    return run


@rule(isa.InstNGather)
def n_gather(inst: isa.InstNGather, ctx: Context) -> Step:
    dst, data, indices = ctx.view(inst.dst, inst), ctx.view(inst.data, inst), ctx.view(inst.indices, inst)

    def run() -> None:
        value, wanted = data.read(), indices.read()
        value = value.reshape(*value.shape[:2], -1)
        wanted = wanted.reshape(*wanted.shape[:2], -1).astype(np.int64)
        dst.write(np.take_along_axis(value, _inside(wanted, value.shape[-1], data, inst, ctx), -1))

    return run


def _inside(wanted: Array, count: int, source: AnyView, inst: Inst, ctx: Context) -> Array:
    """The indices, all below `count`; NKC102 if a rank that executes has one that is not."""
    bad = (wanted < 0) | (wanted >= count)
    if not bad.any():
        return wanted
    if ctx.lanes.active is not None:
        bad = bad & ctx.lanes.active.reshape(-1, *[1] * (wanted.ndim - 1))
    if bad.any():
        where = np.argwhere(bad)[0]
        wanted = np.broadcast_to(wanted, bad.shape)
        fail(
            "NKC102",
            inst=inst.label,
            value=int(wanted[tuple(where)]),
            name=source.buffer.tensor.name,
            last=count - 1,
            rank=int(ctx.ranks[where[0]]) if len(bad) > 1 else None,
            loc=inst.loc,
        )
    return np.clip(wanted, 0, count - 1)


@rule(isa.InstNonzeroWithCount)
def nonzero_with_count(inst: isa.InstNonzeroWithCount, ctx: Context) -> Step:
    dst, src = ctx.view(_first_of_groups(inst.dst), inst), ctx.view(_first_of_groups(inst.src), inst)
    padding = np.int64(inst.padding_val)

    def run() -> None:
        value = src.read()
        zero = value.reshape(*value.shape[:2], -1) == 0
        count = (~zero).sum(axis=-1, keepdims=True)
        # A stable sort puts the non-zero elements first, in order.
        order = np.argsort(zero, axis=-1, kind="stable") + inst.index_offset
        listed = np.where(np.arange(order.shape[-1]) < count, order, padding)
        dst.write(np.concatenate([listed, count], axis=-1))

    return run


def _first_of_groups(ap: AccessPattern) -> AccessPattern:
    """The pattern on partitions 0, 16, 32, … alone."""
    (stride, partitions), *free = ap.pattern
    return msgspec.structs.replace(ap, pattern=((stride * _GROUP, -(-partitions // _GROUP)), *free))


@rule(isa.InstSequenceBounds)
def sequence_bounds(inst: isa.InstSequenceBounds, ctx: Context) -> Step:
    dst, segments = ctx.view(inst.dst, inst), ctx.view(inst.segment_ids, inst)
    n = inst.segment_ids.size
    position = np.arange(n)

    def run() -> None:
        ids = segments.read().reshape(-1, n)
        change = ids[:, 1:] != ids[:, :-1]
        edge = np.ones((len(ids), 1), bool)
        first = np.maximum.accumulate(np.where(np.hstack([edge, change]), position, 0), axis=-1)
        last = np.where(np.hstack([change, edge]), position + 1, n)
        end = np.minimum.accumulate(last[:, ::-1], axis=-1)[:, ::-1]
        padding = ids == 0
        dst.write(np.stack([np.where(padding, n, first), np.where(padding, -1, end)], axis=1))

    return run
