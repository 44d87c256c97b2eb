"""Index generation and selection."""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope, verify_operands
from ..errors import fail
from .common import Operands

__all__ = ["InstIota"]


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
