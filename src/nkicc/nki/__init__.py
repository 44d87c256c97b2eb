"""The front door: what a kernel imports as `nki` once `nkicc.activate()` has been called."""

from __future__ import annotations

from . import collectives, compiler, distributed, dtype, isa, language, nccl, typing
from .kernel import Kernel, baremetal, benchmark, jit, simulate
from .missing import refuse_unknown

__all__ = [
    "Kernel",
    "__version__",
    "baremetal",
    "benchmark",
    "collectives",
    "compiler",
    "distributed",
    "dtype",
    "isa",
    "jit",
    "language",
    "nccl",
    "simulate",
    "typing",
]

#: The NKI release whose signatures this follows; those of earlier and later ones are accepted where they differ.
__version__ = "0.6.0"

__getattr__ = refuse_unknown("nki")


def __dir__() -> list[str]:
    return __all__
