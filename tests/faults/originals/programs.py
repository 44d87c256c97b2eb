"""Ranks that run programs of their own issue the same collectives, over several groupings."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

RANKS, LNC = 4, 1
GROUPINGS = ([[0, 1, 2, 3]], [[0, 1], [2, 3]], [[1, 2], [3, 0]])


@nki.jit
def programs(x: nl.ndarray, rank: int) -> nl.ndarray:
    everyone, neighbours, others = (ReplicaGroup(groups) for groups in GROUPINGS)
    local = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="local")
    sums = [nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name=f"sum{i}") for i in range(3)]
    scaled = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    result = nl.ndarray((3, 16, 8), nl.float32, nl.shared_hbm, name="result")
    nisa.dma_copy(dst=scaled, src=x)
    nisa.tensor_scalar(dst=scaled, data=scaled, op0=nl.multiply, operand0=float(rank + 1))
    nisa.dma_copy(dst=local, src=scaled)
    ncc.all_reduce(srcs=[local], dsts=[sums[0]], replica_group=everyone, op=nl.add)
    ncc.all_reduce(srcs=[local], dsts=[sums[1]], replica_group=neighbours, op=nl.add)
    ncc.all_reduce(srcs=[local], dsts=[sums[2]], replica_group=others, op=nl.add)
    for i in range(3):
        nisa.dma_copy(dst=result[i], src=sums[i])
    return result


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank), "rank": rank}


def golden(rank: int, ranks: int) -> np.ndarray:
    group_of = [next(group for group in groups if rank in group) for groups in GROUPINGS]
    return np.stack([sum((r + 1) * _x(r) for r in group) for group in group_of])
