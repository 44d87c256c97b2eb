"""Streams and meetings: how the cores of the ranks advance and where they wait for each other.

Each core of each program is one stream, a generator that runs until it must wait. There are no threads and no clock:
the scheduler advances, in a fixed order, every stream that can move; if none can, that is the deadlock, and it is
reported as who waits where.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from nkicc.engines import Report
from nkicc.ir.access import AccessPattern
from nkicc.ir.base import Inst, show_ranks
from nkicc.ir.bir import (
    CollectiveKind,
    InstCollectiveCompute,
    InstCollectiveRecv,
    InstCollectiveSend,
    InstCoreBarrier,
    InstGetGlobalRankId,
    InstGPSIMDSB2SB,
)
from nkicc.ir.errors import NkiccError, fail
from nkicc.ir.program import InstLoop, Instruction, InstWhile

from .collectives import Transfer, compile_collective, fold
from .machine import CoreState, RankSet
from .memory import AnyView, Buffer
from .readings import Reading, meaning, readings
from .rules import RULES, Step

__all__ = ["Scheduler"]

Array = np.ndarray
#: Raw sends or receives that wait for their other end, by (source rank, target rank).
OpenEnds = dict[tuple[int, int], tuple["Token", list[AnyView]]]


class Token:
    """One arrival at a meeting; the stream may go on when it is done."""

    __slots__ = ("done", "inst")

    def __init__(self, inst: Inst) -> None:
        self.inst = inst
        self.done = False


class Run:
    """A run of instructions that never wait. Steps that execute no instruction, such as the release of a dead tensor,
    have the instruction they follow in `insts`; `count` is the number of instructions."""

    __slots__ = ("count", "insts", "steps")

    def __init__(self, steps: list[Step], insts: list[Inst], count: int) -> None:
        self.steps = tuple(steps)
        self.insts = tuple(insts)
        self.count = count


class Wait:
    """A place where the stream arrives at a meeting, or waits for an earlier arrival: `count` is 1 or 0 instructions."""

    __slots__ = ("arrive", "count", "inst")

    def __init__(self, inst: Inst, arrive: Callable[[], Token], count: int = 1) -> None:
        self.inst = inst
        self.arrive = arrive
        self.count = count


class Repeat:
    """A loop."""

    __slots__ = ("block", "inst")

    def __init__(self, inst: InstLoop | InstWhile, block: list[Run | Wait | Repeat]) -> None:
        self.inst = inst
        self.block = block


Block = list[Run | Wait | Repeat]
#: A loop that turns more often than this does not end.
MAX_TURNS = 10_000_000


class Stream:
    """One core of the ranks of one program."""

    def __init__(self, core: CoreState, block: Block, report: Report) -> None:
        self.core = core
        self.report = report
        self.waits: Token | None = None
        self.finished = False
        self._steps = self._execute(block)

    def advance(self) -> None:
        """Run until the next arrival that is not done, or to the end."""
        self.waits = next(self._steps, None)
        self.finished = self.waits is None

    def _execute(self, block: Block) -> Iterator[Token]:
        for part in block:
            if type(part) is Run:
                self._run(part)
            elif type(part) is Wait:
                self.report.instructions += part.count
                if part.inst.mask is not None and not uniform_mask(self.core, part.inst):
                    continue
                token = part.arrive()
                if not token.done:
                    yield token
            elif type(part) is Repeat:
                yield from self._repeat(part.inst, part.block)

    def _repeat(self, loop: InstLoop | InstWhile, block: Block) -> Iterator[Token]:
        """Run a loop. Ranks may leave it at different times: it goes on for those that are left; only they write."""
        lanes, registers = self.core.lanes, self.core.registers
        outer = lanes.active
        value = None if isinstance(loop, InstWhile) else self._bound(loop, loop.start)
        stop = None if isinstance(loop, InstWhile) else self._bound(loop, loop.stop)
        turns = 0
        while True:
            if isinstance(loop, InstWhile):
                more = self.core.register(loop.condition, loop) != 0
            else:
                assert value is not None
                assert stop is not None
                more = value < stop if loop.step > 0 else value > stop
            if outer is not None:
                more = more & outer
            if not more.any():
                break
            turns += 1
            if turns > MAX_TURNS:
                fail("NKC108", inst=loop.label, count=MAX_TURNS, core=self.core.index, loc=loop.loc)
            lanes.active = None if more.all() else more
            if isinstance(loop, InstLoop):
                assert value is not None
                registers[loop.register] = value
                value = value + loop.step
            yield from self._execute(block)
        lanes.active = outer

    def _run(self, part: Run) -> None:
        at = 0
        try:
            for at, step in enumerate(part.steps):  # noqa: B007
                step()
        except NkiccError as error:
            inst = part.insts[at]
            error.core = self.core.index if error.core is None and len(self.core.set.cores) > 1 else error.core
            error.loc = error.loc or inst.loc
            raise
        self.report.instructions += part.count

    def _bound(self, loop: InstLoop, bound: int | str) -> Array:
        if isinstance(bound, int):
            return np.array([bound], np.int64)
        return self.core.register(bound, loop)

    def describe(self) -> str:
        """One line for the deadlock report."""
        who = f"{self.core.set.describe()} core {self.core.index}"
        if self.finished:
            return f"{who}: finished"
        assert self.waits is not None
        return f"{who}: waits in {self.waits.inst.label} at {self.waits.inst.loc or 'an unknown line'}"


def all_active(core: CoreState, inst: Inst) -> None:
    """NKC107 if a collective stands in a loop that has ended for some of the ranks."""
    active = core.lanes.active
    if active is not None:
        gone = core.ranks[~active].tolist()
        fail("NKC107", inst=inst.label, ranks=show_ranks(gone), rank=gone[0], core=core.index, loc=inst.loc)


def uniform_mask(core: CoreState, inst: Inst) -> bool:
    """The value of an instruction's mask; NKC087 if ranks disagree."""
    assert inst.mask is not None
    value = core.register(inst.mask, inst) != 0
    if value.any() != value.all():
        fail("NKC087", inst=inst.label, core=core.index, loc=inst.loc)
    return bool(value.all())


