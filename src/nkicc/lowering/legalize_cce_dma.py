"""Split a CCE copy with more sources than the DMA engine takes.

The fold must stay left to right and round once at the end, so that the bits do not change: each part hands its exact
partial result, in the type the engine accumulates in, to the next part as first source.
"""

from __future__ import annotations

from msgspec.structs import replace

from nkicc.ir.access import Tensor
from nkicc.ir.isa import InstDMACopy
from nkicc.ir.types import DType, Memory

__all__ = ["MAX_CCE_DMA_SOURCES", "legalize_cce_dma"]

#: Sources of one CCE copy, on every generation (public compiler notes, `MaxCceDmaSource`).
MAX_CCE_DMA_SOURCES = 16


def legalize_cce_dma(copy: InstDMACopy, dtype: DType) -> tuple[list[InstDMACopy], list[Tensor]]:
    """The copies that replace one of mode cce over operands of type `dtype`, and the SBUF tensors
    `<name>_imm_output_<i>` of their partial results (float32; 64 bits for integers, which are summed exactly)."""
    parts: list[InstDMACopy] = []
    partials: list[Tensor] = []
    srcs = copy.srcs
    while len(srcs) > MAX_CCE_DMA_SOURCES:
        name = f"{copy.name}_imm_output_{len(partials)}"
        wide = DType.float32 if dtype.is_float else DType.uint64 if dtype is DType.uint64 else DType.int64
        partial = Tensor(name, copy.dst.shape, wide, Memory.sbuf, loc=copy.loc)
        partials.append(partial)
        parts.append(replace(copy, name=name, dst=partial.full(), srcs=srcs[:MAX_CCE_DMA_SOURCES]))
        srcs = (partial.full(), *srcs[MAX_CCE_DMA_SOURCES:])
    return [*parts, replace(copy, srcs=srcs)], partials
