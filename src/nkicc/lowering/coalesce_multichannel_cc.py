"""coalesce-multichannel-cc: one instruction for the channels of a ring step.

A run is adjacent PermuteImplicit or PermuteReduceImplicit instructions of one core whose channel ids count up from 0.
They become one instruction with the operands side by side. Ranks and cores that take part in a step must agree on its
instructions, so the pass merges only if all streams of the module would merge alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from nkicc.ir.access import Tensor
from nkicc.ir.bir import CollectiveKind, InstCollectiveCompute
from nkicc.ir.errors import fail
from nkicc.ir.program import LOOPS, Module, Program

from .streams import Body, map_cores, overlap

__all__ = ["coalesce_multichannel_cc"]

_RING = (CollectiveKind.PermuteImplicit, CollectiveKind.PermuteReduceImplicit)
Tensors = dict[str, Tensor]


def coalesce_multichannel_cc(module: Module, options: object = None) -> Module:
    """Merge runs of channels. Raises CCO001 to CCO010 for a run whose members do not fit together, BIR436 for an
    instruction that claims to be merged and is not of the form that this pass makes.

    A run is left alone where a member reads or overwrites what an earlier one writes (merged, they would all read
    first), and where members differ in mask, stream, DMA class or another field that one instruction has only once.
    """
    plans = []
    for program in module.programs:
        for core, part in enumerate(program.cores):
            tensors = dict(program.scope(module, core).tensors)
            plan = [(tuple(map(len, runs)), depth) for runs, depth in _plan(part.body, tensors, 0)]
            if plan:
                plans.append(plan)
    if not plans or any(plan != plans[0] for plan in plans):
        return module
    if all(length == 1 for lengths, _ in plans[0] for length in lengths):
        return module

    def rewrite(program: Program, bodies: list[Body]) -> list[Body]:
        return [_merge(body, dict(program.scope(module, core).tensors), {}) for core, body in enumerate(bodies)]

    return map_cores(module, rewrite)


Run = list[InstCollectiveCompute]


def _plan(body: Body, tensors: Tensors, depth: int) -> Iterator[tuple[list[Run], int]]:
    """The runs of each body that has some, with its loop depth."""
    runs = [run for run in _runs(body, tensors) if isinstance(run, list)]
    if runs:
        yield runs, depth
    for inst in body:
        if isinstance(inst, LOOPS):
            yield from _plan(inst.body, tensors, depth + 1)


def _runs(body: Body, tensors: Tensors) -> Iterator[Any]:
    """The body in order, with each run of channels as a list. A run that cannot be merged comes as single members."""
    run: Run = []
    for inst in body:
        if _is_channel(inst):
            if run and inst.channel_id == 0:
                yield from _close(run, tensors)
                run = []
            run.append(inst)
            continue
        yield from _close(run, tensors)
        run = []
        if type(inst) is InstCollectiveCompute and inst.channel_ids:
            _check_coalesced(inst)
            yield [inst] * len(inst.channel_ids)
        else:
            yield inst
    yield from _close(run, tensors)


def _is_channel(inst: Any) -> bool:
    return (
        type(inst) is InstCollectiveCompute
        and inst.channel_id is not None
        and not inst.channel_ids
        and inst.kind in _RING
    )


def _close(run: Run, tensors: Tensors) -> Iterator[Run]:
    if len(run) > 1:
        _check(run)
        if not _mergeable(run, tensors):
            yield from ([inst] for inst in run)
            return
    if run:
        yield run


def _check(run: Run) -> None:
    """The device compiler's requirements on a run, CCO001 to CCO010, in its order."""
    first = run[0]
    for k, inst in enumerate(run):
        a, b, loc = first.cc_channel, inst.cc_channel, inst.loc
        if a.op is not b.op:
            fail("CCO001", first=a.op.value, curr=b.op.value, loc=loc)
        if first.engine is not inst.engine:
            fail("CCO002", first=first.engine.value, curr=inst.engine.value, loc=loc)
        if a.kind is not b.kind:
            fail("CCO003", first=a.kind.value, curr=b.kind.value, loc=loc)
        if a.replica_groups != b.replica_groups:
            fail("CCO004", loc=loc)
        if first.can_read_uninit != inst.can_read_uninit:
            fail("CCO006", loc=loc)
        if first.is_local != inst.is_local:
            fail("CCO007", loc=loc)
        if first.src_target_pairs != inst.src_target_pairs:
            fail("CCO008", loc=loc)
        if inst.channel_id != k:
            fail("CCO009", first=first.channel_id, curr=inst.channel_id, loc=loc)
        if b.replica_groups and inst.src_target_pairs:
            fail("CCO010", loc=loc)


def _check_coalesced(inst: InstCollectiveCompute) -> None:
    channels = len(inst.channel_ids)
    srcs = channels * (2 if inst.kind is CollectiveKind.PermuteReduceImplicit else 1)
    if (
        inst.kind not in _RING
        or inst.channel_id is not None
        or inst.channel_ids != tuple(range(channels))
        or len(inst.dsts) != channels
        or len(inst.srcs) != srcs
    ):
        fail("BIR436", name=inst.name, kind=inst.kind.value, loc=inst.loc)


def _mergeable(run: Run, tensors: Tensors) -> bool:
    first = run[0]
    names = {inst.name for inst in run}
    for k, inst in enumerate(run[1:], 1):
        same = replace(
            inst, name=first.name, deps=first.deps, loc=first.loc, srcs=first.srcs, dsts=first.dsts, channel_id=0
        )
        if same != first:
            return False
        for earlier in run[:k]:
            for dst in earlier.dsts:
                if any(overlap(dst, ap, tensors) for ap in (*inst.srcs, *inst.dsts)):
                    return False
            if any(overlap(src, dst, tensors) for src in earlier.srcs for dst in inst.dsts):
                return False
    return not any(d in names for d in first.deps)


def _merge(body: Body, tensors: Tensors, renamed: dict[str, str]) -> Body:
    """The body with its runs merged; `renamed` maps the members' names to the merged instruction's."""
    out: list[Any] = []
    changed = False
    for item in _runs(body, tensors):
        inst = item
        if isinstance(item, list):
            inst = item[0]
            if len(item) > 1 and inst.channel_id is not None:
                inst = _merged(item)
                renamed.update({member.name: inst.name for member in item[1:]})
                changed = True
        elif isinstance(item, LOOPS):
            inside = _merge(item.body, tensors, renamed)
            if inside is not item.body:
                inst = replace(item, body=tuple(inside))
                changed = True
        if renamed and inst.deps and any(d in renamed for d in inst.deps):
            inst = replace(inst, deps=tuple(dict.fromkeys(renamed.get(d, d) for d in inst.deps)))
            changed = True
        out.append(inst)
    return out if changed else body


def _merged(run: Run) -> InstCollectiveCompute:
    names = {inst.name for inst in run}
    return replace(
        run[0],
        channel_id=None,
        channel_ids=tuple(range(len(run))),
        srcs=tuple([ap for inst in run for ap in inst.srcs]),
        dsts=tuple([ap for inst in run for ap in inst.dsts]),
        deps=tuple(dict.fromkeys(d for inst in run for d in inst.deps if d not in names)),
    )
