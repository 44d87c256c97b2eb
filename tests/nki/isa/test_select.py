"""Selections against NumPy, and what each refuses."""

from __future__ import annotations

from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .reference import (
    BF16,
    F16,
    F32,
    I8,
    I16,
    I32,
    U8,
    U16,
    U32,
    assert_array_equal,
    cast,
    check_refused,
    t,
    values,
    wide,
)
from .tiles import LAYOUTS, load, run, tile

layouts = st.sampled_from(sorted(LAYOUTS))
few = settings(max_examples=30, deadline=None)
partitions, free = st.integers(1, 128), st.integers(1, 30)
LOWEST = np.finfo(F32).min
COMPARISONS = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}
any_dtype = st.sampled_from([F32, F16, BF16, I32, I16, U16, I8, U8])


def op(name: str) -> nl.Op:
    return getattr(nl, name)


def affine(p: int, pattern: list, offset: int, multiplier: int) -> np.ndarray:
    """What iota generates, (p, …), element by element."""
    shape = (p, *[count for _, count in pattern])
    out = np.empty(shape, np.int64)
    for index in np.ndindex(*shape):
        steps = sum(i * step for i, (step, _) in zip(index[1:], pattern, strict=True))
        out[index] = offset + index[0] * multiplier + steps
    return ((out + 2**31) % 2**32 - 2**31).astype(I32)


patterns = st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 4)).map(list), min_size=1, max_size=4)


@few
@given(
    p=st.integers(1, 20),
    pattern=patterns,
    offset=st.sampled_from([0, 7, -100, 2**31 - 5]),
    multiplier=st.integers(-300, 300),
    dtype=st.sampled_from([I32, F32, BF16, I8]),
    where=layouts,
)
def test_iota(p: int, pattern: list, offset: int, multiplier: int, dtype: Any, where: str) -> None:
    f = int(np.prod([count for _, count in pattern]))

    def body() -> nl.ndarray:
        dst = tile((p, f), dtype, where)
        nisa.iota(dst, pattern, offset, multiplier)
        return dst

    (out,), *_ = run(body, lambda rank: [], ranks=1)
    expected = affine(p, pattern, offset, multiplier).reshape(p, f)
    assert_array_equal(out, expected if dtype is I32 else cast(expected.astype(F32), dtype))


@few
@given(
    p=st.integers(1, 20),
    pattern=patterns,
    offset=st.integers(-60, 60),
    multiplier=st.integers(-3, 3),
    comparison=st.sampled_from(sorted(COMPARISONS)),
    dtypes=st.tuples(any_dtype, any_dtype),
    on_false=st.sampled_from([0.0, -7.5, LOWEST, -np.inf]),
    where=st.tuples(layouts, layouts),
)
def test_affine_select(
    p: int,
    pattern: list,
    offset: int,
    multiplier: int,
    comparison: str,
    dtypes: tuple,
    on_false: float,
    where: tuple,
) -> None:
    f = int(np.prod([count for _, count in pattern]))

    def body(a: nl.ndarray) -> nl.ndarray:
        dst = tile((p, f), dtypes[1], where[1])
        nisa.affine_select(dst, pattern, multiplier, load(a, where[0]), on_false, cmp_op=op(comparison), offset=offset)
        return dst

    predicate = COMPARISONS[comparison](affine(p, pattern, offset, multiplier), 0).reshape(p, f)
    for rank, (out,) in enumerate(run(body, lambda rank: [values(rank, (p, f), dtypes[0])])):
        a = values(rank, (p, f), dtypes[0])
        with np.errstate(over="ignore"):
            kept = a if dtypes[0] is dtypes[1] else cast(a.astype(F32), dtypes[1])
            assert_array_equal(out, np.where(predicate, kept, cast(np.array(on_false, F32), dtypes[1])))


@pytest.mark.parametrize("dtype", [I32, U32])
def test_affine_select_copies_equal_types_bit_by_bit(dtype: Any) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray(a.shape, dtype)
        nisa.affine_select(dst, [[1, 9]], 0, load(a), 3.0, nl.less, offset=-5)
        return dst

    for rank, (out,) in enumerate(run(body, lambda rank: [values(rank, (6, 9), dtype)])):
        assert_array_equal(out[:, :5], values(rank, (6, 9), dtype)[:, :5])
        assert_array_equal(out[:, 5:], 3)


def test_affine_select_in_place_masks_above_the_diagonal() -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        scores = load(a)
        nisa.affine_select(scores, [[-1, 24]], 1, scores, LOWEST, cmp_op=nl.greater_equal, offset=4)
        return scores

    for rank, (out,) in enumerate(run(body, lambda rank: [values(rank, (16, 24), F32)])):
        assert_array_equal(out, np.where(np.tri(16, 24, 4, bool), values(rank, (16, 24), F32), LOWEST))


