"""Ring attention, forward: keys and values travel around the ring, queries stay, and the softmax is kept up online.

Every rank holds a block of the sequence. A block of keys changes what is known of a row's maximum and sum; what was
accumulated before is scaled by exp(old maximum - new maximum). The order in which blocks arrive does not matter, so the
kernel need not know whose block it holds. With LNC=2 each core takes half of the queries and rings its own copy.

nkicc run examples/ring_attention.py --ranks 4 --lnc 2
"""

from functools import cache

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

TOKENS, WIDTH = 128, 64  # tokens of one rank, width of a head


@nki.jit
def ring_attention(q_t: nl.ndarray, k_t: nl.ndarray, v: nl.ndarray, group: ReplicaGroup, size: int) -> nl.ndarray:
    # Queries and keys come transposed: scores contract along the head's width.
    width, tokens = q_t.shape
    rows = tokens // nl.num_programs()
    mine = nl.ds(nl.program_id(0) * rows, rows)
    result = nl.ndarray((tokens, width), dtype=v.dtype, buffer=nl.shared_hbm, name="result")

    keys = [nl.ndarray((width, tokens), dtype=k_t.dtype, buffer=nl.sbuf, name=f"keys{i}") for i in range(2)]
    values = [nl.ndarray((tokens, width), dtype=v.dtype, buffer=nl.sbuf, name=f"values{i}") for i in range(2)]
    nisa.dma_copy(dst=keys[0], src=k_t)
    nisa.dma_copy(dst=values[0], src=v)
    queries = nl.ndarray((width, rows), dtype=q_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=queries, src=q_t[:, mine])
    nisa.tensor_scalar(dst=queries, data=queries, op0=nl.multiply, operand0=width**-0.5)

    # The maximum is kept negated: that is the bias that exp takes. It starts below every score.
    negated = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    sums = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=negated, value=1e30)
    nisa.memset(dst=sums, value=0.0)
    nisa.memset(dst=total, value=0.0)

    for step in nl.sequential_range(size):
        held, free = step % 2, (step + 1) % 2
        if step + 1 < size:
            for buffers in (keys, values):
                ncc.collective_permute_implicit(
                    srcs_by_channel=[[buffers[held]]], dsts_by_channel=[[buffers[free]]], replica_group=group
                )
        scores = nl.ndarray((rows, tokens), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=scores, stationary=queries, moving=keys[held])

        lowest = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        decay = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=lowest, op=nl.maximum, data=scores, axis=1, negate=True)
        nisa.tensor_tensor(dst=lowest, data1=lowest, data2=negated, op=nl.minimum)
        nisa.tensor_tensor(dst=decay, data1=lowest, data2=negated, op=nl.subtract)
        nisa.activation(dst=decay, op=nl.exp, data=decay)
        nisa.tensor_copy(dst=negated, src=lowest)

        weights = nl.ndarray((rows, tokens), dtype=nl.float32, buffer=nl.sbuf)
        added = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=weights, op=nl.exp, data=scores, bias=negated)
        nisa.tensor_reduce(dst=added, op=nl.add, data=weights, axis=1)
        nisa.tensor_scalar(dst=sums, data=sums, op0=nl.multiply, operand0=decay, op1=nl.add, operand1=added)

        turned = nl.ndarray((tokens, rows), dtype=nl.float32, buffer=nl.psum)
        weights_t = nl.ndarray((tokens, rows), dtype=nl.float32, buffer=nl.sbuf)
        mixed = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=weights)
        nisa.tensor_copy(dst=weights_t, src=turned)
        nisa.nc_matmul(dst=mixed, stationary=weights_t, moving=values[held])
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=decay)
        nisa.tensor_tensor(dst=total, data1=total, data2=mixed, op=nl.add)

    out = nl.ndarray((rows, width), dtype=v.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=out, data=total, op0=nl.divide, operand0=sums)
    nisa.dma_copy(dst=result[mine], src=out)
    return result


def _block(name: str, rank: int) -> np.ndarray:
    return np.random.default_rng([*name.encode(), rank]).standard_normal((TOKENS, WIDTH), dtype=np.float32)


def inputs(rank: int, ranks: int) -> dict:
    q_t, k_t = (np.ascontiguousarray(_block(name, rank).T) for name in "qk")
    return {
        "q_t": q_t,
        "k_t": k_t,
        "v": _block("v", rank),
        "group": ReplicaGroup([list(range(ranks))]),
        "size": ranks,
    }


@cache
def _blocks(name: str, ranks: int) -> np.ndarray:
    return np.concatenate([_block(name, r) for r in range(ranks)]).astype(np.float64)


def golden(rank: int, ranks: int) -> np.ndarray:
    k, v = _blocks("k", ranks), _blocks("v", ranks)
    scores = _block("q", rank) @ k.T / np.sqrt(WIDTH)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True) @ v).astype(np.float32)
