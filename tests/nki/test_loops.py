"""Loops of the device, whose trip counts may differ between ranks."""

from collections.abc import Callable
from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import nkicc
from nkicc import NkiccError
from nkicc.ir.listing import listing
from nkicc.ir.program import InstLoop, InstWhile, Module, walk
from nkicc.lowering import DEFAULT, lower

from .helpers import data, returned, traced

RANKS = 4


def rows_kernel(loop: Callable[[nl.ndarray, Callable[[Any], None]], None]) -> Callable[..., nl.ndarray]:
    """A kernel that copies the rows of x that the loop visits."""

    def kernel(x: nl.ndarray, count: nl.ndarray) -> nl.ndarray:
        out = nl.zeros(x.shape, x.dtype, nl.shared_hbm)
        loop(count, lambda row: nisa.dma_copy(out.select(0, row), x.select(0, row)))
        return out

    return kernel


def check(loop: Any, visited: Callable[[int], range], **options: Any) -> Any:
    """Run with count = 2 * rank + 1 on each rank and compare the rows that it visits."""
    result = nkicc.run(
        rows_kernel(loop),
        ranks=RANKS,
        inputs=lambda rank: {"x": data(rank, (8, 3)), "count": np.array([[2 * rank + 1]], np.int32)},
        **options,
    )
    for rank in range(RANKS):
        expected = np.zeros((8, 3), np.float32)
        for row in visited(2 * rank + 1):
            expected[row] = data(rank, (8, 3))[row]
        assert_array_equal(result.outputs[rank], expected)
    return result


def register(count: nl.ndarray) -> Any:
    found = nisa.register_alloc()
    nisa.register_load(found, count)
    return found


@pytest.mark.parametrize("lnc", [1, 2])
def test_fori_loop(lnc: int) -> None:
    check(lambda count, copy: nl.fori_loop(1, register(count), copy, 2), lambda n: range(1, n, 2), lnc=lnc)
    check(lambda count, copy: nl.fori_loop(lower=0, upper=5, body_fun=copy), lambda n: range(5), lnc=lnc)


@pytest.mark.parametrize("lnc", [1, 2])
def test_dynamic_range(lnc: int) -> None:
    def one(count: nl.ndarray, copy: Any) -> None:
        for row in nl.dynamic_range(register(count)):
            copy(row)

    def three(count: nl.ndarray, copy: Any) -> None:
        for row in nl.dynamic_range(1, register(count), 3):
            copy(row)

    result = check(one, range, lnc=lnc)
    assert [type(i) for i in result.penguin.programs[0].cores[0].body if isinstance(i, InstLoop)] == [InstLoop]
    check(three, lambda n: range(1, n, 3), lnc=lnc)


def test_dynamic_ranges_nest() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.zeros(x.shape, x.dtype, nl.shared_hbm)
        for i in nl.dynamic_range(1, 3):
            for j in nl.dynamic_range(0, 4, 2):
                nisa.dma_copy(out.select(0, i).select(0, 1), x.select(0, i).select(0, 1))
                nisa.dma_copy(out.select(1, j), x.select(1, j))
        return out

    result = nkicc.run(kernel, ranks=2, inputs=lambda rank: {"x": data(rank, (4, 5, 2))})
    for rank in range(2):
        x, expected = data(rank, (4, 5, 2)), np.zeros((4, 5, 2), np.float32)
        expected[1:3, 1], expected[:, 0:4:2] = x[1:3, 1], x[:, 0:4:2]
        assert_array_equal(result.outputs[rank], expected)


def countdown(count: nl.ndarray, copy: Any) -> None:
    """Rows count - 1 down to 0, by a register that the body recomputes in SBUF."""
    left = nl.load(count)

    def body(current: Any) -> Any:
        nisa.tensor_scalar(left, left, nl.subtract, 1)
        row = register(left)
        copy(row)
        return row

    nl.while_loop(register(left), body)


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("passes", ["codegen", DEFAULT])
def test_while_loop(lnc: int, passes: str) -> None:
    result = check(countdown, range, lnc=lnc, passes=passes)
    for module in (result.penguin, result.program):
        assert Module.from_json(module.to_json()) == module
        (loop,) = [i for i in walk(module.programs[0].cores[0].body) if isinstance(i, InstWhile)]
        assert f"InstWhile condition={loop.condition}" in listing(module)


def test_while_loop_that_never_starts() -> None:
    def loop(count: nl.ndarray, copy: Any) -> None:
        start = nisa.register_alloc(0)
        nl.while_loop(start, lambda r: (copy(r), r)[1])

    check(loop, lambda n: range(0))


