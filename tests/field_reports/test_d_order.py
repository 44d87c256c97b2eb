"""Ranks issue different sequences, or wait in an order that cannot complete; legal programs raise no alarm."""

import linecache
from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

from .helpers import copied, distinct, hbm, refused, returned, works


def per_rank(shape: tuple[int, ...] = (4, 4)) -> Any:
    """`x` and the rank's number, which is a constant of the trace: every rank runs a program of its own."""
    return lambda rank: {"x": np.full(shape, rank, np.float32), "rank": rank}


def reduce(name: str, x: nl.ndarray, groups: list[list[int]]) -> nl.ndarray:
    local, total = copied(x, f"{name}_local"), hbm(f"{name}_total", x.shape, x.dtype)
    ncc.all_reduce([local], [total], ReplicaGroup(groups), nl.add, name=name)
    return total


def test_f19_two_groups_in_opposite_orders_wait_for_each_other() -> None:
    def kernel(x: nl.ndarray, rank: int) -> nl.ndarray:
        local, whole = copied(x, "local"), hbm("whole", (8, 4))
        ncc.all_gather([local], [whole], ReplicaGroup([[0, 1]]), 0)
        if rank == 0:
            reduce("first", x[0:2], [[0, 1]])
            reduce("second", x[0:3], [[1, 0]])
        else:
            reduce("second", x[0:3], [[1, 0]])
            reduce("first", x[0:2], [[0, 1]])
        return returned(x)

    error = refused(kernel, "NKC101", "ncc.all_reduce(", ("first", "second"), ranks=2, inputs=per_rank())
    assert error.related


def test_f20_one_group_in_different_orders_is_named_at_the_first_difference() -> None:
    def kernel(x: nl.ndarray, rank: int) -> nl.ndarray:
        order = {"a": x[0:2], "b": x[0:3]} if rank == 0 else {"b": x[0:3], "a": x[0:2]}
        for name, part in order.items():
            reduce(name, part, [[0, 1]])
        return returned(x)

    refused(kernel, "NKC101", "ncc.all_reduce(", ("'a'", "'b'"), ranks=2, inputs=per_rank())


@pytest.mark.parametrize("seed", [None, *range(8)])
def test_f21_groups_that_share_ranks_do_not_disturb_each_other(seed: int | None) -> None:
    """Rank 0 may come to the second operation while the others are still in the first."""

    def kernel(x: nl.ndarray, rank: int) -> nl.ndarray:
        result = hbm("result", (3, 4, 4))
        nisa.dma_copy(result[0], reduce("left", x, [[0], [1, 2]]))
        nisa.dma_copy(result[1], reduce("all", x, [[0, 1, 2]]))
        nisa.dma_copy(result[2], reduce("right", x, [[0, 1], [2]]))
        return result

    def golden(rank: int) -> np.ndarray:
        return np.stack([np.full((4, 4), value, np.float32) for value in ((0, 3, 3)[rank], 3, (1, 1, 2)[rank])])

    works(kernel, ranks=3, inputs=per_rank(), golden=golden, schedule=seed)
    works(kernel, ranks=3, inputs=lambda rank: {**per_rank()(rank), "rank": 0}, golden=golden, schedule=seed)


def test_f22_a_loop_whose_bound_differs_between_ranks() -> None:
    def kernel(x: nl.ndarray, rank: int) -> nl.ndarray:
        local, total = copied(x, "local"), hbm("total", (4, 4))
        for _ in range(18 if rank == 7 else 30):
            ncc.all_reduce([local], [total], ReplicaGroup([list(range(8))]), nl.add)
        return returned(total)

    says = ("arrived 0-6", "rank(s) 7 ends after 18 operation(s)", "rank(s) 0 has 12 more", "'AllReduce-18'")
    refused(kernel, "NKC144", "ncc.all_reduce(", says, ranks=8, inputs=per_rank())


