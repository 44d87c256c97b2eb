"""max8, nc_find_index8, nc_match_replace8 and topk against plain Python."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nkicc
from nkicc import NkiccError
from nkicc.nki.trace import tracing
from tests.nki.helpers import tracer

from .reference import assert_array_equal
from .tiles import LAYOUTS, load, run, tile

BF16, F32, I32, U32 = ml_dtypes.bfloat16, np.float32, np.int32, np.uint32
layouts = st.sampled_from(sorted(LAYOUTS))
few = settings(max_examples=30, deadline=None)


def values(rank: int, shape: tuple[int, ...], dtype: Any, kinds: int = 12) -> np.ndarray:
    """Few different numbers, so that equal ones are common."""
    return np.random.default_rng([rank, *shape, kinds]).integers(0, kinds, shape).astype(dtype)


def occurrences(row: np.ndarray, wanted: np.ndarray, slots: list[int]) -> list[int]:
    """Index per slot: each takes the first occurrence that no slot before it took; -1 without one."""
    taken: set[int] = set()
    found = [-1] * 8
    for slot in slots:
        for i, value in enumerate(row.tolist()):
            if value == wanted[slot] and i not in taken:
                taken.add(i)
                found[slot] = i
                break
    return found


@few
@given(
    p=st.integers(1, 128),
    f=st.integers(8, 300),
    dtype=st.sampled_from([F32, BF16, I32, np.uint8]),
    where=st.tuples(layouts, layouts),
)
def test_max8(p: int, f: int, dtype: Any, where: tuple) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = tile((p, 8), F32, where[1])
        nisa.max8(dst, load(a, where[0]))
        return dst

    for rank, (out,) in enumerate(run(body, lambda r: [values(r, (p, f), dtype, 200)])):
        a = values(rank, (p, f), dtype, 200).astype(F32)
        assert_array_equal(out, -np.sort(-a, axis=1)[:, :8])


def test_max8_reads_psum_and_several_dimensions_and_ranks_nan_last() -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        source = nl.ndarray((4, 2, 3, 4), F32, nl.psum)
        nisa.tensor_copy(source, load(a))
        dst = nl.ndarray((4, 8), BF16)
        nisa.max8(dst=dst, src=source)
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        a = values(rank, (4, 24), F32, 100)
        a[rank, 5] = np.nan
        return [a]

    for rank, (out,) in enumerate(run(body, inputs)):
        a = np.nan_to_num(inputs(rank)[0], nan=-1)
        assert_array_equal(out, (-np.sort(-a, axis=1)[:, :8]).astype(BF16))


@few
@given(
    p=st.integers(1, 128),
    f=st.integers(8, 60),
    kinds=st.integers(1, 40),
    dtypes=st.sampled_from([(F32, F32, np.uint32), (BF16, F32, np.uint16), (I32, U32, np.uint32)]),
    where=st.tuples(layouts, layouts, layouts),
)
def test_find_index8_pairs_equal_values_in_ascending_order(
    p: int, f: int, kinds: int, dtypes: tuple, where: tuple
) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> nl.ndarray:
        dst = tile((p, 8), dtypes[2], where[2])
        nisa.nc_find_index8(dst, load(a, where[0]), load(b, where[1]))
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (p, f), dtypes[0], kinds), values(rank + 3, (p, 8), dtypes[1], kinds + 1)]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        expected = [occurrences(a[i], b[i], list(range(8))) for i in range(p)]
        assert_array_equal(out, np.array(expected).astype(dtypes[2]))
        assert out.dtype == dtypes[2]


@few
@given(
    p=st.integers(1, 128),
    f=st.integers(8, 60),
    kinds=st.integers(1, 40),
    dtype=st.sampled_from([F32, BF16]),
    imm=st.sampled_from([-np.inf, 0.0, -3.5]),
    in_place=st.booleans(),
    where=st.tuples(layouts, layouts, layouts),
)
def test_match_replace8_pairs_equal_values_in_descending_order(
    p: int, f: int, kinds: int, dtype: Any, imm: float, in_place: bool, where: tuple
) -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        source = load(a, where[0])
        dst = source if in_place else tile((p, f), F32, where[1])
        at = tile((p, 8), np.uint32, where[2])
        nisa.nc_match_replace8(dst, source, load(b), imm, dst_idx=at)
        return dst, at

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (p, f), dtype, kinds), values(rank + 3, (p, 8), F32, kinds + 1)]

    for rank, (out, at) in enumerate(run(body, inputs)):
        a, b = inputs(rank)
        found = np.array([occurrences(a[i], b[i], list(range(7, -1, -1))) for i in range(p)])
        expected = a.astype(F32)
        for i, row in enumerate(found):
            expected[i, row[row >= 0]] = imm
        assert_array_equal(out.astype(F32), expected)
        assert_array_equal(at, found.astype(np.uint32))


def test_the_documented_example_of_match_replace8() -> None:
    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        at, dst = nl.ndarray((1, 8), np.uint16), nl.ndarray((1, 11), I32)
        nisa.nc_match_replace8(dst=dst, data=load(a), vals=load(b), imm=-1, dst_idx=at)
        other = nl.ndarray((1, 11), I32)
        nisa.nc_match_replace8(other, load(a), load(b), -1.0)
        return at, dst, other

    def inputs(rank: int) -> list[np.ndarray]:
        return [np.array([[1, 2, 3, 4] + [8 + rank] * 7], I32), np.array([[3] + [8 + rank] * 7], I32)]

    for rank, (at, dst, other) in enumerate(run(body, inputs)):
        assert_array_equal(at, [[2, 10, 9, 8, 7, 6, 5, 4]])
        assert_array_equal(dst, [[1, 2, -1, 4] + [-1] * 7])
        assert_array_equal(other, dst)
        assert rank < 3


def test_sorting_by_eights() -> None:
    def body(a: nl.ndarray) -> tuple[nl.ndarray, ...]:
        left = load(a)
        best, at = nl.ndarray((6, 32), F32), nl.ndarray((6, 32), np.uint32)
        for i in range(4):
            part = slice(8 * i, 8 * i + 8)
            nisa.max8(best[:, part], left)
            nisa.nc_match_replace8(left, left, best[:, part], float("-inf"), at[:, part])
        return best, at

    for rank, (best, at) in enumerate(run(body, lambda r: [values(r, (6, 32), F32)])):
        a = values(rank, (6, 32), F32)
        assert_array_equal(best, -np.sort(-a, axis=1))
        assert_array_equal(np.take_along_axis(a, at.astype(int), 1), best)
        assert_array_equal(np.sort(at, axis=1), np.tile(np.arange(32), (6, 1)))


@few
@given(
    groups=st.integers(1, 8),
    columns=st.integers(1, 20),
    data=st.data(),
    ordered=st.booleans(),
    where=st.tuples(layouts, layouts, layouts),
)
def test_topk_reads_and_writes_snakes(
    groups: int, columns: int, data: st.DataObject, ordered: bool, where: tuple
) -> None:
    p = 16 * groups
    n = data.draw(st.integers(8, 16 * columns), "n")
    k = data.draw(st.integers(1, n), "k")

    def body(a: nl.ndarray) -> tuple[nl.ndarray, ...]:
        best, at = tile((p, k), BF16, where[1]), tile((p, k), np.uint32, where[2])
        nisa.memset(best, -7.0)
        nisa.memset(at, 77)
        nisa.topk(best, at, load(a, where[0]), n, sorted=ordered)
        return best, at

    for rank, (best, at) in enumerate(run(body, lambda r: [values(r, (p, columns), BF16, 30)])):
        a = values(rank, (p, columns), BF16, 30).astype(F32)
        expected, index = np.full((p, k), -7.0), np.full((p, k), 77)
        for g in range(groups):
            snake = [a[16 * g + i % 16, i // 16] for i in range(n)]
            order = sorted(range(n), key=lambda i: (-snake[i], i))[:k]
            for j, i in enumerate(order if ordered else reversed(order)):
                expected[16 * g + j % 16, j // 16], index[16 * g + j % 16, j // 16] = snake[i], i
        assert_array_equal(best.astype(F32), expected)
        assert_array_equal(at, index)


@pytest.mark.parametrize("lnc", [1, 2])
def test_rows_found_by_the_index_in_their_last_columns_are_summed(lnc: int) -> None:
    tokens, copies, rows, width = 40, 3, 160, 24

    def kernel(table: nl.ndarray) -> nl.ndarray:
        core, part = nl.program_id(0), width // lnc
        out = nl.ndarray((tokens, width), table.dtype, nl.shared_hbm)
        # The last two 16-bit columns of a row are one int32: read as such, turned into a row, given to all partitions.
        owner = nl.ndarray((tokens, rows), I32)
        packed = table.ap([[(width + 2) // 2, rows], [1, 1], [1, 1], [1, 1]], offset=width // 2, dtype=nl.int32)
        nisa.dma_transpose(owner.ap([[rows, 1], [1, 1], [1, 1], [1, rows]]), packed)
        for start in range(0, tokens, 32):
            nisa.nc_stream_shuffle(owner[start : min(start + 32, tokens)], owner[0:1], [0] * 32)
        token, at = nl.ndarray((tokens, 8), U32), nl.ndarray((tokens, 8), U32)
        nisa.iota(token, [[0, 8]], channel_multiplier=1)
        nisa.nc_find_index8(at, owner, token)
        total = nl.ndarray((tokens, part), table.dtype)
        for k in range(copies):
            index = at.ap([[8, tokens], [1, 1]], offset=k)
            found = table.ap([[width, tokens], [1, part]], offset=part * core, vector_offset=index)
            if k == 0:
                nisa.dma_copy(total, found)
            else:
                nisa.dma_compute(total, [found, total], nl.add)
        nisa.dma_copy(out[:, part * core : part * core + part], total)
        return out

    def owners(rank: int) -> np.ndarray:
        found = np.full(rows, 1 << 20, I32)
        found[np.random.default_rng(rank).permutation(rows)[: tokens * copies]] = np.arange(tokens * copies) % tokens
        return found

    def table(rank: int) -> np.ndarray:
        packed = owners(rank).view(np.float16).reshape(rows, 2)
        return np.concatenate([values(rank, (rows, width), np.float16), packed], axis=1)

    result = nkicc.run(kernel, ranks=3, lnc=lnc, inputs=lambda rank: {"table": table(rank)})
    for rank in range(3):
        expected = np.zeros((tokens, width))
        for row, token in zip(table(rank), owners(rank), strict=True):
            if token < tokens:
                expected[token] += row[:width]
        assert_array_equal(result.outputs[rank], expected)


def t(shape: tuple[int, ...] = (4, 8), dtype: Any = F32, memory: Any = nl.sbuf) -> nl.ndarray:
    return nl.ndarray(shape, dtype, memory)


def topk(
    best: Any = BF16, at: Any = U32, src: Any = BF16, p: int = 16, k: int = 4, n: int = 16, **options: Any
) -> None:
    nisa.topk(t((p, k), best), t((p, k), at), t((p, 2), src), n, **options)


REFUSED: dict[str, tuple[Any, str, str]] = {
    "max8 of 7": (lambda: nisa.max8(t(), t((4, 7))), "NKC035", "8 to 16384"),
    "max8 of 16385": (lambda: nisa.max8(t(), t((4, 16_385))), "NKC035", "8 to 16384"),
    "max8 in 6 dimensions": (lambda: nisa.max8(t(), t((4, 1, 1, 1, 2, 4))), "NKC035", "5 dimensions"),
    "max8 into 9": (lambda: nisa.max8(t((4, 9)), t()), "NKC033", "dst"),
    "max8 into other partitions": (lambda: nisa.max8(t((3, 8)), t()), "NKC033", "dst"),
    "max8 in HBM": (lambda: nisa.max8(t(), t(memory=nl.hbm)), "NKC030", "private_hbm"),
    "find into int32": (lambda: nisa.nc_find_index8(t(dtype=I32), t(), t()), "NKC035", "uint16, uint32"),
    "find 7 values": (lambda: nisa.nc_find_index8(t(dtype=U32), t(), t((4, 7))), "NKC033", "vals"),
    "find in 7": (lambda: nisa.nc_find_index8(t(dtype=U32), t((4, 7)), t()), "NKC035", "data"),
    "find values in HBM": (lambda: nisa.nc_find_index8(t(dtype=U32), t(), t(memory=nl.hbm)), "NKC030", "hbm"),
    "replace into another shape": (lambda: nisa.nc_match_replace8(t((4, 9)), t(), t(), 0.0), "NKC033", "(4, 9)"),
    "replace by a word": (lambda: nisa.nc_match_replace8(t(), t(), t(), "0"), "NKC035", "imm"),
    "replace with float indices": (lambda: nisa.nc_match_replace8(t(), t(), t(), 0, t()), "NKC035", "dst_idx"),
    "replace 9 values": (lambda: nisa.nc_match_replace8(t(), t(), t((4, 9)), 0), "NKC033", "vals"),
    "topk of float32": (lambda: topk(src=F32), "NKC035", "src"),
    "topk into float32": (lambda: topk(best=F32), "NKC035", "val_dst"),
    "topk with int32 indices": (lambda: topk(at=I32), "NKC035", "idx_dst"),
    "topk of 24 partitions": (lambda: topk(p=24), "NKC035", "multiples of 16"),
    "topk of 7": (lambda: topk(n=7), "NKC035", "n is 7"),
    "topk of more than there is": (lambda: topk(n=33), "NKC035", "8 to 32"),
    "topk of fewer than k": (lambda: topk(k=17), "NKC035", "1 to 16"),
    "topk in PSUM": (
        lambda: nisa.topk(t((16, 4), BF16, nl.psum), t((16, 4), U32), t((16, 2), BF16), 16), "NKC030", "psum"
    ),
    "topk of 8193 sorted": (
        lambda: nisa.topk(t((16, 8193), BF16), t((16, 8193), U32), t((16, 1024), BF16), 16_000, sorted=True),
        "NKC035", "1 to 8192",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_search_refuses(case: str) -> None:
    function, code, text = REFUSED[case]
    core = tracer()
    with pytest.raises(NkiccError) as caught, tracing(core):
        function()
    assert caught.value.code == code
    assert text in caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
    assert core.codegen.core_part().body == ()
