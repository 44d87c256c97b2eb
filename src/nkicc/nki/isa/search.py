"""Search along the free dimensions. Values are compared as float32."""

from __future__ import annotations

from nkicc.ir.isa import InstFindIndex8, InstMatchReplace8, InstMax8, InstTopk
from nkicc.nki.tensor import ndarray

from .arguments import access, constant, insert, integer

__all__ = ["max8", "nc_find_index8", "nc_match_replace8", "topk"]


def max8(dst: ndarray, src: ndarray, name: str | None = None) -> None:
    """dst[p, :] = the 8 largest of the 8 to 16384 values src[p, …], descending."""
    insert(InstMax8(name=name or "", dst=access(dst, "dst"), src=access(src, "src")))


def nc_find_index8(dst: ndarray, data: ndarray, vals: ndarray, name: str | None = None) -> None:
    """dst[p, k] = index in data[p, …] of vals[p, k], in uint16 or uint32. Equal values take successive occurrences in
    ascending order of k; all ones if there is no further one."""
    insert(
        InstFindIndex8(name=name or "", dst=access(dst, "dst"), data=access(data, "data"), vals=access(vals, "vals"))
    )


def nc_match_replace8(
    dst: ndarray,
    data: ndarray,
    vals: ndarray,
    imm: float,
    dst_idx: ndarray | None = None,
    name: str | None = None,
) -> None:
    """dst = data with one occurrence of each vals[p, k] replaced by `imm`; dst_idx[p, k] = its index, all ones without
    one. Equal values take successive occurrences in descending order of k."""
    insert(
        InstMatchReplace8(
            name=name or "",
            dst=access(dst, "dst"),
            data=access(data, "data"),
            vals=access(vals, "vals"),
            imm=constant(imm, "imm"),
            dst_idx=None if dst_idx is None else access(dst_idx, "dst_idx"),
        )
    )


def topk(
    val_dst: ndarray, idx_dst: ndarray, src: ndarray, n: int, sorted: bool = False, name: str | None = None
) -> None:
    """The k largest of the first n bfloat16 values in each group of 16 partitions and their indices, k being the
    columns of val_dst, ascending or, if `sorted`, descending.

    Groups are read and written as snakes: element i is in partition i % 16, column i // 16. What lies beyond the first
    k elements of a destination keeps its content.
    """
    insert(
        InstTopk(
            name=name or "",
            val_dst=access(val_dst, "val_dst"),
            idx_dst=access(idx_dst, "idx_dst"),
            src=access(src, "src"),
            n=integer(n),
            sorted=bool(sorted),
        )
    )
