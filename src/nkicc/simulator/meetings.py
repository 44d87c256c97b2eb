"""Meetings: what the cores of a rank and the ranks of a run do together."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from nkicc.engines import Report
from nkicc.ir.base import Inst, show_ranks
from nkicc.ir.bir import InstCollectiveCompute, InstCollectiveRecv, InstCollectiveSend, InstCoreBarrier
from nkicc.ir.errors import fail
from nkicc.ir.readings import Reading, meaning

from .collectives import Transfer, compile_collective
from .exchange import Arrival, check_twin, perform
from .machine import CoreState, RankSet
from .memory import AnyView
from .streams import Token, all_active
from .unwritten import move

__all__ = ["Meetings", "Offer"]

Array = np.ndarray
#: Raw sends or receives that wait for their other end, by (source rank, target rank, core).
OpenEnds = dict[tuple[int, int, int], tuple[Token, list[AnyView]]]


class Offer:
    """A core's part of a local transfer: what it offers, how it takes from the others, how it stores what it took."""

    __slots__ = ("deliver", "gather", "views")

    def __init__(
        self, views: list[AnyView], gather: Callable[[dict[int, list[AnyView]]], None], deliver: Callable[[], None]
    ) -> None:
        self.views = views
        self.gather = gather
        self.deliver = deliver


class Meetings:
    """Where streams wait for each other: the cores of a rank at barriers and local transfers, ranks at collectives, raw
    sends and receives. A meeting is open while someone waits in it and closed when all have arrived."""

    def __init__(self, sets: Sequence[RankSet], report: Report) -> None:
        self.sets = sets
        self.report = report
        self._set_of = {int(rank): s for s in sets for rank in s.ranks}
        # Meetings that are open: keyed by rank set and place, closed when all have arrived.
        self._barriers: dict[int, dict[int, Token]] = defaultdict(dict)
        self._posts: dict[tuple[int, str, int | None], dict[int, deque[tuple[Token, Offer]]]] = {}
        self._cores: dict[tuple[int, int], Arrival] = {}
        #: By the rank sets that take part and the core (-1: the rank as a whole), who has arrived.
        self._arrived: dict[tuple[tuple[int, ...], int], dict[int, Arrival]] = {}
        #: Per number of an instruction: the rank sets that take part together with a rank set.
        self._closures: dict[int, dict[int, set[int]]] = {}
        self._sends: OpenEnds = {}
        self._receives: OpenEnds = {}
        #: Numbers for instructions of equal meaning, so that meetings do not hash whole instructions.
        self._numbers: dict[InstCollectiveCompute, int] = {}
        self._transfers: dict[tuple[int, ...], Transfer] = {}

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
            if len(inst.cores) > 1:
                core.set.cores_meet()
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
            core.set.cores_meet()
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
            check_twin(first, arrival)
            first.twin = arrival
            core.set.cores_meet()
            arrival = first
        arrival.tokens.append(token)
        self.count(reading)
        if len(self.sets) == 1:
            self._execute([arrival])
            return token
        members = self._members(arrival)
        key = (tuple([id(s) for s in members]), reading.lane(core.index))
        met = self._arrived.setdefault(key, {})
        if met:
            self._same_operation(arrival, next(iter(met.values())))
        met[id(core.set)] = arrival
        if len(met) == len(members):
            del self._arrived[key]
            self._execute([met[id(s)] for s in members])
        return token

    def _members(self, arrival: Arrival) -> list[RankSet]:
        """All rank sets that must take part because they share a group (or a pair), in the order of the run."""
        closure = self._closures.get(arrival.number)
        if closure is None:
            inst = arrival.inst
            closure = self._closures[arrival.number] = {id(s): {id(s)} for s in self.sets}
            for group in inst.cc_channel.replica_groups or inst.src_target_pairs:
                merged = set().union(*[closure[id(self._set_of[rank])] for rank in group])
                closure.update(dict.fromkeys(merged, merged))
        return [s for s in self.sets if id(s) in closure[id(arrival.set)]]

    def check_stuck(self) -> None:
        """NKC101 if two rank sets wait for each other in different operations."""
        waiting = [arrival for met in self._arrived.values() for arrival in met.values()]
        for a, b in combinations(waiting, 2):
            ours, theirs = (self._closures[arrival.number][id(arrival.set)] for arrival in (a, b))
            if a.set is not b.set and id(b.set) in ours and id(a.set) in theirs:
                self._same_operation(b, a)

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
        lead = arrivals[0]
        key = (lead.number, *[id(a.set) for a in arrivals])
        transfer = self._transfers.get(key)
        if transfer is None:
            ranks = [int(r) for a in arrivals for r in a.set.ranks]
            transfer = self._transfers[key] = compile_collective(lead.inst, ranks, lead.set.rings)
        for arrival in arrivals:
            if arrival.twin is not None:
                arrival.set.cores_meet()
        ends = [arrival.begin() for arrival in arrivals if arrival.begin is not None]
        perform(transfer, arrivals, self.report)
        for end in ends:
            end()
        for arrival in arrivals:
            for token in arrival.tokens:
                token.done = True

    def send(self, core: CoreState, inst: InstCollectiveSend, views: list[AnyView]) -> Token:
        """A raw send: it meets the receive that the same core of its peer issues."""
        return self._pair(
            core, inst, (self._only(core, inst), inst.peer_id, core.index), views, self._sends, self._receives
        )

    def receive(self, core: CoreState, inst: InstCollectiveRecv, views: list[AnyView]) -> Token:
        """A raw receive: it meets the send that the same core of its peer issues."""
        return self._pair(
            core, inst, (inst.peer_id, self._only(core, inst), core.index), views, self._receives, self._sends
        )

    # --- meetings that never happen ----------------------------------------------------------------------------------

    def missing(self, core: CoreState, token: Token) -> list[tuple[RankSet, int | None]]:
        """Who has not come to the meeting in which `core` waits: ranks, and which core of theirs (None: any)."""
        inst, mine = token.inst, core.set
        if isinstance(inst, InstCoreBarrier):
            return [(mine, c) for c in inst.cores if c not in self._barriers[id(mine)]]
        if isinstance(inst, InstCollectiveSend | InstCollectiveRecv):
            return [(self._set_of[inst.peer_id], None)]
        if any(token in arrival.tokens for arrival in self._cores.values()):
            return [(mine, 1 - core.index)]
        for (_, lane), met in self._arrived.items():
            arrival = met.get(id(mine))
            if arrival is not None and token in arrival.tokens:
                return [(s, None if lane < 0 else lane) for s in self._members(arrival) if id(s) not in met]
        for (ranks, _, _), queues in self._posts.items():
            if ranks == id(mine) and any(token is posted for posted, _ in queues[core.index]):
                return [(mine, c) for c in range(len(mine.cores)) if not queues[c]]
        return []

    def _only(self, core: CoreState, inst: InstCollectiveSend | InstCollectiveRecv) -> int:
        ranks = core.ranks.tolist()
        if len(ranks) != 1:
            fail("NKC103", inst=inst.label, ranks=show_ranks(ranks), peer=inst.peer_id, core=core.index, loc=inst.loc)
        return ranks[0]

    def _pair(
        self, core: CoreState, inst: Inst, key: tuple[int, int, int], views: list[AnyView],
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
            move(source, target, core.set.uninitialised)
        token.done = other[0].done = True
        self.report.collectives += 1
        return token


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
