"""What simulates, but a real machine or release would refuse.

Every rule is a row of `RULES`: its code, the machines and releases it holds for, and a predicate over one collective
that gives what fills the code's message. A broken rule is a warning; `check(strict=True)` makes it an error. Where the
rule comes from stands in the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from nkicc.ir.access import AccessPattern
from nkicc.ir.base import show_ranks
from nkicc.ir.bir import LOCAL_KINDS, CollectiveDimension, CollectiveKind, InstCollectiveCompute
from nkicc.ir.errors import fail
from nkicc.ir.findings import Finding, Severity, finding
from nkicc.ir.types import DType, Loc, Memory, Target

from .streams import Stream

__all__ = ["RULES", "SDK", "Rule", "check_targets", "release"]

#: The newest release whose rules are known.
SDK = "2.33"

Release = tuple[int, int]
Slots = dict[str, Any]
#: (stream, collective) -> what fills the message, or None if the rule is kept.
Predicate = Callable[[Stream, InstCollectiveCompute], Slots | None]

_EVERY: frozenset[Target] = frozenset(Target)
_GLOBAL = frozenset(CollectiveKind) - LOCAL_KINDS
_IMPLICIT = frozenset({CollectiveKind.PermuteImplicit, CollectiveKind.PermuteReduceImplicit})
_GROUPED = _GLOBAL - {CollectiveKind.Permute}
_REDUCED = frozenset({CollectiveKind.AllReduce, CollectiveKind.ReduceScatter})
_DIMENSIONED = frozenset({CollectiveKind.AllGather, CollectiveKind.ReduceScatter, CollectiveKind.AllToAll})
#: Physical cores of a chip and chips of a node.
_CORES_OF_CHIP = {Target.trn1: 2, Target.trn2: 8, Target.trn3: 8}
_CHIPS_OF_NODE = 16


class Rule(Struct, frozen=True, kw_only=True):
    """One rule on collectives of some `kinds`, between ranks or `local`, inside of one. It holds for `targets` from
    release `since` up to, but not including, `until`."""

    code: str
    broken: Predicate
    kinds: frozenset[CollectiveKind] = _GLOBAL
    local: bool = False
    targets: frozenset[Target] = _EVERY
    since: Release = (0, 0)
    until: Release = (99, 0)

    def holds(self, target: Target, sdk: Release) -> bool:
        return target in self.targets and self.since <= sdk < self.until


def release(text: str) -> Release:
    """A release as numbers: "2.33" and "2.33.1" are (2, 33). NKC006 for anything else."""
    parts = text.split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts):
        fail("NKC006", option="sdk", why=f"a release such as {SDK} is needed, not {text!r}")
    return int(parts[0]), int(parts[1])


def check_targets(stream: Stream, sdk: Release) -> Iterator[Finding]:
    """The broken rules of a stream's machine and of a release, as warnings."""
    rules: dict[tuple[CollectiveKind, bool], list[Rule]] = {}
    for rule in RULES:
        if rule.holds(stream.module.target, sdk):
            for kind in rule.kinds:
                rules.setdefault((kind, rule.local), []).append(rule)
    reported: set[tuple[str, Loc]] = set()
    for inst in stream.collectives:
        for rule in rules.get((inst.kind, inst.is_local), ()):
            slots = rule.broken(stream, inst) if (rule.code, inst.loc) not in reported else None
            if slots is not None:
                if inst.loc is not None:
                    reported.add((rule.code, inst.loc))
                place = {"operand": "replica_groups", "ranks": stream.ranks, "cores": (stream.core,), "loc": inst.loc}
                yield finding(rule.code, Severity.warning, **{**place, "inst": inst.label, **slots})
    yield from _group_count(stream, sdk)
    for inst in stream.whiles:
        yield finding("BIR075", Severity.warning, ranks=stream.ranks, cores=(stream.core,), loc=inst.loc)


