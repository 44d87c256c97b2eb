"""Both cores issue the collective on shared tensors: one operation per rank, which orders the cores."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

RANKS, LNC = 2, 2


@nki.jit
def both_cores(x: nl.ndarray, size: int) -> nl.ndarray:
    core = nl.program_id(0)
    mine = nl.ds(core * 8, 8)
    group = ReplicaGroup([list(range(size))])
    local = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="local")
    total = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="total")
    biggest = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="biggest")
    result = nl.ndarray((2, 16, 8), nl.float32, nl.shared_hbm, name="result")
    nisa.dma_copy(dst=local[mine], src=x[mine])
    nisa.core_barrier(local, (0, 1))
    ncc.all_reduce(srcs=[local], dsts=[total], replica_group=group, op=nl.add)
    ncc.all_reduce(srcs=[local], dsts=[biggest], replica_group=group, op=nl.maximum)
    nisa.dma_copy(dst=result[0, mine], src=total[mine])
    nisa.dma_copy(dst=result[1, mine], src=biggest[mine])
    return result


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank), "size": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    values = np.stack([_x(r) for r in range(ranks)])
    return np.stack([values.sum(0), values.max(0)])
