"""Index generation."""

from __future__ import annotations

from collections.abc import Sequence

from nkicc.ir.isa import InstIota
from nkicc.nki.tensor import ndarray

from .arguments import access, insert, refuse_argument

__all__ = ["affine_pattern", "iota", "whole"]


def iota(
    dst: ndarray,
    pattern: Sequence[Sequence[int]],
    offset: int = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> None:
    """dst[p, …] = offset + p · channel_multiplier + Σ index_k · step_k over `pattern` [[step, count], …]."""
    insert(
        InstIota(
            name=name or "",
            dst=access(dst, "dst"),
            pattern=affine_pattern("iota", pattern),
            offset=whole("iota", "offset", offset),
            channel_multiplier=whole("iota", "channel_multiplier", channel_multiplier),
        )
    )


def affine_pattern(inst: str, pattern: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    """[[step, count], …] (NKC035)."""
    try:
        pairs = [(step, count) for step, count in pattern]
    except (TypeError, ValueError):
        refuse_argument(inst, "pattern", pattern, "[[step, count], …]")
    return tuple([(whole(inst, "step of pattern", s), whole(inst, "count of pattern", c)) for s, c in pairs])


def whole(inst: str, what: str, value: object) -> int:
    """An integer of 32 bits, also written as a float (NKC035)."""
    try:
        found = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or found != value or not -(1 << 31) <= found < 1 << 31:
        refuse_argument(inst, what, value, "an integer of 32 bits")
    return found