class Staged:
    """The destination of a collective that spans several programs: written as a whole, then dealt out."""

    def __init__(self, parts: list[tuple[RankSet, AnyView]]) -> None:
        self.parts = parts
        self.shape = parts[0][1].shape
        self.rows = sum(len(part.ranks) for part, _ in parts)
        self.value: Array | None = None

    def read(self) -> Array:
        return np.concatenate([np.broadcast_to(v.read(), (len(s.ranks), *v.shape)) for s, v in self.parts])

    def write(self, value: Array) -> None:
        self.value = value

    def prepare(self, rows: int, *, keep: bool = False) -> Array:
        self.value = self.read() if keep else np.empty((self.rows, *self.shape), self.parts[0][1].dtype)
        return self.value

    def deal(self) -> None:
        """Hand every program its rows."""
        assert self.value is not None
        row = 0
        for part, view in self.parts:
            count = len(part.ranks)
            view.write(self.value if self.value.shape[0] == 1 else self.value[row : row + count])
            row += count


class Offer:
    """A core's part of a local transfer: what it offers, how it takes from the others, how it stores what it took."""

    __slots__ = ("deliver", "gather", "views")

    def __init__(
        self, views: list[AnyView], gather: Callable[[dict[int, list[AnyView]]], None], deliver: Callable[[], None]
    ) -> None:
        self.views = views
        self.gather = gather
        self.deliver = deliver


class Arrival:
    """A rank set's arrival at a global collective: the instruction, its bound operands, the tokens of its cores."""

    __slots__ = ("inst", "number", "set", "sinks", "sources", "tokens")

    def __init__(
        self, ranks: RankSet, inst: InstCollectiveCompute, number: int, sources: list[AnyView], sinks: list[AnyView]
    ) -> None:
        self.set = ranks
        self.inst = inst
        self.number = number
        self.sources = sources
        self.sinks = sinks
        self.tokens: list[Token] = []


