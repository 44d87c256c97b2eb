"""A report of a hang says where everybody is and how they came there."""

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki import nccl
from nki.collectives import ReplicaGroup

from .helpers import copied, hbm, refused, returned

EVERYONE = ReplicaGroup([list(range(8))])


@pytest.mark.parametrize("bound", [None, 1], ids=["before the run", "in the run"])
def test_f73_ranks_in_the_same_place_share_an_entry(bound: int | None) -> None:
    """Ranks 0 to 6 wait for rank 7, which waits for rank 0. A bound that is data hides that until the run."""

    def kernel(x: nl.ndarray, turns: nl.ndarray, rank: int) -> nl.ndarray:
        local, total = copied(x, "local"), copied(x, "total")
        if rank == 7:
            nccl.recv([total], None, 0, [])
            return returned(total)

        def turn(number: nl.ndarray) -> None:
            ncc.all_reduce([local], [total], EVERYONE, nl.add, name="early")

        if bound is None:
            turn(x)
        else:
            nl.fori_loop(0, nisa.register_alloc(turns), turn)
        return returned(total)

    def inputs(rank: int) -> dict[str, object]:
        return {"x": np.full((4, 4), rank, np.float32), "turns": np.array([[bound or 1]], np.int32), "rank": rank}

    code = "NKC146" if bound is None else "NKC100"
    error = refused(kernel, code, "", ("early", "0-6"), ranks=8, inputs=inputs)
    assert len(error.related) <= 4, "eight ranks in two places are not eight entries"


def test_f74_the_history_of_every_stream_is_kept() -> None:
    """Core 0 of rank 0 waits at a barrier that its core 1 does not come to; what all have done before is told."""

    def kernel(x: nl.ndarray, turns: nl.ndarray) -> nl.ndarray:
        core = nl.program_id()
        local, total = hbm("local", (4, 4)), hbm("total", (4, 4))
        if core == 0:
            nisa.dma_copy(local, x)
        nisa.core_barrier(local, (0, 1), name="together")
        for i in range(2):
            ncc.all_reduce([local], [total], ReplicaGroup([[0, 1]]), nl.add, name=f"step{i}")

        def turn(number: nl.ndarray) -> None:
            nisa.core_barrier(total, (0, 1), name="alone")

        nl.fori_loop(0, nisa.register_alloc(turns[core : core + 1]), turn)
        return returned(total) if core == 0 else hbm("result", (4, 4))

    def inputs(rank: int) -> dict[str, object]:
        return {"x": np.full((4, 4), rank, np.float32), "turns": np.array([[1], [0]], np.int32)}

    refused(
        kernel,
        "NKC100",
        "",
        ("alone", "core 1 issued 3: CoreBarrier test_l_diagnosis.py:"),
        ranks=2,
        lnc=2,
        inputs=inputs,
    )
