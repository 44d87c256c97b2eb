"""Dropout."""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope, same_dtype
from ..types import DType
from .common import FLOATS, AnyNumber, Operands, check_per_partition, check_tiles, refuse_option, tiles_of

__all__ = ["InstDropout"]


class InstDropout(Inst, frozen=True, kw_only=True):
    """dst = 0 with probability `prob`, else data, drawn for each element and rank; nothing is scaled. `prob` is a
    constant in [0, 1] or a (P, 1) tile of floats, of float32 if `data` is of integers. One type for dst and data
    (NKC032). The draws are not those of the device. Source: NKI documentation, nki.isa.dropout."""

    dst: AccessPattern
    data: AccessPattern
    prob: AnyNumber | AccessPattern

    def reads(self) -> Operands:
        return (self.data, *tiles_of(self.prob))

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.data)
        same_dtype(self, scope, self.data, self.dst)
        dtypes = FLOATS if scope.dtype(self.data).is_float else frozenset({DType.float32})
        check_per_partition(self, scope, self.prob, "prob", self.data.shape[0], dtypes)
        if not isinstance(self.prob, AccessPattern) and not 0 <= float(self.prob) <= 1:
            refuse_option(self, "prob", self.prob, "a probability from 0 to 1")
