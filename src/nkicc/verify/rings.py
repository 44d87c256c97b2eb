"""Is what a ring brings used as the data of the rank it came from?

Implicit permutes pass data around a ring. After t of them, `current_processing_rank_id(iteration_id=t)` names the rank
whose data is here. This check follows data through a core's program: how many hops it has made, on which channel. A
store whose offset is the processing rank of another number of hops, or of another ring, puts the data into the wrong
rank's place.

What is certain is reported, the rest is left alone: data of unknown origin, mixtures, bounds that only the run knows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from msgspec import Struct

from nkicc.ir.access import AccessPattern, Register
from nkicc.ir.base import Inst, show_groups
from nkicc.ir.bir import CollectiveKind, InstCollectiveCompute, InstGetCurProcessingRankID, InstGetGlobalRankId
from nkicc.ir.findings import Finding, Related, Severity, finding
from nkicc.ir.isa import (
    DmaMode,
    InstActivation,
    InstDMACopy,
    InstDMATranspose,
    InstIota,
    InstMatmul,
    InstMemset,
    InstTensorCopy,
    InstTensorReduce,
    InstTensorScalar,
    InstTensorTensor,
    InstTranspose,
)
from nkicc.ir.program import LOOPS, InstLoop, Instruction, walk
from nkicc.ir.types import Groups, Loc

from .streams import Stream

__all__ = ["check_channels", "check_rings"]

#: A program that executes more instructions than this, loops unrolled, is left to the run.
MAX_STEPS = 20_000

_IMPLICIT = frozenset({CollectiveKind.PermuteImplicit, CollectiveKind.PermuteReduceImplicit})
#: Instructions whose (first) destination belongs to the rank that their sources belong to.
_CARRIERS = frozenset(
    {
        InstActivation, InstDMACopy, InstDMATranspose, InstMatmul, InstTensorCopy, InstTensorReduce, InstTensorScalar,
        InstTensorTensor, InstTranspose,
    }
)  # fmt: skip
_FILLS = frozenset({InstIota, InstMemset})


class _Data(Struct, frozen=True):
    """Where data comes from. `groups` empty: of this rank, never sent. `channel` None: of several channels."""

    hops: int = 0
    channel: int | None = None
    groups: Groups = ()
    loc: Loc | None = None

    def same_place(self, other: _Data) -> bool:
        return self.hops == other.hops and self.groups == other.groups


_OWN = _Data()


def check_rings(cores: Sequence[Stream]) -> Iterator[Finding]:
    """NKC147 for a store to the place of a rank whose data it is not, NKC148 if only the channel is another one,
    NKC149 if the ring is. `cores` are the streams of one program."""
    for stream in cores:
        body = stream.program.cores[stream.core].body
        if not any(i.kind in _IMPLICIT for i in stream.collectives) or not any(
            isinstance(i, InstGetCurProcessingRankID) for i in walk(body)
        ):
            continue
        # Where rings start is known only at the end: data in the tensor that is sent first has made no hop.
        first = _Follower(stream, _untracked(cores, stream), {})
        first.run(body)
        second = _Follower(stream, first.untracked, first.roots)
        second.run(body)
        if first.complete:
            yield from second.findings


def check_channels(stream: Stream) -> Iterator[Finding]:
    """CCO009, a warning, for a channel that is used more often than the one before it: the channels of a ring step are
    0, 1, …"""
    used: dict[Groups, dict[int, list[InstCollectiveCompute]]] = {}
    for inst in stream.collectives:
        if inst.kind in _IMPLICIT:
            by_channel = used.setdefault(inst.cc_channel.replica_groups, {})
            for channel in inst.channel_ids or (inst.channel_id or 0,):
                by_channel.setdefault(channel, []).append(inst)
    for by_channel in used.values():
        for channel, insts in sorted(by_channel.items()):
            before = by_channel.get(channel - 1, [])
            if channel and len(insts) > len(before):
                yield finding(
                    "CCO009", Severity.warning, first=min(by_channel), curr=channel, operand="channel_ids",
                    ranks=stream.ranks, cores=(stream.core,), loc=insts[len(before)].loc,
                )  # fmt: skip


def _untracked(cores: Sequence[Stream], mine: Stream) -> frozenset[str]:
    """Shared tensors that another core fills, or sends around, in a way that this core's program does not tell."""
    sent: list[dict[str, int]] = []
    filled: list[set[str]] = []
    for stream in cores:
        counts: dict[str, int] = {}
        writes: set[str] = set()
        for inst in walk(stream.program.cores[stream.core].body):
            if isinstance(inst, InstCollectiveCompute) and inst.kind in _IMPLICIT:
                for ap in (*inst.srcs, *inst.dsts):
                    counts[ap.tensor] = counts.get(ap.tensor, 0) + 1
            else:
                writes |= {ap.tensor for ap in inst.writes()}
        sent.append(counts)
        filled.append(writes)
    shared = [tensor.name for tensor in mine.program.tensors]
    return frozenset(
        name
        for name in shared
        if len({counts.get(name, 0) for counts in sent}) > 1
        or (any(name in counts for counts in sent) and len({name in writes for writes in filled}) > 1)
    )


