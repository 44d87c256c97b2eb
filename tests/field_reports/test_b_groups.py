"""Who is in which group of which operation."""

from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

from nkicc import NkiccError

from .helpers import copied, distinct, hbm, ranked, refused, returned, works


def reduction(groups: list[list[int]]) -> Any:
    """An all-reduce of x over groups."""

    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, total = copied(x, "local"), hbm("total", x.shape)
        ncc.all_reduce([local], [total], ReplicaGroup(groups), nl.add)
        return returned(total)

    return kernel


def filled(*values: float) -> Any:
    return lambda rank: np.full((4, 4), values[rank], np.float32)


def test_f06_groups_reduce_apart() -> None:
    golden = filled(6, 6, 6, 6, 22, 22, 22, 22)
    works(reduction([[0, 1, 2, 3], [4, 5, 6, 7]]), ranks=8, inputs=ranked(), golden=golden)


def test_f07_ranks_in_no_group_are_named_before_the_run() -> None:
    refused(reduction([[0, 1]]), "NKC043", "ncc.all_reduce(", "rank(s) 2-3 reach", ranks=4, inputs=ranked())


def test_f08_a_group_of_one_and_a_rank_that_never_reaches_the_operation() -> None:
    def kernel(x: nl.ndarray, takes_part: bool) -> nl.ndarray:
        local, total = copied(x, "local"), copied(x, "total")
        if takes_part:
            ncc.all_reduce([local], [total], ReplicaGroup([[0]]), nl.add)
        return returned(total)

    def inputs(rank: int) -> dict[str, Any]:
        return {"x": np.full((4, 4), rank + 5, np.float32), "takes_part": rank == 0}

    examined = works(kernel, ranks=2, inputs=inputs, golden=filled(5, 6))
    assert "NKC151" in [warning.code for warning in examined.warnings]
    refused(kernel, "NKC043", "ncc.all_reduce(", "rank(s) 1 reach", ranks=2,
            inputs=lambda rank: {**inputs(rank), "takes_part": True})  # fmt: skip


GROUP = [[0]]
EVERY_OPERATION = {
    "all_reduce": lambda s, d: ncc.all_reduce([s], [d], ReplicaGroup(GROUP), nl.add),
    "all_gather": lambda s, d: ncc.all_gather([s], [d], ReplicaGroup(GROUP), 0),
    "reduce_scatter": lambda s, d: ncc.reduce_scatter([s], [d], ReplicaGroup(GROUP), 0, nl.add),
    "all_to_all": lambda s, d: ncc.all_to_all([s], [d], ReplicaGroup(GROUP), 0),
    "implicit": lambda s, d: ncc.collective_permute_implicit([[s]], [[d]], ReplicaGroup(GROUP)),
    "permute": lambda s, d: ncc.collective_permute([s], [d], [(0, 0)]),
    "implicit reduce": lambda s, d: ncc.collective_permute_implicit_reduce(
        [[zeros(s)]], [[s]], [[d]], ReplicaGroup(GROUP), nl.add
    ),
    "all_gather_v": lambda s, d: ncc.all_gather_v([s], [d], ReplicaGroup(GROUP), everything(s)),
    "all_to_all_v": lambda s, d: ncc.all_to_all_v([s], [d], ReplicaGroup(GROUP), everything(s)),
}


def zeros(like: nl.ndarray) -> nl.ndarray:
    return nl.zeros(like.shape, like.dtype, nl.shared_hbm, name="zeros")


def everything(source: nl.ndarray) -> nl.ndarray:
    """Metadata of one member that sends all it has to itself."""
    table = nl.zeros((3, 1), nl.uint32, nl.shared_hbm, name="table")
    nisa.dma_copy(table[0:1], nl.full((1, 1), source.shape[0] * source.shape[1], nl.uint32))
    return table


@pytest.mark.parametrize("name", EVERY_OPERATION)
def test_f09_a_group_of_one_copies_and_is_worth_a_warning(name: str) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, moved = copied(x, "local"), hbm("moved", x.shape)
        EVERY_OPERATION[name](local, moved)
        return returned(moved)

    x = distinct()
    examined = works(kernel, ranks=1, inputs=x, golden=lambda rank: x(0)["x"])
    assert ("NKC151" in [warning.code for warning in examined.warnings]) == (name != "permute")


