"""Data movement: DMA, fills, copies and shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from nkicc.builder.source import refuse
from nkicc.ir.isa import (
    DgeMode,
    DmaMode,
    InstDMACopy,
    InstDMATranspose,
    InstMemset,
    InstStreamShuffle,
    InstTensorCopy,
    InstTensorCopyPredicated,
)
from nkicc.ir.isa.movement import TRANSPOSES
from nkicc.ir.types import AluOp
from nkicc.nki.language import Op
from nkicc.nki.tensor import ndarray

from . import constants
from .arguments import access, alu, bounded, constant, engine_of, insert, refuse_argument
from .constants import dge_mode, engine, oob_mode

__all__ = [
    "dma_compute",
    "dma_copy",
    "dma_transpose",
    "memset",
    "nc_stream_shuffle",
    "tensor_copy",
    "tensor_copy_predicated",
]

T = TypeVar("T")


def dma_copy(
    dst: ndarray,
    src: ndarray,
    priority: int | None = None,
    oob_mode: oob_mode = oob_mode.error,
    dge_mode: dge_mode = dge_mode.unknown,
    engine: engine = engine.unknown,
    name: str | None = None,
    *,
    dst_rmw_op: Op | None = None,
    unique_indices: bool = True,
) -> None:
    """flat(dst)[i] = cast(flat(src)[i]), between HBM and SBUF in any combination.

    A `vector_offset` on `src` gathers rows, on `dst` scatters them; with `oob_mode.skip` rows whose index is out of
    bounds are left alone. With `dst_rmw_op` `nl.add` (2.28) dst += src. `priority` has no effect on results. Before
    2.30 `oob_mode` was the third positional argument, in 2.28 it was `dst_rmw_op`.
    """
    if isinstance(priority, Op):
        dst_rmw_op, priority = priority, None
        if isinstance(engine, bool):
            unique_indices, engine = engine, constants.engine.unknown
    elif isinstance(priority, constants.oob_mode):
        priority, oob_mode, dge_mode, engine = _without_priority(priority, oob_mode, dge_mode, engine)
    _check_priority("dma_copy", priority)
    target, source = bounded(dst, "dst", oob_mode), bounded(src, "src", oob_mode)
    adds = dst_rmw_op is not None
    if adds:
        _check_add("dma_copy", "dst_rmw_op", dst_rmw_op)
        _check_unique("dma_copy", unique_indices)
        if oob_mode is not constants.oob_mode.error:
            refuse_argument("dma_copy", "oob_mode", oob_mode, "oob_mode.error with a dst_rmw_op")
    insert(
        InstDMACopy(
            name=name or "",
            dst=target,
            srcs=(target, source) if adds else (source,),
            mode=DmaMode.cce if adds else DmaMode.copy,
            op=AluOp.add if adds else AluOp.bypass,
            dge=_dge("dma_copy", dge_mode),
            engine=engine_of(engine),
        )
    )


def _without_priority(first: oob_mode, second: Any, third: Any, fourth: Any) -> tuple[None, oob_mode, Any, Any]:
    """Positional arguments of before 2.30, one place further left; what was given by keyword stands where it is."""
    if isinstance(second, constants.dge_mode):
        return None, first, second, third if isinstance(third, constants.engine) else fourth
    return None, first, third, fourth


def dma_transpose(
    dst: ndarray,
    src: ndarray,
    axes: Sequence[int] | None = None,
    priority: int | None = None,
    dge_mode: dge_mode = dge_mode.unknown,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> None:
    """dst.shape[i] = src.shape[axes[i]]; axes are (1, 0), (2, 1, 0) and (3, 1, 2, 0) for 2, 3 and 4 dimensions.

    A `vector_offset` on `src` gathers its rows first; with `oob_mode.skip` those out of bounds are left alone in dst.
    Before 2.30 `dge_mode` was the fourth positional argument.
    """
    if isinstance(priority, constants.dge_mode):
        if isinstance(dge_mode, constants.oob_mode):
            oob_mode = dge_mode
        priority, dge_mode = None, priority
    _check_priority("dma_transpose", priority)
    source = bounded(src, "src", oob_mode)
    if oob_mode is constants.oob_mode.skip and not source.is_dynamic:
        refuse_argument("dma_transpose", "oob_mode", oob_mode, "oob_mode.error unless src has a dynamic offset")
    try:
        order = TRANSPOSES.get(len(source.pattern), ()) if axes is None else tuple(axes)
    except TypeError:
        order = ()
    if not all(type(axis) is int for axis in order):
        refuse_argument("dma_transpose", "axes", axes, "integers")
    insert(
        InstDMATranspose(
            name=name or "", dst=access(dst, "dst"), src=source, axes=order, dge=_dge("dma_transpose", dge_mode)
        )
    )


def dma_compute(
    dst: ndarray,
    srcs: Sequence[ndarray],
    reduce_op: Op,
    scales: Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> None:
    """dst = cast(Σ srcs[i]), summed in float32 in list order: at most 16 sources, `nl.add` only, all scales 1.

    With a `vector_offset` there are two sources, `dst` one of them: rows of an HBM tensor += tile, where the rows must
    differ (NKC109), or tile += rows. In 2.28 `scales` came before `reduce_op`.
    """
    if not isinstance(reduce_op, Op) and isinstance(scales, Op):
        reduce_op, scales = scales, reduce_op
    _check_add("dma_compute", "reduce_op", reduce_op)
    sources = tuple([bounded(src, "srcs", oob_mode) for src in _listed("dma_compute", "srcs", srcs)])
    if scales is not None:
        factors = _listed("dma_compute", "scales", scales)
        if len(factors) != len(sources) or any(scale != 1 for scale in factors):
            refuse_argument("dma_compute", "scales", scales, "1.0 for every source")
    target = bounded(dst, "dst", oob_mode)
    operands = (target, *sources)
    if any(ap.scalar_offset is not None for ap in operands):
        refuse_argument("dma_compute", "scalar_offset", "given", "static addresses and vector_offset")
    if any(ap.vector_offset is not None for ap in operands):
        _check_unique("dma_compute", unique_indices)
    insert(InstDMACopy(name=name or "", dst=target, srcs=sources, mode=DmaMode.cce, op=AluOp.add))


def memset(dst: ndarray, value: float, engine: engine = engine.unknown, name: str | None = None) -> None:
    """dst[*] = value, on chip. An integer may go into floats, a float not into integers."""
    target = access(dst, "dst")
    if not dst.on_chip:
        refuse("NKC030", inst="memset", what="dst", expected="sbuf or psum", name=dst.name, found=dst.buffer.value,
               operand="dst")  # fmt: skip
    insert(InstMemset(name=name or "", dst=target, value=constant(value, "value"), engine=engine_of(engine)))


def tensor_copy(dst: ndarray, src: ndarray, engine: engine = engine.unknown, name: str | None = None) -> None:
    """dst[p, f] = cast(src[p, f]) between SBUF and PSUM: bits for equal dtypes, through float32 otherwise."""
    insert(InstTensorCopy(name=name or "", dst=access(dst, "dst"), src=access(src, "src"), engine=engine_of(engine)))


def tensor_copy_predicated(
    dst: ndarray, src: float | ndarray, predicate: ndarray, reverse_pred: bool = False, name: str | None = None
) -> None:
    """dst[p, f] = src[p, f] where the predicate is not zero (zero if reversed); the rest of dst stays. `src` is a tile
    of dst's dtype, or a number: a float for floats, an int for integers."""
    insert(
        InstTensorCopyPredicated(
            name=name or "",
            dst=access(dst, "dst"),
            src=access(src, "src") if isinstance(src, ndarray) else constant(src, "src"),
            predicate=access(predicate, "predicate"),
            reverse=bool(reverse_pred),
        )
    )


