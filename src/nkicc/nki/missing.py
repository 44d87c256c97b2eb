"""What a module of the front door says about names that it does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nkicc.builder.source import refuse

__all__ = ["refuse_unknown"]


def refuse_unknown(module: str) -> Callable[[str], Any]:
    """A module `__getattr__` that refuses names (NKC008) with the line that asks. Private names stay AttributeErrors,
    because Python's own machinery probes for them."""

    def missing(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        refuse("NKC008", what=f"{module}.{name}", instead=f"dir({module.removeprefix('nki.')}) shows what is.")

    return missing
