"""The comparison with a golden: what it accepts, and what it says when ranks differ."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nkicc.testing import Difference, assert_ranks, compare


def arange(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def message(outputs: list, golden: object, **tolerance: float) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_ranks(outputs, golden, **tolerance)
    return str(caught.value)


def test_a_difference_has_region_count_first_values_and_errors() -> None:
    golden = arange(6, 8)
    array = golden.copy()
    array[2, 3] = 0.0
    array[4, 1] += 3.0
    assert compare(array, golden) == Difference(
        region=((2, 5), (1, 4)),
        count=2,
        size=48,
        first=(2, 3),
        got=0.0,
        expected=19.0,
        max_abs=19.0,
        max_rel=1.0,
        nans=0,
    )


def test_nan_and_infinity_equal_themselves() -> None:
    special = np.array([np.nan, np.inf, -np.inf, 0.0], np.float32)
    assert compare(special, special.copy()) is None
    assert compare(special, special.copy(), rtol=1e-3) is None
    found = compare(special, np.array([0.0, -np.inf, -np.inf, 0.0], np.float32), rtol=1e-3)
    assert found is not None
    assert (found.count, found.nans, found.region) == (2, 1, ((0, 2),))


def test_integers_beyond_float64_are_told_apart() -> None:
    big = np.array([2**60, 2**60 + 1], np.int64)
    found = compare(big, np.array([2**60, 2**60], np.int64))
    assert found is not None
    assert (found.first, found.got, found.expected) == ((1,), 2**60 + 1, 2**60)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3, np.float16, np.int8, np.uint32])
def test_every_dtype_is_compared_in_its_own_values(dtype: type) -> None:
    golden = np.arange(8).astype(dtype)
    array = golden.copy()
    array[5] = 1
    found = compare(array, golden)
    assert found is not None
    assert (found.count, found.first, float(found.got), float(found.expected)) == (1, (5,), 1.0, 5.0)


@given(
    golden=hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=4), elements=st.floats(-100, 100, width=32)),
    rtol=st.sampled_from([0.0, 0.01]),
    atol=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 1000),
)
def test_the_tolerance_is_that_of_numpy(golden: np.ndarray, rtol: float, atol: float, seed: int) -> None:
    noise = np.random.default_rng(seed).normal(scale=0.5, size=golden.shape).astype(np.float32)
    array = golden + noise
    close = np.isclose(array.astype(np.float64), golden.astype(np.float64), rtol=rtol, atol=atol)
    found = compare(array, golden, rtol=rtol, atol=atol)
    assert (0 if found is None else found.count) == int((~close).sum())


def test_ranks_that_differ_in_the_same_places_share_an_entry() -> None:
    outputs = [arange(4, 4) + 100 * rank for rank in range(6)]

    def golden(rank: int) -> np.ndarray:
        value = outputs[rank].copy()
        if rank in (1, 2, 3):
            value[1, :2] -= rank
        if rank == 5:
            value[3, 3] = 7
        return value

    assert message(outputs, golden).splitlines() == [
        "4 of 6 ranks differ from the golden (exact comparison)",
        "  ranks 1-3: output 0, float32[4, 4]: 2 of 16 elements, all of [1:2, 0:2]",
        "    first at [1, 0] on rank 1: got 104.0, expected 103.0",
        "    largest error 3, relative 0.00996678",
        "  rank 5: output 0, float32[4, 4]: 1 of 16 elements, all of [3:4, 3:4]",
        "    first at [3, 3] on rank 5: got 515.0, expected 7.0",
        "    largest error 508, relative 72.5714",
    ]


def test_scattered_elements_are_said_to_be_within_their_box() -> None:
    array = arange(4, 4)
    array[0, 1] = array[2, 3] = -1
    assert "2 of 16 elements, within [0:3, 1:4]" in message([array], arange(4, 4))


def test_memory_never_written_is_pointed_out() -> None:
    array = arange(4)
    array[1:3] = np.nan
    assert "2 of them are NaN" in message([array], arange(4))


def test_the_second_output_is_named() -> None:
    text = message([(arange(2), arange(3))], (arange(2), arange(3) + 1))
    assert "output 1, float32[3]" in text
    assert "output 0" not in text


def test_shape_number_and_dtype_must_agree() -> None:
    assert "ranks 0-1: output 0, float32[2, 3]: the golden has shape [3, 2]" in message(
        [arange(2, 3)] * 2, arange(3, 2)
    )
    assert "2 output(s), the golden has 1" in message([(arange(2), arange(2))], arange(2))
    assert "the golden is float64" in message([arange(2)], arange(2).astype(np.float64))
    assert_ranks([arange(2)], arange(2).astype(np.float64), rtol=1e-6)


def test_equal_ranks_pass() -> None:
    assert_ranks([arange(3) + rank for rank in range(3)], lambda rank: arange(3) + rank)
    assert_ranks([None, None], None)
    assert "1 of 3 ranks" in message([arange(3), arange(3), arange(3) + 1], arange(3))


def test_the_message_in_the_document_is_real() -> None:
    golden = [np.full((128, 512), 50, np.float32) for _ in range(4)]
    outputs = [array.copy() for array in golden]
    for rank in (1, 2, 3):
        golden[rank][4, :64] = 51
    outputs[3][0, 0] = np.nan
    golden[3][0, 0] = 6
    text = (Path(__file__).parent.parent / "docs" / "testing.md").read_text()
    assert f"AssertionError: {message(outputs, golden.__getitem__)}\n" in text
