"""Races between the two cores of a rank.

Accesses to memory that both cores see are ordered by program order on each core and by the places where the cores meet.
Between two meetings an access of one core and a write of the other to the same element race, unless no order can
matter: public kernels let both cores compute the same bytes, so a write that changes nothing is none, nor are the
writes of two cores that leave the same content in the end.

Only what meets in one tensor between two meetings costs more than a list entry. Offsets that differ between ranks are
not followed: a race through them is missed, never invented.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nkicc.ir.base import Inst
from nkicc.ir.errors import fail
from nkicc.ir.findings import Related

from .memory import AnyView, Buffer, DynamicView
from .numerics import differing, same_bits
from .rules import Step

__all__ = ["Watch", "watched"]

Array = np.ndarray
#: Type of the number of an access.
MARK = np.dtype(np.int32)
#: The elements of a tensor that an access touches: a view of an array with one entry per element, or None if unknown.
Region = Callable[[Array], Array | None]


class _Access:
    """One executed access: who, where, and its number in the run."""

    __slots__ = ("inst", "number", "region", "writes")

    def __init__(self, inst: Inst, number: int, region: Region, writes: bool) -> None:
        self.inst = inst
        self.number = number
        self.region = region
        self.writes = writes


class _Shadow:
    """A tensor that both cores see: what each core did to it since they last met.

    `marks[core]` holds per element the number of the core's last read and last write; accesses are marked only when the
    other core comes to the same tensor.
    """

    __slots__ = ("epoch", "log", "marked", "marks", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.epoch = -1
        self.log: tuple[list[_Access], list[_Access]] = ([], [])
        self.marked = [0, 0]
        self.marks: list[Array] | None = None

    def enter(self, epoch: int) -> None:
        """Forget what happened before the cores last met."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.log[0].clear()
            self.log[1].clear()
            self.marked = [0, 0]

    def mark(self, core: int) -> Array:
        """The marks of a core, (2, elements): reads and writes, up to date."""
        if self.marks is None:
            self.marks = [np.zeros((2, self.size), MARK) for _ in range(2)]
        marks = self.marks[core]
        for access in self.log[core][self.marked[core] :]:
            elements = access.region(marks[int(access.writes)])
            if elements is not None:
                elements[...] = access.number
        self.marked[core] = len(self.log[core])
        return marks


class Watch:
    """The watch over the cores of one set of ranks."""

    def __init__(self) -> None:
        self._shadows: dict[int, _Shadow] = {}
        self._epoch = 0
        self._count = 0
        self._start = 0
        #: Elements that both cores have written: what one left must be there when they meet.
        self._open: list[Step] = []

    def meet(self) -> None:
        """Both cores have met, or the run is over: what came before is ordered with what comes after."""
        for check in self._open:
            check()
        self._open.clear()
        self._epoch += 1
        self._start = self._count

    def over(self, core: int, inst: Inst, reads: Sequence[AnyView], writes: Sequence[AnyView]) -> Callable[[], Step]:
        """To be called when the accesses to the given views begin; gives what is to be called when they are done."""
        seen = [(view, _region(view), False) for view in reads] + [(view, _region(view), True) for view in writes]

        def begin() -> Step:
            changed = [self._note(core, inst, view, region, write) for view, region, write in seen]

            def end() -> None:
                for check in changed:
                    if check is not None:
                        check()

            return end

        return begin

    def _note(self, core: int, inst: Inst, view: AnyView, region: Region, write: bool) -> Step | None:
        """Check an access against the other core's. A conflicting write gives what must be called once it is done."""
        shadow = self._shadow(view.buffer)
        shadow.enter(self._epoch)
        other = 1 - core
        suspect: Step | None = None
        if shadow.log[other]:
            theirs, mine = shadow.mark(other), shadow.mark(core)
            writes = region(theirs[1])
            if writes is not None:
                own = region(mine[1])
                assert own is not None
                # What this core has written itself since they met, it reads as it wrote it.
                racing = (writes > self._start) & (own <= self._start)
                if write:
                    suspect = self._write(core, inst, view, region(theirs[0]), writes, racing, shadow)
                elif racing.any():
                    self._race(core, inst, self._find(shadow, other, int(writes[racing].max())), view, "reads")
        self._count += 1
        shadow.log[core].append(_Access(inst, self._count, region, write))
        return suspect

    def _write(
        self, core: int, inst: Inst, view: AnyView, reads: Array | None, writes: Array, racing: Array, shadow: _Shadow
    ) -> Step | None:
        """A write to what the other core has read must not change it; what the other core has written must be there
        when they meet."""
        assert reads is not None
        read = reads > self._start
        if racing.any() and not isinstance(view, DynamicView):
            first = self._find(shadow, 1 - core, int(writes[racing].max()))
            self._open.append(self._unchanged(core, inst, first, view, racing.copy()))
        if read.any():
            return self._unchanged(core, inst, self._find(shadow, 1 - core, int(reads[read].max())), view, read.copy())
        return None

    def _unchanged(self, core: int, inst: Inst, first: _Access, view: AnyView, where: Array) -> Step:
        """What raises the race if the content at `where` is not, when it is called, what it is now."""
        before = view.read().copy()

        def check() -> None:
            old, new = np.broadcast_arrays(before, view.read())
            if not same_bits(old, new) and differing(old, new)[:, where].any():
                self._race(core, inst, first, view, "writes")

        return check

    def _race(self, core: int, inst: Inst, first: _Access, view: AnyView, does: str) -> None:
        did = "writes" if first.writes else "reads"
        fail(
            "NKC120", inst=inst.label, does=does, name=view.buffer.tensor.name, other=1 - core,
            did=did, core=core, loc=inst.loc,
            notes=(Related(f"core {1 - core} {did} it in {first.inst.label}", first.inst.loc),),
        )  # fmt: skip

    def _find(self, shadow: _Shadow, core: int, number: int) -> _Access:
        return next(access for access in shadow.log[core] if access.number == number)

    def _shadow(self, buffer: Buffer) -> _Shadow:
        found = self._shadows.get(id(buffer))
        if found is None:
            found = self._shadows[id(buffer)] = _Shadow(buffer.tensor.size)
        return found


def watched(begin: Callable[[], Step], step: Step) -> Step:
    """`step` between the two ends of its accesses."""

    def run() -> None:
        end = begin()
        step()
        end()

    return run


def _region(view: AnyView) -> Region:
    """Where a view lies among the elements of its tensor."""
    item = view.buffer.dtype.itemsize
    if view.dtype.itemsize != item:
        return lambda elements: None
    shape, strides = view.shape, tuple([stride // item * MARK.itemsize for stride in view.strides])
    offset = view.offset // item * MARK.itemsize
    if isinstance(view, DynamicView):
        return _moving(view, offset, strides)
    return lambda elements: np.ndarray(shape, MARK, elements, offset, strides)


def _moving(view: DynamicView, offset: int, strides: tuple[int, ...]) -> Region:
    """A view whose offset is read while running: known if it is equal on all ranks and in bounds."""
    step = view.step // view.dtype.itemsize * MARK.itemsize

    def region(elements: Array) -> Array | None:
        values = view.offsets()
        if view.vector or values.min() != values.max() or not 0 <= values[0] <= view.last:
            return None
        return np.ndarray(view.shape, MARK, elements, offset + int(values[0]) * step, strides)

    return region
