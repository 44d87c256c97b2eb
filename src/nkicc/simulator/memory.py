"""Memory with a rank axis.

A buffer holds one tensor for all ranks of a program: a byte array of shape (rows, bytes). One row means that the tensor
is the same on all ranks; it gets a row per rank when something rank-dependent is written, and falls back to one row
when something uniform overwrites all of it. A buffer that ranks fill slot by slot, each in its own order, as the result
of a ring all-gather is filled, stays one row as long as all write the same into a slot (`Claims`).

A view is an access pattern bound to a buffer; reading it costs no copy unless its offset differs between ranks. Where
ranks have left a loop that others still run, views write to the others only.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Never

import numpy as np
from msgspec import structs

from nkicc.ir.access import MAX_TENSOR_BYTES, AccessPattern, Tensor, is_dense
from nkicc.ir.errors import fail
from nkicc.ir.types import DType, Loc

from .numerics import assign, is_integer, same_bits

__all__ = ["Buffer", "DynamicView", "Lanes", "Pool", "View", "bind", "keep_freed_memory"]

Array = np.ndarray
#: Reads the dynamic offset of a view: integers of shape (rows,) or (rows, P).
Offsets = Callable[[], Array]


#: Results of more slots are not kept once: who has filled which would take more than the result.
MAX_SLOTS = 1 << 14


class Lanes:
    """Which ranks execute: `active` is a boolean per rank while a loop has ended for some of them, None for all."""

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active: Array | None = None


class Pool:
    """Storage of a run's tensors. Dead tensors give theirs back: reuse spares the page faults of fresh memory, the
    larger part of the cost of a new tile. A run stops with NKC106 before it takes more than `limit` bytes. Fresh
    memory is NaN (integers: the type's maximum), or what the seed `poison` makes of it."""

    __slots__ = ("_free", "_pattern", "_taken", "limit")

    def __init__(self, limit: int | None = None, poison: int | None = None) -> None:
        # Neither the smallest nor the largest byte, which make zeros, maxima and NaNs.
        bytes_ = None if poison is None else np.random.default_rng(poison).integers(1, 255, 8, np.uint8)
        self._pattern = None if bytes_ is None else bytes_.tobytes()
        self._free: dict[tuple[int, int], list[Array]] = {}
        self._taken = 0
        self.limit = physical_memory() * 9 // 10 if limit is None else limit

    @property
    def poisoned(self) -> bool:
        return self._pattern is not None

    def fresh(self, dtype: np.dtype) -> np.generic:
        """What an element of fresh memory holds."""
        if self._pattern is not None:
            return np.frombuffer(self._pattern[: dtype.itemsize], dtype)[0]
        return dtype.type(np.iinfo(dtype).max if is_integer(dtype) else np.nan)

    def take(self, rows: int, size: int, tensor: Tensor) -> Array:
        """(rows, size) bytes with arbitrary content."""
        free = self._free.get((rows, size))
        if free:
            return free.pop()
        if self._taken + rows * size > self.limit:
            self._taken -= self.size
            self._free.clear()
        if self._taken + rows * size > self.limit:
            self._refuse(rows, size, tensor, None)
        try:
            data = np.empty((rows, size), np.uint8)
        except MemoryError as error:
            self._refuse(rows, size, tensor, error)
        self._taken += rows * size
        return data

    def _refuse(self, rows: int, size: int, tensor: Tensor, cause: MemoryError | None) -> Never:
        fail(
            "NKC106", name=tensor.name, need=f"{rows} x {size}", taken=self._taken, limit=self.limit, loc=tensor.loc,
            cause=cause,
        )  # fmt: skip

    @property
    def size(self) -> int:
        """Bytes that are free."""
        return sum(data.nbytes for free in self._free.values() for data in free)

    def give(self, data: Array) -> None:
        """Take storage back."""
        self._free.setdefault(data.shape, []).append(data)


@functools.cache
def keep_freed_memory() -> None:
    """Let the C library keep what temporaries of a few MiB free. glibc otherwise gives it back at once, and to fault
    the same pages in again takes longer than to compute what goes there. Other libraries are left as they are."""
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        m_trim_threshold, m_mmap_threshold = -1, -3
        mallopt(m_mmap_threshold, 32 << 20)
        mallopt(m_trim_threshold, 256 << 20)


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class _Region:
    """Where in a slot a view writes."""

    __slots__ = ("constant", "view", "written")

    def __init__(self, view: DynamicView, ranks: int, slots: int) -> None:
        self.view = view
        #: [rank, slot]: who has written.
        self.written = np.zeros((ranks, slots), bool)
        #: The one value that all writes so far have filled the region with, as flags are: nothing to compare then.
        self.constant: bytes | None = None


class Claims:
    """The one row of a buffer whose slots the ranks fill in different orders.

    A slot is `step` bytes. What a later rank writes is compared with what is there, so that equal content is kept once.
    """

    __slots__ = ("_regions", "_taken", "data", "step")

    def __init__(self, data: Array, step: int) -> None:
        self.data = data
        self.step = step
        self._regions: dict[tuple[int, tuple[int, ...], tuple[int, ...]], _Region] = {}
        self._taken = np.zeros(step, bool)

    def write(self, view: DynamicView, slots: Array, value: Array) -> bool:
        """Write value[r] into slot slots[r] for every rank r. False, with nothing written, if the buffer cannot stay
        one row: other slots, a region that overlaps another, two ranks in one slot at once, different content."""
        if view.step != self.step or np.bincount(slots).max() > 1:
            return False
        region = self._region(view, len(slots))
        if region is None:
            return False
        value = np.broadcast_to(value, (len(slots), *view.shape))
        if value.dtype != view.dtype:
            cast = np.empty(value.shape, view.dtype)
            assign(cast, value)
            value = cast
        constant = value.flat[0].tobytes() if not any(value.strides) else None
        taken: Array = np.logical_or.reduce(region.written)
        first, known = not taken.any(), taken[slots]
        if first or constant is None or constant != region.constant or not known.all():
            if not self._fill(view.grid(self.data)[0], slots, known, value):
                return False
            region.constant = constant if first or constant == region.constant else None
        region.written[np.arange(len(slots)), slots] = True
        return True

    @staticmethod
    def _fill(grid: Array, slots: Array, known: Array, value: Array) -> bool:
        # Ranks next to each other mostly write slots next to each other: whole blocks, without gathering them first.
        cuts = np.flatnonzero((np.diff(slots) != 1) | (known[1:] != known[:-1])) + 1
        blocks = [
            (bool(known[first]), grid[slots[first] : slots[first] + last - first], value[first:last])
            for first, last in pairwise([0, *cuts.tolist(), len(slots)])
        ]
        if not all(same_bits(there, arriving) for is_known, there, arriving in blocks if is_known):
            return False
        for is_known, there, arriving in blocks:
            if not is_known:
                np.copyto(there, arriving)
        return True

    def _region(self, view: DynamicView, ranks: int) -> _Region | None:
        key = (view.offset, view.strides, view.shape)
        found = self._regions.get(key)
        if found is None:
            taken = np.ndarray(view.shape, bool, self._taken, view.offset, view.strides)
            if taken.any():
                return None
            taken[...] = True
            found = self._regions[key] = _Region(view, ranks, self.data.shape[1] // self.step)
        return found

    def is_uniform(self) -> bool:
        """Whether all ranks have written the same slots."""
        return all(bool(region.written.all()) for region in self._regions.values())

    def spread(self, data: Array, fresh: np.generic) -> None:
        """Fill `data`, a row per rank: what a rank has not written is `fresh` memory."""
        np.copyto(data, self.data)
        for region in self._regions.values():
            rows, slots = np.nonzero(~region.written)
            region.view.grid(data)[rows, slots] = fresh


class Buffer:
    """Storage of one tensor. `data` is (rows, row_bytes) uint8 and changes identity when the number of rows changes."""

    __slots__ = (
        "_claims",
        "_fresh",
        "_owned",
        "_pool",
        "_spare",
        "data",
        "dtype",
        "ranks",
        "shadow",
        "started",
        "tensor",
    )

    def __init__(
        self, tensor: Tensor, ranks: Array, pool: Pool, *, widen: bool = False, fresh: np.generic | None = None
    ) -> None:
        self.tensor = tensor
        self._pool = pool
        #: Global rank of each row.
        self.ranks = ranks
        self.dtype: np.dtype = tensor.dtype.numpy
        if widen and tensor.dtype.is_float and self.dtype.itemsize < 4:
            self.dtype = np.dtype(np.float32)
        #: What each element of fresh memory holds.
        self._fresh: np.generic = pool.fresh(self.dtype) if fresh is None else fresh
        self.data: Array | None = None
        #: Instead of `data`, while ranks fill the buffer slot by slot.
        self._claims: Claims | None = None
        self._owned = True
        self._spare: dict[int, Array] = {}
        #: PSUM only: (1 or ranks, bytes), not 0 where a matmul has written since allocation (the accumulate=None rule).
        self.started: Array | None = None
        #: One flag per element, 1 where nobody has written; None if that is nowhere (see `unwritten`).
        self.shadow: Buffer | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether nothing has touched the tensor yet."""
        return self.data is None and self._claims is None

    def flags(self, value: int) -> Buffer:
        """A buffer with one flag per element, all of them `value`."""
        tensor = Tensor(self.tensor.name, self.tensor.shape, DType.uint8, self.tensor.memory)
        return Buffer(tensor, self.ranks, self._pool, fresh=np.uint8(value))

    @property
    def rows(self) -> int:
        return self.allocated().shape[0]

    def allocated(self) -> Array:
        """The storage; fresh memory is one row of what the pool says it holds."""
        if self._claims is not None:
            self._settle(self._claims)
        if self.data is None:
            self.data = self._fresh_row()
        return self.data

    def _fresh_row(self) -> Array:
        data = self._take(1)
        data.view(self.dtype).fill(self._fresh)
        return data

    def claim(self, view: DynamicView, slots: Array, value: Array) -> bool:
        """Try to keep a buffer, fresh but for such writes, as one row while rank r writes value[r] into its slot
        slots[r]. False if that cannot be, with nothing written."""
        if self.data is not None or not view.slotted:
            return False
        if self._claims is None:
            self._claims = Claims(self._fresh_row(), view.step)
        return self._claims.write(view, slots, value)

    def _settle(self, claims: Claims) -> None:
        """Something else touches the buffer: make it one row or a row per rank."""
        self._claims = None
        if claims.is_uniform():
            self.data = claims.data
        else:
            self.data = self._take(len(self.ranks))
            claims.spread(self.data, self._fresh)
            self._pool.give(claims.data)

    def tensor_value(self) -> Array:
        """The content as (rows, *shape)."""
        data = self.allocated()
        return data.view(self.dtype).reshape(data.shape[0], *self.tensor.shape)

    def adopt(self, value: Array) -> None:
        """Use `value` of shape (rows, *shape) as content without copying it; it is copied before the first write."""
        value = np.ascontiguousarray(value if value.dtype == self.dtype else value.astype(self.dtype))
        self.data = value.reshape(value.shape[0], -1).view(np.uint8)
        self._owned = False

    def writable(self, rows: int, *, overwrite: bool) -> None:
        """Make the storage writable with `rows` rows. Unless `overwrite` (all of it is about to be written), the
        content is kept and a buffer that already differs between ranks keeps a row per rank."""
        if overwrite and self._claims is not None:
            self._pool.give(self._claims.data)
            self._claims = None
        data = self.data if overwrite else self.allocated()
        have = 0 if data is None else data.shape[0]
        if overwrite:
            if have != rows or not self._owned:
                self.data = self._take(rows)
                self._keep(data)
        elif have < rows:
            self.data = self._take(rows)
            np.copyto(self.data, data)  # type: ignore[arg-type]
            self._keep(data)
        elif not self._owned:
            assert data is not None
            self.data = data.copy()
        self._owned = True

    def _take(self, rows: int) -> Array:
        spare = self._spare.pop(rows, None)
        if spare is not None:
            return spare
        return self._pool.take(rows, self.tensor.size * self.dtype.itemsize, self.tensor)

    def release(self) -> None:
        """The tensor is dead: give its storage back."""
        if self._claims is not None:
            self._pool.give(self._claims.data)
            self._claims = None
        if self.data is not None and self._owned:
            self._pool.give(self.data)
        for data in self._spare.values():
            self._pool.give(data)
        self._spare.clear()
        self.data = self.started = self.shadow = None
        self._owned = True

    def _keep(self, data: Array | None) -> None:
        # A tensor that alternates between uniform and per-rank content reuses both allocations.
        if data is not None and self._owned:
            self._spare[data.shape[0]] = data


def byte_strides(pattern: Sequence[tuple[int, int]], item: int) -> tuple[int, ...]:
    """Strides in bytes. An extent of 1 may carry any stride, even one that NumPy cannot hold: that becomes 0."""
    return tuple([stride * item if count > 1 or abs(stride) < MAX_TENSOR_BYTES else 0 for stride, count in pattern])


class View:
    """An access pattern whose offset is known when the program is compiled."""

    __slots__ = ("_array", "_base", "_twin", "ap", "buffer", "covers", "dtype", "lanes", "offset", "shape", "strides")

    def __init__(self, buffer: Buffer, ap: AccessPattern, lanes: Lanes) -> None:
        self.buffer = buffer
        self.ap = ap
        self._twin: View | None = None
        self.lanes = lanes
        self.shape = ap.shape
        self.dtype = buffer.dtype if ap.dtype is None else ap.dtype.numpy
        item = self.dtype.itemsize
        self.offset = ap.offset * item
        self.strides = byte_strides(ap.pattern, item)
        self.covers = (
            ap.offset == 0 and is_dense(ap.pattern) and ap.size * item == buffer.tensor.size * buffer.dtype.itemsize
        )
        self._base: Array | None = None
        self._array: Array = np.empty(0)

    def read(self) -> Array:
        """The content, shape (rows, *shape); a view of the storage, to be used before the next write."""
        data = self.buffer.data
        if data is self._base and data is not None:
            return self._array
        data = self.buffer.allocated()
        self._array = np.ndarray(
            (data.shape[0], *self.shape), self.dtype, data, self.offset, (data.shape[1], *self.strides)
        )
        self._base = data
        return self._array

    def on(self, shadow: Buffer) -> View:
        """The same elements of another buffer."""
        if self._twin is None or self._twin.buffer is not shadow:
            self._twin = View(shadow, structs.replace(self.ap, dtype=None), self.lanes)
        return self._twin

    def prepare(self, rows: int, *, keep: bool = False) -> Array:
        """Where to write a value of `rows` rows, shape (rows of the storage, *shape). With `keep` the storage's content
        survives, so that part of the rows or elements may be written."""
        self.buffer.writable(rows, overwrite=self.covers and not keep)
        return self.read()

    def write(self, value: Array) -> None:
        """Store `value` of shape (1 or ranks, *shape), cast to the view's dtype."""
        if self.lanes.active is not None:
            self._write_active(value, self.lanes.active)
            return
        buffer = self.buffer
        data = buffer.data
        if data is None or not buffer._owned or data.shape[0] != value.shape[0]:
            out = self.prepare(value.shape[0])
        else:
            out = self.read()
        if value.shape[1:] != self.shape:
            value = value.reshape(value.shape[0], *self.shape)
        assign(out, value)

    def _write_active(self, value: Array, active: Array) -> None:
        self.buffer.writable(len(active), overwrite=False)
        out = self.read()
        value = np.broadcast_to(value.reshape(value.shape[0], *self.shape), out.shape)[active]
        cast = np.empty(value.shape, self.dtype)
        assign(cast, value)
        out[active] = cast


class DynamicView:
    """An access pattern with a scalar or vector offset that is read while running.

    An offset equal on all ranks moves the pattern; one that differs is a gather or scatter along (rank, offset) whose
    inner blocks NumPy copies whole. Offsets out of bounds are refused (NKC102), or dropped with `skip_oob`.
    """

    __slots__ = (
        "_twin",
        "ap",
        "buffer",
        "dtype",
        "inner",
        "inst",
        "lanes",
        "last",
        "loc",
        "offset",
        "offsets",
        "shape",
        "skip",
        "slotted",
        "step",
        "strides",
        "vector",
    )

    covers = False

    def __init__(
        self, buffer: Buffer, ap: AccessPattern, lanes: Lanes, offsets: Offsets, inst: str, loc: Loc | None
    ) -> None:
        self.buffer = buffer
        self.ap = ap
        self._twin: DynamicView | None = None
        self.lanes = lanes
        self.shape = ap.shape
        self.dtype = buffer.dtype if ap.dtype is None else ap.dtype.numpy
        item = self.dtype.itemsize
        self.vector = ap.vector_offset is not None
        self.offsets = offsets
        self.offset = ap.offset * item
        self.step = ap.indirect_stride * item
        self.skip = ap.skip_oob
        self.inst = inst
        self.loc = loc
        inner = ap.pattern[1:] if self.vector else ap.pattern
        self.inner = tuple([count for _, count in inner])
        self.strides = byte_strides(inner, item)
        total = buffer.tensor.size * buffer.dtype.itemsize // item
        low, high = ap.bounds()
        self.last = (total - 1 - high) // ap.indirect_stride
        #: Whether the offset picks one of the equal slots that the buffer consists of.
        self.slotted = (
            not self.vector
            and self.dtype == buffer.dtype
            and low >= 0
            and high < ap.indirect_stride
            and total % ap.indirect_stride == 0
            and total // ap.indirect_stride <= MAX_SLOTS
            and all(stride > 0 for stride in self.strides)
        )

    def on(self, shadow: Buffer) -> DynamicView:
        """The same elements of another buffer."""
        if self._twin is None or self._twin.buffer is not shadow:
            ap = structs.replace(self.ap, dtype=None)
            self._twin = DynamicView(shadow, ap, self.lanes, self.offsets, self.inst, self.loc)
        return self._twin

    def _index(self) -> tuple[Array, Array | None]:
        """Offsets in bounds, and a mask of those that were (None: all)."""
        values = self.offsets()
        active = self.lanes.active
        if active is not None:
            # A rank that is out of the loop neither counts as out of bounds nor writes.
            active = active[:, None] if self.vector else active
            values = np.where(active, values, 0)
        if values.min() < 0 or values.max() > self.last:
            good = (values >= 0) & (values <= self.last)
            if not self.skip:
                bad = values[~good]
                rank = int(self.buffer.ranks[np.argwhere(~good)[0][0]]) if values.shape[0] > 1 else None
                fail(
                    "NKC102",
                    inst=self.inst,
                    value=int(bad[0]),
                    name=self.buffer.tensor.name,
                    last=self.last,
                    rank=rank,
                    loc=self.loc,
                )
            return np.where(good, values, 0), good
        return values, None

    def grid(self, data: Array) -> Array:
        """The pattern at every offset: (rows, offsets, *inner)."""
        return np.ndarray(
            (data.shape[0], self.last + 1, *self.inner),
            self.dtype,
            data,
            self.offset,
            (data.shape[1], self.step, *self.strides),
        )

    def _moved(self, data: Array, value: int) -> Array:
        return np.ndarray(
            (data.shape[0], *self.shape),
            self.dtype,
            data,
            self.offset + value * self.step,
            (data.shape[1], *self.strides),
        )

    def read(self) -> Array:
        """The content, shape (rows, *shape)."""
        return self.read_masked()[0]

    def read_masked(self) -> tuple[Array, Array | None]:
        """The content and, with `skip_oob`, which (rank, row) of it exist (None: all)."""
        values, good = self._index()
        data = self.buffer.allocated()
        if not self.vector and values.size == 1 and good is None:
            return self._moved(data, int(values[0])), None
        rows = self._rows(data.shape[0], values.shape[0])
        if self.vector:
            rows = rows[:, None]
        return self.grid(data)[rows, values], good

    def write(self, value: Array) -> None:
        """Store `value` of shape (1 or ranks, *shape)."""
        self.write_masked(value, None)

    def write_masked(self, value: Array, mask: Array | None) -> None:
        """Store the (rank, row) entries of `value` that `mask` names (None: all) and whose offset is in bounds."""
        values, good = self._index()
        if value.shape[1:] != self.shape:
            value = value.reshape(value.shape[0], *self.shape)
        active = self.lanes.active
        if active is not None:
            active = np.broadcast_to(active[:, None], values.shape) if self.vector else active
            good = active if good is None else active & good
        if mask is not None:
            good = mask if good is None else mask & good
        if good is None and len(values) > 1 and self.buffer.claim(self, values, value):
            return
        count = max(value.shape[0], values.shape[0], 1 if good is None else good.shape[0])
        self.buffer.writable(count, overwrite=False)
        data = self.buffer.allocated()
        if not self.vector and values.size == 1 and good is None:
            assign(self._moved(data, int(values[0])), value)
            return
        shape = (data.shape[0], *values.shape[1:])
        values = np.broadcast_to(values, shape)
        value = np.broadcast_to(value, (data.shape[0], *self.shape))
        rows = np.arange(data.shape[0])
        rows = np.broadcast_to(rows[:, None], shape) if self.vector else rows
        if good is not None:
            good = np.broadcast_to(good, shape)
            rows, values, value = rows[good], values[good], value[good]
        grid = self.grid(data)
        if value.dtype != self.dtype:
            cast = np.empty(value.shape, self.dtype)
            assign(cast, value)
            value = cast
        grid[rows, values] = value

    def prepare(self, rows: int, *, keep: bool = False) -> Array:
        """Where to write `rows` rows; only for an offset that is equal on all ranks."""
        values, _ = self._index()
        if values.size != 1:
            fail(
                "NKC008",
                what=f"{self.inst} through an offset that differs between ranks",
                instead="Copy through a tensor of its own.",
                loc=self.loc,
            )
        self.buffer.writable(rows, overwrite=False)
        return self._moved(self.buffer.allocated(), int(values[0]))

    @staticmethod
    def _rows(have: int, want: int) -> Array:
        if have == 1:
            return np.zeros(want, np.intp)
        return np.arange(have)


AnyView = View | DynamicView


def bind(
    buffer: Buffer, ap: AccessPattern, lanes: Lanes, offsets: Offsets | None, inst: str, loc: Loc | None
) -> AnyView:
    """The view of an access pattern over its buffer, for the ranks that `lanes` says execute."""
    if offsets is None:
        return View(buffer, ap, lanes)
    return DynamicView(buffer, ap, lanes, offsets, inst, loc)
