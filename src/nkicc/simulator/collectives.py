"""One rule per CollectiveKind: a statement of its meaning along the rank axis.

A rule gets the sources as arrays (1 or rows, *shape), the destinations as sinks and the replica groups as index arrays;
it does a fixed number of NumPy calls per group size, whatever the number of ranks. One row means "equal on all ranks":
what a full group shares is written once.

Reductions fold in group order, accumulate in float32 (integers exactly, in 64 bits) and are cast once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Protocol

import numpy as np

from nkicc.ir.bir import CollectiveDimension, CollectiveKind, InstCollectiveCompute
from nkicc.ir.errors import fail
from nkicc.ir.types import AluOp

from .groups import GroupPlan, Members
from .numerics import is_integer, saturate, take_rows, wide_type
from .rings import Rings
from .rules import reducer

__all__ = ["Sink", "Transfer", "compile_collective", "fold"]

Array = np.ndarray


class Sink(Protocol):
    """Where a rule writes: a view, or the staging area of a collective that spans several programs."""

    shape: tuple[int, ...]

    def read(self) -> Array: ...

    def write(self, value: Array) -> None: ...

    def prepare(self, rows: int, *, keep: bool = False) -> Array: ...


#: Rows of at least this many bytes are worth a loop over ranks where it saves a copy of them all.
LARGE_ROW = 1 << 16

#: Executes one collective: sources and destinations in the instruction's order.
Transfer = Callable[[Sequence[Array], Sequence[Sink]], None]
Rule = Callable[[InstCollectiveCompute, Members], Transfer]
RULES: dict[CollectiveKind, Rule] = {}


def rule(*kinds: CollectiveKind) -> Callable[[Rule], Rule]:
    """Register the rule of one or several kinds; one rule per kind."""

    def register(function: Rule) -> Rule:
        for kind in kinds:
            if kind in RULES:
                raise ValueError(f"{kind} has two rules")
            RULES[kind] = function
        return function

    return register


def compile_collective(inst: InstCollectiveCompute, ranks: Sequence[int], rings: Rings) -> Transfer:
    """The transfer of a global collective over `ranks`, which are the rows of its arrays in order."""
    return RULES[inst.kind](inst, Members(inst.cc_channel.replica_groups or (tuple(ranks),), ranks, rings))


def fold(value: Array, op: AluOp) -> Array:
    """Reduce axis 1 of (groups, size, *shape) in index order; the result has the dtype of `value`."""
    dtype = value.dtype
    integer = is_integer(dtype)
    wide = wide_type(dtype)
    size = value.shape[1]
    function = reducer(op, integer)
    assert isinstance(function, np.ufunc)
    if size > 1 and value.strides[1] == 0:
        # All members are equal. NumPy would reorder a stride of zero, so add one by one as the other ranks would.
        total = value[:, 0].astype(wide)
        if op is AluOp.add:
            for _ in range(size - 1):
                total = total + value[:, 0].astype(wide)
    elif prod(value.shape[2:]) == 1:
        # With one element per rank NumPy would sum pairwise; accumulate is sequential by definition.
        total = function.accumulate(value.astype(wide), axis=1)[:, -1]
    elif op is AluOp.add:
        total = np.add.reduce(value, axis=1, dtype=wide)
    else:
        total = function.reduce(value if dtype.kind in "iuf" else value.astype(wide), axis=1)
    if total.dtype == dtype:
        return total
    return (saturate(total, dtype) if integer else total).astype(dtype)


def fold_groups(plan: GroupPlan, value: Array, op: AluOp) -> Array:
    """The fold of each group of `value` (1 or rows, *shape): (groups, *shape)."""
    if plan.aligned or value.shape[0] == 1 or value[0].nbytes < LARGE_ROW:
        return fold(plan.take(value), op)
    # Gathering large rows into a new array costs more than the additions; fold them where they are.
    integer = is_integer(value.dtype)
    function = reducer(op, integer)
    out = np.empty((len(plan.members), *value.shape[1:]), value.dtype)
    for group, rows in enumerate(plan.members.tolist()):
        total = value[rows[0]].astype(wide_type(value.dtype))
        for row in rows[1:]:
            total = function(total, value[row])
        out[group] = saturate(total, value.dtype) if integer else total
    return out


@rule(CollectiveKind.AllReduce)
def all_reduce(inst: InstCollectiveCompute, who: Members) -> Transfer:
    op, rows, plans = inst.cc_channel.op, who.rows, who.plans
    (first, *others) = plans

    def run(srcs: Sequence[Array], sinks: Sequence[Sink]) -> None:
        for src, sink in zip(srcs, sinks, strict=True):
            if not others and (first.full or src.shape[0] == 1):
                sink.write(fold_groups(first, src, op)[:1])
                continue
            results = [fold_groups(plan, src, op) for plan in plans]
            out = sink.prepare(rows)
            for plan, result in zip(plans, results, strict=True):
                plan.give(out, result[:, None])

    return run


@rule(CollectiveKind.AllGather)
def all_gather(inst: InstCollectiveCompute, who: Members) -> Transfer:
    """dst = the members' src along dim 0 (Partition) or 1 (Free); with broadcast_sizes, only that many rows of each."""
    if inst.metadata is not None:
        return all_gather_v(inst, who)
    rows, sizes = who.rows, inst.broadcast_sizes
    axis = 1 if inst.cc_dim is CollectiveDimension.Free else 0
    (plan,) = who.plans

    def place(out: Array, value: Array) -> None:
        """`value` (groups, size, *shape) to all members of each group, or to all rows if they share it."""
        shared = out.shape[0] == 1 or plan.full or value.strides[:2] == (0, 0)
        if shared:
            value = value[:1]
        if not sizes:
            target = split(out, axis, plan.size, 1)
            if shared:
                target[...] = value
            else:
                plan.give(target, value[:, None])
            return
        start = 0
        for member, count in enumerate(sizes):
            part, target = value[:, member, :count], out[:, start : start + count]
            if shared:
                target[...] = part
            else:
                plan.give(target, part[:, None])
            start += count

    def run(srcs: Sequence[Array], sinks: Sequence[Sink]) -> None:
        for src, sink in zip(srcs, sinks, strict=True):
            value = plan.take(src)
            place(sink.prepare(1 if plan.full or src.shape[0] == 1 else rows), value)

    return run


