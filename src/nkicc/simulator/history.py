"""What each stream has issued of collectives, transfers and barriers, kept for the report of a deadlock."""

from __future__ import annotations

from collections import deque

from nkicc.ir.base import Inst

__all__ = ["History"]

#: Two sequences are compared as far as this.
_KEPT = 4096
#: So many are shown.
_SHOWN = 4


class History:
    """The meetings of one stream: how many, the first ones and the last ones. Always on, so it stays small."""

    __slots__ = ("count", "first", "last")

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Inst] = []
        self.last: deque[Inst] = deque(maxlen=_SHOWN)

    def note(self, inst: Inst) -> None:
        if self.count < _KEPT:
            self.first.append(inst)
        self.count += 1
        self.last.append(inst)
