"""`nki.typing`: names for annotations."""

from __future__ import annotations

from .missing import refuse_unknown
from .tensor import ndarray

__all__ = ["tensor"]

tensor = ndarray

__getattr__ = refuse_unknown("nki.typing")
