"""Functions of `nki.language` that make tiles, against NumPy on every rank."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import nkicc
from nkicc import NkiccError

from .helpers import traced

RANKS = 3
quick = settings(max_examples=15, deadline=None)
shapes = st.tuples(st.integers(1, 8), st.integers(1, 6), st.integers(1, 5)).map(lambda s: s[: 2 + (s[2] > 2)])


def values(rank: int, shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([rank, seed, *shape]).uniform(0.5, 4, shape).astype(dtype)


def evaluate(function: Callable[..., nl.ndarray], *shape_dtypes: tuple[tuple[int, ...], Any]) -> list[Any]:
    """Per rank: the function's arguments as arrays, and its result."""

    def kernel(x0: nl.ndarray, x1: nl.ndarray | None = None) -> nl.ndarray:
        tile = function(*[nl.load(x) for x in (x0, x1) if x is not None])
        if tile.buffer == nl.psum:
            tile = nl.copy(tile)
        out = nl.ndarray(tile.shape, tile.dtype, nl.shared_hbm)
        nl.store(out, tile)
        return out

    def inputs(rank: int) -> dict[str, Any]:
        return {f"x{i}": values(rank, shape, dtype, i) for i, (shape, dtype) in enumerate(shape_dtypes)}

    outputs = nkicc.run(kernel, ranks=RANKS, inputs=inputs).outputs
    return [([inputs(rank)[f"x{i}"] for i in range(len(shape_dtypes))], outputs[rank]) for rank in range(RANKS)]


BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "less": np.less,
    "greater_equal": np.greater_equal,
    "not_equal": np.not_equal,
}
UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "square": np.square,
    "reciprocal": lambda x: 1 / x,
    "abs": np.abs,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "negative": np.negative,
    "logical_not": lambda x: np.logical_not(x).astype(np.float32),
    "copy": lambda x: x,
}


@quick
@given(shape=shapes, name=st.sampled_from(sorted(BINARY)))
def test_two_tiles(shape: tuple[int, ...], name: str) -> None:
    for (a, b), found in evaluate(getattr(nl, name), (shape, np.float32), (shape, np.float32)):
        assert_array_equal(found, BINARY[name](a, b).astype(np.float32))


@quick
@given(shape=shapes, name=st.sampled_from(sorted(BINARY)), left=st.booleans(), constant=st.sampled_from([2, 1.25]))
def test_a_tile_and_a_number(shape: tuple[int, ...], name: str, left: bool, constant: float) -> None:
    def function(x: nl.ndarray) -> nl.ndarray:
        return getattr(nl, name)(constant, x) if left else getattr(nl, name)(x, np.float32(constant))

    for (a,), found in evaluate(function, (shape, np.float32)):
        expected = BINARY[name](np.float32(constant), a) if left else BINARY[name](a, np.float32(constant))
        assert_array_equal(found, expected.astype(np.float32))


@quick
@given(shape=shapes, name=st.sampled_from(sorted(UNARY)))
def test_one_tile(shape: tuple[int, ...], name: str) -> None:
    for (a,), found in evaluate(getattr(nl, name), (shape, np.float32)):
        assert_allclose(found, UNARY[name](a.astype(np.float64)), rtol=2e-6)


def test_free_dimensions_of_extent_1_are_repeated() -> None:
    for (a, b), found in evaluate(nl.multiply, ((4, 3, 5), np.float32), ((4, 1, 5), np.float32)):
        assert_array_equal(found, a * b)
    for (a, b), found in evaluate(nl.subtract, ((4, 1), np.float32), ((4, 6), np.float32)):
        assert_array_equal(found, a - b)


def test_the_wider_type_wins_unless_one_is_asked_for() -> None:
    bf16 = ml_dtypes.bfloat16
    for (a, b), found in evaluate(nl.add, ((4, 3), bf16), ((4, 3), np.float32)):
        assert found.dtype == np.float32
        assert_array_equal(found, a.astype(np.float32) + b)
    for (a, b), found in evaluate(lambda x, y: nl.add(x, y, nl.bfloat16), ((4, 3), np.float32), ((4, 3), np.float32)):
        assert found.dtype == bf16
        assert_array_equal(found, (a + b).astype(bf16))
    for (a, b), found in evaluate(nl.add, ((4, 3), np.int32), ((4, 3), np.float16)):
        assert found.dtype == np.float16
        assert_array_equal(found, (a + b.astype(np.float32)).astype(np.float16))


def test_integers_are_exact() -> None:
    for (a, b), found in evaluate(lambda x, y: nl.bitwise_xor(nl.invert(x), y), ((4, 3), np.int32), ((4, 3), np.int32)):
        assert_array_equal(found, ~a ^ b)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
    "prod": np.prod,
    "all": lambda x, axis: np.all(x, axis=axis).astype(np.float32),
}


