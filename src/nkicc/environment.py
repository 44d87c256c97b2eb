"""The environment variables of the Neuron tools that a run honours where the caller says nothing."""

from __future__ import annotations

import os

from nkicc.ir.errors import fail
from nkicc.ir.types import Target

__all__ = ["default_lnc", "default_target", "low_precision_as_float32"]

_TARGETS = {
    "trn1": Target.trn1,
    "inf2": Target.trn1,
    "gen2": Target.trn1,
    "trn2": Target.trn2,
    "gen3": Target.trn2,
    "trn3": Target.trn3,
    "gen4": Target.trn3,
}


def default_target() -> Target:
    """NEURON_PLATFORM_TARGET_OVERRIDE, or trn2. NKC006 for a name that is none."""
    return _TARGETS[_chosen("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2", *_TARGETS)]


def default_lnc() -> int:
    """NEURON_LOGICAL_NC_CONFIG, the physical cores of a logical one, or 1. NKC006 for anything but 1 and 2."""
    return int(_chosen("NEURON_LOGICAL_NC_CONFIG", "1", "1", "2"))


def low_precision_as_float32() -> bool:
    """Whether NKI_PRECISE_FP is 0: bfloat16, float16 and float8 are then kept in float32. NKC006 but for 0 and 1."""
    return _chosen("NKI_PRECISE_FP", "1", "0", "1") == "0"


def _chosen(variable: str, default: str, *permitted: str) -> str:
    value = os.environ.get(variable) or default
    if value not in permitted:
        fail("NKC006", option=variable, why=f"{value!r} is none of {', '.join(permitted)}")
    return value
