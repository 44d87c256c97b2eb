"""Streams: the cores of the ranks of a program, each a generator that runs until it must wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from nkicc.engines import Report
from nkicc.ir.base import Inst, show_ranks
from nkicc.ir.errors import NkiccError, fail
from nkicc.ir.program import InstLoop, InstWhile

from .machine import CoreState
from .rules import Step

__all__ = ["Block", "Repeat", "Run", "Stream", "Token", "Wait", "all_active", "uniform_mask"]

Array = np.ndarray


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
    """A place where the stream arrives at a meeting. With `posted` it only waits for an arrival that it made before: it
    is no instruction of its own, and the mask, whose register may have changed since, does not matter."""

    __slots__ = ("arrive", "inst", "posted")

    def __init__(self, inst: Inst, arrive: Callable[[], Token], *, posted: bool = False) -> None:
        self.inst = inst
        self.arrive = arrive
        self.posted = posted


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
        self.history = core.history
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
                if not part.posted:
                    self.report.instructions += 1
                    if part.inst.mask is not None and not uniform_mask(self.core, part.inst):
                        continue
                    self.history.note(part.inst)
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
