"""An all-gather made of ring steps on two channels."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

RANKS, LNC = 4, 1


@nki.jit
def ring_gather(block: nl.ndarray, size: int) -> nl.ndarray:
    group = ReplicaGroup([list(range(size))])
    left = [nl.ndarray((16, 4), nl.float32, nl.sbuf, name=f"left{i}") for i in range(2)]
    right = [nl.ndarray((16, 4), nl.float32, nl.sbuf, name=f"right{i}") for i in range(2)]
    result = nl.ndarray((size, 16, 8), nl.float32, nl.shared_hbm, name="result")
    nisa.dma_copy(dst=left[0], src=block[:, 0:4])
    nisa.dma_copy(dst=right[0], src=block[:, 4:8])
    for step in range(size):
        held, free = step % 2, (step + 1) % 2
        owner0 = ncc.collective_permute_implicit_current_processing_rank_id(step, group, channel_id=0, num_channels=2)
        owner1 = ncc.collective_permute_implicit_current_processing_rank_id(step, group, channel_id=1, num_channels=2)
        nisa.dma_copy(dst=result.select(0, owner0)[:, 0:4], src=left[held])
        nisa.dma_copy(dst=result.select(0, owner1)[:, 4:8], src=right[held])
        if step + 1 < size:
            ncc.collective_permute_implicit(
                srcs_by_channel=[[left[held]], [right[held]]],
                dsts_by_channel=[[left[free]], [right[free]]],
                replica_group=group,
                channel_ids=[0, 1],
            )
    return result


def _block(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"block": _block(rank), "size": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    return np.stack([_block(r) for r in range(ranks)])
