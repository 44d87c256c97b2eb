"""Counts and offsets of variable collectives: their units, who writes them, what zero means."""

from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

from .helpers import copied, hbm, refused, works

SLOT = 8
SENTINEL = -77.0
GARBAGE = 4321


def exchange(function: Any, **switches: Any) -> Any:
    """A kernel that returns the slots, one per sender, and the metadata after the collective."""

    def kernel(x: nl.ndarray, plan: nl.ndarray, fill: nl.ndarray, size: int) -> tuple[nl.ndarray, nl.ndarray]:
        source, target, table = copied(x, "source"), copied(fill, "target"), copied(plan, "table")
        function([source], [target], ReplicaGroup([list(range(size))]), table, **switches)
        result, counts = hbm("result", fill.shape), hbm("counts", plan.shape, plan.dtype)
        nisa.dma_copy(result, target)
        nisa.dma_copy(counts, table)
        return result, counts

    return kernel


def data(rank: int) -> np.ndarray:
    return np.arange(16, dtype=np.float32) + 100 * rank


def plan(counts: Any, received: Any = GARBAGE) -> np.ndarray:
    counts = np.asarray(counts)
    return np.stack([counts, np.cumsum(counts) - counts, np.broadcast_to(received, counts.shape)]).astype(np.uint32)


def inputs(plans: list[np.ndarray]) -> Any:
    size = len(plans)
    fill = np.full(size * SLOT, SENTINEL, np.float32)
    return lambda rank: {"x": data(rank), "plan": plans[rank], "fill": fill, "size": size}


def golden(counts: Any) -> Any:
    """Slots and metadata of an all-to-all of `counts[sender][receiver]` elements."""
    counts = np.asarray(counts)

    def of(rank: int) -> tuple[np.ndarray, np.ndarray]:
        slots = np.full((len(counts), SLOT), SENTINEL, np.float32)
        for sender, sent in enumerate(counts):
            start = sent[:rank].sum()
            slots[sender, : sent[rank]] = data(sender)[start : start + sent[rank]]
        return slots.reshape(-1), plan(counts[rank], counts[:, rank])

    return of


def exchanged(counts: Any) -> None:
    plans = [plan(row) for row in counts]
    works(exchange(ncc.all_to_all_v), ranks=len(counts), inputs=inputs(plans), golden=golden(counts))


def test_f49_counts_that_disagree_are_named_by_pair() -> None:
    plans = [plan([0, 3], [0, 0]), plan([0, 0], [1, 0])]
    says = ("0 -> 1", "rank 0 sends 3, rank 1 expects 1")
    kernel = exchange(ncc.all_to_all_v, recv_counts_known=True)
    refused(kernel, "NKC105", "function(", says, ranks=2, inputs=inputs(plans))


def test_f50_received_counts_are_written_and_never_read() -> None:
    exchanged([[1, 2], [3, 0]])


def test_f51_what_nothing_arrives_in_keeps_its_content() -> None:
    exchanged([[0, 2], [3, 0]])


def test_f52_received_counts_are_elements_per_sender() -> None:
    counts = [[5, 1, 0, 2], [0, 0, 0, 0], [1, 3, 2, 1], [0, 4, 1, 6]]
    assert [golden(counts)(rank)[1][2].tolist() for rank in range(4)] == [
        [5, 0, 1, 0], [1, 0, 3, 4], [0, 0, 2, 1], [2, 0, 1, 6]
    ]  # fmt: skip
    exchanged(counts)


def gather_plan(count: int, offset: int, members: int, *, rest: int = 0) -> np.ndarray:
    table = np.full((3, members), rest, np.uint32)
    table[:2, 0] = count, offset
    return table


def gathered(counts: list[int], *, rest: int = 0) -> Any:
    size = len(counts)
    plans = [gather_plan(count, 2, size, rest=rest) for count in counts]

    def want(rank: int) -> tuple[np.ndarray, np.ndarray]:
        slots = np.full((size, SLOT), SENTINEL, np.float32)
        for sender, count in enumerate(counts):
            slots[sender, :count] = data(sender)[2 : 2 + count]
        table = plans[rank].copy()
        table[2] = counts
        return slots.reshape(-1), table

    return works(exchange(ncc.all_gather_v), ranks=size, inputs=inputs(plans), golden=want)


def test_f53_only_the_first_column_of_a_gathers_metadata_counts() -> None:
    assert "NKC123" not in [warning.code for warning in gathered([3, 1, 4]).warnings]
    examined = gathered([3, 1, 4], rest=9)
    (warning,) = [warning for warning in examined.warnings if warning.code == "NKC123"]
    assert warning.ranks == (0, 1, 2)


def test_f54_each_rank_receives_the_column() -> None:
    exchanged([[3, 2, 1], [2, 2, 2], [1, 2, 3]])


@pytest.mark.parametrize("counts", [[[0, 0, 0], [2, 0, 3], [1, 0, 0]], [[0] * 3] * 3], ids=["a row and column", "all"])
def test_f55_zero_means_that_nothing_is_written(counts: list[list[int]]) -> None:
    exchanged(counts)


def test_f55_a_gather_with_a_rank_that_has_nothing() -> None:
    gathered([3, 0, 4])
