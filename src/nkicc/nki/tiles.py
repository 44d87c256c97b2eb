"""Functions of `nki.language` that make tiles from tiles: transfers, reductions, selection, matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod as product
from typing import Any

import numpy as np

from nkicc.builder.source import refuse
from nkicc.ir.isa import (
    InstDMACopy,
    InstDMATranspose,
    InstMatmul,
    InstTensorCopyPredicated,
    InstTensorReduce,
    InstTranspose,
)
from nkicc.ir.program import Instruction
from nkicc.ir.types import AluOp, Memory

from .dtype import float32, uint8
from .ops import OPS, result, stretched, tile, wider
from .tensor import ndarray
from .trace import current

__all__ = [
    "all",
    "broadcast_to",
    "expand_dims",
    "load",
    "load_transpose2d",
    "matmul",
    "max",
    "mean",
    "min",
    "prod",
    "rms_norm",
    "softmax",
    "store",
    "sum",
    "transpose",
    "var",
    "where",
]

Axes = int | Sequence[int]


def _insert(inst: Instruction) -> None:
    current("nki.language").codegen.insert(inst)


def _hbm(value: Any, function: str, operand: str) -> ndarray:
    if not isinstance(value, ndarray) or value.on_chip:
        found = f"in {value.buffer.value}" if isinstance(value, ndarray) else type(value).__name__
        refuse("NKC035", inst=f"nl.{function}", what=operand, found=found, permitted="a tensor in HBM", operand=operand)
    return value


# --- transfers -------------------------------------------------------------------------------------------------------


def load(src: ndarray, dtype: Any = None) -> ndarray:
    """A new SBUF tile with what `src`, in HBM, holds. NKC021 for more than 128 partitions."""
    out = result(_hbm(src, "load", "src").shape, src.dtype if dtype is None else dtype)
    _insert(InstDMACopy(dst=out.__access__(), srcs=(src.__access__(),)))
    return out


def load_transpose2d(src: ndarray, dtype: Any = None) -> ndarray:
    """A new SBUF tile with the transpose of `src`, two-dimensional in HBM."""
    if len(_hbm(src, "load_transpose2d", "src").shape) != 2:
        refuse("NKC033", inst="nl.load_transpose2d", what="src", found=src.shape, expected="two dimensions", why="")
    out = result(src.shape[::-1], src.dtype)
    _insert(InstDMATranspose(dst=out.__access__(), src=src.__access__(), axes=(1, 0)))
    return _cast(out, dtype)


def store(dst: ndarray, value: ndarray) -> None:
    """dst, in HBM, = the elements of the SBUF tile `value` in row-major order, cast to the type of `dst`."""
    source = tile(value, "store").__access__()
    _insert(InstDMACopy(dst=_hbm(dst, "store", "dst").__access__(), srcs=(source,)))


def _cast(x: ndarray, dtype: Any) -> ndarray:
    return x if dtype is None or x.dtype == dtype else OPS["copy"](x, dtype)


# --- reductions over the last free dimensions ------------------------------------------------------------------------


def _reduce(op: AluOp, function: str, x: ndarray, axis: Axes, dtype: Any, keepdims: bool) -> ndarray:
    x = tile(x, function)
    count = _trailing(function, x, axis)
    kept = x.shape[: x.ndim - count]
    shape = kept if len(kept) > 1 else (x.shape[0], 1)
    out = result(shape, x.dtype if dtype is None else dtype)
    _insert(InstTensorReduce(dst=out.__access__(), data=x.__access__(), op=op, axes=count))
    return out.reshape((*kept, *(1,) * count)) if keepdims else out


def _trailing(function: str, x: ndarray, axis: Axes) -> int:
    """How many of the last dimensions `axis` names. NKC035 unless it names exactly those, and never dimension 0."""
    given = (axis,) if isinstance(axis, int | np.integer) else axis
    axes = sorted(a % x.ndim if -x.ndim <= a < x.ndim else -1 for a in given)
    if not axes or axes[0] < 1 or axes != list(range(x.ndim - len(axes), x.ndim)):
        permitted = f"the last of the free dimensions 1..{x.ndim - 1}"
        refuse("NKC035", inst=f"nl.{function}", what="axis", found=axis, permitted=permitted, operand="axis")
    return len(axes)


def _reduction(op: AluOp, name: str) -> Callable[..., ndarray]:
    def function(x: ndarray, axis: Axes, dtype: Any = None, keepdims: bool = False) -> ndarray:
        return _reduce(op, name, x, axis, dtype, keepdims)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Fold with `{op.value}` over the last free dimensions `axis`; at least two dimensions are left."
    return function


sum = _reduction(AluOp.add, "sum")
prod = _reduction(AluOp.mult, "prod")
max = _reduction(AluOp.max, "max")
min = _reduction(AluOp.min, "min")


def all(x: ndarray, axis: Axes, dtype: Any = None) -> ndarray:
    """1 where all elements over the last free dimensions `axis` differ from 0, else 0."""
    return _reduce(AluOp.logical_and, "all", x, axis, dtype, False)


def mean(x: ndarray, axis: Axes, dtype: Any = None, keepdims: bool = False) -> ndarray:
    """Arithmetic mean over the last free dimensions `axis`, computed in float32."""
    total = _reduce(AluOp.add, "mean", x, axis, float32, keepdims)
    count = product(x.shape[x.ndim - _trailing("mean", x, axis) :])
    return OPS["multiply"](total, 1.0 / count, x.dtype if dtype is None else dtype)


def var(x: ndarray, axis: Axes, dtype: Any = None, keepdims: bool = False) -> ndarray:
    """Variance (of the population) over the last free dimensions `axis`, in float32. Dimensions are always kept, as in
    the releases, which ignore `keepdims`."""
    deviation = OPS["subtract"](x, mean(x, axis, float32, keepdims=True), float32)
    return mean(OPS["multiply"](deviation, deviation), axis, x.dtype if dtype is None else dtype, keepdims=True)


def softmax(x: ndarray, axis: Axes = -1, dtype: Any = None) -> ndarray:
    """exp(x) over its sum along the last free dimensions `axis`, with the maximum subtracted first, in float32."""
    shifted = OPS["subtract"](x, max(x, axis, float32, keepdims=True), float32)
    powers = OPS["exp"](shifted)
    scale = OPS["reciprocal"](sum(powers, axis, keepdims=True))
    return OPS["multiply"](powers, scale, x.dtype if dtype is None else dtype)


def rms_norm(
    x: ndarray, w: ndarray, axis: Axes, n: int, epsilon: float = 1e-6, dtype: Any = None, compute_dtype: Any = None
) -> ndarray:
    """x / sqrt(sum(x²) / n + epsilon) · w along the last free dimensions `axis`, in `compute_dtype` (float32)."""
    element = float32 if compute_dtype is None else compute_dtype
    total = sum(OPS["square"](x, element), axis, keepdims=True)
    scale = OPS["rsqrt"](OPS["add"](OPS["multiply"](total, 1.0 / n), epsilon))
    return OPS["multiply"](OPS["multiply"](x, scale, element), w, x.dtype if dtype is None else dtype)


# --- selection and shape ---------------------------------------------------------------------------------------------


def where(condition: ndarray, x: ndarray, y: ndarray, dtype: Any = None) -> ndarray:
    """x where `condition` is not 0, else y. x and y may have free dimensions of extent 1."""
    x, y = stretched("where", tile(x, "where"), tile(y, "where"))
    element = wider(x.dtype, y.dtype) if dtype is None else np.dtype(dtype)
    copy = OPS["copy"]
    out = copy(y, element)
    predicate = OPS["not_equal"](tile(condition, "where"), 0, uint8)
    source = x if x.dtype == element else copy(x, element)
    _insert(InstTensorCopyPredicated(dst=out.__access__(), src=source.__access__(), predicate=predicate.__access__()))
    return out


def expand_dims(x: ndarray, axis: int) -> ndarray:
    """A view of `x` with a dimension of extent 1 at `axis`."""
    return tile(x, "expand_dims").expand_dim(axis)


def broadcast_to(x: ndarray, shape: Sequence[int], dtype: Any = None) -> ndarray:
    """A view of `x` with free dimensions of extent 1 repeated to `shape`; a tile of its own if the dtype changes."""
    view = tile(x, "broadcast_to")
    if len(shape) != view.ndim:
        refuse("NKC033", inst="nl.broadcast_to", what="shape", found=shape, expected=view.shape, why="(equal rank)")
    for dim, extent in enumerate(shape):
        if view.shape[dim] != extent:
            view = view.broadcast(dim, extent)
    return _cast(view, dtype)


# --- the tensor engine -----------------------------------------------------------------------------------------------


def transpose(x: ndarray, dtype: Any = None) -> ndarray:
    """A PSUM tile with the transpose of the two-dimensional tile `x`, which has at most 128 columns."""
    if len(tile(x, "transpose").shape) != 2:
        refuse("NKC033", inst="nl.transpose", what="x", found=x.shape, expected="two dimensions", why="")
    if dtype is not None and x.dtype != dtype:
        refuse("NKC008", what="nl.transpose to another dtype", instead="Copy the result with nl.copy(..., dtype).")
    out = ndarray(x.shape[::-1], x.dtype, Memory.psum)
    _insert(InstTranspose(dst=out.__access__(), data=x.__access__()))
    return out


def matmul(x: ndarray, y: ndarray, transpose_x: bool = False) -> ndarray:
    """A float32 PSUM tile with x @ y, or x.T @ y if `transpose_x`; both in SBUF, x at most 128 x 128, y at most 128 x
    512. Without `transpose_x` the tensor engine transposes x first."""
    left = tile(x, "matmul") if transpose_x else OPS["copy"](transpose(x))
    out = ndarray((product(left.shape[1:]), product(tile(y, "matmul").shape[1:])), float32, Memory.psum)
    _insert(InstMatmul(dst=out.__access__(), stationary=left.__access__(), moving=y.__access__()))
    return out
