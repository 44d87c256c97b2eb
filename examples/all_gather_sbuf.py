"""Gather columns from SBUF to SBUF, tile by tile; with LNC=2 each core of a rank gathers its own half of the tiles.

nkicc run examples/all_gather_sbuf.py --ranks 4 --lnc 2
"""

from functools import cache

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

ROWS, COLUMNS = 512, 64


@nki.jit
def all_gather_sbuf(part: nl.ndarray, group: ReplicaGroup, size: int) -> nl.ndarray:
    rows, columns = part.shape
    tile_rows = nl.tile_size.pmax
    result = nl.ndarray((rows, columns * size), dtype=part.dtype, buffer=nl.shared_hbm, name="result")
    for tile in nl.affine_range(nl.program_id(0), rows // tile_rows, nl.num_programs()):
        here = nl.ds(tile * tile_rows, tile_rows)
        mine = nl.ndarray((tile_rows, columns), dtype=part.dtype, buffer=nl.sbuf)
        everyone = nl.ndarray((tile_rows, columns * size), dtype=part.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=mine, src=part[here])
        ncc.all_gather(srcs=[mine], dsts=[everyone], replica_group=group, collective_dim=1)
        nisa.dma_copy(dst=result[here], src=everyone)
    return result


def _part(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).standard_normal((ROWS, COLUMNS), dtype=np.float32)


def inputs(rank: int, ranks: int) -> dict:
    return {"part": _part(rank), "group": ReplicaGroup([list(range(ranks))]), "size": ranks}


@cache
def _gathered(ranks: int) -> np.ndarray:
    return np.concatenate([_part(r) for r in range(ranks)], axis=1)


def golden(rank: int, ranks: int) -> np.ndarray:
    return _gathered(ranks)
