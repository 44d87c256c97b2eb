"""The two cores swap two tiles, each on a pipe of its own."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

RANKS, LNC = 2, 2


@nki.jit
def swap(x: nl.ndarray) -> nl.ndarray:
    core = nl.program_id(0)
    other = 1 - core
    result = nl.ndarray((2, 2, 16, 8), nl.float32, nl.shared_hbm, name="result")
    a = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    b = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    far_a = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    far_b = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    nisa.dma_copy(dst=a, src=x[core, 0])
    nisa.dma_copy(dst=b, src=x[core, 1])
    nisa.sendrecv(src=a, dst=far_a, send_to_rank=other, recv_from_rank=other, pipe_id=0)
    nisa.sendrecv(src=b, dst=far_b, send_to_rank=other, recv_from_rank=other, pipe_id=1)
    nisa.dma_copy(dst=result[core, 0], src=far_a)
    nisa.dma_copy(dst=result[core, 1], src=far_b)
    return result


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (2, 2, 16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank)}


def golden(rank: int, ranks: int) -> np.ndarray:
    return _x(rank)[::-1]
