"""`nkicc.run`: arguments, structure of the results, shared traces, and what a run refuses."""

import dataclasses
import enum
import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import nkicc
from nkicc import NkiccError, session
from nkicc.ir.program import Level, Module
from nkicc.nki import collectives as ncc
from nkicc.nki import isa as nisa
from nkicc.nki import jit
from nkicc.nki import language as nl


@jit
def double(x: nl.ndarray, factor: float = 2.0) -> nl.ndarray:
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.multiply, factor)
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def x(rank: int = 0, shape: tuple[int, ...] = (4, 6), dtype: Any = np.float32) -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) % 50 + 100 * rank).astype(dtype)


def code_of(kernel: Any, inputs: Any, **options: Any) -> NkiccError:
    with pytest.raises(NkiccError) as caught:
        nkicc.run(kernel, **{"ranks": 2, "inputs": inputs} | options)
    return caught.value


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lnc", [1, 2])
def test_a_function_of_the_rank_gives_each_rank_its_own(lnc: int) -> None:
    result = nkicc.run(double, ranks=5, lnc=lnc, inputs=lambda rank: {"x": x(rank)})
    for rank in range(5):
        assert_array_equal(result.outputs[rank], 2 * x(rank))
        assert_array_equal(result.inputs[rank]["x"], x(rank))
    assert (result.report.ranks, result.report.lnc, result.report.programs) == (5, lnc, 1)


def test_a_dict_is_the_same_on_all_ranks_and_stored_once() -> None:
    result = nkicc.run(double, ranks=1000, inputs={"x": x(), "factor": 3.0})
    assert_array_equal(result.outputs[999], 3 * x())
    assert np.shares_memory(result.outputs[0], result.outputs[999])
    shared = x()
    traced = session.trace(double, ranks=8, inputs=lambda rank: {"x": shared})
    assert traced.inputs[0]["x"].shape == (1, 4, 6)


def test_one_trace_serves_ranks_with_equal_constants() -> None:
    result = nkicc.run(double, ranks=6, inputs=lambda rank: {"x": x(rank), "factor": 1.0 + rank % 2})
    assert [program.ranks for program in result.program.programs] == [(0, 2, 4), (1, 3, 5)]
    for rank in range(6):
        assert_array_equal(result.outputs[rank], x(rank) * (1 + rank % 2))


def test_ranks_may_differ_in_shape() -> None:
    result = nkicc.run(double, ranks=3, inputs=lambda rank: {"x": x(rank, (4, 2 + rank))})
    assert [out.shape for out in result.outputs] == [(4, 2), (4, 3), (4, 4)]
    assert_array_equal(result.outputs[2], 2 * x(2, (4, 4)))


class Layout(enum.Enum):
    wide = 1


@dataclasses.dataclass
class Config(nl.NKIObject):
    scale: float
    steps: list[int]


def test_constants_pass_through() -> None:
    seen: list[dict[str, Any]] = []

    @jit
    def kernel(x: nl.ndarray, group: Any, layout: Any, config: Any, text: str, nothing: Any, pair: Any) -> nl.ndarray:
        seen.append(
            {"group": group, "layout": layout, "config": config, "text": text, "nothing": nothing, "pair": pair}
        )
        return double(x)

    def inputs(rank: int) -> dict[str, Any]:
        return constants() | {"x": x(rank)}

    def constants() -> dict[str, Any]:
        return {
            "group": ncc.ReplicaGroup([[0, 1, 2]]),
            "layout": Layout.wide,
            "config": Config(0.5, [1, 2]),
            "text": "t",
            "nothing": None,
            "pair": (1, [2.0]),
        }

    # Equal values, made anew for each rank, do not split the ranks.
    nkicc.run(kernel, ranks=3, inputs=inputs)
    assert seen == [constants()]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float16", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_every_machine_type_is_an_argument(dtype: Any) -> None:
    @jit
    def copy(x: nl.ndarray) -> nl.ndarray:
        assert x.dtype == np.dtype(dtype)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, x)
        return out

    result = nkicc.run(copy, ranks=2, inputs=lambda rank: {"x": x(0, dtype=dtype)[:, rank:].copy()})
    for rank in range(2):
        assert result.outputs[rank].dtype == np.dtype(dtype)
        assert_array_equal(result.outputs[rank].view(np.uint8), x(0, dtype=dtype)[:, rank:].copy().view(np.uint8))


