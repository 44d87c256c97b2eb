"""Two cores write halves of a tensor in shared HBM, meet, and read each other's; twice, on one scratch tensor."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

RANKS, LNC = 2, 2


@nki.jit
def exchange(x: nl.ndarray) -> nl.ndarray:
    core = nl.program_id(0)
    mine, other = nl.ds(core * 8, 8), nl.ds((1 - core) * 8, 8)
    scratch = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="scratch")
    result = nl.ndarray((2, 16, 8), nl.float32, nl.shared_hbm, name="result")
    for turn in range(2):
        tile = nl.ndarray((8, 8), nl.float32, nl.sbuf)
        far = nl.ndarray((8, 8), nl.float32, nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[turn, mine])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=scratch[mine], src=tile)
        nisa.core_barrier(scratch, (0, 1), name=f"written{turn}")
        nisa.dma_copy(dst=far, src=scratch[other])
        nisa.core_barrier(scratch, (0, 1), name=f"read{turn}")
        nisa.dma_copy(dst=result[turn, other], src=far)
    return result


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (2, 16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank)}


def golden(rank: int, ranks: int) -> np.ndarray:
    return 2 * _x(rank)
