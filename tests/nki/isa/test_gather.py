"""GpSimd gathers, non-zero indices and sequence bounds against plain Python."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nkicc import NkiccError
from nkicc.nki.trace import tracing
from tests.nki.helpers import data, tracer

from .reference import assert_array_equal
from .tiles import LAYOUTS, load, run, tile

BF16, F32, I32, U32, U16 = ml_dtypes.bfloat16, np.float32, np.int32, np.uint32, np.uint16
layouts = st.sampled_from(sorted(LAYOUTS))
few = settings(max_examples=30, deadline=None)


def indices(rank: int, shape: tuple[int, ...], below: int, dtype: Any) -> np.ndarray:
    return np.random.default_rng([rank, *shape, below]).integers(0, below, shape).astype(dtype)


@few
@given(
    groups=st.integers(1, 8),
    f=st.integers(1, 12),
    elements=st.integers(32, 90),
    neighbours=st.sampled_from([1, 2, 4, 8, 16, 32]),
    dtype=st.sampled_from([F32, BF16, I32, np.uint8]),
    draw=st.data(),
    where=st.tuples(layouts, layouts, layouts),
)
def test_local_gather_in_groups_of_16(
    groups: int, f: int, elements: int, neighbours: int, dtype: Any, draw: st.DataObject, where: tuple
) -> None:
    p = 16 * groups
    count = draw.draw(st.none() | st.integers(1, 16 * f), "num_valid_indices")
    used = 16 * f if count is None else count

    def body(a: nl.ndarray, i: nl.ndarray) -> nl.ndarray:
        dst = tile((p, used * neighbours), dtype, where[2])
        nisa.local_gather(dst, load(a, where[0]), load(i, where[1]), neighbours, count)
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [data(rank, (p, elements), dtype), indices(rank, (p, f), elements - neighbours + 1, U16)]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, index = inputs(rank)
        expected = np.empty((p, used, neighbours), dtype)
        for partition in range(p):
            base = partition // 16 * 16
            for j in range(used):
                first = int(index[base + j % 16, j // 16])
                expected[partition, j] = a[partition, first : first + neighbours]
        assert_array_equal(out, expected.reshape(p, -1))


@few
@given(
    p=st.integers(1, 128),
    elements=st.integers(1, 90),
    f=st.integers(1, 90),
    dtype=st.sampled_from([F32, BF16, I32, np.uint8]),
    uniform=st.booleans(),
    where=st.tuples(layouts, layouts, layouts),
)
def test_n_gather_within_partitions(p: int, elements: int, f: int, dtype: Any, uniform: bool, where: tuple) -> None:
    def body(a: nl.ndarray, i: nl.ndarray) -> nl.ndarray:
        dst = tile((p, f), dtype, where[2])
        nisa.nc_n_gather(dst, load(a, where[0]), load(i, where[1]))
        return dst

    table = data(1, (p, elements), dtype)

    def inputs(rank: int) -> list[np.ndarray]:
        return [table if uniform else data(rank, (p, elements), dtype), indices(rank, (p, f), elements, U32)]

    for rank, (out,) in enumerate(run(body, inputs)):
        a, index = inputs(rank)
        assert_array_equal(out, np.array([[a[i, j] for j in row] for i, row in enumerate(index)], dtype))


def test_an_index_out_of_bounds_names_the_rank() -> None:
    def n_gather(a: nl.ndarray, i: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray((16, 1), F32)
        nisa.nc_n_gather(dst, load(a), load(i))
        return dst

    def local(a: nl.ndarray, i: nl.ndarray) -> nl.ndarray:
        dst, short = nl.ndarray((16, 32), F32), nl.ndarray((16, 1), U16)
        nisa.tensor_copy(short, load(i))
        nisa.local_gather(dst, load(a), short, 2)
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        index = np.zeros((16, 1), U32)
        index[3] = 4 if rank == 1 else 2
        return [data(rank, (16, 4)), index]

    for body, value in ((n_gather, 4), (local, 4)):
        with pytest.raises(NkiccError) as caught:
            run(body, inputs)
        assert (caught.value.code, caught.value.rank) == ("NKC102", 1)
        assert f"offset {value}" in caught.value.message
        assert caught.value.loc is not None
        assert caught.value.loc.file == __file__


@few
@given(
    p=st.integers(1, 128),
    f=st.integers(1, 60),
    offset=st.integers(-(2**20), 2**20),
    padding=st.integers(-5, 5),
    dtype=st.sampled_from([F32, I32]),
    where=st.tuples(layouts, layouts),
)
def test_nonzero_with_count(p: int, f: int, offset: int, padding: int, dtype: Any, where: tuple) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = tile((p, f + 1), I32, where[1])
        nisa.memset(dst, -99)
        nisa.nonzero_with_count(dst, load(a, where[0]), index_offset=offset, padding_val=padding)
        return dst

    for rank, (out,) in enumerate(run(body, lambda r: [indices(r, (p, f), 3, dtype)])):
        a = indices(rank, (p, f), 3, dtype)
        expected = np.full((p, f + 1), -99)
        for partition in range(0, p, 16):
            found = [i + offset for i in range(f) if a[partition, i] != 0]
            expected[partition] = found + [padding] * (f - len(found)) + [len(found)]
        assert_array_equal(out, expected)


@few
@given(n=st.integers(1, 80), kinds=st.integers(1, 6), types=st.sampled_from([(F32, F32), (I32, I32), (I32, F32)]))
def test_sequence_bounds(n: int, kinds: int, types: tuple) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = nl.ndarray((1, 2, n), types[1])
        nisa.sequence_bounds(dst, load(a))
        return dst

    for rank, (out,) in enumerate(run(body, lambda r: [indices(r, (1, n), kinds, types[0])])):
        ids = indices(rank, (1, n), kinds, types[0])[0].tolist()
        expected = np.empty((2, n))
        for i, segment in enumerate(ids):
            first = end = i
            while first > 0 and ids[first - 1] == segment:
                first -= 1
            while end < n and ids[end] == segment:
                end += 1
            expected[:, i] = (first, end) if segment else (n, -1)
        assert_array_equal(out.reshape(2, n), expected)


def t(shape: tuple[int, ...] = (16, 4), dtype: Any = F32, memory: Any = nl.sbuf) -> nl.ndarray:
    return nl.ndarray(shape, dtype, memory)


def local(dst: Any = None, src: Any = None, index: Any = None, *options: int) -> None:
    given = [t((16, 16)) if dst is None else dst, t((16, 64)) if src is None else src]
    nisa.local_gather(*given, t((16, 1), U16) if index is None else index, *options)


REFUSED: dict[str, tuple[Any, str, str, str]] = {
    "local: PSUM": (lambda: local(src=t((16, 64), memory=nl.psum)), "NKC030", "psum", "trn2"),
    "local: int32 indices": (lambda: local(index=t((16, 1), I32)), "NKC035", "uint16", "trn2"),
    "local: another type": (lambda: local(dst=t((16, 16), BF16)), "NKC032", "bfloat16", "trn2"),
    "local: 8 partitions": (
        lambda: local(t((8, 8)), t((8, 64)), t((8, 1), U16)), "NKC035", "multiples of 16", "trn2"
    ),
    "local: other partitions": (lambda: local(index=t((32, 1), U16)), "NKC033", "index", "trn2"),
    "local: 3 neighbours": (lambda: local(t((16, 48)), None, None, 3), "NKC035", "1, 2, 4", "trn2"),
    "local: too many valid": (lambda: local(t((16, 17)), None, None, 1, 17), "NKC035", "1 to 16", "trn2"),
    "local: none valid": (lambda: local(None, None, None, 1, 0), "NKC035", "1 to 16", "trn2"),
    "local: 4112 indices": (lambda: local(t((16, 4112)), None, t((16, 257), U16)), "NKC035", "1 to 4096", "trn2"),
    "local: another dst": (lambda: local(t((16, 15))), "NKC033", "dst", "trn2"),
    "n: HBM": (lambda: nisa.nc_n_gather(t(), t(memory=nl.hbm), t(dtype=U32)), "NKC030", "private_hbm", "trn2"),
    "n: int32 indices": (lambda: nisa.nc_n_gather(t(), t(), t(dtype=I32)), "NKC035", "uint32", "trn2"),
    "n: another type": (lambda: nisa.nc_n_gather(t(dtype=I32), t(), t(dtype=U32)), "NKC032", "int32", "trn2"),
    "n: other partitions": (lambda: nisa.nc_n_gather(t(), t(), t((8, 4), U32)), "NKC033", "indices", "trn2"),
    "n: another dst": (lambda: nisa.nc_n_gather(t((16, 5)), t(), t(dtype=U32)), "NKC033", "dst", "trn2"),
    "nonzero: trn1": (lambda: nisa.nonzero_with_count(t((16, 5), I32), t()), "BIR530", "20", "trn1"),
    "nonzero: bfloat16": (lambda: nisa.nonzero_with_count(t((16, 5), I32), t(dtype=BF16)), "NKC035", "src", "trn2"),
    "nonzero: into float32": (lambda: nisa.nonzero_with_count(t((16, 5)), t()), "NKC035", "dst", "trn2"),
    "nonzero: no room": (lambda: nisa.nonzero_with_count(t((16, 4), I32), t()), "NKC033", "(16, 5)", "trn2"),
    "nonzero: PSUM": (
        lambda: nisa.nonzero_with_count(t((16, 5), I32, nl.psum), t()), "NKC030", "psum", "trn2"
    ),
    "nonzero: a large offset": (
        lambda: nisa.nonzero_with_count(t((16, 5), I32), t(), 2**31), "NKC035", "32 bits", "trn2"
    ),
    "bounds: partitions": (lambda: nisa.sequence_bounds(t((2, 2, 4)), t((2, 4))), "NKC033", "(1, 4)", "trn2"),
    "bounds: uint32": (lambda: nisa.sequence_bounds(t((1, 2, 4)), t((1, 4), U32)), "NKC035", "segment_ids", "trn2"),
    "bounds: into bfloat16": (lambda: nisa.sequence_bounds(t((1, 2, 4), BF16), t((1, 4))), "NKC035", "dst", "trn2"),
    "bounds: another dst": (lambda: nisa.sequence_bounds(t((1, 4)), t((1, 4))), "NKC033", "(1, 8)", "trn2"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_gather_refuses(case: str) -> None:
    function, code, text, target = REFUSED[case]
    core = tracer(target=target)
    with pytest.raises(NkiccError) as caught, tracing(core):
        function()
    assert caught.value.code == code
    assert text in caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
    assert core.codegen.core_part().body == ()
