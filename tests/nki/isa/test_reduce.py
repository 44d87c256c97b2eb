"""Reductions against NumPy, the accumulator they fold into, and what each refuses."""

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

import nkicc
from nkicc import NkiccError

from .reference import BF16, F16, F32, I8, I16, I32, U16, cast, check_refused, t, values, wide
from .tiles import LAYOUTS, load, run, tile

layouts = st.sampled_from(sorted(LAYOUTS))
few = settings(max_examples=30, deadline=None)
partitions = st.integers(1, 128)
extents = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)

FOLDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "add": lambda x: x.astype(np.float64).sum(axis=-1),
    "subtract": lambda x: 2 * x[..., 0].astype(np.float64) - x.astype(np.float64).sum(axis=-1),
    "multiply": lambda x: x.astype(np.float64).prod(axis=-1),
    "maximum": lambda x: x.max(axis=-1),
    "minimum": lambda x: x.min(axis=-1),
    "logical_and": lambda x: (x != 0).all(axis=-1).astype(F32),
    "logical_or": lambda x: (x != 0).any(axis=-1).astype(F32),
    "logical_xor": lambda x: ((x != 0).sum(axis=-1) % 2).astype(F32),
}
BITS = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}


def op(name: str) -> nl.Op:
    return getattr(nl, name)