class Scheduler:
    """Compiles the programs of a run and advances their streams to the end."""

    def __init__(self, sets: Sequence[RankSet], report: Report) -> None:
        self.sets = sets
        self.report = report
        self._set_of = {int(rank): s for s in sets for rank in s.ranks}
        # Meetings that are open: keyed by rank set and place, closed when all have arrived.
        self._barriers: dict[int, dict[int, Token]] = defaultdict(dict)
        self._posts: dict[tuple[int, str, int | None], dict[int, deque[tuple[Token, Offer]]]] = {}
        self._cores: dict[tuple[int, int], Arrival] = {}
        self._arrived: dict[tuple[int, int], Arrival] = {}
        self._sends: OpenEnds = {}
        self._receives: OpenEnds = {}
        #: Numbers for instructions of equal meaning, so that meetings do not hash whole instructions.
        self._numbers: dict[InstCollectiveCompute, int] = {}
        self._transfers: dict[tuple[int, ...], Transfer] = {}
        self.streams = [
            Stream(core, _Compiler(self, core, kinds).program(), report)
            for s in sets
            for core, kinds in zip(s.cores, readings(s.program), strict=True)
        ]

    def run(self) -> None:
        """Advance all streams to their ends; NKC100 if none can move."""
        open_streams = list(self.streams)
        while open_streams:
            moved = False
            for stream in open_streams:
                if stream.waits is None or stream.waits.done:
                    stream.advance()
                    moved = True
            open_streams = [s for s in open_streams if not s.finished]
            if open_streams and not moved:
                self._deadlock(open_streams)

    def _deadlock(self, stuck: list[Stream]) -> None:
        waits = stuck[0].waits
        assert waits is not None
        what = f"{len(stuck)} of {len(self.streams)} wait, first in {waits.inst.label}"
        fail(
            "NKC100", summary=what, core=stuck[0].core.index, loc=waits.inst.loc,
            notes=tuple(stream.describe() for stream in self.streams),
        )  # fmt: skip

    # --- meetings of the cores of a rank -----------------------------------------------------------------------------

    def barrier(self, core: CoreState, inst: InstCoreBarrier) -> Token:
        """The k-th barrier of a core meets the k-th of the others."""
        token = Token(inst)
        here = self._barriers[id(core.set)]
        for other in here.values():
            assert isinstance(other.inst, InstCoreBarrier)
            if other.inst.cores != inst.cores or _tensor(other.inst) != _tensor(inst):
                fail(
                    "NKC101",
                    inst="core barrier",
                    left=f"core {core.index}",
                    left_op=f"{inst.label} at {inst.loc}",
                    right="the other core",
                    right_op=f"{other.inst.label} at {other.inst.loc}",
                    core=core.index,
                    loc=inst.loc,
                )
        here[core.index] = token
        if all(c in here for c in inst.cores):
            for c in inst.cores:
                here.pop(c).done = True
        return token

    def post(self, core: CoreState, inst: Inst, kind: str, pipe: int | None, offer: Offer) -> Token:
        """Offer something to the partner core on a pipe. When both cores have, the n-th offers of each are exchanged:
        all are read before any is stored."""
        token = Token(inst)
        queues = self._posts.setdefault((id(core.set), kind, pipe), defaultdict(deque))
        queues[core.index].append((token, offer))
        cores = range(len(core.set.cores))
        if all(queues[c] for c in cores):
            met = {c: queues[c].popleft() for c in cores}
            views = {c: offer.views for c, (_, offer) in met.items()}
            for _, offer in met.values():
                offer.gather(views)
            for other, offer in met.values():
                offer.deliver()
                other.done = True
            self.report.collectives += 1
        return token

    # --- meetings of ranks -------------------------------------------------------------------------------------------

    def count(self, reading: Reading) -> None:
        """Note in the report how a collective was read; with one core per rank there is nothing to tell."""
        if self.report.lnc > 1:
            self.report.readings[reading.value] = self.report.readings.get(reading.value, 0) + 1

    def number(self, inst: InstCollectiveCompute) -> int:
        """A number that instructions share if they mean the same, wherever they stand."""
        return self._numbers.setdefault(meaning(inst), len(self._numbers))

    def collective(self, core: CoreState, arrival: Arrival, reading: Reading) -> Token:
        """A core arrives at a global collective. When its rank set has arrived as a whole and so have all sets that
        share a group with it, the collective is executed for all of them."""
        all_active(core, arrival.inst)
        token = Token(arrival.inst)
        if reading is Reading.both:
            key = (id(core.set), arrival.number)
            first = self._cores.pop(key, None)
            if first is None:
                arrival.tokens.append(token)
                self._cores[key] = arrival
                return token
            arrival = first
        arrival.tokens.append(token)
        self.count(reading)
        if len(self.sets) == 1:
            self._execute([arrival])
            return token
        lane = core.index if reading is Reading.lanes else -1
        self._arrived[id(core.set), lane] = arrival
        members = self._closure(arrival.set, arrival.inst)
        present = [self._arrived[id(s), lane] for s in members if (id(s), lane) in self._arrived]
        for other in present:
            self._same_operation(arrival, other)
        if len(present) == len(members):
            for s in members:
                del self._arrived[id(s), lane]
            self._execute(present)
        return token

    def _closure(self, start: RankSet, inst: InstCollectiveCompute) -> list[RankSet]:
        """All rank sets that must take part because they share a group (or a pair), in the order of the run."""
        groups: Sequence[tuple[int, ...]] = inst.cc_channel.replica_groups or inst.src_target_pairs
        found = {id(start)}
        grown = True
        while grown:
            grown = False
            for group in groups:
                sets = {id(self._set_of[rank]) for rank in group}
                if sets & found and not sets <= found:
                    found |= sets
                    grown = True
        return [s for s in self.sets if id(s) in found]

    def _same_operation(self, a: Arrival, b: Arrival) -> None:
        """NKC101 unless two members issue the same operation."""
        left, right = _fingerprint(a), _fingerprint(b)
        if left != right:
            differ = [name for name in left if left[name] != right[name]]
            show = [", ".join(f"{name} {f[name]}" for name in differ) for f in (left, right)]
            fail(
                "NKC101", inst=a.inst.label, left=a.set.describe(), left_op=show[0], right=b.set.describe(),
                right_op=show[1], loc=a.inst.loc, notes=(f"{b.set.describe()}: {b.inst.label} at {b.inst.loc}",),
            )  # fmt: skip

    def _execute(self, arrivals: list[Arrival]) -> None:
        self.report.collectives += 1
        lead = arrivals[0]
        key = (lead.number, *[id(a.set) for a in arrivals])
        transfer = self._transfers.get(key)
        if transfer is None:
            ranks = [int(r) for a in arrivals for r in a.set.ranks]
            transfer = self._transfers[key] = compile_collective(lead.inst, ranks)
        if len(arrivals) == 1:
            transfer(_sources(lead), lead.sinks)
        else:
            staged = [Staged([(a.set, a.sinks[i]) for a in arrivals]) for i in range(len(lead.sinks))]
            sources = [
                np.concatenate([np.broadcast_to(s, (len(a.set.ranks), *s.shape[1:]))
                                for a, s in zip(arrivals, values, strict=True)])
                for values in zip(*(_sources(a) for a in arrivals), strict=True)
            ]  # fmt: skip
            transfer(sources, staged)
            for sink in staged:
                sink.deal()
        for arrival in arrivals:
            for token in arrival.tokens:
                token.done = True

    def send(self, core: CoreState, inst: InstCollectiveSend, views: list[AnyView]) -> Token:
        """A raw send: it meets the receive of its peer."""
        return self._pair(core, inst, (self._only(core, inst), inst.peer_id), views, self._sends, self._receives)

    def receive(self, core: CoreState, inst: InstCollectiveRecv, views: list[AnyView]) -> Token:
        """A raw receive: it meets the send of its peer."""
        return self._pair(core, inst, (inst.peer_id, self._only(core, inst)), views, self._receives, self._sends)

    def _only(self, core: CoreState, inst: InstCollectiveSend | InstCollectiveRecv) -> int:
        ranks = core.ranks.tolist()
        if len(ranks) != 1:
            fail("NKC103", inst=inst.label, ranks=show_ranks(ranks), peer=inst.peer_id, core=core.index, loc=inst.loc)
        return ranks[0]

    def _pair(
        self, core: CoreState, inst: Inst, key: tuple[int, int], views: list[AnyView],
        mine: OpenEnds, theirs: OpenEnds,
    ) -> Token:  # fmt: skip
        token = Token(inst)
        other = theirs.pop(key, None)
        if other is None:
            mine[key] = (token, views)
            return token
        sources, targets = (views, other[1]) if isinstance(inst, InstCollectiveSend) else (other[1], views)
        shapes = [[(v.dtype.name, v.shape) for v in side] for side in (sources, targets)]
        if shapes[0] != shapes[1]:
            fail(
                "NKC101",
                inst="send/receive",
                left=f"rank {key[0]} (send)",
                left_op=shapes[0],
                right=f"rank {key[1]} (receive)",
                right_op=shapes[1],
                core=core.index,
                loc=inst.loc,
                notes=(f"the peer is {other[0].inst.label} at {other[0].inst.loc}",),
            )
        for source, target in zip(sources, targets, strict=True):
            target.write(source.read())
        token.done = other[0].done = True
        self.report.collectives += 1
        return token


