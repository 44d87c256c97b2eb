"""Activations against their definitions in float64, the scalar engine's accumulator, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from nkicc import NkiccError
from nkicc.ir.types import ActFn

from .reference import BF16, F16, F32, I8, I32, cast, check_refused, t, values, wide
from .tiles import LAYOUTS, load, run, tile

layouts = st.sampled_from(sorted(LAYOUTS))
few = settings(max_examples=30, deadline=None)
partitions, free = st.integers(1, 128), st.integers(1, 30)
Function = Callable[[np.ndarray], np.ndarray]

_erf = np.vectorize(math.erf, otypes=[float])
_erfc = np.vectorize(math.erfc, otypes=[float])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _normal(x: np.ndarray) -> np.ndarray:
    return _erfc(-x / math.sqrt(2)) / 2


def _derivative(function: Function) -> Function:
    """By central differences in float64."""
    return lambda x: (function(x + 1e-5) - function(x - 1e-5)) / 2e-5


def _gelu(x: np.ndarray) -> np.ndarray:
    return x * _normal(x)


def _gelu_apprx_sigmoid(x: np.ndarray) -> np.ndarray:
    return x * _sigmoid(1.702 * x)


#: Each function, and from where to where it is compared.
FUNCTIONS: dict[str, tuple[Function, float, float]] = {
    "copy": (lambda x: x, -20, 20),
    "abs": (np.abs, -20, 20),
    "sign": (np.sign, -20, 20),
    "square": (np.square, -20, 20),
    "sqrt": (np.sqrt, 0, 400),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.01, 400),
    "reciprocal": (lambda x: 1 / x, -20, 20),
    "exp": (np.exp, -20, 20),
    "log": (np.log, 0.001, 400),
    "sin": (np.sin, -math.pi, math.pi),
    "arctan": (np.arctan, -20, 20),
    "erf": (_erf, -6, 6),
    "erf_dx": (lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x), -6, 6),
    "relu": (lambda x: np.maximum(x, 0), -20, 20),
    "sigmoid": (_sigmoid, -20, 20),
    "tanh": (np.tanh, -20, 20),
    "softplus": (lambda x: np.log1p(np.exp(x)), -20, 20),
    "mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), -20, 20),
    "silu": (lambda x: x * _sigmoid(x), -20, 20),
    "silu_dx": (_derivative(lambda x: x * _sigmoid(x)), -20, 20),
    "gelu": (_gelu, -8, 8),
    "gelu_dx": (_derivative(_gelu), -8, 8),
    "gelu_apprx_tanh": (
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        -8,
        8,
    ),
    "gelu_apprx_sigmoid": (_gelu_apprx_sigmoid, -8, 8),
    "gelu_apprx_sigmoid_dx": (_derivative(_gelu_apprx_sigmoid), -8, 8),
}
#: Differences do not give more, nor does 1 + tanh near -1.
ROUGH = {"silu_dx": 1e-9, "gelu_dx": 1e-9, "gelu_apprx_sigmoid_dx": 1e-9, "gelu_apprx_tanh": 1e-14}


#: Functions with a zero apart from 0 itself, or sums that cancel.
CROSSING = {"log", "sin", "silu_dx", "gelu_dx", "gelu_apprx_sigmoid_dx"}


def op(name: str) -> nl.Op:
    return getattr(nl, name)


def between(rank: int, shape: tuple[int, ...], low: float, high: float) -> np.ndarray:
    """Numbers of that range, its ends and as many near 0 as elsewhere, where the range has them."""
    rng = np.random.default_rng([rank, *shape])
    out = rng.uniform(low, high, shape)
    if low <= 0:
        near = rng.uniform(-0.01, 0.01, shape) if low < 0 else rng.uniform(0, 0.01, shape)
        out = np.where(rng.random(shape) < 0.5, near, out)
    out[0, :2] = low, high
    return out.astype(F32)


# --- functions -------------------------------------------------------------------------------------------------------


def test_every_function_of_the_engine_is_compared() -> None:
    assert set(FUNCTIONS) == {function.value for function in ActFn} - {"prelu"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_what_it_is_called(name: str) -> None:
    function, low, high = FUNCTIONS[name]

    def body(a: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray(a.shape, nl.float32)
        nisa.activation(dst, op(name), load(a))
        return dst

    for rank, (out,) in enumerate(run(body, lambda rank: [between(rank, (64, 40), low, high)])):
        x = between(rank, (64, 40), low, high).astype(np.float64)
        # Where a function crosses 0 the input's own rounding limits it.
        assert_allclose(out, function(x), rtol=3e-6, atol=ROUGH.get(name, 0) + (4e-7 if name in CROSSING else 1e-37))


def test_the_sine_goes_on_as_its_last_cubic() -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray(a.shape, nl.float32)
        nisa.activation(dst, nl.sin, load(a))
        return dst

    (out,), *_ = run(body, lambda rank: [np.array([[9, -9, np.pi, 3.2, -3.2]], F32)])
    assert_allclose(out[0], [27.65, -27.65, 0, np.sin(3.2), -np.sin(3.2)], rtol=2e-4, atol=1e-6)


@few
@given(
    p=partitions,
    f=free,
    name=st.sampled_from(["copy", "square", "abs", "relu"]),
    bias=st.sampled_from(["none", "number", F32, BF16, F16]),
    vector=st.booleans(),
    dtypes=st.tuples(st.sampled_from([F32, BF16, I8, I32]), st.sampled_from([F32, BF16, I8])),
    where=st.tuples(layouts, layouts),
)
def test_scale_and_bias(p: int, f: int, name: str, bias: Any, vector: bool, dtypes: tuple, where: tuple) -> None:
    def body(a: nl.ndarray, b: nl.ndarray, c: nl.ndarray) -> nl.ndarray:
        dst = tile((p, f), dtypes[1], where[1])
        shift = None if bias == "none" else -0.5 if bias == "number" else load(c)
        nisa.activation(dst, op(name), load(a, where[0]), bias=shift, scale=load(b) if vector else 0.75)
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        dtype = F32 if bias in ("none", "number") else bias
        return [values(rank, (p, f), dtypes[0]), values(rank, (p, 1), F32, 1), values(rank, (p, 1), dtype, 2)]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, b, c = inputs(rank)
        shift = 0 if bias == "none" else -0.5 if bias == "number" else c.astype(F32)
        x = wide(a) * (b if vector else F32(0.75)) + F32(shift)
        assert_array_equal(out, cast(FUNCTIONS[name][0](x), dtypes[1]))


# --- the accumulator -------------------------------------------------------------------------------------------------


@few
@given(p=partitions, f=free, dtype=st.sampled_from([F32, BF16]), through=st.sampled_from(["activation", "reduce"]))
def test_an_activation_adds_up_what_it_computes(p: int, f: int, dtype: Any, through: str) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        dst, total = nl.ndarray((p, f), dtype), nl.ndarray((p, 1), F32)
        if through == "reduce":
            nisa.activation_reduce(dst, nl.exp, load(a), nl.add, total, bias=load(b), scale=0.5)
        else:
            nisa.activation(dst, nl.exp, load(a), load(b), 0.5, nl.add, total, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        return dst, total

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (p, f), dtype), values(rank, (p, 1), F32, 1) / 4]

    for rank, (out, total) in enumerate(run(body, inputs)):
        a, b = [x.astype(F32) for x in inputs(rank)]
        value = np.exp((a * F32(0.5) + b).astype(np.float64))
        assert_allclose(out.astype(np.float64), value, rtol=3e-6 if dtype is F32 else 5e-3)
        # The sum is of the float32 values, not of what is left of them in dst.
        assert_allclose(total, value.sum(axis=1, keepdims=True), rtol=1e-5)


def test_the_commands_of_the_accumulator() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        left, right, scratch = load(a), load(b), nl.ndarray(a.shape, F32)
        first, again, both, after_reset = [nl.ndarray((6, 1), F32) for _ in range(4)]
        command = nisa.reduce_cmd
        nisa.activation(scratch, nl.square, left, reduce_op=nl.add, reduce_cmd=command.reset_reduce, reduce_res=first)
        nisa.activation(scratch, nl.exp, right)
        nisa.activation(scratch, nl.copy, right, reduce_res=again)
        nisa.activation(scratch, nl.square, right, reduce_op=nl.add, reduce_cmd=command.reduce)
        # The vector engine has an accumulator of its own.
        nisa.tensor_scalar_reduce(scratch, right, nl.add, 5.0, nl.add)
        nisa.activation(scratch, nl.copy, right, reduce_op=nl.add, reduce_res=both, reduce_cmd=command.idle)
        nisa.activation(scratch, nl.copy, right, reduce_cmd=command.reset)
        nisa.activation(scratch, nl.copy, left, reduce_op=nl.add, reduce_res=after_reset, reduce_cmd=command.reduce)
        return first, again, both, after_reset

    def inputs(rank: int) -> list[np.ndarray]:
        rng = np.random.default_rng(rank)
        return [rng.integers(-5, 6, (6, 9)).astype(F32), rng.integers(-5, 6, (6, 9)).astype(F32)]

    for rank, (first, again, both, after_reset) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        squares = np.square(a).sum(axis=1, keepdims=True)
        assert_array_equal(first, squares)
        assert_array_equal(again, squares)
        assert_array_equal(both, squares + np.square(b).sum(axis=1, keepdims=True))
        assert_array_equal(after_reset, a.sum(axis=1, keepdims=True))


def test_reading_an_accumulator_that_holds_nothing() -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        total = nl.ndarray((4, 1), F32)
        nisa.activation(nl.ndarray(a.shape, F32), nl.exp, load(a), reduce_op=nl.add, reduce_res=total)
        return total

    with pytest.raises(NkiccError) as caught:
        run(body, lambda rank: [values(rank, (4, 6), F32)])
    assert caught.value.code == "NKC114"
    assert "Activation" in caught.value.message


# --- activate2 -------------------------------------------------------------------------------------------------------

STAGES: dict[str, Callable[[Any, Any], Any]] = {
    "multiply": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "bypass": lambda a, b: a,
}
PAIRS = [
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
]
FOLDS: dict[str, Function] = {
    "add": lambda x: x.sum(axis=1, keepdims=True),
    "maximum": lambda x: x.max(axis=1, keepdims=True),
    "minimum": lambda x: x.min(axis=1, keepdims=True),
    "abs_max": lambda x: np.abs(x).max(axis=1, keepdims=True),
    "abs_min": lambda x: np.abs(x).min(axis=1, keepdims=True),
}


@few
@given(
    p=partitions,
    f=free,
    pair=st.sampled_from(PAIRS),
    reverse=st.tuples(st.booleans(), st.booleans()),
    vectors=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    fold=st.sampled_from(sorted(FOLDS)),
    where=layouts,
)
def test_activate2(p: int, f: int, pair: tuple, reverse: tuple, vectors: tuple, fold: str, where: str) -> None:
    reverse = tuple(r and name != "bypass" for r, name in zip(reverse, pair, strict=True))
    numbers = (1.5, -0.75, 0.25)

    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        columns = load(b)
        imm0, imm1, slope = [columns[:, i : i + 1] if vectors[i] else numbers[i] for i in range(3)]
        dst, total = nl.ndarray((p, f), F32), nl.ndarray((p, 1), F32)
        nisa.activate2(
            dst,
            nl.prelu,
            load(a, where),
            imm0,
            imm1,
            op(pair[0]),
            op(pair[1]),
            slope,
            reverse[0],
            reverse[1],
            reduce_op=op(fold),
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
            reduce_res=total,
        )
        return dst, total

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (p, f), BF16), values(rank, (p, 3), F32, 1)]

    for rank, (out, total) in enumerate(run(body, inputs, target="trn3")):
        a, b = inputs(rank)
        imm0, imm1, slope = [b[:, i : i + 1] if vectors[i] else F32(numbers[i]) for i in range(3)]
        x = wide(a)
        for name, operand, swap in zip(pair, (imm0, imm1), reverse, strict=True):
            x = STAGES[name](operand, x) if swap else STAGES[name](x, operand)
        expected = np.where(x < 0, slope * x, x)
        assert_array_equal(out, expected)
        assert_allclose(total, FOLDS[fold](expected), rtol=1e-5, atol=1e-5)


# --- what is refused -------------------------------------------------------------------------------------------------

IDENTITY = (nl.bypass, nl.bypass)
REFUSED = {
    "an ALU op as a function": (lambda: nisa.activation(t(), nl.add, t()), "NKC008", "add"),
    "NumPy's exponential": (lambda: nisa.activation(t(), np.exp, t()), "NKC008", "exp"),
    "a scale of bfloat16": (lambda: nisa.activation(t(), nl.exp, t(), scale=t((4, 1), BF16)), "NKC035", "scale"),
    "a wide bias": (lambda: nisa.activation(t(), nl.exp, t(), bias=t((4, 2))), "NKC033", "(4, 2)"),
    "a bias of other partitions": (lambda: nisa.activation(t(), nl.exp, t(), bias=t((2, 1))), "NKC033", "(2, 1)"),
    "prelu without a slope": (lambda: nisa.activation(t(), nl.prelu, t()), "NKC035", "prelu"),
    "a maximum": (
        lambda: nisa.activation(t(), nl.exp, t(), reduce_op=nl.maximum, reduce_cmd=nisa.reduce_cmd.reset_reduce),
        "NKC035",
        "max",
    ),
    "a fold of nothing": (
        lambda: nisa.activation(t(), nl.exp, t(), reduce_cmd=nisa.reduce_cmd.reset_reduce),
        "NKC035",
        "reduce_op",
    ),
    "load": (
        lambda: nisa.activation(t(), nl.exp, t(), reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.load_reduce),
        "NKC035",
        "load_reduce",
    ),
    "a wide result": (lambda: nisa.activation_reduce(t(), nl.exp, t(), nl.add, t((4, 2))), "NKC033", "(4, 2)"),
    "a command by name": (lambda: nisa.activation(t(), nl.exp, t(), reduce_cmd="reset"), "NKC035", "reduce_cmd"),
    "another size": (lambda: nisa.activation(t(), nl.exp, t((4, 9))), "NKC033", "(4, 9)"),
    "HBM": (lambda: nisa.activation(t(memory=nl.shared_hbm), nl.exp, t()), "NKC030", "shared_hbm"),
    "activate2 before trn3": (lambda: nisa.activate2(t(), nl.exp, t(), 0, 0, *IDENTITY), "BIR530", "40"),
}
REFUSED_ON_TRN1 = {
    "a constant bias": (lambda: nisa.activation(t(), nl.exp, t(), bias=1.0), "NKC035", "bias"),
    "a bias of the reciprocal": (
        lambda: nisa.activation(t(), nl.reciprocal, t(), bias=t((4, 1))),
        "NKC035",
        "reciprocal",
    ),
}
REFUSED_ON_TRN3 = {
    "another pair of operations": (lambda: nisa.activate2(t(), nl.exp, t(), 0, 0, nl.add, nl.add), "NKC035", "add/add"),
    "a reversed bypass": (
        lambda: nisa.activate2(t(), nl.exp, t(), 0, 0, *IDENTITY, reverse0=True),
        "NKC035",
        "reverse0",
    ),
    "operands of two types": (
        lambda: nisa.activate2(t(), nl.exp, t(), t((4, 1)), t((4, 1), BF16), nl.multiply, nl.add),
        "NKC032",
        "imm1",
    ),
    "a product": (
        lambda: nisa.activate2(
            t(), nl.exp, t(), 0, 0, *IDENTITY, reduce_op=nl.multiply, reduce_cmd=nisa.reduce_cmd.reduce
        ),
        "NKC035",
        "mult",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    check_refused(*REFUSED[case], __file__)


@pytest.mark.parametrize("case", REFUSED_ON_TRN1)
def test_what_is_refused_on_trn1(case: str) -> None:
    check_refused(*REFUSED_ON_TRN1[case], __file__, "trn1")


@pytest.mark.parametrize("case", REFUSED_ON_TRN3)
def test_what_is_refused_on_trn3(case: str) -> None:
    check_refused(*REFUSED_ON_TRN3[case], __file__, "trn3")


def test_trn1_takes_no_bias_at_all() -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray(a.shape, F32)
        nisa.activation(dst, nl.reciprocal, load(a), scale=2.0)
        return dst

    for rank, (out,) in enumerate(run(body, lambda rank: [values(rank, (4, 6), F32)], target="trn1")):
        assert_array_equal(out, 1 / (values(rank, (4, 6), F32) * 2))
