"""The SPMD launch grid of a kernel: its axes, and which core stands where on it."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from msgspec import Struct

__all__ = ["CompositeSPMDDim", "ProgramAxis", "ProgramBarrier"]


class ProgramAxis(Struct, frozen=True):
    """An axis of iteration. A program id is one that the launch grid spreads over cores; the others are loops."""

    name: str
    extent: int
    is_program_id: bool = True


class CompositeSPMDDim(Struct, frozen=True):
    """The axes of a launch grid folded into one: program p, row-major over the axes, runs on core p of the rank."""

    axes: tuple[ProgramAxis, ...] = ()

    @property
    def extent(self) -> int:
        """Number of programs."""
        return prod(axis.extent for axis in self.axes)

    def program_ids(self, core: int) -> tuple[int, ...]:
        """The position of a core, one index per axis."""
        ids: list[int] = []
        for axis in reversed(self.axes):
            core, index = divmod(core, axis.extent)
            ids.append(index)
        return tuple(reversed(ids))

    def cores_along(self, names: Collection[str], core: int) -> tuple[int, ...]:
        """The cores that differ from `core` along the named axes only, `core` included."""
        kept = [i for i, axis in enumerate(self.axes) if axis.name not in names]
        own = self.program_ids(core)
        others = ((other, self.program_ids(other)) for other in range(self.extent))
        return tuple(other for other, ids in others if all(ids[i] == own[i] for i in kept))


class ProgramBarrier(Struct, frozen=True):
    """A barrier that the builder has registered: its semaphore, the program axes in force and the cores that meet. A
    later pass numbers them module-wide. `is_async` marks the fence of a result that was still in flight."""

    semaphore: str
    axes: tuple[str, ...]
    cores: tuple[int, ...]
    is_async: bool = False