def test_f22_keys_of_a_dictionary_that_differ_between_ranks() -> None:
    def kernel(x: nl.ndarray, rank: int) -> nl.ndarray:
        total = x
        for key in ("weight", "bias", "scale") if rank == 0 else ("weight", "scale"):
            total = reduce(key, x, [[0, 1]])
        return returned(total)

    says = ("rank(s) 1 ends after 2 operation(s)", "1 more", "'bias'", "'scale'")
    refused(kernel, "NKC144", "ncc.all_reduce(", says, ranks=2, inputs=per_rank())


def turns_from_data(x: nl.ndarray, turns: nl.ndarray, rank: int) -> nl.ndarray:
    """A loop of the device whose bound every rank reads from its own data."""
    total = reduce("always", x, [[0, 1]])
    local = copied(x, "local")
    bound = nisa.register_alloc(turns)

    def turn(number: nl.ndarray) -> None:
        ncc.all_reduce([local], [total], ReplicaGroup([[0, 1]]), nl.add, name="sometimes")

    nl.fori_loop(0, bound, turn)
    return returned(total)


def with_turns(*turns: int, programs: int) -> Any:
    """`turns` of every rank, in that many programs."""
    return lambda rank: {
        "x": np.full((4, 4), rank, np.float32),
        "turns": np.array([[turns[rank]]], np.int32),
        "rank": rank % programs,
    }


@pytest.mark.parametrize(("programs", "code"), [(1, "NKC107"), (2, "NKC100")])
def test_f22_a_loop_whose_bound_is_data(programs: int, code: str) -> None:
    """Whether the ranks run one program or two, the first turn that only one of them takes is named."""
    inputs = with_turns(3, 2, programs=programs)
    refused(turns_from_data, code, "ncc.all_reduce(", ("sometimes", "rank"), ranks=2, inputs=inputs)
    right = with_turns(3, 3, programs=programs)
    works(turns_from_data, ranks=2, inputs=right, golden=lambda rank: np.full((4, 4), 1, np.float32))


def test_f23_a_branch_on_a_value_that_differs_between_ranks() -> None:
    def kernel(x: nl.ndarray, local_value: int) -> nl.ndarray:
        total = reduce("always", x, [[0, 1, 2, 3]])
        if local_value > 3:
            total = reduce("sometimes", x, [[0, 1, 2, 3]])
        return returned(total)

    refused(
        kernel, "NKC144", "ncc.all_reduce(", ("sometimes", "arrived 1-2", "rank(s) 0, 3 ends after 1"), ranks=4,
        inputs=lambda rank: {"x": np.full((4, 4), rank, np.float32), "local_value": (2, 5, 5, 2)[rank]},
    )  # fmt: skip


def test_f23_the_history_of_every_rank_is_kept() -> None:
    """A branch on data is a loop of no or one turn: only a run can tell. Rank 1 is not blocked, its history is told."""
    error = refused(
        turns_from_data, "NKC100", "ncc.all_reduce(", ("'sometimes'", "rank 1 issued 1: AllReduce test_d_order.py:"),
        ranks=2, inputs=with_turns(1, 0, programs=2),
    )  # fmt: skip
    assert "rank 1" in str(error.to_error())


def test_f24_a_rank_that_ends_before_the_last_fence() -> None:
    def kernel(x: nl.ndarray, rank: int) -> nl.ndarray:
        total = reduce("fence0", x, [[0, 1, 2, 3]])
        if rank != 3:
            total = reduce("fence1", x, [[0, 1, 2, 3]])
        return returned(total)

    says = ("arrived 0-2", "rank(s) 3 ends", "'fence1'", "finished after InstCollectiveCompute 'fence0'")
    refused(kernel, "NKC144", "ncc.all_reduce(", says, ranks=4, inputs=per_rank())


