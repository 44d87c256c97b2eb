"""A reduce-scatter made of ring steps that reduce, then an all-reduce that joins the parts."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

RANKS, LNC = 4, 1


@nki.jit
def ring_reduce(x: nl.ndarray, size: int) -> nl.ndarray:
    group = ReplicaGroup([list(range(size))])
    partial = [nl.ndarray((16, 8), nl.float32, nl.sbuf, name=f"partial{i}") for i in range(2)]
    own = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    zeros = nl.ndarray((16, 8), nl.float32, nl.sbuf)
    parts = nl.ndarray((size, 16, 8), nl.float32, nl.shared_hbm, name="parts")
    joined = nl.ndarray((size, 16, 8), nl.float32, nl.shared_hbm, name="joined")
    result = nl.ndarray((size, 16, 8), nl.float32, nl.shared_hbm, name="result")
    nisa.memset(dst=zeros, value=0.0)
    nisa.memset(dst=partial[0], value=0.0)
    for chunk in range(size):
        nisa.dma_copy(dst=parts[chunk], src=zeros)
    for step in range(size):
        # The sum that passes by now was begun by this rank, for its chunk.
        begun = ncc.collective_permute_implicit_current_processing_rank_id(step, group)
        nisa.dma_copy(dst=own, src=x.select(0, begun))
        if step + 1 < size:
            ncc.collective_permute_implicit_reduce(
                srcs0_by_channel=[[partial[step % 2]]],
                srcs1_by_channel=[[own]],
                dsts_by_channel=[[partial[(step + 1) % 2]]],
                replica_group=group,
                op=nl.add,
            )
        else:
            nisa.tensor_tensor(dst=own, data1=own, data2=partial[step % 2], op=nl.add)
            nisa.dma_copy(dst=parts.select(0, begun), src=own)
    ncc.all_reduce(srcs=[parts], dsts=[joined], replica_group=group, op=nl.add)
    nisa.dma_copy(dst=result, src=joined)
    return result


def _x(rank: int, ranks: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-9, 9, (ranks, 16, 8)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _x(rank, ranks), "size": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    return sum(_x(r, ranks) for r in range(ranks))
