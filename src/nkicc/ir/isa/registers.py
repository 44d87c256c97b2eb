"""Registers: moves, loads and stores of scalars."""

from __future__ import annotations

from ..access import AccessPattern, Register
from ..base import Inst, Scope, verify_operands
from ..errors import fail
from ..types import RegisterName
from .common import Operands

__all__ = ["InstRegisterLoad", "InstRegisterMove", "InstRegisterStore"]


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
