"""Scans against loops over elements, and what each refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .reference import BF16, F32, I8, I16, I32, U32, assert_array_equal, cast, check_refused, t, values, wide
from .tiles import LAYOUTS, load, run, tile

layouts = st.sampled_from(sorted(LAYOUTS))
few = settings(max_examples=30, deadline=None)
partitions, free = st.integers(1, 128), st.integers(1, 30)

OPS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "less": lambda a, b: np.less(a, b).astype(F32),
}
IDENTITY = {"add": 0, "subtract": 0, "multiply": 1, "maximum": -np.inf, "minimum": np.inf}


def op(name: str) -> nl.Op:
    return getattr(nl, name)


@few
@given(
    p=partitions,
    f=free,
    names=st.tuples(st.sampled_from(sorted(OPS)), st.sampled_from(sorted(OPS))),
    reverse=st.tuples(st.booleans(), st.booleans()),
    initial=st.sampled_from(["number", F32, BF16]),
    dtypes=st.tuples(st.sampled_from([F32, BF16, I8]), st.sampled_from([F32, BF16]), st.sampled_from([F32, BF16, I16])),
    where=st.tuples(layouts, layouts, layouts),
)
def test_tensor_tensor_scan(
    p: int, f: int, names: tuple, reverse: tuple, initial: Any, dtypes: tuple, where: tuple
) -> None:
    def body(a: nl.ndarray, b: nl.ndarray, c: nl.ndarray) -> nl.ndarray:
        dst = tile((p, f), dtypes[2], where[2])
        start = 0.5 if initial == "number" else load(c)
        nisa.tensor_tensor_scan(
            dst, load(a, where[0]), load(b, where[1]), start, op(names[0]), op(names[1]), reverse[0], reverse[1]
        )
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        column = values(rank, (p, 1), F32 if initial == "number" else initial, 2)
        return [values(rank, (p, f), dtypes[0]), values(rank, (p, f), dtypes[1], 1), column]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, b, c = inputs(rank)
        a, b = wide(a), wide(b)
        state = np.full(p, 0.5, F32) if initial == "number" else c[:, 0].astype(F32)
        for i in range(f):
            with np.errstate(all="ignore"):
                state = OPS[names[0]](*((state, a[:, i]) if reverse[0] else (a[:, i], state)))
                state = OPS[names[1]](*((b[:, i], state) if reverse[1] else (state, b[:, i])))
                expected = cast(state, dtypes[2])
            # As float32, where NaN compares equal to NaN whatever the type was.
            assert_array_equal(out[:, i].astype(F32), expected.astype(F32))


def test_tensor_tensor_scan_in_place_and_from_the_end_of_another() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        left, right = load(a), load(b)
        nisa.tensor_tensor_scan(left[:, :4], left[:, :4], right[:, :4], 1.0, nl.multiply, nl.add)
        nisa.tensor_tensor_scan(left[:, 4:], left[:, 4:], right[:, 4:], left[:, 3], nl.multiply, nl.add)
        return left

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (6, 9), F32), values(rank, (6, 9), F32, 1)]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        state = np.ones(6, F32)
        for i in range(9):
            state = a[:, i] * state + b[:, i]
            assert_array_equal(out[:, i], state)


@few
@given(
    p=partitions,
    f=free,
    names=st.tuples(st.sampled_from(sorted(OPS)), st.sampled_from(sorted(IDENTITY))),
    vector=st.booleans(),
    commands=st.tuples(st.sampled_from(["reset_reduce", "load_reduce"]), st.sampled_from(["reset_reduce", "reduce"])),
    dtypes=st.tuples(st.sampled_from([F32, BF16, I8]), st.sampled_from([F32, BF16])),
    where=st.tuples(layouts, layouts),
)
def test_tensor_scalar_cumulative_goes_on(
    p: int, f: int, names: tuple, vector: bool, commands: tuple, dtypes: tuple, where: tuple
) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        data, column = load(a, where[0]), load(b)
        operand = column if vector else 0.75
        outs = [tile((p, f), dtypes[1], where[1]) for _ in range(2)]
        for dst, command in zip(outs, commands, strict=True):
            nisa.tensor_scalar_cumulative(
                dst, data, op(names[0]), op(names[1]), operand, column, nisa.reduce_cmd[command]
            )
        return tuple(outs)

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (p, f), dtypes[0]), values(rank, (p, 1), F32, 1)]

    for rank, outs in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        value = OPS[names[0]](wide(a), b if vector else F32(0.75))
        state = np.zeros(p, F32)
        for out, command in zip(outs, commands, strict=True):
            if command == "reset_reduce":
                state = np.full(p, IDENTITY[names[1]], F32)
            elif command == "load_reduce":
                state = b[:, 0]
            for i in range(f):
                with np.errstate(all="ignore"):
                    state = OPS[names[1]](value[:, i], state)
                    expected = cast(state, dtypes[1])
                assert_array_equal(out[:, i], expected)


def test_scans_of_tiles_of_which_some_are_equal_on_all_ranks() -> None:
    def body(a: nl.ndarray) -> tuple[nl.ndarray, ...]:
        data, steps, ones = load(a), nl.ndarray(a.shape, F32), nl.full(a.shape, 1.0, F32)
        nisa.iota(steps, [[1, 7]], channel_multiplier=2)
        mixed, uniform, sums = [nl.ndarray(a.shape, F32) for _ in range(3)]
        nisa.tensor_tensor_scan(mixed, ones, data, 0.0, nl.multiply, nl.add)
        nisa.tensor_tensor_scan(uniform, ones, steps, 0.0, nl.multiply, nl.add)
        nisa.tensor_scalar_cumulative(sums, steps, nl.add, nl.add, 0.0)
        nisa.tensor_scalar_cumulative(sums, data, nl.add, nl.add, 0.0, reduce_cmd=nisa.reduce_cmd.reduce)
        return mixed, uniform, sums

    steps = (2 * np.arange(5)[:, None] + np.arange(7)).astype(F32)
    for rank, (mixed, uniform, sums) in enumerate(run(body, lambda rank: [values(rank, (5, 7), I8)])):
        a = values(rank, (5, 7), I8).astype(F32)
        assert_array_equal(mixed, a.cumsum(axis=1))
        assert_array_equal(uniform, steps.cumsum(axis=1))
        assert_array_equal(sums, a.cumsum(axis=1) + steps.sum(axis=1, keepdims=True))


REFUSED = {
    "a scan of PSUM with PSUM": (
        lambda: nisa.tensor_tensor_scan(t(), t(memory=nl.psum), t(memory=nl.psum), 0, nl.add, nl.add),
        "NKC030",
        "PSUM",
    ),
    "a scan of bits": (
        lambda: nisa.tensor_tensor_scan(t(dtype=I32), t(dtype=I32), t(dtype=I32), 0, nl.bitwise_or, nl.add),
        "NKC035",
        "none on bits",
    ),
    "a unary scan": (lambda: nisa.tensor_tensor_scan(t(), t(), t(), 0, nl.add, nl.abs), "NKC035", "op1"),
    "a wide initial": (
        lambda: nisa.tensor_tensor_scan(t(), t(), t(), t((4, 2)), nl.add, nl.add),
        "NKC033",
        "(4, 2)",
    ),
    "a scan of another size": (
        lambda: nisa.tensor_tensor_scan(t(), t(), t((4, 7)), 0, nl.add, nl.add),
        "NKC033",
        "(4, 7)",
    ),
    "32-bit integers in": (
        lambda: nisa.tensor_scalar_cumulative(t(), t(dtype=I32), nl.add, nl.add, 1.0),
        "NKC035",
        "int32",
    ),
    "32-bit integers out": (
        lambda: nisa.tensor_scalar_cumulative(t(dtype=U32), t(), nl.add, nl.add, 1.0),
        "NKC035",
        "uint32",
    ),
    "cumulative comparisons": (
        lambda: nisa.tensor_scalar_cumulative(t(), t(), nl.add, nl.less, 1.0),
        "NKC035",
        "is_lt",
    ),
    "cumulative bits": (
        lambda: nisa.tensor_scalar_cumulative(t(dtype=I16), t(dtype=I16), nl.bitwise_or, nl.add, 1),
        "NKC035",
        "none on bits",
    ),
    "an operand of bfloat16": (
        lambda: nisa.tensor_scalar_cumulative(t(), t(), nl.add, nl.add, t((4, 1), BF16)),
        "NKC035",
        "bfloat16",
    ),
    "idle": (
        lambda: nisa.tensor_scalar_cumulative(t(), t(), nl.add, nl.add, 1.0, None, nisa.reduce_cmd.idle),
        "NKC035",
        "idle",
    ),
    "load without a value": (
        lambda: nisa.tensor_scalar_cumulative(t(), t(), nl.add, nl.add, 1.0, None, nisa.reduce_cmd.load_reduce),
        "NKC035",
        "load_reduce",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    check_refused(*REFUSED[case], __file__)
