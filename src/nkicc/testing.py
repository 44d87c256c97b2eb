"""Comparison of what a kernel returned on every rank with what it should have returned there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from nkicc.ir.base import show_ranks

__all__ = ["Difference", "assert_ranks", "compare"]

#: What every rank must return, or a function from the rank to it: an array, or a tuple or list of arrays.
Golden = Any | Callable[[int], Any]


class Difference(Struct, frozen=True):
    """Where and by how much an array differs from its golden.

    `region` is the bounding box of the `count` differing elements, as half-open ranges per axis; `first` is the index
    of the first in row-major order, `got` and `expected` are the two values there. `max_abs` and `max_rel` are taken
    over the differing elements that are finite in both, `max_rel` relative to the golden; `nans` counts those that are
    NaN in the array only.
    """

    region: tuple[tuple[int, int], ...]
    count: int
    size: int
    first: tuple[int, ...]
    got: Any
    expected: Any
    max_abs: float
    max_rel: float
    nans: int


def compare(array: np.ndarray, golden: np.ndarray, *, rtol: float = 0.0, atol: float = 0.0) -> Difference | None:
    """The elements of `array` for which |array - golden| <= atol + rtol * |golden| does not hold, or None if it holds
    everywhere. Shapes must agree. NaN equals NaN, an infinity equals itself."""
    with np.errstate(all="ignore"):
        a, b = array.astype(np.float64), golden.astype(np.float64)
        # float64 does not hold every 64-bit integer: arrays of one type are compared in it.
        wrong = np.asarray(array != golden if array.dtype == golden.dtype else a != b)
        wrong &= ~(np.isnan(a) & np.isnan(b))
        error = np.abs(a - b)
        if rtol or atol:
            wrong &= ~(np.isfinite(b) & (error <= atol + rtol * np.abs(b)))
        places = np.argwhere(wrong)
        if not len(places):
            return None
        error, scale = error[wrong], np.abs(b[wrong])
        finite = np.isfinite(error)
        relative = error[finite] / scale[finite]
    first = tuple(places[0].tolist())
    return Difference(
        region=tuple(zip(places.min(0).tolist(), (places.max(0) + 1).tolist(), strict=True)),
        count=len(places),
        size=array.size,
        first=first,
        got=array[first].item(),
        expected=golden[first].item(),
        max_abs=float(error[finite].max(initial=0.0)),
        max_rel=float(relative.max(initial=0.0)),
        nans=int(np.isnan(a[wrong]).sum()),
    )


def assert_ranks(outputs: Sequence[Any], golden: Golden, *, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Compare what a kernel returned on each rank (`Result.outputs`) with `golden`: exactly, or as `compare` does with
    a tolerance. Without a tolerance the dtypes must agree, too.

    Raises AssertionError with one entry per output and region; ranks that differ in the same places share it.
    """
    __tracebackhide__ = True
    tolerant = bool(rtol or atol)
    entries: dict[tuple[Any, ...], list[tuple[int, Difference | None]]] = {}
    for rank, value in enumerate(outputs):
        got, want = _arrays(value), _arrays(golden(rank) if callable(golden) else golden)
        if len(got) != len(want):
            entries.setdefault((f"{len(got)} output(s), the golden has {len(want)}",), []).append((rank, None))
            continue
        for index, (array, expected) in enumerate(zip(got, want, strict=True)):
            what = f"output {index}, {array.dtype}{list(array.shape)}"
            difference = None
            if array.shape != expected.shape:
                key = (f"{what}: the golden has shape {list(expected.shape)}",)
            elif array.dtype != expected.dtype and not tolerant:
                key = (f"{what}: the golden is {expected.dtype}, which an exact comparison does not take",)
            else:
                difference = compare(array, expected, rtol=rtol, atol=atol)
                if difference is None:
                    continue
                key = (what, difference.region, difference.count, difference.first)
            entries.setdefault(key, []).append((rank, difference))
    if not entries:
        return
    ranks = sorted({rank for found in entries.values() for rank, _ in found})
    how = f"rtol={rtol:g}, atol={atol:g}" if tolerant else "exact comparison"
    lines = [f"{len(ranks)} of {len(outputs)} ranks differ from the golden ({how})"]
    for key, found in entries.items():
        lines += _entry(key[0], found)
    raise AssertionError("\n".join(lines))


def _entry(what: str, found: list[tuple[int, Difference | None]]) -> list[str]:
    """The lines of one entry: differences in the same places of one output, with the values of the first rank."""
    ranks = [rank for rank, _ in found]
    head = f"  {'rank' if len(ranks) == 1 else 'ranks'} {show_ranks(ranks)}: {what}"
    differences = [difference for _, difference in found if difference is not None]
    if not differences:
        return [head]
    one = differences[0]
    box = "[" + ", ".join(f"{low}:{high}" for low, high in one.region) + "]"
    filled = one.count == np.prod([high - low for low, high in one.region], dtype=np.int64)
    where = f"{'all of' if filled else 'within'} {box}" if one.region else "its only one"
    lines = [
        f"{head}: {one.count} of {one.size} elements, {where}",
        f"    first at {list(one.first)} on rank {ranks[0]}: got {one.got!r}, expected {one.expected!r}",
        f"    largest error {max(d.max_abs for d in differences):.6g}, "
        f"relative {max(d.max_rel for d in differences):.6g}",
    ]
    nans = max(difference.nans for difference in differences)
    if nans:
        lines.append(f"    {nans} of them are NaN, as memory is that was never written")
    return lines


def _arrays(value: Any) -> list[np.ndarray]:
    """What a kernel or a golden returned as a flat list of arrays."""
    if value is None:
        return []
    if isinstance(value, tuple | list):
        return [array for item in value for array in _arrays(item)]
    return [np.asarray(value)]
