"""Every rank takes its own row of a table by its number; a loop of the device walks over its blocks."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

RANKS, LNC = 4, 1


@nki.jit
def offsets(table: nl.ndarray, size: int) -> nl.ndarray:
    group = ReplicaGroup([list(range(size))])
    local = nl.ndarray((3, 16, 8), nl.float32, nl.shared_hbm, name="local")
    total = nl.ndarray((3, 16, 8), nl.float32, nl.shared_hbm, name="total")
    result = nl.ndarray((3, 16, 8), nl.float32, nl.shared_hbm, name="result")
    rank = ncc.rank_id()
    mine = nl.ndarray((3, 16, 8), nl.float32, nl.shared_hbm, name="mine")
    nisa.dma_copy(dst=mine, src=table.select(0, rank))

    def double(block: nl.ndarray) -> None:
        tile = nl.ndarray((16, 8), nl.float32, nl.sbuf)
        nisa.dma_copy(dst=tile, src=mine.select(0, block))
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=local.select(0, block), src=tile)

    nl.fori_loop(0, 3, double)
    ncc.all_reduce(srcs=[local], dsts=[total], replica_group=group, op=nl.add)
    nisa.dma_copy(dst=result, src=total)
    return result


def _table(ranks: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-9, 9, (ranks, 3, 16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"table": _table(ranks), "size": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    return 2 * _table(ranks).sum(0)