def test_arrays_of_any_layout_and_byte_order() -> None:
    turned = x(0, (6, 4)).T
    swapped = x().astype(">f4")
    for array in (turned, swapped, x()[::1]):
        assert_array_equal(nkicc.run(double, ranks=2, inputs={"x": array}).outputs[1], 2 * array)


def test_a_kernel_writes_to_its_argument_and_the_callers_array_stays() -> None:
    def kernel(cache: nl.ndarray, x: nl.ndarray) -> None:
        nisa.dma_copy(cache.select(0, ncc.rank_id()), x)

    cache = np.zeros((3, 4, 6), np.float32)
    result = nkicc.run(kernel, ranks=3, inputs=lambda rank: {"cache": cache, "x": x(rank)})
    for rank in range(3):
        expected = np.zeros_like(cache)
        expected[rank] = x(rank)
        assert_array_equal(result.inputs[rank]["cache"], expected)
        assert result.outputs[rank] is None
    assert not cache.any()
    assert cache.flags.writeable


def test_a_tensor_may_be_called_like_an_argument() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        own = nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name="x")
        nisa.dma_copy(own, x)
        return own

    for lnc in (1, 2):
        assert_array_equal(nkicc.run(kernel, ranks=2, lnc=lnc, inputs={"x": x()}).outputs[1], x())


