"""The cores of a rank, the requested LNC and the launched grid disagree."""

from typing import Any

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

from .helpers import copied, distinct, hbm, ranked, refused, returned, works


@nki.jit
def reduce_in_sbuf(x: nl.ndarray) -> nl.ndarray:
    core = nl.program_id()
    tile, total = nl.ndarray((1, 256), nl.float32), nl.ndarray((1, 256), nl.float32)
    result = hbm("result", (nl.num_programs(), 1, 256))
    nisa.dma_copy(tile, x)
    ncc.all_reduce([tile], [total], ReplicaGroup([[0, 1]]), nl.add)
    nisa.dma_copy(result[core], total)
    return result


@nki.jit
def reduce_in_hbm(x: nl.ndarray) -> nl.ndarray:
    core = nl.program_id()
    local, total = copied(x, "local"), hbm("total", (1, 256))
    result = hbm("result", (nl.num_programs(), 1, 256))
    ncc.all_reduce([local], [total], ReplicaGroup([[0, 1]]), nl.add)
    nisa.dma_copy(result[core], total)
    return result


@pytest.mark.parametrize("kernel", [reduce_in_sbuf, reduce_in_hbm])
def test_f01_the_grid_is_compared_with_the_lnc(kernel: Any) -> None:
    x = distinct((1, 256))
    both = np.stack([x(0)["x"] + x(1)["x"]] * 2)
    works(kernel[2], ranks=2, lnc=2, inputs=x, golden=lambda rank: both)
    refused(kernel[1], "NKC011", ranks=2, lnc=2, inputs=x, says="grid has 1 core(s), LNC is 2")


@pytest.mark.parametrize("lnc", [1, 2])
def test_f02_a_ring_step_in_shared_hbm_gives_the_predecessors_value(lnc: int) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, moved = copied(x, "local"), hbm("moved", (4, 4))
        ncc.collective_permute_implicit([[local]], [[moved]], ReplicaGroup([[0, 1, 2, 3]]))
        return returned(moved)

    works(
        kernel, ranks=4, lnc=lnc, inputs=ranked(), golden=lambda rank: np.full((4, 4), (3, 0, 1, 2)[rank], np.float32)
    )


def test_f03_a_run_of_one_core_never_passes_as_one_of_two() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        result = hbm("result", (nl.num_programs(), 4, 4))
        nisa.dma_copy(result[nl.program_id()], x)
        return result

    def outside() -> Any:
        return nki.jit(kernel)[2]

    def inside(grid: int) -> Any:
        return nki.jit(kernel)[grid]

    for bound in (outside(), inside(2)):
        examined = works(bound, ranks=1, lnc=2, inputs=ranked(), golden=lambda rank: np.zeros((2, 4, 4), np.float32))
        assert examined.result is not None
        assert examined.result.report.lnc == 2
    refused(inside(1), "NKC011", ranks=1, lnc=2, inputs=ranked())
    refused(outside(), "NKC011", ranks=1, lnc=1, inputs=ranked())


def test_f04_a_transfer_of_one_core_only_is_named() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        tile, far = nl.ndarray((4, 4), nl.float32), nl.ndarray((4, 4), nl.float32)
        nisa.dma_copy(tile, x)
        if nl.program_id(0) == 0:
            nisa.sendrecv(src=tile, dst=far, send_to_rank=1, recv_from_rank=1, pipe_id=0)
        return returned(x)

    refused(kernel, "NKC142", "nisa.sendrecv(", ranks=2, lnc=2, inputs=ranked(), says="core 1")


def test_f05_one_core_issues_and_both_meet_at_a_barrier() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        core, rows = nl.program_id(), nl.ds(nl.program_id() * 8, 8)
        local, whole = hbm("local", (4, 4)), hbm("whole", (16, 4))
        result = hbm("result", (16, 4))
        if core == 0:
            nisa.dma_copy(local, x)
            ncc.all_gather([local], [whole], ReplicaGroup([[0, 1, 2, 3]]), 0)
        nisa.core_barrier(whole, (0, 1))
        nisa.dma_copy(result[rows], whole[rows])
        return result

    x = distinct()
    whole = np.concatenate([x(r)["x"] for r in range(4)])
    examined = works(kernel, ranks=4, lnc=2, inputs=x, golden=lambda rank: whole)
    assert examined.result is not None
    assert examined.result.report.readings == {"one": 1}


@pytest.mark.parametrize("reading", ["both", "lanes", "one"])
def test_the_three_readings_of_a_collective_are_right_and_reported(reading: str) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        core = nl.program_id()
        group = ReplicaGroup([[0, 1]])
        result = hbm("result", (2, 4, 4))
        if reading == "lanes":
            source, target = nl.ndarray((4, 4), nl.float32), nl.ndarray((4, 4), nl.float32)
            nisa.dma_copy(source, x[core])
        else:
            source, target = hbm("source", (4, 4)), hbm("target", (4, 4))
            if core == 0:
                nisa.dma_copy(source, x[0])
            nisa.core_barrier(source, (0, 1))
        if reading != "one" or core == 0:
            ncc.all_reduce([source], [target], group, nl.add)
        if reading == "one":
            nisa.core_barrier(target, (0, 1))
        nisa.dma_copy(result[core], target)
        return result

    def x(rank: int) -> dict[str, Any]:
        return {"x": np.stack([np.full((4, 4), 10 * rank + core, np.float32) for core in range(2)])}

    sums = (10, 12) if reading == "lanes" else (10, 10)
    want = np.stack([np.full((4, 4), value, np.float32) for value in sums])
    examined = works(kernel, ranks=2, lnc=2, inputs=x, golden=lambda rank: want)
    assert examined.result is not None
    assert list(examined.result.report.readings) == [reading]
