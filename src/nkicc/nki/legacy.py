"""`neuronxcc.nki` of the releases before 2.26: its names where they mean the same today, and what to change elsewhere.

Its `nki.isa` returned new tiles, today's writes to a destination that is given first. Only the enumerations and the
target query of that module are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from nkicc.builder.source import refuse

from . import collectives, isa, language, typing
from .missing import refuse_unknown

__all__ = ["modules"]

_SAME = (
    "constants", "dge_mode", "engine", "get_nc_version", "gpsimd_engine", "nc_version", "reduce_cmd", "scalar_engine",
    "tensor_engine", "unknown_engine", "vector_engine",
)  # fmt: skip


def modules(nki: ModuleType) -> dict[str, ModuleType]:
    """The modules of the old name, by name, for the module that is `nki` today."""
    root, old, old_isa = ModuleType("neuronxcc"), ModuleType("neuronxcc.nki"), ModuleType("neuronxcc.nki.isa")
    for module in (root, old):
        module.__path__ = []
    for name in _SAME:
        setattr(old_isa, name, getattr(isa, name))
    old_isa.__dict__["__getattr__"] = _changed
    for name in nki.__all__:
        setattr(old, name, getattr(nki, name))
    old.__dict__.update(isa=old_isa, __getattr__=refuse_unknown("nki"))
    root.__dict__["nki"] = old
    own = {"language": language, "typing": typing, "collectives": collectives, "isa": old_isa}
    return {"neuronxcc": root, "neuronxcc.nki": old} | {f"neuronxcc.nki.{name}": own[name] for name in own}


def _instead() -> Callable[[str], Any]:
    unknown = refuse_unknown("nki.isa")

    def changed(name: str) -> Any:
        if name.startswith("_") or name not in isa.__all__:
            return unknown(name)
        return refuse(
            "NKC008",
            what=f"neuronxcc.nki.isa.{name}",
            instead=f"Import nki.isa: its {name} writes to a destination, which is given first, and returns no tile.",
        )

    return changed


_changed = _instead()
