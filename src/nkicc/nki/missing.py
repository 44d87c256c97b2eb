"""What a module of the front door says about names that it does not have."""

from __future__ import annotations

import sys
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from nkicc.builder.source import refuse

from .names import INSTEAD, PUBLIC, REMOVED

__all__ = ["refuse_unknown"]


def refuse_unknown(module: str) -> Callable[[str], Any]:
    """A module `__getattr__` that refuses names with the line that asks: NKC008 for one that a release of NKI has,
    NKC112 for one that none has. Private names stay AttributeErrors, because Python's own machinery probes for
    them."""

    def missing(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        full = f"{module}.{name}"
        if full in REMOVED:
            refuse("NKC008", what=full, instead=REMOVED[full])
        if name in PUBLIC.get(module, ()):
            refuse("NKC008", what=full, instead=INSTEAD.get(full, "docs/api.md lists what is."))
        known = getattr(sys.modules.get(f"nkicc.{module}"), "__all__", ())
        close = get_close_matches(name, {*known, *PUBLIC.get(module, ())}, 1)
        instead = f"Did you mean {module}.{close[0]}?" if close else f"dir({module}) shows what there is."
        refuse("NKC112", what=full, instead=instead)

    return missing
