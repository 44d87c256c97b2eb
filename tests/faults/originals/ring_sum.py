"""A sum over the ring: every rank's block passes by and is added."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

RANKS, LNC = 4, 1


@nki.jit
def ring_sum(block: nl.ndarray, size: int) -> nl.ndarray:
    group = ReplicaGroup([list(range(size))])
    buffers = [nl.ndarray((16, 8), nl.float32, nl.sbuf, name=f"buffer{i}") for i in range(2)]
    total = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    result = nl.ndarray((16, 8), nl.float32, nl.shared_hbm, name="result")
    nisa.dma_copy(dst=buffers[0], src=block)
    nisa.tensor_copy(dst=total, src=buffers[0])
    for step in range(size - 1):
        held, free = buffers[step % 2], buffers[(step + 1) % 2]
        ncc.collective_permute_implicit(srcs_by_channel=[[held]], dsts_by_channel=[[free]], replica_group=group)
        nisa.tensor_tensor(dst=total, data1=total, data2=free, op=nl.add)
    nisa.dma_copy(dst=result, src=total)
    return result


def _block(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"block": _block(rank), "size": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    return sum(_block(r) for r in range(ranks))