class _Follower:
    """One pass over a core's program. A tensor's contents are the data of its regions, no two of which overlap; what no
    region holds is of unknown origin, in an input this rank's own."""

    def __init__(self, stream: Stream, untracked: frozenset[str], roots: dict[str, Groups]) -> None:
        self.stream = stream
        self.untracked = untracked
        #: Tensors from which a ring starts, with its groups: those found by an earlier pass, then by this one.
        self.known_roots = roots
        self.roots: dict[str, Groups] = {}
        self.findings: list[Finding] = []
        self.complete = True
        own = (*stream.program.inputs, *[constant.tensor for constant in stream.program.constants])
        self.contents: dict[str, dict[AccessPattern, _Data | None]] = {
            name: {stream.scope.tensors[name].full(): _OWN} for name in own
        }
        self.ranks: dict[str, InstGetCurProcessingRankID] = {}
        self.steps = 0

    def run(self, body: Sequence[Instruction]) -> None:
        for inst in body:
            self.steps += 1
            if self.steps > MAX_STEPS:
                self.complete = False
                return
            if isinstance(inst, LOOPS):
                self._loop(inst)
            else:
                self._step(inst)

    def _loop(self, loop: Instruction) -> None:
        assert isinstance(loop, LOOPS)
        if isinstance(loop, InstLoop) and isinstance(loop.start, int) and isinstance(loop.stop, int):
            for _ in range(loop.start, loop.stop, loop.step):
                self.run(loop.body)
                if not self.complete:
                    return
            return
        for inst in walk(loop.body):
            self._forget(inst)

    def _step(self, inst: Inst) -> None:
        kind = type(inst)
        if isinstance(inst, InstGetCurProcessingRankID):
            self.ranks[inst.output.name] = inst
        elif inst.mask is not None:
            self._forget(inst)
        elif isinstance(inst, InstCollectiveCompute) and inst.kind is CollectiveKind.PermuteImplicit:
            self._permute(inst)
        elif kind in _FILLS:
            for ap in inst.writes():
                self._write(ap, _OWN)
        elif kind in _CARRIERS and not (isinstance(inst, InstDMACopy) and inst.mode is not DmaMode.copy):
            self._carry(inst)
        else:
            self._forget(inst)

    def _forget(self, inst: Inst) -> None:
        """What an instruction writes is of unknown origin."""
        for ap in inst.writes():
            self._write(ap, None)
        for register in (getattr(inst, "dst", None), getattr(inst, "output", None)):
            if isinstance(register, Register) and not isinstance(inst, InstGetGlobalRankId):
                self.ranks.pop(register.name, None)

    def _permute(self, inst: InstCollectiveCompute) -> None:
        groups = inst.cc_channel.replica_groups
        channels = inst.channel_ids or (inst.channel_id or 0,) * len(inst.srcs)
        arrived: list[_Data | None] = []
        for src, channel in zip(inst.srcs, channels, strict=True):
            data = self._read(src)
            if data is not None and not data.hops:
                self.roots[src.tensor] = groups
            follows = data is not None and (
                not data.hops or (data.groups == groups and data.channel in (None, channel))
            )
            arrived.append(_Data(data.hops + 1, channel, groups, inst.loc) if data is not None and follows else None)
        for dst, data in zip(inst.dsts, arrived, strict=True):
            self._write(dst, data)

    def _carry(self, inst: Inst) -> None:
        sources = [self._read(ap) for ap in inst.reads()]
        first, *others = inst.writes()
        if isinstance(inst, InstMatmul):
            # A product belongs to the rank of the factor that has travelled; a sum of two has no rank.
            moved = [data for data in sources if data is None or data.groups]
            data = _common(moved or sources)
            if inst.accumulate is not False and (held := self._held(first)):
                data = _common([data, *held])
        else:
            data = _common(sources)
        if isinstance(first.scalar_offset, str) and data is not None:
            self._check_store(inst, first.scalar_offset, data)
        self._write(first, data)
        for ap in others:
            self._write(ap, None)

    def _check_store(self, inst: Inst, register: str, data: _Data) -> None:
        rank = self.ranks.get(register)
        if rank is None or not data.groups:
            return
        sizes = {len(group) for group in (*data.groups, *rank.replica_groups)}
        slots = {"ranks": self.stream.ranks, "cores": (self.stream.core,), "operand": "dst", "loc": inst.loc}
        related = [Related(f"the processing rank of iteration {rank.iter_id} is asked for here", rank.loc)]
        if data.loc is not None:
            related.append(Related(f"hop {data.hops} of the data", data.loc))
        slots["related"] = tuple(related)
        if rank.replica_groups != data.groups:
            if any(rank.iter_id % size or data.hops % size for size in sizes):
                shown = {"groups": show_groups(data.groups), "asked": show_groups(rank.replica_groups)}
                self.findings.append(finding("NKC149", inst=type(inst).__name__, **shown, **slots))
        elif any((rank.iter_id - data.hops) % size for size in sizes):
            self.findings.append(
                finding("NKC147", inst=type(inst).__name__, iteration=rank.iter_id, hops=data.hops, **slots)
            )
        elif data.channel not in (None, rank.channel_id) and any(data.hops % size for size in sizes):
            self.findings.append(
                finding("NKC148", inst=type(inst).__name__, asked=rank.channel_id, channel=data.channel, **slots)
            )

    def _read(self, ap: AccessPattern) -> _Data | None:
        data = _common(self._held(ap))
        if data is not None and not data.groups and ap.tensor in self.known_roots:
            return _Data(0, None, self.known_roots[ap.tensor])
        return data

    def _held(self, ap: AccessPattern) -> list[_Data | None]:
        regions = self.contents.get(ap.tensor, {})
        if ap in regions:
            return [regions[ap]]
        return [data for region, data in regions.items() if ap.is_dynamic or not _disjoint(region, ap)]

    def _write(self, ap: AccessPattern, data: _Data | None) -> None:
        if ap.tensor in self.untracked:
            return
        if ap.is_dynamic:
            self.contents[ap.tensor] = {self.stream.scope.tensors[ap.tensor].full(): None}
            return
        regions = self.contents.setdefault(ap.tensor, {})
        if ap not in regions:
            for region in [region for region in regions if not _disjoint(region, ap)]:
                del regions[region]
        regions[ap] = data


