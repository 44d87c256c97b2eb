"""How arguments of nki.isa calls become operands of instructions."""

from __future__ import annotations

from math import isfinite
from typing import Any, Never

import msgspec
import numpy as np

from nkicc.builder.source import refuse
from nkicc.ir.access import AccessPattern
from nkicc.ir.isa.common import AnyNumber, NonFinite
from nkicc.ir.program import Instruction
from nkicc.ir.types import AluOp, Engine
from nkicc.nki.language import Op
from nkicc.nki.tensor import Register, ndarray
from nkicc.nki.trace import current

from .constants import engine, oob_mode

__all__ = [
    "access",
    "alu",
    "bounded",
    "constant",
    "constant_or_tile",
    "engine_of",
    "insert",
    "integer",
    "number",
    "number_or_tile",
    "refuse_argument",
    "register_of",
]

_ENGINES = {
    engine.unknown: Engine.unassigned,
    engine.tensor: Engine.pe,
    engine.scalar: Engine.activation,
    engine.gpsimd: Engine.pool,
    engine.dma: Engine.dma,
    engine.vector: Engine.dve,
    engine.sync: Engine.sp,
}


def insert(inst: Instruction) -> None:
    current("nki.isa").codegen.insert(inst)


def access(value: Any, operand: str) -> AccessPattern:
    if type(value) is not ndarray:
        refuse_argument("nki.isa", operand, type(value).__name__, "a tensor")
    return value.__access__()


def bounded(value: Any, operand: str, mode: oob_mode) -> AccessPattern:
    """A DMA operand: a dynamic one skips the rows out of bounds if the mode says so."""
    found = access(value, operand)
    if mode is oob_mode.skip and found.is_dynamic:
        return msgspec.structs.replace(found, skip_oob=True)
    return found


def number(value: Any, operand: str) -> int | float:
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, int | float):
        refuse_argument("nki.isa", operand, value, "a number")
    return value


def constant(value: Any, operand: str) -> AnyNumber:
    """A number, also an infinite one."""
    found = number(value, operand)
    if isinstance(found, float) and not isfinite(found):
        return NonFinite(str(found))
    return int(found) if isinstance(found, bool) else found


def constant_or_tile(value: Any, operand: str) -> AnyNumber | AccessPattern:
    return value.__access__() if type(value) is ndarray else constant(value, operand)


def number_or_tile(value: Any, operand: str) -> int | float | AccessPattern:
    return value.__access__() if type(value) is ndarray else number(value, operand)


def integer(value: Any) -> int:
    found = number(value, "src")
    if not isinstance(found, int):
        refuse_argument("register_move", "src", value, "an integer or a register")
    return found


def register_of(value: Any, operand: str) -> Register:
    if not isinstance(value, Register):
        refuse_argument("nki.isa", operand, value, "a register")
    return value


def alu(op: Any, inst: str) -> AluOp:
    if not isinstance(op, Op) or op.alu is None:
        refuse_argument(
            inst, "op", op.name if isinstance(op, Op) else op, "an op of nki.language with an ALU operation"
        )
    return op.alu


def engine_of(value: Any) -> Engine:
    try:
        return _ENGINES[value]
    except (KeyError, TypeError):
        refuse_argument("nki.isa", "engine", value, "a member of nki.isa.engine")


def refuse_argument(inst: str, what: str, found: object, permitted: str) -> Never:
    refuse("NKC035", inst=inst, what=what, found=found, permitted=permitted, operand=what)
