"""Dropout: how much it drops, that it can be repeated, and what it refuses."""

from __future__ import annotations

from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from .reference import BF16, F16, F32, I8, I16, assert_array_equal, check_refused, t
from .tiles import LAYOUTS, load, run, tile

SHAPE = (128, 40)


def drops(prob: Any, dtype: Any = F32, layout: str = "whole", seed: int | None = None, **options: Any) -> list:
    """What is left of ones, twice in a row, per rank."""

    def body(a: nl.ndarray, b: nl.ndarray) -> tuple[nl.ndarray, ...]:
        if seed is not None:
            seeds = nl.full((1, 1), seed, nl.uint32)
            nisa.set_rng_seed(seeds)
        data, chance = load(a, layout), load(b) if isinstance(prob, np.ndarray) else prob
        outs = [tile(SHAPE, dtype, layout) for _ in range(2)]
        for dst in outs:
            nisa.dropout(dst, data, chance)
        return tuple(outs)

    column = prob if isinstance(prob, np.ndarray) else np.zeros((1, 1), F32)
    return run(body, lambda rank: [np.full(SHAPE, rank + 1).astype(dtype), column], **options)


@pytest.mark.parametrize("dtype", [F32, F16, BF16, I8, I16])
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_a_share_of_the_elements_becomes_zero_and_the_rest_stays(dtype: Any, layout: str) -> None:
    for rank, outs in enumerate(drops(0.25, dtype, layout)):
        for out in outs:
            assert set(np.unique(out.astype(F32))) == {0, rank + 1}
            assert abs((out == 0).mean() - 0.25) < 0.03
            assert out.dtype == dtype


def test_one_probability_per_partition() -> None:
    prob = (np.arange(128) / 127).astype(F32)[:, None]
    for outs in drops(prob):
        for out in outs:
            share = (out == 0).mean(axis=1)
            assert share[0] == 0
            assert share[127] == 1
            assert np.abs(share - prob[:, 0]).max() < 0.4
            assert np.corrcoef(share, prob[:, 0])[0, 1] > 0.95


@pytest.mark.parametrize(("prob", "kept"), [(0.0, True), (0, True), (1.0, False)])
def test_all_or_nothing(prob: float, kept: bool) -> None:
    for rank, outs in enumerate(drops(prob)):
        for out in outs:
            assert_array_equal(out, rank + 1 if kept else 0)


def test_draws_differ_between_ranks_and_instructions_and_repeat_from_run_to_run() -> None:
    first, second = drops(0.5), drops(0.5)
    masks = [out == 0 for outs in first for out in outs]
    for i, mask in enumerate(masks):
        for other in masks[:i]:
            assert (mask != other).mean() > 0.4
    for outs, again in zip(first, second, strict=True):
        for out, same in zip(outs, again, strict=True):
            assert_array_equal(out, same)


def test_a_seed_decides() -> None:
    one, same, other = drops(0.5, seed=3), drops(0.5, seed=3), drops(0.5, seed=4)
    assert_array_equal(one[1][0], same[1][0])
    assert ((one[1][0] == 0) != (other[1][0] == 0)).mean() > 0.4


REFUSED = {
    "another type": (lambda: nisa.dropout(t(dtype=BF16), t(), 0.5), "NKC032", "bfloat16"),
    "a probability of 2": (lambda: nisa.dropout(t(), t(), 2.0), "NKC035", "2.0"),
    "a negative probability": (lambda: nisa.dropout(t(), t(), -0.1), "NKC035", "-0.1"),
    "no number": (lambda: nisa.dropout(t(), t(), float("nan")), "NKC035", "nan"),
    "a wide probability": (lambda: nisa.dropout(t(), t(), t((4, 2))), "NKC033", "(4, 2)"),
    "integer probabilities": (lambda: nisa.dropout(t(), t(), t((4, 1), I16)), "NKC035", "int16"),
    "bfloat16 for integers": (
        lambda: nisa.dropout(t(dtype=I16), t(dtype=I16), t((4, 1), BF16)),
        "NKC035",
        "bfloat16",
    ),
    "another size": (lambda: nisa.dropout(t(), t((4, 9)), 0.5), "NKC033", "(4, 9)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    check_refused(*REFUSED[case], __file__)
