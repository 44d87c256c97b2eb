"""Reduce over the ranks and leave each with its own chunk of rows: the first half of a sharded all-reduce.

nkicc run examples/reduce_scatter.py --ranks 8
"""

from functools import cache

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

CHUNK, COLUMNS = 32, 96


@nki.jit
def reduce_scatter(partial: nl.ndarray, group: ReplicaGroup, size: int) -> nl.ndarray:
    rows, columns = partial.shape
    whole = nl.ndarray((rows, columns), dtype=partial.dtype, buffer=nl.shared_hbm, name="whole")
    chunk = nl.ndarray((rows // size, columns), dtype=partial.dtype, buffer=nl.shared_hbm, name="chunk")
    result = nl.ndarray((rows // size, columns), dtype=partial.dtype, buffer=nl.shared_hbm, name="result")
    nisa.dma_copy(dst=whole, src=partial)
    ncc.reduce_scatter(srcs=[whole], dsts=[chunk], replica_group=group, collective_dim=0, op=nl.add)
    nisa.dma_copy(dst=result, src=chunk)
    return result


def _partial(rank: int, ranks: int) -> np.ndarray:
    rows = np.arange(CHUNK * ranks, dtype=np.float32)[:, None]
    return rows * (rank + 1) + np.arange(COLUMNS, dtype=np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"partial": _partial(rank, ranks), "group": ReplicaGroup([list(range(ranks))]), "size": ranks}


@cache
def _total(ranks: int) -> np.ndarray:
    return sum(_partial(r, ranks) for r in range(ranks))


def golden(rank: int, ranks: int) -> np.ndarray:
    return _total(ranks)[rank * CHUNK : (rank + 1) * CHUNK]
