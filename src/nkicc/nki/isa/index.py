"""Index generation and selection."""

from __future__ import annotations

from collections.abc import Sequence

from nkicc.ir.isa import InstIota
from nkicc.nki.tensor import ndarray

from .arguments import access, insert, refuse_argument

__all__ = ["iota"]


def iota(
    dst: ndarray,
    pattern: Sequence[Sequence[int]],
    offset: int = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> None:
    """dst[p, …] = offset + p · channel_multiplier + Σ index_k · step_k over `pattern` [[step, count], …]."""
    try:
        pairs = tuple([(int(step), int(count)) for step, count in pattern])
    except (TypeError, ValueError):
        refuse_argument("iota", "pattern", pattern, "[[step, count], …]")
    insert(
        InstIota(
            name=name or "",
            dst=access(dst, "dst"),
            pattern=pairs,
            offset=offset,
            channel_multiplier=channel_multiplier,
        )
    )