@few
@given(
    p=partitions,
    f=free,
    comparisons=st.tuples(*[st.sampled_from(sorted(set(COMPARISONS) - {"not_equal"}))] * 2),
    start=st.integers(-20, 20),
    dtypes=st.tuples(st.sampled_from([F32, BF16, F16]), st.sampled_from([F32, BF16])),
    command=st.sampled_from(["idle", "reset_reduce"]),
    lowest=st.sampled_from([..., LOWEST, float(LOWEST), -3.4028235e38]),
    where=st.tuples(layouts, layouts),
)
def test_range_select(
    p: int, f: int, comparisons: tuple, start: int, dtypes: tuple, command: str, lowest: Any, where: tuple
) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        dst, largest, bounds = tile((p, f), dtypes[1], where[1]), nl.zeros((p, 1), F32), load(b)
        nisa.range_select(
            dst,
            load(a, where[0]),
            op(comparisons[0]),
            op(comparisons[1]),
            bounds[:, 0:1],
            bounds[:, 1:2],
            nisa.reduce_cmd[command],
            None if command == "idle" else largest,
            range_start=start,
            on_false_value=lowest,
        )
        return dst, largest

    def inputs(rank: int) -> list[np.ndarray]:
        bounds = np.random.default_rng([rank, p, f]).integers(start - 1, start + f + 1, (p, 2)).astype(F32)
        return [values(rank, (p, f), dtypes[0]), bounds]

    for rank, (out, largest) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        position = start + np.arange(f)
        inside = COMPARISONS[comparisons[0]](position, b[:, :1]) & COMPARISONS[comparisons[1]](position, b[:, 1:])
        value = np.where(inside, wide(a), LOWEST)
        with np.errstate(over="ignore"):
            assert_array_equal(out, value.astype(dtypes[1]))
        assert_array_equal(largest, 0 if command == "idle" else value.max(axis=1, keepdims=True))


def test_range_selects_chain_and_their_maximum_is_of_float32() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        data, bounds = load(a), load(b)
        dst, largest = nl.ndarray(a.shape, nl.bfloat16), nl.ndarray((4, 1), F32)
        for part, command in enumerate([nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce]):
            nisa.range_select(
                dst[:, part * 5 : part * 5 + 5],
                data[:, part * 5 : part * 5 + 5],
                nl.greater_equal,
                nl.less,
                bounds[:, 0],
                bounds[:, 1],
                reduce_cmd=command,
                reduce_res=largest if part else None,
                range_start=5.0 * part,
            )
        return dst, largest

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (4, 10), F32), np.array([[2, 7], [0, 10], [3, 3], [9, 10]], F32) - rank]

    for rank, (out, largest) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        position = np.arange(10)
        value = np.where((position >= b[:, :1]) & (position < b[:, 1:]), a, LOWEST)
        with np.errstate(over="ignore"):
            assert_array_equal(out, value.astype(BF16))
        assert_array_equal(largest, value.max(axis=1, keepdims=True))


@few
@given(
    p=partitions,
    f=free,
    predicate=st.sampled_from([I8, U8, I16, U16]),
    dtypes=st.tuples(st.sampled_from([F32, BF16, I16, U8]), st.sampled_from([F32, BF16, I16])),
    vector=st.sampled_from([None, F32, BF16]),
    reverse=st.booleans(),
    command=st.sampled_from(["idle", "reset_reduce"]),
    where=st.tuples(layouts, layouts, layouts),
)
def test_select_reduce(
    p: int, f: int, predicate: Any, dtypes: tuple, vector: Any, reverse: bool, command: str, where: tuple
) -> None:
    def body(a: nl.ndarray, b: nl.ndarray, c: nl.ndarray) -> tuple[nl.ndarray, ...]:
        dst, largest = tile((p, f), dtypes[1], where[2]), nl.zeros((p, 1), F32)
        nisa.select_reduce(
            dst,
            load(a, where[0]),
            load(b, where[1]),
            -2.5 if vector is None else load(c),
            None if command == "idle" else largest,
            nisa.reduce_cmd[command],
            reverse_pred=reverse,
        )
        return dst, largest

    def inputs(rank: int) -> list[np.ndarray]:
        mask = np.random.default_rng([rank, p, f]).integers(0, 3, (p, f)).astype(predicate)
        return [mask, values(rank, (p, f), dtypes[0]), values(rank, (p, 1), vector or F32, 2)]

    for rank, (out, largest) in enumerate(run(body, inputs)):
        a, b, c = inputs(rank)
        other = F32(-2.5) if vector is None else c.astype(F32)
        value = np.where((a == 0) if reverse else (a != 0), b.astype(F32), other)
        assert_array_equal(out, cast(value, dtypes[1]))
        assert_array_equal(largest, 0 if command == "idle" else value.max(axis=1, keepdims=True))


