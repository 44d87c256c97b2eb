"""Looking into a running program."""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst
from .common import Operands

__all__ = ["InstDevicePrint"]


class InstDevicePrint(Inst, frozen=True, kw_only=True):
    """Print `prefix` and the content of src, per rank. Source: nki.language.device_print."""

    prefix: str
    src: AccessPattern

    def reads(self) -> Operands:
        return (self.src,)
