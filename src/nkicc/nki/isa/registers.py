"""Registers and scalars, and what the target is."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from nkicc.builder.source import refuse
from nkicc.ir.isa import InstRegisterAlu, InstRegisterLoad, InstRegisterMove, InstRegisterStore
from nkicc.ir.types import AluOp, DType, RegisterName
from nkicc.nki.tensor import Register, ndarray
from nkicc.nki.trace import current

from .arguments import access, insert, integer, refuse_argument, register_of
from .constants import nc_version

__all__ = [
    "NkiScalar",
    "VirtualRegister",
    "get_nc_version",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "scalar_load",
    "scalar_store",
]

VirtualRegister = Register


def register_alloc(x: int | Register | ndarray | None = None) -> Register:
    """A new 32-bit register, holding `x` if given: an integer, another register's value, or the single element of a
    tensor."""
    register = Register(current("nki.isa.register_alloc").codegen.register())
    if isinstance(x, ndarray):
        register_load(register, x)
    elif x is not None:
        register_move(register, x)
    return register


def register_move(
    dst: Register, src: int | Register | None = None, name: str | None = None, *, imm: int | None = None
) -> None:
    """dst = src, which 2.28 called `imm`."""
    given = src if imm is None else imm
    value = given.name if isinstance(given, Register) else integer(given)
    insert(InstRegisterMove(name=name or "", dst=register_of(dst, "dst").register, src=value))


def register_load(dst: Register, src: ndarray, name: str | None = None) -> None:
    """dst = the single element of src, an integer of at most 32 bits in SBUF or HBM."""
    insert(InstRegisterLoad(name=name or "", dst=register_of(dst, "dst").register, src=access(src, "src")))


def register_store(dst: ndarray, src: Register, name: str | None = None) -> None:
    """The single element of dst, an integer in SBUF or HBM, = the low bits of src."""
    insert(InstRegisterStore(name=name or "", dst=access(dst, "dst"), src=register_of(src, "src").name))


class NkiScalar(Register):
    """An integer that the program computes while it runs, int32 or int64. `+`, `-` and `*` with an int or a scalar of
    the same dtype (NKC032) make new ones; what outgrows the width wraps around. Comparisons have no use (NKC110)."""

    __slots__ = ()

    @property
    def dtype(self) -> np.dtype:
        return self.register.dtype.numpy

    def __add__(self, other: Any) -> NkiScalar:
        return self._new(AluOp.add, self.name, self._operand(other))

    def __radd__(self, other: Any) -> NkiScalar:
        return self._new(AluOp.add, self._operand(other), self.name)

    def __sub__(self, other: Any) -> NkiScalar:
        return self._new(AluOp.subtract, self.name, self._operand(other))

    def __rsub__(self, other: Any) -> NkiScalar:
        return self._new(AluOp.subtract, self._operand(other), self.name)

    def __mul__(self, other: Any) -> NkiScalar:
        return self._new(AluOp.mult, self.name, self._operand(other))

    def __rmul__(self, other: Any) -> NkiScalar:
        return self._new(AluOp.mult, self._operand(other), self.name)

    def __neg__(self) -> NkiScalar:
        return self._new(AluOp.subtract, 0, self.name)

    def _new(self, op: AluOp, a: int | RegisterName, b: int | RegisterName) -> NkiScalar:
        result = NkiScalar(current("nki.isa.NkiScalar").codegen.register(dtype=self.register.dtype))
        insert(InstRegisterAlu(dst=result.register, op=op, a=a, b=b))
        return result

    def _operand(self, other: Any) -> int | RegisterName:
        dtype = self.register.dtype
        if isinstance(other, NkiScalar):
            if other.register.dtype is not dtype:
                refuse("NKC032", inst="NkiScalar", left=self.name, left_dtype=dtype.value, right=other.name,
                       right_dtype=other.register.dtype.value)  # fmt: skip
            return other.name
        limits = np.iinfo(dtype.numpy)
        value = index(other) if hasattr(other, "__index__") and not isinstance(other, Register | bool) else None
        if value is None or not limits.min <= value <= limits.max:
            refuse_argument("NkiScalar", "operand", other, f"a scalar or an int of {dtype.value}")
        return value


def scalar_load(src: ndarray) -> NkiScalar:
    """The single element of src, int32 or int64 in SBUF or HBM, as a scalar of that width."""
    source = access(src, "src")
    dtype = DType.of(src.dtype)
    if dtype not in (DType.int32, DType.int64):
        refuse_argument("scalar_load", "dtype of src", dtype.value, "int32, int64")
    result = NkiScalar(current("nki.isa.scalar_load").codegen.register(dtype=dtype))
    insert(InstRegisterLoad(dst=result.register, src=source))
    return result


def scalar_store(dst: ndarray, value: NkiScalar) -> None:
    """The single element of dst = value; the dtypes are equal (NKC032). A constant goes into a tile by `memset`."""
    target = access(dst, "dst")
    if not isinstance(value, NkiScalar):
        refuse_argument("scalar_store", "value", value, "an NkiScalar")
    if dst.dtype != value.dtype:
        refuse("NKC032", inst="scalar_store", left=repr(dst.name), left_dtype=DType.of(dst.dtype).value,
               right=value.name, right_dtype=value.register.dtype.value, operand="value")  # fmt: skip
    insert(InstRegisterStore(dst=target, src=value.name))


def get_nc_version() -> nc_version:
    """The target's NeuronCore generation."""
    return nc_version(current("nki.isa.get_nc_version").target.nc_version)
