"""Mean and variance against NumPy, and what is refused."""

from __future__ import annotations

from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from .reference import BF16, F16, F32, I8, check_refused, t, values
from .tiles import LAYOUTS, load, run, tile

layouts = st.sampled_from(sorted(LAYOUTS))
few = settings(max_examples=30, deadline=None)


def described(x: np.ndarray) -> np.ndarray:
    """(count, mean, variance · count) per partition, zeros for no elements."""
    if x.shape[1] == 0:
        return np.zeros((x.shape[0], 3))
    count = np.full(x.shape[0], x.shape[1])
    return np.stack([count, x.mean(axis=1), x.var(axis=1) * count], axis=1)


@few
@given(
    p=st.integers(1, 128),
    f=st.one_of(st.integers(1, 40), st.just(512)),
    dtype=st.sampled_from([F32, F16, BF16, I8]),
    where=st.tuples(layouts, layouts),
)
def test_bn_stats_describes_even_and_odd_positions(p: int, f: int, dtype: Any, where: tuple) -> None:
    def body(a: nl.ndarray) -> nl.ndarray:
        dst = tile((p, 6), F32, where[1])
        nisa.bn_stats(dst, load(a, where[0]))
        return dst

    for rank, (out,) in enumerate(run(body, lambda rank: [values(rank, (p, f), dtype)])):
        x = values(rank, (p, f), dtype).astype(np.float64)
        assert_allclose(out, np.hstack([described(x[:, ::2]), described(x[:, 1::2])]), rtol=1e-5, atol=1e-4)


@few
@given(
    p=st.integers(1, 128),
    parts=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    shift=st.sampled_from([0, 100]),
    dtype=st.sampled_from([F32, BF16]),
)
def test_bn_aggr_unites_the_parts(p: int, parts: list, shift: int, dtype: Any) -> None:
    ends = np.cumsum([0, *parts]).tolist()

    def body(a: nl.ndarray) -> nl.ndarray:
        data, stats, dst = load(a), nl.ndarray((p, 6 * len(parts)), F32), nl.ndarray((p, 2), dtype)
        for i in range(len(parts)):
            nisa.bn_stats(stats[:, 6 * i : 6 * i + 6], data[:, ends[i] : ends[i + 1]])
        nisa.bn_aggr(dst, stats)
        return dst

    def inputs(rank: int) -> list[np.ndarray]:
        return [values(rank, (p, ends[-1]), F32) + F32(shift + rank)]

    for rank, (out,) in enumerate(run(body, inputs)):
        x = inputs(rank)[0].astype(np.float64)
        expected = np.stack([x.mean(axis=1), x.var(axis=1)], axis=1)
        assert_allclose(out.astype(F32), expected, rtol=1e-4 if dtype is F32 else 8e-3, atol=1e-3)


REFUSED = {
    "513 elements": (lambda: nisa.bn_stats(t((4, 6)), t((4, 513))), "NKC035", "513"),
    "a dst of 5": (lambda: nisa.bn_stats(t((4, 5)), t()), "NKC033", "(4, 5)"),
    "a dst of other partitions": (lambda: nisa.bn_stats(t((3, 6)), t()), "NKC033", "(3, 6)"),
    "bn_stats from HBM": (lambda: nisa.bn_stats(t((4, 6)), t(memory=nl.hbm)), "NKC030", "hbm"),
    "no tuples": (lambda: nisa.bn_aggr(t((4, 2)), t((4, 8))), "NKC035", "multiple of 3"),
    "a dst of 3": (lambda: nisa.bn_aggr(t((4, 3)), t((4, 6))), "NKC033", "(4, 3)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    check_refused(*REFUSED[case], __file__)
