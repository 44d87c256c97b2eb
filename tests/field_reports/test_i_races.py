"""Two accesses to one buffer without an ordering edge, or a wait that pairs with the wrong signal."""

from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

from .helpers import copied, distinct, hbm, ranked, refused, returned, works
from .test_h_counts import SLOT, data, golden, inputs, plan

SEEDS = pytest.mark.parametrize("seed", [None, 1, 2, 3, 4, 5])
EVERYONE = ReplicaGroup([[0, 1, 2, 3]])
PAIR = ReplicaGroup([[0, 1]])


def fill(tensor: nl.ndarray, value: float) -> None:
    tile = nl.full(tensor.shape, value, tensor.dtype)
    nisa.dma_copy(tensor, tile)


def of(*values: float) -> Any:
    return lambda rank: np.full((4, 4), values[rank], np.float32)


@SEEDS
def test_f56_a_source_may_be_overwritten_by_the_next_line(seed: int | None) -> None:
    """Instructions run in program order: the collective has read its source before the next line."""

    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, total = copied(x, "local"), hbm("total", (4, 4))
        ncc.all_reduce([local], [total], PAIR, nl.add)
        fill(local, float("nan"))
        return returned(total)

    works(kernel, ranks=2, inputs=ranked(), golden=of(1, 1), schedule=seed)


@SEEDS
def test_f57_turns_of_a_loop_do_not_mix(seed: int | None) -> None:
    def kernel(x: nl.ndarray, fast: bool) -> nl.ndarray:
        result = hbm("result", (3, 4, 4))
        for i in range(3):
            tile, total = nl.ndarray((4, 4), nl.float32), nl.ndarray((4, 4), nl.float32)
            nisa.dma_copy(tile, x)
            for _ in range(0 if fast else 50):
                nisa.tensor_scalar(tile, tile, nl.multiply, 1.0)
            nisa.tensor_scalar(tile, tile, nl.add, 10.0 * i)
            ncc.all_reduce([tile], [total], PAIR, nl.add)
            far = nl.ndarray((4, 4), nl.float32)
            other = 1 - nl.program_id()
            nisa.sendrecv(src=total, dst=far, send_to_rank=other, recv_from_rank=other, pipe_id=0)
            nisa.dma_copy(result[i], far)
        return result

    want = np.stack([np.full((4, 4), value, np.float32) for value in (1, 21, 41)])
    works(
        kernel,
        ranks=2,
        lnc=2,
        inputs=lambda rank: {**ranked()(rank), "fast": rank == 1},
        golden=lambda rank: want,
        schedule=seed,
    )


@SEEDS
def test_f58_the_kth_barrier_meets_the_kth(seed: int | None) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        core = nl.program_id()
        shared, result = hbm("shared", (2, 4, 4)), hbm("result", (2, 8, 4, 4))
        for turn in range(8):
            tile, far = nl.ndarray((4, 4), nl.float32), nl.ndarray((4, 4), nl.float32)
            nisa.dma_copy(tile, x)
            for _ in range(20 if core == 1 and turn == 3 else 0):
                nisa.tensor_scalar(tile, tile, nl.multiply, 1.0)
            nisa.tensor_scalar(tile, tile, nl.add, 10.0 * turn + core)
            nisa.dma_copy(shared[core], tile)
            nisa.core_barrier(shared, (0, 1))
            nisa.dma_copy(far, shared[1 - core])
            nisa.core_barrier(shared, (0, 1))
            nisa.dma_copy(result[core, turn], far)
        return result

    want = [[np.full((4, 4), 10 * turn + 1 - core, np.float32) for turn in range(8)] for core in range(2)]
    works(kernel, ranks=1, lnc=2, inputs=ranked(), golden=lambda rank: np.array(want), schedule=seed)


def test_f59_ordered_accesses_raise_no_alarm_in_repeated_calls() -> None:
    def once(local: nl.ndarray, total: nl.ndarray, x: nl.ndarray) -> None:
        rows = nl.ds(nl.program_id() * 2, 2)
        nisa.dma_copy(local[rows], x[rows])
        nisa.core_barrier(local, (0, 1))
        ncc.all_reduce([local], [total], PAIR, nl.add)
        nisa.core_barrier(total, (0, 1))

    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, total, result = hbm("local", (4, 4)), hbm("total", (4, 4)), hbm("result", (4, 4))
        once(local, total, x)
        once(local, total, x)
        rows = nl.ds(nl.program_id() * 2, 2)
        nisa.dma_copy(result[rows], total[rows])
        return result

    works(kernel, ranks=2, lnc=2, inputs=ranked(), golden=of(1, 1))


