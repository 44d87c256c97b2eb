"""Mean and variance, as batch normalisation takes them."""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope, verify_operands
from .common import Operands, check_tile, on_chip, per_partition, refuse_option

__all__ = ["InstBnAggr", "InstBnStats"]

#: Elements per partition that one bn_stats takes.
_BN_STATS_MAX = 512


class InstBnStats(Inst, frozen=True, kw_only=True):
    """dst[p] = (count, mean, variance · count) of the elements of data[p] at even positions, then of those at odd ones,
    in float32. Up to 512 elements per partition. Source: NKI documentation, nki.isa.bn_stats."""

    dst: AccessPattern
    data: AccessPattern

    def reads(self) -> Operands:
        return (self.data,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        _check(self, scope, self.dst, self.data, 6)
        size = per_partition(self.data)
        if size > _BN_STATS_MAX:
            refuse_option(
                self, "elements per partition of data", size, f"up to {_BN_STATS_MAX} (nl.tile_size.bn_stats_fmax)"
            )


class InstBnAggr(Inst, frozen=True, kw_only=True):
    """dst[p] = (mean, variance) of the union of the sets that the tuples (count, mean, variance · count) of data[p]
    describe, in float32. Source: NKI documentation, nki.isa.bn_aggr."""

    dst: AccessPattern
    data: AccessPattern

    def reads(self) -> Operands:
        return (self.data,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        _check(self, scope, self.dst, self.data, 2)
        size = per_partition(self.data)
        if size % 3:
            refuse_option(
                self, "elements per partition of data", size, "a multiple of 3: (count, mean, variance * count) per set"
            )


def _check(inst: Inst, scope: Scope, dst: AccessPattern, data: AccessPattern, results: int) -> None:
    verify_operands(inst, scope)
    on_chip(inst, scope, dst, data)
    check_tile(inst, "dst", dst, data.shape[0], results)
