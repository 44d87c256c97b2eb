"""`nki.compiler`: the configuration that `nki.jit` takes (SDK 2.33). It steers the back end of the compiler, so that a
run here is the same whatever it says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .missing import refuse_unknown

__all__ = ["AddressRotation", "CompileConfig", "SpecializationConfig"]


class AddressRotation(Enum):
    """Whether the back end may move what has an address."""

    AUTO = "auto"
    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(frozen=True, kw_only=True)
class CompileConfig:
    """Options of the compiler's back end. Accepted and without effect: nothing here has an address of its own."""

    address_rotation: AddressRotation = AddressRotation.AUTO
    non_ssa_legalization: bool = False
    dead_code_elim: bool = False
    barrier_check: bool = False
    prefetch_auto: bool = False
    nki_alloc_fallback: bool = True


@dataclass(frozen=True, kw_only=True)
class SpecializationConfig:
    """Options of the trace. Accepted and without effect: a kernel within a kernel is part of the outer one."""

    allow_nested_config_override: bool = False


__getattr__ = refuse_unknown("nki.compiler")
