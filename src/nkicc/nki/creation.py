"""Functions of `nki.language` that make tensors: filled ones, constants of the program; and printing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from nkicc.builder.source import refuse
from nkicc.ir.isa import InstDevicePrint, InstDMACopy, InstMemset
from nkicc.ir.types import Memory

from .dtype import uint8
from .tensor import machine_dtype, ndarray
from .trace import current

__all__ = [
    "device_print",
    "empty_like",
    "full",
    "ones",
    "shared_constant",
    "shared_identity_matrix",
    "zeros",
    "zeros_like",
]


def full(shape: Sequence[int], fill_value: float, dtype: Any, buffer: Memory = Memory.sbuf, name: str = "") -> ndarray:
    """A tensor with every element set to `fill_value`, a number (NKC035). Errors as those of `ndarray`."""
    # nki.isa imports the names of this module.
    from .isa.arguments import constant

    value = constant(fill_value, "fill_value")
    tensor = ndarray(shape, dtype, buffer, name)
    current("nl.full").codegen.insert(InstMemset(dst=tensor.__access__(), value=value))
    return tensor


def zeros(shape: Sequence[int], dtype: Any, buffer: Memory = Memory.sbuf, name: str = "") -> ndarray:
    """A tensor of zeros."""
    return full(shape, 0, dtype, buffer, name)


def ones(shape: Sequence[int], dtype: Any, buffer: Memory = Memory.sbuf, name: str = "") -> ndarray:
    """A tensor of ones."""
    return full(shape, 1, dtype, buffer, name)


def empty_like(x: ndarray, dtype: Any = None, buffer: Memory | None = None, name: str = "") -> ndarray:
    """An uninitialised tensor with the shape of `x` and, unless given, its dtype and buffer."""
    return ndarray(x.shape, x.dtype if dtype is None else dtype, x.buffer if buffer is None else buffer, name)


def zeros_like(x: ndarray, dtype: Any = None, buffer: Memory | None = None, name: str = "") -> ndarray:
    """A tensor of zeros with the shape of `x` and, unless given, its dtype and buffer."""
    return zeros(x.shape, x.dtype if dtype is None else dtype, x.buffer if buffer is None else buffer, name)


def shared_constant(constant: np.ndarray | str) -> ndarray:
    """A tensor in shared HBM that holds the array, or the array of a `.npy` file, on every rank. Equal constants are
    one tensor. NKC001 for the file, NKC028 for the dtype, NKC035 for anything else."""
    if isinstance(constant, str | os.PathLike):
        try:
            constant = np.load(constant, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            refuse("NKC001", file=constant, why=str(error), operand="constant")
    if not isinstance(constant, np.ndarray):
        permitted = "a NumPy array or the path of a .npy file"
        refuse("NKC035", inst="nl.shared_constant", what="constant", found=type(constant).__name__, permitted=permitted)
    codegen = current("nl.shared_constant").codegen
    value = np.ascontiguousarray(constant, machine_dtype(constant.dtype).numpy)
    # The name comes from the content, so that the cores of a rank agree on it whatever else they declare.
    what = f"{value.dtype.name}{value.shape}".encode() + value.tobytes()
    name = f"constant.{hashlib.sha256(what).hexdigest()[:16]}"
    known = codegen.tensors.get(name)
    return ndarray.of(codegen.constant(name, value, named=False) if known is None else known)


def shared_identity_matrix(n: int, dtype: Any = uint8, dst: ndarray | None = None) -> ndarray:
    """The n x n identity in SBUF: in `dst`, or in a new tile."""
    element = machine_dtype(dtype)
    if type(n) is not int or not 1 <= n <= 128:
        refuse("NKC035", inst="nl.shared_identity_matrix", what="n", found=n, permitted="1 to 128", operand="n")
    tile = ndarray((n, n), element) if dst is None else dst
    constant = shared_constant(np.eye(n, dtype=np.float32).astype(element.numpy))
    current("nl.shared_identity_matrix").codegen.insert(
        InstDMACopy(dst=tile.__access__(), srcs=(constant.__access__(),))
    )
    return tile


def device_print(print_prefix: str, tensor: ndarray) -> None:
    """Print `tensor`, in SBUF or HBM, when the program gets here, with the prefix, the rank and the core: on stdout
    (`--json`: on stderr), and in the report of the run."""
    if not isinstance(print_prefix, str) or not isinstance(tensor, ndarray):
        refuse("NKC035", inst="nl.device_print", what="arguments", found=(print_prefix, tensor),
               permitted="a string and a tensor")  # fmt: skip
    current("nl.device_print").codegen.insert(InstDevicePrint(prefix=print_prefix, src=tensor.__access__()))
