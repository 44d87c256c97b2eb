"""Whether two access patterns share elements."""

from __future__ import annotations

import functools

import numpy as np

from nkicc.ir.access import AccessPattern

__all__ = ["disjoint", "overlap"]

#: Patterns that together span more elements than this are not looked at one by one.
MAX_SPAN = 1 << 22


def disjoint(a: AccessPattern, b: AccessPattern) -> bool:
    """Whether two static views of one tensor certainly share no element: apart as a whole, or in columns of equally
    long rows."""
    if a.dtype is not b.dtype or a.is_dynamic or b.is_dynamic:
        return False
    a_low, a_high, a_pitch, a_first, a_last = _extent(a)
    b_low, b_high, b_pitch, b_first, b_last = _extent(b)
    if a_high < b_low or b_high < a_low:
        return True
    rows = a_pitch == b_pitch >= 2 and max(a_last, b_last) < a_pitch
    return rows and (a_last < b_first or b_last < a_first)


def overlap(a: AccessPattern, b: AccessPattern) -> bool:
    """Whether two static views certainly share an element."""
    if a.tensor != b.tensor or a.dtype is not b.dtype or a.is_dynamic or b.is_dynamic or disjoint(a, b):
        return False
    if a == b:
        return True
    (a_low, a_high), (b_low, b_high) = a.bounds(), b.bounds()
    low, high = min(a_low, b_low), max(a_high, b_high)
    if high - low >= MAX_SPAN:
        return False
    taken = np.zeros(high - low + 1, bool)
    _elements(taken, a, low)[...] = True
    return bool(_elements(taken, b, low).any())


def _elements(taken: np.ndarray, ap: AccessPattern, low: int) -> np.ndarray:
    strides = [stride if count > 1 else 0 for stride, count in ap.pattern]
    return np.ndarray(ap.shape, bool, taken, ap.offset - low, strides)


@functools.lru_cache(maxsize=1 << 14)
def _extent(ap: AccessPattern) -> tuple[int, int, int, int, int]:
    """Lowest and highest element of a static view, the length of its rows, and its first and last column."""
    pitch = ap.pattern[0][0]
    first = ap.offset % pitch if pitch else 0
    return *ap.bounds(), pitch, first, first + sum(abs(stride) * (count - 1) for stride, count in ap.pattern[1:])
