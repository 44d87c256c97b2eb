"""Fills, copies and shuffles on chip against NumPy on every rank, and the limits of each."""

from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkicc

from ..helpers import data
from .moves import DTYPES, RANKS, cast, check, dtypes, few, halves, load, refusal, store, table, tile
from .reference import assert_array_equal

BF16 = nl.bfloat16


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("memory", [nl.sbuf, nl.psum])
def test_memset_of_a_strided_part(dtype: Any, memory: Any) -> None:
    value = 2.5 if np.dtype(dtype).kind not in "iu" else 7

    def kernel(x: nl.ndarray) -> nl.ndarray:
        tile = nl.ndarray(x.shape, x.dtype, memory)
        nisa.tensor_copy(tile, load(x))
        nisa.memset(tile[:, 1::3], value, engine=nisa.engine.vector)
        out = nl.ndarray(x.shape, x.dtype)
        nisa.tensor_copy(out, tile)
        return store(out)

    def expected(x: np.ndarray) -> np.ndarray:
        out = x.copy()
        out[:, 1::3] = value
        return out

    check(kernel, lambda rank: {"x": data(rank, (4, 8), dtype)}, expected)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), True])
def test_memset_of_what_json_has_no_number_for(value: float) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        tile = load(x)
        nisa.memset(tile[:, 2:], value)
        return store(tile)

    check(
        kernel,
        lambda rank: {"x": data(rank, (4, 8))},
        lambda x: np.where(np.arange(8) >= 2, np.float32(value), x),
    )


@few
@given(dtypes, dtypes, st.lists(st.integers(1, 5), min_size=2, max_size=4), st.booleans())
def test_tensor_copy(source: Any, target: Any, shape: list[int], psum: bool) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        src = nl.ndarray(x.shape, source, nl.psum if psum else nl.sbuf)
        nisa.tensor_copy(src, load(x), engine=nisa.engine.vector)
        out = nl.ndarray((shape[0], int(np.prod(shape[1:]))), target)
        nisa.tensor_copy(out, src, engine=nisa.engine.scalar)
        return store(out)

    check(
        kernel,
        lambda rank: {"x": halves(rank, tuple(shape), source)},
        lambda x: cast(x, target).reshape(shape[0], -1),
    )


def test_a_copy_between_integer_types_goes_through_float32() -> None:
    def kernel(x: nl.ndarray) -> tuple[nl.ndarray, ...]:
        tile = load(x)
        by_dma, by_engine, same = (nl.ndarray(x.shape, d) for d in (nl.uint32, nl.uint32, nl.int32))
        nisa.dma_copy(by_dma, tile)
        nisa.tensor_copy(by_engine, tile)
        nisa.tensor_copy(same, tile)
        return store(by_dma), store(by_engine), store(same)

    result = nkicc.run(
        kernel, ranks=RANKS, inputs=lambda rank: {"x": np.array([[16777217 + 2 * rank, -1 - rank]], np.int32)}
    )
    for rank, (by_dma, by_engine, same) in enumerate(result.outputs):
        assert_array_equal(by_dma, [[np.float32(16777217 + 2 * rank), 0]])
        assert_array_equal(by_engine, by_dma)
        assert_array_equal(same, [[16777217 + 2 * rank, -1 - rank]])


@few
@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=4),
    dtypes,
    st.sampled_from([np.uint8, np.uint16, np.uint32]),
    st.booleans(),
    st.booleans(),
)
def test_tensor_copy_predicated(shape: list[int], dtype: Any, kind: Any, reverse: bool, scalar: bool) -> None:
    number = 3 if np.dtype(dtype).kind in "iu" else float("-inf")

    def kernel(x: nl.ndarray, y: nl.ndarray, p: nl.ndarray) -> nl.ndarray:
        out = load(y)
        nisa.tensor_copy_predicated(out, number if scalar else load(x), load(p), reverse_pred=reverse)
        return store(out)

    def inputs(rank: int) -> dict[str, np.ndarray]:
        p = np.random.default_rng([rank, *shape]).integers(0, 3, shape).astype(kind)
        return {"x": halves(rank, tuple(shape), dtype), "y": halves(rank + 9, tuple(shape), dtype), "p": p}

    def expected(x: np.ndarray, y: np.ndarray, p: np.ndarray) -> np.ndarray:
        out = y.copy()
        for index in np.ndindex(*shape):
            if (p[index] != 0) != reverse:
                out[index] = number if scalar else x[index]
        return out

    check(kernel, inputs, expected)


masks = st.lists(st.one_of(st.integers(0, 31), st.just(255)), min_size=32, max_size=32)


