"""Two groups reduce independently of each other."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

RANKS, LNC = 4, 1
GROUPS = [[0, 1], [2, 3]]


@nki.jit
def all_reduce(x: nl.ndarray) -> nl.ndarray:
    local = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="local")
    total = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="total")
    result = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="result")
    nisa.dma_copy(dst=local, src=x)
    ncc.all_reduce(srcs=[local], dsts=[total], replica_group=ReplicaGroup(GROUPS), op=nl.add)
    nisa.dma_copy(dst=result, src=total)
    return result


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank)}


def golden(rank: int, ranks: int) -> np.ndarray:
    return _x(rank) + _x(rank ^ 1)
