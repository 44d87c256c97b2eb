"""The tensor of a kernel (`nl.ndarray`) and its registers.

A tensor object is a view: shape and strides in elements over an allocation, at most one dynamic term, and nothing that
a view does copies data. Rules: NKI documentation, NkiTensor and "NKI Access Patterns".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from operator import index as as_integer
from typing import Any, Never

import numpy as np

from nkicc.builder.arguments import brief
from nkicc.builder.source import here, refuse
from nkicc.ir.access import AccessPattern, Tensor, dense_pattern, is_dense
from nkicc.ir.access import Register as IrRegister
from nkicc.ir.types import DType, Memory, RegisterName

from .dtype import NoStorage
from .trace import current

__all__ = ["Register", "ds", "machine_dtype", "ndarray"]

Shape = tuple[int, ...]
#: A dynamic term: the driving register or element, or the tile of indices, and what one step of it is in elements.
Dynamic = tuple[RegisterName | AccessPattern | None, AccessPattern | None, int]
#: The built-in, under a name that no method of the tensor takes.
Slice = slice


class Register:
    """A scalar register. Its value exists only when the program runs, so Python can neither branch on it nor compute
    with it (NKC110); it drives offsets and register instructions."""

    __slots__ = ("register",)

    def __init__(self, register: IrRegister) -> None:
        self.register = register

    @property
    def name(self) -> RegisterName:
        return self.register.name

    def __repr__(self) -> str:
        return f"Register({self.name})"

    def _no_value(self, *_: object) -> Never:
        refuse("NKC110", name=self.name)

    __bool__ = __int__ = __index__ = __float__ = _no_value
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _no_value  # type: ignore[assignment]
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_value
    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = _no_value
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __neg__ = _no_value
    __hash__ = object.__hash__


class ds:
    """`size` elements from `start`, which may be a register or a (1, 1) tile: an index of a tensor."""

    __slots__ = ("size", "start")

    def __init__(self, start: Any, size: int) -> None:
        self.start = start
        self.size = size


class ndarray:
    """A tensor of `shape` and `dtype` in `buffer`, uninitialised. It is the allocator, the type, and every view.

    `name` labels the allocation; a collective's HBM operand should have one. `address` is accepted and not used, since
    tensors never share storage here. NKC009 outside of a kernel, NKC020 and NKC021 for the shape, NKC022 for a name
    that is taken, NKC028 for the dtype, NKC035 for the buffer.
    """

    __slots__ = ("_access", "_dynamic", "dtype", "offset", "shape", "storage", "strides")

    shape: Shape
    strides: Shape
    offset: int
    dtype: np.dtype
    storage: Tensor
    _dynamic: Dynamic | None
    _access: AccessPattern | None

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        buffer: Memory = Memory.sbuf,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> None:
        tracer = current("nl.ndarray")
        if type(buffer) is not Memory:
            refuse(
                "NKC035",
                inst="nl.ndarray",
                what="buffer",
                found=buffer,
                permitted="nl.sbuf, nl.psum, nl.hbm, nl.private_hbm, nl.shared_hbm",
                operand="buffer",
            )
        element = machine_dtype(dtype)
        self._set(tracer.allocate(name, _extents(shape, name), element, buffer), element)

    def _set(self, storage: Tensor, dtype: DType) -> None:
        self.storage = storage
        self.dtype = dtype.numpy
        self.shape = storage.shape
        self.strides = _dense_strides(storage.shape)
        self.offset = 0
        self._dynamic = None
        self._access = None

    @classmethod
    def of(cls, storage: Tensor) -> ndarray:
        """The whole of an existing allocation."""
        self = cls.__new__(cls)
        self._set(storage, storage.dtype)
        return self

    def _view(self, shape: Shape, strides: Shape, offset: int) -> ndarray:
        view = ndarray.__new__(ndarray)
        view.storage = self.storage
        view.dtype = self.dtype
        view.shape = shape
        view.strides = strides
        view.offset = offset
        view._dynamic = self._dynamic
        view._access = None
        return view

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def buffer(self) -> Memory:
        return self.storage.memory

    @property
    def name(self) -> str:
        return self.storage.name

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def on_chip(self) -> bool:
        """Whether dimension 0 is the partition dimension (SBUF, PSUM)."""
        return not self.storage.memory.is_hbm

    def get_pattern(self) -> list[list[int]]:
        """`[[stride, count], …]` in elements."""
        return [[stride, count] for stride, count in zip(self.strides, self.shape, strict=True)]

    def is_contiguous(self) -> bool:
        """Whether the elements are consecutive; on chip, within each partition."""
        first = 1 if self.on_chip else 0
        return is_dense(tuple(zip(self.strides[first:], self.shape[first:], strict=True)))

    def is_indirect(self) -> bool:
        """Whether a register or a tensor of indices drives the address."""
        return self._dynamic is not None

    def __access__(self) -> AccessPattern:
        """This view as the operand of an instruction."""
        if self._access is None:
            scalar, vector, stride = self._dynamic or (None, None, 0)
            element = DType.of(self.dtype)
            self._access = AccessPattern(
                self.storage.name,
                tuple(zip(self.strides, self.shape, strict=True)),
                self.offset,
                None if element is self.storage.dtype else element,
                scalar,
                vector,
                stride,
            )
        return self._access

    def __repr__(self) -> str:
        return f"ndarray({self.name}, shape={self.shape}, dtype={self.dtype}, buffer={self.buffer.value})"

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Never:
        self._refuse("a tensor is not a sequence; index it by range(…)")

    def __bool__(self) -> Never:
        self._refuse("its values exist only when the program runs")

    def __class_getitem__(cls, _: object) -> type[ndarray]:
        return cls

    # --- views -------------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> ndarray:
        """Integers, slices, `...`, `nl.ds`, registers. In HBM an integer drops its dimension (at least one is left); on
        chip one on the partition dimension keeps extent 1, and at least two dimensions are left. NKC025 for what is out
        of range."""
        items = index if type(index) is tuple else (index,)
        rank = len(self.shape)
        if any(item is Ellipsis for item in items):
            at = next(i for i, item in enumerate(items) if item is Ellipsis)
            fill = rank - len(items) + 1
            items = (*items[:at], *(slice(None),) * fill, *items[at + 1 :])
        if len(items) > rank:
            self._refuse(f"{len(items)} indices for {rank} dimension(s)")
        shape: list[int] = []
        strides: list[int] = []
        offset = self.offset
        dynamic = self._dynamic
        on_chip = self.on_chip
        for dim, (extent, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            item = items[dim] if dim < len(items) else slice(None)
            if type(item) is slice:
                start, count, step = self._range(dim, item)
                offset += start * stride
                shape.append(count)
                strides.append(stride * step)
                continue
            kept = isinstance(item, ds)
            start, count = (item.start, item.size) if kept else (item, 1)
            if isinstance(start, Register | ndarray):
                if dynamic is not None:
                    self._refuse("one dynamic index per view")
                if on_chip and dim == 0:
                    self._refuse("a dynamic index on the partition dimension")
                dynamic = (self._scalar(start), None, stride)
                position = 0
            else:
                position = self._position(dim, start)
            if type(count) is not int or count < 1 or position + count > extent:
                self._refuse(f"{count!r} elements from {position} of dimension {dim}, which has {extent}")
            offset += position * stride
            if kept or (on_chip and dim == 0):
                shape.append(count)
                strides.append(stride)
        if on_chip and len(shape) < 2 <= rank:
            shape.append(1)
            strides.append(1)
        if not shape:
            shape, strides = [1], [1]
        view = self._view(tuple(shape), tuple(strides), offset)
        view._dynamic = dynamic
        return view

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> ndarray:
        """Elements start, start + step, … before `end` of dimension `dim`."""
        dim = self._dim(dim)
        return self[(*(slice(None),) * dim, slice(start, end, step))]

    def select(self, dim: int, index: Any) -> ndarray:
        """Drop `dim`, taking its element `index`: an integer, a register or a (1, 1) tile of integers."""
        dim = self._dim(dim)
        if self.on_chip and dim == 0:
            self._refuse("the partition dimension cannot be dropped")
        return self[(*(slice(None),) * dim, index)]

    def vector_select(self, dim: int, vector_offset: ndarray) -> ndarray:
        """Row `vector_offset[p]` of dimension 0 for each partition p of a (P, 1) tile of integers; in HBM only."""
        if self._dim(dim) != 0 or self.on_chip or self._dynamic is not None:
            self._refuse("vector_select takes dimension 0 of a tensor in HBM without another dynamic index")
        index = self._index_tile(vector_offset)
        view = self._view((index.size, *self.shape[1:]), (0, *self.strides[1:]), self.offset)
        view._dynamic = (None, index, self.strides[0])
        return view

    def indirect(self, index: ndarray, num_elem: int | None = None) -> Never:
        """Gather along the free dimension on chip, of NeuronCore-v4: not implemented (NKC008)."""
        refuse("NKC008", what="NkiTensor.indirect", instead="Use nisa.nc_n_gather, or an index by nl.ds and registers.")

    def __setitem__(self, index: Any, value: Any) -> Never:
        refuse("NKC008", what="assigning to a tensor", instead="Use nl.store, nisa.dma_copy or nisa.tensor_copy.")

    def reshape(self, shape: Sequence[int]) -> ndarray:
        """The same elements in row-major order under another shape. NKC025 if that would need a copy, if the number of
        elements differs, or if a partition dimension changes."""
        new = _extents(shape, self.name)
        if prod(new) != self.size:
            self._refuse(f"reshape of {self.shape} to {new}: {self.size} and {prod(new)} elements")
        kept = 0
        if self.on_chip:
            kept = 1
            if new[0] != self.shape[0]:
                self._refuse(f"reshape of {self.shape} to {new} changes the partition dimension")
        strides = _reshaped(self.shape[kept:], self.strides[kept:], new[kept:])
        if strides is None:
            self._refuse(f"reshape of {self.shape} with strides {self.strides} to {new} would need a copy")
        return self._view(new, (*self.strides[:kept], *strides), self.offset)

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> ndarray:
        """Split `dim` into `shape`, of which one extent may be -1."""
        dim = self._dim(dim)
        parts = list(shape)
        if parts.count(-1) == 1:
            rest = -prod(parts)
            parts[parts.index(-1)] = self.shape[dim] // rest if rest > 0 else 0
        return self._replace(dim, 1, parts)

    def flatten_dims(self, start_dim: int, end_dim: int) -> ndarray:
        """Merge the dimensions `start_dim` to `end_dim`, both included."""
        start, end = self._dim(start_dim), self._dim(end_dim)
        if start > end:
            self._refuse(f"flatten_dims({start_dim}, {end_dim})")
        return self._replace(start, end + 1 - start, [prod(self.shape[start : end + 1])])

    def expand_dim(self, dim: int) -> ndarray:
        """Insert a dimension of extent 1 before `dim`."""
        if not (1 if self.on_chip else 0) <= dim <= self.ndim:
            self._refuse(f"expand_dim({dim}) of {self.ndim} dimension(s)")
        stride = self.strides[dim] * self.shape[dim] if dim < self.ndim else 1
        return self._view(
            (*self.shape[:dim], 1, *self.shape[dim:]), (*self.strides[:dim], stride, *self.strides[dim:]), self.offset
        )

    def squeeze_dim(self, dim: int) -> ndarray:
        """Drop `dim`, which has extent 1."""
        dim = self._dim(dim)
        if self.shape[dim] != 1 or (self.on_chip and dim == 0) or self.ndim == 1:
            self._refuse(f"squeeze_dim({dim}) of shape {self.shape}")
        return self._view(
            (*self.shape[:dim], *self.shape[dim + 1 :]), (*self.strides[:dim], *self.strides[dim + 1 :]), self.offset
        )

    def permute(self, dims: Sequence[int]) -> ndarray:
        """Reorder the dimensions: dimension i of the result is dimension `dims[i]`."""
        order = tuple(dims)
        if sorted(order) != list(range(self.ndim)) or (self.on_chip and order[0] != 0):
            self._refuse(f"permute({order}) of {self.ndim} dimension(s)" + " in SBUF or PSUM" * self.on_chip)
        return self._view(tuple(self.shape[d] for d in order), tuple(self.strides[d] for d in order), self.offset)

    def broadcast(self, dim: int, size: int) -> ndarray:
        """Repeat `dim`, which has extent 1, `size` times."""
        dim = self._dim(dim)
        if self.shape[dim] != 1 or size < 1 or (self.on_chip and dim == 0):
            self._refuse(f"broadcast({dim}, {size}) of shape {self.shape}")
        return self._view(
            (*self.shape[:dim], size, *self.shape[dim + 1 :]),
            (*self.strides[:dim], 0, *self.strides[dim + 1 :]),
            self.offset,
        )

    def rearrange(
        self,
        src_pattern: Sequence[str | Sequence[str]],
        dst_pattern: Sequence[str | Sequence[str]],
        fixed_sizes: Mapping[str, int] | None = None,
    ) -> ndarray:
        """Name the dimensions and give them another order. A tuple of names is one dimension made of several: in the
        source it is split (by `fixed_sizes`, of which one may be left out), in the destination merged.

        `t.rearrange((("a", "b"), "c"), ("c", "a", "b"), {"a": 2})`
        """
        sizes = fixed_sizes or {}
        if len(src_pattern) != self.ndim:
            self._refuse(f"rearrange names {len(src_pattern)} of {self.ndim} dimension(s)")
        view = self
        names: list[str] = []
        for item in src_pattern:
            group = [item] if isinstance(item, str) else list(item)
            if len(group) > 1:
                view = view.reshape_dim(len(names), [sizes.get(name, -1) for name in group])
            names += group
        target = [[item] if isinstance(item, str) else list(item) for item in dst_pattern]
        order = [name for group in target for name in group]
        if sorted(order) != sorted(names) or len(set(names)) != len(names):
            self._refuse(f"rearrange of {names} to {order}")
        view = view.permute([names.index(name) for name in order])
        for dim, group in enumerate(target):
            view = view.flatten_dims(dim, dim + len(group) - 1)
        return view

    def view(self, dtype: Any) -> ndarray:
        """The same bytes as another type; the last dimension, which must be contiguous, is scaled by the size ratio."""
        new = machine_dtype(dtype)
        old = DType.of(self.dtype)
        shape, strides, offset = self.shape, self.strides, self.offset
        if new.size != old.size:
            if self._dynamic is not None:
                self._refuse("a view of another element size after a dynamic select")
            lengths = [*strides[:-1], shape[-1], offset]
            if strides[-1] != 1 or any(n * old.size % new.size for n in lengths):
                self._refuse(f"{old.value} elements of shape {shape} with strides {strides} as {new.value}")
            *outer, last, offset = (n * old.size // new.size for n in lengths)
            shape, strides = (*shape[:-1], last), (*outer, 1)
        result = self._view(shape, strides, offset)
        result.dtype = new.numpy
        return result

    reinterpret_cast = view

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: Any = None,
        vector_offset: ndarray | None = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> ndarray:
        """A view by hand: `[[stride, count], …]` and `offset` in elements of `dtype` over the tensor's storage.

        `scalar_offset` (a register or a (1, 1) tile) and `vector_offset` (a (P, 1) tile of row indices, in place of the
        first pair's stride) count rows of dimension `indirect_dim` of this object's shape. On chip the first pair walks
        the partitions, so its stride is the size of a partition. The documentation disagrees on what `.ap` of a view
        that starts elsewhere means; it is refused (NKC025).
        """
        if self.offset or self._dynamic is not None:
            self._refuse("ap() of a view that does not start at its tensor; call it on the tensor itself")
        element = machine_dtype(self.dtype if dtype is None else dtype)
        try:
            pairs = [(as_integer(stride), as_integer(count)) for stride, count in pattern]
            start = 0 if offset is None else as_integer(offset)
        except (TypeError, ValueError):
            self._refuse(
                f"pattern {brief(pattern)} at offset {offset!r} is not [[stride, count], …] with an integer offset"
            )
        if self.on_chip:
            self._check_partitions(pairs, start, element)
        view = self._view(tuple(count for _, count in pairs), tuple(stride for stride, _ in pairs), start)
        view.dtype = element.numpy
        if scalar_offset is not None or vector_offset is not None:
            if scalar_offset is not None and vector_offset is not None:
                self._refuse("scalar_offset and vector_offset exclude each other")
            dim = self._dim(indirect_dim)
            if not is_dense(tuple(zip(self.strides, self.shape, strict=True))):
                self._refuse("a dynamic offset over a view that is not dense")
            stride = prod(self.shape[dim + 1 :]) * self.dtype.itemsize // element.size
            if vector_offset is None:
                view._dynamic = (self._scalar(scalar_offset), None, stride)
            else:
                view._dynamic = (None, self._index_tile(vector_offset), stride)
        view.__access__().verify(self.storage, loc=here())
        return view

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _refuse(self, why: str) -> Never:
        refuse("NKC025", name=self.name, why=why)

    def _dim(self, dim: Any) -> int:
        if type(dim) is not int or not -self.ndim <= dim < self.ndim:
            self._refuse(f"there is no dimension {dim!r} in shape {self.shape}")
        return dim % self.ndim

    def _position(self, dim: int, index: Any) -> int:
        try:
            position = as_integer(index)
        except TypeError:
            self._refuse(f"{brief(index)} is not an index")
        extent = self.shape[dim]
        if not -extent <= position < extent:
            self._refuse(f"index {position} of dimension {dim}, which has {extent}")
        return position % extent

    def _range(self, dim: int, item: Slice) -> tuple[int, int, int]:
        """Start, count and step of a slice, which must lie inside the dimension."""
        extent = self.shape[dim]
        if item.start is None and item.stop is None and item.step is None:
            return 0, extent, 1
        try:
            start = 0 if item.start is None else as_integer(item.start)
            stop = extent if item.stop is None else as_integer(item.stop)
            step = 1 if item.step is None else as_integer(item.step)
        except TypeError:
            self._refuse(f"{item} has a bound that is not an integer; nl.ds(register, size) takes a register")
        start += extent if start < 0 else 0
        stop += extent if stop < 0 else 0
        if not 0 <= start < stop <= extent or step < 1:
            self._refuse(f"[{start}:{stop}:{step}] of dimension {dim}, which has {extent}")
        return start, (stop - start + step - 1) // step, step

    def _scalar(self, value: Any) -> RegisterName | AccessPattern:
        if isinstance(value, Register):
            if self.on_chip and value.register.dtype is DType.int64:
                self._refuse("an int64 scalar as an offset on chip; an int32 reaches all of it")
            return value.name
        if not isinstance(value, ndarray) or value.size != 1 or value.dtype.kind not in "iu":
            self._refuse(f"{brief(value)} as an offset; it takes a register or a (1, 1) tile of integers")
        return value.__access__()

    def _index_tile(self, value: Any) -> AccessPattern:
        if not isinstance(value, ndarray) or not value.on_chip or value.dtype.kind not in "iu":
            self._refuse(f"{brief(value)} as vector_offset; it takes a (P, 1) tile of integers in SBUF")
        return value.__access__()

    def _replace(self, dim: int, count: int, extents: list[int]) -> ndarray:
        """Reshape dimensions dim .. dim + count - 1 to `extents`."""
        if self.on_chip and dim == 0 and (count > 1 or len(extents) > 1):
            self._refuse("the partition dimension can be neither split nor merged")
        return self.reshape((*self.shape[:dim], *extents, *self.shape[dim + count :]))

    def _check_partitions(self, pairs: list[tuple[int, int]], offset: int, dtype: DType) -> None:
        """The first pair of an on-chip pattern walks partitions, the others stay inside one."""
        pitch = self.storage.partition_bytes // dtype.size
        stride, partitions = pairs[0] if pairs else (0, 1)
        if partitions > 1 and stride != pitch:
            self._refuse(f"the first stride must be the partition's {pitch} elements, got {stride}")
        reach = [s * (n - 1) for s, n in pairs[1:]]
        low = offset % pitch + sum(r for r in reach if r < 0)
        high = offset % pitch + sum(r for r in reach if r > 0)
        if low < 0 or high >= pitch:
            self._refuse(f"elements {low}..{high} of a partition, which has {pitch}")


def machine_dtype(dtype: Any) -> DType:
    """The machine's type of anything that names one; NKC028 if there is none, NKC008 for the packed ones."""
    if isinstance(dtype, NoStorage):
        refuse("NKC008", what=f"a tensor of nl.{dtype}", instead="Use one of the unpacked types.", operand="dtype")
    try:
        return DType.of(dtype)
    except TypeError:
        refuse("NKC028", what="dtype", found=repr(dtype), operand="dtype")


def _extents(shape: Any, name: str) -> Shape:
    """A shape as a tuple of integers; NKC020 if it is none."""
    try:
        extents = tuple(map(as_integer, shape))
    except TypeError:
        extents = ()
    if not extents or min(extents) < 1:
        refuse("NKC020", name=name, shape=shape)
    return extents


def _dense_strides(shape: Shape) -> Shape:
    return tuple([stride for stride, _ in dense_pattern(shape)])


def _reshaped(shape: Shape, strides: Shape, new: Shape) -> Shape | None:
    """The strides that walk the elements of (shape, strides) under the shape `new`, or None if there are none.

    From the innermost dimension outwards: old dimensions that follow each other without a gap form a run, and every new
    dimension must divide what is left of its run.
    """
    old = [(count, stride) for count, stride in zip(shape, strides, strict=True) if count != 1]
    result: list[int] = []
    left = step = 1
    for count in reversed(new):
        if count != 1 and left == 1:
            left, step = old.pop()
            outer = step * left
            while old and old[-1][1] == outer:
                left *= old[-1][0]
                outer *= old.pop()[0]
        if left % count:
            return None
        result.append(step)
        step *= count
        left //= count
    return tuple(reversed(result))