@few
@given(masks, st.sampled_from([32, 64, 96, 128]), dtypes, st.booleans())
def test_nc_stream_shuffle(mask: list[int], partitions: int, dtype: Any, in_place: bool) -> None:
    def kernel(x: nl.ndarray, y: nl.ndarray) -> nl.ndarray:
        src, dst = load(x), load(y)
        nisa.nc_stream_shuffle(src if in_place else dst, src, mask)
        return store(src if in_place else dst)

    def expected(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out = (x if in_place else y).copy()
        for quadrant in range(partitions // 32):
            for i, entry in enumerate(mask):
                if entry != 255:
                    out[32 * quadrant + i] = x[32 * quadrant + entry]
        return out

    def inputs(rank: int) -> dict[str, np.ndarray]:
        return {"x": data(rank, (partitions, 3), dtype), "y": data(rank + 9, (partitions, 3), dtype)}

    check(kernel, inputs, expected)


def test_nc_stream_shuffle_spreads_one_partition_over_a_quadrant() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        tile = load(x)
        for start in (96, 64, 32, 0):
            nisa.nc_stream_shuffle(tile[start : start + 20], tile[32:33], shuffle_mask=[0] * 32)
        return store(tile)

    def expected(x: np.ndarray) -> np.ndarray:
        out = x.copy()
        for start in (96, 64, 32, 0):
            out[start : start + 20] = x[32]
        return out

    check(kernel, lambda rank: {"x": data(rank, (128, 2, 3))}, expected)


@pytest.mark.parametrize(("dtype", "undefined"), [(np.float32, np.nan), (np.int16, 32767)])
def test_partitions_that_the_source_does_not_have_come_out_undefined(dtype: Any, undefined: float) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.zeros((64, 3), x.dtype)
        nisa.nc_stream_shuffle(out, load(x), [3] + [255] * 31)
        return store(out)

    def expected(x: np.ndarray) -> np.ndarray:
        out = np.zeros((64, 3), dtype)
        out[0], out[32] = x[3], undefined
        return out

    check(kernel, lambda rank: {"x": data(rank, (8, 3), dtype)}, expected)


# --- refusals ---


def predicated(src: Any = None, dtype: Any = nl.float32, predicate: Any = nl.uint8, memory: Any = nl.sbuf) -> None:
    nisa.tensor_copy_predicated(tile(dtype=dtype), src, tile(dtype=predicate, memory=memory))


def shuffle(dst: nl.ndarray, src: nl.ndarray, mask: Any = (0,) * 32) -> None:
    nisa.nc_stream_shuffle(dst, src, mask)


REFUSED: dict[str, tuple] = {
    "memset in HBM": (lambda: nisa.memset(table(), 0), "NKC030", "shared_hbm"),
    "memset on the scalar engine": (lambda: nisa.memset(tile(), 0, nisa.engine.scalar), "BIR606", "DVE or Pool"),
    "memset of PSUM on gpsimd": (
        lambda: nisa.memset(tile(memory=nl.psum), 0, nisa.engine.gpsimd), "NKC030", "psum",
    ),
    "memset of six dimensions": (lambda: nisa.memset(tile(1, 1, 1, 1, 1, 1), 0), "NKC035", "at most 5"),
    "memset of integers to infinity": (lambda: nisa.memset(tile(dtype=nl.int8), float("inf")), "NKC032", "int8"),
    "a copy on the tensor engine": (lambda: nisa.tensor_copy(tile(), tile(), nisa.engine.tensor), "BIR606", "DVE"),
    "a copy from PSUM on gpsimd": (
        lambda: nisa.tensor_copy(tile(), tile(memory=nl.psum), nisa.engine.gpsimd), "NKC030", "psum",
    ),
    "a copy to other partitions": (lambda: nisa.tensor_copy(tile(2, 8), tile()), "NKC033", "(4, 4)"),
    "a predicate of floats": (lambda: predicated(0.0, predicate=nl.float32), "NKC035", "uint8"),
    "a predicate and a source in PSUM": (
        lambda: predicated(tile(memory=nl.psum), memory=nl.psum), "NKC030", "psum",
    ),
    "a predicated copy with a cast": (lambda: predicated(tile(dtype=BF16)), "NKC032", "bfloat16"),
    "a predicated float into integers": (lambda: predicated(1.0, dtype=nl.int32), "NKC032", "int32"),
    "a predicated integer into floats": (lambda: predicated(1), "NKC032", "float32"),
    "a predicated copy of another size": (lambda: predicated(tile(4, 5)), "NKC033", "(4, 5)"),
    "a predicated copy of five dimensions": (
        lambda: nisa.tensor_copy_predicated(
            tile(1, 1, 1, 1, 1), 0.0, tile(1, 1, 1, 1, 1, dtype=nl.uint8)
        ),
        "NKC035", "at most 4",
    ),
    "a mask of 31": (lambda: shuffle(tile(32, 4), tile(32, 4), [0] * 31), "NKC035", "32 integers"),
    "a mask with 32": (lambda: shuffle(tile(32, 4), tile(32, 4), [32] * 32), "NKC035", "0 to 31"),
    "a mask of floats": (lambda: shuffle(tile(32, 4), tile(32, 4), [0.0] * 32), "NKC035", "shuffle_mask"),
    "a shuffle with a cast": (lambda: shuffle(tile(32, 4, dtype=BF16), tile(32, 4)), "NKC032", "bfloat16"),
    "a shuffle of other width": (lambda: shuffle(tile(32, 4), tile(32, 5)), "NKC033", "(32, 5)"),
    "a shuffle in HBM": (lambda: shuffle(tile(32, 4), table(32, 4)), "NKC030", "shared_hbm"),
    "a shuffle to partition 16": (lambda: shuffle(tile(64, 4)[16:48], tile(32, 4)), "NKC035", "0, 32, 64, 96"),
    "a shuffle of two quadrants from 32": (
        lambda: shuffle(tile(64, 4), tile(128, 4)[32:96]), "NKC035", "0, 64 for 64",
    ),
    "a shuffle of three quadrants from 32": (
        lambda: shuffle(tile(128, 4)[32:128], tile(96, 4)), "NKC035", "0 for 96",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    refusal(*REFUSED[case])


def test_the_scalar_engine_of_trn1_does_not_copy() -> None:
    refusal(lambda: nisa.tensor_copy(tile(), tile(), nisa.engine.scalar), "BIR606", "DVE or Pool", target="trn1")
