"""`.ap()`: addresses of the documented formula, and the patterns that are refused."""

import re
from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkicc
from nkicc import NkiccError
from nkicc.ir.access import AccessPattern

from .helpers import elements, traced


def address(access: AccessPattern, index: tuple[int, ...], scalar: int = 0) -> int:
    """Where an element of a pattern with a scalar offset of that value is."""
    moves = sum(i * stride for i, (stride, _) in zip(index, access.pattern, strict=True))
    return access.offset + moves + scalar * access.indirect_stride


@pytest.mark.parametrize(
    ("shape", "memory", "pattern", "offset", "scalar", "dim", "index", "expected"),
    [
        ((16, 16), nl.sbuf, [[16, 16], [1, 8]], 8, None, 0, (3, 2), 58),
        ((512, 512), nl.hbm, [[512, 128], [1, 256]], 0, 384, 0, (2, 5), 197_637),
        ((4, 2, 3), nl.hbm, [[3, 2], [1, 3]], None, 2, 0, (1, 1), 16),
        ((1, 7), nl.hbm, [[1, 1], [1, 1]], None, 5, 1, (0, 0), 5),
        ((4, 2, 2, 256, 1024), nl.shared_hbm, [[1024, 128], [1, 512]], 655_872, 3, 0, (5, 7), 3_806_727),
        (
            (2, 1, 8, 1, 64),
            nl.shared_hbm,
            [(512, 2), (512, 1), (64, 4), (64, 1), (1, 64)],
            0,
            4,
            2,
            (1, 0, 2, 0, 7),
            903,
        ),
    ],
)
def test_addresses(
    shape: tuple[int, ...],
    memory: Any,
    pattern: list,
    offset: int | None,
    scalar: int | None,
    dim: int,
    index: tuple[int, ...],
    expected: int,
) -> None:
    def view() -> nl.ndarray:
        register = None if scalar is None else nisa.register_alloc()
        return nl.ndarray(shape, nl.float32, memory).ap(pattern, offset, scalar_offset=register, indirect_dim=dim)

    access = traced(view).__access__()
    assert access.shape == tuple(count for _, count in pattern)
    assert address(access, index, scalar or 0) == expected


def test_another_dtype_counts_its_own_elements() -> None:
    def tail() -> nl.ndarray:
        table = nl.ndarray((32, 2882), nl.bfloat16, nl.shared_hbm)
        return table.ap([[1441, 32], [1, 1]], offset=1440, dtype=nl.int32)

    view = traced(tail)
    assert view.dtype == nl.int32
    assert elements(view)[31, 0] == 1440 + 1441 * 31

    tile = traced(lambda: nl.ndarray((128, 256), nl.int32, nl.sbuf).ap([[512, 128], [1, 512]], dtype=nl.bfloat16))
    assert elements(tile)[3, 511] == 3 * 512 + 511


def test_a_row_stays_a_row_in_another_dtype() -> None:
    def row() -> nl.ndarray:
        table = nl.ndarray((8, 6), nl.float32, nl.shared_hbm)
        return table.ap([[1, 12]], scalar_offset=nisa.register_alloc(), dtype=nl.bfloat16)

    assert traced(row).__access__().indirect_stride == 12


def test_vector_offset_gathers_rows() -> None:
    def gather(table: nl.ndarray, rows: nl.ndarray) -> nl.ndarray:
        index = nl.ndarray((3, 1), nl.int32, nl.sbuf)
        nisa.dma_copy(index, rows)
        out = nl.ndarray((3, 4), nl.float32, nl.shared_hbm)
        # The leading stride is not looked at.
        nisa.dma_copy(out, table.ap([[99, 3], [1, 4]], offset=1, vector_offset=index))
        return out

    table = np.arange(60, dtype=np.float32).reshape(10, 6)
    rows = [np.array([[7], [0], [9]], np.int32), np.array([[1], [1], [5]], np.int32)]
    result = nkicc.run(gather, ranks=2, inputs=lambda rank: {"table": table + rank, "rows": rows[rank]})
    for rank in range(2):
        np.testing.assert_array_equal(result.outputs[rank], (table + rank)[rows[rank][:, 0], 1:5])


def test_a_register_selects_and_slices() -> None:
    def pick(table: nl.ndarray) -> tuple[nl.ndarray, ...]:
        rank = ncc.rank_id()
        first = nl.ndarray((5, 6), nl.float32, nl.shared_hbm)
        second = nl.ndarray((2, 2, 6), nl.float32, nl.shared_hbm)
        nisa.dma_copy(first, table.select(0, rank))
        nisa.dma_copy(second, table[:2, nl.ds(rank, 2)])
        return first, second

    table = np.arange(90, dtype=np.float32).reshape(3, 5, 6)
    result = nkicc.run(pick, ranks=3, inputs={"table": table})
    for rank in range(3):
        first, second = result.outputs[rank]
        np.testing.assert_array_equal(first, table[rank])
        np.testing.assert_array_equal(second, table[:2, rank : rank + 2])


