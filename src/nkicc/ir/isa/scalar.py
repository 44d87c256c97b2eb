"""The scalar engine: activation functions."""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope, verify_operands
from ..types import ActFn
from .common import Number, Operands, check_tiles

__all__ = ["InstActivation"]


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
