"""The topology: degrees, groups, rings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nkicc.builder import ParallelState
from nkicc.ir.errors import NkiccError
from nkicc.ir.types import World

DEGREE = st.integers(1, 5)


def test_all_workers_and_their_ring() -> None:
    state = ParallelState(World(5, 2))
    assert state.gen_all_worker_group() == ((0, 1, 2, 3, 4),)
    assert state.gen_all_collective_permute_config() == ((0, 1, 2, 3, 4),)
    assert (state.tp, state.dp, state.pp) == (5, 1, 1)


def test_groups_of_a_topology() -> None:
    state = ParallelState(World(12), tp=2, dp=3, pp=2)
    assert state.tp_groups() == ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11))
    assert state.dp_groups() == ((0, 2, 4), (1, 3, 5), (6, 8, 10), (7, 9, 11))
    assert state.pp_groups() == ((0, 6), (1, 7), (2, 8), (3, 9), (4, 10), (5, 11))


def test_tp_takes_what_the_others_leave() -> None:
    assert ParallelState(World(12), dp=3).tp == 4


@given(tp=DEGREE, dp=DEGREE, pp=DEGREE)
def test_every_kind_of_group_partitions_the_world(tp: int, dp: int, pp: int) -> None:
    """A rank shares one group of each kind; two kinds share no pair of ranks."""
    state = ParallelState(World(tp * dp * pp), tp=tp, dp=dp, pp=pp)
    pairs: list[tuple[int, int]] = []
    for groups, size in ((state.tp_groups(), tp), (state.dp_groups(), dp), (state.pp_groups(), pp)):
        assert {len(group) for group in groups} == {size}
        assert sorted(rank for group in groups for rank in group) == list(range(tp * dp * pp))
        pairs += [(a, b) for group in groups for a in group for b in group if a < b]
    assert len(pairs) == len(set(pairs))


@pytest.mark.parametrize(
    ("world", "degrees", "code"),
    [
        (World(8), {"tp": 3}, "NKC019"),
        (World(8), {"dp": 3}, "NKC019"),
        (World(8), {"tp": 8, "dp": 0}, "NKC019"),
        (World(8), {"tp": 0}, "NKC019"),
        (World(8), {"tp": -2, "dp": -4}, "NKC019"),
        (World(8), {"tp": 4.0, "dp": 2}, "NKC019"),
        (World(0), {}, "NKC014"),
        (World(10**8), {}, "NKC014"),
        (World(4, 3), {}, "NKC014"),
    ],
)
def test_refused_topologies(world: World, degrees: dict[str, Any], code: str) -> None:
    with pytest.raises(NkiccError) as caught:
        ParallelState(world, **degrees)
    assert caught.value.code == code
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


def test_it_is_a_value() -> None:
    assert ParallelState(World(8), dp=2) == ParallelState(World(8), tp=4, dp=2)
    assert ParallelState(World(8), dp=2) != ParallelState(World(8), tp=8)
    with pytest.raises(AttributeError):
        ParallelState(World(8)).tp = 4  # type: ignore[misc]