@quick
@given(name=st.sampled_from(sorted(REDUCTIONS)), shape=st.tuples(*[st.integers(1, 5)] * 3), count=st.integers(1, 2))
def test_reductions(name: str, shape: tuple[int, ...], count: int) -> None:
    axis = tuple(range(3 - count, 3))
    for (a,), found in evaluate(lambda x: getattr(nl, name)(x, axis=axis), (shape, np.float32)):
        expected = REDUCTIONS[name](a.astype(np.float64), axis=axis)
        assert_allclose(found, expected.reshape(found.shape), rtol=1e-5)
        assert found.shape == (shape[0], 1 if count == 2 else shape[1])


def test_reductions_keep_dimensions_on_request() -> None:
    for (a,), found in evaluate(lambda x: nl.max(x, -1, keepdims=True), ((4, 3, 5), np.float32)):
        assert_array_equal(found, a.max(-1, keepdims=True))
    for (a,), found in evaluate(lambda x: nl.var(x, (1, 2)), ((4, 3, 5), np.float32)):
        assert_allclose(found, a.var((1, 2), keepdims=True), rtol=1e-5)


def test_normalisations() -> None:
    for (a,), found in evaluate(lambda x: nl.softmax(x), ((4, 9), np.float32)):
        powers = np.exp(a - a.max(1, keepdims=True))
        assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=1e-5)
    for (a, w), found in evaluate(
        lambda x, w: nl.rms_norm(x, w, axis=1, n=9, epsilon=0.5), ((4, 9), np.float32), ((4, 9), np.float32)
    ):
        assert_allclose(found, a / np.sqrt((a**2).mean(1, keepdims=True) + 0.5) * w, rtol=1e-5)


def test_where() -> None:
    def function(x: nl.ndarray, y: nl.ndarray) -> nl.ndarray:
        return nl.where(nl.greater(x, 2.0), x, y)

    for (a, b), found in evaluate(function, ((4, 6), np.float32), ((4, 1), np.float32)):
        assert_array_equal(found, np.where(a > 2, a, b))


def test_shape_functions() -> None:
    for (a,), found in evaluate(
        lambda x: nl.copy(nl.broadcast_to(nl.expand_dims(x, 1), (4, 3, 5))), ((4, 5), np.float32)
    ):
        assert_array_equal(found, np.broadcast_to(a[:, None], (4, 3, 5)))


@pytest.mark.parametrize("transposed", [False, True])
def test_matmul(transposed: bool) -> None:
    k, m, n = 7, 4, 9
    left = (k, m) if transposed else (m, k)
    for (a, b), found in evaluate(
        lambda x, y: nl.matmul(x, y, transpose_x=transposed), (left, np.float32), ((k, n), np.float32)
    ):
        assert_allclose(found, (a.T if transposed else a) @ b, rtol=1e-5)


def test_transposes() -> None:
    for (a,), found in evaluate(nl.transpose, ((4, 9), np.float32)):
        assert_array_equal(found, a.T)

    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((5, 4), nl.float32, nl.shared_hbm)
        nl.store(out, nl.load_transpose2d(x, nl.float32))
        return out

    result = nkicc.run(kernel, ranks=RANKS, inputs=lambda rank: {"x": values(rank, (4, 5), np.float16)})
    for rank in range(RANKS):
        assert_array_equal(result.outputs[rank], values(rank, (4, 5), np.float16).T)


def test_load_and_store_cast() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((3, 8), nl.float16, nl.shared_hbm)
        nl.store(out[:, 1:7:2], nl.load(x[1:4], nl.bfloat16))
        nl.store(out[:, 0:8:2], nl.zeros((3, 4), nl.float32))
        nl.store(out[:, 7:8], nl.ones((3, 1), nl.float32))
        return out

    result = nkicc.run(kernel, ranks=RANKS, inputs=lambda rank: {"x": values(rank, (4, 3))})
    for rank in range(RANKS):
        expected = np.zeros((3, 8), np.float16)
        expected[:, 1:7:2] = values(rank, (4, 3))[1:4].astype(ml_dtypes.bfloat16).astype(np.float16)
        expected[:, 7] = 1
        assert_array_equal(result.outputs[rank], expected)


