"""A pipeline that hands batches from rank to rank with raw send and recv: every rank runs a program of its own.

The rank's stage is a Python constant of its trace, so `if` decides what its program holds. A stage sends a batch and
goes on with the next one while its successor works.

nkicc run examples/pipeline.py --ranks 2
"""

import nki
import nki.isa as nisa
import nki.language as nl
import nki.nccl as nccl
import numpy as np

BATCHES, ROWS, COLUMNS = 3, 64, 32


@nki.jit
def pipeline(x: nl.ndarray, weights: nl.ndarray, stage: int, stages: int) -> nl.ndarray:
    batches, rows, columns = x.shape
    result = nl.ndarray((batches, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm, name="result")
    scale = nl.ndarray((rows, 1), dtype=weights.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=scale, src=weights)
    for batch in nl.sequential_range(batches):
        tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
        if stage == 0:
            nisa.dma_copy(dst=tile, src=x[batch])
        else:
            nccl.recv([tile], None, stage - 1, [])
        nisa.activation(dst=tile, op=nl.relu, data=tile, scale=scale)
        if stage + 1 < stages:
            nccl.send([tile], None, stage + 1)
        nisa.dma_copy(dst=result[batch], src=tile)
    return result


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).standard_normal((BATCHES, ROWS, COLUMNS), dtype=np.float32)


def _weights(rank: int) -> np.ndarray:
    return np.random.default_rng([1, rank]).standard_normal((ROWS, 1), dtype=np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank), "weights": _weights(rank), "stage": rank, "stages": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    state = _x(0)
    for stage in range(rank + 1):
        state = np.maximum(state * _weights(stage), 0)
    return state