def _common(sources: Sequence[_Data | None]) -> _Data | None:
    """What several data have in common: None unless all have come equally far on the same rings."""
    if not sources or sources[0] is None:
        return None
    first = sources[0]
    for data in sources[1:]:
        if data is None or not data.same_place(first):
            return None
        if data.channel != first.channel:
            first = _Data(first.hops, None, first.groups, first.loc)
    return first


def _disjoint(a: AccessPattern, b: AccessPattern) -> bool:
    """Whether two static views certainly share no element: apart as a whole, or in columns of equally long rows."""
    if a.dtype is not b.dtype or a.is_dynamic or b.is_dynamic:
        return False
    a_low, a_high, a_pitch, a_first, a_last = _extent(a)
    b_low, b_high, b_pitch, b_first, b_last = _extent(b)
    if a_high < b_low or b_high < a_low:
        return True
    rows = a_pitch == b_pitch >= 2 and max(a_last, b_last) < a_pitch
    return rows and (a_last < b_first or b_last < a_first)


@functools.lru_cache(maxsize=1 << 14)
def _extent(ap: AccessPattern) -> tuple[int, int, int, int, int]:
    """Lowest and highest element of a static view, the length of its rows, and its first and last column."""
    pitch = ap.pattern[0][0]
    first = ap.offset % pitch if pitch else 0
    return *ap.bounds(), pitch, first, first + sum(abs(stride) * (count - 1) for stride, count in ap.pattern[1:])