BAD_INPUTS = {
    "missing": ({}, "NKC007", "x"),
    "unknown": ({"x": x(), "y": 1}, "NKC007", "y"),
    "no dict": (3, "NKC007", "int"),
    "a function that gives no dict": (lambda rank: [x()], "NKC007", "list"),
    "a function that raises": (lambda rank: {"x": 1 // rank}, "NKC017", "ZeroDivisionError"),
    "float64": ({"x": x(dtype=np.float64)}, "NKC028", "float64"),
    "complex": ({"x": np.ones((2, 2), np.complex64)}, "NKC028", "complex64"),
    "objects": ({"x": np.array([["a", None]])}, "NKC028", "is object"),
    "a scalar array": ({"x": np.array(3, np.float32)}, "NKC020", "()"),
    "an empty array": ({"x": np.zeros((0, 4), np.float32)}, "NKC020", "(0, 4)"),
    "arrays in a list": ({"x": [x(), x()]}, "NKC007", "container"),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_bad_inputs(case: str) -> None:
    inputs, code, text = BAD_INPUTS[case]
    error = code_of(double, inputs)
    assert error.code == code
    assert text in error.message


# --- results ---------------------------------------------------------------------------------------------------------


def test_results_keep_the_structure_that_the_kernel_returned() -> None:
    def kernel(x: nl.ndarray, kind: str) -> Any:
        out = double(x)
        return {"one": out, "tuple": (out, x), "list": [x, out, out.reshape((24,))[nl.ds(3, 5)]]}[kind]

    def outputs(kind: str) -> Any:
        return nkicc.run(kernel, ranks=2, inputs=lambda rank: {"x": x(rank), "kind": kind}).outputs[1]

    assert_array_equal(outputs("one"), 2 * x(1))
    pair = outputs("tuple")
    assert type(pair) is tuple
    assert_array_equal(pair[0], 2 * x(1))
    assert_array_equal(pair[1], x(1))
    three = outputs("list")
    assert type(three) is list
    assert_array_equal(three[2], 2 * x(1).reshape(24)[3:8])


def test_results_are_read_only() -> None:
    result = nkicc.run(double, ranks=2, inputs=lambda rank: {"x": x(rank)})
    for array in (result.outputs[0], result.inputs[1]["x"]):
        assert not array.flags.writeable
    assert result.penguin.level is Level.penguin
    assert result.program.level is Level.bir
    assert Module.from_json(result.program.to_json()) == result.program
    assert Module.from_json(result.penguin.to_json()) == result.penguin


def returning(value: Any) -> Any:
    def kernel(x: nl.ndarray) -> Any:
        return value(x)

    return kernel


BAD_RETURNS = {
    "a tile": (lambda x: nl.ndarray(x.shape, x.dtype, nl.sbuf), "sbuf"),
    "private HBM": (lambda x: nl.ndarray(x.shape, x.dtype, nl.hbm), "private_hbm"),
    "a number": (lambda x: 3, "int"),
    "a dict": (lambda x: {"x": x}, "dict"),
    "a list in a list": (lambda x: [[x]], "list"),
    "a dynamic view": (lambda x: x.select(0, ncc.rank_id()), "dynamic"),
}


@pytest.mark.parametrize("case", BAD_RETURNS)
def test_bad_results(case: str) -> None:
    value, text = BAD_RETURNS[case]
    error = code_of(returning(value), {"x": x()})
    assert error.code == "NKC010"
    assert text in error.message


def test_the_cores_must_return_the_same() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        return x[nl.program_id()]

    assert code_of(kernel, {"x": x()}, lnc=2).code == "NKC010"


# --- launching -------------------------------------------------------------------------------------------------------


def test_the_grid_is_the_lnc() -> None:
    for lnc in (1, 2):
        assert_array_equal(nkicc.run(double[lnc], ranks=2, lnc=lnc, inputs={"x": x()}).outputs[0], 2 * x())
    assert code_of(double[2], {"x": x()}, lnc=1).code == "NKC011"
    assert code_of(double[1], {"x": x()}, lnc=2).code == "NKC011"
    for grid in (0, (1, 2), "2"):
        with pytest.raises(NkiccError) as caught:
            _ = double[grid]
        assert caught.value.code == "NKC035"


def test_a_kernel_keeps_what_its_function_says_of_itself() -> None:
    assert double.__name__ == "double"
    assert jit()(double.function).__wrapped__ is double.function


BAD_OPTIONS = {
    "ranks": ({"ranks": 0}, "NKC014"),
    "more ranks than any machine": ({"ranks": 10**8}, "NKC014"),
    "ranks as text": ({"ranks": "4"}, "NKC014"),
    "lnc": ({"lnc": 3}, "NKC014"),
    "lnc as a float": ({"lnc": 2.0}, "NKC014"),
    "lnc as a truth": ({"lnc": True}, "NKC014"),
    "target": ({"target": "trn9"}, "NKC006"),
    "two cores on trn1": ({"target": "trn1", "lnc": 2}, "NKC015"),
    "engine": ({"engine": "abacus"}, "NKC006"),
    "a list of engines": ({"engine": ["simulator"]}, "NKC006"),
    "passes as a number": ({"passes": 3}, "NKC006"),
    "path of nothing": ({"path": None}, "NKC006"),
    "release as a number": ({"sdk": 2.33}, "NKC006"),
    "a negative schedule": ({"schedule": -1}, "NKC006"),
    "a negative ring order": ({"ring_order": -1}, "NKC006"),
    "a negative poison": ({"poison": -1}, "NKC006"),
    "passes": ({"passes": "codegen,polish"}, "NKC013"),
    "path": ({"path": "scenic"}, "NKC013"),
    "option": ({"fast": True}, "NKC006"),
    "option of another type": ({"low_precision_as_float32": "yes"}, "NKC006"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options(case: str) -> None:
    options, code = BAD_OPTIONS[case]
    assert code_of(double, {"x": x()}, **options).code == code


def test_numbers_of_numpy_are_numbers() -> None:
    result = nkicc.run(double, ranks=np.int64(2), lnc=np.int32(2), inputs={"x": x()})  # type: ignore[arg-type]
    assert (result.report.ranks, result.report.lnc) == (2, 2)


def test_a_callable_that_does_not_say_what_it_takes() -> None:
    error = code_of(int, {"x": x()})
    assert (error.code, error.message) == ("NKC006", "kernel: no signature found for builtin type <class 'int'>")


def test_a_name_that_is_no_text() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        nisa.memset(nl.ndarray(x.shape, x.dtype), 1.0, name=3)  # type: ignore[arg-type]
        return x

    error = code_of(kernel, {"x": x()})
    assert (error.code, error.operand) == ("NKC035", "name")
    assert error.loc is not None


@pytest.mark.parametrize("value", ["x", None, np.ones(2), [1.0]])
def test_a_fill_value_that_is_no_number(value: Any) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        nl.full(x.shape, value, x.dtype)
        return x

    error = code_of(kernel, {"x": x()})
    assert (error.code, error.operand) == ("NKC035", "fill_value")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, np.float32(2)])
def test_any_number_fills_and_goes_through_json(value: Any) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, nl.full(x.shape, value, x.dtype))
        return out

    result = nkicc.run(kernel, ranks=1, inputs={"x": x()})
    assert_array_equal(result.outputs[0], np.full(x().shape, value, np.float32))
    assert Module.from_json(result.program.to_json()) == result.program


def test_passes_and_path_choose_the_lowering() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        source = nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name="source")
        total = nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name="total")
        nisa.dma_copy(source, x)
        ncc.all_reduce([source], [total], ncc.ReplicaGroup([[0, 1, 2]]), nl.add)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    for options in ({}, {"path": "klr"}, {"passes": "codegen,sync-before-global-cc"}):
        result = nkicc.run(kernel, ranks=3, lnc=2, inputs=lambda rank: {"x": x(rank)}, **options)
        for rank in range(3):
            assert_array_equal(result.outputs[rank], x(0) + x(1) + x(2))


