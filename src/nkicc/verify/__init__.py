"""Whole-program checks, one module per kind of fault."""

from nkicc.ir.program import Module

from .capacity import check_capacity

__all__ = ["check_capacity", "verify"]


def verify(module: Module) -> None:
    """Structure, every instruction by itself, and the capacity of the on-chip memories. Raises NkiccError."""
    module.verify()
    check_capacity(module)
