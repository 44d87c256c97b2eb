"""Whole-program checks, one module per kind of fault."""

from nkicc.ir.errors import NkiccError
from nkicc.ir.findings import Finding
from nkicc.ir.program import Module

from .capacity import check_capacity

__all__ = ["check", "check_capacity", "verify"]


def verify(module: Module) -> None:
    """Structure, every instruction by itself, and the capacity of the on-chip memories. Raises NkiccError."""
    module.verify()
    check_capacity(module)


def check(module: Module, *, sdk: str = "2.33", strict: bool = False, allow_io: bool = False) -> list[Finding]:
    """What `verify` refuses, as findings."""
    try:
        verify(module)
    except NkiccError as error:
        return [Finding.of(error)]
    return []
