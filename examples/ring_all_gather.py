"""An all-gather made of ring steps: two channels, two buffers, and each arriving block stored where its owner belongs.

The kernel never computes its neighbour. It asks which rank's block has arrived, so it is right for any ring order.

nkicc run examples/ring_all_gather.py --ranks 4
"""

from functools import cache

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

CHANNELS = 2
ROWS, COLUMNS = 64, 128


@nki.jit
def ring_all_gather(block: nl.ndarray, group: ReplicaGroup, size: int) -> nl.ndarray:
    rows, columns = block.shape
    width = columns // CHANNELS
    result = nl.ndarray((size, rows, columns), dtype=block.dtype, buffer=nl.shared_hbm, name="result")
    buffers = [nl.ndarray((rows, columns), dtype=block.dtype, buffer=nl.sbuf, name=f"buffer{i}") for i in range(2)]
    nisa.dma_copy(dst=buffers[0], src=block)
    for step in nl.sequential_range(size):
        held, free = buffers[step % 2], buffers[(step + 1) % 2]
        lanes = [nl.ds(channel * width, width) for channel in range(CHANNELS)]
        for channel, lane in enumerate(lanes):
            owner = ncc.collective_permute_implicit_current_processing_rank_id(
                iteration_id=step, replica_group=group, channel_id=channel
            )
            nisa.dma_copy(dst=result.select(0, owner)[:, lane], src=held[:, lane])
        if step + 1 < size:
            ncc.collective_permute_implicit(
                srcs_by_channel=[[held[:, lane]] for lane in lanes],
                dsts_by_channel=[[free[:, lane]] for lane in lanes],
                replica_group=group,
                channel_ids=list(range(CHANNELS)),
            )
    return result


def _block(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).standard_normal((ROWS, COLUMNS), dtype=np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"block": _block(rank), "group": ReplicaGroup([list(range(ranks))]), "size": ranks}


@cache
def _gathered(ranks: int) -> np.ndarray:
    return np.stack([_block(r) for r in range(ranks)])


def golden(rank: int, ranks: int) -> np.ndarray:
    return _gathered(ranks)
