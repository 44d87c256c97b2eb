"""Data movement: DMA, fills and copies between memories."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta

from ..access import AccessPattern
from ..base import Inst, Scope, in_memory, verify_operands
from ..errors import fail
from ..types import AluOp, Engine, Memory
from .common import Number, Operands, check_counts, check_same_dtype, check_tiles

__all__ = ["DmaMode", "InstDMACopy", "InstDMATranspose", "InstMemset", "InstTensorCopy"]


class DmaMode(str, Enum):
    """`copy` moves one source; `cce` folds several sources in float32 on the way."""

    copy = "copy"
    cce = "cce"


class InstDMACopy(Inst, frozen=True, kw_only=True):
    """flat(dst)[i] = cast(flat(src)[i]); in mode `cce` the float32 fold of all sources with `op`. Element counts are
    equal (NKC039). A source may be an alias of another core's tensor, which is how local collectives pull."""

    dst: AccessPattern
    srcs: Operands
    mode: DmaMode = DmaMode.copy
    op: AluOp = AluOp.bypass
    dma_qos: Annotated[int, Meta(ge=0, le=16)] | None = None

    def reads(self) -> Operands:
        return self.srcs

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        for ap in (*self.srcs, self.dst):
            in_memory(self, scope, ap, "a DMA operand", Memory.sbuf, Memory.shared_hbm, Memory.private_hbm)
        if self.mode is DmaMode.copy and len(self.srcs) != 1:
            fail("NKC034", inst=self.label, expected="one", what="source", found=len(self.srcs), loc=self.loc)
        for src in self.srcs:
            check_counts(self, src, self.dst)


class InstDMATranspose(Inst, frozen=True, kw_only=True):
    """dst[i…] = src[axes…]: `dst.shape[i] = src.shape[axes[i]]`. Equal dtypes."""

    dst: AccessPattern
    src: AccessPattern
    axes: tuple[int, ...]

    def reads(self) -> Operands:
        return (self.src,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        expected = tuple(self.src.shape[a] for a in self.axes)
        if self.dst.shape != expected:
            fail(
                "NKC033",
                inst=self.label,
                what="dst",
                found=self.dst.shape,
                expected=expected,
                why=f"(src transposed by {self.axes})",
                operand="dst",
                loc=self.loc,
            )
        check_same_dtype(self, scope, self.src, self.dst)


class InstMemset(Inst, frozen=True, kw_only=True):
    """dst[*] = value. A float value into an integer tile is refused (NKC032)."""

    dst: AccessPattern
    value: Number
    engine: Engine = Engine.unassigned

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        dtype = scope.dtype(self.dst)
        if isinstance(self.value, float) and not dtype.is_float:
            fail(
                "NKC032",
                inst=self.label,
                left="value",
                left_dtype="float",
                right=repr(self.dst.tensor),
                right_dtype=dtype.value,
                operand="value",
                loc=self.loc,
            )


class InstTensorCopy(Inst, frozen=True, kw_only=True):
    """dst[p, f] = cast(src[p, f]) between SBUF and PSUM; bit-exact when the dtypes are equal."""

    dst: AccessPattern
    src: AccessPattern
    engine: Engine = Engine.unassigned

    def reads(self) -> Operands:
        return (self.src,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.src)
