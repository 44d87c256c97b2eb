"""What the tests of the front door share."""

from collections.abc import Callable
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
from numpy.lib.stride_tricks import as_strided

from nkicc.builder import NeuronCodegen, ParallelState
from nkicc.ir.types import Target, World
from nkicc.nki.tensor import ndarray
from nkicc.nki.trace import Tracer, tracing


def tracer(*, ranks: int = 4, lnc: int = 1, core: int = 0, target: str = "trn2") -> Tracer:
    """A tracer that nothing has been traced with."""
    codegen = NeuronCodegen(ParallelState(World(ranks, lnc)), target=Target(target), core=core)
    return Tracer(codegen, lnc if lnc > 1 else None)


def traced(function: Callable[[], Any], **world: Any) -> Any:
    """What `function` returns when it is called as a kernel would be."""
    with tracing(tracer(**world)):
        return function()


def elements(view: ndarray) -> np.ndarray:
    """Which element of its tensor each element of a static view is."""
    access = view.__access__()
    assert access.shape == view.shape
    numbers = np.arange(view.storage.size)
    if access.dtype is not None:
        numbers = np.arange(view.storage.size * view.storage.dtype.size // access.dtype.size)
    strides = [stride * numbers.itemsize for stride, _ in access.pattern]
    return as_strided(numbers[access.offset :], access.shape, strides)


def data(rank: int, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """Numbers that differ between ranks and elements: small integers, exact in every type of 16 bits and more."""
    return np.random.default_rng([rank, *shape]).integers(-60, 60, shape).astype(dtype)


def returned(tensor: nl.ndarray) -> nl.ndarray:
    """A copy to return: a collective does not write to what a kernel returns."""
    out = nl.ndarray(tensor.shape, tensor.dtype, nl.shared_hbm)
    nisa.dma_copy(out, tensor)
    return out
