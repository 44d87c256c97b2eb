"""Data movement: DMA, fills and copies."""

from __future__ import annotations

from collections.abc import Sequence

from nkicc.ir.isa import DmaMode, InstDMACopy, InstDMATranspose, InstMemset, InstTensorCopy
from nkicc.ir.types import AluOp
from nkicc.nki.language import Op
from nkicc.nki.tensor import ndarray

from .arguments import access, alu, bounded, engine_of, insert, number, refuse_argument
from .constants import dge_mode, engine, oob_mode

__all__ = ["dma_compute", "dma_copy", "dma_transpose", "memset", "tensor_copy"]

_TRANSPOSES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
#: A CCE DMA takes this many sources.
_MAX_SOURCES = 16


def dma_copy(
    dst: ndarray,
    src: ndarray,
    priority: int | None = None,
    oob_mode: oob_mode = oob_mode.error,
    dge_mode: dge_mode = dge_mode.unknown,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> None:
    """flat(dst)[i] = cast(flat(src)[i]), between HBM and SBUF in any combination."""
    insert(InstDMACopy(name=name or "", dst=bounded(dst, "dst", oob_mode), srcs=(bounded(src, "src", oob_mode),)))


def dma_transpose(
    dst: ndarray,
    src: ndarray,
    axes: Sequence[int] | None = None,
    priority: int | None = None,
    dge_mode: dge_mode = dge_mode.unknown,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> None:
    """dst.shape[i] = src.shape[axes[i]]; by default (1, 0), (2, 1, 0) or (3, 1, 2, 0) for 2, 3 and 4 dimensions."""
    source = bounded(src, "src", oob_mode)
    rank = len(source.pattern)
    order = _TRANSPOSES.get(rank) if axes is None else tuple(axes)
    if order is None or sorted(order) != list(range(rank)):
        refuse_argument("dma_transpose", "axes", axes, f"an order of the {rank} dimensions")
    insert(InstDMATranspose(name=name or "", dst=bounded(dst, "dst", oob_mode), src=source, axes=order))


def dma_compute(
    dst: ndarray,
    srcs: Sequence[ndarray],
    reduce_op: Op,
    scales: Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> None:
    """dst = cast(Σ srcs[i]), summed in float32 in list order: at most 16 sources, `nl.add` only, all scales 1."""
    if alu(reduce_op, "dma_compute") is not AluOp.add:
        refuse_argument("dma_compute", "reduce_op", reduce_op, "nl.add")
    if scales is not None and any(scale != 1 for scale in scales):
        refuse_argument("dma_compute", "scales", scales, "1.0 for every source")
    sources = tuple([bounded(src, "srcs", oob_mode) for src in srcs])
    if not 1 <= len(sources) <= _MAX_SOURCES:
        refuse_argument("dma_compute", "number of srcs", len(sources), f"1 to {_MAX_SOURCES}")
    insert(
        InstDMACopy(name=name or "", dst=bounded(dst, "dst", oob_mode), srcs=sources, mode=DmaMode.cce, op=AluOp.add)
    )


def memset(dst: ndarray, value: float, engine: engine = engine.unknown, name: str | None = None) -> None:
    """dst[*] = value."""
    insert(InstMemset(name=name or "", dst=access(dst, "dst"), value=number(value, "value"), engine=engine_of(engine)))


def tensor_copy(dst: ndarray, src: ndarray, engine: engine = engine.unknown, name: str | None = None) -> None:
    """dst[p, f] = cast(src[p, f]) between SBUF and PSUM."""
    insert(InstTensorCopy(name=name or "", dst=access(dst, "dst"), src=access(src, "src"), engine=engine_of(engine)))
