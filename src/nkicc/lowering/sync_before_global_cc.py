"""sync-before-global-cc: the cores of a rank meet before each collective that both of them issue.

On shared HBM one core may reach the collective before the other has produced its part of the input. The barrier goes in
front of the k-th collective of both cores, between the same two meetings, and only where both sequences of collectives
agree: then both cores pass the same number of barriers. A collective that one core issues alone gets none.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from nkicc.ir.bir import CollectiveKind, InstCollectiveCompute, InstCoreBarrier
from nkicc.ir.program import LOOPS, Module, walk

from .streams import Body, is_fence, is_local, is_meeting, map_cores, same_trips

__all__ = ["sync_before_global_cc"]


def sync_before_global_cc(module: Module, options: object = None) -> Module:
    """Insert `<collective>-sync` core barriers before global collectives. LNC=1 comes back as it is."""
    if module.world.lnc == 1:
        return module
    return map_cores(module, lambda program, bodies: _sync(bodies))


def _sync(bodies: list[Body]) -> list[Body]:
    cores = len(bodies)
    everyone = tuple(range(cores))
    streams = [_segments(body, cores) for body in bodies]
    meetings = [[_signature(body[i]) for i in meets] for body, (meets, _) in zip(bodies, streams, strict=True)]
    if any(m != meetings[0] for m in meetings):
        return bodies
    edits: list[dict[int, Any]] = [{} for _ in bodies]
    for segment in zip(*[segments for _, segments in streams], strict=True):
        signatures = [[_signature(body[i]) for i in ccs] for body, ccs in zip(bodies, segment, strict=True)]
        if any(s != signatures[0] for s in signatures):
            continue
        for place in zip(*segment, strict=True):
            if not all(_is_synced(body, i, cores) for body, i in zip(bodies, place, strict=True)):
                synced = bodies[0][place[0]].name
                name = f"{synced}-sync" if synced else ""
                for core, i in enumerate(place):
                    inst = bodies[core][i]
                    barrier = InstCoreBarrier(name=name, cores=everyone, loc=inst.loc)
                    edits[core][i] = (barrier, inst)
    for place in zip(*[meets for meets, _ in streams], strict=True):
        loops = [body[i] for body, i in zip(bodies, place, strict=True)]
        if isinstance(loops[0], LOOPS) and same_trips(loops):
            for core, new in enumerate(_sync([loop.body for loop in loops])):
                if new is not loops[core].body:
                    edits[core][place[core]] = (replace(loops[core], body=tuple(new)),)
    return [_apply(body, edit) for body, edit in zip(bodies, edits, strict=True)]


def _apply(body: Body, edits: dict[int, Any]) -> Body:
    if not edits:
        return body
    out: list[Any] = []
    for i, inst in enumerate(body):
        out.extend(edits.get(i, (inst,)))
    return out


def _segments(body: Body, cores: int) -> tuple[list[int], list[list[int]]]:
    """Positions of the meetings (and of loops that hold meetings or collectives), and of the global collectives between
    them."""
    meets: list[int] = []
    segments: list[list[int]] = [[]]
    for i, inst in enumerate(body):
        if is_meeting(inst, cores) or (isinstance(inst, LOOPS) and any(map(_is_global, walk(inst.body)))):
            meets.append(i)
            segments.append([])
        elif _is_global(inst):
            segments[-1].append(i)
    return meets, segments


def _is_global(inst: Any) -> bool:
    return type(inst) is InstCollectiveCompute and not inst.is_local


def _signature(inst: Any) -> tuple[object, ...]:
    if type(inst) is not InstCollectiveCompute:
        return (type(inst),)
    if is_local(inst):
        return (inst.kind, inst.pipe_id)
    return (inst.cc_channel, *[ap.tensor for ap in (*inst.srcs, *inst.dsts)])


def _is_synced(body: Body, i: int, cores: int) -> bool:
    """Whether nothing can have happened on this core since the cores last met, so that a barrier would add nothing: the
    neighbour is a barrier, or the previous channel of the same ring step (which has one barrier for all channels)."""
    if i == 0:
        return False
    inst, previous = body[i], body[i - 1]
    if is_fence(previous, cores):
        return True
    return (
        inst.kind in (CollectiveKind.PermuteImplicit, CollectiveKind.PermuteReduceImplicit)
        and _is_global(previous)
        and previous.cc_channel == inst.cc_channel
        and previous.channel_id is not None
        and inst.channel_id == previous.channel_id + 1
    )
