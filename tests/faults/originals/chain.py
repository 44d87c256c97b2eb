"""A chain of raw sends and receives: every rank adds its part to what comes and hands it on."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki import nccl

RANKS, LNC = 3, 1


@nki.jit
def chain(x: nl.ndarray, rank: int, size: int) -> nl.ndarray:
    tile = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    come = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    result = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="result")
    nisa.dma_copy(dst=tile, src=x)
    if rank > 0:
        nccl.recv([come], None, rank - 1, [])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=come, op=nl.add)
    if rank + 1 < size:
        nccl.send([tile], None, rank + 1)
    nisa.dma_copy(dst=result, src=tile)
    return result


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank), "rank": rank, "size": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    return sum(_x(r) for r in range(rank + 1))