def offset_tensors(aps: Sequence[AccessPattern]) -> Iterator[str]:
    """Tensors that hold dynamic offsets of the patterns."""
    for ap in aps:
        for source in (ap.scalar_offset, ap.vector_offset):
            if isinstance(source, AccessPattern):
                yield source.tensor


def used_tensors(inst: Instruction) -> Iterator[str]:
    """Every tensor that an instruction, or the body of a loop, touches."""
    if isinstance(inst, InstLoop | InstWhile):
        for inner in inst.body:
            yield from used_tensors(inner)
        return
    aps = (*inst.reads(), *inst.writes())
    for ap in aps:
        yield ap.tensor
    yield from offset_tensors(aps)


def _tensor(inst: InstCoreBarrier) -> str | None:
    return None if inst.data is None else inst.data.tensor


def _fingerprint(arrival: Arrival) -> dict[str, object]:
    """What must agree between the members of a group."""
    inst = arrival.inst
    return {
        "kind": inst.kind.value,
        "op": inst.cc_channel.op.value,
        "groups": inst.cc_channel.replica_groups,
        "pairs": inst.src_target_pairs,
        "channel": inst.channel_ids or inst.channel_id,
        "dim": inst.cc_dim.value if inst.cc_dim else (inst.split_dim, inst.concat_dim),
        "sizes": inst.broadcast_sizes,
        "src": [(v.dtype.name, v.shape) for v in arrival.sources],
        "dst": [(v.dtype.name, v.shape) for v in arrival.sinks],
    }


