"""The scheduler: which stream moves next, and what to say when none can.

There are no threads and no clock. Every stream that can move is advanced in a fixed order, or in one that a seed
chooses; if none can, that is the deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nkicc.engines import Report
from nkicc.ir.readings import readings

from .compiler import Compiler
from .deadlock import report as report_deadlock
from .machine import RankSet
from .meetings import Meetings
from .streams import Stream

__all__ = ["Scheduler"]


class Scheduler:
    """Compiles the programs of a run into streams and advances them to their ends."""

    def __init__(self, sets: Sequence[RankSet], report: Report, seed: int | None = None) -> None:
        #: With a seed, one stream at a time moves, chosen at random among those that can.
        self._random = None if seed is None else np.random.default_rng(seed)
        meetings = self._meetings = Meetings(sets, report)
        self.streams = [
            Stream(core, Compiler(meetings, core, kinds).program(), report)
            for ranks in sets
            for core, kinds in zip(ranks.cores, readings(ranks.program), strict=True)
        ]

    def run(self) -> None:
        """Advance all streams to their ends; NKC100 if none can move, NKC101 if that is because members of a
        group issue different operations."""
        open_streams = list(self.streams)
        while open_streams:
            free = [stream for stream in open_streams if stream.waits is None or stream.waits.done]
            if not free:
                self._meetings.check_stuck()
                report_deadlock(self.streams, self._meetings)
            if self._random is not None:
                free = [free[self._random.integers(len(free))]]
            for stream in free:
                stream.advance()
            open_streams = [stream for stream in open_streams if not stream.finished]
