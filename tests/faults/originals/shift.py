"""A shift along explicit pairs, after which each rank adds what it got to what it has."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

RANKS, LNC = 4, 1


@nki.jit
def shift(x: nl.ndarray, size: int) -> nl.ndarray:
    pairs = [(rank, (rank + 1) % size) for rank in range(size)]
    local = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="local")
    moved = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="moved")
    result = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="result")
    mine = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    other = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    nisa.dma_copy(dst=local, src=x)
    ncc.collective_permute(srcs=[local], dsts=[moved], source_target_pairs=pairs)
    nisa.dma_copy(dst=mine, src=local)
    nisa.dma_copy(dst=other, src=moved)
    nisa.tensor_tensor(dst=mine, data1=mine, data2=other, op=nl.add)
    nisa.dma_copy(dst=result, src=mine)
    return result


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank), "size": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    return _x(rank) + _x((rank - 1) % ranks)
