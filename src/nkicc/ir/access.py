"""Tensors, registers and access patterns: what an operand of an instruction is.

A tensor is a typed allocation. An operand is an access pattern over it: `((stride, count), …)` pairs in elements, an
offset in elements, and optionally one dynamic term. Element `(i0, i1, …)` of a pattern lives at

    offset + Σ stride_k · i_k + scalar_offset · indirect_stride                     (scalar_offset)
    offset + vector_offset[i0] · indirect_stride + Σ_{k>0} stride_k · i_k            (vector_offset)

of the tensor's row-major elements (NKI documentation, "NKI Access Patterns"). A tile of indices is read column by
column (nki.isa.dma_copy, "DMA batching"). In SBUF and PSUM the first pair walks the partitions; its stride is the
number of elements per partition.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from msgspec import Struct

from .errors import fail
from .types import DType, Loc, Memory, RegisterName, TensorName

__all__ = ["AccessPattern", "Register", "Remote", "Tensor"]

#: No device has HBM for a larger tensor; a million ranks of it still have a size that NumPy can count.
MAX_TENSOR_BYTES = 1 << 40
#: Elements of a view that repeats those of its tensor: more than any broadcast has, and few enough to walk through.
MAX_REPEATED = 1 << 30
#: NumPy arrays have at most 64 dimensions; ranks, groups and chunks take some of them.
MAX_DIMS = 32


class Remote(Struct, frozen=True, forbid_unknown_fields=True):
    """The tensor of the same name space that an alias stands for: `tensor` of the rank's core `core`."""

    core: int
    tensor: str


