"""GpSimd: gathers within SBUF, indices of non-zero elements, bounds of sequences.

A GpSimd core owns 16 partitions and works on them alone (NKI documentation, nki.isa.local_gather, nc_n_gather,
nonzero_with_count, sequence_bounds).
"""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope, in_memory, same_dtype, verify_operands
from ..types import DType, Memory
from .common import Operands, check_arch, check_dtype, check_integer, check_tile, per_partition, refuse_option

__all__ = ["InstLocalGather", "InstNGather", "InstNonzeroWithCount", "InstSequenceBounds"]

_GROUP = 16
_INT32_RANGE = (-(1 << 31), (1 << 31) - 1)
_UINT16 = frozenset({DType.uint16})
_UINT32 = frozenset({DType.uint32})
_INT32 = frozenset({DType.int32})
_WORDS = frozenset({DType.float32, DType.int32})
#: How many neighbours an index of a local gather may bring along.
_NEIGHBOURS = (1, 2, 4, 8, 16, 32)


def _in_sbuf(inst: Inst, scope: Scope, **operands: AccessPattern) -> None:
    """GpSimd reaches SBUF only (NKC030)."""
    verify_operands(inst, scope)
    for what, ap in operands.items():
        in_memory(inst, scope, ap, what, Memory.sbuf)


class InstLocalGather(Inst, frozen=True, kw_only=True):
    """For each group of 16 partitions: dst[p, i, e] = src_buffer[p, index_i + e], free dimensions flattened, where
    index_0, index_1, … are the group's indices, partition first, and e runs over `num_elem_per_idx`.

    The first `num_valid_indices` indices of each group count (all if None), at most 4096. Partitions of src_buffer,
    index and dst are equal and a multiple of 16; index is uint16; dst has the type of src_buffer. An index beyond
    src_buffer is refused when it is met (NKC102).
    """

    dst: AccessPattern
    src_buffer: AccessPattern
    index: AccessPattern
    num_elem_per_idx: int = 1
    num_valid_indices: int | None = None

    @property
    def indices_per_group(self) -> int:
        if self.num_valid_indices is not None:
            return self.num_valid_indices
        return per_partition(self.index) * _GROUP

    def reads(self) -> Operands:
        return (self.src_buffer, self.index)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        _in_sbuf(self, scope, dst=self.dst, src_buffer=self.src_buffer, index=self.index)
        partitions = self.src_buffer.shape[0]
        check_dtype(self, scope, self.index, "index", _UINT16)
        same_dtype(self, scope, self.src_buffer, self.dst)
        check_tile(self, "index", self.index, partitions, per_partition(self.index))
        if partitions % _GROUP:
            refuse_option(self, "partitions of src_buffer", partitions, "multiples of 16")
        if self.num_elem_per_idx not in _NEIGHBOURS:
            refuse_option(self, "num_elem_per_idx", self.num_elem_per_idx, ", ".join(map(str, _NEIGHBOURS)))
        most = min(per_partition(self.index) * _GROUP, 4096)
        count = self.indices_per_group
        if not 1 <= count <= most:
            refuse_option(self, "num_valid_indices", count, f"1 to {most}")
        check_tile(self, "dst", self.dst, partitions, count * self.num_elem_per_idx)


class InstNGather(Inst, frozen=True, kw_only=True):
    """dst[p, i] = data[p, indices[p, i]], free dimensions flattened. indices is uint32; dst has the type of data. An
    index beyond data is refused when it is met (NKC102)."""

    dst: AccessPattern
    data: AccessPattern
    indices: AccessPattern

    def reads(self) -> Operands:
        return (self.data, self.indices)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        _in_sbuf(self, scope, dst=self.dst, data=self.data, indices=self.indices)
        check_dtype(self, scope, self.indices, "indices", _UINT32)
        same_dtype(self, scope, self.data, self.dst)
        partitions = self.data.shape[0]
        check_tile(self, "indices", self.indices, partitions, per_partition(self.indices))
        check_tile(self, "dst", self.dst, partitions, per_partition(self.indices))


class InstNonzeroWithCount(Inst, frozen=True, kw_only=True):
    """In partitions 0, 16, 32, …: dst = the indices of the non-zero elements of src plus `index_offset`, then
    `padding_val`, and in the last element how many there are. Other partitions of dst keep their content.

    From trn2 on. src is float32 or int32, dst int32 with one element per partition more; both constants are int32
    (NKC035).
    """

    dst: AccessPattern
    src: AccessPattern
    index_offset: int = 0
    padding_val: int = -1

    def reads(self) -> Operands:
        return (self.src,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_arch(self, scope, 30)
        _in_sbuf(self, scope, dst=self.dst, src=self.src)
        check_dtype(self, scope, self.src, "src", _WORDS)
        check_dtype(self, scope, self.dst, "dst", _INT32)
        check_tile(self, "dst", self.dst, self.src.shape[0], per_partition(self.src) + 1)
        check_integer(self, self.index_offset, "index_offset", _INT32_RANGE)
        check_integer(self, self.padding_val, "padding_val", _INT32_RANGE)


class InstSequenceBounds(Inst, frozen=True, kw_only=True):
    """dst[0, 0, i] and dst[0, 1, i] = first index and end of the run of equal segment ids around i; for padding, id 0,
    they are n and -1. One partition; float32 or int32 on both sides."""

    dst: AccessPattern
    segment_ids: AccessPattern

    def reads(self) -> Operands:
        return (self.segment_ids,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        _in_sbuf(self, scope, dst=self.dst, segment_ids=self.segment_ids)
        check_dtype(self, scope, self.segment_ids, "segment_ids", _WORDS)
        check_dtype(self, scope, self.dst, "dst", _WORDS)
        n = per_partition(self.segment_ids)
        check_tile(self, "segment_ids", self.segment_ids, 1, n)
        check_tile(self, "dst", self.dst, 1, 2 * n)
