"""infer-stream-ids: give every collective and every processing-rank query the stream that it runs on.

Stream 1 is FSDP's, stream 0 is TP's and everything else's. Collectives with the same pairs or the same groups share a
stream, so one that says its stream, or its hint, decides for all that say nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from msgspec.structs import replace

from nkicc.ir.bir import CollectiveComputeTypeHint, InstCollectiveCompute, InstGetCurProcessingRankID
from nkicc.ir.errors import fail
from nkicc.ir.program import LOOPS, Module, Program, walk

from .streams import Body, map_cores

__all__ = ["infer_stream_ids"]

Streams = dict[Hashable, int]


def infer_stream_ids(module: Module, options: object = None) -> Module:
    """Replace stream -1 by the inferred stream. ISI001 to ISI003 if instructions that must share a stream do not."""
    return map_cores(module, _program)


def _program(program: Program, bodies: list[Body]) -> list[Body]:
    users: list[Any] = [inst for body in bodies for inst in walk(body) if type(inst) in _USERS]
    if {inst.stream_id for inst in users} <= {0}:
        return bodies
    said = {_said(inst) for inst in users}
    streams: Streams = {}
    if said != {-1}:
        for inst in users:
            _record(inst, _said(inst), streams)
    if -1 not in {inst.stream_id for inst in users}:
        return bodies
    return [_fill(body, streams) for body in bodies]


_USERS = frozenset({InstCollectiveCompute, InstGetCurProcessingRankID})


def _said(inst: Any) -> int:
    """The stream that the instruction names or hints at, or -1."""
    if inst.stream_id >= 0:
        return inst.stream_id
    hint = getattr(inst, "cc_type_hint", None)
    return 1 if hint is CollectiveComputeTypeHint.FSDP else -1


def _key(inst: Any) -> Hashable:
    """What decides the stream: pairs or groups. None for a local collective, whose groups are cores."""
    if type(inst) is InstGetCurProcessingRankID:
        return inst.replica_groups
    if inst.is_local:
        return None
    return ("pairs", inst.src_target_pairs) if inst.src_target_pairs else inst.cc_channel.replica_groups


def _record(inst: Any, stream: int, streams: Streams) -> None:
    key = _key(inst)
    if key is None or stream < 0 or streams.setdefault(key, stream) == stream:
        return
    if type(inst) is InstGetCurProcessingRankID:
        fail("ISI003", operand="stream_id", loc=inst.loc)
    fail("ISI001" if inst.src_target_pairs else "ISI002", operand="stream_id", loc=inst.loc)


def _fill(body: Body, streams: Streams) -> Body:
    out: list[Any] = []
    for inst in body:
        if isinstance(inst, LOOPS):
            inst = replace(inst, body=tuple(_fill(inst.body, streams)))
        elif type(inst) in _USERS and inst.stream_id < 0:
            said = _said(inst)
            inst = replace(inst, stream_id=said if said >= 0 else streams.get(_key(inst), 0))
        out.append(inst)
    return out
