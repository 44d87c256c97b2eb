"""The tensor engine against NumPy: matmul in all its modes, transposition, and what both refuse."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nkicc import NkiccError
from nkicc.ir import isa
from nkicc.nki.trace import tracing
from tests.nki.helpers import data, tracer

from .reference import assert_array_equal
from .tiles import LAYOUTS, load, run, tile

E4M3, E5M2, E4M3FN = ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn
F16, BF16, F32 = np.float16, ml_dtypes.bfloat16, np.float32
layouts = st.sampled_from(sorted(LAYOUTS))
few = settings(max_examples=30, deadline=None)


def small(rank: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Numbers from -4 to 4: exact in every type, and so are sums of a few thousand products of them."""
    return np.clip(data(rank, shape, np.int32) % 9 - 4, -4, 4).astype(dtype)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.int64).T @ b.astype(np.int64)


# --- matmul ----------------------------------------------------------------------------------------------------------


@few
@given(
    k=st.integers(1, 128),
    m=st.integers(1, 128),
    n=st.integers(1, 200),
    dtypes=st.sampled_from([(F32, F32), (BF16, BF16), (F16, BF16), (E4M3, E5M2), (BF16, E4M3)]),
    where=st.tuples(layouts, layouts, layouts),
)
def test_matmul_is_a_product_over_partitions(k: int, m: int, n: int, dtypes: tuple, where: tuple) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        dst = tile((m, n), F32, where[2], nl.psum)
        nisa.nc_matmul(dst, load(a, where[0]), load(b, where[1]))
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [small(rank, (k, m), dtypes[0]), small(rank + 7, (k, n), dtypes[1])]

    for rank, (out,) in enumerate(run(body, inputs)):
        assert_array_equal(out, product(*inputs(rank)))


def test_matmul_of_operands_that_only_partly_differ_between_ranks() -> None:
    weights = small(9, (64, 32), BF16)

    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        left, right = (nl.ndarray((32, n), F32, nl.psum) for n in (48, 32))
        nisa.nc_matmul(left, load(a), load(b))
        nisa.nc_matmul(right, load(a), load(a))
        return left, right

    def inputs(rank: int) -> list[np.ndarray]:
        return [weights, small(rank, (64, 48), BF16)]

    for rank, (left, right) in enumerate(run(body, inputs)):
        assert_array_equal(left, product(*inputs(rank)))
        assert_array_equal(right, product(weights, weights))


@few
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 24), st.integers(1, 16), st.sampled_from([None, None, None, False, True])),
        min_size=1,
        max_size=6,
    )
)
def test_accumulation_is_resolved_per_location(steps: list[tuple[int, int, bool | None]]) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        left, right = load(a), load(b)
        acc = nl.ndarray((8, 40), F32, nl.psum)
        nisa.memset(acc, 1000.0)
        for i, (start, n, accumulate) in enumerate(steps):
            nisa.nc_matmul(acc[:, start : start + n], left[:, 8 * i : 8 * i + 8], right[:, :n], accumulate=accumulate)
        return acc

    def inputs(rank: int) -> list[np.ndarray]:
        return [small(rank, (16, 8 * len(steps)), F32), small(rank + 5, (16, 16), F32)]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        expected, started = np.full((8, 40), 1000.0), np.zeros(40, bool)
        for i, (start, n, accumulate) in enumerate(steps):
            value = product(a[:, 8 * i : 8 * i + 8], b[:, :n])
            for j in range(n):
                column = start + j
                add = started[column] if accumulate is None else accumulate
                expected[:, column] = value[:, j] + (expected[:, column] if add else 0)
                started[column] = True
        assert_array_equal(out, expected)


