"""Two tensor-parallel MLP blocks: x + W_down · silu(W_up · x), hidden units split over the ranks, an all-reduce each.

Activations are kept as (features, tokens): then neither matmul needs a transpose, and the all-reduce works on the tile
in SBUF. With LNC=2 each core takes half of the tokens, so cores reduce with the same core of the other ranks.

nkicc run examples/tensor_parallel_mlp.py --ranks 4 --lnc 2
"""

from functools import cache

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

BLOCKS, FEATURES, HIDDEN, TOKENS = 2, 128, 64, 96  # hidden units of one rank


@nki.jit
def tensor_parallel_mlp(x: nl.ndarray, up: nl.ndarray, down: nl.ndarray, group: ReplicaGroup) -> nl.ndarray:
    features, tokens = x.shape
    blocks, _, hidden = up.shape
    share = tokens // nl.num_programs()
    mine = nl.ds(nl.program_id(0) * share, share)
    result = nl.ndarray((features, tokens), dtype=x.dtype, buffer=nl.shared_hbm, name="result")

    state = nl.ndarray((features, share), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=state, src=x[:, mine])
    for block in nl.sequential_range(blocks):
        w_up = nl.ndarray((features, hidden), dtype=up.dtype, buffer=nl.sbuf)
        w_down = nl.ndarray((hidden, features), dtype=down.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=w_up, src=up[block])
        nisa.dma_copy(dst=w_down, src=down[block])

        raised = nl.ndarray((hidden, share), dtype=nl.float32, buffer=nl.psum)
        units = nl.ndarray((hidden, share), dtype=x.dtype, buffer=nl.sbuf)
        nisa.nc_matmul(dst=raised, stationary=w_up, moving=state)
        nisa.activation(dst=units, op=nl.silu, data=raised)

        lowered = nl.ndarray((features, share), dtype=nl.float32, buffer=nl.psum)
        partial = nl.ndarray((features, share), dtype=x.dtype, buffer=nl.sbuf)
        total = nl.ndarray((features, share), dtype=x.dtype, buffer=nl.sbuf)
        nisa.nc_matmul(dst=lowered, stationary=w_down, moving=units)
        nisa.tensor_copy(dst=partial, src=lowered)
        # A rank has seen its own hidden units only; the sum over ranks is the block's output on all of them.
        ncc.all_reduce(srcs=[partial], dsts=[total], replica_group=group, op=nl.add)
        nisa.tensor_tensor(dst=state, data1=state, data2=total, op=nl.add)
    nisa.dma_copy(dst=result[:, mine], src=state)
    return result


def _normal(shape: tuple[int, ...], *seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


_X = _normal((FEATURES, TOKENS), 0)


def _up(rank: int) -> np.ndarray:
    return _normal((BLOCKS, FEATURES, HIDDEN), 1, rank) / 16


def _down(rank: int) -> np.ndarray:
    return _normal((BLOCKS, HIDDEN, FEATURES), 2, rank) / 16


def inputs(rank: int, ranks: int) -> dict:
    return {"x": _X, "up": _up(rank), "down": _down(rank), "group": ReplicaGroup([list(range(ranks))])}


@cache
def _result(ranks: int) -> np.ndarray:
    state = _X.astype(np.float64)
    up = np.concatenate([_up(r) for r in range(ranks)], axis=2)
    down = np.concatenate([_down(r) for r in range(ranks)], axis=1)
    for block in range(BLOCKS):
        raised = up[block].T @ state
        state = state + down[block].T @ (raised / (1 + np.exp(-raised)))
    return state.astype(np.float32)


def golden(rank: int, ranks: int) -> np.ndarray:
    return _result(ranks)
