"""Registers and scalars against Python's integers on every rank, and what they refuse."""

from collections.abc import Callable
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkicc
from nkicc import NkiccError
from nkicc.ir.program import Module
from nkicc.nki.trace import tracing

from ..helpers import data, tracer
from .moves import RANKS, few, load
from .reference import assert_array_equal

INT64 = np.dtype(np.int64)


def single(value: int, dtype: Any = np.int32) -> np.ndarray:
    return np.array([[value]], dtype)


def wrapped(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


# --- registers -----------------------------------------------------------------------------------------------------


def test_every_way_to_give_a_register_a_value() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        tile, out = load(x), nl.ndarray((1, 6), nl.int32, nl.shared_hbm)
        given_int, given_tile = nisa.register_alloc(5), nisa.register_alloc(tile[0:1, 1:2])
        given_register = nisa.register_alloc(given_tile)
        moved, named, loaded = (nisa.register_alloc() for _ in range(3))
        nisa.register_move(moved, given_register)
        nisa.register_move(named, imm=-7)
        nisa.register_load(loaded, x[0, 2])
        for i, register in enumerate((given_int, given_tile, given_register, moved, named, loaded)):
            nisa.register_store(out[:, i], register)
        return out

    result = nkicc.run(kernel, ranks=RANKS, inputs=lambda rank: {"x": data(rank, (1, 4), np.int32)})
    for rank in range(RANKS):
        x = data(rank, (1, 4), np.int32)[0]
        assert_array_equal(result.outputs[rank], [[5, x[1], x[1], x[1], -7, x[2]]])
    assert Module.from_json(result.program.to_json()) == result.program


@few
@given(
    st.lists(st.integers(-(1 << 31), (1 << 32) - 1), min_size=RANKS, max_size=RANKS),
    st.sampled_from([np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32]),
)
def test_a_store_keeps_the_low_bits(values: list[int], dtype: Any) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((1, 1), dtype, nl.shared_hbm)
        nisa.register_store(out, nisa.register_alloc(x))
        return out

    result = nkicc.run(kernel, ranks=RANKS, inputs=lambda rank: {"x": single(values[rank] & 0xFFFFFFFF, np.uint32)})
    for rank in range(RANKS):
        bits = values[rank] % (1 << 8 * np.dtype(dtype).itemsize)
        assert int(result.outputs[rank][0, 0]) % (1 << 8 * np.dtype(dtype).itemsize) == bits


def test_a_register_without_a_value_stops_the_run_at_its_line() -> None:
    def kernel() -> nl.ndarray:
        out = nl.ndarray((1, 1), nl.int32, nl.shared_hbm)
        nisa.register_store(out, nisa.register_alloc())
        return out

    with pytest.raises(NkiccError) as caught:
        nkicc.run(kernel, ranks=1, inputs={})
    assert caught.value.code == "NKC027"
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


# --- scalars -------------------------------------------------------------------------------------------------------

EXPRESSIONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: -a,
    lambda a, b: 7 - a * 3 + b,
    lambda a, b: 100000 * (a + 1) * (b - 2),
    lambda a, b: a * a * a - 5 * b,
)


