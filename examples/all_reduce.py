"""Every rank adds its tensor to those of all others: the gradient step of data-parallel training.

nkicc run examples/all_reduce.py --ranks 4
"""

from functools import cache

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup


@nki.jit
def all_reduce(grad: nl.ndarray, group: ReplicaGroup) -> nl.ndarray:
    # A collective works on named tensors of its own, never on the kernel's arguments.
    local = nl.ndarray(grad.shape, dtype=grad.dtype, buffer=nl.shared_hbm, name="local")
    total = nl.ndarray(grad.shape, dtype=grad.dtype, buffer=nl.shared_hbm, name="total")
    result = nl.ndarray(grad.shape, dtype=grad.dtype, buffer=nl.shared_hbm, name="result")
    nisa.dma_copy(dst=local, src=grad)
    ncc.all_reduce(srcs=[local], dsts=[total], replica_group=group, op=nl.add)
    nisa.dma_copy(dst=result, src=total)
    return result


def _grad(rank: int) -> np.ndarray:
    return np.arange(128 * 512, dtype=np.float32).reshape(128, 512) % 97 + rank


def inputs(rank: int, ranks: int) -> dict:
    return {"grad": _grad(rank), "group": ReplicaGroup([list(range(ranks))])}


@cache
def _total(ranks: int) -> np.ndarray:
    return sum(_grad(r) for r in range(ranks))


def golden(rank: int, ranks: int) -> np.ndarray:
    return _total(ranks)
