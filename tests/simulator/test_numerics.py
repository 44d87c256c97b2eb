"""Copies and comparisons of large arrays, which several threads share, against plain NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nkicc.simulator.numerics import copy, same_bits, take_rows

DTYPES = ["uint8", "float16", "float32", "bfloat16"]


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    bits = np.random.default_rng(seed).integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
    return bits.view(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)[..., 0]


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [4096, 4099])
@pytest.mark.parametrize("rows", [1, 2, 3, 64])
def test_large_copies_and_comparisons(rows: int, columns: int, dtype: str) -> None:
    value = numbers((rows, 64, columns), dtype)[:, :, 1:]
    out = numbers((rows, 65, columns), dtype, seed=1)[:, 1:, :-1]
    assert not same_bits(out, value)
    copy(out, value)
    assert bits(out) == bits(value)
    assert same_bits(out, value)
    for row in range(rows):
        changed = out.copy()
        changed[row, -1, -1:].view(np.uint8)[:] ^= 1
        assert not same_bits(changed, value)


@pytest.mark.parametrize("shift", [1, 5, 40])
def test_a_copy_within_one_tensor_reads_before_it_writes(shift: int) -> None:
    for down in (True, False):
        data = numbers((65, 1 << 14), "float32")
        out, value = (data[shift:], data[:-shift]) if down else (data[:-shift], data[shift:])
        want = bits(value)
        copy(out, value)
        assert bits(out) == want


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 9), st.data())
def test_rows_are_taken_in_any_order(ranks: int, data: st.DataObject) -> None:
    rows = np.array(data.draw(st.lists(st.integers(0, ranks - 1), min_size=ranks, max_size=ranks)))
    if data.draw(st.booleans()):
        rows = np.roll(np.arange(ranks), data.draw(st.integers(0, ranks)))
    value = numbers((ranks, 3, 1 << 14), "float32")[:, :, 5:]
    out = np.zeros_like(value)
    take_rows(out, value, rows)
    assert bits(out) == bits(value[rows])
