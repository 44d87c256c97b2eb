"""What the instruction families share: operand types and checks."""

from __future__ import annotations

from enum import Enum
from typing import Never

from ..access import AccessPattern
from ..base import Inst, Scope, in_memory, verify_operands
from ..errors import fail
from ..types import DType, Engine, Memory

__all__ = [
    "FLOATS",
    "INTEGERS",
    "LONG",
    "WORD",
    "AnyNumber",
    "NonFinite",
    "Number",
    "Operands",
    "check_arch",
    "check_counts",
    "check_dtype",
    "check_engine",
    "check_integer",
    "check_per_partition",
    "check_same_dtype",
    "check_tile",
    "check_tiles",
    "not_both_in_psum",
    "off_psum",
    "on_chip",
    "per_partition",
    "refuse_option",
    "tiles_of",
]

Number = int | float
Operands = tuple[AccessPattern, ...]


class NonFinite(str, Enum):
    """The floats that JSON has no numbers for; `float()` reads them."""

    infinity = "inf"
    minus_infinity = "-inf"
    nan = "nan"


#: A number that a kernel may choose freely.
AnyNumber = Number | NonFinite

#: What an integer constant of 32 bits can be: read as signed or as unsigned.
WORD = (-(1 << 31), (1 << 32) - 1)
#: The same for constants that enter arithmetic, which is float32 or 64-bit integers.
LONG = (-(1 << 63), (1 << 63) - 1)

FLOATS = frozenset(dtype for dtype in DType if dtype.is_float)
INTEGERS = frozenset(DType) - FLOATS


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


def tiles_of(*operands: object) -> Operands:
    """The operands that are tiles and not constants."""
    return tuple([operand for operand in operands if isinstance(operand, AccessPattern)])


def check_dtype(inst: Inst, scope: Scope, operand: object, what: str, permitted: frozenset[DType]) -> None:
    """NKC035 for a tile of another element type; a constant has none."""
    if not isinstance(operand, AccessPattern):
        return
    dtype = scope.dtype(operand)
    if dtype not in permitted:
        fail(
            "NKC035",
            inst=inst.label,
            what=f"the type of {what}",
            found=dtype.value,
            permitted=", ".join(d.value for d in DType if d in permitted),
            operand=what,
            loc=inst.loc,
        )


def check_integer(inst: Inst, value: object, what: str, limits: tuple[int, int] = WORD) -> None:
    """NKC035 for an integer beyond the limits; everything else passes."""
    low, high = limits
    if isinstance(value, int) and not low <= value <= high:
        refuse_option(inst, what, value, f"{low} to {high}")


def check_per_partition(
    inst: Inst, scope: Scope, operand: object, what: str, partitions: int, dtypes: frozenset[DType] | None = None
) -> None:
    """A constant, which an integer of 64 bits can be (NKC035), or an on-chip tile (P, 1) with one value per partition
    (NKC033) and a type of `dtypes` (NKC035)."""
    if not isinstance(operand, AccessPattern):
        check_integer(inst, operand, what, LONG)
        return
    on_chip(inst, scope, operand)
    if operand.shape[0] != partitions or operand.size != partitions:
        fail(
            "NKC033",
            inst=inst.label,
            what=what,
            found=operand.shape,
            expected=(partitions, 1),
            why="(one value per partition)",
            operand=what,
            loc=inst.loc,
        )
    if dtypes is not None:
        check_dtype(inst, scope, operand, what, dtypes)


def off_psum(inst: Inst, scope: Scope, *operands: object) -> None:
    """GpSimd reaches SBUF only (NKC030)."""
    for ap in tiles_of(*operands):
        in_memory(inst, scope, ap, "an operand on GpSimd", Memory.sbuf)


def not_both_in_psum(inst: Inst, scope: Scope, left: AccessPattern, right: AccessPattern) -> None:
    """The vector engine reads PSUM through one port (NKC030)."""
    if scope.tensor(left).memory is Memory.psum:
        in_memory(inst, scope, right, f"the operand next to {left.tensor!r} in PSUM", Memory.sbuf)


def check_engine(inst: Inst, scope: Scope, engine: Engine, *valid: Engine, operands: Operands = ()) -> None:
    """BIR606 unless the engine is left open or one of `valid`; GpSimd reaches no operand in PSUM (NKC030)."""
    if engine is Engine.unassigned:
        return
    if engine not in valid:
        fail(
            "BIR606",
            engine=engine.value,
            opcode=type(inst).__name__.removeprefix("Inst"),
            arch=scope.target.arch,
            valid=" or ".join(e.value for e in valid),
            operand="engine",
            loc=inst.loc,
        )
    if engine is Engine.pool:
        off_psum(inst, scope, *operands)


def refuse_option(inst: Inst, what: str, found: object, permitted: str) -> Never:
    """NKC035 for an option of an instruction."""
    fail("NKC035", inst=inst.label, what=what, found=found, permitted=permitted, operand=what, loc=inst.loc)


def per_partition(ap: AccessPattern) -> int:
    """Elements per partition of an on-chip pattern."""
    return ap.size // ap.shape[0]


def check_tile(inst: Inst, what: str, ap: AccessPattern, partitions: int, count: int) -> None:
    """NKC033 unless a tile has that many partitions and elements per partition."""
    if (ap.shape[0], per_partition(ap)) != (partitions, count):
        fail(
            "NKC033",
            inst=inst.label,
            what=what,
            found=ap.shape,
            expected=(partitions, count),
            why="(partitions, elements per partition)",
            operand=what,
            loc=inst.loc,
        )


def check_arch(inst: Inst, scope: Scope, arch: int) -> None:
    """BIR530 unless the target is of that architecture level or a later one."""
    if scope.target.arch < arch:
        fail("BIR530", opcode=type(inst).__name__, arch=scope.target.arch, min_arch=arch, loc=inst.loc)
