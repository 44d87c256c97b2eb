"""Runs kernels that move data, and what the machine makes of a value of another type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import nkicc
from nkicc import NkiccError
from nkicc.ir.program import Module
from nkicc.nki.trace import tracing

from ..helpers import data, tracer
from .reference import assert_array_equal

RANKS = 3
DTYPES = (np.float32, ml_dtypes.bfloat16, np.float16, np.int32, np.int16, np.uint8, np.uint32)
few = settings(max_examples=30, deadline=None)
dtypes = st.sampled_from(DTYPES)


def load(x: nl.ndarray) -> nl.ndarray:
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    return tile


def store(tile: nl.ndarray) -> nl.ndarray:
    out = nl.ndarray(tile.shape, tile.dtype, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def check(
    kernel: Callable[..., Any], inputs: Callable[[int], dict], expected: Callable[..., Any], **world: Any
) -> None:
    """Run a kernel on ranks with inputs of their own; `expected` computes a rank's result from its inputs."""
    result = nkicc.run(kernel, ranks=RANKS, inputs=inputs, **world)
    for rank in range(RANKS):
        assert_array_equal(result.outputs[rank], expected(**inputs(rank)), err_msg=f"rank {rank}")
    module = result.program
    assert Module.from_json(module.to_json()) == module


def cast(value: np.ndarray, dtype: Any) -> np.ndarray:
    """What the machine makes of a value of another type: through float32, half to even, saturating in integers."""
    if value.dtype == dtype:
        return value
    wide = value.astype(np.float32)
    if np.dtype(dtype).kind not in "iu":
        return wide.astype(dtype)
    info = np.iinfo(dtype)
    return np.array([min(max(round(float(x)), info.min), info.max) for x in wide.flat], dtype).reshape(value.shape)


def halves(rank: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Data with a fraction where the type has one."""
    whole = data(rank, shape, np.float32)
    return (whole / 2 if np.dtype(dtype).kind not in "iu" else np.abs(whole)).astype(dtype)


def tile(*shape: int, dtype: Any = nl.float32, memory: Any = nl.sbuf) -> nl.ndarray:
    return nl.ndarray(shape or (4, 4), dtype, memory)


def table(*shape: int, dtype: Any = nl.float32) -> nl.ndarray:
    return tile(*shape or (8, 4), dtype=dtype, memory=nl.shared_hbm)


def refusal(function: Callable[[], object], code: str, text: str, **world: Any) -> None:
    """The call is refused with that code and text at its own line, and leaves nothing behind."""
    core = tracer(**world)
    with pytest.raises(NkiccError) as caught, tracing(core):
        function()
    assert (caught.value.code, text in caught.value.message) == (code, True), caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.file == function.__code__.co_filename
    assert core.codegen.core_part().body == ()