def split(value: Array, axis: int, count: int, lead: int) -> Array:
    """Cut `axis` of the shape into `count` chunks and move the chunk number to position `lead`; a view."""
    at = axis + lead
    shape = value.shape
    cut = value.reshape(*shape[:at], count, shape[at] // count, *shape[at + 1 :])
    return np.moveaxis(cut, at, lead)


@rule(CollectiveKind.ReduceScatter)
def reduce_scatter(inst: InstCollectiveCompute, who: Members) -> Transfer:
    rows, op = who.rows, inst.cc_channel.op
    (plan,) = who.plans
    axis = 1 if inst.cc_dim is CollectiveDimension.Free else 0

    def run(srcs: Sequence[Array], sinks: Sequence[Sink]) -> None:
        for src, sink in zip(srcs, sinks, strict=True):
            result = split(fold_groups(plan, src, op), axis, plan.size, 1)
            plan.give(sink.prepare(rows), result)

    return run


@rule(CollectiveKind.AllToAll)
def all_to_all(inst: InstCollectiveCompute, who: Members) -> Transfer:
    rows = who.rows
    (plan,) = who.plans
    cut, paste = inst.split_dim or 0, inst.concat_dim or 0

    def run(srcs: Sequence[Array], sinks: Sequence[Sink]) -> None:
        for src, sink in zip(srcs, sinks, strict=True):
            # (groups, receiver, sender, *chunk): the sender's chunk number `receiver`. Both sides stay views.
            chunks = split(plan.take(src), cut, plan.size, 2).swapaxes(1, 2)
            plan.give(split(sink.prepare(rows), paste, plan.size, 1), chunks)

    return run


@rule(CollectiveKind.AllToAllV)
def all_to_all_v(inst: InstCollectiveCompute, who: Members) -> Transfer:
    """Rows 0 and 1 of the metadata have one count and one offset in src per destination."""

    def sends(table: Array, plan: GroupPlan) -> tuple[Array, Array]:
        return table[plan.members, 0], table[plan.members, 1]

    return variable(inst, who, sends)


def all_gather_v(inst: InstCollectiveCompute, who: Members) -> Transfer:
    """Column 0 of rows 0 and 1 has the one count and the one offset of a member's chunk, which goes to all."""

    def sends(table: Array, plan: GroupPlan) -> tuple[Array, Array]:
        chunk = table[plan.members, :2, :1]
        shape = (*plan.members.shape, plan.size)
        return np.broadcast_to(chunk[:, :, 0], shape), np.broadcast_to(chunk[:, :, 1], shape)

    return variable(inst, who, sends)


#: From the metadata of all rows to counts and offsets in src, both (groups, sender, receiver).
Sends = Callable[[Array, GroupPlan], tuple[Array, Array]]


def variable(inst: InstCollectiveCompute, who: Members, sends: Sends) -> Transfer:
    """Counts and offsets are data. The last source is the metadata, as (rows, members) per rank; the last sink, unless
    the receive counts are known, is the metadata again. Only what arrives is written: the rest of dst stays."""
    rows = who.rows

    def run(srcs: Sequence[Array], sinks: Sequence[Sink]) -> None:
        src, metadata = srcs
        sink = sinks[0]
        table = metadata.reshape(metadata.shape[0], -1, metadata.shape[-1]).astype(np.int64)
        table = np.broadcast_to(table, (rows, *table.shape[1:]))
        src = np.broadcast_to(src.reshape(src.shape[0], -1), (rows, src[0].size))
        out = sink.prepare(rows, keep=True)
        flat = np.array(out.reshape(rows, -1))
        capacity = flat.shape[1]
        received = np.array(table[:, 2])
        for plan in who.plans:
            sent, start = sends(table, plan)
            arrival = sent.swapaxes(1, 2)  # (groups, receiver, sender)
            received[plan.members] = arrival
            if inst.recv_counts_known and not np.array_equal(table[plan.members, 2], arrival):
                g, i, s = np.argwhere(table[plan.members, 2] != arrival)[0]
                _count_mismatch(inst, plan, list(who.row_of), int(g), int(s), int(i), sent, table)
            _check_extents(inst, start, sent, src.shape[1], "src")
            if inst.has_rdispls:
                place = table[plan.members, 3]
                _check_extents(inst, place, arrival, capacity, "dst")
            else:
                slot = capacity // plan.size
                place = np.broadcast_to(np.arange(plan.size) * slot, arrival.shape)
                _check_extents(inst, np.zeros_like(arrival), arrival, slot, "a sender's slot of dst")
            count = arrival.ravel()
            receiver = np.broadcast_to(plan.members[:, :, None], arrival.shape).ravel()
            sender = np.broadcast_to(plan.members[:, None, :], arrival.shape).ravel()
            origin, target = start.swapaxes(1, 2).ravel(), np.asarray(place).ravel()
            step = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            values = src[np.repeat(sender, count), np.repeat(origin, count) + step]
            flat[np.repeat(receiver, count), np.repeat(target, count) + step] = values
        out[...] = flat.reshape(out.shape)
        if not inst.recv_counts_known:
            counts = sinks[1].prepare(rows, keep=True)
            whole = np.array(counts).reshape(rows, -1, metadata.shape[-1])
            whole[:, 2] = received
            counts[...] = whole.reshape(counts.shape)

    return run


def _count_mismatch(
    inst: InstCollectiveCompute, plan: GroupPlan, ranks: list[int], group: int, sender: int, receiver: int,
    sent: Array, table: Array,
) -> None:  # fmt: skip
    source, target = ranks[plan.members[group, sender]], ranks[plan.members[group, receiver]]
    expected = int(table[plan.members[group, receiver], 2, sender])
    fail(
        "NKC105", inst=inst.label, pair=f"{source} -> {target}", operand="metadata", rank=target, loc=inst.loc,
        detail=f"rank {source} sends {int(sent[group, sender, receiver])}, rank {target} expects {expected}",
    )  # fmt: skip


def _check_extents(inst: InstCollectiveCompute, start: Array, count: Array, size: int, what: str) -> None:
    bad = (count < 0) | (count > 0) & ((start < 0) | (start + count > size))
    if bad.any():
        at = tuple(np.argwhere(bad)[0])
        first, last = int(start[at]), int((start + count)[at]) - 1
        fail(
            "NKC102",
            inst=inst.label,
            value=first if first < 0 else last,
            name=what,
            last=size - 1,
            operand="metadata",
            loc=inst.loc,
        )


@rule(CollectiveKind.Permute)
def permute(inst: InstCollectiveCompute, who: Members) -> Transfer:
    """dst of a target = src of its source. A rank that no pair targets keeps its dst."""
    rows = who.rows
    row_of = who.row_of
    pairs = [(row_of[s], row_of[t]) for s, t in inst.src_target_pairs if t in row_of]
    source = np.array([s for s, _ in pairs], np.intp)
    target = np.array([t for _, t in pairs], np.intp)
    if len(pairs) == rows:
        return _route(source[np.argsort(target)], rows)

    def run(srcs: Sequence[Array], sinks: Sequence[Sink]) -> None:
        for src, sink in zip(srcs, sinks, strict=True):
            out = sink.prepare(rows, keep=True)
            out[target] = src if src.shape[0] == 1 else src[source]

    return run


def ring_steps(inst: InstCollectiveCompute, who: Members) -> list[Transfer]:
    """Per channel of the instruction, the move from each rank to its successor in that channel's ring."""
    channels = inst.channel_ids or (inst.channel_id or 0,) * len(inst.dsts)
    steps = []
    for channel in channels:
        before = np.empty(who.rows, np.intp)
        for plan in who.ring(channel):
            before[plan.members] = np.roll(plan.members, 1, axis=1)
        steps.append(_route(before, who.rows))
    return steps


def _route(source: Array, rows: int) -> Transfer:
    """Row r of every dst = row source[r] of its src."""

    def run(srcs: Sequence[Array], sinks: Sequence[Sink]) -> None:
        for src, sink in zip(srcs, sinks, strict=True):
            if src.shape[0] == 1:
                sink.write(src)
                continue
            out = sink.prepare(rows)
            if out.dtype == src.dtype and out.flags.c_contiguous:
                np.take(src, source, axis=0, out=out, mode="clip")
            elif out.dtype == src.dtype and not np.may_share_memory(out, src):
                take_rows(out, src, source)
            else:
                out[...] = src[source]

    return run


@rule(CollectiveKind.PermuteImplicit)
def permute_implicit(inst: InstCollectiveCompute, who: Members) -> Transfer:
    """dst = the predecessor's src, per channel."""
    steps = ring_steps(inst, who)

    def run(srcs: Sequence[Array], sinks: Sequence[Sink]) -> None:
        for step, src, sink in zip(steps, srcs, sinks, strict=True):
            step([src], [sink])

    return run


@rule(CollectiveKind.PermuteReduceImplicit)
def permute_reduce_implicit(inst: InstCollectiveCompute, who: Members) -> Transfer:
    """Each rank combines its two sources; dst = the predecessor's result. Sources come in pairs, one per channel."""
    op, steps = inst.cc_channel.op, ring_steps(inst, who)

    def run(srcs: Sequence[Array], sinks: Sequence[Sink]) -> None:
        for channel, (step, sink) in enumerate(zip(steps, sinks, strict=True)):
            both = np.broadcast_arrays(srcs[2 * channel], srcs[2 * channel + 1])
            step([fold(np.stack(both, axis=1), op)], [sink])

    return run
