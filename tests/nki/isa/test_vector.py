"""The vector engine's element-wise instructions against NumPy, and what each refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from .reference import BF16, F16, F32, FLOATS, I8, I16, I32, U8, U16, U32, cast, check_refused, t, values, wide
from .tiles import LAYOUTS, load, run, tile

layouts = st.sampled_from(sorted(LAYOUTS))
few = settings(max_examples=30, deadline=None)
partitions, free = st.integers(1, 128), st.integers(1, 40)
Binary = Callable[[Any, Any], Any]

ARITHMETIC: dict[str, Binary] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": lambda a, b: (a == b).astype(F32),
    "not_equal": lambda a, b: (a != b).astype(F32),
    "greater": lambda a, b: (a > b).astype(F32),
    "greater_equal": lambda a, b: (a >= b).astype(F32),
    "less": lambda a, b: (a < b).astype(F32),
    "less_equal": lambda a, b: (a <= b).astype(F32),
    "logical_and": lambda a, b: ((a != 0) & (b != 0)).astype(F32),
    "logical_or": lambda a, b: ((a != 0) | (b != 0)).astype(F32),
    "logical_xor": lambda a, b: ((a != 0) ^ (b != 0)).astype(F32),
}
#: On integers of Python, which have no limits.
INTEGERS: dict[str, Binary] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
    "minimum": min,
    "less": lambda a, b: a < b,
    "equal": lambda a, b: a == b,
}
BITS: dict[str, Binary] = {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
}
arithmetic = st.sampled_from(sorted(ARITHMETIC))
any_dtype = st.sampled_from([F32, F16, BF16, I32, I16, U16, I8, U8])


def op(name: str) -> nl.Op:
    return getattr(nl, name)


# --- tensor_tensor ---------------------------------------------------------------------------------------------------


@few
@given(
    p=partitions,
    f=free,
    name=arithmetic,
    dtypes=st.tuples(any_dtype, any_dtype, st.sampled_from([F32, BF16, I16, U8])),
    where=st.tuples(layouts, layouts, layouts),
)
def test_tensor_tensor_computes_in_float32(p: int, f: int, name: str, dtypes: tuple, where: tuple) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        dst = tile((p, f), dtypes[2], where[2])
        nisa.tensor_tensor(dst, load(a, where[0]), load(b, where[1]), op(name))
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (p, f), dtypes[0]), values(rank, (p, f), dtypes[1], 1)]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        assert_array_equal(out, cast(ARITHMETIC[name](wide(a), wide(b)), dtypes[2]))
        assert out.dtype == dtypes[2]


@few
@given(
    p=partitions,
    f=free,
    name=st.sampled_from(sorted(INTEGERS)),
    dtypes=st.tuples(*[st.sampled_from([I32, U32])] * 3),
    engine=st.sampled_from([nisa.engine.unknown, nisa.engine.gpsimd]),
)
def test_32_bit_integers_are_exact_and_wrap_around(p: int, f: int, name: str, dtypes: tuple, engine: Any) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray((p, f), dtypes[2])
        nisa.tensor_tensor(dst, load(a), load(b), op(name), engine=engine)
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (p, f), dtypes[0]), values(rank, (p, f), dtypes[1], 1)]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, b = [[int(x) for x in array.ravel()] for array in inputs(rank)]
        exact = [int(INTEGERS[name](x, y)) for x, y in zip(a, b, strict=True)]
        assert_array_equal(out.astype(np.int64).ravel() % 2**32, np.array([x % 2**32 for x in exact]))


@pytest.mark.parametrize("why", ["engine", "psum"])
def test_32_bit_integers_on_the_vector_engine_go_through_float32(why: str) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        left = load(a)
        if why == "psum":
            left = nl.ndarray(a.shape, a.dtype, nl.psum)
            nisa.tensor_copy(left, load(a))
        dst = nl.ndarray(a.shape, a.dtype)
        engine = nisa.engine.vector if why == "engine" else nisa.engine.unknown
        nisa.tensor_tensor(dst, left, load(b), nl.add, engine=engine)
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [np.full((4, 8), (1 << 24) + 1 + 2 * rank, I32), np.ones((4, 8), I32) * rank]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        assert_array_equal(out, (a.astype(F32) + b.astype(F32)).astype(I32))
        if rank != 1:
            assert (out != a + b).all()


@few
@given(
    p=partitions,
    f=free,
    name=st.sampled_from(sorted(BITS)),
    dtype=st.sampled_from([I32, U32, I16, U16, I8, U8]),
    where=st.tuples(layouts, layouts),
)
def test_bit_operations_see_raw_bits(p: int, f: int, name: str, dtype: Any, where: tuple) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray((p, f), dtype)
        nisa.tensor_tensor(dst, load(a, where[0]), load(b, where[1]), op(name))
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (p, f), dtype), values(rank, (p, f), dtype, 1)]

    for rank, (out,) in enumerate(run(body, inputs)):
        assert_array_equal(out, BITS[name](*inputs(rank)))


@pytest.mark.parametrize("dtype", [I32, U32])
def test_powers_of_integers_wrap_around(dtype: Any) -> None:
    info = np.iinfo(dtype)
    base = np.array([[info.min, info.min + 7, 0, 3, 2, 65_537, info.max - 1, info.max]], dtype)
    exponent = np.array([[3, 5, 0, 31, 40, 4, 3, 3]], dtype)

    def kernel(x: nl.ndarray, y: nl.ndarray) -> nl.ndarray:
        out = tile(x)
        nisa.tensor_tensor(out, load(x), load(y), nl.power)
        return out

    expected = [pow(b, e) % (1 << 32) for b, e in zip(base[0].tolist(), exponent[0].tolist(), strict=True)]
    for (found,) in run(kernel, lambda rank: (base, exponent)):
        assert found.view(U32)[0].tolist() == expected


def test_power_of_floats_and_of_integers() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        floats, whole = nl.ndarray(a.shape, nl.float32), nl.ndarray(a.shape, nl.int32)
        base, exponent = load(a), load(b)
        nisa.tensor_tensor(whole, base, exponent, nl.power)
        x, y = nl.ndarray(a.shape, nl.float32), nl.ndarray(a.shape, nl.float32)
        nisa.tensor_copy(x, base)
        nisa.tensor_copy(y, exponent)
        nisa.tensor_tensor(floats, x, y, nl.power)
        return floats, whole

    def inputs(rank: int) -> list[np.ndarray]:
        return [np.array([[2, 3, -5, 7, 46341, 1]], I32) + 0 * rank, np.array([[10, rank, 3, 2, 1, -4]], I32)]

    for rank, (floats, whole) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        assert_allclose(floats, a.astype(F32) ** b.astype(F32), rtol=1e-6)
        assert_array_equal(whole, [[1024, 3**rank, -125, 49, 46341, 1]])


# --- tensor_scalar ---------------------------------------------------------------------------------------------------


@few
@given(
    p=partitions,
    f=free,
    names=st.tuples(arithmetic, arithmetic),
    reverse=st.tuples(st.booleans(), st.booleans()),
    vectors=st.tuples(st.booleans(), st.booleans()),
    dtypes=st.tuples(any_dtype, st.sampled_from([F32, BF16, I16])),
    where=st.tuples(layouts, layouts),
)
def test_tensor_scalar_applies_two_operations(
    p: int, f: int, names: tuple, reverse: tuple, vectors: tuple, dtypes: tuple, where: tuple
) -> None:
    constants = (1.5, -0.25)

    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        columns = load(b)
        operands = [columns[:, i : i + 1] if vectors[i] else constants[i] for i in range(2)]
        dst = tile((p, f), dtypes[1], where[1])
        nisa.tensor_scalar(
            dst, load(a, where[0]), op(names[0]), operands[0], reverse[0], op(names[1]), operands[1], reverse[1]
        )
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (p, f), dtypes[0]), values(rank, (p, 2), F32, 1)]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        value = wide(a)
        for i in range(2):
            operand = b[:, i : i + 1] if vectors[i] else np.float32(constants[i])
            function = ARITHMETIC[names[i]]
            value = function(operand, value) if reverse[i] else function(value, operand)
        assert_array_equal(out, cast(value, dtypes[1]))


def test_integer_operands_of_32_bit_integers_are_exact() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        data, column = load(a), load(b)
        with_number, with_tile, in_floats = [nl.ndarray(a.shape, nl.int32) for _ in range(3)]
        nisa.tensor_scalar(with_number, data, nl.multiply, 3, op1=nl.add, operand1=(1 << 24) + 1)
        nisa.tensor_scalar(with_tile, data, nl.add, column)
        nisa.tensor_scalar(in_floats, data, nl.add, 1.0)
        return with_number, with_tile, in_floats

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (5, 6), I32), values(rank, (5, 1), I32, 1)]

    for rank, (with_number, with_tile, in_floats) in enumerate(run(body, inputs)):
        a, b = [x.astype(np.int64) for x in inputs(rank)]
        assert_array_equal(with_number, (3 * a + (1 << 24) + 1).astype(I32))
        assert_array_equal(with_tile, (a + b).astype(I32))
        assert_array_equal(in_floats, cast(a.astype(F32) + F32(1), I32))


def test_a_float_operand_makes_arithmetic_of_integers_floating() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray(a.shape, nl.int32)
        nisa.tensor_scalar(dst, load(a), nl.multiply, load(b))
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [np.arange(12, dtype=I32).reshape(3, 4) + rank, np.array([[0.5], [1.5], [-2.5]], F32)]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        assert_array_equal(out, np.rint(a * b).astype(I32))


@pytest.mark.parametrize("dtype", [I32, U32, I16, U8])
def test_shifts_and_bits_with_scalars(dtype: Any) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        data, mask = load(a), load(b)
        shifted, masked, inverted = [nl.ndarray(a.shape, dtype) for _ in range(3)]
        nisa.tensor_scalar(shifted, data, nl.left_shift, 3, op1=nl.right_shift, operand1=1)
        nisa.tensor_scalar(masked, data, nl.bitwise_and, mask)
        nisa.tensor_scalar(inverted, data, nl.invert, None)
        return shifted, masked, inverted

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (5, 6), dtype), values(rank, (5, 1), dtype, 1)]

    bits = 8 * np.dtype(dtype).itemsize
    for rank, (shifted, masked, inverted) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        unsigned = a.astype(np.int64) % 2**bits
        assert_array_equal(shifted.astype(np.int64) % 2**bits, ((unsigned << 3) % 2**bits) >> 1)
        assert_array_equal(masked, a & b)
        assert_array_equal(inverted, ~a)


@pytest.mark.parametrize(
    ("name", "function", "target"),
    [
        ("abs", np.abs, "trn2"),
        ("rsqrt", lambda x: 1 / np.sqrt(x), "trn2"),
        ("reciprocal", lambda x: 1 / x, "trn2"),
        ("square", np.square, "trn3"),
        ("relu", lambda x: np.maximum(x, 0), "trn3"),
    ],
)
def test_unary_operations(name: str, function: Callable[[Any], Any], target: str) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray(a.shape, nl.float32)
        nisa.tensor_scalar(dst, load(a), nl.subtract, -1.0, op1=op(name), operand1=0.0)
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [np.abs(values(rank, (7, 9), F32)) if name == "rsqrt" else values(rank, (7, 9), F32)]

    for rank, (out,) in enumerate(run(body, inputs, target=target)):
        assert_allclose(out, function(inputs(rank)[0] + F32(1)), rtol=1e-6)


def test_infinite_operands_survive_the_way() -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray(a.shape, nl.float32)
        nisa.tensor_scalar(dst, load(a), nl.minimum, float("inf"), op1=nl.maximum, operand1=float("-inf"))
        return dst

    for rank, (out,) in enumerate(run(body, lambda rank: [values(rank, (3, 5), F32)])):
        assert_array_equal(out, values(rank, (3, 5), F32))


# --- scalar_tensor_tensor --------------------------------------------------------------------------------------------


@few
@given(
    p=partitions,
    f=free,
    names=st.tuples(arithmetic, arithmetic),
    reverse=st.tuples(st.booleans(), st.booleans()),
    vector=st.sampled_from([None, F32, BF16]),
    dtypes=st.tuples(st.sampled_from(FLOATS), st.sampled_from(FLOATS), st.sampled_from([F32, BF16, I16])),
    where=st.tuples(layouts, layouts, layouts),
)
def test_scalar_tensor_tensor(
    p: int, f: int, names: tuple, reverse: tuple, vector: Any, dtypes: tuple, where: tuple
) -> None:
    def body(a: nl.ndarray, b: nl.ndarray, c: nl.ndarray) -> nl.ndarray:
        dst = tile((p, f), dtypes[2], where[2])
        nisa.scalar_tensor_tensor(
            dst,
            load(a, where[0]),
            op(names[0]),
            0.75 if vector is None else load(c),
            op(names[1]),
            load(b, where[1]),
            reverse[0],
            reverse[1],
        )
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        column = values(rank, (p, 1), vector or F32, 2)
        return [values(rank, (p, f), dtypes[0]), values(rank, (p, f), dtypes[1], 1), column]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, b, c = [x.astype(F32) for x in inputs(rank)]
        operands = [F32(0.75) if vector is None else c, b]
        value = a
        for i in range(2):
            function = ARITHMETIC[names[i]]
            value = function(operands[i], value) if reverse[i] else function(value, operands[i])
        assert_array_equal(out, cast(value, dtypes[2]))


def test_scalar_tensor_tensor_folds_what_it_computes() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        dst, total = nl.ndarray(a.shape, nl.bfloat16), nl.ndarray((a.shape[0], 1), nl.float32)
        left, right = load(a), load(b)
        nisa.scalar_tensor_tensor(dst, left, nl.multiply, 2.0, nl.add, right, reduce_op=nl.maximum)
        nisa.scalar_tensor_tensor(
            dst,
            left,
            nl.multiply,
            -2.0,
            nl.add,
            right,
            reduce_op=nl.maximum,
            reduce_cmd=nisa.reduce_cmd.reduce,
            reduce_res=total,
        )
        return dst, total

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (6, 11), F32), values(rank, (6, 11), F32, 1)]

    for rank, (out, total) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        assert_array_equal(out, (a * -2 + b).astype(BF16))
        assert_array_equal(total, np.maximum(a * 2 + b, a * -2 + b).max(axis=1, keepdims=True))


# --- reciprocal and exponential --------------------------------------------------------------------------------------


@few
@given(
    p=partitions, f=free, dtypes=st.tuples(any_dtype, st.sampled_from([F32, BF16])), where=st.tuples(layouts, layouts)
)
def test_reciprocal(p: int, f: int, dtypes: tuple, where: tuple) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = tile((p, f), dtypes[1], where[1])
        nisa.reciprocal(dst, load(a, where[0]))
        return dst

    for rank, (out,) in enumerate(run(body, lambda rank: [values(rank, (p, f), dtypes[0])])):
        with np.errstate(divide="ignore"):
            assert_array_equal(out, cast(F32(1) / wide(values(rank, (p, f), dtypes[0])), dtypes[1]))


@few
@given(
    p=partitions,
    f=free,
    dtypes=st.tuples(st.sampled_from([F32, BF16, I8]), st.sampled_from([F32, BF16])),
    vector=st.booleans(),
    command=st.sampled_from(["idle", "reset_reduce", "load_reduce"]),
)
def test_exponential(p: int, f: int, dtypes: tuple, vector: bool, command: str) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        dst, total = nl.ndarray((p, f), dtypes[1]), nl.zeros((p, 1), nl.float32)
        column = load(b)
        nisa.exponential(
            dst,
            load(a),
            max_value=column if vector else 2.0,
            reduce_res=None if command == "idle" else total,
            reduce_cmd=nisa.reduce_cmd[command],
            reduce_init=column if command == "load_reduce" else 0.0,
        )
        return dst, total

    def inputs(rank: int) -> list[np.ndarray]:
        data = values(rank, (p, f), dtypes[0])
        return [np.minimum(data, np.array(20, dtypes[0])), values(rank, (p, 1), F32, 1)]

    for rank, (out, total) in enumerate(run(body, inputs, target="trn3")):
        a, b = [x.astype(F32) for x in inputs(rank)]
        value = np.exp((a - (b if vector else F32(2))).astype(np.float64))
        assert_allclose(out.astype(np.float64), value, rtol=2e-6 if dtypes[1] is F32 else 5e-3, atol=1e-30)
        expected = value.sum(axis=1, keepdims=True) + (b if command == "load_reduce" else 0)
        assert_allclose(total, 0 * expected if command == "idle" else expected, rtol=1e-5, atol=1e-4)


# --- what is refused -------------------------------------------------------------------------------------------------

PSUM = nl.psum
REFUSED = {
    "inputs both in PSUM": (
        lambda: nisa.tensor_tensor(t(), t(memory=PSUM), t(memory=PSUM), nl.add),
        "NKC030",
        "next to 'psum.0' in PSUM",
    ),
    "power in PSUM": (lambda: nisa.tensor_tensor(t(memory=PSUM), t(), t(), nl.power), "NKC030", "psum"),
    "GpSimd in PSUM": (
        lambda: nisa.tensor_tensor(t(memory=PSUM), t(), t(), nl.add, nisa.engine.gpsimd),
        "NKC030",
        "GpSimd",
    ),
    "tensor_tensor on the tensor engine": (
        lambda: nisa.tensor_tensor(t(), t(), t(), nl.add, nisa.engine.tensor),
        "BIR606",
        "PE",
    ),
    "a unary operation of two tiles": (lambda: nisa.tensor_tensor(t(), t(), t(), nl.abs), "NKC035", "abs"),
    "bits of floats": (lambda: nisa.tensor_tensor(t(), t(), t(), nl.bitwise_and), "NKC035", "integers only"),
    "bits into floats": (
        lambda: nisa.tensor_tensor(t(), t(dtype=I32), t(dtype=I32), nl.bitwise_or),
        "NKC035",
        "integers only",
    ),
    "the average of two tiles": (lambda: nisa.tensor_tensor(t(), t(), t(), nl.average), "NKC035", "average"),
    "abs_max before trn3": (lambda: nisa.tensor_tensor(t(), t(), t(), nl.abs_max), "BIR530", "40"),
    "tiles of other sizes": (lambda: nisa.tensor_tensor(t(), t(), t((4, 9)), nl.add), "NKC033", "(4, 9)"),
    "other partitions": (lambda: nisa.tensor_tensor(t(), t(), t((8, 4)), nl.add), "NKC033", "(8, 4)"),
    "compute in HBM": (lambda: nisa.tensor_tensor(t(), t(), t(memory=nl.hbm), nl.add), "NKC030", "hbm"),
    "bits among arithmetic": (
        lambda: nisa.tensor_scalar(t(dtype=I32), t(dtype=I32), nl.add, 1, op1=nl.bitwise_and, operand1=1),
        "NKC035",
        "never mixed",
    ),
    "a float for bits": (lambda: nisa.tensor_scalar(t(dtype=I32), t(dtype=I32), nl.left_shift, 1.0), "NKC035", "1.0"),
    "an operand of bfloat16": (
        lambda: nisa.tensor_scalar(t(), t(), nl.add, t((4, 1), nl.bfloat16)),
        "NKC035",
        "bfloat16",
    ),
    "an integer operand of floats": (lambda: nisa.tensor_scalar(t(), t(), nl.add, t((4, 1), I32)), "NKC035", "int32"),
    "a wide operand": (lambda: nisa.tensor_scalar(t(), t(), nl.add, t((4, 2))), "NKC033", "(4, 2)"),
    "an operand of other partitions": (lambda: nisa.tensor_scalar(t(), t(), nl.add, t((1, 4))), "NKC033", "(1, 4)"),
    "an operand of a unary operation": (lambda: nisa.tensor_scalar(t(), t(), nl.abs, 2.0), "NKC035", "2.0"),
    "an operand without an operation": (
        lambda: nisa.tensor_scalar(t(), t(), nl.add, 1.0, operand1=2.0),
        "NKC035",
        "no operation",
    ),
    "an operation without an operand": (
        lambda: nisa.tensor_scalar(t(), t(), nl.add, 1.0, op1=nl.add),
        "NKC035",
        "operand1",
    ),
    "addition on GpSimd": (
        lambda: nisa.tensor_scalar(t(), t(), nl.add, 1.0, engine=nisa.engine.gpsimd),
        "NKC035",
        "rsqrt alone",
    ),
    "a maximum on the scalar engine": (
        lambda: nisa.tensor_scalar(t(), t(), nl.maximum, 1.0, engine=nisa.engine.scalar),
        "NKC035",
        "scalar engine",
    ),
    "bits on the scalar engine": (
        lambda: nisa.tensor_scalar(t(dtype=I32), t(dtype=I32), nl.left_shift, 1, engine=nisa.engine.scalar),
        "NKC035",
        "scalar engine",
    ),
    "a DMA engine": (lambda: nisa.tensor_scalar(t(), t(), nl.add, 1.0, engine=nisa.engine.dma), "BIR606", "DMA"),
    "square before trn3": (lambda: nisa.tensor_scalar(t(), t(), nl.square, None), "BIR530", "square"),
    "bits in scalar_tensor_tensor": (
        lambda: nisa.scalar_tensor_tensor(t(), t(), nl.bitwise_and, 1, nl.add, t()),
        "NKC035",
        "none on bits",
    ),
    "data and operand1 in PSUM": (
        lambda: nisa.scalar_tensor_tensor(t(), t(memory=PSUM), nl.add, 1.0, nl.add, t(memory=PSUM)),
        "NKC030",
        "PSUM",
    ),
    "a result without an operation": (
        lambda: nisa.scalar_tensor_tensor(t(), t(), nl.add, 1.0, nl.add, t(), reduce_res=t((4, 1))),
        "NKC035",
        "reduce_op",
    ),
    "a fold with subtract": (
        lambda: nisa.scalar_tensor_tensor(t(), t(), nl.add, 1.0, nl.add, t(), reduce_op=nl.subtract),
        "NKC035",
        "subtract",
    ),
    "exponential before trn3": (lambda: nisa.exponential(t(), t()), "BIR530", "40"),
    "a reciprocal of another size": (lambda: nisa.reciprocal(t(), t((4, 7))), "NKC033", "(4, 7)"),
}
REFUSED_ON_TRN3 = {
    "an exponential into uint32": (lambda: nisa.exponential(t(dtype=U32), t()), "NKC035", "uint32"),
    "five dimensions": (lambda: nisa.exponential(t((4, 1, 2, 2, 2)), t()), "NKC034", "5"),
    "a maximum of bfloat16": (lambda: nisa.exponential(t(), t(), t((4, 1), BF16)), "NKC035", "bfloat16"),
    "a result of idle": (lambda: nisa.exponential(t(), t(), reduce_res=t((4, 1))), "NKC035", "idle"),
    "an initial value of idle": (lambda: nisa.exponential(t(), t(), reduce_init=1.0), "NKC035", "reduce_init"),
    "an initial value of reset": (
        lambda: nisa.exponential(t(), t(), reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_init=1.0),
        "NKC035",
        "load_reduce",
    ),
    "a reset only": (lambda: nisa.exponential(t(), t(), reduce_cmd=nisa.reduce_cmd.reset), "NKC035", "reset"),
    "a sum in integers": (
        lambda: nisa.exponential(t(), t(), reduce_res=t((4, 1), I32), reduce_cmd=nisa.reduce_cmd.reset_reduce),
        "NKC035",
        "int32",
    ),
    "a command by number": (lambda: nisa.exponential(t(), t(), reduce_cmd=3), "NKC035", "reduce_cmd"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    check_refused(*REFUSED[case], __file__)


@pytest.mark.parametrize("case", REFUSED_ON_TRN3)
def test_what_is_refused_on_trn3(case: str) -> None:
    check_refused(*REFUSED_ON_TRN3[case], __file__, "trn3")
