"""Index generation."""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope, verify_operands
from .common import Operands, off_psum
from .select import check_affine

__all__ = ["InstIota"]


class InstIota(Inst, frozen=True, kw_only=True):
    """dst[p, w, z, y, x] = offset + p · channel_multiplier + Σ index_k · step_k over `pattern` [[step, count], …], in
    32-bit integers, cast to the type of `dst`; p counts from the tile's first partition. On GpSimd, hence SBUF only
    (NKC030). Source: NKI documentation, nki.isa.iota."""

    dst: AccessPattern
    pattern: tuple[tuple[int, int], ...]
    offset: int = 0
    channel_multiplier: int = 0

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        off_psum(self, scope, self.dst)
        check_affine(self, self.dst, self.pattern, self.offset, self.channel_multiplier)
