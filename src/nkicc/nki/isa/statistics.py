"""Mean and variance, as batch normalisation takes them."""

from __future__ import annotations

from nkicc.ir.isa import InstBnAggr, InstBnStats
from nkicc.nki.tensor import ndarray

from .arguments import access, insert

__all__ = ["bn_aggr", "bn_stats"]


def bn_stats(dst: ndarray, data: ndarray, name: str | None = None) -> None:
    """dst[p] = (count, mean, variance · count) of data[p] at even positions, then at odd ones; up to 512 elements."""
    insert(InstBnStats(name=name or "", dst=access(dst, "dst"), data=access(data, "data")))


def bn_aggr(dst: ndarray, data: ndarray, name: str | None = None) -> None:
    """dst[p] = (mean, variance) of what the results of bn_stats in data[p] describe together."""
    insert(InstBnAggr(name=name or "", dst=access(dst, "dst"), data=access(data, "data")))
