"""Runs one instruction on tiles that lie in memory in various ways, on several ranks with data of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np

import nkicc
from nkicc.ir.program import Module

RANKS = 3
Array = np.ndarray

#: How a logical (P, F) tile lies in its allocation. Each gives a view of it, in row-major order of its dimensions.
LAYOUTS: dict[str, Callable[[int, int, Any, Any], nl.ndarray]] = {
    "whole": lambda p, f, dtype, memory: nl.ndarray((p, f), dtype, memory),
    "part": lambda p, f, dtype, memory: nl.ndarray((p, f + 3), dtype, memory)[:, 2 : f + 2],
    "strided": lambda p, f, dtype, memory: nl.ndarray((p, 2 * f + 1), dtype, memory)[:, 1 : 2 * f + 1 : 2],
    "below": lambda p, f, dtype, memory: nl.ndarray((128, f), dtype, memory)[128 - p :],
    "turned": lambda p, f, dtype, memory: nl.ndarray((p, f, 1, 1), dtype, memory).permute((0, 2, 1, 3)),
}


def tile(array_or_shape: Any, dtype: Any = None, layout: str = "whole", memory: Any = nl.sbuf) -> nl.ndarray:
    """A tile for an array of the host, or of a shape: partitions and everything else flattened."""
    shape = getattr(array_or_shape, "shape", array_or_shape)
    element = array_or_shape.dtype if dtype is None else dtype
    return LAYOUTS[layout](shape[0], int(np.prod(shape[1:])), element, memory)


def load(x: nl.ndarray, layout: str = "whole") -> nl.ndarray:
    """An HBM tensor as a tile in SBUF."""
    found = tile(x, layout=layout)
    nisa.dma_copy(dst=found, src=x)
    return found


def store(found: nl.ndarray) -> nl.ndarray:
    """A tile, also one in PSUM, as an HBM tensor of two dimensions."""
    shape = (found.shape[0], int(np.prod(found.shape[1:])))
    if found.buffer == nl.psum:
        copied = nl.ndarray(shape, found.dtype)
        nisa.tensor_copy(copied, found)
        found = copied
    out = nl.ndarray(shape, found.dtype, nl.shared_hbm)
    nisa.dma_copy(dst=out, src=found)
    return out


def run(
    body: Callable[..., Any], inputs: Callable[[int], Sequence[Array]], *, ranks: int = RANKS, **options: Any
) -> list[list[Array]]:
    """What `body` makes of the HBM tensors `inputs(rank)`: the tiles it returns, per rank. Inputs that are the same
    array on every rank are given once, as uniform data."""

    def kernel(x0: nl.ndarray = None, x1: nl.ndarray = None, x2: nl.ndarray = None) -> tuple[nl.ndarray, ...]:
        result = body(*[x0, x1, x2][: len(names)])
        return tuple([store(t) for t in (result if isinstance(result, tuple) else (result,))])

    given = [inputs(rank) for rank in range(ranks)]
    names = [f"x{i}" for i in range(len(given[0]))]
    same = all(left is right for row in given for left, right in zip(row, given[0], strict=True))
    result = nkicc.run(
        kernel,
        ranks=ranks,
        inputs=dict(zip(names, given[0], strict=True)) if same else lambda r: dict(zip(names, given[r], strict=True)),
        **options,
    )
    assert Module.from_json(result.program.to_json()) == result.program
    return [_list(result.outputs[rank]) for rank in range(ranks)]


def _list(found: Any) -> list[Array]:
    return list(found) if isinstance(found, tuple | list) else [found]
