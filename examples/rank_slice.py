"""Each rank reads its own slice of a tensor that is the same everywhere: a dynamic offset driven by the rank.

nkicc run examples/rank_slice.py --ranks 4
"""

from functools import cache

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

ROWS, COLUMNS = 32, 40


@nki.jit
def rank_slice(weights: nl.ndarray) -> nl.ndarray:
    _, rows, columns = weights.shape
    result = nl.ndarray((rows, columns), dtype=weights.dtype, buffer=nl.shared_hbm, name="result")
    rank = ncc.rank_id()
    mine = weights.ap(pattern=[[columns, rows], [1, columns]], scalar_offset=rank, indirect_dim=0)
    nisa.dma_copy(dst=result, src=mine)
    return result


@cache
def _weights(ranks: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ranks, ROWS, COLUMNS), dtype=np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"weights": _weights(ranks)}


def golden(rank: int, ranks: int) -> np.ndarray:
    return _weights(ranks)[rank]