def test_while_loop_hands_the_condition_by_value() -> None:
    """What the body does to the register that it gets decides nothing but what it returns."""

    def loop(count: nl.ndarray, copy: Any) -> None:
        start = nisa.register_alloc(3)

        def body(current: Any) -> Any:
            copy(current)
            nisa.register_move(current, 7)
            return nisa.register_alloc(0)

        nl.while_loop(start, body)
        copy(start)

    check(loop, lambda n: range(3, 4))


def test_collectives_in_loops_of_equal_trip_counts() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        a = nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name="a")
        b = nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name="b")
        nisa.dma_copy(a, x)
        count = nl.full((1, 1), 3, nl.int32)

        def body(_: Any) -> Any:
            ncc.all_reduce([a], [b], ncc.ReplicaGroup([[0, 1, 2, 3]]), nl.add)
            nisa.dma_copy(a, b)
            nisa.tensor_scalar(count, count, nl.subtract, 1)
            return register(count)

        nl.while_loop(nisa.register_alloc(1), body)
        return returned(a)

    for lnc in (1, 2):
        result = nkicc.run(kernel, ranks=RANKS, lnc=lnc, inputs=lambda rank: {"x": data(rank, (2, 3))})
        expected = 16 * sum(data(rank, (2, 3)) for rank in range(RANKS))
        for rank in range(RANKS):
            assert_array_equal(result.outputs[rank], expected)


def _break(count: nl.ndarray, copy: Any) -> None:
    for row in nl.dynamic_range(register(count)):
        copy(row)
        break


def _break_outer(count: nl.ndarray, copy: Any) -> None:
    for row in nl.dynamic_range(register(count)):
        for _ in nl.dynamic_range(2):
            copy(row)
            break


@pytest.mark.parametrize("loop", [_break, _break_outer])
def test_python_cannot_leave_a_loop_of_the_device(loop: Any) -> None:
    with pytest.raises(NkiccError) as caught:
        check(loop, range)
    assert caught.value.code == "NKC111"
    assert caught.value.loc is not None
    assert loop.__code__.co_firstlineno < caught.value.loc.line <= loop.__code__.co_firstlineno + 2


def _in_order(loop: Callable[[], object]) -> Callable[[], None]:
    def call() -> None:
        with nl.no_reorder():
            loop()

    return call


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a step of 0": (lambda: nl.fori_loop(0, 3, lambda i: None, 0), "NKC035"),
    "a step backwards": (lambda: list(nl.dynamic_range(3, 0, -1)), "NKC035"),
    "a bound that is no integer": (lambda: nl.fori_loop(0, 2.5, lambda i: None), "NKC035"),
    "a condition that is no register": (lambda: nl.while_loop(1, lambda r: r), "NKC035"),
    "a body that returns nothing": (lambda: nl.while_loop(nisa.register_alloc(1), lambda r: None), "NKC035"),
    "python's if": (lambda: nl.while_loop(nisa.register_alloc(1), lambda r: r if r else None), "NKC110"),
    "python's range": (lambda: range(nisa.register_alloc(1)), "NKC110"),
    "fori_loop in no_reorder": (_in_order(lambda: nl.fori_loop(0, 2, lambda i: None)), "NKC008"),
    "while_loop in no_reorder": (_in_order(lambda: nl.while_loop(nisa.register_alloc(1), lambda r: r)), "NKC008"),
    "dynamic_range in no_reorder": (_in_order(lambda: list(nl.dynamic_range(2))), "NKC008"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_loops_refuse(case: str) -> None:
    call, code = REFUSED[case]
    with pytest.raises(NkiccError) as caught:
        traced(call)
    assert caught.value.code == code
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


def test_unrolled_ranges_are_allowed_in_order() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        with nl.no_reorder():
            for row in nl.affine_range(3):
                nisa.dma_copy(x[row], nl.full((1, 2), row, nl.float32))
        return x

    (found,) = nkicc.run(kernel, ranks=1, inputs={"x": np.zeros((3, 2), np.float32)}).outputs
    assert_array_equal(found, [[0, 0], [1, 1], [2, 2]])


def test_a_while_loop_survives_every_pass() -> None:
    traced_ = nkicc.run(
        rows_kernel(countdown),
        ranks=2,
        lnc=2,
        inputs=lambda rank: {"x": data(rank, (8, 3)), "count": np.array([[rank + 1]], np.int32)},
    )
    once = lower(traced_.penguin)
    assert lower(once) == once
