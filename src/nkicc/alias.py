"""`nkicc.activate()`: let `import nki` mean nkicc's front door."""

from __future__ import annotations

import importlib.util
import sys

from nkicc.ir.errors import fail

__all__ = ["activate"]

_OURS = "nkicc.nki"


def activate(replace: bool = False) -> None:
    """Make `nki` and its modules importable, backed by nkicc. Calling it again changes nothing.

    The older name `neuronxcc.nki` becomes importable too, for what means the same there, unless a `neuronxcc` is
    installed.

    NKC016 if another `nki` is installed, unless `replace` asks to shadow it in this process.
    """
    ours = importlib.import_module(_OURS)
    importlib.import_module("nkicc.eager")  # kernels can be called
    legacy = importlib.import_module(f"{_OURS}.legacy").modules
    if sys.modules.get("nki") is ours:
        return
    foreign = [name for name in sys.modules if name == "nki" or name.startswith("nki.")]
    if not replace and _is_installed("nki"):
        fail("NKC016", name="nki")
    for name in foreign:
        del sys.modules[name]
    # All of them: a module of ours that is left out would be imported a second time under the other name.
    for name, module in list(sys.modules.items()):
        if name == _OURS or name.startswith(f"{_OURS}."):
            sys.modules[name.removeprefix("nkicc.")] = module
    if replace or not _is_installed("neuronxcc"):
        for name in [name for name in sys.modules if name.partition(".")[0] == "neuronxcc"]:
            del sys.modules[name]
        sys.modules.update(legacy(ours))


def _is_installed(name: str) -> bool:
    return name in sys.modules or importlib.util.find_spec(name) is not None
