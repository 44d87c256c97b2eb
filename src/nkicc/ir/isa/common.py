"""What the instruction families share: operand types and checks."""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope, in_memory, verify_operands
from ..errors import fail
from ..types import DType, Memory

__all__ = ["Number", "Operands", "check_counts", "check_same_dtype", "check_tiles", "on_chip"]

Number = int | float
Operands = tuple[AccessPattern, ...]


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