@pytest.mark.parametrize("rows", [4, 2], ids=["alike", "of other shapes"])
def test_f24_a_rank_that_skips_the_first_of_two_fences(rows: int) -> None:
    def kernel(x: nl.ndarray, rank: int) -> nl.ndarray:
        total = x
        if rank != 3:
            total = reduce("fence0", x, [[0, 1, 2, 3]])
        total = reduce("fence1", x[0:rows], [[0, 1, 2, 3]])
        return returned(total)

    if rows == 2:
        refused(kernel, "NKC101", "ncc.all_reduce(", ("'fence0", "'fence1"), ranks=4, inputs=per_rank())
        return
    # Fences that are alike meet; that rank 3 has none left is seen at the second one.
    error = refused(kernel, "NKC144", "ncc.all_reduce(", "rank(s) 3 ends after 1", ranks=4, inputs=per_rank())
    notes = [related.message for related in error.related]
    assert notes[1:] == [
        "rank(s) 0 issues InstCollectiveCompute 'fence0' here",
        "rank(s) 3 meets it in InstCollectiveCompute 'fence1' here",
    ]


def test_f25_an_exception_of_one_rank_comes_first() -> None:
    def kernel(x: nl.ndarray, rank: int) -> nl.ndarray:
        if rank == 1:
            raise ValueError("what the rank found wrong")
        return returned(reduce("total", x, [[0, 1]]))

    refused(kernel, "NKC005", "raise ValueError", "what the rank found wrong", ranks=2, inputs=per_rank())


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_f26_each_core_keeps_its_own_order(seed: int | None) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        core = nl.program_id()
        other = 1 - core
        result = hbm("result", (2, 2, 4, 4))
        tiles = [nl.ndarray((4, 4), nl.float32, name=f"tile{i}") for i in range(2)]
        far = [nl.ndarray((4, 4), nl.float32, name=f"far{i}") for i in range(2)]
        for i in range(2):
            nisa.dma_copy(tiles[i], x[core, i])
        for pipe in (0, 1) if core == 0 else (1, 0):
            nisa.sendrecv(src=tiles[pipe], dst=far[pipe], send_to_rank=other, recv_from_rank=other, pipe_id=pipe)
        for i in range(2):
            nisa.dma_copy(result[core, i], far[i])
        return result

    x = distinct((2, 2, 4, 4))
    works(kernel, ranks=2, lnc=2, inputs=x, golden=lambda rank: x(rank)["x"][::-1], schedule=seed)


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_f27_a_core_that_waits_does_not_hold_the_other(seed: int | None) -> None:
    """Core 0 of rank 0 waits for rank 1, whose core 0 waits for its core 1, which has work left."""

    def kernel(x: nl.ndarray, rank: int) -> nl.ndarray:
        core = nl.program_id()
        tile, far, total = (nl.ndarray((4, 4), nl.float32, name=name) for name in ("tile", "far", "total"))
        result = hbm("result", (2, 4, 4))
        nisa.dma_copy(tile, x)
        if rank == 1:
            nisa.tensor_scalar(tile, tile, nl.add, float(core))
            nisa.sendrecv(src=tile, dst=far, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        else:
            nisa.tensor_copy(far, tile)
        ncc.all_reduce([far], [total], ReplicaGroup([[0, 1]]), nl.add)
        nisa.dma_copy(result[core], total)
        return result

    want = np.stack([np.full((4, 4), value, np.float32) for value in (2, 1)])
    works(kernel, ranks=2, lnc=2, inputs=per_rank(), golden=lambda rank: want, schedule=seed)


def test_f28_a_rank_that_returns_before_the_collective() -> None:
    def kernel(x: nl.ndarray, rank: int) -> nl.ndarray:
        if rank == 2:
            return returned(x)
        return returned(reduce("total", x, [[0, 1, 2, 3]]))

    says = ("expected rank(s) 0-3", "arrived 0-1, 3", "rank(s) 2 has finished, it meets nobody; its last instruction")
    error = refused(kernel, "NKC144", "ncc.all_reduce(", says, ranks=4, inputs=per_rank())
    last = error.related[0].loc
    assert last is not None
    assert "nisa.dma_copy" in linecache.getline(last.file, last.line)
