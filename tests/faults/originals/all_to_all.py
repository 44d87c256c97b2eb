"""A transposition of blocks by all-to-all, there and back."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

RANKS, LNC = 4, 1


@nki.jit
def all_to_all(x: nl.ndarray, size: int) -> nl.ndarray:
    group = ReplicaGroup([list(range(size))])
    sent = nl.ndarray((8, 6), nl.float32, nl.shared_hbm, name="sent")
    arrived = nl.ndarray((8, 6), nl.float32, nl.shared_hbm, name="arrived")
    tile = nl.ndarray((8, 6), nl.float32, nl.sbuf)
    returned = nl.ndarray((8, 6), nl.float32, nl.shared_hbm, name="returned")
    result = nl.ndarray((8, 6), nl.float32, nl.shared_hbm, name="result")
    nisa.dma_copy(dst=sent, src=x)
    ncc.all_to_all(srcs=[sent], dsts=[arrived], replica_group=group, collective_dim=0)
    nisa.dma_copy(dst=tile, src=arrived)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0)
    nisa.dma_copy(dst=arrived, src=tile)
    ncc.all_to_all(srcs=[arrived], dsts=[returned], replica_group=group, collective_dim=0)
    nisa.dma_copy(dst=result, src=returned)
    return result


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (8, 6)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank), "size": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    return 3 * _x(rank)