BOUNDS = (nl.greater_equal, nl.less)
REFUSED = {
    "iota of another size": (lambda: nisa.iota(t(), [[1, 3]]), "NKC039", "12"),
    "iota of five pairs": (lambda: nisa.iota(t(), [[1, 8], *[[1, 1]] * 4]), "NKC034", "5"),
    "iota without pairs": (lambda: nisa.iota(t(), [4]), "NKC035", "pattern"),
    "iota of no elements": (lambda: nisa.iota(t(), [[1, 0]]), "NKC035", "at least 1"),
    "iota in PSUM": (lambda: nisa.iota(t(memory=nl.psum), [[1, 8]]), "NKC030", "psum"),
    "iota from a half": (lambda: nisa.iota(t(), [[1, 8]], 0.5), "NKC035", "offset"),
    "iota beyond 32 bits": (lambda: nisa.iota(t(), [[1, 8]], 0, 2**31), "NKC035", "channel_multiplier"),
    "affine_select from PSUM": (
        lambda: nisa.affine_select(t(), [[1, 8]], 1, t(memory=nl.psum), 0.0),
        "NKC030",
        "psum",
    ),
    "affine_select of another size": (lambda: nisa.affine_select(t(), [[1, 9]], 1, t(), 0.0), "NKC039", "36"),
    "affine_select with add": (lambda: nisa.affine_select(t(), [[1, 8]], 1, t(), 0.0, nl.add), "NKC035", "cmp_op"),
    "affine_select of other tiles": (lambda: nisa.affine_select(t(), [[1, 8]], 1, t((4, 9)), 0.0), "NKC033", "(4, 9)"),
    "a tile for on_false_value": (lambda: nisa.affine_select(t(), [[1, 8]], 1, t(), t()), "NKC035", "on_false_value"),
    "another on_false_value": (
        lambda: nisa.range_select(t(), t(), *BOUNDS, t((4, 1)), t((4, 1)), on_false_value=0.0),
        "NKC035",
        "on_false_value",
    ),
    "a comparison by not_equal": (
        lambda: nisa.range_select(t(), t(), nl.not_equal, nl.less, t((4, 1)), t((4, 1))),
        "NKC035",
        "comp_op0",
    ),
    "a range in integers": (
        lambda: nisa.range_select(t(), t(dtype=I32), *BOUNDS, t((4, 1)), t((4, 1))),
        "NKC035",
        "int32",
    ),
    "a bound of bfloat16": (
        lambda: nisa.range_select(t(), t(), *BOUNDS, t((4, 1)), t((4, 1), BF16)),
        "NKC035",
        "bound1",
    ),
    "a wide bound": (lambda: nisa.range_select(t(), t(), *BOUNDS, t((4, 2)), t((4, 1))), "NKC033", "bound0"),
    "a number as a bound": (lambda: nisa.range_select(t(), t(), *BOUNDS, 0.0, t((4, 1))), "NKC035", "bound0"),
    "a range behind 2^24": (
        lambda: nisa.range_select(t(), t(), *BOUNDS, t((4, 1)), t((4, 1)), range_start=(1 << 24) - 6),
        "NKC035",
        "range_start",
    ),
    "half a range_start": (
        lambda: nisa.range_select(t(), t(), *BOUNDS, t((4, 1)), t((4, 1)), range_start=0.5),
        "NKC035",
        "range_start",
    ),
    "a minimum of a range": (
        lambda: nisa.range_select(t(), t(), *BOUNDS, t((4, 1)), t((4, 1)), reduce_op=nl.minimum),
        "NKC035",
        "reduce_op",
    ),
    "a result of an idle range": (
        lambda: nisa.range_select(t(), t(), *BOUNDS, t((4, 1)), t((4, 1)), nisa.reduce_cmd.idle, reduce_res=t((4, 1))),
        "NKC035",
        "idle",
    ),
    "a predicate of 32 bits": (lambda: nisa.select_reduce(t(), t(dtype=U32), t(), 0.0), "NKC035", "predicate"),
    "a predicate of floats": (lambda: nisa.select_reduce(t(), t(), t(), 0.0), "NKC035", "predicate"),
    "a selection of int32": (lambda: nisa.select_reduce(t(), t(dtype=U8), t(dtype=I32), 0.0), "NKC035", "on_true"),
    "predicate and on_true in PSUM": (
        lambda: nisa.select_reduce(t(), t(dtype=U8, memory=nl.psum), t(memory=nl.psum), 0.0),
        "NKC030",
        "PSUM",
    ),
    "a predicate of another size": (lambda: nisa.select_reduce(t(), t((4, 9), U8), t(), 0.0), "NKC033", "(4, 9)"),
    "a wide on_false": (lambda: nisa.select_reduce(t(), t(dtype=U8), t(), t((4, 2))), "NKC033", "on_false"),
    "a sum of a selection": (
        lambda: nisa.select_reduce(t(), t(dtype=U8), t(), 0.0, t((4, 1)), nisa.reduce_cmd.reset_reduce, nl.add),
        "NKC035",
        "reduce_op",
    ),
    "a maximum in integers": (
        lambda: nisa.select_reduce(t(), t(dtype=U8), t(), 0.0, t((4, 1), I16), nisa.reduce_cmd.reset_reduce),
        "NKC035",
        "int16",
    ),
    "a result of idle": (lambda: nisa.select_reduce(t(), t(dtype=U8), t(), 0.0, t((4, 1))), "NKC035", "idle"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    check_refused(*REFUSED[case], __file__)


def test_range_select_needs_trn2() -> None:
    check_refused(lambda: nisa.range_select(t(), t(), *BOUNDS, t((4, 1)), t((4, 1))), "BIR530", "30", __file__, "trn1")
