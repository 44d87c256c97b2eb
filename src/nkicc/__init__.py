"""Build, lower, check and run the collectives of NKI kernels on any number of ranks, without Trainium."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .alias import activate
    from .ir.errors import NkiccError
    from .session import run

__all__ = ["NkiccError", "__version__", "activate", "run"]

__version__ = "0.1.0"

_HOME = {"NkiccError": "nkicc.ir.errors", "activate": "nkicc.alias", "run": "nkicc.session"}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import what is exported when it is first used, so that `import nkicc` costs nothing."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value
