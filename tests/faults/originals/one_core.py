"""Core 0 issues the collective for its rank, core 1 waits for it at a barrier; both use the result."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

RANKS, LNC = 2, 2


@nki.jit
def one_core(x: nl.ndarray, size: int) -> nl.ndarray:
    core = nl.program_id(0)
    mine = nl.ds(core * 8, 8)
    local = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="local")
    whole = nl.ndarray((size * 16, 8), nl.float32, nl.shared_hbm, name="whole")
    result = nl.ndarray((size * 16, 8), nl.float32, nl.shared_hbm, name="result")
    nisa.dma_copy(dst=local[mine], src=x[mine])
    nisa.core_barrier(local, (0, 1))
    if core == 0:
        ncc.all_gather(srcs=[local], dsts=[whole], replica_group=ReplicaGroup([list(range(size))]), collective_dim=0)
    nisa.core_barrier(whole, (0, 1))
    half = nl.ds(core * size * 8, size * 8)
    nisa.dma_copy(dst=result[half], src=whole[half])
    return result


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank), "size": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    return np.concatenate([_x(r) for r in range(ranks)])
