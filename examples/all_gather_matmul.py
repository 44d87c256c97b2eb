"""All-gather fused with a matmul: while a block of rows travels around the ring, the one before it is multiplied.

Each rank holds some rows of the left matrix and some columns of the right one, and ends with all rows of its columns.
Gathering first would need room for the whole left matrix; here a rank never holds more than two blocks.

nkicc run examples/all_gather_matmul.py --ranks 4
"""

from functools import cache

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

ROWS, DEPTH, COLUMNS = 64, 256, 96  # of one rank


@nki.jit
def all_gather_matmul(left_t: nl.ndarray, right: nl.ndarray, group: ReplicaGroup, size: int) -> nl.ndarray:
    # The left matrix comes transposed: the tensor engine contracts along partitions.
    depth, rows = left_t.shape
    _, columns = right.shape
    tile = nl.tile_size.pmax
    tiles = depth // tile
    result = nl.ndarray((size, rows, columns), dtype=left_t.dtype, buffer=nl.shared_hbm, name="result")

    # A block keeps the tiles of its depth side by side, so that one permute moves it as a whole.
    blocks = [nl.ndarray((tile, tiles * rows), dtype=left_t.dtype, buffer=nl.sbuf, name=f"block{i}") for i in range(2)]
    weights = nl.ndarray((tile, tiles * columns), dtype=right.dtype, buffer=nl.sbuf, name="weights")
    for k in nl.affine_range(tiles):
        deep = nl.ds(k * tile, tile)
        nisa.dma_copy(dst=blocks[0][:, nl.ds(k * rows, rows)], src=left_t[deep])
        nisa.dma_copy(dst=weights[:, nl.ds(k * columns, columns)], src=right[deep])

    for step in nl.sequential_range(size):
        held, free = blocks[step % 2], blocks[(step + 1) % 2]
        if step + 1 < size:
            ncc.collective_permute_implicit(srcs_by_channel=[[held]], dsts_by_channel=[[free]], replica_group=group)
        owner = ncc.collective_permute_implicit_current_processing_rank_id(iteration_id=step, replica_group=group)

        product = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
        for k in nl.affine_range(tiles):
            # The first tile overwrites what PSUM held, the others add to it.
            nisa.nc_matmul(
                dst=product,
                stationary=held[:, nl.ds(k * rows, rows)],
                moving=weights[:, nl.ds(k * columns, columns)],
                accumulate=k > 0,
            )
        out = nl.ndarray((rows, columns), dtype=result.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=out, src=product)
        nisa.dma_copy(dst=result.select(0, owner), src=out)
    return result


# Small integers: their sums of products are exact in float32, in whatever order they are added.
def _left(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-8, 8, (ROWS, DEPTH)).astype(np.float32)


def _right(rank: int) -> np.ndarray:
    return np.random.default_rng([1, rank]).integers(-8, 8, (DEPTH, COLUMNS)).astype(np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {
        "left_t": np.ascontiguousarray(_left(rank).T),
        "right": _right(rank),
        "group": ReplicaGroup([list(range(ranks))]),
        "size": ranks,
    }


@cache
def _lefts(ranks: int) -> np.ndarray:
    return np.stack([_left(r) for r in range(ranks)])


def golden(rank: int, ranks: int) -> np.ndarray:
    return _lefts(ranks) @ _right(rank)