def test_accumulation_where_ranks_turn_a_loop_differently_often() -> None:
    def body(a: nl.ndarray, turns: nl.ndarray) -> nl.ndarray:
        left, acc = load(a), nl.ndarray((8, 8), F32, nl.psum)
        count = nisa.register_alloc()
        nisa.register_load(count, load(turns))
        nl.fori_loop(0, count, lambda _: nisa.nc_matmul(acc, left, left))
        return acc

    def inputs(rank: int) -> list[np.ndarray]:
        return [small(rank, (16, 8), F32), np.array([[rank + 1]], np.int32)]

    for rank, (out,) in enumerate(run(body, inputs)):
        a = inputs(rank)[0]
        assert_array_equal(out, (rank + 1) * product(a, a))


def test_a_bfloat16_sum_is_rounded_at_each_matmul() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        acc = nl.ndarray((8, 16), BF16, nl.psum)
        for _ in range(3):
            nisa.nc_matmul(acc, load(a), load(b))
        return acc

    def inputs(rank: int) -> list[np.ndarray]:
        return [data(rank, (32, 8), F32), data(rank + 3, (32, 16), F32)]

    for rank, (out,) in enumerate(run(body, inputs, target="trn3")):
        value = product(*inputs(rank)).astype(F32)
        total = value.astype(BF16)
        for _ in range(2):
            total = (total.astype(F32) + value).astype(BF16)
        assert_array_equal(out, total)


def test_trn3_writes_across_banks_and_knows_float8_e4m3fn() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        acc = nl.ndarray((2, 4096), F32, nl.psum)
        nisa.nc_matmul(acc, load(a), load(b))
        return acc

    def inputs(rank: int) -> list[np.ndarray]:
        return [small(rank, (8, 2), E4M3FN), small(rank, (8, 4096), E5M2)]

    for rank, (out,) in enumerate(run(body, inputs, target="trn3")):
        assert_array_equal(out, product(*inputs(rank)))


