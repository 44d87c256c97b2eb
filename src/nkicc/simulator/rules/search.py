"""The largest values, where values are, and replacing them. Values are compared as float32."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nkicc.ir import isa

from ..memory import AnyView
from ..numerics import assign, to_compute
from .common import Array, Context, Step, rule

_SLOTS = range(8)


@rule(isa.InstMax8)
def max8(inst: isa.InstMax8, ctx: Context) -> Step:
    dst, src = ctx.view(inst.dst, inst), ctx.view(inst.src, inst)

    def run() -> None:
        value = _ranked(_flat(src))
        last = value.shape[-1] - 8
        top = np.partition(value, last, axis=-1)[..., last:]
        top.sort(axis=-1)
        dst.write(top[..., ::-1])

    return run


@rule(isa.InstFindIndex8)
def find_index8(inst: isa.InstFindIndex8, ctx: Context) -> Step:
    dst, data, vals = ctx.view(inst.dst, inst), ctx.view(inst.data, inst), ctx.view(inst.vals, inst)

    def run() -> None:
        found = _occurrences(to_compute(_flat(data)), to_compute(_flat(vals)), _SLOTS)
        dst.write(_indices(found, dst))

    return run


@rule(isa.InstMatchReplace8)
def match_replace8(inst: isa.InstMatchReplace8, ctx: Context) -> Step:
    dst, data, vals = ctx.view(inst.dst, inst), ctx.view(inst.data, inst), ctx.view(inst.vals, inst)
    dst_idx = None if inst.dst_idx is None else ctx.view(inst.dst_idx, inst)
    imm = np.empty(1, dst.dtype)
    assign(imm, np.array([float(inst.imm)], np.float32))

    def run() -> None:
        value = _flat(data)
        found = _occurrences(to_compute(value), to_compute(_flat(vals)), reversed(_SLOTS))
        replaced = np.empty((found.shape[0], *value.shape[1:]), dst.dtype)
        assign(replaced, value)
        rank, partition, slot = np.nonzero(found >= 0)
        replaced[rank, partition, found[rank, partition, slot]] = imm
        dst.write(replaced)
        if dst_idx is not None:
            dst_idx.write(_indices(found, dst_idx))

    return run


def _flat(view: AnyView) -> Array:
    """The content as (rows, partitions, elements)."""
    value = view.read()
    return value.reshape(*value.shape[:2], -1)


def _ranked(value: Array) -> Array:
    """The values as they rank: float32, NaN last."""
    value = to_compute(value)
    return np.where(np.isnan(value), np.float32(-np.inf), value)


def _occurrences(data: Array, vals: Array, slots: Iterable[int]) -> Array:
    """For each of the 8 values the index of an occurrence in `data` that no slot before it took, or -1."""
    shape = (max(data.shape[0], vals.shape[0]), data.shape[1])
    left = np.array(np.broadcast_to(data, (*shape, data.shape[2]))).reshape(-1, data.shape[2])
    wanted = np.broadcast_to(vals, (*shape, 8)).reshape(-1, 8)
    found = np.empty(wanted.shape, np.int64)
    lanes = np.arange(len(left))
    for slot in slots:
        hits = left == wanted[:, slot, None]
        at = hits.argmax(axis=1)
        hit = hits[lanes, at]
        # What is taken becomes NaN, which equals nothing.
        left[lanes[hit], at[hit]] = np.nan
        found[:, slot] = np.where(hit, at, -1)
    return found.reshape(*shape, 8)


def _indices(found: Array, dst: AnyView) -> Array:
    """Indices in the type of `dst`; -1 becomes all ones."""
    return found.astype(dst.dtype)


@rule(isa.InstTopk)
def topk(inst: isa.InstTopk, ctx: Context) -> Step:
    src, values, indices = ctx.view(inst.src, inst), ctx.view(inst.val_dst, inst), ctx.view(inst.idx_dst, inst)
    n, groups = inst.n, inst.src.shape[0] // 16
    k = inst.val_dst.size // inst.val_dst.shape[0]
    columns, partitions = np.divmod(np.arange(k), 16)

    def store(dst: AnyView, result: Array) -> None:
        old = dst.read()
        grid = np.array(np.broadcast_to(old, (max(len(old), len(result)), *old.shape[1:])))
        grid.reshape(len(grid), groups, 16, k)[:, :, partitions, columns] = result
        dst.write(grid)

    def run() -> None:
        value = _flat(src)
        snake = value.reshape(len(value), groups, 16, -1).swapaxes(2, 3).reshape(len(value), groups, -1)[..., :n]
        order = np.argsort(-_ranked(snake), axis=-1, kind="stable")[..., :k]
        if not inst.sorted:
            order = order[..., ::-1]
        store(values, np.take_along_axis(snake, order, -1))
        store(indices, order)

    return run
