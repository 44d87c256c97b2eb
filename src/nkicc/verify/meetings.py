"""Do the meetings of all streams come about?

The streams are walked as the simulator would run them, but nothing is computed: who meets whom depends on the sequences
alone. A loop is passed as often as its constant bounds say. Where only the run can tell (a mask, a bound in a register,
a while loop) a stream's walk ends, and what depends on it is left to the run: there is no finding that a run would
not confirm.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence

from nkicc.ir.access import AccessPattern
from nkicc.ir.base import Inst, show_ranks
from nkicc.ir.bir import (
    LOCAL_KINDS,
    CollectiveKind,
    InstCollectiveCompute,
    InstCollectiveRecv,
    InstCollectiveSend,
    InstCoreBarrier,
    InstGPSIMDSB2SB,
)
from nkicc.ir.findings import Finding, Related, finding
from nkicc.ir.readings import Reading, meaning

from .streams import Loop, Node, Settle, Stream, ranks_of

__all__ = ["check_meetings"]

#: A walk of more arrivals than this is left to the run.
MAX_ARRIVALS = 50_000
#: Arrivals of each stream that a report may show.
SHOWN = 4

Place = tuple[int, int]  # (program, core)


def check_meetings(streams: Sequence[Stream], readings: Sequence[Sequence[Reading]]) -> list[Finding]:
    """Walk all streams; `readings` are those of each stream's collectives between ranks, in program order.

    NKC101 where members of one operation differ, NKC103 for a raw send or receive that several ranks issue, and once
    no stream can move: NKC142 (transfer between cores), NKC143 (barrier), NKC144 (collective), NKC145 (send, receive)
    for what some never reach, or NKC146 for a cycle of waits.
    """
    alone = len({stream.index for stream in streams}) == 1
    if alone and len(streams) == 1 and not any(_is_raw(node) for node in _flat(streams[0].nodes)):
        return []
    return _Walk(streams, readings, alone).run()


def _is_raw(node: Node) -> bool:
    return isinstance(node, InstCollectiveSend | InstCollectiveRecv)


def _flat(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        if isinstance(node, Loop):
            yield from _flat(node.body)
        else:
            yield node


class _Ticket:
    """One arrival at a meeting. `waits_for` are the streams that must still come: one of each tuple."""

    __slots__ = ("done", "inst", "waits_for", "walker")

    def __init__(self, walker: _Walker, inst: Inst) -> None:
        self.walker = walker
        self.inst = inst
        self.done = False
        self.waits_for: list[tuple[_Walker, ...]] = []


class _Walker:
    """A stream and how far its walk has come."""

    __slots__ = ("arrivals", "finished", "history", "late", "reading", "steps", "stream", "unknown", "waits")

    def __init__(self, stream: Stream, readings: Sequence[Reading]) -> None:
        self.stream = stream
        ranked = [inst for inst in stream.collectives if not inst.is_local]
        self.reading = {id(inst): reading for inst, reading in zip(ranked, readings, strict=True)}
        self.steps = self._steps(stream.nodes)
        self.arrivals = 0
        self.history: deque[Inst] = deque(maxlen=SHOWN)
        self.waits: list[_Ticket] = []
        self.late: list[_Ticket] = []
        self.finished = False
        self.unknown = False

    def _steps(self, nodes: Sequence[Node]) -> Iterator[Node]:
        for node in nodes:
            if isinstance(node, Loop) and node.count is not None:
                for _ in range(node.count):
                    yield from self._steps(node.body)
            else:
                yield node

    @property
    def open(self) -> _Ticket | None:
        """What the walker waits for, if it does."""
        return next((ticket for ticket in self.waits if not ticket.done), None)

    def left(self) -> int:
        """How many arrivals are left, as far as that is known before a run."""
        count = 0
        for node in self.steps:
            if isinstance(node, Loop) or count >= MAX_ARRIVALS:
                break
            count += not isinstance(node, Settle)
        return count


class _Mismatch(Exception):
    def __init__(self, found: Finding) -> None:
        self.found = found


class _Walk:
    def __init__(self, streams: Sequence[Stream], readings: Sequence[Sequence[Reading]], alone: bool) -> None:
        self.walkers = [_Walker(s, r) for s, r in zip(streams, readings, strict=True)]
        self.alone = alone
        self.of = {(w.stream.index, w.stream.core): w for w in self.walkers}
        self.programs: dict[int, list[_Walker]] = defaultdict(list)
        for walker in self.walkers:
            self.programs[walker.stream.index].append(walker)
        self.program_of = {rank: s.index for s in streams for rank in s.ranks}
        self.arrivals = 0
        self.barriers: dict[int, dict[int, _Ticket]] = defaultdict(dict)
        self.posts: dict[tuple[int, str, int | None], dict[int, deque[_Ticket]]] = defaultdict(
            lambda: defaultdict(deque)
        )
        self.twins: dict[tuple[int, int], _Ticket] = {}
        self.arrived: dict[tuple[int, int], list[_Ticket]] = {}
        self.raw: dict[tuple[int, int, int], _Ticket] = {}
        self.numbers: dict[InstCollectiveCompute, int] = {}
        self.number_of: dict[int, int] = {}
        #: By program, the first meeting whose members stood at different places.
        self.parted: dict[int, tuple[Related, Related]] = {}

    def run(self) -> list[Finding]:
        try:
            while self.arrivals <= MAX_ARRIVALS:
                free = [w for w in self.walkers if not (w.finished or w.unknown) and all(t.done for t in w.waits)]
                if not free:
                    return list(self._stuck())
                for walker in free:
                    self._advance(walker)
        except _Mismatch as mismatch:
            return [mismatch.found]
        return []

    def _advance(self, walker: _Walker) -> None:
        """On to the next arrival that must wait, or to the end."""
        walker.waits = []
        for node in walker.steps:
            if isinstance(node, Settle):
                walker.waits, walker.late = walker.late, []
            elif isinstance(node, Loop):
                walker.unknown = True
                return
            else:
                self.arrivals += 1
                walker.arrivals += 1
                walker.history.append(node)
                ticket = _Ticket(walker, node)
                self._arrive(walker, node, ticket)
                if isinstance(node, InstCollectiveCompute) and node.is_local and node.kind in LOCAL_KINDS:
                    walker.late.append(ticket)
                    continue
                walker.waits = [ticket]
            if not all(t.done for t in walker.waits) or self.arrivals > MAX_ARRIVALS:
                return
        walker.finished = True

    def _arrive(self, walker: _Walker, inst: Inst, ticket: _Ticket) -> None:
        if isinstance(inst, InstCollectiveCompute):
            if inst.is_local:
                self._post(walker, ticket, inst.kind.value, inst.pipe_id)
            else:
                self._collective(walker, inst, ticket)
        elif isinstance(inst, InstCoreBarrier):
            self._barrier(walker, inst, ticket)
        elif isinstance(inst, InstGPSIMDSB2SB):
            self._post(walker, ticket, "GPSIMDSB2SB", inst.pipe_id)
        elif isinstance(inst, InstCollectiveSend | InstCollectiveRecv):
            self._raw(walker, inst, ticket)

    # --- the cores of a rank -----------------------------------------------------------------------------------------

    def _barrier(self, walker: _Walker, inst: InstCoreBarrier, ticket: _Ticket) -> None:
        program = walker.stream.index
        here = self.barriers[program]
        for other in here.values():
            meets = other.inst
            assert isinstance(meets, InstCoreBarrier)
            if meets.cores != inst.cores or _data(meets) != _data(inst):
                differ = [_barrier_text(meets), _barrier_text(inst)]
                raise _Mismatch(self._differ("core barrier", other, ticket, differ[0], differ[1]))
        here[walker.stream.core] = ticket
        missing = [core for core in inst.cores if core not in here]
        if missing:
            ticket.waits_for = [(self.of[program, core],) for core in missing]
        else:
            for core in inst.cores:
                here.pop(core).done = True

    def _post(self, walker: _Walker, ticket: _Ticket, kind: str, pipe: int | None) -> None:
        program, cores = walker.stream.index, range(len(walker.stream.program.cores))
        queues = self.posts[program, kind, pipe]
        queues[walker.stream.core].append(ticket)
        missing = [core for core in cores if not queues[core]]
        if missing:
            ticket.waits_for = [(self.of[program, core],) for core in missing]
            return
        met = [queues[core].popleft() for core in cores]
        for mine in met:
            self._check_post(mine, met)
            mine.done = True

    def _check_post(self, mine: _Ticket, met: list[_Ticket]) -> None:
        """NKC101 unless a core gets what its destination holds."""
        inst = mine.inst
        froms: tuple[int, ...]
        if isinstance(inst, InstGPSIMDSB2SB):
            froms = (1 - mine.walker.stream.core,)
        else:
            assert isinstance(inst, InstCollectiveCompute)
            froms = inst.recv_from_rank if inst.kind is not CollectiveKind.AllReduce else tuple(range(len(met)))
        (dst,) = inst.writes()
        for position, core in enumerate(froms):
            other = met[core]
            sources = other.inst.reads()
            fold = isinstance(inst, InstCollectiveCompute) and inst.kind is CollectiveKind.SendRecvCCE
            want = _shown(mine.walker.stream, dst)
            have = _shown(other.walker.stream, sources[min(position if fold else 0, len(sources) - 1)])
            if want != have:
                raise _Mismatch(self._differ(inst.label, other, mine, f"sends {have}", f"receives {want}"))

    # --- ranks -------------------------------------------------------------------------------------------------------

    def _collective(self, walker: _Walker, inst: InstCollectiveCompute, ticket: _Ticket) -> None:
        reading = walker.reading[id(inst)]
        program = walker.stream.index
        tickets = [ticket]
        if reading is Reading.both:
            key = (program, self._number(inst))
            first = self.twins.pop(key, None)
            if first is None:
                self.twins[key] = ticket
                ticket.waits_for = [tuple(w for w in self.programs[program] if w is not walker)]
                return
            tickets.append(first)
        if self.alone:
            for arrived in tickets:
                arrived.done = True
            return
        lane = reading.lane(walker.stream.core)
        self.arrived[program, lane] = tickets
        members = self._members(program, inst)
        present = self._present(program, lane, members)
        for other in present:
            if other != program:
                self._same_operation(self.arrived[other, lane][0], ticket)
        missing = [p for p in members if p not in present]
        if missing:
            who = [tuple(w for w in self.programs[p] if lane in (-1, w.stream.core)) for p in missing]
            for other in present:
                for arrived in self.arrived[other, lane]:
                    arrived.waits_for = who
        else:
            met = [self.arrived.pop((other, lane)) for other in members]
            for arrived in (ticket for tickets in met for ticket in tickets):
                arrived.done = True
            self._note_parting([tickets[0] for tickets in met])

    def _note_parting(self, met: list[_Ticket]) -> None:
        """Operations that meet from different places are legal, but tell where the fault is if one side ends early."""
        first = met[0]
        for other in met[1:]:
            if (other.inst.loc, other.inst.name) != (first.inst.loc, first.inst.name):
                sides = (
                    Related(f"{first.walker.stream} issues {first.inst.label} here", first.inst.loc),
                    Related(f"{other.walker.stream} meets it in {other.inst.label} here", other.inst.loc),
                )
                for ticket in (first, other):
                    self.parted.setdefault(ticket.walker.stream.index, sides)

    def _present(self, program: int, lane: int, members: list[int]) -> list[int]:
        """The members that have arrived. One that waits in an operation of others comes to this one later."""
        return [
            p
            for p in members
            if (p, lane) in self.arrived and program in self._members(p, self.arrived[p, lane][0].inst)  # type: ignore[arg-type]
        ]

    def _number(self, inst: InstCollectiveCompute) -> int:
        """A number that instructions share if they mean the same."""
        number = self.number_of.get(id(inst))
        if number is None:
            number = self.number_of[id(inst)] = self.numbers.setdefault(meaning(inst), len(self.numbers))
        return number

    def _members(self, start: int, inst: InstCollectiveCompute) -> list[int]:
        """The programs that must take part because they share a group (or a pair) with one that does."""
        groups = inst.cc_channel.replica_groups or inst.src_target_pairs
        sets = [{self.program_of[rank] for rank in group} for group in groups]
        found, size = {start}, 0
        while size != len(found):
            size = len(found)
            for programs in sets:
                if programs & found:
                    found |= programs
        return sorted(found)

    def _same_operation(self, other: _Ticket, ticket: _Ticket) -> None:
        """NKC101 unless two members issue the same operation."""
        left, right = _fingerprint(other), _fingerprint(ticket)
        if left == right:
            return
        differ = [name for name in left if left[name] != right[name]]
        texts = [
            ", ".join(f"{name} {_names(side.inst, name)}{fields[name]}" for name in differ)
            for side, fields in ((other, left), (ticket, right))
        ]
        assert isinstance(ticket.inst, InstCollectiveCompute)
        later = [
            Related(f"{a.walker.stream} issues what {b.walker.stream} does here at another place", inst.loc)
            for a, b, want in ((other, ticket, right), (ticket, other, left))
            for inst in _elsewhere(a, want)
        ]
        raise _Mismatch(self._differ(ticket.inst.label, other, ticket, texts[0], texts[1], later))

    def _raw(self, walker: _Walker, inst: InstCollectiveSend | InstCollectiveRecv, ticket: _Ticket) -> None:
        ranks, peer = walker.stream.ranks, inst.peer_id
        if len(ranks) != 1:
            raise _Mismatch(
                finding("NKC103", inst=inst.label, ranks=ranks, cores=(walker.stream.core,), loc=inst.loc, peer=peer)
            )
        sends = isinstance(inst, InstCollectiveSend)
        core = walker.stream.core
        key = (ranks[0], peer, core) if sends else (peer, ranks[0], core)
        other = self.raw.get(key)
        if other is None or type(other.inst) is type(inst):
            self.raw[key] = ticket
            ticket.waits_for = [(self.of[self.program_of[peer], core],)]
            return
        del self.raw[key]
        source, target = (ticket, other) if sends else (other, ticket)
        have = [_shown(source.walker.stream, ap) for ap in source.inst.reads()]
        want = [_shown(target.walker.stream, ap) for ap in target.inst.writes()]
        if have != want:
            left, right = f"sends {', '.join(have)}", f"receives {', '.join(want)}"
            raise _Mismatch(self._differ("send/receive", source, target, left, right))
        ticket.done = other.done = True

    # --- reports -----------------------------------------------------------------------------------------------------

    def _differ(
        self, what: str, a: _Ticket, b: _Ticket, left: str, right: str, more: Sequence[Related] = ()
    ) -> Finding:
        """NKC101 at the second of two arrivals, with the line of the first."""
        return finding(
            "NKC101", inst=what, left=str(a.walker.stream), left_op=left, right=str(b.walker.stream), right_op=right,
            ranks=ranks_of((a.walker.stream, b.walker.stream)), cores=_cores((a.walker, b.walker)), loc=b.inst.loc,
            related=(Related(f"{a.walker.stream} issues {a.inst.label} here", a.inst.loc), *more),
        )  # fmt: skip

    def _stuck(self) -> Iterator[Finding]:
        """Nobody can move. What waits for a stream that has finished is a fault of its own; if there is none, those
        that wait for each other are one."""
        may_move = {id(w) for w in self.walkers if w.unknown}
        waiting = [w for w in self.walkers if not (w.finished or w.unknown)]
        grown = True
        while grown:
            movable = [
                w
                for w in waiting
                if id(w) not in may_move
                and all(any(id(o) in may_move for o in group) for t in w.waits if not t.done for group in t.waits_for)
            ]
            may_move |= {id(w) for w in movable}
            grown = bool(movable)
        stuck = [w for w in waiting if id(w) not in may_move]
        seen: set[tuple[object, ...]] = set()
        for walker in stuck:
            for ticket in walker.waits:
                absent = [o for group in ticket.waits_for if all(o.finished for o in group) for o in group]
                if not ticket.done and absent:
                    found, key = self._absent(ticket, absent)
                    if key not in seen:
                        seen.add(key)
                        yield found
        if stuck and not seen:
            first = next(t for t in stuck[0].waits if not t.done)
            places = _places(stuck)
            yield finding(
                "NKC146", summary=", ".join(related.message for related in places), ranks=ranks_of(
                    w.stream for w in stuck), cores=_cores(stuck), loc=first.inst.loc, related=places,
            )  # fmt: skip

    def _absent(self, ticket: _Ticket, absent: list[_Walker]) -> tuple[Finding, tuple[object, ...]]:
        """The finding for a meeting to which somebody never comes, and what tells it from others."""
        inst, walker = ticket.inst, ticket.walker
        stream = walker.stream
        common = {
            "inst": inst.label,
            "who": str(stream),
            "others": _who(absent),
            "loc": inst.loc,
            "cores": _cores((walker, *absent)),
            "related": _places(absent),
        }
        key = (stream.index, id(inst))
        ranks = ranks_of((stream, *[w.stream for w in absent]))
        if isinstance(inst, InstCoreBarrier):
            return finding("NKC143", ranks=ranks, **common), key
        if isinstance(inst, InstCollectiveSend | InstCollectiveRecv):
            what = "receive from" if isinstance(inst, InstCollectiveSend) else "send to"
            return finding("NKC145", ranks=ranks, what=what, rank=stream.ranks[0], peer=inst.peer_id, **common), key
        if isinstance(inst, InstGPSIMDSB2SB) or (isinstance(inst, InstCollectiveCompute) and inst.is_local):
            return finding("NKC142", ranks=ranks, pipe=inst.pipe_id, **common), key
        assert isinstance(inst, InstCollectiveCompute)
        program, lane = stream.index, walker.reading[id(inst)].lane(stream.core)
        members = self._members(program, inst)
        here = self._present(program, lane, members) or [program]
        expected, came = (sorted({r for p in ps for r in self.programs[p][0].stream.ranks}) for ps in (members, here))
        common["related"] = (*_places(absent), *self.parted.get(absent[0].stream.index, ()))
        found = finding(
            "NKC144", ranks=tuple(expected), expected=show_ranks(expected), arrived=show_ranks(came),
            less=absent[0].arrivals, more=1 + walker.left(), **common,
        )  # fmt: skip
        return found, tuple(sorted(members))


def _who(walkers: Sequence[_Walker]) -> str:
    """The streams of some walkers, ranks folded; cores are left out where all of a rank are meant."""
    stream = walkers[0].stream
    by_core: dict[int, list[Stream]] = defaultdict(list)
    for walker in walkers:
        by_core[walker.stream.core].append(walker.stream)
    if len(stream.module.programs) == 1:
        return " and ".join(f"core {core}" for core in sorted(by_core))
    ranks = {core: f"rank(s) {show_ranks(ranks_of(streams))}" for core, streams in sorted(by_core.items())}
    if len(ranks) == stream.module.world.lnc and len(set(ranks.values())) == 1:
        return ranks[stream.core]
    return " and ".join(f"{text} core {core}" for core, text in ranks.items())


def _places(walkers: Iterable[_Walker]) -> tuple[Related, ...]:
    """Where walkers are, those in one place together."""
    places: dict[tuple[object, ...], list[_Walker]] = defaultdict(list)
    for walker in walkers:
        ticket = walker.open
        inst = ticket.inst if ticket else walker.history[-1] if walker.history else None
        where = None if inst is None else inst.loc or inst.label
        awaited = frozenset(id(other) for group in ticket.waits_for for other in group) if ticket else None
        places[walker.stream.core, awaited, type(inst), where].append(walker)
    return tuple([_place(together) for together in places.values()])


def _place(together: list[_Walker]) -> Related:
    who, first = _who(together), together[0]
    ticket = first.open
    if ticket is None:
        if first.history:
            before = ", ".join(inst.label for inst in first.history)
            return Related(f"{who} has finished after {before}", first.history[-1].loc)
        body = first.stream.program.cores[first.stream.core].body
        last = body[-1].loc if body else None
        return Related(f"{who} has finished, it meets nobody" + ("; its last instruction" if last else ""), last)
    awaited = [walker for group in ticket.waits_for for walker in group]
    pipe = getattr(ticket.inst, "pipe_id", None)
    what = ticket.inst.label if pipe is None else f"{ticket.inst.label} (pipe {pipe})"
    return Related(f"{who} waits in {what} for {_who(awaited)}", ticket.inst.loc)


def _cores(walkers: Iterable[_Walker]) -> tuple[int, ...]:
    return tuple(sorted({walker.stream.core for walker in walkers}))


def _data(inst: InstCoreBarrier) -> str | None:
    return None if inst.data is None else inst.data.tensor


def _barrier_text(inst: InstCoreBarrier) -> str:
    return f"meets cores {list(inst.cores)} on {_data(inst) or 'nothing'}"


def _shown(stream: Stream, ap: AccessPattern) -> str:
    return f"{stream.scope.dtype(ap).value}{list(ap.shape)}"


def _operands(stream: Stream, aps: Sequence[AccessPattern]) -> str:
    shown = (f"{_shown(stream, ap)} {_space(stream, ap)}" for ap in aps)
    return ", ".join(shown)


def _space(stream: Stream, ap: AccessPattern) -> str:
    return "hbm" if stream.scope.tensors[ap.tensor].memory.is_hbm else "sbuf"


def _fingerprint(ticket: _Ticket) -> dict[str, object]:
    """What must agree between the members of a group."""
    inst = ticket.inst
    assert isinstance(inst, InstCollectiveCompute)
    return _fingerprint_of(ticket.walker.stream, inst)


def _fingerprint_of(stream: Stream, inst: InstCollectiveCompute) -> dict[str, object]:
    return {
        "kind": inst.kind.value,
        "op": inst.cc_channel.op.value,
        "groups": [list(group) for group in inst.cc_channel.replica_groups],
        "pairs": list(inst.src_target_pairs),
        "channel": list(inst.channel_ids) or inst.channel_id,
        "dim": inst.cc_dim.value if inst.cc_dim else (inst.split_dim, inst.concat_dim),
        "sizes": list(inst.broadcast_sizes),
        "src": _operands(stream, inst.srcs),
        "dst": _operands(stream, inst.dsts),
    }


def _names(inst: Inst, field: str) -> str:
    """The tensors of a field of the fingerprint, which need not agree."""
    operands = {"src": inst.reads, "dst": inst.writes}.get(field)
    return "".join(f"'{ap.tensor}' " for ap in operands()) if operands else ""


def _elsewhere(ticket: _Ticket, fingerprint: dict[str, object]) -> list[InstCollectiveCompute]:
    """The collective of a stream that has a fingerprint, but stands at another place."""
    stream = ticket.walker.stream
    found = (
        inst
        for inst in stream.collectives
        if not inst.is_local and inst is not ticket.inst and _fingerprint_of(stream, inst) == fingerprint
    )
    return [inst for inst in [next(found, None)] if inst is not None]
