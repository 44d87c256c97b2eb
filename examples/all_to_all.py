"""Every rank sends a chunk of rows to every other: how tokens travel to the ranks of their experts.

nkicc run examples/all_to_all.py --ranks 4
"""

from functools import cache

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

CHUNK, COLUMNS = 16, 48


@nki.jit
def all_to_all(tokens: nl.ndarray, group: ReplicaGroup) -> nl.ndarray:
    outgoing = nl.ndarray(tokens.shape, dtype=tokens.dtype, buffer=nl.shared_hbm, name="outgoing")
    incoming = nl.ndarray(tokens.shape, dtype=tokens.dtype, buffer=nl.shared_hbm, name="incoming")
    result = nl.ndarray(tokens.shape, dtype=tokens.dtype, buffer=nl.shared_hbm, name="result")
    nisa.dma_copy(dst=outgoing, src=tokens)
    ncc.all_to_all(srcs=[outgoing], dsts=[incoming], replica_group=group, collective_dim=0)
    nisa.dma_copy(dst=result, src=incoming)
    return result


def _tokens(rank: int, ranks: int) -> np.ndarray:
    return np.arange(CHUNK * ranks * COLUMNS, dtype=np.int32).reshape(-1, COLUMNS) + 1_000_000 * rank


def inputs(rank: int, ranks: int) -> dict:
    return {"tokens": _tokens(rank, ranks), "group": ReplicaGroup([list(range(ranks))])}


@cache
def _all_tokens(ranks: int) -> np.ndarray:
    return np.stack([_tokens(r, ranks) for r in range(ranks)])


def golden(rank: int, ranks: int) -> np.ndarray:
    return _all_tokens(ranks)[:, rank * CHUNK : (rank + 1) * CHUNK].reshape(-1, COLUMNS)
