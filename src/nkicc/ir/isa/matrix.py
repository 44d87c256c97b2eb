"""The tensor engine: matrix multiplication and transposition."""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope, in_memory, verify_operands
from ..errors import fail
from ..types import Engine, Memory
from .common import Operands, on_chip

__all__ = ["InstMatmul", "InstTranspose"]


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
