"""What the tests of the compute engines compare with: data of their own and casts, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import nki.language as nl
import numpy as np
import pytest

from nkicc import NkiccError
from nkicc.nki.trace import tracing
from tests.nki.helpers import tracer

F32, F16, BF16 = np.float32, np.float16, ml_dtypes.bfloat16
I32, U32, I16, U16, I8, U8 = np.int32, np.uint32, np.int16, np.uint16, np.int8, np.uint8
FLOATS = (F32, F16, BF16)


def assert_array_equal(actual: Any, expected: Any, err_msg: str = "") -> None:
    """NumPy's, which does not know that NaNs of small floats are equal."""
    left, right = np.asarray(actual), np.asarray(expected)
    if left.dtype == right.dtype and left.dtype.kind in "Vf" and left.dtype.itemsize < 4:
        left, right = left.astype(np.float32), right.astype(np.float32)
    np.testing.assert_array_equal(left, right, err_msg)


def values(rank: int, shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Numbers of a type, different on each rank; integers over all of their range."""
    rng = np.random.default_rng([rank, seed, *shape])
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return (rng.standard_normal(shape) * 4).astype(dtype)


def cast(value: np.ndarray, dtype: Any) -> np.ndarray:
    """float32 as another type: integers round half to even and saturate."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "iu":
        return value.astype(dtype)
    info = np.iinfo(dtype)
    return np.clip(np.rint(value.astype(np.float64)), info.min, info.max).astype(dtype)


def wide(value: np.ndarray) -> np.ndarray:
    """(P, anything) as float32 (P, F)."""
    return value.astype(np.float32).reshape(value.shape[0], -1)


def check_refused(function: Callable[[], object], code: str, text: str, file: str, target: str = "trn2") -> None:
    """`function`, traced as a kernel, is refused at a line of `file`, and nothing is left of it."""
    core = tracer(target=target)
    with pytest.raises(NkiccError) as caught, tracing(core):
        function()
    assert caught.value.code == code, caught.value.message
    assert text in caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.file == file
    assert core.codegen.core_part().body == ()


def t(shape: tuple[int, ...] = (4, 8), dtype: Any = nl.float32, memory: Any = nl.sbuf) -> nl.ndarray:
    """A tile without content."""
    return nl.ndarray(shape, dtype, memory)
