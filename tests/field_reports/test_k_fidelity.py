"""Simulators and checkers that look at one rank, skip what they lack, or pass anything."""

from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

from nkicc import NkiccError
from nkicc.testing import assert_ranks
from tests.examine import examine

from .helpers import copied, distinct, hbm, ranked, refused, returned, works

PAIR = ReplicaGroup([[0, 1]])


def test_f69_every_rank_runs() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, total = copied(x, "local"), hbm("total", (4, 4))
        ncc.all_reduce([local], [total], PAIR, nl.add)
        tile, mine = nl.ndarray((4, 4), nl.float32), nl.ndarray((4, 4), nl.float32)
        nisa.dma_copy(tile, total)
        nisa.dma_copy(mine, local)
        nisa.tensor_tensor(tile, tile, mine, nl.subtract)
        return returned(tile)

    works(kernel, ranks=2, inputs=ranked(), golden=lambda rank: np.full((4, 4), 1 - rank, np.float32))


def test_f69_shapes_may_differ_between_ranks() -> None:
    def kernel(x: nl.ndarray) -> tuple[nl.ndarray, nl.ndarray]:
        local, total = hbm("local", (2, 4)), hbm("total", (2, 4))
        nisa.dma_copy(local, x[0:2])
        ncc.all_reduce([local], [total], PAIR, nl.add)
        return returned(x, "own"), returned(total, "sum")

    def x(rank: int) -> dict[str, Any]:
        return distinct((3 + 2 * rank, 4))(rank)

    def golden(rank: int) -> tuple[np.ndarray, np.ndarray]:
        return x(rank)["x"], x(0)["x"][:2] + x(1)["x"][:2]

    works(kernel, ranks=2, inputs=x, golden=golden)


def test_f69_there_is_no_limit_on_collectives() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        value = copied(x, "value0")
        for i in range(1, 12):
            total = hbm(f"value{i}", (4, 4))
            ncc.all_reduce([value], [total], PAIR, nl.add)
            value = total
        return returned(value)

    examined = works(kernel, ranks=2, inputs=ranked(), golden=lambda rank: np.full((4, 4), 1 << 10, np.float32))
    assert examined.result is not None
    assert examined.result.report.collectives == 11


@pytest.mark.parametrize("name", ["nki.isa.no_such_instruction", "nki.collectives.no_such_collective"])
def test_f69_what_is_not_modelled_is_refused(name: str) -> None:
    module, _, function = name.rpartition(".")
    owner = {"nki.isa": nisa, "nki.collectives": ncc}[module]

    def kernel(x: nl.ndarray) -> nl.ndarray:
        getattr(owner, function)(x)
        return returned(x)

    refused(kernel, "NKC112", "getattr(owner, function)", function, ranks=2, inputs=ranked())


def exchange(chunk: int) -> Any:
    """An all-to-all, after which chunk 1 is taken from place `chunk`."""

    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, moved, result = copied(x, "local"), hbm("moved", (4, 4)), hbm("result", (4, 4))
        ncc.all_to_all([local], [moved], ReplicaGroup([[0, 1, 2, 3]]), 0)
        for row in range(4):
            source = chunk if row == 1 else row
            nisa.dma_copy(result[row : row + 1], moved[source : source + 1])
        return result

    return kernel


def test_f70_the_comparison_finds_one_altered_chunk() -> None:
    x = distinct()

    def golden(rank: int) -> np.ndarray:
        return np.stack([x(r)["x"][rank] for r in range(4)])

    works(exchange(1), ranks=4, inputs=x, golden=golden)
    examined = examine(exchange(2), ranks=4, inputs=x, golden=golden)
    assert not examined.errors
    assert "4 of 4 ranks differ" in examined.wrong
    assert "[1:2, 0:4]" in examined.wrong


def ring(barrier: bool) -> Any:
    """Core 1 fills what core 0 sends around the ring."""

    def kernel(x: nl.ndarray) -> nl.ndarray:
        core = nl.program_id()
        local, moved, result = hbm("local", (4, 4)), hbm("moved", (4, 4)), hbm("result", (4, 4))
        if core == 1:
            nisa.dma_copy(local, x)
        if barrier:
            nisa.core_barrier(local, (0, 1))
        if core == 0:
            ncc.collective_permute_implicit([[local]], [[moved]], ReplicaGroup([[0, 1, 2, 3]]))
            nisa.dma_copy(result, moved)
        return result

    return kernel


@pytest.mark.parametrize("seed", [None, 1, 2, 3, 4, 5])
def test_f71_a_ring_without_its_start_barrier(seed: int | None) -> None:
    def golden(rank: int) -> np.ndarray:
        return np.full((4, 4), (rank - 1) % 4, np.float32)

    works(ring(barrier=True), ranks=4, lnc=2, inputs=ranked(), golden=golden, schedule=seed)
    refused(ring(barrier=False), "NKC120", says="'local'", ranks=4, lnc=2, inputs=ranked(), schedule=seed)


def test_f71_memory_that_nobody_has_written_is_reported() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        tile, total = nl.ndarray((4, 4), nl.float32), nl.ndarray((4, 4), nl.float32)
        nisa.dma_copy(tile[0:3], x[0:3])
        nisa.tensor_tensor(total, tile, tile, nl.add)
        return returned(total)

    refused(kernel, "NKC121", "nisa.tensor_tensor(", ("[3, 0]", "nobody has written"), ranks=2, inputs=ranked())


def test_f72_each_rank_has_a_golden_of_its_own() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, moved = copied(x, "local"), hbm("moved", (2, 4))
        ncc.all_to_all([local], [moved], PAIR, 0)
        return returned(moved)

    def x(rank: int) -> dict[str, Any]:
        return {"x": np.array([[2 * rank], [2 * rank + 1]], np.float32) * np.ones(4, np.float32)}

    def golden(rank: int) -> np.ndarray:
        return np.array([[rank], [2 + rank]], np.float32) * np.ones(4, np.float32)

    examined = works(kernel, ranks=2, inputs=x, golden=golden)
    assert examined.result is not None
    with pytest.raises(AssertionError, match="rank 1: output 0"):
        assert_ranks(examined.result.outputs, lambda rank: golden(0))


def test_a_run_that_fails_gives_no_result() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, total = copied(x, "local"), hbm("total", (4, 4))
        nisa.register_load(register := nisa.register_alloc(), local)  # type: ignore[arg-type]
        nisa.dma_copy(total, local.select(0, register))
        return returned(total)

    examined = examine(kernel, ranks=2, inputs=ranked())
    assert examined.errors
    assert examined.result is None
    assert issubclass(NkiccError, Exception)
