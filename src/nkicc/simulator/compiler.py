"""From the body of a core to blocks of closures and meetings, once per run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from nkicc.ir.access import AccessPattern, Register
from nkicc.ir.base import Inst
from nkicc.ir.bir import (
    CollectiveKind,
    InstCollectiveCompute,
    InstCollectiveRecv,
    InstCollectiveSend,
    InstCoreBarrier,
    InstGetGlobalRankId,
    InstGPSIMDSB2SB,
)
from nkicc.ir.errors import fail
from nkicc.ir.program import InstLoop, Instruction, InstWhile
from nkicc.ir.readings import Reading

from . import unwritten
from .collectives import compile_collective, fold
from .exchange import Arrival, perform
from .machine import CoreState
from .meetings import Meetings, Offer
from .memory import AnyView, Buffer
from .numerics import is_integer
from .rules import RULES, Step
from .streams import Block, Repeat, Run, Token, Wait, all_active, uniform_mask
from .watch import watched

__all__ = ["Compiler"]

Array = np.ndarray


class Compiler:
    """Turns the body of one core into blocks of closures and meetings."""

    def __init__(self, meetings: Meetings, core: CoreState, kinds: list[Reading]) -> None:
        self.meetings = meetings
        self.core = core
        self.kinds = iter(kinds)
        self.alone = len(meetings.sets) == 1
        #: Local transfers that this core has posted and not yet waited for: (where the token is, instruction).
        self.pending: list[tuple[list[Token], Inst]] = []
        aliased = {
            (t.remote.core, t.remote.tensor) for part in core.set.program.cores for t in part.tensors if t.remote
        }
        #: This core's tensors that the other core reads through an alias, and storage that both cores see.
        self.aliased = {name for owner, name in aliased if owner == core.index}
        self.common = {id(buffer) for buffer in core.set.shared.values()} | {
            id(core.set.cores[owner].buffer(name)) for owner, name in aliased
        }

    def program(self) -> Block:
        """The core's whole body. Tensors that only this core sees are released after their last use."""
        last: dict[str, int] = {}
        for index, inst in enumerate(self.core.body):
            for name in used_tensors(inst):
                last[name] = index
        own = self.core.own_buffers()
        dead: dict[int, list[Buffer]] = defaultdict(list)
        for name, index in last.items():
            if name in own and name not in self.aliased:
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
                    steps.append(self._masked(inst, self._checked(inst, compiled)))
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
        """Whether an instruction touches what a posted transfer still writes, or writes what it still reads: operands,
        dynamic offsets in memory or in registers."""
        writes = {ap.tensor for ap in inst.writes()}
        reads = {ap.tensor for ap in inst.reads()} | set(offset_tensors((*inst.reads(), *inst.writes())))
        register = written_register(inst)
        for _, posted in self.pending:
            if any(ap.tensor in reads | writes for ap in posted.writes()):
                return True
            operands = (*posted.reads(), *posted.writes())
            if any(ap.tensor in writes for ap in posted.reads()) or not writes.isdisjoint(offset_tensors(operands)):
                return True
            if register is not None and any(ap.scalar_offset == register for ap in operands):
                return True
        return False

    def _settle(self) -> Block:
        waits: Block = [Wait(inst, lambda cell=cell: cell[0], posted=True) for cell, inst in self.pending]
        self.pending = []
        return waits

    # --- instructions ------------------------------------------------------------------------------------------------

    def _compile(self, inst: Instruction) -> Step | Wait:
        core, meetings = self.core, self.meetings
        compile_rule = RULES.get(type(inst))
        if compile_rule is not None:
            return compile_rule(inst, core)
        if isinstance(inst, InstCollectiveCompute):
            return self._local(inst) if inst.is_local else self._global(inst)
        if isinstance(inst, InstCoreBarrier):
            return Wait(inst, lambda: meetings.barrier(core, inst))
        if isinstance(inst, InstGPSIMDSB2SB):
            return self._swap(inst)
        if isinstance(inst, InstCollectiveSend):
            views = self._views(inst, inst.srcs)
            return Wait(inst, lambda: meetings.send(core, inst, views))
        if isinstance(inst, InstCollectiveRecv):
            views = self._views(inst, inst.dsts)
            return Wait(inst, lambda: meetings.receive(core, inst, views))
        return fail("NKC008", what=type(inst).__name__, instead="The simulator has no rule for it.", loc=inst.loc)

    def _checked(self, inst: Inst, step: Step) -> Step:
        """The step with its accesses under the run-time checks that are switched on."""
        ranks = self.core.set
        if not ranks.uninitialised and ranks.watch is None and ranks.nonfinite is None:
            return step
        reads, writes = self._views(inst, inst.reads()), self._views(inst, inst.writes())
        if ranks.uninitialised and not isinstance(inst, InstCollectiveCompute):
            step = unwritten.wrap(inst, reads, writes, step)
        if ranks.nonfinite is not None and not isinstance(inst, InstCollectiveCompute):
            step = ranks.nonfinite.wrap(self.core.index, inst, reads, writes, step)
        begin = self._watched(inst, reads, writes)
        if begin is None:
            return step
        return watched(begin, step)

    def _watched(self, inst: Inst, reads: Sequence[AnyView], writes: Sequence[AnyView]) -> Callable[[], Step] | None:
        """What notes the accesses to memory that both cores see (`Watch.over`), if there are any."""
        watch = self.core.set.watch
        if watch is None:
            return None
        reads, writes = ([v for v in views if id(v.buffer) in self.common] for views in (reads, writes))
        return watch.over(self.core.index, inst, reads, writes) if reads or writes else None

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
        core, meetings = self.core, self.meetings
        reading = next(self.kinds)
        sources, sinks = self._views(inst, inst.reads()), self._views(inst, inst.writes())
        number = meetings.number(inst)
        if not self.alone or reading is Reading.both:
            begin = None if reading is Reading.both else self._watched(inst, sources, sinks)

            def arrive() -> Token:
                arrival = Arrival(core.set, inst, number, sources, sinks)
                arrival.begin = begin
                return meetings.collective(core, arrival, reading)

            return Wait(inst, arrive)
        # All members are rows of this one stream: no one to wait for.
        transfer = compile_collective(inst, core.ranks.tolist(), core.rings)
        arrival = Arrival(core.set, inst, number, sources, sinks)

        def run() -> None:
            core.history.note(inst)
            all_active(core, inst)
            perform(transfer, [arrival], meetings.report)
            meetings.count(reading)

        return run

    def _local(self, inst: InstCollectiveCompute) -> Step | Wait:
        core, meetings = self.core, self.meetings
        sources, sinks = self._views(inst, inst.srcs), self._views(inst, inst.dsts)
        kind = inst.kind
        froms = inst.recv_from_rank
        values: list[Array] = []
        flags: list[Array | None] = []
        checked = core.set.uninitialised

        def gather(offers: dict[int, list[AnyView]]) -> None:
            # All cores read before any writes: the list is filled for every core first.
            values.clear()
            flags.clear()
            peers = froms if kind is not CollectiveKind.AllReduce else tuple(offers)
            for i, peer in enumerate(peers):
                index = i if kind is CollectiveKind.SendRecvCCE else 0
                values.append(take(inst, core, sinks[0], offers[peer], peer, index))
                view = offers[peer][index]
                flags.append(unwritten.copy_of_flags(view) if checked else None)
                if flags[-1] is not None and kind is not CollectiveKind.SendRecv:
                    unwritten.refuse(inst, view, flags[-1])

        def deliver() -> None:
            if checked:
                unwritten.expected(sinks[0])
            if len(values) == 1:
                sinks[0].write(values[0])
            else:
                both = np.stack(np.broadcast_arrays(*values), axis=1)
                sinks[0].write(fold(both, inst.cc_channel.op))
            unwritten.stored(sinks[0], flags[0])
            nonfinite = core.set.nonfinite
            if nonfinite is not None and all(is_integer(v.dtype) or bool(np.isfinite(v).all()) for v in values):
                nonfinite.look((core.index,), inst, sinks)

        if kind not in (CollectiveKind.SendRecv, CollectiveKind.SendRecvCCE, CollectiveKind.AllReduce):
            fail(
                "NKC008",
                what=f"a local {kind.value}",
                instead="Local collectives are SendRecv, SendRecvCCE and AllReduce.",
                loc=inst.loc,
            )
        offer = Offer(sources, gather, deliver)

        def arrive() -> Token:
            return meetings.post(core, inst, kind.value, inst.pipe_id, offer)

        if kind is CollectiveKind.AllReduce:
            return Wait(inst, arrive)
        # Where a mask leaves the transfer out there is nothing to wait for.
        cell: list[Token] = [Token(inst)]
        cell[0].done = True
        self.pending.append((cell, inst))

        def run() -> None:
            core.history.note(inst)
            cell[0] = arrive()

        return run

    def _swap(self, inst: InstGPSIMDSB2SB) -> Wait:
        core, meetings = self.core, self.meetings
        source, sink = self.core.view(inst.src, inst), self.core.view(inst.dst, inst)
        value: list[Array] = []
        flags: list[Array | None] = []
        checked = core.set.uninitialised

        def gather(offers: dict[int, list[AnyView]]) -> None:
            peer = 1 - core.index
            value[:] = [take(inst, core, sink, offers[peer], peer, 0)]
            flags[:] = [unwritten.copy_of_flags(offers[peer][0]) if checked else None]

        def deliver() -> None:
            if checked:
                unwritten.expected(sink)
            sink.write(value[0])
            unwritten.stored(sink, flags[0])

        offer = Offer([source], gather, deliver)
        return Wait(inst, lambda: meetings.post(core, inst, "GPSIMDSB2SB", inst.pipe_id, offer))