@few
@given(k=st.integers(1, 128), m=st.integers(1, 40), n=st.integers(1, 60), mode=st.sampled_from(["double_row", "enum"]))
def test_double_row_contracts_the_first_free_dimension(k: int, m: int, n: int, mode: str) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        left, right = nl.ndarray((k, 2, m), E4M3), nl.ndarray((k, 2, n), E5M2)
        nisa.dma_copy(left, a)
        nisa.dma_copy(right, b)
        dst = nl.ndarray((m, n), F32, nl.psum)
        perf_mode = nisa.matmul_perf_mode.double_row if mode == "enum" else mode
        nisa.nc_matmul(dst, left, right, perf_mode=perf_mode)
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [small(rank, (k, 2, m), E4M3), small(rank + 2, (k, 2, n), E5M2)]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, b = (x.astype(np.int64) for x in inputs(rank))
        assert_array_equal(out, np.einsum("kjm,kjn->mn", a, b))


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("result", ["same", "float32"])
@pytest.mark.parametrize("uniform", [True, False])
def test_transpose_mode_moves_bits(dtype: Any, result: str, uniform: bool) -> None:
    order = np.random.default_rng(3).permutation(16)

    def body(a: nl.ndarray, one: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray((5, 16), dtype if result == "same" else F32, nl.psum)
        nisa.nc_matmul(dst, load(a), load(one), is_transpose=True)
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        a = data(rank, (16, 5), dtype)
        a[rank, 1], a[4, 2] = np.nan, -np.inf
        return [a, np.eye(16, dtype=dtype)[:, np.roll(order, 0 if uniform else rank)]]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, _ = inputs(rank)
        expected = a[np.roll(order, 0 if uniform else rank)].T.astype(out.dtype)
        assert_array_equal(out.view(f"u{out.itemsize}"), expected.view(f"u{out.itemsize}"))


def test_transpose_mode_is_a_label_on_trn1() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray((4, 6), F32, nl.psum)
        nisa.nc_matmul(dst, load(a), load(b), is_transpose=True)
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [small(rank, (8, 4), F32), small(rank + 1, (8, 6), F32)]

    for rank, (out,) in enumerate(run(body, inputs, target="trn1")):
        assert_array_equal(out, product(*inputs(rank)))


def test_a_column_tile_changes_no_result() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray((128, 6), F32, nl.psum)
        for i in range(4):
            nisa.nc_matmul(dst[32 * i : 32 * i + 32], load(a), load(b), tile_position=(0, 32 * i), tile_size=(64, 32))
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [small(rank, (64, 32), BF16), small(rank + 1, (64, 6), BF16)]

    for rank, (out,) in enumerate(run(body, inputs)):
        assert_array_equal(out, np.tile(product(*inputs(rank)), (4, 1)))


def test_transpose_mode_refuses_what_selects_no_partition() -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray((8, 8), F32, nl.psum)
        nisa.nc_matmul(dst, load(a), load(a), is_transpose=True)
        return dst

    with pytest.raises(NkiccError) as caught:
        run(body, lambda rank: [data(rank, (8, 8))])
    assert caught.value.code == "NKC035"
    assert "identity" in caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


# --- transpose -------------------------------------------------------------------------------------------------------


@few
@given(
    p=st.integers(1, 128),
    f=st.integers(1, 128),
    dtype=st.sampled_from([F32, BF16, E4M3, np.int32, np.uint16, np.int8]),
    where=st.tuples(layouts, layouts),
)
def test_the_tensor_engine_turns_up_to_128(p: int, f: int, dtype: Any, where: tuple) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = tile((f, p), dtype, where[1], nl.psum)
        nisa.nc_transpose(dst, load(a, where[0]))
        return dst

    for rank, (out,) in enumerate(run(body, lambda r: [small(r, (p, f), dtype)])):
        assert_array_equal(out, small(rank, (p, f), dtype).T)


@pytest.mark.parametrize("memories", [(nl.sbuf, nl.sbuf), (nl.psum, nl.sbuf), (nl.sbuf, nl.psum), (nl.psum, nl.psum)])
def test_the_vector_engine_turns_up_to_32_anywhere(memories: tuple) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        source = nl.ndarray((32, 2, 10), F32, memories[0])
        nisa.tensor_copy(source, load(a))
        dst = nl.ndarray((20, 32), F32, memories[1])
        nisa.nc_transpose(dst, source, engine=nisa.engine.vector)
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        a = data(rank, (32, 20))
        a[rank, 3] = np.nan
        return [a]

    for rank, (out,) in enumerate(run(body, inputs)):
        assert_array_equal(out, inputs(rank)[0].T)


def test_transpose_in_place_and_into_float32_on_trn1() -> None:
    def in_place(a: nl.ndarray) -> nl.ndarray:
        found = load(a)
        nisa.nc_transpose(found, found)
        return found

    def widened(a: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray((8, 8), F32, nl.psum)
        nisa.nc_transpose(dst, load(a))
        return dst

    for rank, (out,) in enumerate(run(in_place, lambda r: [data(r, (8, 8))])):
        assert_array_equal(out, data(rank, (8, 8)).T)
    for rank, (out,) in enumerate(run(widened, lambda r: [data(r, (8, 8), BF16)], target="trn1")):
        assert_array_equal(out, data(rank, (8, 8)).T)


# --- refusals --------------------------------------------------------------------------------------------------------


def t(shape: tuple[int, ...] = (4, 4), dtype: Any = nl.float32, memory: Any = nl.sbuf) -> nl.ndarray:
    return nl.ndarray(shape, dtype, memory)


def p(shape: tuple[int, ...] = (4, 4), dtype: Any = nl.float32) -> nl.ndarray:
    return t(shape, dtype, nl.psum)


def bf(*shape: int) -> nl.ndarray:
    return t(shape, nl.bfloat16)


def f8(*shape: int) -> nl.ndarray:
    return t(shape, nl.float8_e4m3)


def at_register() -> nl.ndarray:
    return p((4, 8))[:, nl.ds(nisa.register_alloc(1), 4)]


double_row = nisa.matmul_perf_mode.double_row
REFUSED: dict[str, tuple[Any, str, str, str]] = {
    "into SBUF": (lambda: nisa.nc_matmul(t(), t(), t()), "NKC030", "dst", "trn2"),
    "stationary in PSUM": (lambda: nisa.nc_matmul(p(), p(), t()), "NKC030", "stationary", "trn2"),
    "moving in HBM": (lambda: nisa.nc_matmul(p(), t(), t(memory=nl.hbm)), "NKC030", "moving", "trn2"),
    "partitions that differ": (lambda: nisa.nc_matmul(p(), t((3, 4)), t()), "NKC033", "moving", "trn2"),
    "129 columns": (lambda: nisa.nc_matmul(p(), t((4, 129)), t()), "NKC035", "M <= 128", "trn2"),
    "513 columns": (lambda: nisa.nc_matmul(p((4, 513)), t(), t((4, 513))), "NKC035", "N <= 512", "trn2"),
    "4097 on trn3": (lambda: nisa.nc_matmul(p((4, 4097)), t(), t((4, 4097))), "NKC035", "N <= 4096", "trn3"),
    "8193 in bfloat16": (
        lambda: nisa.nc_matmul(p((4, 8193), nl.bfloat16), t(), t((4, 8193))), "NKC035", "N <= 8192", "trn3"
    ),
    "another dst": (lambda: nisa.nc_matmul(p((4, 5)), t(), t()), "NKC033", "dst", "trn2"),
    "across banks": (lambda: nisa.nc_matmul(p((4, 600))[:, 400:600], t(), t((4, 200))), "NKC035", "PSUM bank", "trn2"),
    "strides across banks": (lambda: nisa.nc_matmul(p((4, 900))[:, ::300], t(), t((4, 3))), "NKC035", "bank", "trn2"),
    "integers": (lambda: nisa.nc_matmul(p(), t(dtype=nl.int32), t()), "NKC035", "int32", "trn2"),
    "float32 by bfloat16": (lambda: nisa.nc_matmul(p(), t(), bf(4, 4)), "NKC032", "bfloat16", "trn2"),
    "float8_e4m3fn on trn2": (
        lambda: nisa.nc_matmul(p(), t(dtype=nl.float8_e4m3fn), f8(4, 4)), "NKC035", "float8_e4m3fn", "trn2"
    ),
    "both e4m3": (lambda: nisa.nc_matmul(p(), t(dtype=nl.float8_e4m3fn), f8(4, 4)), "NKC032", "float8e4", "trn3"),
    "bfloat16 dst on trn2": (lambda: nisa.nc_matmul(p(dtype=nl.bfloat16), t(), t()), "NKC035", "dst", "trn2"),
    "transposed into another type": (
        lambda: nisa.nc_matmul(p(dtype=nl.float16), bf(4, 4), bf(4, 4), is_transpose=True), "NKC035", "float16", "trn2"
    ),
    "double_row of bfloat16": (
        lambda: nisa.nc_matmul(p(), bf(4, 2, 4), bf(4, 2, 4), perf_mode=double_row), "NKC035", "bfloat16", "trn2"
    ),
    "double_row of 3": (
        lambda: nisa.nc_matmul(p(), f8(4, 3, 4), f8(4, 3, 4), perf_mode=double_row), "NKC033", "double_row", "trn2"
    ),
    "double_row on trn1": (
        lambda: nisa.nc_matmul(p(), f8(4, 2, 4), f8(4, 2, 4), perf_mode=double_row), "BIR530", "20", "trn1"
    ),
    "double_row in column tiles": (
        lambda: nisa.nc_matmul(
            p(), f8(4, 2, 4), f8(4, 2, 4), perf_mode=double_row, tile_position=(0, 0), tile_size=(128, 64)
        ),
        "NKC035", "double_row", "trn2",
    ),
    "double_row in transpose mode": (
        lambda: nisa.nc_matmul(p(), f8(4, 2, 4), f8(4, 2, 4), is_transpose=True, perf_mode=double_row),
        "NKC035", "is_transpose", "trn2",
    ),
    "an unknown mode": (lambda: nisa.nc_matmul(p(), t(), t(), perf_mode="triple"), "NKC035", "triple", "trn2"),
    "a size alone": (lambda: nisa.nc_matmul(p(), t(), t(), tile_size=(64, 64)), "NKC035", "both", "trn2"),
    "a tile of 3": (
        lambda: nisa.nc_matmul(p(), t(), t(), tile_position=(0, 0, 0), tile_size=(64, 64, 64)), "NKC035", "row", "trn2"
    ),
    "32 rows on trn1": (
        lambda: nisa.nc_matmul(p(), t(), t(), tile_position=(0, 0), tile_size=(32, 64)), "NKC035", "row size", "trn1"
    ),
    "48 columns": (
        lambda: nisa.nc_matmul(p(), t(), t(), tile_position=(0, 0), tile_size=(64, 48)), "NKC035", "column", "trn2"
    ),
    "a start between tiles": (
        lambda: nisa.nc_matmul(p(), t(), t(), tile_position=(32, 0), tile_size=(64, 64)), "NKC035", "multiple", "trn2"
    ),
    "more rows than the tile": (
        lambda: nisa.nc_matmul(p(), t((40, 4)), t((40, 4)), tile_position=(0, 0), tile_size=(32, 32)),
        "NKC035", "K <= 32", "trn2",
    ),
    "an offset at run time": (lambda: nisa.nc_matmul(at_register(), t(), t()), "NKC008", "accumulate=None", "trn2"),
    "MX": (lambda: nisa.nc_matmul_mx(p(), t(), t(), t(), t()), "NKC008", "nc_matmul_mx", "trn3"),
    "MX quantisation": (lambda: nisa.quantize_mx(t(), t(), t()), "NKC008", "quantize_mx", "trn3"),
    "transpose in HBM": (lambda: nisa.nc_transpose(p(), t(memory=nl.hbm)), "NKC030", "private_hbm", "trn2"),
    "transpose of another shape": (lambda: nisa.nc_transpose(p((4, 5)), t()), "NKC033", "dst", "trn2"),
    "transpose of 129 columns": (lambda: nisa.nc_transpose(p((128, 4)), t((4, 129))), "NKC033", "dst", "trn2"),
    "transpose on the scalar engine": (
        lambda: nisa.nc_transpose(p(), t(), nisa.engine.scalar), "BIR606", "Activation", "trn2"
    ),
    "transpose of 33 in SBUF": (lambda: nisa.nc_transpose(t((4, 33)), t((33, 4))), "NKC035", "32 x 32", "trn2"),
    "transpose into SBUF": (lambda: nisa.nc_transpose(t(), t(), nisa.engine.tensor), "NKC030", "psum", "trn2"),
    "transpose into float32": (lambda: nisa.nc_transpose(p(), bf(4, 4)), "NKC032", "bfloat16", "trn2"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_tensor_engine_refuses(case: str) -> None:
    function, code, text, target = REFUSED[case]
    core = tracer(target=target)
    with pytest.raises(NkiccError) as caught, tracing(core):
        function()
    assert caught.value.code == code
    assert text in caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
    matrix = (isa.InstMatmul, isa.InstTranspose)
    assert not any(isinstance(inst, matrix) for inst in core.codegen.core_part().body)


def test_the_permitted_neighbours_of_the_limits() -> None:
    with tracing(tracer()):
        nisa.nc_matmul(p((128, 512)), t((128, 128)), t((128, 512)))
        nisa.nc_matmul(p((4, 1024))[:, 512:1024], t(), t((4, 512)), tile_position=(0, 0))
        nisa.nc_transpose(p((128, 128)), t((128, 128)))
        nisa.nc_matmul(at_register(), t(), t(), accumulate=False)
    with tracing(tracer(target="trn3")):
        nisa.nc_matmul(p((4, 8192), nl.bfloat16), t(), t((4, 8192)))
