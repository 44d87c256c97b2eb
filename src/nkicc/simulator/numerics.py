"""Arithmetic of the engines on NumPy arrays: casts and ALU operations.

Compute engines work in float32 and round once on the way out; conversions to integers round half to even and saturate
(NKI documentation, "NKI ISA API common fields").
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np

from nkicc.ir.types import AluOp

__all__ = ["alu", "assign", "copy", "differing", "is_integer", "same_bits", "take_rows", "to_compute", "wide_type"]

Array = np.ndarray
F32 = np.dtype(np.float32)
T = TypeVar("T")

#: Bytes from which copying and comparing pays for a second thread.
_LARGE = 1 << 20
_CORES = os.cpu_count() or 1


def is_integer(dtype: np.dtype) -> bool:
    """Whether a storage dtype is an integer (ml_dtypes floats have kind 'V' or 'f')."""
    return dtype.kind in "iu"


def assign(out: Array, value: Array) -> None:
    """out[...] = cast(value): bits if the dtypes are equal, else through float32, rounding half to even and saturating
    to the range of an integer `out`. `value` broadcasts along the rank axis."""
    if out.dtype == value.dtype:
        copy(out, value)
    elif is_integer(out.dtype):
        np.copyto(out, saturate(value, out.dtype), casting="unsafe")
    elif value.dtype == F32:
        np.copyto(out, value, casting="unsafe")
    else:
        np.copyto(out, value.astype(F32), casting="unsafe")


def copy(out: Array, value: Array) -> None:
    """out[...] = value, of one dtype; `value` broadcasts along the rank axis."""
    if out.nbytes < _LARGE or len(value) != len(out):
        np.copyto(out, value)
        return
    half = len(out) // 2
    # NumPy sees to operands that overlap, but not to what another thread does to the other half.
    if np.may_share_memory(out[:half], value[half:]) or np.may_share_memory(out[half:], value[:half]):
        np.copyto(out, value)
    else:
        _split(_move, out, value)


def _move(out: Array, value: Array) -> None:
    """out[...] = value, one tile after the other."""
    item = value.dtype.itemsize
    inner = [axis for axis in range(1, value.ndim) if value.strides[axis] == item and value.shape[axis] > 1]
    if inner and inner[-1] != value.ndim - 1 and out.strides[-1] == item:
        # A transposition reads column by column, each from lines of the cache that the next evicts: pack them first.
        value = np.moveaxis(np.ascontiguousarray(np.moveaxis(value, inner[-1], -1)), -1, inner[-1])
    np.copyto(out, value)


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays of one shape and dtype hold the same bits."""
    return all(_split(lambda a, b: not np.not_equal(a, b).any(), a, b))


def differing(a: Array, b: Array) -> Array:
    """Which elements of two arrays of one shape and dtype do not hold the same bits."""
    bits = f"u{a.dtype.itemsize}"
    return np.ascontiguousarray(a).view(bits) != np.ascontiguousarray(b).view(bits)


def take_rows(out: Array, value: Array, rows: Array) -> None:
    """out[i] = value[rows[i]], of one dtype and without overlap."""
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    if out.nbytes < _LARGE or len(cuts) > len(rows) // 4:
        out[...] = value[rows]
        return
    # Rings and pairs take whole blocks of neighbours, which need no temporary.
    for first, last in pairwise([0, *cuts.tolist(), len(rows)]):
        copy(out[first:last], value[rows[first] : rows[first] + last - first])


def _split(work: Callable[[Array, Array], T], a: Array, b: Array) -> list[T]:
    """`work` on the arrays; if they are large, on half of the rows in another thread."""
    large = a.nbytes >= _LARGE and len(a) > 1 and _CORES > 1
    a, b = as_words(a, b)
    if not large:
        return [work(a, b)]
    half = len(a) // 2
    other = _thread().submit(work, a[half:], b[half:])
    return [work(a[:half], b[:half]), other.result()]


@functools.cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "nkicc")


os.register_at_fork(after_in_child=_thread.cache_clear)


def as_words(a: Array, b: Array) -> tuple[Array, Array]:
    """Both arrays as the widest integers that their innermost dimension consists of: few large elements are compared
    and copied several times faster than many small ones."""
    item = a.dtype.itemsize
    words = [np.dtype(f"u{size}") for size in (8, 4, 2, 1) if size >= item]
    for word in words:
        if word.itemsize == item or (_in_words(a, word.itemsize) and _in_words(b, word.itemsize)):
            return a.view(word), b.view(word)
    return a, b


def _in_words(array: Array, size: int) -> bool:
    item = array.dtype.itemsize
    *outer, inner = array.strides
    return (
        inner == item
        and array.shape[-1] * item % size == 0
        and all(stride % size == 0 for stride in outer)
        and array.ctypes.data % size == 0
    )


