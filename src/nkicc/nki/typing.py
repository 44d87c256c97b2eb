"""`nki.typing`: names for annotations."""

from __future__ import annotations

from types import GenericAlias

from .missing import refuse_unknown

__all__ = ["mutable_tensor", "tensor"]


class tensor:
    """Annotates an argument that is a tensor. What `tensor[...]` says about it is not checked."""

    __class_getitem__ = classmethod(GenericAlias)


class mutable_tensor(tensor):
    """Annotates a tensor that the kernel writes to; it may write to any of its arguments."""


__getattr__ = refuse_unknown("nki.typing")
