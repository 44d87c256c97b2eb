"""Two cores fill one tensor in shared HBM, meet, and only then read what the other has written.

nkicc run examples/core_barrier.py --ranks 2 --lnc 2
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

ROWS, COLUMNS = 64, 80


@nki.jit
def core_barrier(x: nl.ndarray) -> nl.ndarray:
    core, cores = nl.program_id(0), nl.num_programs()
    rows, columns = x.shape
    share = rows // cores
    squares = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm, name="squares")
    result = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm, name="result")
    mine = nl.ds(core * share, share)
    tile = nl.ndarray((share, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[mine])
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply)
    nisa.dma_copy(dst=squares[mine], src=tile)
    nisa.core_barrier(squares, tuple(range(cores)))
    # What the other core has written: wrong without the barrier.
    other = nl.ds((cores - 1 - core) * share, share)
    far = nl.ndarray((share, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=far, src=squares[other])
    nisa.dma_copy(dst=result[other], src=far)
    return result


def _x(rank: int) -> np.ndarray:
    return np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) % 61 + rank


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank)}


def golden(rank: int, ranks: int) -> np.ndarray:
    return _x(rank) ** 2