def wide_type(*dtypes: np.dtype) -> np.dtype:
    """The type in which operands of these types are reduced: float32, or 64-bit integers, which wrap around. Unsigned
    ones have more bits to lose than int64 holds."""
    if not all(is_integer(dtype) for dtype in dtypes):
        return F32
    unsigned = np.dtype(np.uint64) in dtypes and all(dtype.kind == "u" for dtype in dtypes)
    return np.dtype(np.uint64 if unsigned else np.int64)


def saturate(value: Array, dtype: np.dtype) -> Array:
    """`value` rounded half to even and limited to the range of integer `dtype`; NaN becomes 0."""
    info = np.iinfo(dtype)
    if value.dtype == np.uint64:
        return np.minimum(value, np.uint64(info.max))
    if is_integer(value.dtype):
        return np.clip(value.astype(np.int64), info.min, min(info.max, np.iinfo(np.int64).max))
    # float64 holds every 32-bit integer exactly, so the limits themselves do not round up.
    wide = np.rint(value.astype(np.float32).astype(np.float64))
    limited = np.nan_to_num(np.clip(wide, info.min, info.max), nan=0.0)
    if info.bits < 64:
        return limited
    # It does not hold the largest of 64 bits: what reached that limit, rounded up, becomes it as an integer.
    over = limited >= float(info.max)
    return np.where(over, dtype.type(info.max), np.where(over, 0.0, limited).astype(dtype))


def to_compute(value: Array) -> Array:
    """The array as float32, the type the engines compute in."""
    return value if value.dtype == F32 else value.astype(F32)


def _compare(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(a, b).astype(np.result_type(a))


def _logical(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(a != 0, b != 0).astype(np.result_type(a))


def _power(a: Array, b: Array) -> Array:
    """Powers of integers wrap around; negative ones, which NumPy does not have for integers, are rounded."""
    if not is_integer(a.dtype):
        return np.power(a, b)
    whole = np.power(a, np.maximum(b, 0))
    if np.all(b >= 0):
        return whole
    value = np.rint(np.power(a.astype(np.float64), b))
    return np.where(b < 0, np.nan_to_num(np.clip(value, -(2.0**62), 2.0**62)).astype(np.int64), whole)


def _unsigned_right_shift(a: Array, b: Array) -> Array:
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return (np.asarray(a).view(unsigned) >> np.asarray(b).astype(unsigned)).view(a.dtype)


_ALU: dict[AluOp, Callable[[Array, Array], Array]] = {
    AluOp.bypass: lambda a, b: a,
    AluOp.add: np.add,
    AluOp.subtract: np.subtract,
    AluOp.mult: np.multiply,
    AluOp.elemwise_mul: np.multiply,
    AluOp.divide: np.divide,
    AluOp.max: np.maximum,
    AluOp.min: np.minimum,
    AluOp.pow: _power,
    AluOp.mod: np.mod,
    AluOp.mod_int: np.mod,
    AluOp.abs: lambda a, b: np.abs(a),
    AluOp.square: lambda a, b: np.square(a),
    AluOp.relu: lambda a, b: np.maximum(a, a.dtype.type(0)),
    AluOp.reciprocal: lambda a, b: np.float32(1) / a,
    AluOp.abs_max: lambda a, b: np.maximum(np.abs(a), np.abs(b)),
    AluOp.abs_min: lambda a, b: np.minimum(np.abs(a), np.abs(b)),
    AluOp.rsqrt: lambda a, b: np.float32(1) / np.sqrt(a),
    AluOp.is_equal: _compare(np.equal),
    AluOp.not_equal: _compare(np.not_equal),
    AluOp.is_gt: _compare(np.greater),
    AluOp.is_ge: _compare(np.greater_equal),
    AluOp.is_lt: _compare(np.less),
    AluOp.is_le: _compare(np.less_equal),
    AluOp.logical_and: _logical(np.logical_and),
    AluOp.logical_or: _logical(np.logical_or),
    AluOp.logical_xor: _logical(np.logical_xor),
    AluOp.bitwise_and: np.bitwise_and,
    AluOp.bitwise_or: np.bitwise_or,
    AluOp.bitwise_xor: np.bitwise_xor,
    AluOp.bitwise_not: lambda a, b: np.invert(a),
    AluOp.logical_shift_left: lambda a, b: np.left_shift(a, b),
    AluOp.arith_shift_left: lambda a, b: np.left_shift(a, b),
    AluOp.logical_shift_right: _unsigned_right_shift,
    AluOp.arith_shift_right: lambda a, b: np.right_shift(a, b),
}


def alu(op: AluOp) -> Callable[[Array, Array], Array] | None:
    """The two-operand function of an ALU op, or None if the engine has none (`average`)."""
    return _ALU.get(op)
