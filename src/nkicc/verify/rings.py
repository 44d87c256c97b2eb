"""Is what a ring brings used as the data of the rank it came from?

Implicit permutes pass data around a ring. After t of them, `current_processing_rank_id(iteration_id=t)` names the rank
whose data is here. This check follows data through a core's program: how many hops it has made, on which channel. A
store whose offset is the processing rank of another number of hops, or of another ring, puts the data into the wrong
rank's place. Sums of what passes by are followed, too (see sums.py), and whether arrivals are read at all.

What is certain is reported, the rest is left alone: data of unknown origin, mixtures, bounds that only the run knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

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
from nkicc.ir.types import AluOp, Groups, Loc

from .regions import disjoint
from .streams import Stream
from .sums import ZERO, Sum, Value, add, check_sums

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
#: Carriers that leave the data as they are; what the others make of them is another value.
_COPIES = (InstDMACopy, InstTensorCopy)
#: Products and quotients of a sum with data of this rank are sums of as many parts.
_SCALES = frozenset({AluOp.mult, AluOp.divide})


class _Data(Struct, frozen=True):
    """Where data comes from. `groups` empty: of this rank, never sent. `channel` None: of several channels."""

    hops: int = 0
    channel: int | None = None
    groups: Groups = ()
    loc: Loc | None = None
    value: Value = None
    #: Whether it was sent by lines of the kernel that may belong to one ring or to two.
    doubtful: bool = False

    def same_place(self, other: _Data) -> bool:
        return self.hops == other.hops and self.groups == other.groups


_Content = _Data | Sum | None


def check_rings(cores: Sequence[Stream]) -> Iterator[Finding]:
    """NKC147 for a store to the place of a rank whose data it is not, NKC148 if only the channel is another one,
    NKC149 if the ring is: errors, but warnings for data that another line has sent before, perhaps on a ring of its
    own. As warnings, NKC130 and NKC131 for sums in which a rank's part stands twice or not at all, NKC132 for
    arrivals, or sums of them, that nothing reads. `cores` are the streams of one program."""
    followers: list[_Follower] = []
    for stream in cores:
        body = stream.program.cores[stream.core].body
        if not any(i.kind in _IMPLICIT for i in stream.collectives):
            continue
        second = first = _Follower(stream, _untracked(cores, stream), {})
        first.run(body)
        if any(isinstance(inst, InstGetCurProcessingRankID) for inst in walk(body)):
            # Where rings start is known only at the end: data in the tensor that is sent first has made no hop.
            second = _Follower(stream, first.untracked, first.roots, first.doubtful)
            second.run(body)
        if first.complete:
            followers.append(second)
            yield from second.findings
            yield from check_sums(second.stored, second.whole, ranks=stream.ranks, cores=(stream.core,))
    if len(followers) == len(cores):
        yield from _check_unread(followers)


def _check_unread(followers: Sequence[_Follower]) -> Iterator[Finding]:
    """NKC132, where on no core anything reads what a line brings: one core may take part for the other's sake. What
    other cores, or the caller, may read is left out."""
    program = followers[0].stream.program
    kept = {view.tensor for view in program.outputs}
    if len(followers) > 1:
        kept |= {tensor.name for tensor in program.tensors}
    everywhere = set.intersection(*[{inst.loc for _, inst in f.left_unread(kept)} for f in followers])
    for follower in followers:
        for tensor, inst in follower.left_unread(kept):
            if inst.loc in everywhere:
                yield finding(
                    "NKC132", Severity.warning, inst=inst.label, name=tensor, operand="dst", loc=inst.loc,
                    ranks=follower.stream.ranks, cores=(follower.stream.core,),
                )  # fmt: skip


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

    def __init__(
        self, stream: Stream, untracked: frozenset[str], roots: dict[str, Groups], doubtful: Set[str] = frozenset()
    ) -> None:
        self.stream = stream
        self.untracked = untracked
        #: Tensors from which a ring starts, with its groups: those found by an earlier pass, then by this one.
        self.known_roots = roots
        self.roots: dict[str, Groups] = {}
        #: Tensors that are sent by another line than the one that their data came from: found as `roots` are.
        self.known_doubtful = doubtful
        self.doubtful: set[str] = set()
        self.findings: list[Finding] = []
        self.complete = True
        own = (*stream.program.inputs, *[constant.tensor for constant in stream.program.constants])
        self.contents: dict[str, dict[AccessPattern, _Content]] = {
            name: {stream.scope.tensors[name].full(): _Data(value=name)} for name in own
        }
        #: Sums that were written to HBM, and the values whose sum was complete at some time.
        self.stored: list[tuple[Inst, Sum]] = []
        self.whole: set[Value] = set()
        #: What hops have brought, and sums of that, that nothing has read yet.
        self.unread: dict[str, list[tuple[AccessPattern, Inst]]] = {}
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
            self._note_reads(inst)
            self._forget(inst)

    def _step(self, inst: Inst) -> None:
        kind = type(inst)
        self._note_reads(inst)
        if isinstance(inst, InstGetCurProcessingRankID):
            self.ranks[inst.output.name] = inst
        elif inst.mask is not None:
            self._forget(inst)
        elif isinstance(inst, InstCollectiveCompute) and inst.kind is CollectiveKind.PermuteImplicit:
            self._permute(inst)
        elif isinstance(inst, InstCollectiveCompute) and inst.kind is CollectiveKind.PermuteReduceImplicit:
            self._permute_reduce(inst)
        elif kind in _FILLS:
            for ap in inst.writes():
                zero = isinstance(inst, InstMemset) and inst.value == 0
                self._write(ap, _Data(value="" if zero else inst.loc))
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

    def _note_reads(self, inst: Inst) -> None:
        """What an instruction reads is no arrival for nothing."""
        for ap in inst.reads() if self.unread else ():
            for view in (ap, ap.scalar_offset, ap.vector_offset):
                if isinstance(view, AccessPattern):
                    self._drop_unread(view)

    def _drop_unread(self, ap: AccessPattern) -> None:
        unread = self.unread.get(ap.tensor)
        if unread:
            self.unread[ap.tensor] = [(region, inst) for region, inst in unread if disjoint(region, ap)]

    def left_unread(self, kept: set[str]) -> list[tuple[str, Inst]]:
        """What is unread at the end, but for the tensors `kept`."""
        return [(name, inst) for name, left in self.unread.items() if name not in kept for _, inst in left]

    def _permute(self, inst: InstCollectiveCompute) -> None:
        groups = inst.cc_channel.replica_groups
        channels = inst.channel_ids or (inst.channel_id or 0,) * len(inst.srcs)
        arrived: list[_Content] = []
        for src, channel in zip(inst.srcs, channels, strict=True):
            data = self._read(src)
            if data is not None and not data.hops:
                self.roots[src.tensor] = groups
            if data is not None and data.hops and data.loc != inst.loc:
                self.doubtful.add(src.tensor)
            follows = data is not None and (
                not data.hops or (data.groups == groups and data.channel in (None, channel))
            )
            if data is not None and follows:
                arrived.append(_Data(data.hops + 1, channel, groups, inst.loc, data.value, data.doubtful))
            else:
                total = self._sum(src)
                arrived.append(total and total.sent(groups))
        self._arrive(inst, arrived)

    def _permute_reduce(self, inst: InstCollectiveCompute) -> None:
        arrived: list[_Content] = []
        for left, right in zip(inst.srcs[::2], inst.srcs[1::2], strict=True):
            total = self._add(left, right, inst.loc) if inst.cc_channel.op is AluOp.add else None
            arrived.append(total and total.sent(inst.cc_channel.replica_groups))
        self._arrive(inst, arrived)

    def _arrive(self, inst: InstCollectiveCompute, arrived: Sequence[_Content]) -> None:
        for dst, data in zip(inst.dsts, arrived, strict=True):
            self._write(dst, data)
            self.unread.setdefault(dst.tensor, []).append((dst, inst))

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
        total = self._total(inst)
        if isinstance(first.scalar_offset, str) and data is not None:
            self._check_store(inst, first.scalar_offset, data)
        if total is not None and self.stream.scope.tensors[first.tensor].memory.is_hbm:
            self.stored.append((inst, total))
        if data is not None and not isinstance(inst, _COPIES):
            data = replace(data, value=inst.loc)
        self._write(first, data if total is None else total)
        if total is not None and total.groups:
            self.unread.setdefault(first.tensor, []).append((first, inst))
        for ap in others:
            self._write(ap, None)

    def _total(self, inst: Inst) -> Sum | None:
        """What an instruction makes of sums, or of parts of one; None if there is no sum."""
        if isinstance(inst, InstTensorTensor) and inst.op is AluOp.add and inst.data1 != inst.data2:
            return self._add(inst.data1, inst.data2, inst.loc)
        totals: list[Sum] = []
        for ap in inst.reads():
            held = self._held(ap)
            if all(isinstance(data, Sum) for data in held) and (total := self._sum(ap)):
                totals.append(total)
            elif any(not isinstance(data, _Data) or data.groups for data in held) or not held:
                return None
        scales = not isinstance(inst, InstTensorTensor) or inst.op in _SCALES
        scales = scales and not (isinstance(inst, InstMatmul) and inst.accumulate is not False)
        return totals[0] if len(totals) == 1 and scales else None

    def _add(self, left: AccessPattern, right: AccessPattern, loc: Loc | None) -> Sum | None:
        total = add(self._sum(left), self._sum(right), loc)
        if total is not None:
            size, distances = total.members()
            if size and len(distances) == size:
                self.whole.add(total.value)
        return total

    def _sum(self, ap: AccessPattern) -> Sum | None:
        """What a view holds as a sum; data of one rank are one of one part."""
        parts = [_as_sum(data) for data in self._held(ap)]
        first = parts[0] if parts else None
        return first if first and all(part and part.same_parts(first) for part in parts) else None

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
        severity = Severity.warning if data.doubtful else Severity.error
        if rank.replica_groups != data.groups:
            if any(rank.iter_id % size or data.hops % size for size in sizes):
                shown = {"groups": show_groups(data.groups), "asked": show_groups(rank.replica_groups)}
                self.findings.append(finding("NKC149", severity, inst=type(inst).__name__, **shown, **slots))
        elif any((rank.iter_id - data.hops) % size for size in sizes):
            self.findings.append(
                finding("NKC147", severity, inst=type(inst).__name__, iteration=rank.iter_id, hops=data.hops, **slots)
            )
        elif data.channel not in (None, rank.channel_id) and any(data.hops % size for size in sizes):
            self.findings.append(
                finding(
                    "NKC148", severity, inst=type(inst).__name__, asked=rank.channel_id, channel=data.channel, **slots
                )
            )

    def _read(self, ap: AccessPattern) -> _Data | None:
        data = _common([_as_data(held) for held in self._held(ap)])
        if data is not None and not data.groups and ap.tensor in self.known_roots:
            return _Data(0, None, self.known_roots[ap.tensor], None, data.value)
        return replace(data, doubtful=True) if data is not None and ap.tensor in self.known_doubtful else data

    def _held(self, ap: AccessPattern) -> list[_Content]:
        regions = self.contents.get(ap.tensor, {})
        if ap in regions:
            return [regions[ap]]
        return [data for region, data in regions.items() if ap.is_dynamic or not disjoint(region, ap)]

    def _write(self, ap: AccessPattern, data: _Content) -> None:
        self._drop_unread(ap)
        if ap.tensor in self.untracked:
            return
        if ap.is_dynamic:
            self.contents[ap.tensor] = {self.stream.scope.tensors[ap.tensor].full(): None}
            return
        regions = self.contents.setdefault(ap.tensor, {})
        if ap not in regions:
            for region in [region for region in regions if not disjoint(region, ap)]:
                del regions[region]
        regions[ap] = data


def _as_sum(data: _Content) -> Sum | None:
    if isinstance(data, _Data):
        return ZERO if data.value == "" else Sum(data.value, data.groups, (data.hops,), data.loc)
    return data


def _as_data(content: _Content) -> _Data | None:
    """A sum whose parts have come equally far is data like any other."""
    if not isinstance(content, Sum):
        return content
    several, hops = len(content.hops) > 1, set(content.hops)
    return _Data(hops.pop(), None, content.groups, content.loc, content.value) if several and len(hops) == 1 else None


def _common(sources: Sequence[_Content]) -> _Data | None:
    """What several data have in common: None unless all have come equally far on the same rings."""
    if not sources or not isinstance(sources[0], _Data):
        return None
    first = sources[0]
    for data in sources[1:]:
        if not isinstance(data, _Data) or not data.same_place(first):
            return None
        if data.channel != first.channel or data.value != first.value:
            same = data.channel == first.channel
            value = first.value if data.value == first.value else None
            doubtful = first.doubtful or data.doubtful
            first = _Data(first.hops, first.channel if same else None, first.groups, first.loc, value, doubtful)
    return first