def test_f60_metadata_may_be_rewritten_once_the_exchange_stands_in_the_program() -> None:
    """The rule is that of F56: operands and metadata are free for reuse from the next line on."""
    counts = [[1, 2], [3, 0]]

    def kernel(x: nl.ndarray, plan: nl.ndarray, fill: nl.ndarray, size: int) -> nl.ndarray:
        source, target, table = copied(x, "source"), copied(fill, "target"), copied(plan, "table")
        ncc.all_to_all_v([source], [target], ReplicaGroup([list(range(size))]), table)
        nisa.dma_copy(table, nl.zeros(plan.shape, plan.dtype))
        nisa.dma_copy(source, nl.zeros((1, 16), nl.float32))
        return returned(target)

    works(kernel, ranks=2, inputs=inputs([plan(row) for row in counts]), golden=lambda rank: golden(counts)(rank)[0])
    assert data(0).size == 2 * SLOT


@SEEDS
def test_f61_chains_and_ping_pong_in_program_order_are_legal(seed: int | None) -> None:
    def chain(x: nl.ndarray) -> nl.ndarray:
        a, b, c = copied(x, "a"), hbm("b", (4, 4)), hbm("c", (4, 4))
        result = hbm("result", (3, 4, 4))
        for i, (source, target) in enumerate(((a, b), (b, c), (c, a))):
            ncc.all_reduce([source], [target], EVERYONE, nl.add)
            nisa.dma_copy(result[i], target)
        return result

    def ping_pong(x: nl.ndarray) -> nl.ndarray:
        a, b = copied(x, "a"), hbm("b", (4, 4))
        for _ in range(5):
            ncc.all_reduce([a], [b], PAIR, nl.add)
            ncc.all_reduce([b], [a], PAIR, nl.add)
        return returned(a)

    want = np.stack([np.full((4, 4), value, np.float32) for value in (6, 24, 96)])
    works(chain, ranks=4, inputs=ranked(), golden=lambda rank: want, schedule=seed)
    works(ping_pong, ranks=2, inputs=ranked(), golden=of(512, 512), schedule=seed)


def scratch(barrier: bool) -> Any:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        core = nl.program_id()
        shared, result = hbm("shared", (2, 64)), hbm("result", (2, 64))
        nisa.dma_copy(shared[core : core + 1], x[core : core + 1])
        if barrier:
            nisa.core_barrier(shared, (0, 1))
        nisa.dma_copy(result[core : core + 1], shared[1 - core : 2 - core])
        return result

    return kernel


@SEEDS
def test_f62_rows_that_the_cores_exchange_without_a_barrier(seed: int | None) -> None:
    x = distinct((2, 64))
    works(scratch(barrier=True), ranks=1, lnc=2, inputs=x, golden=lambda rank: x(rank)["x"][::-1], schedule=seed)
    says = ("'shared'", "nothing orders", "core_barrier")
    error = refused(scratch(barrier=False), "NKC120", "shared[", says, ranks=1, lnc=2, inputs=x, schedule=seed)
    assert error.related, "the other access is named, too"


def test_f63_in_place_reads_all_before_it_writes_or_is_refused() -> None:
    def reduce(x: nl.ndarray) -> nl.ndarray:
        local = copied(x, "local")
        ncc.all_reduce([local], [local], PAIR, nl.add)
        return returned(local)

    def exchange(x: nl.ndarray) -> nl.ndarray:
        local = copied(x, "local")
        ncc.all_to_all([local], [local], PAIR, 0)
        return returned(local)

    def gather(x: nl.ndarray) -> nl.ndarray:
        local = copied(x, "local")
        ncc.all_gather([local], [local], PAIR, 0)
        return returned(local)

    def scatter(x: nl.ndarray) -> nl.ndarray:
        local = copied(x, "local")
        ncc.reduce_scatter([local], [local], PAIR, 0, nl.add)
        return returned(local)

    def exchanged(rank: int) -> np.ndarray:
        return np.repeat(np.array([0, 1], np.float32), 2)[:, None] * np.ones(4, np.float32)

    works(reduce, ranks=2, inputs=ranked(), golden=of(1, 1))
    works(exchange, ranks=2, inputs=ranked(), golden=exchanged)
    for kernel in (gather, scatter):
        refused(kernel, "NKC033", "ncc.", ("(4, 4)",), ranks=2, inputs=ranked())


@SEEDS
def test_f63_a_gather_of_a_part_of_its_own_destination(seed: int | None) -> None:
    """The source is rows of the destination: read whole before anything is written."""

    def kernel(x: nl.ndarray) -> nl.ndarray:
        whole = hbm("whole", (8, 4))
        nisa.dma_copy(whole[0:4], x)
        ncc.all_gather([whole[0:4]], [whole], PAIR, 0)
        return returned(whole)

    want = np.repeat(np.array([0, 1], np.float32), 4)[:, None] * np.ones(4, np.float32)
    works(kernel, ranks=2, inputs=ranked(), golden=lambda rank: want, schedule=seed)