def _group_count(stream: Stream, sdk: Release) -> Iterator[Finding]:
    """NKC159: the releases limit how many different replica groups a program has."""
    limit = 16 if sdk >= (2, 32) else 12
    seen: set[Any] = set()
    for inst in stream.collectives:
        groups = inst.cc_channel.replica_groups
        if groups and groups not in seen:
            seen.add(groups)
            if len(seen) == limit + 1:
                yield finding(
                    "NKC159", Severity.warning, limit=limit, operand="replica_groups", ranks=stream.ranks,
                    cores=(stream.core,), loc=inst.loc,
                )  # fmt: skip


# --- predicates ------------------------------------------------------------------------------------------------------


def _ranks_per_chip(stream: Stream) -> int:
    return _CORES_OF_CHIP[stream.module.target] // stream.module.world.lnc or 1


def _ranks_per_node(stream: Stream) -> int:
    return _ranks_per_chip(stream) * _CHIPS_OF_NODE


def _groups(inst: InstCollectiveCompute) -> Sequence[tuple[int, ...]]:
    return inst.cc_channel.replica_groups


def _odd_size(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    for group in _groups(inst):
        size = len(group)
        if size != 1 and size not in (2, 4, 8, 16) and size % 32:
            return {"size": size, "ranks": tuple(sorted(group))}
    return None


def _alone(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    alone = [group[0] for group in _groups(inst) if len(group) == 1]
    return {"ranks": tuple(sorted(alone))} if alone else None


def _strided(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    for group in _groups(inst):
        if max(group) - min(group) >= len(group):
            return {"group": list(group)}
    return None


def _channels(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    count = max((*inst.channel_ids, inst.channel_id or 0)) + 1
    whole = all(len(group) % _ranks_per_node(stream) == 0 for group in _groups(inst))
    limit = 4 if whole else 2
    if count <= limit:
        return None
    return {"count": count, "limit": limit, "node": _ranks_per_node(stream), "operand": "channel_ids"}


def _small_exchange(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    least = 4 if stream.module.world.lnc == 2 else 8
    for group in _groups(inst):
        if len(group) < least:
            return {"size": len(group), "least": least, "lnc": stream.module.world.lnc}
    return None


def _gather_v(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    if inst.metadata is None:
        return None
    lnc, sizes = stream.module.world.lnc, sorted({len(group) for group in _groups(inst)})
    return {"lnc": lnc, "sizes": sizes} if lnc != 2 or sizes != [4] else None


def _exchange_v_trn3(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    for group in _groups(inst):
        consecutive = list(group) == list(range(group[0], group[0] + len(group)))
        if stream.module.world.lnc != 2 or len(group) < 8 or len(group) % 4 or group[0] % 4 or not consecutive:
            return {"group": list(group), "lnc": stream.module.world.lnc}
    return None


def _exchange_v_nodes(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    node = _ranks_per_node(stream)
    for group in _groups(inst):
        if len({rank % node for rank in group}) > 1 or len({rank // node for rank in group}) < len(group):
            return {"group": list(group), "node": node}
    return None


def _exchange_v_displacements(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    return _exchange_v_nodes(stream, inst) if inst.has_rdispls else None


def _open_permute(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    pairs = inst.src_target_pairs
    open_ends = {source for source, _ in pairs} ^ {target for _, target in pairs}
    return {"ends": show_ranks(sorted(open_ends)), "operand": "src_tgt_pairs"} if open_ends else None


def _untargeted(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    pairs = inst.src_target_pairs
    left = sorted(set(stream.ranks) - {target for _, target in pairs}) if pairs else []
    return {"ranks": tuple(left), "dst": inst.dsts[0].tensor, "operand": "src_tgt_pairs"} if left else None


def _integer_sum(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    dtype = stream.scope.dtype(inst.srcs[0])
    if dtype not in (DType.int32, DType.int64):
        return None
    code = "NCC_EVRF061" if inst.kind is CollectiveKind.AllReduce else "NCC_EVRF063"
    return {"dtype": dtype.value, "original": code, "operand": "srcs"}


def _partitions(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    for operand, aps in (("src", inst.srcs), ("dst", inst.dsts)):
        for ap in aps:
            if ap.pattern[0][1] % 16:
                return {"operand": operand}
    return None


def _dimension(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    free = inst.cc_dim is CollectiveDimension.Free or (inst.split_dim or 0) or (inst.concat_dim or 0)
    on_sbuf = not _memory(stream, inst.dsts[0]).is_hbm
    if free and not (inst.kind is CollectiveKind.AllGather and on_sbuf):
        return {"memory": "SBUF" if on_sbuf else "HBM", "operand": "collective_dim"}
    return None


def _memory(stream: Stream, ap: AccessPattern) -> Memory:
    return stream.scope.tensors[ap.tensor].memory


def _operand_in(stream: Stream, inst: InstCollectiveCompute, memory: Memory) -> Slots | None:
    for operand, aps in (("srcs", inst.srcs), ("dsts", inst.dsts)):
        for ap in aps:
            if _memory(stream, ap) is memory:
                return {"name": ap.tensor, "operand": operand}
    return None


def _private(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    return _operand_in(stream, inst, Memory.private_hbm)


def _mixed_regions(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    for operand, aps in (("srcs", inst.srcs), ("dsts", inst.dsts)):
        regions = {_memory(stream, ap) for ap in aps}
        if len(regions) > 1:
            return {"regions": " and ".join(sorted(region.value for region in regions)), "operand": operand}
    return None


def _shared_source(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    return _operand_in(stream, inst, Memory.shared_hbm) if stream.module.world.lnc == 1 else None


def _on_sbuf(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    return {"lnc": stream.module.world.lnc, "operand": "dsts"} if not _memory(stream, inst.dsts[0]).is_hbm else None


def _on_sbuf_of_two(stream: Stream, inst: InstCollectiveCompute) -> Slots | None:
    return _on_sbuf(stream, inst) if stream.module.world.lnc == 2 else None


_TRN3 = frozenset({Target.trn3})

_ALL_TO_ALL_V = frozenset({CollectiveKind.AllToAllV})
_ALL_GATHER = frozenset({CollectiveKind.AllGather})
_PERMUTE = frozenset({CollectiveKind.Permute})
_SEND_RECV = frozenset({CollectiveKind.SendRecv})

RULES: tuple[Rule, ...] = (
    Rule(code="NKC150", broken=_odd_size, kinds=_GROUPED),
    Rule(code="NKC151", broken=_alone, kinds=_GROUPED),
    Rule(code="NKC152", broken=_strided, kinds=_GROUPED),
    Rule(code="NKC153", broken=_channels, kinds=_IMPLICIT),
    Rule(code="NKC154", broken=_small_exchange, kinds=frozenset({CollectiveKind.AllToAll})),
    Rule(code="NKC155", broken=_gather_v, kinds=_ALL_GATHER),
    Rule(code="NKC156", broken=_exchange_v_trn3, kinds=_ALL_TO_ALL_V, targets=_TRN3),
    Rule(
        code="NKC157",
        broken=_exchange_v_nodes,
        kinds=_ALL_TO_ALL_V,
        targets=_EVERY - _TRN3,
        since=(2, 29),
        until=(2, 33),
    ),
    Rule(
        code="NKC157",
        broken=_exchange_v_displacements,
        kinds=_ALL_TO_ALL_V,
        targets=_EVERY - _TRN3,
        since=(2, 33),
    ),
    Rule(code="NKC158", broken=_open_permute, kinds=_PERMUTE),
    Rule(code="NKC160", broken=_untargeted, kinds=_PERMUTE),
    Rule(code="NKC161", broken=_integer_sum, kinds=_REDUCED),
    Rule(code="BIR457", broken=_partitions, kinds=_SEND_RECV, local=True, until=(2, 30)),
    Rule(code="NKC162", broken=_dimension, kinds=_DIMENSIONED),
    Rule(code="NKC163", broken=_private, until=(2, 33)),
    Rule(code="NKC164", broken=_mixed_regions, since=(2, 33)),
    Rule(code="NKC165", broken=_shared_source, kinds=_ALL_GATHER | {CollectiveKind.AllReduce}, since=(2, 33)),
    Rule(code="NKC166", broken=_on_sbuf, until=(2, 24)),
    Rule(code="NKC166", broken=_on_sbuf_of_two, since=(2, 24), until=(2, 25)),
)