@few
@given(st.data(), st.sampled_from([32, 64]), st.sampled_from(range(len(EXPRESSIONS))))
def test_arithmetic_wraps_at_the_width_of_the_tile(draw: st.DataObject, bits: int, which: int) -> None:
    number = st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    values = draw.draw(st.lists(st.tuples(number, number), min_size=RANKS, max_size=RANKS))
    dtype = np.dtype(f"int{bits}")
    expression = EXPRESSIONS[which]

    def kernel(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        result = expression(nisa.scalar_load(load(a)), nisa.scalar_load(b))
        assert result.dtype == dtype
        out = nl.ndarray((1, 1), dtype, nl.shared_hbm)
        nisa.scalar_store(out, result)
        return out

    result = nkicc.run(
        kernel,
        ranks=RANKS,
        inputs=lambda rank: {"a": single(values[rank][0], dtype), "b": single(values[rank][1], dtype)},
    )
    for rank, (a, b) in enumerate(values):
        assert int(result.outputs[rank][0, 0]) == wrapped(expression(a, b), bits)
    assert Module.from_json(result.program.to_json()) == result.program


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_scalar_drives_an_offset(dtype: Any) -> None:
    def kernel(x: nl.ndarray, at: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((2, 3), nl.float32)
        row = nisa.scalar_load(at) * 2 + 1
        nisa.dma_copy(out, x.ap([[3, 2], [1, 3]], scalar_offset=row))
        hbm = nl.ndarray((2, 3), nl.float32, nl.shared_hbm)
        nisa.dma_copy(hbm, out)
        return hbm

    result = nkicc.run(kernel, ranks=RANKS, inputs=lambda rank: {"x": data(rank, (8, 3)), "at": single(rank, dtype)})
    for rank in range(RANKS):
        assert_array_equal(result.outputs[rank], data(rank, (8, 3))[2 * rank + 1 : 2 * rank + 3])


def test_a_scalar_bounds_a_loop() -> None:
    def kernel(at: nl.ndarray) -> nl.ndarray:
        total = nl.zeros((1, 1), nl.int32)

        def body(i: Any) -> None:
            nisa.tensor_scalar(total, total, nl.add, 1)

        nl.fori_loop(0, nisa.scalar_load(at) * 2 + 1, body)
        out = nl.ndarray((1, 1), nl.int32, nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    result = nkicc.run(kernel, ranks=RANKS, inputs=lambda rank: {"at": single(3)})
    for rank in range(RANKS):
        assert_array_equal(result.outputs[rank], [[7]])


# --- refusals --------------------------------------------------------------------------------------------------------


def hbm(*shape: int, dtype: Any = nl.int32) -> nl.ndarray:
    return nl.ndarray(shape or (1, 1), dtype, nl.shared_hbm)


def scalar(dtype: Any = nl.int32) -> Any:
    return nisa.scalar_load(hbm(dtype=dtype))


REFUSED: dict[str, tuple] = {
    "a move of nothing": (lambda: nisa.register_move(nisa.register_alloc()), "NKC035", "None"),
    "more than 32 bits": (lambda: nisa.register_move(nisa.register_alloc(), 1 << 32), "NKC035", "4294967295"),
    "a move into a number": (lambda: nisa.register_move(4, 4), "NKC035", "a register"),
    "a load of two": (lambda: nisa.register_load(nisa.register_alloc(), hbm(1, 2)), "NKC033", "(1, 2)"),
    "a load of floats": (lambda: nisa.register_load(nisa.register_alloc(), hbm(dtype=nl.float32)), "NKC035", "float32"),
    "a load of 64 bits": (lambda: nisa.register_load(nisa.register_alloc(), hbm(dtype=INT64)), "NKC035", "int64"),
    "a load from PSUM": (
        lambda: nisa.register_load(nisa.register_alloc(), nl.ndarray((1, 1), nl.int32, nl.psum)), "NKC030", "psum",
    ),
    "a store of a number": (lambda: nisa.register_store(hbm(), 3), "NKC035", "a register"),
    "a store into two": (lambda: nisa.register_store(hbm(2), nisa.register_alloc(1)), "NKC033", "(2,)"),
    "a store into floats": (
        lambda: nisa.register_store(hbm(dtype=nl.float32), nisa.register_alloc(1)), "NKC035", "float32",
    ),
    "an unsigned scalar": (lambda: scalar(nl.uint32), "NKC035", "uint32"),
    "a scalar of two": (lambda: nisa.scalar_load(hbm(2)), "NKC033", "(2,)"),
    "scalars of two widths": (lambda: scalar() + scalar(INT64), "NKC032", "int64"),
    "a scalar and a float": (lambda: scalar() * 1.5, "NKC035", "1.5"),
    "a scalar and a boolean": (lambda: scalar() * True, "NKC035", "True"),
    "a scalar and a register": (lambda: scalar() + nisa.register_alloc(1), "NKC035", "operand"),
    "a scalar and a tensor": (lambda: scalar() + hbm(), "NKC035", "operand"),
    "a scalar and too large a number": (lambda: scalar() - (1 << 31), "NKC035", "int32"),
    "a comparison": (lambda: scalar() < 3, "NKC110", "has a value only when the program runs"),
    "a division": (lambda: scalar() // 3, "NKC110", "has a value only when the program runs"),
    "a branch": (lambda: bool(scalar()), "NKC110", "has a value only when the program runs"),
    "a store of a constant": (lambda: nisa.scalar_store(hbm(), 3), "NKC035", "NkiScalar"),
    "a store of a register": (lambda: nisa.scalar_store(hbm(), nisa.register_alloc(3)), "NKC035", "NkiScalar"),
    "a store of another width": (lambda: nisa.scalar_store(hbm(dtype=INT64), scalar()), "NKC032", "int64"),
    "a 64-bit offset on chip": (
        lambda: nl.ndarray((4, 8), nl.int32).ap([[8, 4], [1, 2]], scalar_offset=scalar(INT64), indirect_dim=1),
        "NKC025", "int64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    function, code, text = REFUSED[case]
    with pytest.raises(NkiccError) as caught, tracing(tracer()):
        function()
    assert (caught.value.code, text in caught.value.message) == (code, True), caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