def _sources(arrival: Arrival) -> list[Array]:
    """The sources as arrays; copied where a destination is the same tensor: a collective reads before it writes."""
    targets = {id(sink.buffer) for sink in arrival.sinks}
    return [s.read().copy() if id(s.buffer) in targets else s.read() for s in arrival.sources]


class _Compiler:
    """Turns the body of one core into blocks of closures and meetings."""

    def __init__(self, scheduler: Scheduler, core: CoreState, kinds: list[Reading]) -> None:
        self.scheduler = scheduler
        self.core = core
        self.kinds = iter(kinds)
        self.alone = len(scheduler.sets) == 1
        #: Local transfers that this core has posted and not yet waited for: (where the token is, instruction).
        self.pending: list[tuple[list[Token], Inst]] = []

    def program(self) -> Block:
        """The core's whole body. Tensors that only this core sees are released after their last use."""
        last: dict[str, int] = {}
        for index, inst in enumerate(self.core.body):
            for name in used_tensors(inst):
                last[name] = index
        own = self.core.own_buffers()
        aliased = {t.remote.tensor for part in self.core.set.program.cores for t in part.tensors if t.remote}
        dead: dict[int, list[Buffer]] = defaultdict(list)
        for name, index in last.items():
            if name in own and name not in aliased:
                dead[index].append(own[name])
        return self.block(self.core.body, dead)

    def block(self, body: Sequence[Instruction], dead: Mapping[int, list[Buffer]] | None = None) -> Block:
        parts: Block = []
        steps: list[Step] = []
        insts: list[Inst] = []
        count = 0
        doomed: list[Buffer] = []

        def flush() -> None:
            nonlocal count
            if steps:
                parts.append(Run(steps, insts, count))
                steps.clear()
                insts.clear()
                count = 0

        for index, inst in enumerate(body):
            if self.pending and (self._conflicts(inst) or not self._is_plain(inst)):
                flush()
                parts.extend(self._settle())
            if isinstance(inst, InstLoop | InstWhile):
                flush()
                parts.append(Repeat(inst, self.block(inst.body)))
            else:
                compiled = self._compile(inst)
                if isinstance(compiled, Wait):
                    flush()
                    parts.append(compiled)
                else:
                    steps.append(self._masked(inst, compiled))
                    insts.append(inst)
                    count += 1
            if dead is not None:
                doomed += dead.get(index, ())
                if doomed and not self.pending:
                    # A posted transfer may still read its source: nothing is released before it has settled.
                    steps.extend(buffer.release for buffer in doomed)
                    insts.extend([inst] * len(doomed))
                    doomed.clear()
        flush()
        parts.extend(self._settle())
        return parts

    # --- local transfers complete late -------------------------------------------------------------------------------

    def _is_plain(self, inst: Instruction) -> bool:
        """Neither a meeting nor a loop, or another local transfer."""
        return type(inst) in RULES or (isinstance(inst, InstCollectiveCompute) and inst.is_local)

    def _conflicts(self, inst: Instruction) -> bool:
        """Whether an instruction touches what a posted transfer still writes, or writes what it still reads."""
        writes = {ap.tensor for ap in inst.writes()}
        reads = {ap.tensor for ap in inst.reads()} | set(offset_tensors((*inst.reads(), *inst.writes())))
        for _, posted in self.pending:
            if any(ap.tensor in reads | writes for ap in posted.writes()):
                return True
            if any(ap.tensor in writes for ap in posted.reads()):
                return True
        return False

    def _settle(self) -> Block:
        waits: Block = [Wait(inst, lambda cell=cell: cell[0], 0) for cell, inst in self.pending]
        self.pending = []
        return waits

    # --- instructions ------------------------------------------------------------------------------------------------

    def _compile(self, inst: Instruction) -> Step | Wait:
        core, scheduler = self.core, self.scheduler
        compile_rule = RULES.get(type(inst))
        if compile_rule is not None:
            return compile_rule(inst, core)
        if isinstance(inst, InstCollectiveCompute):
            return self._local(inst) if inst.is_local else self._global(inst)
        if isinstance(inst, InstCoreBarrier):
            return Wait(inst, lambda: scheduler.barrier(core, inst))
        if isinstance(inst, InstGPSIMDSB2SB):
            return self._swap(inst)
        if isinstance(inst, InstCollectiveSend):
            views = self._views(inst, inst.srcs)
            return Wait(inst, lambda: scheduler.send(core, inst, views))
        if isinstance(inst, InstCollectiveRecv):
            views = self._views(inst, inst.dsts)
            return Wait(inst, lambda: scheduler.receive(core, inst, views))
        return fail("NKC008", what=type(inst).__name__, instead="The simulator has no rule for it.", loc=inst.loc)

    def _masked(self, inst: Inst, step: Step) -> Step:
        if inst.mask is None or isinstance(inst, InstGetGlobalRankId):
            return step
        core = self.core

        def run() -> None:
            if uniform_mask(core, inst):
                step()

        return run

    def _views(self, inst: Inst, aps: Sequence[AccessPattern]) -> list[AnyView]:
        return [self.core.view(ap, inst) for ap in aps]

    def _global(self, inst: InstCollectiveCompute) -> Step | Wait:
        core, scheduler = self.core, self.scheduler
        reading = next(self.kinds)
        sources, sinks = self._views(inst, inst.reads()), self._views(inst, inst.writes())
        number = scheduler.number(inst)
        if not self.alone or reading is Reading.both:
            return Wait(
                inst, lambda: scheduler.collective(core, Arrival(core.set, inst, number, sources, sinks), reading)
            )
        # All members are rows of this one stream: no one to wait for.
        transfer = compile_collective(inst, core.ranks.tolist())
        arrival = Arrival(core.set, inst, number, sources, sinks)

        def run() -> None:
            all_active(core, inst)
            transfer(_sources(arrival), sinks)
            scheduler.report.collectives += 1
            scheduler.count(reading)

        return run

    def _local(self, inst: InstCollectiveCompute) -> Step | Wait:
        core, scheduler = self.core, self.scheduler
        sources, sinks = self._views(inst, inst.srcs), self._views(inst, inst.dsts)
        kind = inst.kind
        froms = inst.recv_from_rank
        values: list[Array] = []

        def gather(offers: dict[int, list[AnyView]]) -> None:
            # All cores read before any writes: the list is filled for every core first.
            values.clear()
            peers = froms if kind is not CollectiveKind.AllReduce else tuple(offers)
            for i, peer in enumerate(peers):
                offered = offers[peer]
                source = offered[i if kind is CollectiveKind.SendRecvCCE else 0].read()
                if source.shape[1:] != sinks[0].shape or source.dtype != sinks[0].dtype:
                    fail(
                        "NKC101", inst=inst.label, left=f"core {core.index}",
                        left_op=f"receives {sinks[0].dtype.name}{list(sinks[0].shape)}", right=f"core {peer}",
                        right_op=f"sends {source.dtype.name}{list(source.shape[1:])}", core=core.index, loc=inst.loc,
                    )  # fmt: skip
                values.append(source.copy())

        def deliver() -> None:
            if len(values) == 1:
                sinks[0].write(values[0])
            else:
                both = np.stack(np.broadcast_arrays(*values), axis=1)
                sinks[0].write(fold(both, inst.cc_channel.op))

        if kind not in (CollectiveKind.SendRecv, CollectiveKind.SendRecvCCE, CollectiveKind.AllReduce):
            fail(
                "NKC008",
                what=f"a local {kind.value}",
                instead="Local collectives are SendRecv, SendRecvCCE and AllReduce.",
                loc=inst.loc,
            )
        offer = Offer(sources, gather, deliver)

        def arrive() -> Token:
            return scheduler.post(core, inst, kind.value, inst.pipe_id, offer)

        if kind is CollectiveKind.AllReduce:
            return Wait(inst, arrive)
        cell: list[Token] = [Token(inst)]
        self.pending.append((cell, inst))

        def run() -> None:
            cell[0] = arrive()

        return run

    def _swap(self, inst: InstGPSIMDSB2SB) -> Wait:
        core, scheduler = self.core, self.scheduler
        source, sink = self.core.view(inst.src, inst), self.core.view(inst.dst, inst)
        value: list[Array] = []

        def gather(offers: dict[int, list[AnyView]]) -> None:
            value[:] = [offers[1 - core.index][0].read().copy()]

        offer = Offer([source], gather, lambda: sink.write(value[0]))
        return Wait(inst, lambda: scheduler.post(core, inst, "GPSIMDSB2SB", inst.pipe_id, offer))