def test_f10_groups_of_different_sizes_reduce_or_are_refused() -> None:
    works(reduction([[0, 1], [2, 3, 4]]), ranks=5, inputs=ranked(), golden=filled(1, 1, 9, 9, 9))

    def gather(x: nl.ndarray) -> nl.ndarray:
        local, whole = copied(x, "local"), hbm("whole", (12, 4))
        ncc.all_gather([local], [whole], ReplicaGroup([[0, 1], [2, 3, 4]]), 0)
        return returned(whole)

    refused(gather, "NKC044", "ncc.all_gather(", "groups of equal size", ranks=5, inputs=ranked())


@pytest.mark.parametrize(
    ("groups", "code", "says"),
    [
        ([[0, 0]], "NKC042", "rank 0 is listed twice"),
        ([[0], [0, 1]], "NKC042", "rank 0 is listed twice"),
        ([[]], "NKC040", "a group is empty"),
        ([[0, -1]], "NKC041", "rank -1 does not exist"),
    ],
)
def test_f11_malformed_groups_are_told_apart(groups: list[list[int]], code: str, says: str) -> None:
    refused(reduction(groups), code, "ncc.all_reduce(", says, ranks=2, inputs=ranked())


def test_f11_groups_are_compared_without_a_crash() -> None:
    assert ReplicaGroup([[0, 1]]) != ReplicaGroup([[0], [1]])
    assert ReplicaGroup([[0, 1]]) == ReplicaGroup([[0, 1]])


def test_f12_a_core_number_is_told_from_a_rank() -> None:
    says = ("rank 2 does not exist", "0..1", "global ranks", "Physical core 2 belongs to rank 1")
    refused(reduction([[0, 2]]), "NKC041", "ncc.all_reduce(", says, ranks=2, lnc=2, inputs=ranked())


def test_f13_permutes_wait_for_nobody_they_do_not_name() -> None:
    def kernel(x: nl.ndarray) -> tuple[nl.ndarray, ...]:
        local = copied(x, "local")
        moved = [copied(x, f"moved{i}") for i in range(3)]
        for target, pair in zip(moved, [(0, 1), (2, 3), (1, 2)], strict=True):
            ncc.collective_permute([local], [target], [pair])
        return tuple(returned(target, f"result{i}") for i, target in enumerate(moved))

    def golden(rank: int) -> tuple[np.ndarray, ...]:
        got = [dict([pair]).get(rank, rank) for pair in [(1, 0), (3, 2), (2, 1)]]
        return tuple(np.full((4, 4), value, np.float32) for value in got)

    works(kernel, ranks=4, inputs=ranked(), golden=golden)


def test_f14_a_group_belongs_to_its_operation() -> None:
    groupings = ([[0, 1, 2, 3]], [[0, 1], [2, 3]], [[1, 2], [3, 0]], [[0, 1, 2, 3]])

    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, result = copied(x, "local"), hbm("result", (4, 4, 4))
        for i, groups in enumerate(groupings):
            total = hbm(f"total{i}", (4, 4))
            ncc.all_reduce([local], [total], ReplicaGroup(groups), nl.add)
            nisa.dma_copy(result[i], total)
        return result

    def golden(rank: int) -> np.ndarray:
        return np.stack([np.full((4, 4), value, np.float32) for value in (6, (1, 1, 5, 5)[rank], 3, 6)])

    works(kernel, ranks=4, inputs=ranked(), golden=golden)


@pytest.mark.parametrize(
    ("groups", "want"),
    [([[0, 2, 1, 3]], [[0, 2, 1, 3]] * 4), ([[0, 2], [1, 3]], [[0, 2], [1, 3], [0, 2], [1, 3]])],
    ids=["replica and partition", "replica"],
)
def test_f15_grids_of_replicas_and_partitions_are_lists_of_ranks(
    groups: list[list[int]], want: list[list[int]]
) -> None:
    """NKI has no id modes: the flat order that a mode of StableHLO means is written out as the list of ranks."""
    size = len(groups[0])

    def gather(rows: int) -> Any:
        def kernel(x: nl.ndarray) -> nl.ndarray:
            local, whole = copied(x, "local"), hbm("whole", (rows, 4))
            ncc.all_gather([local], [whole], ReplicaGroup(groups), 0)
            return returned(whole)

        return kernel

    def golden(rank: int) -> np.ndarray:
        return np.repeat(np.array(want[rank], np.float32), 4)[:, None] * np.ones(4, np.float32)

    works(gather(4 * size), ranks=4, inputs=ranked(), golden=golden)
    other = 4 * (6 - size)
    refused(gather(other), "NKC033", "ncc.all_gather(", str(size), ranks=4, inputs=ranked())


def test_groups_that_are_no_lists_of_ranks_are_refused() -> None:
    with pytest.raises(NkiccError, match="replica groups"):
        ReplicaGroup([0, 1])  # type: ignore[list-item]
