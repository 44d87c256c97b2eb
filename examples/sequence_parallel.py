"""The sequence-parallel pair around an MLP: gather the tokens before it, reduce and scatter them after it.

Between the blocks every rank keeps its own tokens only; inside, every rank has all tokens and its own hidden units. The
two collectives move as many bytes as the one all-reduce that they replace. With LNC=2 the cores take blocks in turn.

nkicc run examples/sequence_parallel.py --ranks 4 --lnc 2
"""

from functools import cache

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

TOKENS, FEATURES, HIDDEN = 32, 128, 64  # tokens and hidden units of one rank


@nki.jit
def sequence_parallel(x: nl.ndarray, up: nl.ndarray, down: nl.ndarray, group: ReplicaGroup, size: int) -> nl.ndarray:
    tokens, features = x.shape
    _, hidden = up.shape
    shard = nl.ndarray((tokens, features), dtype=x.dtype, buffer=nl.shared_hbm, name="shard")
    everyone = nl.ndarray((size * tokens, features), dtype=x.dtype, buffer=nl.shared_hbm, name="everyone")
    partial = nl.ndarray((size * tokens, features), dtype=x.dtype, buffer=nl.shared_hbm, name="partial")
    reduced = nl.ndarray((tokens, features), dtype=x.dtype, buffer=nl.shared_hbm, name="reduced")
    result = nl.ndarray((tokens, features), dtype=x.dtype, buffer=nl.shared_hbm, name="result")
    w_up = nl.ndarray((features, hidden), dtype=up.dtype, buffer=nl.sbuf)
    w_down = nl.ndarray((hidden, features), dtype=down.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=w_up, src=up)
    nisa.dma_copy(dst=w_down, src=down)

    nisa.dma_copy(dst=shard, src=x)
    ncc.all_gather(srcs=[shard], dsts=[everyone], replica_group=group, collective_dim=0)
    for block in nl.affine_range(nl.program_id(0), size, nl.num_programs()):
        rows = nl.ds(block * tokens, tokens)
        tile = nl.ndarray((tokens, features), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=everyone[rows])

        # Features to partitions, where the matmul contracts; its output is transposed as the next one wants it.
        turned = nl.ndarray((features, tokens), dtype=x.dtype, buffer=nl.psum)
        tile_t = nl.ndarray((features, tokens), dtype=x.dtype, buffer=nl.sbuf)
        nisa.nc_transpose(dst=turned, data=tile)
        nisa.tensor_copy(dst=tile_t, src=turned)

        raised = nl.ndarray((hidden, tokens), dtype=nl.float32, buffer=nl.psum)
        units = nl.ndarray((hidden, tokens), dtype=x.dtype, buffer=nl.sbuf)
        nisa.nc_matmul(dst=raised, stationary=w_up, moving=tile_t)
        nisa.activation(dst=units, op=nl.relu, data=raised)

        lowered = nl.ndarray((tokens, features), dtype=nl.float32, buffer=nl.psum)
        out = nl.ndarray((tokens, features), dtype=x.dtype, buffer=nl.sbuf)
        nisa.nc_matmul(dst=lowered, stationary=units, moving=w_down)
        nisa.tensor_copy(dst=out, src=lowered)
        nisa.dma_copy(dst=partial[rows], src=out)
    # The cores of a rank meet in a collective on their shared tensors, so this one waits for the other core's blocks.
    ncc.reduce_scatter(srcs=[partial], dsts=[reduced], replica_group=group, collective_dim=0, op=nl.add)
    nisa.dma_copy(dst=result, src=reduced)
    return result


# Small integers: their sums of products are exact in float32, in whatever order they are added.
def _integers(shape: tuple[int, ...], *seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def _x(rank: int) -> np.ndarray:
    return _integers((TOKENS, FEATURES), 0, rank)


@cache
def _up(rank: int) -> np.ndarray:
    return _integers((FEATURES, HIDDEN), 1, rank)


@cache
def _down(rank: int) -> np.ndarray:
    return _integers((HIDDEN, FEATURES), 2, rank)


def inputs(rank: int, ranks: int) -> dict:
    group = ReplicaGroup([list(range(ranks))])
    return {"x": _x(rank), "up": _up(rank), "down": _down(rank), "group": group, "size": ranks}


def golden(rank: int, ranks: int) -> np.ndarray:
    return sum(np.maximum(_x(rank) @ _up(r), 0) @ _down(r) for r in range(ranks))
