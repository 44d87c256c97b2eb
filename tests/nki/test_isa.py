"""Every instruction of `nki.isa` end to end against NumPy, and what each refuses."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import nkicc
from nkicc import NkiccError
from nkicc.ir import isa, penguin
from nkicc.ir.types import Engine
from nkicc.nki.trace import tracing

from .helpers import data, traced, tracer

RANKS = 3


def load(x: nl.ndarray) -> nl.ndarray:
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    return tile


def store(tile: nl.ndarray) -> nl.ndarray:
    out = nl.ndarray(tile.shape, tile.dtype, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def on_tiles(
    body: Callable[..., nl.ndarray], *shapes: tuple[int, ...], dtype: Any = np.float32, **options: Any
) -> list:
    """Run `body` on one tile per shape, different on each rank: [(what it returned, the arrays it was given), …]."""
    names = "abc"[: len(shapes)]

    def kernel(a: nl.ndarray, b: nl.ndarray = None, c: nl.ndarray = None) -> nl.ndarray:
        return store(body(*[load(x) for x in (a, b, c)[: len(shapes)]]))

    def inputs(rank: int) -> dict[str, np.ndarray]:
        return {
            name: data(3 * rank + i, shape, dtype) for i, (name, shape) in enumerate(zip(names, shapes, strict=True))
        }

    result = nkicc.run(kernel, ranks=RANKS, inputs=inputs, **options)
    return [(result.outputs[rank], [inputs(rank)[name] for name in names]) for rank in range(RANKS)]


def test_dma_copy_casts_in_row_major_order() -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((6, 8), nl.bfloat16)
        nisa.dma_copy(dst=out, src=a.permute((0, 2, 1)))
        return out

    for out, (a,) in on_tiles(body, (6, 2, 4)):
        assert_array_equal(out, a.transpose(0, 2, 1).reshape(6, 8).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("shape", "axes", "order"),
    [
        ((4, 6), None, (1, 0)),
        ((4, 5, 6), None, (2, 1, 0)),
        ((4, 2, 3, 6), None, (3, 1, 2, 0)),
        ((4, 5, 6), (2, 1, 0), (2, 1, 0)),
    ],
)
def test_dma_transpose(shape: tuple[int, ...], axes: Any, order: tuple[int, ...]) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray([shape[axis] for axis in order], a.dtype)
        nisa.dma_transpose(dst=out, src=a, axes=axes)
        return out

    for out, (a,) in on_tiles(body, shape, dtype=np.int16):
        assert_array_equal(out, a.transpose(order))


def test_dma_compute_sums_in_float32() -> None:
    def body(a: nl.ndarray, b: nl.ndarray, c: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray(a.shape, a.dtype)
        nisa.dma_compute(out, [a, b, c], nl.add, scales=[1.0, 1.0, 1.0])
        return out

    for out, arrays in on_tiles(body, (4, 8), (4, 8), (4, 8), dtype=ml_dtypes.bfloat16):
        assert_array_equal(out, sum(x.astype(np.float32) for x in arrays).astype(ml_dtypes.bfloat16))


def test_memset_and_the_constants_of_the_language() -> None:
    def kernel() -> tuple[nl.ndarray, ...]:
        tile = nl.ndarray((4, 8), nl.float32)
        nisa.memset(tile, np.float32(2.5))
        nisa.memset(tile[1:3, ::2], value=-1, engine=nisa.vector_engine)
        return tuple(
            store(t) for t in (tile, nl.zeros_like(tile), nl.ones((2, 3), nl.int32), nl.full((2, 3), 7, nl.int8))
        )

    mixed, zeros, ones, sevens = nkicc.run(kernel, ranks=1, inputs={}).outputs[0]
    expected = np.full((4, 8), 2.5, np.float32)
    expected[1:3, ::2] = -1
    assert_array_equal(mixed, expected)
    assert_array_equal(zeros, np.zeros((4, 8)))
    assert_array_equal(ones, np.ones((2, 3)))
    assert_array_equal(sevens, np.full((2, 3), 7))
    assert (ones.dtype, sevens.dtype) == (nl.int32, nl.int8)


def test_tensor_copy_rounds_half_to_even_and_saturates() -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        halves = nl.ndarray(a.shape, nl.float32)
        nisa.tensor_scalar(halves, a, nl.multiply, 2.5)
        out = nl.ndarray(a.shape, nl.int8)
        nisa.tensor_copy(out, halves)
        return out

    for out, (a,) in on_tiles(body, (4, 8)):
        assert_array_equal(out, np.clip(np.rint(a * 2.5), -128, 127).astype(np.int8))


def test_nc_matmul_overwrites_first_and_adds_then() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        acc = nl.ndarray((6, 8), nl.float32, nl.psum)
        for _ in range(2):
            for k in range(2):
                nisa.nc_matmul(acc, a[:, k * 6 : k * 6 + 6], b[:, k * 8 : k * 8 + 8])
        out = nl.ndarray((6, 8), nl.float32)
        nisa.tensor_copy(out, acc)
        nisa.nc_matmul(acc, a[:, :6], b[:, :8], accumulate=False)
        both = nl.ndarray((6, 16), nl.float32)
        nisa.tensor_copy(both[:, :8], out)
        nisa.tensor_copy(both[:, 8:], acc)
        return both

    for out, (a, b) in on_tiles(body, (10, 12), (10, 16)):
        parts = [a[:, k * 6 : k * 6 + 6].T @ b[:, k * 8 : k * 8 + 8] for k in range(2)]
        assert_array_equal(out[:, :8], 2 * (parts[0] + parts[1]))
        assert_array_equal(out[:, 8:], parts[0])


def test_nc_transpose() -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        turned = nl.ndarray((12, 5), a.dtype, nl.psum)
        nisa.nc_transpose(turned, a)
        out = nl.ndarray((12, 5), a.dtype)
        nisa.tensor_copy(out, turned)
        return out

    for out, (a,) in on_tiles(body, (5, 3, 4), dtype=ml_dtypes.bfloat16):
        assert_array_equal(out, a.reshape(5, 12).T)


def test_registers_move_through_memory() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        tile = load(x)
        start = nisa.register_alloc(5)
        index = nisa.register_alloc()
        nisa.register_load(index, tile[0:1, 2:3])
        nisa.register_move(start, index)
        out = nl.ndarray((1, 2), nl.int32)
        nisa.register_store(out[:, 0:1], start)
        nisa.register_move(start, 9)
        nisa.register_store(out[:, 1:2], start)
        return store(out)

    result = nkicc.run(kernel, ranks=RANKS, inputs=lambda rank: {"x": data(rank, (1, 4), np.int32)})
    for rank in range(RANKS):
        assert_array_equal(result.outputs[rank], [[data(rank, (1, 4), np.int32)[0, 2], 9]])


@pytest.mark.parametrize("engine", list(nisa.dma_engine))
def test_sendrecv_swaps_the_tiles_of_the_two_cores(engine: nisa.dma_engine) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        core, out = nl.program_id(0), nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        mine, theirs = load(x[core]), nl.ndarray(x.shape[1:], x.dtype)
        nisa.sendrecv(mine, theirs, 1 - core, 1 - core, 0, dma_engine=engine)
        nisa.dma_copy(out[core], theirs)
        return out

    result = nkicc.run(kernel, ranks=RANKS, lnc=2, inputs=lambda rank: {"x": data(rank, (2, 8, 16))})
    for rank in range(RANKS):
        assert_array_equal(result.outputs[rank], data(rank, (2, 8, 16))[::-1])
    ops = [inst for inst in result.penguin.programs[0].cores[0].body if isinstance(inst, penguin.SendRecvOp)]
    assert [op.use_gpsimd_dma for op in ops] == [engine is nisa.dma_engine.gpsimd_dma]


def test_core_barrier_is_nothing_at_lnc_1() -> None:
    def kernel() -> nl.ndarray:
        out = nl.zeros((4, 4), nl.float32, nl.shared_hbm)
        nisa.core_barrier(out, (0, 1))
        return out

    assert [type(inst) for inst in nkicc.run(kernel, ranks=1, inputs={}).program.programs[0].cores[0].body] == [
        isa.InstMemset
    ]
    with_barrier = nkicc.run(kernel, ranks=1, lnc=2, inputs={}).penguin.programs[0].cores[1].body
    assert isinstance(with_barrier[-1], penguin.CoreBarrierOp)
    assert (with_barrier[-1].cores, with_barrier[-1].engine) == ((0, 1), Engine.pool)


@pytest.mark.parametrize(("target", "version"), [("trn1", 2), ("trn2", 3), ("trn3", 4)])
def test_get_nc_version(target: str, version: int) -> None:
    found = traced(nisa.get_nc_version, target=target)
    assert found == nisa.nc_version(version)
    assert found >= version
    assert found.name == f"gen{version}"


def test_an_instruction_carries_its_name_engine_and_line() -> None:
    core = tracer()
    with tracing(core):
        tile = nl.ndarray((4, 4), nl.float32)
        nisa.memset(tile, 0.0, engine=nisa.engine.gpsimd, name="clear")
    (inst,) = core.codegen.core_part().body
    assert isinstance(inst, isa.InstMemset)
    assert (inst.name, inst.engine) == ("clear", Engine.pool)
    assert inst.loc is not None
    assert inst.loc.file == __file__


def tile(shape: tuple[int, ...] = (4, 4), dtype: Any = nl.float32, memory: Any = nl.sbuf) -> nl.ndarray:
    return nl.ndarray(shape, dtype, memory)


REFUSED = {
    "an array of the host": (lambda: nisa.dma_copy(tile(), np.zeros((4, 4))), "NKC035", "src"),
    "other element counts": (lambda: nisa.dma_copy(tile(), tile((4, 5))), "NKC039", "16"),
    "DMA from PSUM": (lambda: nisa.dma_copy(tile(), tile(memory=nl.psum)), "NKC030", "psum"),
    "an order of other dimensions": (lambda: nisa.dma_transpose(tile(), tile(), axes=(0, 2)), "NKC035", "axes"),
    "transpose into another shape": (lambda: nisa.dma_transpose(tile((4, 5)), tile()), "NKC033", "dst"),
    "dma_compute with maximum": (lambda: nisa.dma_compute(tile(), [tile()], nl.maximum), "NKC035", "reduce_op"),
    "dma_compute with scales": (lambda: nisa.dma_compute(tile(), [tile()], nl.add, [2.0]), "NKC035", "scales"),
    "dma_compute of 17": (lambda: nisa.dma_compute(tile(), [tile()] * 17, nl.add), "NKC034", "17"),
    "a string as a value": (lambda: nisa.memset(tile(), "0"), "NKC035", "value"),
    "a float into integers": (lambda: nisa.memset(tile(dtype=nl.int32), 0.5), "NKC032", "int32"),
    "compute in HBM": (lambda: nisa.tensor_copy(tile(), tile(memory=nl.hbm)), "NKC030", "private_hbm"),
    "matmul into SBUF": (lambda: nisa.nc_matmul(tile(), tile(), tile()), "NKC030", "dst"),
    "an engine by number": (lambda: nisa.memset(tile(), 0, engine=3), "NKC035", "engine"),
    "a float in a register": (lambda: nisa.register_alloc(1.5), "NKC035", "1.5"),
    "a number as a register": (lambda: nisa.register_load(3, tile((1, 1))), "NKC035", "register"),
    "sendrecv at LNC=1": (lambda: nisa.sendrecv(tile(), tile(), 1, 1, 0), "NKC073", "LNC=1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_an_instruction_refuses(case: str) -> None:
    function, code, text = REFUSED[case]
    core = tracer()
    with pytest.raises(NkiccError) as caught, tracing(core):
        function()
    assert caught.value.code == code
    assert text in caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
    assert core.codegen.core_part().body == ()
