"""`nki.typing`: names for annotations."""

from __future__ import annotations

from .missing import refuse_unknown
from .tensor import ndarray

__all__ = ["mutable_tensor", "tensor"]

tensor = ndarray
#: A tensor that the kernel writes to; it may write to any of its arguments.
mutable_tensor = ndarray

__getattr__ = refuse_unknown("nki.typing")
