"""An exchange of variable counts whose metadata come with the data."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

RANKS, LNC = 4, 1
SLOT = 8
COUNTS = np.array([[5, 1, 0, 2], [0, 0, 0, 0], [1, 3, 2, 1], [0, 4, 1, 6]], np.uint32)  # [sender, receiver]


@nki.jit
def variable(x: nl.ndarray, plan: nl.ndarray, fill: nl.ndarray, size: int) -> tuple[nl.ndarray, nl.ndarray]:
    group = ReplicaGroup([list(range(size))])
    sent = nl.ndarray((16,), nl.float32, nl.shared_hbm, name="sent")
    arrived = nl.ndarray((size * SLOT,), nl.float32, nl.shared_hbm, name="arrived")
    table = nl.ndarray((3, size), nl.uint32, nl.shared_hbm, name="table")
    result = nl.ndarray((size * SLOT,), nl.float32, nl.shared_hbm, name="result")
    counts = nl.ndarray((1, size), nl.uint32, nl.shared_hbm, name="counts")
    nisa.dma_copy(dst=sent, src=x)
    nisa.dma_copy(dst=arrived, src=fill)
    nisa.dma_copy(dst=table, src=plan)
    ncc.all_to_all_v(srcs=[sent], dsts=[arrived], replica_group=group, metadata_tensor=table)
    nisa.dma_copy(dst=result, src=arrived)
    nisa.dma_copy(dst=counts, src=table[2:3])
    return result, counts


def _x(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, 16).astype(np.float32)


def _plan(rank: int) -> np.ndarray:
    count = COUNTS[rank]
    return np.stack([count, np.cumsum(count) - count, np.zeros_like(count)]).astype(np.uint32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank), "plan": _plan(rank), "fill": np.full(ranks * SLOT, -77, np.float32), "size": ranks}


def golden(rank: int, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    result = np.full((ranks, SLOT), -77, np.float32)
    for sender in range(ranks):
        counts, offsets, _ = _plan(sender).astype(int)
        result[sender, : counts[rank]] = _x(sender)[offsets[rank] : offsets[rank] + counts[rank]]
    return result.reshape(-1), COUNTS[:, rank][None]
