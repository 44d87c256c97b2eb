"""Which local swaps the GpSimd engine can move (InstGPSIMDSB2SB)."""

from __future__ import annotations

from nkicc.ir.access import AccessPattern, Tensor
from nkicc.ir.program import Module
from nkicc.ir.types import Memory

__all__ = ["MAX_BPP", "effective_bytes", "elements_per_partition", "sb2sb_refusal"]

#: Hard ceiling of effective bytes per partition.
MAX_BPP = 1024
#: GpSimd moves 32-bit words: narrower elements cost a word each, wider ones what they are.
_FACTOR = {1: 4, 2: 2, 4: 1, 8: 1}


def elements_per_partition(ap: AccessPattern, tensor: Tensor) -> int:
    """Elements that a pattern touches in each partition: pairs that step whole partitions do not count."""
    item = (ap.dtype or tensor.dtype).size
    pitch = tensor.partition_bytes
    count = 1
    for stride, extent in ap.pattern:
        if stride == 0 or stride * item % pitch:
            count *= extent
    return count


def effective_bytes(ap: AccessPattern, tensor: Tensor) -> int:
    """Bytes per partition as the engine counts them: elements x size x (4, 2, 1, 1 for 8, 16, 32, 64 bits)."""
    size = (ap.dtype or tensor.dtype).size
    return elements_per_partition(ap, tensor) * size * _FACTOR[size]


def sb2sb_refusal(
    module: Module, dst: AccessPattern, src: AccessPattern, tensors: tuple[Tensor, Tensor], max_bpp: int = MAX_BPP
) -> str | None:
    """Why the engine cannot move `src` to `dst`, as `code: text` (BIR450 to BIR456, BIR460), or None if it can.

    `tensors` are those of dst and src. The predicates, their order and texts are those of
    `InstGPSIMDSB2SB::isCompatible` (public compiler notes). They are reasons, not errors: what fails goes through DMA.
    """
    into, out = tensors
    from_type, to_type = src.dtype or out.dtype, dst.dtype or into.dtype
    elements, bpp = elements_per_partition(src, out), effective_bytes(src, out)
    overhead = f" ({_FACTOR[from_type.size]} times the data)" if _FACTOR[from_type.size] > 1 else ""
    for holds, reason in (
        (module.world.lnc == 2, "BIR450: GPSIMDSB2SB is only available for LNC=2"),
        (module.target.arch >= 30, "BIR451: GPSIMDSB2SB is only available in trn2 and later"),
        (from_type is to_type, "BIR452: GPSIMDSB2SB cannot be used to cast"),
        (
            elements == elements_per_partition(dst, into),
            "BIR453: GPSIMDSB2SB can only move data between access patterns of the same size",
        ),
        (
            2 <= len(src.pattern) <= 5 and 2 <= len(dst.pattern) <= 5,
            "BIR454: GPSIMDSB2SB access patterns must have a valid number of dimensions",
        ),
        (
            out.memory is Memory.sbuf and into.memory is Memory.sbuf,
            "BIR455: GPSIMDSB2SB can only move data between SBs",
        ),
        (
            not src.is_dynamic and not dst.is_dynamic,
            "BIR456: GPSIMDSB2SB does not support dynamic access patterns",
        ),
        (
            bpp <= max_bpp,
            f"BIR460: GPSIMDSB2SB can only transfer less than {max_bpp} bytes/partition, but is trying to transfer "
            f"{bpp} bytes/partition{overhead}",
        ),
    ):
        if not holds:
            return reason
    return None
