"""A reduce-scatter and an all-gather on SBUF tiles, with arithmetic on the part in between."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

RANKS, LNC = 4, 1


@nki.jit
def scatter_gather(x: nl.ndarray, size: int) -> nl.ndarray:
    rows, columns = x.shape
    group = ReplicaGroup([list(range(size))])
    local = nl.ndarray((rows, columns), nl.float32, nl.sbuf)
    part = nl.ndarray((rows // size, columns), nl.float32, nl.sbuf)
    doubled = nl.ndarray((rows // size, columns), nl.float32, nl.sbuf)
    whole = nl.ndarray((rows, columns), nl.float32, nl.sbuf)
    result = nl.ndarray((rows, columns), nl.float32, nl.shared_hbm, name="result")
    nisa.dma_copy(dst=local, src=x)
    ncc.reduce_scatter(srcs=[local], dsts=[part], replica_group=group, collective_dim=0, op=nl.add)
    nisa.tensor_tensor(dst=doubled, data1=part, data2=part, op=nl.add)
    ncc.all_gather(srcs=[doubled], dsts=[whole], replica_group=group, collective_dim=0)
    nisa.dma_copy(dst=result, src=whole)
    return result


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (32, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank), "size": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    return 2 * sum(_x(r) for r in range(ranks))
