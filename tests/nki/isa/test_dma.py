"""DMA copies, sums and transposes against NumPy on every rank, and the limits of each."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkicc
from nkicc import NkiccError
from nkicc.ir.types import Engine
from nkicc.nki.trace import tracing

from ..helpers import data, tracer
from .moves import RANKS, cast, check, dtypes, few, halves, load, refusal, store, table, tile
from .reference import assert_array_equal

# --- dma_copy ------------------------------------------------------------------------------------------------------


@few
@given(st.data(), dtypes, dtypes)
def test_dma_copy_walks_both_patterns_in_row_major_order(draw: st.DataObject, source: Any, target: Any) -> None:
    counts = draw.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    strides = draw.draw(st.lists(st.integers(0, 5), min_size=len(counts), max_size=len(counts)))
    offset = draw.draw(st.integers(0, 7))
    size = int(np.prod(counts))
    rows = draw.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
    step = draw.draw(st.integers(1, 2))

    def kernel(x: nl.ndarray) -> nl.ndarray:
        tile = nl.zeros((rows, size // rows * step), nl.float32)
        out = nl.ndarray(tile.shape, target)
        nisa.tensor_copy(out, tile)
        nisa.dma_copy(out[:, ::step], x.ap(list(zip(strides, counts, strict=True)), offset=offset))
        return store(out)

    def expected(x: np.ndarray) -> np.ndarray:
        places = [offset + sum(s * i for s, i in zip(strides, index, strict=True)) for index in np.ndindex(*counts)]
        out = np.zeros((rows, size // rows * step), target)
        out[:, ::step] = cast(x[places], target).reshape(rows, -1)
        return out

    check(kernel, lambda rank: {"x": halves(rank, (80,), source)}, expected)


def indices(rank: int, rows: int, limit: int, seed: int, *, unique: bool = False) -> np.ndarray:
    """Row numbers that differ between ranks; from `limit` on they are out of bounds."""
    random = np.random.default_rng([seed, rank])
    return (random.permutation(limit)[:rows] if unique else random.integers(0, limit, rows)).astype(np.int32)[:, None]


@few
@given(st.integers(1, 12), st.integers(0, 99), dtypes, dtypes)
def test_a_gather_leaves_the_rows_alone_that_it_skips(rows: int, seed: int, source: Any, target: Any) -> None:
    limit = 9

    def kernel(table: nl.ndarray, at: nl.ndarray, old: nl.ndarray) -> nl.ndarray:
        out, index = load(old), load(at)
        view = table.ap([[6, rows], [1, 4]], offset=1, vector_offset=index)
        nisa.dma_copy(out, view, oob_mode=nisa.oob_mode.skip)
        return store(out)

    def expected(table: np.ndarray, at: np.ndarray, old: np.ndarray) -> np.ndarray:
        out = old.copy()
        for row, index in enumerate(at[:, 0]):
            if index < limit:
                out[row] = cast(table[index, 1:5], target)
        return out

    def inputs(rank: int) -> dict[str, np.ndarray]:
        # A third is no bfloat16: what stays must stay bit for bit.
        old = (data(rank + 9, (rows, 4)) / 3).astype(target)
        at = indices(rank, rows, limit + 4, seed)
        return {"table": halves(rank, (limit, 6), source), "at": at, "old": old}

    check(kernel, inputs, expected)


@few
@given(st.integers(1, 12), st.integers(0, 99), dtypes)
def test_a_scatter_skips_rows_out_of_bounds(rows: int, seed: int, source: Any) -> None:
    limit = 14

    def kernel(x: nl.ndarray, at: nl.ndarray) -> nl.ndarray:
        out = nl.zeros((limit, 4), nl.bfloat16, nl.shared_hbm)
        nisa.dma_copy(
            out.ap([[4, rows], [1, 3]], vector_offset=load(at)), load(x), None, nisa.oob_mode.skip, nisa.dge_mode.swdge
        )
        return out

    def expected(x: np.ndarray, at: np.ndarray) -> np.ndarray:
        out = np.zeros((limit, 4), ml_dtypes.bfloat16)
        for row, index in enumerate(at[:, 0]):
            if index < limit:
                out[index, :3] = cast(x[row], ml_dtypes.bfloat16)
        return out

    def inputs(rank: int) -> dict[str, np.ndarray]:
        return {"x": halves(rank, (rows, 3), source), "at": indices(rank, rows, limit + 4, seed, unique=True)}

    check(kernel, inputs, expected)


def test_a_copy_from_gathered_to_scattered_rows() -> None:
    rows, limit = 6, 8

    def kernel(table: nl.ndarray, source: nl.ndarray, target: nl.ndarray) -> nl.ndarray:
        out = nl.zeros((limit, 4), nl.float32, nl.shared_hbm)
        nisa.dma_copy(
            out.ap([[4, rows], [1, 4]], vector_offset=load(target)),
            table.ap([[4, rows], [1, 4]], vector_offset=load(source)),
            oob_mode=nisa.oob_mode.skip,
        )
        return out

    def expected(table: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        out = np.zeros((limit, 4), np.float32)
        for a, b in zip(source[:, 0], target[:, 0], strict=True):
            if a < limit and b < limit:
                out[b] = table[a]
        return out

    def inputs(rank: int) -> dict[str, np.ndarray]:
        return {
            "table": data(rank, (limit, 4)),
            "source": indices(rank, rows, limit + 3, 1),
            "target": indices(rank, rows, limit + 3, 2, unique=True),
        }

    check(kernel, inputs, expected)


def test_a_skipped_gather_under_another_shape() -> None:
    def kernel(table: nl.ndarray, at: nl.ndarray) -> nl.ndarray:
        out = nl.zeros((3, 8), nl.float32)
        nisa.dma_copy(out, table.ap([[4, 6], [1, 4]], vector_offset=load(at)), oob_mode=nisa.oob_mode.skip)
        return store(out)

    def expected(table: np.ndarray, at: np.ndarray) -> np.ndarray:
        return np.stack([table[i] if i < 8 else np.zeros(4) for i in at[:, 0]]).reshape(3, 8).astype(np.float32)

    check(kernel, lambda rank: {"table": data(rank, (8, 4)), "at": indices(rank, 6, 12, rank)}, expected)


@pytest.mark.parametrize("columns", [2, 3])
def test_a_tile_of_indices_is_read_column_by_column(columns: int) -> None:
    def kernel(table: nl.ndarray, at: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((128, columns * 2), nl.float32)
        nisa.dma_copy(out, table.ap([[2, 128 * columns], [1, 2]], vector_offset=load(at)))
        return store(out)

    def inputs(rank: int) -> dict[str, np.ndarray]:
        at = np.random.default_rng(rank).integers(0, 50, (128, columns)).astype(np.uint32)
        return {"table": data(rank, (50, 2)), "at": at}

    check(kernel, inputs, lambda table, at: table[at.T.flatten()].reshape(128, -1))


@pytest.mark.parametrize("form", ["register", "tile"])
@pytest.mark.parametrize("mode", [nisa.oob_mode.error, nisa.oob_mode.skip])
@pytest.mark.parametrize("side", ["src", "dst"])
def test_a_scalar_offset_that_differs_between_ranks(form: str, mode: nisa.oob_mode, side: str) -> None:
    def kernel(x: nl.ndarray, at: nl.ndarray) -> nl.ndarray:
        offset = load(at)
        if form == "register":
            offset = nisa.register_alloc(offset)
        if side == "src":
            out = nl.zeros((2, 3), nl.bfloat16)
            nisa.dma_copy(out, x.ap([[3, 2], [1, 3]], scalar_offset=offset), oob_mode=mode)
            return store(out)
        out = nl.zeros(x.shape, nl.bfloat16, nl.shared_hbm)
        nisa.dma_copy(out.ap([[3, 2], [1, 3]], scalar_offset=offset), load(x[:2]), oob_mode=mode)
        return out

    def expected(x: np.ndarray, at: np.ndarray) -> np.ndarray:
        row = int(at[0, 0])
        out = np.zeros((2, 3) if side == "src" else x.shape, ml_dtypes.bfloat16)
        if row + 2 <= len(x):
            if side == "src":
                return x[row : row + 2].astype(ml_dtypes.bfloat16)
            out[row : row + 2] = x[:2].astype(ml_dtypes.bfloat16)
        return out

    def inputs(rank: int) -> dict[str, np.ndarray]:
        row = 2 + 2 * rank if mode is nisa.oob_mode.skip else 2 + rank
        return {"x": data(rank, (6, 3)), "at": np.array([[row]], np.int32)}

    check(kernel, inputs, expected)


def test_an_index_out_of_bounds_names_the_rank_and_the_line() -> None:
    def kernel(table: nl.ndarray, at: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((3, 4), nl.float32)
        nisa.dma_copy(out, table.ap([[4, 3], [1, 4]], vector_offset=load(at)))
        return store(out)

    def inputs(rank: int) -> dict[str, np.ndarray]:
        return {"table": data(rank, (8, 4)), "at": np.array([[0], [1], [9 if rank == 2 else 2]], np.int32)}

    with pytest.raises(NkiccError) as caught:
        nkicc.run(kernel, ranks=RANKS, inputs=inputs)
    assert (caught.value.code, caught.value.rank) == ("NKC102", 2)
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


def test_every_release_reads_its_own_positional_arguments() -> None:
    def kernel(x: nl.ndarray, at: nl.ndarray) -> tuple[nl.ndarray, ...]:
        skip, sync = nisa.oob_mode.skip, nisa.engine.sync
        outs = [nl.zeros((4, 4), nl.float32) for _ in range(4)]
        rows = x.ap([[4, 4], [1, 4]], vector_offset=load(at))
        nisa.dma_copy(outs[0], rows, skip, nisa.dge_mode.swdge)  # 2.29
        nisa.dma_copy(outs[1], rows, 2, skip, nisa.dge_mode.swdge)  # 2.30
        nisa.dma_copy(outs[2], x[:4], nisa.oob_mode.error, nisa.dge_mode.hwdge, sync)
        nisa.dma_copy(outs[3], x[:4], nisa.oob_mode.error, dge_mode=nisa.dge_mode.hwdge, engine=sync)
        nisa.dma_copy(outs[3], x[:4], nl.add, nisa.oob_mode.error, nisa.dge_mode.unknown, True)  # 2.28
        nisa.dma_copy(outs[3], x[4:8], dst_rmw_op=nl.add)
        return tuple(store(out) for out in outs)

    def inputs(rank: int) -> dict[str, np.ndarray]:
        return {"x": data(rank, (8, 4)), "at": np.array([[1], [9], [rank], [8]], np.uint32)}

    result = nkicc.run(kernel, ranks=RANKS, inputs=inputs)
    for rank, (first, second, third, fourth) in enumerate(result.outputs):
        x = inputs(rank)["x"]
        gathered = np.stack([x[1], np.zeros(4), x[rank], np.zeros(4)])
        for out, expected in zip(
            (first, second, third, fourth), (gathered, gathered, x[:4], 2 * x[:4] + x[4:]), strict=True
        ):
            assert_array_equal(out, expected)
    dge = [(i.dge.value, i.engine) for i in result.penguin.programs[0].cores[0].body if getattr(i, "dge", None)]
    assert dge[1:5] == [
        ("swdge", Engine.unassigned), ("swdge", Engine.unassigned), ("hwdge", Engine.sp), ("hwdge", Engine.sp)
    ]  # fmt: skip


# --- dma_compute ---------------------------------------------------------------------------------------------------


@few
@given(st.lists(dtypes, min_size=1, max_size=5), dtypes)
def test_dma_compute_sums_in_float32_and_rounds_once(sources: list, target: Any) -> None:
    def kernel(**arrays: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((3, 5), target)
        nisa.dma_compute(out, [load(x) for x in arrays.values()], nl.add, scales=[1.0] * len(arrays))
        return store(out)

    def sums(**arrays: np.ndarray) -> np.ndarray:
        total = np.float32(0)
        for x in arrays.values():
            total = total + x.astype(np.float32)
        return cast(total, target)

    names = "abcde"[: len(sources)]
    namespace: dict[str, Any] = {"inner": kernel}
    exec(f"def kernel({', '.join(names)}): return inner({', '.join(f'{n}={n}' for n in names)})", namespace)

    def inputs(rank: int) -> dict[str, np.ndarray]:
        return {n: halves(7 * rank + i, (3, 5), d) for i, (n, d) in enumerate(zip(names, sources, strict=True))}

    check(namespace["kernel"], inputs, sums)


@few
@given(st.integers(1, 8), st.integers(0, 99), st.booleans(), st.booleans())
def test_dma_compute_adds_to_rows_and_rows_to_a_tile(rows: int, seed: int, scatters: bool, first: bool) -> None:
    limit = 10

    def kernel(table: nl.ndarray, at: nl.ndarray, x: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray(table.shape, table.dtype, nl.shared_hbm)
        nisa.dma_copy(out, table)
        tile, view = load(x), out.ap([[4, rows], [1, 4]], vector_offset=load(at))
        nisa.dma_compute(
            view if scatters else tile, [view, tile] if first else [tile, view], nl.add, oob_mode=nisa.oob_mode.skip
        )
        return out if scatters else store(tile)

    def expected(table: np.ndarray, at: np.ndarray, x: np.ndarray) -> np.ndarray:
        out, tile = table.astype(np.float32), x.copy()
        for row, index in enumerate(at[:, 0]):
            if index < limit:
                tile[row] += table[index].astype(np.float32)
                out[index] += x[row]
        return out.astype(table.dtype) if scatters else tile

    def inputs(rank: int) -> dict[str, np.ndarray]:
        return {
            "table": halves(rank, (limit, 4), ml_dtypes.bfloat16),
            "at": indices(rank, rows, limit + 4, seed, unique=scatters),
            "x": data(rank + 5, (rows, 4)) / 3,
        }

    check(kernel, inputs, expected)


def test_rows_to_add_to_must_differ_on_every_rank() -> None:
    def kernel(x: nl.ndarray, at: nl.ndarray) -> nl.ndarray:
        out = nl.zeros((8, 4), nl.float32, nl.shared_hbm)
        rows = out.ap([[4, 3], [1, 4]], vector_offset=load(at))
        nisa.dma_compute(rows, [rows, load(x)], nl.add, oob_mode=nisa.oob_mode.skip)
        return out

    def inputs(rank: int, last: int) -> dict[str, np.ndarray]:
        # Equal rows out of bounds are no rows.
        return {"x": data(rank, (3, 4)), "at": np.array([[9], [5], [last if rank == 1 else 9]], np.int32)}

    check(
        kernel,
        lambda rank: inputs(rank, 6),
        lambda x, at: np.stack([x[1] if r == 5 else x[2] if r == at[2, 0] else np.zeros(4) for r in range(8)]),
    )
    with pytest.raises(NkiccError) as caught:
        nkicc.run(kernel, ranks=RANKS, inputs=lambda rank: inputs(rank, 5))
    assert (caught.value.code, caught.value.rank) == ("NKC109", 1)
    assert "index 5" in caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


# --- dma_transpose -------------------------------------------------------------------------------------------------

ORDERS = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


@few
@given(st.lists(st.integers(1, 6), min_size=2, max_size=4), dtypes, st.booleans(), st.booleans())
def test_dma_transpose(shape: list[int], dtype: Any, on_chip: bool, default: bool) -> None:
    order = ORDERS[len(shape)]

    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray([shape[axis] for axis in order], dtype)
        nisa.dma_transpose(dst=out, src=load(x) if on_chip else x, axes=None if default else order)
        return store(out)

    check(kernel, lambda rank: {"x": data(rank, tuple(shape), dtype)}, lambda x: x.transpose(order))


def test_dma_transpose_of_patterns_with_unit_dimensions() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.zeros((5, 12), nl.float32)
        nisa.dma_transpose(out.ap([[12, 5], [1, 1], [1, 1], [1, 8]]), x.ap([[7, 8], [1, 1], [1, 1], [1, 5]], offset=2))
        return store(out)

    def expected(x: np.ndarray) -> np.ndarray:
        out = np.zeros((5, 12), np.float32)
        out[:, :8] = x[:, 2:].T
        return out

    check(kernel, lambda rank: {"x": data(rank, (8, 7))}, expected)


@pytest.mark.parametrize(("rows", "columns"), [(16, 1), (48, 1), (128, 1), (128, 2)])
@pytest.mark.parametrize("skip", [False, True])
def test_dma_transpose_gathers_rows(rows: int, columns: int, skip: bool) -> None:
    count = rows * columns

    def kernel(table: nl.ndarray, at: nl.ndarray) -> nl.ndarray:
        out = nl.zeros((6, count), nl.bfloat16)
        nisa.dma_transpose(
            out,
            table.ap([[6, count], [1, 6]], vector_offset=load(at)),
            axes=(1, 0),
            dge_mode=nisa.dge_mode.swdge,
            oob_mode=nisa.oob_mode.skip if skip else nisa.oob_mode.error,
        )
        return store(out)

    def inputs(rank: int) -> dict[str, np.ndarray]:
        at = np.random.default_rng(rank).integers(0, 50 if skip else 40, (rows, columns)).astype(np.uint32)
        return {"table": data(rank, (40, 6), ml_dtypes.bfloat16), "at": at}

    def expected(table: np.ndarray, at: np.ndarray) -> np.ndarray:
        flat = at.T.flatten()
        out = np.zeros((6, count), ml_dtypes.bfloat16)
        out[:, flat < 40] = table[flat[flat < 40]].T
        return out

    check(kernel, inputs, expected)


def test_dma_transpose_of_gathered_blocks() -> None:
    """More indices than rows: the first ones count."""

    def kernel(table: nl.ndarray, at: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((4, 1, 3, 16), nl.float16)
        view = table.ap([[12, 16], [12, 1], [4, 3], [1, 4]], vector_offset=load(at))
        nisa.dma_transpose(out, view, axes=(3, 1, 2, 0))
        return store(out)

    def inputs(rank: int) -> dict[str, np.ndarray]:
        at = np.random.default_rng(rank).integers(0, 9, (32, 1)).astype(np.uint32)
        return {"table": data(rank, (9, 1, 3, 4), np.float16), "at": at}

    check(kernel, inputs, lambda table, at: table[at[:16, 0]].transpose(3, 1, 2, 0))


# --- refusals ---


def rows(x: nl.ndarray, count: int, index: nl.ndarray | None = None) -> nl.ndarray:
    width = x.size // x.shape[0]
    at = tile(count, 1, dtype=nl.uint32) if index is None else index
    return x.ap([[width, count], [1, width]], vector_offset=at)


def one_row(x: nl.ndarray) -> nl.ndarray:
    return x.ap([[4, 4], [1, 4]], scalar_offset=tile(1, 1, dtype=nl.int32))


HWDGE, SWDGE, NONE = nisa.dge_mode.hwdge, nisa.dge_mode.swdge, nisa.dge_mode.none
BF16 = nl.bfloat16


def transpose(*shape: int, dtype: Any = BF16, **options: Any) -> None:
    order = ORDERS[len(shape)]
    nisa.dma_transpose(tile(*[shape[axis] for axis in order], dtype=dtype), table(*shape, dtype=dtype), **options)


def gather_transpose(count: int = 16, width: int = 8, dtype: Any = BF16, index: Any = None, **options: Any) -> None:
    nisa.dma_transpose(tile(width, count, dtype=dtype), rows(table(20, width, dtype=dtype), count, index), **options)


def read_modify_write(*others: nl.ndarray, **options: Any) -> None:
    view = rows(table(), 4)
    nisa.dma_compute(view, [view, *others], nl.add, **options)


REFUSED: dict[str, tuple] = {
    "a copy to PSUM": (lambda: nisa.dma_copy(tile(memory=nl.psum), table(4, 4)), "NKC030", "psum"),
    "a copy of other size": (lambda: nisa.dma_copy(tile(), table()), "NKC039", "32 and 16"),
    "a priority": (lambda: nisa.dma_copy(tile(), tile(), 4), "NKC035", "0 to 3"),
    "a mode of another kind": (lambda: nisa.dma_copy(tile(), tile(), dge_mode=1), "NKC035", "dge_mode"),
    "hwdge with a cast": (lambda: nisa.dma_copy(tile(dtype=BF16), tile(), dge_mode=HWDGE), "NKC032", "bfloat16"),
    "hwdge with a gather": (lambda: nisa.dma_copy(tile(), rows(table(), 4), dge_mode=HWDGE), "NKC035", "hwdge"),
    "none with a scatter": (lambda: nisa.dma_copy(rows(table(), 4), tile(), dge_mode=NONE), "NKC035", "none"),
    "an engine without hwdge": (lambda: nisa.dma_copy(tile(), tile(), engine=nisa.engine.sync), "NKC035", "hwdge"),
    "hwdge on gpsimd": (
        lambda: nisa.dma_copy(tile(), tile(), dge_mode=HWDGE, engine=nisa.engine.gpsimd), "BIR606", "SP or Activation",
    ),
    "more indices than rows": (
        lambda: nisa.dma_copy(tile(), rows(table(), 4, tile(5, 1, dtype=nl.int32))), "NKC025", "5 indices for 4 rows",
    ),
    "a scatter by columns": (
        lambda: nisa.dma_copy(rows(table(), 256, tile(128, 2, dtype=nl.int32)), tile(128, 8)), "NKC035", "(P, 1)",
    ),
    "a gather by short columns": (
        lambda: nisa.dma_copy(tile(), rows(table(), 4, tile(2, 2, dtype=nl.int32))), "NKC035", "(128, M)",
    ),
    "a gather by columns with a cast": (
        lambda: nisa.dma_copy(tile(128, 8, dtype=BF16), rows(table(), 256, tile(128, 2, dtype=nl.int32))),
        "NKC032", "bfloat16",
    ),
    "a gather by columns into a part": (
        lambda: nisa.dma_copy(tile(128, 9)[:, :8], rows(table(), 256, tile(128, 2, dtype=nl.int32))),
        "NKC035", "contiguous",
    ),
    "dst_rmw_op maximum": (lambda: nisa.dma_copy(tile(), tile(), dst_rmw_op=nl.maximum), "NKC035", "nl.add"),
    "dst_rmw_op that skips": (
        lambda: nisa.dma_copy(tile(), tile(), dst_rmw_op=nl.add, oob_mode=nisa.oob_mode.skip), "NKC035", "oob_mode",
    ),
    "no sources": (lambda: nisa.dma_compute(tile(), [], nl.add), "NKC034", "1 to 16"),
    "a source that is no list": (lambda: nisa.dma_compute(tile(), tile(), nl.add), "NKC035", "a list"),
    "too few scales": (lambda: nisa.dma_compute(tile(), [tile(), tile()], nl.add, [1.0]), "NKC035", "scales"),
    "a scale": (lambda: nisa.dma_compute(tile(), [tile()], scales=[0.5], reduce_op=nl.add), "NKC035", "scales"),
    "a product": (lambda: nisa.dma_compute(tile(), [tile()], nl.multiply), "NKC035", "nl.add"),
    "a sum in PSUM": (lambda: nisa.dma_compute(tile(), [tile(memory=nl.psum)], nl.add), "NKC030", "psum"),
    "a scalar_offset in a sum": (lambda: nisa.dma_compute(tile(), [one_row(table())], nl.add), "NKC035", "scalar"),
    "rows and nothing": (lambda: read_modify_write(), "NKC034", "exactly 2"),
    "rows and two tiles": (lambda: read_modify_write(tile(), tile()), "NKC034", "exactly 2"),
    "rows and a tensor in HBM": (lambda: read_modify_write(table(4, 4)), "NKC030", "sbuf"),
    "rows that may repeat": (lambda: read_modify_write(tile(), unique_indices=False), "NKC035", "unique_indices"),
    "rows added to another tile": (
        lambda: nisa.dma_compute(tile(), [tile(), rows(table(), 4)], nl.add), "NKC035", "dst itself",
    ),
    "rows added to HBM": (
        lambda: (lambda out: nisa.dma_compute(out, [out, rows(table(), 4)], nl.add))(table(4, 4)), "NKC030", "sbuf",
    ),
    "axes of another order": (lambda: nisa.dma_transpose(tile(5, 6, 4), tile(4, 5, 6), (1, 2, 0)), "NKC035", "axes"),
    "axes of a name": (lambda: nisa.dma_transpose(tile(), tile(), ("p", "f")), "NKC035", "axes"),
    "a transpose of five dimensions": (
        lambda: nisa.dma_transpose(tile(1, 1, 1, 1, 1), table(1, 1, 1, 1, 1)), "NKC035", "axes",
    ),
    "a transpose into HBM": (lambda: nisa.dma_transpose(table(4, 8), table()), "NKC030", "sbuf"),
    "a transpose from PSUM": (lambda: nisa.dma_transpose(tile(), tile(memory=nl.psum)), "NKC030", "psum"),
    "a transpose into another rank": (lambda: nisa.dma_transpose(tile(4, 1, 8), table()), "NKC033", "(4, 8)"),
    "a transpose with a cast": (lambda: nisa.dma_transpose(tile(4, 8, dtype=BF16), table()), "NKC032", "bfloat16"),
    "a transpose by swdge": (lambda: transpose(16, 8, dge_mode=SWDGE), "NKC035", "dge_mode"),
    "a transpose that skips nothing": (lambda: transpose(16, 8, oob_mode=nisa.oob_mode.skip), "NKC035", "oob_mode"),
    "hwdge of 15 rows": (lambda: transpose(15, 8, dge_mode=HWDGE), "NKC035", "first extent 16"),
    "hwdge of 3 planes": (lambda: transpose(3, 16, 8, dge_mode=HWDGE), "NKC035", "1, 2, 4, 8 or 16"),
    "hwdge of 2 by 4": (lambda: transpose(2, 4, 8, dge_mode=HWDGE), "NKC035", "multiple of 16"),
    "hwdge of 4 bytes": (lambda: transpose(16, 8, dtype=nl.float32, dge_mode=HWDGE), "NKC035", "2 bytes"),
    "a gathering transpose by hwdge": (lambda: gather_transpose(dge_mode=HWDGE), "NKC035", "swdge"),
    "a gathering transpose of 8 rows": (lambda: gather_transpose(8), "NKC035", "multiple of 16"),
    "a gathering transpose of 4 bytes": (lambda: gather_transpose(dtype=nl.float32), "NKC035", "2 bytes"),
    "a gathering transpose by few indices": (
        lambda: gather_transpose(16, index=tile(8, 2, dtype=nl.uint32)), "NKC035", "16 to 128",
    ),
    "a gathering transpose by short columns": (
        lambda: gather_transpose(32, index=tile(16, 2, dtype=nl.uint32)), "NKC035", "128 for several",
    ),
    "a gathering transpose by int32": (
        lambda: gather_transpose(index=tile(16, 1, dtype=nl.int32)), "NKC035", "uint32",
    ),
    "a gathering transpose of blocks": (
        lambda: nisa.dma_transpose(
            tile(4, 2, 2, 16, dtype=BF16),
            table(20, 2, 2, 4, dtype=BF16).ap(
                [[16, 16], [8, 2], [4, 2], [1, 4]], vector_offset=tile(16, 1, dtype=nl.uint32)
            ),
        ),
        "NKC035", "middle two",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    refusal(*REFUSED[case])


@pytest.mark.parametrize(
    "function",
    [
        lambda: nisa.dma_copy(tile(), tile(), dge_mode=HWDGE),
        lambda: transpose(16, 8, dge_mode=HWDGE),
        lambda: gather_transpose(),
    ],
    ids=["copy", "transpose", "gathering transpose"],
)
def test_what_trn1_refuses(function: Callable[[], None]) -> None:
    refusal(function, "BIR530", "30 or greater", target="trn1")
    with tracing(tracer(target="trn2")):
        function()
