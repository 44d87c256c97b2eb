"""Registers, and what the target is."""

from __future__ import annotations

from nkicc.ir.isa import InstRegisterLoad, InstRegisterMove, InstRegisterStore
from nkicc.nki.tensor import Register, ndarray
from nkicc.nki.trace import current

from .arguments import access, insert, integer, register_of
from .constants import nc_version

__all__ = ["get_nc_version", "register_alloc", "register_load", "register_move", "register_store"]


def register_alloc(x: int | None = None) -> Register:
    """A new register, holding `x` if given."""
    register = Register(current("nki.isa.register_alloc").codegen.register())
    if x is not None:
        register_move(register, x)
    return register


def register_move(dst: Register, src: int | Register, name: str | None = None) -> None:
    """dst = src."""
    value = src.name if isinstance(src, Register) else integer(src)
    insert(InstRegisterMove(name=name or "", dst=register_of(dst, "dst").register, src=value))


def register_load(dst: Register, src: ndarray, name: str | None = None) -> None:
    """dst = the single element of src."""
    insert(InstRegisterLoad(name=name or "", dst=register_of(dst, "dst").register, src=access(src, "src")))


def register_store(dst: ndarray, src: Register, name: str | None = None) -> None:
    """The single element of dst = src."""
    insert(InstRegisterStore(name=name or "", dst=access(dst, "dst"), src=register_of(src, "src").name))


def get_nc_version() -> nc_version:
    """The target's NeuronCore generation."""
    return nc_version(current("nki.isa.get_nc_version").target.nc_version)
