"""Dropout."""

from __future__ import annotations

from nkicc.ir.isa import InstDropout
from nkicc.nki.tensor import ndarray

from .arguments import access, insert, number_or_tile

__all__ = ["dropout"]


def dropout(dst: ndarray, data: ndarray, prob: float | ndarray, name: str | None = None) -> None:
    """dst = 0 with probability `prob`, a number or a (P, 1) tile, else data. The draws are the simulator's own, from
    the generator that `set_rng_seed` seeds."""
    chance = number_or_tile(prob, "prob")
    insert(InstDropout(name=name or "", dst=access(dst, "dst"), data=access(data, "data"), prob=chance))
