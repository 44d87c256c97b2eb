"""What each core of each program does together with others, in program order: what the whole-program checks work on.

One core of one program is a stream. Its meetings are the instructions at which it may wait: collectives, barriers,
transfers between the cores of a rank, raw sends and receives. The rest of the program is walked once and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from nkicc.ir.access import AccessPattern
from nkicc.ir.base import Inst, Scope, show_ranks
from nkicc.ir.bir import (
    LOCAL_KINDS,
    InstCollectiveCompute,
    InstCollectiveRecv,
    InstCollectiveSend,
    InstCoreBarrier,
    InstGPSIMDSB2SB,
)
from nkicc.ir.program import LOOPS, InstLoop, Instruction, InstWhile, Module, Program

__all__ = ["SETTLE", "Loop", "Node", "Settle", "Stream", "ranks_of", "streams_of"]

Meeting = InstCollectiveCompute | InstCollectiveRecv | InstCollectiveSend | InstCoreBarrier | InstGPSIMDSB2SB
MEETINGS = frozenset({InstCollectiveCompute, InstCollectiveRecv, InstCollectiveSend, InstCoreBarrier, InstGPSIMDSB2SB})


class Settle:
    """The place before which the transfers between cores that are under way must have completed."""


SETTLE = Settle()


class Loop:
    """A body with meetings that is passed `count` times; None if only the run knows how often."""

    __slots__ = ("body", "count")

    def __init__(self, count: int | None, body: list[Node]) -> None:
        self.count = count
        self.body = body


Node = Meeting | Settle | Loop


class Stream(Struct, frozen=True):
    """One core of one program: the scope of its instructions, its meetings as a tree of loops, and its collectives in
    program order, each once. `whiles` are the collectives that stand in a while loop."""

    module: Module
    index: int
    program: Program
    core: int
    scope: Scope
    nodes: list[Node]
    collectives: list[InstCollectiveCompute]
    whiles: list[InstCollectiveCompute]

    @property
    def ranks(self) -> tuple[int, ...]:
        return self.scope.ranks

    def __str__(self) -> str:
        """Who this is, for messages: the ranks if several programs run, the core if a rank has several."""
        parts = [f"rank(s) {show_ranks(self.ranks)}"] if len(self.module.programs) > 1 else []
        if len(self.program.cores) > 1 or not parts:
            parts.append(f"core {self.core}")
        return " ".join(parts)


def streams_of(module: Module) -> list[Stream]:
    """The streams of a bir module, programs first, cores second."""
    streams: list[Stream] = []
    for index, program in enumerate(module.programs):
        for core, part in enumerate(program.cores):
            reader = _Reader()
            nodes = reader.read(part.body)
            scope = program.scope(module, core)
            streams.append(Stream(module, index, program, core, scope, nodes, reader.collectives, reader.whiles))
    return streams


def ranks_of(streams: Iterable[Stream]) -> tuple[int, ...]:
    """All ranks that run one of the streams."""
    return tuple(sorted({rank for stream in streams for rank in stream.ranks}))


class _Reader:
    def __init__(self) -> None:
        self.collectives: list[InstCollectiveCompute] = []
        self.whiles: list[InstCollectiveCompute] = []

    def read(self, body: Iterable[Instruction], in_while: bool = False) -> list[Node]:
        nodes: list[Node] = []
        pending: list[InstCollectiveCompute] = []
        for inst in body:
            kind = type(inst)
            if kind in MEETINGS:
                self._meeting(inst, nodes, pending, in_while)  # type: ignore[arg-type]
            elif kind in LOOPS:
                if pending:
                    nodes.append(SETTLE)
                    pending.clear()
                inner = self.read(inst.body, in_while or kind is InstWhile)  # type: ignore[union-attr]
                if inner:
                    nodes.append(Loop(_turns(inst), inner))  # type: ignore[arg-type]
            elif pending and _conflicts(inst, pending):
                nodes.append(SETTLE)
                pending.clear()
        if pending:
            nodes.append(SETTLE)
        return nodes

    def _meeting(self, inst: Meeting, nodes: list[Node], pending: list[InstCollectiveCompute], in_while: bool) -> None:
        if isinstance(inst, InstCollectiveCompute):
            self.collectives.append(inst)
            if in_while:
                self.whiles.append(inst)
        if pending and (_conflicts(inst, pending) or not _is_late(inst)):
            nodes.append(SETTLE)
            pending.clear()
        nodes.append(inst if inst.mask is None else Loop(None, [inst]))
        if _is_late(inst):
            pending.append(inst)  # type: ignore[arg-type]


def _turns(loop: InstLoop | InstWhile) -> int | None:
    if isinstance(loop, InstLoop) and isinstance(loop.start, int) and isinstance(loop.stop, int):
        return len(range(loop.start, loop.stop, loop.step))
    return None


def _is_late(inst: Inst) -> bool:
    """Whether a meeting is a transfer between cores that completes only where its operands are needed."""
    return isinstance(inst, InstCollectiveCompute) and inst.is_local and inst.kind in LOCAL_KINDS


def _conflicts(inst: Inst, pending: list[InstCollectiveCompute]) -> bool:
    """Whether an instruction touches what a transfer under way still writes, or writes what it still reads."""
    writes = {ap.tensor for ap in inst.writes()}
    touches = writes | set(_tensors((*inst.reads(), *inst.writes())))
    return any(
        any(ap.tensor in touches for ap in posted.dsts) or any(ap.tensor in writes for ap in posted.srcs)
        for posted in pending
    )


def _tensors(aps: Iterable[AccessPattern]) -> Iterator[str]:
    for ap in aps:
        yield ap.tensor
        for offset in (ap.scalar_offset, ap.vector_offset):
            if isinstance(offset, AccessPattern):
                yield offset.tensor
