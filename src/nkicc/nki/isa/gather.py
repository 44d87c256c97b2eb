"""GpSimd: gathers within SBUF, indices of non-zero elements, bounds of sequences."""

from __future__ import annotations

from nkicc.ir.isa import InstLocalGather, InstNGather, InstNonzeroWithCount, InstSequenceBounds
from nkicc.nki.tensor import ndarray

from .arguments import access, insert, integer, refuse_argument

__all__ = ["local_gather", "nc_n_gather", "nonzero_with_count", "sequence_bounds"]


def local_gather(
    dst: ndarray,
    src_buffer: ndarray,
    index: ndarray,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> None:
    """In each group of 16 partitions: dst[p, i, e] = src_buffer[p, index_i + e] with free dimensions flattened. The
    group's uint16 indices count partition first; `num_valid_indices` of them are used, e < `num_elem_per_idx`."""
    insert(
        InstLocalGather(
            name=name or "",
            dst=access(dst, "dst"),
            src_buffer=access(src_buffer, "src_buffer"),
            index=access(index, "index"),
            num_elem_per_idx=integer(num_elem_per_idx),
            num_valid_indices=None if num_valid_indices is None else integer(num_valid_indices),
        )
    )


def nc_n_gather(dst: ndarray, data: ndarray, indices: ndarray, name: str | None = None) -> None:
    """dst[p, i] = data[p, indices[p, i]] with free dimensions flattened; indices are uint32."""
    insert(
        InstNGather(
            name=name or "", dst=access(dst, "dst"), data=access(data, "data"), indices=access(indices, "indices")
        )
    )


def nonzero_with_count(
    dst: ndarray, src: ndarray, index_offset: int = 0, padding_val: int = -1, name: str | None = None
) -> None:
    """In partitions 0, 16, 32, … alone: dst = indices of the non-zero elements of src plus `index_offset`, then
    `padding_val`, then how many there are. dst is int32 and one element longer than src."""
    for operand, value in (("index_offset", index_offset), ("padding_val", padding_val)):
        if not -(1 << 31) <= integer(value) < 1 << 31:
            refuse_argument("nonzero_with_count", operand, value, "an integer of 32 bits")
    insert(
        InstNonzeroWithCount(
            name=name or "",
            dst=access(dst, "dst"),
            src=access(src, "src"),
            index_offset=integer(index_offset),
            padding_val=integer(padding_val),
        )
    )


def sequence_bounds(dst: ndarray, segment_ids: ndarray, name: str | None = None) -> None:
    """dst[0, 0, i], dst[0, 1, i] = first index and end of the run of equal ids around i; n and -1 where the id is 0."""
    insert(InstSequenceBounds(name=name or "", dst=access(dst, "dst"), segment_ids=access(segment_ids, "segment_ids")))
