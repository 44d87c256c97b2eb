"""Search along the free dimensions: the largest values, where values are, and replacing them.

Values are compared as float32; NaN equals nothing and ranks below everything (NKI documentation, nki.isa.max8,
nc_find_index8, nc_match_replace8, topk).
"""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope, in_memory, verify_operands
from ..types import DType, Memory
from .common import (
    LONG,
    AnyNumber,
    Operands,
    check_dtype,
    check_integer,
    check_tile,
    check_tiles,
    on_chip,
    per_partition,
    refuse_option,
)

__all__ = ["InstFindIndex8", "InstMatchReplace8", "InstMax8", "InstTopk"]

_INDICES = frozenset({DType.uint16, DType.uint32})
_BFLOAT16 = frozenset({DType.bfloat16})
_UINT32 = frozenset({DType.uint32})
#: GpSimd cores own this many partitions each.
_GROUP = 16


def _check_data(inst: Inst, scope: Scope, what: str, data: AccessPattern) -> None:
    """8 to 16384 elements per partition in at most 5 dimensions (NKC035)."""
    on_chip(inst, scope, data)
    count = per_partition(data)
    if not 8 <= count <= 16_384 or len(data.shape) > 5:
        permitted = "8 to 16384 elements per partition, at most 5 dimensions"
        refuse_option(inst, f"shape of {what}", data.shape, permitted)


class InstMax8(Inst, frozen=True, kw_only=True):
    """dst[p, :] = the 8 largest values of src[p, …], descending."""

    dst: AccessPattern
    src: AccessPattern

    def reads(self) -> Operands:
        return (self.src,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        on_chip(self, scope, self.dst)
        _check_data(self, scope, "src", self.src)
        check_tile(self, "dst", self.dst, self.src.shape[0], 8)


class InstFindIndex8(Inst, frozen=True, kw_only=True):
    """dst[p, k] = index in data[p, …] of an occurrence of vals[p, k]. Equal values take successive occurrences in
    ascending order of k; a value without a further occurrence gets all ones. dst is uint16 or uint32."""

    dst: AccessPattern
    data: AccessPattern
    vals: AccessPattern

    def reads(self) -> Operands:
        return (self.data, self.vals)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        on_chip(self, scope, self.dst, self.vals)
        _check_data(self, scope, "data", self.data)
        check_tile(self, "vals", self.vals, self.data.shape[0], 8)
        check_tile(self, "dst", self.dst, self.data.shape[0], 8)
        check_dtype(self, scope, self.dst, "dst", _INDICES)


class InstMatchReplace8(Inst, frozen=True, kw_only=True):
    """dst = data with one occurrence of each vals[p, k] replaced by `imm`. Equal values take successive occurrences in
    descending order of k; `dst_idx[p, k]` (uint16 or uint32) is the index of the occurrence, all ones without one."""

    dst: AccessPattern
    data: AccessPattern
    vals: AccessPattern
    imm: AnyNumber
    dst_idx: AccessPattern | None = None

    def reads(self) -> Operands:
        return (self.data, self.vals)

    def writes(self) -> Operands:
        return (self.dst,) if self.dst_idx is None else (self.dst, self.dst_idx)

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.data)
        on_chip(self, scope, self.vals)
        _check_data(self, scope, "data", self.data)
        check_tile(self, "vals", self.vals, self.data.shape[0], 8)
        check_integer(self, self.imm, "imm", LONG)
        if self.dst_idx is not None:
            on_chip(self, scope, self.dst_idx)
            check_tile(self, "dst_idx", self.dst_idx, self.data.shape[0], 8)
            check_dtype(self, scope, self.dst_idx, "dst_idx", _INDICES)


class InstTopk(Inst, frozen=True, kw_only=True):
    """The k largest of n values in each group of 16 partitions, with their indices.

    A group is a snake: element i lies in its partition i % 16, column i // 16. Of src the first `n` elements count; of
    val_dst and idx_dst, whose columns give k, the first k are written, ascending or, if `sorted`, descending; the rest
    keeps its content. Among equal values the one of lower index counts as larger.

    src and val_dst are bfloat16, idx_dst uint32, all in SBUF; 8 <= n < 65536; 1 <= k < 32768 and k <= n, k <= 8192 if
    `sorted`.
    """

    val_dst: AccessPattern
    idx_dst: AccessPattern
    src: AccessPattern
    n: int
    sorted: bool = False

    def reads(self) -> Operands:
        return (self.src,)

    def writes(self) -> Operands:
        return (self.val_dst, self.idx_dst)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        for what, ap, dtypes in (
            ("val_dst", self.val_dst, _BFLOAT16),
            ("idx_dst", self.idx_dst, _UINT32),
            ("src", self.src, _BFLOAT16),
        ):
            in_memory(self, scope, ap, what, Memory.sbuf)
            check_dtype(self, scope, ap, what, dtypes)
        partitions, k = self.src.shape[0], per_partition(self.val_dst)
        check_tile(self, "val_dst", self.val_dst, partitions, k)
        check_tile(self, "idx_dst", self.idx_dst, partitions, k)
        if partitions % _GROUP:
            refuse_option(self, "partitions of src", partitions, "multiples of 16")
        room = min(per_partition(self.src) * _GROUP, 65_535)
        if not 8 <= self.n <= room:
            refuse_option(self, "n", self.n, f"8 to {room}")
        most = min(self.n, 8192 if self.sorted else 32_767)
        if k > most:
            refuse_option(self, "k, the columns of val_dst,", k, f"1 to {most}")