def small(rank: int, shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Integers from -3 to 3 in any type."""
    return np.random.default_rng([rank, seed, *shape]).integers(-3, 4, shape).astype(dtype)


# --- along the free dimensions ---------------------------------------------------------------------------------------


@few
@given(
    p=partitions,
    shape=extents,
    data=st.data(),
    name=st.sampled_from(sorted(FOLDS)),
    dtypes=st.tuples(st.sampled_from([F32, F16, BF16, I8, I32]), st.sampled_from([F32, BF16, I32])),
    negate=st.booleans(),
    keepdims=st.booleans(),
)
def test_tensor_reduce(p: int, shape: tuple, data: Any, name: str, dtypes: tuple, negate: bool, keepdims: bool) -> None:
    count = data.draw(st.integers(1, len(shape)))
    axes = tuple(range(1 + len(shape) - count, 1 + len(shape)))
    axis = data.draw(st.sampled_from([axes, list(axes), tuple(a - len(shape) - 1 for a in axes), axes[::-1]]))
    if count == 1:
        axis = data.draw(st.sampled_from([axis, axes[0], -1]))
    kept = shape[: len(shape) - count]
    out_shape = (p, *kept, *[1] * count) if keepdims else (p, *(kept or (1,)))

    def body(a: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray(out_shape, dtypes[1])
        nisa.tensor_reduce(dst, op(name), load(a).reshape((p, *shape)), axis=axis, negate=negate, keepdims=keepdims)
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [small(rank, (p, int(np.prod(shape))), dtypes[0])]

    for rank, (out,) in enumerate(run(body, inputs)):
        a = inputs(rank)[0].astype(F32).reshape(p, *kept, -1)
        value = FOLDS[name](a).astype(F32)
        assert_array_equal(out, cast(-value if negate else value, dtypes[1]).reshape(p, -1))


@few
@given(
    p=partitions,
    f=st.integers(1, 40),
    name=st.sampled_from(sorted(BITS)),
    dtype=st.sampled_from([I8, U16, I32]),
    where=layouts,
)
def test_tensor_reduce_of_bits(p: int, f: int, name: str, dtype: Any, where: str) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray((p, 1), dtype)
        nisa.tensor_reduce(dst, op(name), load(a, where), axis=-1 if where != "turned" else (1, 2, 3))
        return dst

    for rank, (out,) in enumerate(run(body, lambda rank: [values(rank, (p, f), dtype)])):
        assert_array_equal(out[:, 0], BITS[name].reduce(values(rank, (p, f), dtype), axis=1))


def test_tensor_reduce_sums_in_float32_and_reads_psum() -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        source, dst = nl.ndarray(a.shape, nl.float32, nl.psum), nl.ndarray((a.shape[0], 1), nl.float32, nl.psum)
        nisa.tensor_copy(source, load(a))
        nisa.tensor_reduce(dst, nl.add, source, axis=np.int64(1))
        return dst

    for rank, (out,) in enumerate(run(body, lambda rank: [values(rank, (5, 400), BF16)])):
        a = values(rank, (5, 400), BF16).astype(np.float64)
        assert_allclose(out[:, 0], a.sum(axis=1), atol=1e-3)


# --- across partitions -----------------------------------------------------------------------------------------------


@few
@given(
    p=partitions,
    f=st.integers(1, 40),
    name=st.sampled_from(["add", "average", "maximum"]),
    dtypes=st.tuples(st.sampled_from([F32, BF16, I16]), st.sampled_from([F32, BF16])),
    where=st.tuples(layouts, layouts),
)
def test_tensor_partition_reduce(p: int, f: int, name: str, dtypes: tuple, where: tuple) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = tile((1, f), dtypes[1], where[1])
        nisa.tensor_partition_reduce(dst, op(name), load(a, where[0]))
        return dst

    fold = {"add": np.sum, "average": np.mean, "maximum": np.max}[name]
    for rank, (out,) in enumerate(run(body, lambda rank: [small(rank, (p, f), dtypes[0])])):
        value = fold(small(rank, (p, f), dtypes[0]).astype(np.float64), axis=0, keepdims=True)
        assert_allclose(out.astype(F32), value.astype(dtypes[1]).astype(F32), rtol=1e-6 if dtypes[1] is F32 else 8e-3)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or"])
def test_tensor_partition_reduce_of_bits(name: str) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray((1, 2, 5), I32)
        nisa.tensor_partition_reduce(dst, op(name), load(a).reshape((7, 2, 5)))
        return dst

    for rank, (out,) in enumerate(run(body, lambda rank: [values(rank, (7, 10), I32)])):
        assert_array_equal(out[0], BITS[name].reduce(values(rank, (7, 10), I32), axis=0))


# --- with the accumulator --------------------------------------------------------------------------------------------

ACCUMULATED: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@few
@given(
    p=partitions,
    f=st.integers(1, 12),
    names=st.tuples(st.sampled_from(["add", "multiply", "subtract", "maximum"]), st.sampled_from(sorted(ACCUMULATED))),
    vector=st.booleans(),
    dtypes=st.tuples(st.sampled_from([F32, BF16, I8]), st.sampled_from([F32, BF16])),
    command=st.sampled_from(["reset_reduce", "load_reduce"]),
    negate=st.booleans(),
    where=st.tuples(layouts, layouts),
)
def test_tensor_scalar_reduce(
    p: int, f: int, names: tuple, vector: bool, dtypes: tuple, command: str, negate: bool, where: tuple
) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        dst, total, column = tile((p, f), dtypes[1], where[1]), nl.ndarray((p, 1), F32), load(b)
        nisa.tensor_scalar_reduce(
            dst,
            load(a, where[0]),
            op(names[0]),
            column if vector else 1.25,
            op(names[1]),
            total,
            reduce_cmd=nisa.reduce_cmd[command],
            reduce_init=column if command == "load_reduce" else None,
            reduce_res_negate=negate,
        )
        return dst, total

    def inputs(rank: int) -> list[np.ndarray]:
        return [small(rank, (p, f), dtypes[0]), small(rank, (p, 1), F32, 1)]

    first = {"add": np.add, "multiply": np.multiply, "subtract": np.subtract, "maximum": np.maximum}[names[0]]
    for rank, (out, total) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        value = first(wide(a), b if vector else F32(1.25))
        assert_array_equal(out, cast(value, dtypes[1]))
        fold = ACCUMULATED[names[1]]
        expected = fold.reduce(value, axis=1, keepdims=True)
        expected = fold(b, expected) if command == "load_reduce" else expected
        assert_allclose(total, -expected if negate else expected, rtol=1e-5)


def test_the_accumulator_goes_on_from_tile_to_tile_and_partition_by_partition() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        data, more = load(a), load(b)
        scratch, part, whole, negated = nl.ndarray(a.shape, F32), *[nl.ndarray((8, 1), F32) for _ in range(3)]
        nisa.tensor_scalar_reduce(scratch, data, nl.add, 0.0, nl.add)
        nisa.tensor_scalar_reduce(
            scratch[:5], more[:5], nl.add, 0.0, nl.add, part[:5], reduce_cmd=nisa.reduce_cmd.reduce
        )
        nisa.memset(part[5:], 0.0)
        nisa.tensor_scalar_reduce(
            scratch,
            data,
            nl.add,
            0.0,
            nl.add,
            negated,
            reduce_cmd=nisa.reduce_cmd.reduce,
            reduce_res_negate=True,
        )
        nisa.tensor_scalar_reduce(scratch, data, nl.multiply, 0.0, nl.add, whole, reduce_cmd=nisa.reduce_cmd.reduce)
        return part, whole, negated

    def inputs(rank: int) -> list[np.ndarray]:
        return [small(rank, (8, 6), F32), small(rank, (8, 6), F32, 1)]

    for rank, (part, whole, negated) in enumerate(run(body, inputs)):
        a, b = [x.sum(axis=1, keepdims=True) for x in inputs(rank)]
        b[5:] = 0
        assert_array_equal(part[:5], (a + b)[:5])
        assert_array_equal(negated, -(2 * a + b))
        assert_array_equal(whole, 2 * a + b)


def test_cores_have_accumulators_of_their_own() -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        data, total = load(a), nl.ndarray((4, 1), F32)
        scratch = nl.ndarray(a.shape, F32)
        nisa.tensor_scalar_reduce(scratch, data, nl.multiply, 1.0 + nl.program_id(0), nl.add, total)
        return total

    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((2, 4, 1), F32, nl.shared_hbm, name="out")
        nisa.dma_copy(out[nl.program_id(0)], body(x))
        return out

    result = nkicc.run(kernel, ranks=2, lnc=2, inputs=lambda rank: {"x": small(rank, (4, 6), F32)})
    for rank in range(2):
        total = small(rank, (4, 6), F32).sum(axis=1, keepdims=True)
        assert_array_equal(result.outputs[rank], np.stack([total, 2 * total]))


def idle_select(scratch: nl.ndarray, data: nl.ndarray) -> None:
    nisa.select_reduce(scratch, nl.zeros(data.shape, nl.uint8), data, 0.0)


def idle_range(scratch: nl.ndarray, data: nl.ndarray) -> None:
    bound = nl.zeros((data.shape[0], 1), F32)
    nisa.range_select(scratch, data, nl.less, nl.less, bound, bound, nisa.reduce_cmd.idle)


def idle_exponential(scratch: nl.ndarray, data: nl.ndarray) -> None:
    nisa.exponential(scratch, data)


def fewer_partitions(scratch: nl.ndarray, data: nl.ndarray) -> None:
    nisa.tensor_scalar_reduce(scratch[:3], data[:3], nl.add, 0.0, nl.add)


def nothing(scratch: nl.ndarray, data: nl.ndarray) -> None:
    pass


@pytest.mark.parametrize(
    ("before", "between", "held"),
    [
        (nothing, nothing, 0),
        (nothing, fewer_partitions, 3),
        (fewer_partitions, idle_select, 0),
        (fewer_partitions, idle_range, 0),
        (fewer_partitions, idle_exponential, 0),
    ],
)
def test_an_accumulator_that_holds_nothing_does_not_go_on(before: Any, between: Any, held: int) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        data, total, scratch = load(a), nl.ndarray((4, 1), F32), nl.ndarray(a.shape, F32)
        before(scratch, data)
        between(scratch, data)
        nisa.tensor_scalar_reduce(scratch, data, nl.add, 0.0, nl.add, total, reduce_cmd=nisa.reduce_cmd.reduce)
        return total

    with pytest.raises(NkiccError) as caught:
        run(body, lambda rank: [small(rank, (4, 6), F32)], target="trn3")
    assert caught.value.code == "NKC114"
    assert f"holds {held}" in caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


# --- what is refused -------------------------------------------------------------------------------------------------

REFUSED = {
    "partitions": (lambda: nisa.tensor_reduce(t((1, 8)), nl.add, t(), 0), "NKC035", "axis"),
    "an inner axis": (lambda: nisa.tensor_reduce(t((4, 4)), nl.add, t((4, 2, 4)), (1,)), "NKC035", "axis"),
    "a gap between axes": (lambda: nisa.tensor_reduce(t((4, 3)), nl.add, t((4, 2, 3, 4)), (1, 3)), "NKC035", "axis"),
    "all axes": (lambda: nisa.tensor_reduce(t((1, 1)), nl.add, t(), (0, 1)), "NKC035", "axis"),
    "a comparison": (lambda: nisa.tensor_reduce(t((4, 1)), nl.less, t(), 1), "NKC035", "is_lt"),
    "a power": (lambda: nisa.tensor_reduce(t((4, 1)), nl.power, t(), 1), "NKC035", "pow"),
    "an activation": (lambda: nisa.tensor_reduce(t((4, 1)), nl.exp, t(), 1), "NKC035", "exp"),
    "negated bits": (
        lambda: nisa.tensor_reduce(t((4, 1), I32), nl.bitwise_or, t(dtype=I32), 1, negate=True),
        "NKC035",
        "negate",
    ),
    "bits of floats": (lambda: nisa.tensor_reduce(t((4, 1)), nl.bitwise_or, t(), 1), "NKC035", "integers only"),
    "a dst of another size": (lambda: nisa.tensor_reduce(t((4, 2)), nl.add, t(), 1), "NKC039", "8"),
    "a dst of other partitions": (lambda: nisa.tensor_reduce(t((2, 2)), nl.add, t(), 1), "NKC033", "(2, 2)"),
    "a partition reduction in PSUM": (
        lambda: nisa.tensor_partition_reduce(t((1, 8)), nl.add, t(memory=nl.psum)),
        "NKC030",
        "psum",
    ),
    "a minimum of partitions": (
        lambda: nisa.tensor_partition_reduce(t((1, 8)), nl.minimum, t()),
        "NKC035",
        "average",
    ),
    "two partitions left": (lambda: nisa.tensor_partition_reduce(t((2, 4)), nl.add, t()), "NKC033", "(2, 4)"),
    "bits of float partitions": (
        lambda: nisa.tensor_partition_reduce(t((1, 8)), nl.bitwise_and, t()),
        "NKC035",
        "integers only",
    ),
    "reverse0": (
        lambda: nisa.tensor_scalar_reduce(t(), t(), nl.add, 1.0, nl.add, t((4, 1)), reverse0=True),
        "NKC008",
        "reverse0",
    ),
    "bits in tensor_scalar_reduce": (
        lambda: nisa.tensor_scalar_reduce(t(dtype=I32), t(dtype=I32), nl.bitwise_and, 1, nl.add),
        "NKC035",
        "none on bits",
    ),
    "a fold with subtract": (
        lambda: nisa.tensor_scalar_reduce(t(), t(), nl.add, 1.0, nl.subtract),
        "NKC035",
        "subtract",
    ),
    "four free dimensions": (
        lambda: nisa.tensor_scalar_reduce(t((4, 1, 2, 2, 2)), t((4, 1, 2, 2, 2)), nl.add, 1.0, nl.add),
        "NKC034",
        "free dimensions",
    ),
    "idle": (
        lambda: nisa.tensor_scalar_reduce(t(), t(), nl.add, 1.0, nl.add, reduce_cmd=nisa.reduce_cmd.idle),
        "NKC035",
        "idle",
    ),
    "load without a value": (
        lambda: nisa.tensor_scalar_reduce(t(), t(), nl.add, 1.0, nl.add, reduce_cmd=nisa.reduce_cmd.load_reduce),
        "NKC035",
        "load_reduce",
    ),
    "a value without load": (
        lambda: nisa.tensor_scalar_reduce(t(), t(), nl.add, 1.0, nl.add, reduce_init=1.0),
        "NKC035",
        "reset_reduce",
    ),
    "a wide result": (lambda: nisa.tensor_scalar_reduce(t(), t(), nl.add, 1.0, nl.add, t((4, 2))), "NKC033", "(4, 2)"),
    "an initial value of bfloat16": (
        lambda: nisa.tensor_scalar_reduce(
            t(), t(), nl.add, 1.0, nl.add, reduce_cmd=nisa.reduce_cmd.load_reduce, reduce_init=t((4, 1), BF16)
        ),
        "NKC035",
        "bfloat16",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    check_refused(*REFUSED[case], __file__)