def take(inst: Inst, core: CoreState, sink: AnyView, offered: list[AnyView], peer: int, index: int) -> Array:
    """A copy of what core `peer` offers at `index`; NKC101 unless it offers that, in the shape and type of `sink`."""
    wanted = f"{sink.dtype.name}{list(sink.shape)}"
    sent = "nothing" if index >= len(offered) else f"{offered[index].dtype.name}{list(offered[index].shape)}"
    if sent != wanted:
        fail(
            "NKC101", inst=inst.label, left=f"core {core.index}", left_op=f"receive {wanted} as source {index}",
            right=f"core {peer}", right_op=f"send {sent}", core=core.index, loc=inst.loc,
        )  # fmt: skip
    return offered[index].read().copy()


def offset_tensors(aps: Sequence[AccessPattern]) -> Iterator[str]:
    """Tensors that hold dynamic offsets of the patterns."""
    for ap in aps:
        for source in (ap.scalar_offset, ap.vector_offset):
            if isinstance(source, AccessPattern):
                yield source.tensor


def written_register(inst: Inst) -> str | None:
    """The register that an instruction sets: its `dst`, or the `output` of a rank instruction."""
    target = getattr(inst, "output", None) or getattr(inst, "dst", None)
    return target.name if isinstance(target, Register) else None


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