class Tensor(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A typed allocation. `shape[0]` is the partition extent in SBUF and PSUM.

    `named` tells whether the kernel chose the name (a collective's HBM operand should have one). `remote` makes the
    tensor an alias of another core's tensor, as the lowering of local collectives creates them.
    """

    name: TensorName
    shape: tuple[int, ...]
    dtype: DType
    memory: Memory
    named: bool = False
    remote: Remote | None = None
    loc: Loc | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def partition_bytes(self) -> int:
        """Bytes per partition (of the whole tensor, if it has no partitions)."""
        return prod(self.shape[1:]) * self.dtype.size

    def full(self) -> AccessPattern:
        """The access pattern of the whole tensor, row-major."""
        return AccessPattern(self.name, dense_pattern(self.shape))

    def verify(self) -> None:
        """Refuse empty shapes (NKC020), absurd sizes (NKC106) and more than 128 partitions (NKC021)."""
        if not self.shape or any(type(n) is not int or n < 1 for n in self.shape):
            fail("NKC020", name=self.name, shape=self.shape, loc=self.loc)
        if len(self.shape) > MAX_DIMS:
            fail("NKC025", name=self.name, why=_too_many(len(self.shape)), loc=self.loc)
        if self.size * self.dtype.size > MAX_TENSOR_BYTES:
            fail(
                "NKC106",
                name=self.name,
                need=self.size * self.dtype.size,
                limit=MAX_TENSOR_BYTES,
                taken=0,
                loc=self.loc,
            )
        if not self.memory.is_hbm and self.shape[0] > 128:
            fail("NKC021", name=self.name, partitions=self.shape[0], memory=self.memory.value, loc=self.loc)


class Register(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A scalar register of one core. Rank instructions write uint32."""

    name: RegisterName
    dtype: DType = DType.int32


class AccessPattern(Struct, frozen=True, cache_hash=True, omit_defaults=True, forbid_unknown_fields=True):
    """A view of the tensor named `tensor` (see the module's formula). `dtype` reinterprets the tensor's bytes;
    strides and offset are then in elements of that type. `skip_oob` drops rows whose dynamic offset is out of bounds
    instead of refusing them.
    """

    tensor: str
    pattern: tuple[tuple[int, int], ...]
    offset: int = 0
    dtype: DType | None = None
    scalar_offset: RegisterName | AccessPattern | None = None
    vector_offset: AccessPattern | None = None
    indirect_stride: int = 0
    skip_oob: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([count for _, count in self.pattern])

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def is_dynamic(self) -> bool:
        return self.scalar_offset is not None or self.vector_offset is not None

    def is_full(self, tensor: Tensor) -> bool:
        """Whether this is the whole tensor in row-major order, in its own type."""
        return (
            self.offset == 0
            and not self.is_dynamic
            and self.dtype in (None, tensor.dtype)
            and self.size == tensor.size
            and is_dense(self.pattern)
        )

    def bounds(self) -> tuple[int, int]:
        """Lowest and highest element that the static part reaches."""
        low = high = self.offset
        pairs = self.pattern[1:] if self.vector_offset is not None else self.pattern
        for stride, count in pairs:
            if stride >= 0:
                high += stride * (count - 1)
            else:
                low += stride * (count - 1)
        return low, high

    def verify(self, tensor: Tensor, *, operand: str = "", loc: Loc | None = None) -> None:
        """Refuse empty, malformed and endless patterns (NKC025) and static accesses out of bounds (NKC024)."""
        pattern = self.pattern
        if not pattern or min([count for _, count in pattern]) < 1:
            fail("NKC025", name=self.tensor, why=f"every count must be at least 1: {pattern}", operand=operand, loc=loc)
        if len(pattern) > MAX_DIMS:
            fail("NKC025", name=self.tensor, why=_too_many(len(pattern)), operand=operand, loc=loc)
        size = tensor.size
        if self.dtype is not None and self.dtype is not tensor.dtype:
            size = size * tensor.dtype.size // self.dtype.size
        low, high = self.bounds()
        if (count := self.size) > max(size, MAX_REPEATED):
            why = f"it repeats the tensor's {size} elements up to {count}, at most {MAX_REPEATED} are permitted"
            fail("NKC025", name=self.tensor, why=why, operand=operand, loc=loc)
        if max([abs(stride) for stride, _ in pattern]) > MAX_TENSOR_BYTES:
            why = f"its strides are at most {MAX_TENSOR_BYTES}: {pattern}"
            fail("NKC025", name=self.tensor, why=why, operand=operand, loc=loc)
        if low < 0 or high >= size:
            fail(
                "NKC024",
                pattern=list(map(list, pattern)),
                offset=self.offset,
                low=low,
                high=high,
                name=self.tensor,
                size=size,
                operand=operand,
                loc=loc,
            )
        if self.is_dynamic:
            self._verify_dynamic(tensor, operand, loc)

    def _verify_dynamic(self, tensor: Tensor, operand: str, loc: Loc | None) -> None:
        why = ""
        if self.scalar_offset is not None and self.vector_offset is not None:
            why = "scalar_offset and vector_offset exclude each other"
        elif not 1 <= self.indirect_stride <= MAX_TENSOR_BYTES:
            why = f"a dynamic offset needs a positive indirect_stride, got {self.indirect_stride}"
        elif self.vector_offset is not None:
            if not tensor.memory.is_hbm:
                why = "vector_offset needs a tensor in HBM"
            elif self.vector_offset.size < self.pattern[0][1]:
                why = f"vector_offset holds {self.vector_offset.size} indices for {self.pattern[0][1]} rows"
        if why:
            fail("NKC025", name=self.tensor, why=why, operand=operand, loc=loc)


def _too_many(dims: int) -> str:
    return f"it has {dims} dimensions, at most {MAX_DIMS} are permitted"


@lru_cache(maxsize=4096)
def dense_pattern(shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Row-major `(stride, count)` pairs of a shape."""
    pairs: list[tuple[int, int]] = []
    stride = 1
    for count in reversed(shape):
        pairs.append((stride, count))
        stride *= count
    return tuple(reversed(pairs))


def is_dense(pattern: tuple[tuple[int, int], ...]) -> bool:
    """Whether a pattern walks consecutive elements (extents of 1 may carry any stride)."""
    expected = 1
    for stride, count in reversed(pattern):
        if count != 1:
            if stride != expected:
                return False
            expected *= count
    return True