def skip_rows(mode: nisa.oob_mode) -> Any:
    def kernel(table: nl.ndarray) -> nl.ndarray:
        out = nl.zeros((1, 6), nl.float32, nl.shared_hbm)
        nisa.dma_copy(out, table.select(0, ncc.rank_id()).reshape((1, 6)), oob_mode=mode)
        return out

    return nkicc.run(kernel, ranks=4, inputs={"table": np.ones((3, 6), np.float32)}).outputs


def test_an_offset_out_of_bounds_stops_the_run_or_skips() -> None:
    with pytest.raises(NkiccError) as caught:
        skip_rows(nisa.oob_mode.error)
    assert caught.value.code == "NKC102"
    assert [float(out.sum()) for out in skip_rows(nisa.oob_mode.skip)] == [6, 6, 6, 0]


def hbm() -> nl.ndarray:
    return nl.ndarray((8, 4), nl.float32, nl.shared_hbm)


def tile() -> nl.ndarray:
    return nl.ndarray((16, 32), nl.float32, nl.sbuf)


REFUSED = {
    "past the end": (lambda: hbm().ap([[4, 8], [1, 5]]), "NKC024", "32"),
    "before the start": (lambda: hbm().ap([[4, 8], [1, 4]], offset=-1), "NKC024", "-1"),
    "an empty pattern": (lambda: hbm().ap([]), "NKC025", "at least 1"),
    "a count of zero": (lambda: hbm().ap([[4, 0], [1, 4]]), "NKC025", "at least 1"),
    "a pair of three": (lambda: hbm().ap([[4, 8, 1]]), "NKC025", "stride, count"),
    "a stride that skips partitions": (lambda: tile().ap([[64, 8], [1, 32]]), "NKC025", "32 elements"),
    "a free pattern past the partition": (lambda: tile().ap([[32, 8], [1, 32]], offset=8), "NKC025", "which has 32"),
    "a view that starts elsewhere": (lambda: hbm()[1:].ap([[4, 7], [1, 4]]), "NKC025", "does not start"),
    "both offsets": (
        lambda: hbm().ap([[4, 1], [1, 4]], scalar_offset=nisa.register_alloc(), vector_offset=tile()),
        "NKC025",
        "exclude each other",
    ),
    "a float tile as an offset": (
        lambda: hbm().ap([[4, 1], [1, 4]], scalar_offset=nl.ndarray((1, 1), nl.float32)),
        "NKC025",
        "tile of integers",
    ),
    "a number as an offset": (lambda: hbm().ap([[4, 1], [1, 4]], scalar_offset=2), "NKC025", "takes a register"),
    "indices for another number of rows": (
        lambda: hbm().ap([[4, 3], [1, 4]], vector_offset=nl.ndarray((2, 1), nl.int32)),
        "NKC025",
        "2 indices for 3 rows",
    ),
    "a vector offset on chip": (
        lambda: tile().ap([[32, 2], [1, 4]], vector_offset=nl.ndarray((2, 1), nl.int32)),
        "NKC025",
        "in HBM",
    ),
    "two dynamic indices": (
        lambda: hbm()[nisa.register_alloc(), nisa.register_alloc()],
        "NKC025",
        "one dynamic index",
    ),
    "a dynamic partition": (lambda: tile()[nisa.register_alloc()], "NKC025", "partition dimension"),
    "ap of a dynamic view": (lambda: hbm()[nisa.register_alloc()].ap([[1, 4]]), "NKC025", "does not start"),
    "rows of a view that is not dense": (
        lambda: hbm()[:, :2].ap([[1, 2]], scalar_offset=nisa.register_alloc()),
        "NKC025",
        "not dense",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_patterns_are_refused_at_the_line_of_the_kernel(case: str) -> None:
    function, code, text = REFUSED[case]
    with pytest.raises(NkiccError) as caught:
        traced(function)
    assert caught.value.code == code
    assert re.search(text, caught.value.message)
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


OPERATIONS = {
    "truth": bool,
    "int": int,
    "index": lambda register: [1, 2][register],
    "range": range,
    "sum": lambda register: register + 1,
    "product": lambda register: 2 * register,
    "remainder": lambda register: register % 2,
    "comparison": lambda register: register == 0,
    "order": lambda register: register < 2,
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_register_has_no_value_in_python(operation: str) -> None:
    with pytest.raises(NkiccError) as caught:
        traced(lambda: OPERATIONS[operation](ncc.rank_id()))
    assert caught.value.code == "NKC110"
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
