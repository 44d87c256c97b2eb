"""Registers: moves, loads and stores of scalars, and integer arithmetic on them.

A register holds an integer; its dtype says of how many bits. Source: the nki.isa pages of register_alloc and its
siblings, and "NKI Scalar Values".
"""

from __future__ import annotations

from ..access import AccessPattern, Register
from ..base import Inst, Scope, in_memory, verify_operands
from ..errors import fail
from ..types import AluOp, DType, Memory, RegisterName
from .common import INTEGERS, LONG, WORD, Operands, check_dtype, check_integer, refuse_option

__all__ = ["InstRegisterAlu", "InstRegisterLoad", "InstRegisterMove", "InstRegisterStore"]


class InstRegisterMove(Inst, frozen=True, kw_only=True):
    """dst = src, a constant of at most 32 bits (NKC035) or a register."""

    dst: Register
    src: int | RegisterName

    def verify(self, scope: Scope) -> None:
        check_integer(self, self.src, "src")


class InstRegisterAlu(Inst, frozen=True, kw_only=True):
    """dst = a op b with add, subtract or mult (NKC035), on constants and registers of dst's width, int32 or int64
    (NKC035). What outgrows the width wraps around."""

    dst: Register
    op: AluOp
    a: int | RegisterName
    b: int | RegisterName

    def verify(self, scope: Scope) -> None:
        if self.op not in (AluOp.add, AluOp.subtract, AluOp.mult):
            refuse_option(self, "op", self.op.value, "add, subtract, mult")
        if self.dst.dtype not in (DType.int32, DType.int64):
            refuse_option(self, "dtype of dst", self.dst.dtype.value, "int32, int64")
        limits = WORD if self.dst.dtype is DType.int32 else LONG
        check_integer(self, self.a, "a", limits)
        check_integer(self, self.b, "b", limits)


class InstRegisterLoad(Inst, frozen=True, kw_only=True):
    """dst = the single element of src, an integer in SBUF or HBM of no more bits than dst."""

    dst: Register
    src: AccessPattern

    def reads(self) -> Operands:
        return (self.src,)

    def verify(self, scope: Scope) -> None:
        check_element(self, scope, self.src, self.dst.dtype.size, "src")


class InstRegisterStore(Inst, frozen=True, kw_only=True):
    """The single element of dst, an integer in SBUF or HBM, = the low bits of src."""

    dst: AccessPattern
    src: RegisterName

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_element(self, scope, self.dst, DType.int64.size, "dst")


def check_element(inst: Inst, scope: Scope, ap: AccessPattern, size: int, what: str) -> None:
    """One integer (NKC033, NKC035) of at most `size` bytes (NKC035) in SBUF or HBM (NKC030)."""
    verify_operands(inst, scope)
    in_memory(inst, scope, ap, what, Memory.sbuf, Memory.shared_hbm, Memory.private_hbm)
    if ap.size != 1:
        fail("NKC033", inst=inst.label, what=what, found=ap.shape, expected=(1, 1), why="", operand=what, loc=inst.loc)
    check_dtype(inst, scope, ap, what, frozenset(d for d in INTEGERS if d.size <= size))
