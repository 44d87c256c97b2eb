"""A kernel's own instructions: data movement, compute, registers. They are the same at the penguin and the bir level.

Semantics are those of the public nki.isa pages. Compute engines work in float32 and cast the result to the type of
`dst`; DMA casts element by element in row-major order of both views.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta

from .access import AccessPattern, Register
from .base import Inst, Scope, in_memory, verify_operands
from .errors import fail
from .types import ActFn, AluOp, DType, Engine, Memory, RegisterName

__all__ = [
    "DmaMode",
    "InstActivation",
    "InstDMACopy",
    "InstDMATranspose",
    "InstIota",
    "InstMatmul",
    "InstMemset",
    "InstRegisterLoad",
    "InstRegisterMove",
    "InstRegisterStore",
    "InstTensorCopy",
    "InstTensorReduce",
    "InstTensorScalar",
    "InstTensorTensor",
    "InstTranspose",
]

Number = int | float
Operands = tuple[AccessPattern, ...]


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


class InstTensorTensor(Inst, frozen=True, kw_only=True):
    """dst = data1 op data2, element by element."""

    dst: AccessPattern
    data1: AccessPattern
    data2: AccessPattern
    op: AluOp
    engine: Engine = Engine.unassigned

    def reads(self) -> Operands:
        return (self.data1, self.data2)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.data1, self.data2)


class InstTensorScalar(Inst, frozen=True, kw_only=True):
    """t = data op0 operand0; dst = t op1 operand1 (operands swapped if reversed). An operand is a constant or a (P, 1)
    tile."""

    dst: AccessPattern
    data: AccessPattern
    op0: AluOp
    operand0: Number | AccessPattern = 0
    reverse0: bool = False
    op1: AluOp | None = None
    operand1: Number | AccessPattern | None = None
    reverse1: bool = False
    engine: Engine = Engine.unassigned

    def reads(self) -> Operands:
        scalars = [o for o in (self.operand0, self.operand1) if isinstance(o, AccessPattern)]
        return (self.data, *scalars)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.data)
        verify_operands(self, scope)
        for operand in (self.operand0, self.operand1):
            if isinstance(operand, AccessPattern) and operand.size != self.data.shape[0]:
                fail(
                    "NKC033",
                    inst=self.label,
                    what="operand",
                    found=operand.shape,
                    expected=(self.data.shape[0], 1),
                    why="(one value per partition)",
                    operand="operand0",
                    loc=self.loc,
                )


class InstTensorReduce(Inst, frozen=True, kw_only=True):
    """dst = fold of data over its last `axes` dimensions."""

    dst: AccessPattern
    data: AccessPattern
    op: AluOp
    axes: Annotated[int, Meta(ge=1, le=4)]
    negate: bool = False

    def reads(self) -> Operands:
        return (self.data,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        on_chip(self, scope, self.dst, self.data)
        shape = self.data.shape
        if self.axes >= len(shape):
            fail(
                "NKC035",
                inst=self.label,
                what="axis",
                found=self.axes,
                permitted="the last free axes",
                operand="axis",
                loc=self.loc,
            )
        kept = 1
        for extent in shape[: len(shape) - self.axes]:
            kept *= extent
        if self.dst.size != kept:
            fail("NKC039", inst=self.label, left=kept, right=self.dst.size, operand="dst", loc=self.loc)


class InstActivation(Inst, frozen=True, kw_only=True):
    """dst = cast(f(data · scale + bias)) in float32; bias is a constant or a (P, 1) tile."""

    dst: AccessPattern
    data: AccessPattern
    func: ActFn
    bias: Number | AccessPattern = 0.0
    scale: Number | AccessPattern = 1.0

    def reads(self) -> Operands:
        return (self.data, *[o for o in (self.bias, self.scale) if isinstance(o, AccessPattern)])

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.data)
        verify_operands(self, scope)


class InstMatmul(Inst, frozen=True, kw_only=True):
    """dst[m, n] (+)= Σ_k stationary[k, m] · moving[k, n] in float32; k runs over the partitions. `accumulate` None
    means that the first matmul write to a PSUM location overwrites and later ones add."""

    dst: AccessPattern
    stationary: AccessPattern
    moving: AccessPattern
    accumulate: bool | None = None

    def reads(self) -> Operands:
        return (self.stationary, self.moving)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        in_memory(self, scope, self.dst, "dst", Memory.psum)
        in_memory(self, scope, self.stationary, "stationary", Memory.sbuf)
        in_memory(self, scope, self.moving, "moving", Memory.sbuf)
        k, m = self.stationary.shape[0], self.stationary.size // self.stationary.shape[0]
        n = self.moving.size // self.moving.shape[0]
        if self.moving.shape[0] != k:
            fail(
                "NKC033",
                inst=self.label,
                what="moving",
                found=self.moving.shape,
                expected=(k, n),
                why="(equal partition counts)",
                operand="moving",
                loc=self.loc,
            )
        limit = 512 if scope.target.arch < 40 else 8192
        if m > 128 or n > limit:
            fail(
                "NKC035",
                inst=self.label,
                what="tile (K, M, N)",
                found=(k, m, n),
                permitted=f"K, M <= 128, N <= {limit}",
                loc=self.loc,
            )
        if (self.dst.shape[0], self.dst.size // self.dst.shape[0]) != (m, n):
            fail(
                "NKC033",
                inst=self.label,
                what="dst",
                found=self.dst.shape,
                expected=(m, n),
                why="(M, N)",
                operand="dst",
                loc=self.loc,
            )


class InstTranspose(Inst, frozen=True, kw_only=True):
    """dst[f, p] = data[p, f], free dimensions flattened."""

    dst: AccessPattern
    data: AccessPattern
    engine: Engine = Engine.unassigned

    def reads(self) -> Operands:
        return (self.data,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        on_chip(self, scope, self.dst, self.data)
        p = self.data.shape[0]
        f = self.data.size // p
        if f > 128 or (self.dst.shape[0], self.dst.size // self.dst.shape[0]) != (f, p):
            fail(
                "NKC033",
                inst=self.label,
                what="dst",
                found=self.dst.shape,
                expected=(f, p),
                why="(data transposed, at most 128 x 128)",
                operand="dst",
                loc=self.loc,
            )


class InstIota(Inst, frozen=True, kw_only=True):
    """dst[p, w, z, y, x] = offset + p · channel_multiplier + Σ index_k · step_k over `pattern` [[step, count], …]."""

    dst: AccessPattern
    pattern: tuple[tuple[int, int], ...]
    offset: int = 0
    channel_multiplier: int = 0

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        count = 1
        for _, n in self.pattern:
            count *= n
        if count * self.dst.shape[0] != self.dst.size:
            fail(
                "NKC039",
                inst=self.label,
                left=count * self.dst.shape[0],
                right=self.dst.size,
                operand="dst",
                loc=self.loc,
            )


class InstRegisterMove(Inst, frozen=True, kw_only=True):
    """dst = src, a constant or a register."""

    dst: Register
    src: int | RegisterName


class InstRegisterLoad(Inst, frozen=True, kw_only=True):
    """dst = the single element of src."""

    dst: Register
    src: AccessPattern

    def reads(self) -> Operands:
        return (self.src,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        if self.src.size != 1:
            fail(
                "NKC033",
                inst=self.label,
                what="src",
                found=self.src.shape,
                expected=(1, 1),
                why="",
                operand="src",
                loc=self.loc,
            )


class InstRegisterStore(Inst, frozen=True, kw_only=True):
    """The single element of dst = src."""

    dst: AccessPattern
    src: RegisterName

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        if self.dst.size != 1:
            fail(
                "NKC033",
                inst=self.label,
                what="dst",
                found=self.dst.shape,
                expected=(1, 1),
                why="",
                operand="dst",
                loc=self.loc,
            )


# --- shared checks ---------------------------------------------------------------------------------------------------


def on_chip(inst: Inst, scope: Scope, *aps: AccessPattern) -> None:
    """Compute operands are in SBUF or PSUM (NKC030)."""
    for ap in aps:
        in_memory(inst, scope, ap, "a compute operand", Memory.sbuf, Memory.psum)


def check_tiles(inst: Inst, scope: Scope, dst: AccessPattern, *srcs: AccessPattern) -> None:
    """On-chip tiles with equal partition counts and equal elements per partition."""
    verify_operands(inst, scope)
    on_chip(inst, scope, dst, *srcs)
    for src in srcs:
        if src.shape[0] != dst.shape[0] or src.size != dst.size:
            fail(
                "NKC033",
                inst=inst.label,
                what=repr(src.tensor),
                found=src.shape,
                expected=dst.shape,
                why="(partitions and elements per partition of dst)",
                operand="src",
                loc=inst.loc,
            )


def check_counts(inst: Inst, src: AccessPattern, dst: AccessPattern) -> None:
    """NKC039 unless both patterns hold as many elements."""
    if src.size != dst.size:
        fail("NKC039", inst=inst.label, left=src.size, right=dst.size, operand="src", loc=inst.loc)


def check_same_dtype(inst: Inst, scope: Scope, src: AccessPattern, dst: AccessPattern) -> None:
    """NKC032 unless the sizes of both element types are equal (a transpose moves bits)."""
    a: DType = scope.dtype(src)
    b: DType = scope.dtype(dst)
    if a is not b:
        fail(
            "NKC032",
            inst=inst.label,
            left=repr(src.tensor),
            left_dtype=a.value,
            right=repr(dst.tensor),
            right_dtype=b.value,
            loc=inst.loc,
        )
