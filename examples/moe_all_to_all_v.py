"""Mixture of experts, one expert per rank: tokens travel to their expert and back with all_to_all_v.

How many tokens go where is known at run time only. The first exchange writes the counts that arrived into row 2 of its
metadata; the way back sends as many, so that row becomes row 0 of the second exchange.

nkicc run examples/moe_all_to_all_v.py --ranks 4 --lnc 2
"""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

TOKENS, FEATURES = 48, 64  # tokens of one rank


@nki.jit
def moe(
    tokens: nl.ndarray,
    order: nl.ndarray,
    places: nl.ndarray,
    outgoing: nl.ndarray,
    returning: nl.ndarray,
    expert: nl.ndarray,
    group: ReplicaGroup,
    size: int,
) -> nl.ndarray:
    count, features = tokens.shape
    dtype = tokens.dtype
    sent = nl.ndarray((count, features), dtype=dtype, buffer=nl.shared_hbm, name="sent")
    arrived = nl.ndarray((size * count, features), dtype=dtype, buffer=nl.shared_hbm, name="arrived")
    answered = nl.ndarray((size * count, features), dtype=dtype, buffer=nl.shared_hbm, name="answered")
    returned = nl.ndarray((size * count, features), dtype=dtype, buffer=nl.shared_hbm, name="returned")
    there = nl.ndarray(outgoing.shape, dtype=outgoing.dtype, buffer=nl.shared_hbm, name="there")
    back = nl.ndarray(returning.shape, dtype=returning.dtype, buffer=nl.shared_hbm, name="back")
    result = nl.ndarray((count, features), dtype=dtype, buffer=nl.shared_hbm, name="result")
    slots = [nl.ds(source * count, count) for source in range(size)]

    # A slot has room for all tokens of its source; what the exchange leaves of it must still be numbers.
    tile = nl.ndarray((count, features), dtype=dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    for slot in slots:
        nisa.dma_copy(dst=arrived[slot], src=tile)
    _gather(sent, tokens, order)
    nisa.dma_copy(dst=there, src=outgoing)
    ncc.all_to_all_v(srcs=[sent], dsts=[arrived], replica_group=group, metadata_tensor=there)

    weights = nl.ndarray((features, features), dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=expert)
    for slot in slots[nl.program_id(0) :: nl.num_programs()]:
        nisa.dma_copy(dst=tile, src=arrived[slot])
        turned = nl.ndarray((features, count), dtype=dtype, buffer=nl.psum)
        tile_t = nl.ndarray((features, count), dtype=dtype, buffer=nl.sbuf)
        product = nl.ndarray((count, features), dtype=nl.float32, buffer=nl.psum)
        answer = nl.ndarray((count, features), dtype=dtype, buffer=nl.sbuf)
        nisa.nc_transpose(dst=turned, data=tile)
        nisa.tensor_copy(dst=tile_t, src=turned)
        nisa.nc_matmul(dst=product, stationary=tile_t, moving=weights)
        nisa.activation(dst=answer, op=nl.relu, data=product)
        nisa.dma_copy(dst=answered[slot], src=answer)

    nisa.dma_copy(dst=back[0:1], src=there[2:3])
    nisa.dma_copy(dst=back[1:3], src=returning[1:3])
    ncc.all_to_all_v(srcs=[answered], dsts=[returned], replica_group=group, metadata_tensor=back)
    _gather(result, returned, places)
    return result


def _gather(dst: nl.ndarray, src: nl.ndarray, rows: nl.ndarray) -> None:
    """dst[i] = src[rows[i]]."""
    count, features = dst.shape
    index = nl.ndarray((count, 1), dtype=rows.dtype, buffer=nl.sbuf)
    tile = nl.ndarray((count, features), dtype=dst.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=index, src=rows)
    nisa.dma_copy(dst=tile, src=src.ap(pattern=[[features, count], [1, features]], vector_offset=index, indirect_dim=0))
    nisa.dma_copy(dst=dst, src=tile)


# Small integers: their sums of products are exact in float32.
def _tokens(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-8, 8, (TOKENS, FEATURES)).astype(np.float32)


def _expert(rank: int) -> np.ndarray:
    return np.random.default_rng([1, rank]).integers(-8, 8, (FEATURES, FEATURES)).astype(np.float32)


def _route(rank: int, ranks: int) -> np.ndarray:
    """The expert of each token, some of them more popular than others."""
    return np.random.default_rng([2, rank]).integers(0, ranks, (2, TOKENS)).min(axis=0)


def inputs(rank: int, ranks: int) -> dict:
    route = _route(rank, ranks)
    order = np.argsort(route, kind="stable")
    sent = np.bincount(route, minlength=ranks)
    starts = np.cumsum(sent) - sent
    # Token order[i] comes back in the slot of its expert, as far from its start as it was sent.
    places = np.empty(TOKENS, np.int64)
    places[order] = route[order] * TOKENS + np.arange(TOKENS) - starts[route[order]]
    slots = np.arange(ranks) * TOKENS
    nothing = np.zeros(ranks)
    return {
        "tokens": _tokens(rank),
        "order": order.astype(np.uint32)[:, None],
        "places": places.astype(np.uint32)[:, None],
        "outgoing": (np.stack([sent, starts, nothing]) * FEATURES).astype(np.uint32),
        "returning": (np.stack([nothing, slots, nothing]) * FEATURES).astype(np.uint32),
        "expert": _expert(rank),
        "group": ReplicaGroup([list(range(ranks))]),
        "size": ranks,
    }


def golden(rank: int, ranks: int) -> np.ndarray:
    route = _route(rank, ranks)
    return np.stack([np.maximum(token @ _expert(e), 0) for token, e in zip(_tokens(rank), route, strict=True)])
