"""What every rule builds on: the registry, the context of a core, how operands enter the ALU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from nkicc.ir.access import AccessPattern
from nkicc.ir.base import Inst
from nkicc.ir.errors import fail
from nkicc.ir.isa.alu import BITVEC
from nkicc.ir.types import AluOp, Engine, Memory

from ..memory import AnyView, Lanes
from ..numerics import alu, is_integer, to_compute
from ..rings import Rings

__all__ = ["RULES", "Array", "Context", "Step", "entry", "function_of", "reducer", "rule", "scalar_reader"]

Array = np.ndarray
Step = Callable[[], None]
Binary = Callable[[Array, Array], Array]
Entry = Callable[[Array], Array]
Number = int | float | AccessPattern | None


class Context(Protocol):
    """What a rule may use of the core it compiles for."""

    #: Register values: int64 of shape (1,) or (ranks,).
    registers: dict[str, Array]
    #: Global rank of each row, shape (ranks,).
    ranks: Array
    #: Takes what a kernel prints.
    printed: list[str]
    #: Physical core of the rank.
    index: int
    lanes: Lanes
    rings: Rings
    #: State of each engine's random generators: uint32 (1 or ranks, lanes, words).
    generators: dict[Engine, Array]
    #: Accumulator of each engine: float32 (1 or ranks, partitions).
    accumulators: dict[Engine, Array]

    def view(self, ap: AccessPattern, inst: Inst) -> AnyView: ...

    def memory(self, ap: AccessPattern) -> Memory: ...

    def register(self, name: str, inst: Inst) -> Array: ...


Rule = Callable[..., Step]
RULES: dict[type[Inst], Rule] = {}


def rule(kind: type[Inst]) -> Callable[[Rule], Rule]:
    """Register the rule of an instruction class; one rule per class."""

    def register(function: Rule) -> Rule:
        if kind in RULES:
            raise ValueError(f"{kind.__name__} has two rules")
        RULES[kind] = function
        return function

    return register


def reducer(op: AluOp, integer: bool) -> Binary:
    """The two-operand fold of a reduce op. Floating max and min ignore a NaN operand, as fmaxf and fminf do."""
    if op is AluOp.max:
        return np.maximum if integer else np.fmax
    if op is AluOp.min:
        return np.minimum if integer else np.fmin
    return np.add


def function_of(inst: Inst, op: AluOp) -> Binary:
    function = alu(op)
    if function is None:
        fail("NKC053", op=op.value, inst=inst.label, operand="op", loc=inst.loc)
    return function


def entry(inst: Inst, ops: tuple[AluOp, ...], views: tuple[AnyView, ...], *, exact: bool = True) -> Entry:
    """How operand values enter the ALU: raw bits for bit operations, 64-bit integers if all views are of 32-bit
    integers and the engine is `exact` with them, float32 otherwise."""
    if any(op in BITVEC for op in ops):
        return lambda value: value
    if exact and all(is_integer(view.dtype) and view.dtype.itemsize == 4 for view in views):
        return lambda value: value.astype(np.int64)
    return to_compute


def scalar_reader(inst: Inst, operand: object, ctx: Context, ndim: int) -> Callable[[], Array]:
    """Reads a constant or a (P, 1) tile as something that broadcasts against (rows, P, free…)."""
    if isinstance(operand, AccessPattern):
        view = ctx.view(operand, inst)

        def read() -> Array:
            value = view.read()
            return value.reshape(value.shape[0], -1, *[1] * (ndim - 2))

        return read
    number = 0 if operand is None else float(operand) if isinstance(operand, str) else operand
    constant = np.asarray(number)
    return lambda: constant
