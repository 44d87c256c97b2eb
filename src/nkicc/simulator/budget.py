"""What the arguments of all ranks may take of this machine's memory, before any of it is taken."""

from __future__ import annotations

import numpy as np

from nkicc.ir.errors import fail

from .memory import physical_memory

__all__ = ["Budget"]


class Budget:
    """Counts the bytes of arguments and stops with NKC106 before they fill this machine's memory. Arguments that differ
    between ranks exist twice, rank by rank and with ranks leading, hence the limit of somewhat less than a half."""

    def __init__(self) -> None:
        self.limit = physical_memory() * 9 // 20
        self.taken = 0
        self._known: set[int] = set()

    def add(self, name: str, array: np.ndarray) -> None:
        """An array of the caller's, which stays alive; one that has been counted costs nothing."""
        if id(array) not in self._known:
            self._known.add(id(array))
            self.reserve(name, array.nbytes)

    def reserve(self, name: str, size: int, count: int = 1) -> None:
        """`count` arrays of `size` bytes that are still to be made."""
        if self.taken + size * count > self.limit:
            need = str(size) if count == 1 else f"{count} x {size}"
            fail("NKC106", name=name, need=need, limit=self.limit, taken=self.taken, operand=name)
        self.taken += size * count
