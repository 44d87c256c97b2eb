"""A reduction in a loop of the device: the sum grows by the number of ranks in every turn."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

RANKS, LNC = 2, 1


@nki.jit
def loop(x: nl.ndarray, rank: int, size: int) -> nl.ndarray:
    group = ReplicaGroup([list(range(size))])
    turns = 3
    value = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="value")
    total = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="total")
    result = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="result")
    nisa.dma_copy(dst=value, src=x)

    def turn(number: nl.ndarray) -> None:
        ncc.all_reduce(srcs=[value], dsts=[total], replica_group=group, op=nl.add)
        nisa.dma_copy(dst=value, src=total)

    nl.fori_loop(0, turns, turn)
    nisa.dma_copy(dst=result, src=value)
    return result


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank), "rank": rank, "size": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    return sum(_x(r) for r in range(ranks)) * ranks**2