# --- what a kernel raises --------------------------------------------------------------------------------------------


def helper(value: int) -> None:
    assert value > 3, "value must be more than 3"


def test_a_kernels_own_exception_is_reported_at_its_line() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        helper(x.shape[0])
        return x[{}["key"]]

    error = code_of(kernel, {"x": x()})
    assert error.code == "NKC005"
    assert "KeyError" in error.message
    assert isinstance(error.__cause__, KeyError)
    assert error.loc is not None
    assert (error.loc.file, error.loc.line) == (__file__, kernel.__code__.co_firstlineno + 2)


def test_an_exception_in_a_library_is_reported_at_the_kernels_line() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        np.reshape(np.zeros(3), (2, 2))
        return x

    error = code_of(kernel, {"x": x()})
    assert error.loc is not None
    assert error.loc.line == kernel.__code__.co_firstlineno + 1
    assert "raised at" in error.notes[0]


def test_an_unexpected_keyword_is_the_kernels_fault() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        nisa.dma_copy(dst=x, src=x, mask=None)
        return x

    error = code_of(kernel, {"x": x()})
    assert (error.code, error.loc and error.loc.line) == ("NKC005", kernel.__code__.co_firstlineno + 1)


def test_a_refused_instruction_passes_through_with_its_line() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        nisa.tensor_copy(x, x)
        return x

    error = code_of(kernel, {"x": x()})
    assert (error.code, error.loc and error.loc.line) == ("NKC030", kernel.__code__.co_firstlineno + 1)


def test_sbuf_that_overflows_is_refused_with_the_line() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        big = nl.zeros((128, 60_000), nl.float32)
        nisa.dma_copy(x, big[:4, :6])
        return x

    error = code_of(kernel, {"x": x()})
    assert error.code == "NKC026"
    assert error.loc is not None
    assert error.loc.file == __file__


# --- kernels that are no plain functions -----------------------------------------------------------------------------


def test_a_partial_function_is_a_kernel() -> None:
    kernel = functools.partial(double.function, factor=3.0)
    result = nkicc.run(kernel, ranks=2, inputs=lambda rank: {"x": x(rank)})
    assert_array_equal(result.outputs[1], x(1) * 3)


def test_a_kernel_that_is_no_function() -> None:
    assert code_of(5, {}).code == "NKC006"


def test_inputs_that_end_python() -> None:
    def inputs(rank: int) -> dict[str, Any]:
        raise SystemExit(0)

    assert code_of(double, inputs).code == "NKC017"