def _tile(*shape: int) -> nl.ndarray:
    return nl.ndarray(shape, nl.float32)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a token that is no function": (lambda: nl.bypass(_tile(4, 4), 1), "NKC008"),
    "no tile": (lambda: nl.add(1, 2), "NKC035"),
    "no number": (lambda: nl.add(_tile(4, 4), "2"), "NKC035"),
    "partitions that differ": (lambda: nl.add(_tile(4, 4), _tile(1, 4)), "NKC033"),
    "free extents that differ": (lambda: nl.add(_tile(4, 4), _tile(4, 3)), "NKC033"),
    "the partition axis": (lambda: nl.sum(_tile(4, 4), 0), "NKC035"),
    "a middle axis": (lambda: nl.sum(_tile(4, 4, 4), 1), "NKC035"),
    "loading a tile": (lambda: nl.load(_tile(4, 4)), "NKC035"),
    "storing into a tile": (lambda: nl.store(_tile(4, 4), _tile(4, 4)), "NKC035"),
    "storing another size": (lambda: nl.store(nl.ndarray((4, 3), nl.float32, nl.hbm), _tile(4, 4)), "NKC039"),
    "loading too many partitions": (lambda: nl.load(nl.ndarray((129, 3), nl.float32, nl.hbm)), "NKC021"),
    "assigning": (lambda: _tile(4, 4).__setitem__((0, 0), 1), "NKC008"),
    "a packed type": (lambda: nl.ndarray((4, 4), nl.float8_e4m3fn_x4), "NKC008"),
    "tfloat32": (lambda: nl.zeros((4, 4), nl.tfloat32), "NKC008"),
    "an indirect view": (lambda: _tile(4, 4).indirect(_tile(4, 1)), "NKC008"),
    "a vector select on chip": (lambda: _tile(4, 4).vector_select(0, nl.ndarray((4, 1), nl.int32)), "NKC025"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    call, code = REFUSED[case]
    with pytest.raises(NkiccError) as caught:
        traced(call)
    assert caught.value.code == code
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


# --- views that the functions rely on --------------------------------------------------------------------------------


def test_vector_select_gathers_rows() -> None:
    def kernel(x: nl.ndarray, rows: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((4, 6), nl.float32, nl.shared_hbm)
        nl.store(out, nl.load(x.vector_select(0, nl.load(rows))))
        return out

    rows = [np.array([[rank], [5], [0], [2 * rank]], np.int32) for rank in range(RANKS)]
    result = nkicc.run(kernel, ranks=RANKS, inputs=lambda rank: {"x": values(rank, (7, 6)), "rows": rows[rank]})
    for rank in range(RANKS):
        assert_array_equal(result.outputs[rank], values(rank, (7, 6))[rows[rank][:, 0]])


def test_negative_and_zero_strides() -> None:
    def kernel(x: nl.ndarray) -> tuple[nl.ndarray, nl.ndarray]:
        reversed_, repeated = (nl.ndarray((3, 4), nl.float32, nl.shared_hbm) for _ in range(2))
        nisa.dma_copy(reversed_, x.ap([[-4, 3], [-1, 4]], offset=11))
        nisa.dma_copy(repeated, x.ap([[4, 3], [0, 4]], offset=2))
        tile = nl.load(x)
        mirrored = nl.copy(tile.ap([[4, 3], [-1, 4]], offset=3))
        nl.store(x, mirrored)
        return reversed_, repeated

    result = nkicc.run(kernel, ranks=RANKS, inputs=lambda rank: {"x": values(rank, (3, 4))})
    for rank in range(RANKS):
        x = values(rank, (3, 4))
        assert_array_equal(result.outputs[rank][0], x[::-1, ::-1])
        assert_array_equal(result.outputs[rank][1], np.repeat(x[:, 2:3], 4, axis=1))
        assert_array_equal(result.inputs[rank]["x"], x[:, ::-1])


def test_a_view_of_another_type() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((3, 8), nl.uint16, nl.shared_hbm)
        nl.store(out, nl.load(x).reinterpret_cast(nl.uint16))
        return out

    result = nkicc.run(kernel, ranks=RANKS, inputs=lambda rank: {"x": values(rank, (3, 4))})
    for rank in range(RANKS):
        assert_array_equal(result.outputs[rank], values(rank, (3, 4)).view(np.uint16))


def test_select_by_a_register_that_differs_between_ranks() -> None:
    import nki.collectives as ncc

    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((4,), nl.float32, nl.shared_hbm)
        nisa.dma_copy(out, x.select(0, ncc.rank_id()))
        return out

    x = values(0, (RANKS, 4))
    result = nkicc.run(kernel, ranks=RANKS, inputs={"x": x})
    for rank in range(RANKS):
        assert_array_equal(result.outputs[rank], x[rank])


def test_truth_values_are_bytes() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        assert x.dtype == nl.uint8
        out = nl.ndarray(x.shape, nl.bool_, nl.shared_hbm)
        nl.store(out, nl.logical_not(nl.load(x)))
        return out

    masks = [np.random.default_rng(rank).random((4, 5)) > 0.5 for rank in range(RANKS)]
    result = nkicc.run(kernel, ranks=RANKS, inputs=lambda rank: {"x": masks[rank]})
    for rank in range(RANKS):
        assert_array_equal(result.outputs[rank], ~masks[rank])


def test_packed_types_are_names() -> None:
    assert str(nl.float8_e4m3fn_x4) == "float8_e4m3fn_x4"
    assert len({nl.float8_e4m3fn_x4, nl.float8_e5m2_x4, nl.float4_e2m1fn_x4, nl.tfloat32}) == 4
    assert nl.float4_e2m1fn_x4.itemsize == 2
    assert nl.float8_e5m2_x4 != nl.float8_e5m2
