"""The two cores of a rank swap the halves they have computed, without going through HBM.

nkicc run examples/lnc_swap.py --ranks 4 --lnc 2
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

ROWS, COLUMNS = 64, 100


@nki.jit
def lnc_swap(halves: nl.ndarray) -> nl.ndarray:
    core = nl.program_id(0)
    other = 1 - core
    _, rows, columns = halves.shape
    result = nl.ndarray((2, rows, 2 * columns), dtype=halves.dtype, buffer=nl.shared_hbm, name="result")
    tile = nl.ndarray((rows, columns), dtype=halves.dtype, buffer=nl.sbuf)
    mine = nl.ndarray((rows, columns), dtype=halves.dtype, buffer=nl.sbuf)
    theirs = nl.ndarray((rows, columns), dtype=halves.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=halves[core])
    nisa.tensor_scalar(dst=mine, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.sendrecv(src=mine, dst=theirs, send_to_rank=other, recv_from_rank=other, pipe_id=0)
    nisa.dma_copy(dst=result[core, :, nl.ds(core * columns, columns)], src=mine)
    nisa.dma_copy(dst=result[core, :, nl.ds(other * columns, columns)], src=theirs)
    return result


def _halves(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).standard_normal((2, ROWS, COLUMNS), dtype=np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"halves": _halves(rank)}


def golden(rank: int, ranks: int) -> np.ndarray:
    both = 2 * np.concatenate(list(_halves(rank)), axis=1)
    return np.stack([both, both])
