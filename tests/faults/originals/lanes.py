"""Each core reduces a tile of its own with the same core of the other ranks."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

RANKS, LNC = 2, 2


@nki.jit
def lanes(x: nl.ndarray, size: int) -> nl.ndarray:
    core = nl.program_id(0)
    group = ReplicaGroup([list(range(size))])
    tile = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    total = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    whole = nl.ndarray((16, size * 8), nl.float32, nl.sbuf)
    result = nl.ndarray((2, 16, size * 8), nl.float32, nl.shared_hbm, name="result")
    nisa.dma_copy(dst=tile, src=x[core])
    ncc.all_reduce(srcs=[tile], dsts=[total], replica_group=group, op=nl.add)
    nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.subtract)
    ncc.all_gather(srcs=[total], dsts=[whole], replica_group=group, collective_dim=1)
    nisa.dma_copy(dst=result[core], src=whole)
    return result


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (2, 16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank), "size": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    total = sum(_x(r) for r in range(ranks))
    return np.concatenate([total - _x(r) for r in range(ranks)], axis=2)