def nc_stream_shuffle(dst: ndarray, src: ndarray, shuffle_mask: Sequence[int], name: str | None = None) -> None:
    """In each quadrant q of 32 partitions dst[32 q + i] = src[32 q + shuffle_mask[i]]; 255 leaves a partition alone.
    `dst` may be `src`. Partitions that src does not have come out undefined."""
    mask = _listed("nc_stream_shuffle", "shuffle_mask", shuffle_mask)
    if not all(type(entry) is int for entry in mask):
        refuse_argument("nc_stream_shuffle", "shuffle_mask", shuffle_mask, "32 integers")
    insert(InstStreamShuffle(name=name or "", dst=access(dst, "dst"), src=access(src, "src"), shuffle_mask=tuple(mask)))


def _dge(inst: str, mode: dge_mode) -> DgeMode:
    if not isinstance(mode, constants.dge_mode):
        refuse_argument(inst, "dge_mode", mode, "a member of nki.isa.dge_mode")
    return DgeMode(mode.name)


def _check_priority(inst: str, priority: int | None) -> None:
    if priority is not None and (type(priority) is not int or not 0 <= priority <= 3):
        refuse_argument(inst, "priority", priority, "None or 0 to 3")


def _check_add(inst: str, what: str, op: Any) -> None:
    if alu(op, inst) is not AluOp.add:
        refuse_argument(inst, what, op.name, "nl.add")


def _check_unique(inst: str, unique: bool) -> None:
    if unique is not True:
        refuse_argument(inst, "unique_indices", unique, "True")


def _listed(inst: str, what: str, values: Sequence[T]) -> Sequence[T]:
    if not isinstance(values, list | tuple):
        refuse_argument(inst, what, values, "a list")
    return values
