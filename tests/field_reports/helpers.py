"""What the tests of field reports share: tensors, small kernels, and the expectation of a refusal."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np

from nkicc.ir.findings import Finding
from tests.examine import Examined, examine

Inputs = Callable[[int], dict[str, Any]]


def hbm(name: str, shape: tuple[int, ...], dtype: Any = nl.float32) -> nl.ndarray:
    return nl.ndarray(shape, dtype, nl.shared_hbm, name=name)


def copied(x: nl.ndarray, name: str) -> nl.ndarray:
    """A tensor of the kernel's own with what an argument holds."""
    local = hbm(name, x.shape, x.dtype)
    nisa.dma_copy(local, x)
    return local


def returned(x: nl.ndarray, name: str = "result") -> nl.ndarray:
    """A tensor to return, with what `x` holds."""
    return copied(x, name)


def ranked(shape: tuple[int, ...] = (4, 4), dtype: Any = np.float32) -> Inputs:
    """Every element of rank r's `x` is r."""
    return lambda rank: {"x": np.full(shape, rank, dtype)}


def distinct(shape: tuple[int, ...] = (4, 4), dtype: Any = np.float32) -> Inputs:
    """`x` differs between ranks and elements; small integers, whose sums are exact."""
    return lambda rank: {"x": np.random.default_rng([rank, *shape]).integers(-60, 60, shape).astype(dtype)}


def works(kernel: Any, *, golden: Callable[[int], Any], **options: Any) -> Examined:
    """The kernel gives exactly `golden` on every rank, and nothing but warnings is said about it."""
    examined = examine(kernel, golden=golden, **options)
    assert examined.clean, examined.describe()
    return examined


def refused(kernel: Any, code: str, at: str = "", says: str | tuple[str, ...] = (), **options: Any) -> Finding:
    """The first error has `code`, names the line of the kernel that holds `at`, and says all of `says` somewhere."""
    examined = examine(kernel, **options)
    assert examined.errors, f"nothing is found: {examined.describe()}"
    error = examined.errors[0]
    text = str(error.to_error())
    assert error.code == code, text
    if at:
        assert error.loc is not None, text
        assert at in linecache.getline(error.loc.file, error.loc.line), text
    for part in (says,) if isinstance(says, str) else says:
        assert part in text, f"{part!r} is not said:\n{text}"
    return error
