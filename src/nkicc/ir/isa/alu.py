"""What the ALU operations are: on bits or numbers, of one operand or two, and which of them fold.

Source: NKI documentation, "Supported Math Operators for NKI ISA".
"""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope
from ..errors import fail
from ..types import AluOp
from .common import refuse_option

__all__ = ["ACCUMULATIONS", "BITVEC", "COMPARISONS", "REDUCTIONS", "UNARY", "check_arithmetic", "check_op", "check_ops"]

#: On raw bits of integers, without conversion.
BITVEC = frozenset(
    {
        AluOp.bitwise_and,
        AluOp.bitwise_or,
        AluOp.bitwise_xor,
        AluOp.bitwise_not,
        AluOp.logical_shift_left,
        AluOp.logical_shift_right,
        AluOp.arith_shift_left,
        AluOp.arith_shift_right,
    }
)
#: Those that have no second operand.
UNARY = frozenset({AluOp.bitwise_not, AluOp.abs, AluOp.square, AluOp.relu, AluOp.rsqrt, AluOp.reciprocal})
#: What a reduction may fold with.
REDUCTIONS = frozenset(
    {
        AluOp.add,
        AluOp.subtract,
        AluOp.mult,
        AluOp.max,
        AluOp.min,
        AluOp.logical_and,
        AluOp.logical_or,
        AluOp.logical_xor,
        AluOp.bitwise_and,
        AluOp.bitwise_or,
        AluOp.bitwise_xor,
    }
)
#: What the accumulator of the vector engine may fold with.
ACCUMULATIONS = frozenset({AluOp.add, AluOp.mult, AluOp.max, AluOp.min})
COMPARISONS = frozenset({AluOp.is_equal, AluOp.not_equal, AluOp.is_gt, AluOp.is_ge, AluOp.is_lt, AluOp.is_le})

_FROM_TRN3 = frozenset({AluOp.abs_max, AluOp.abs_min, AluOp.square, AluOp.relu})
#: All that have a rule below; the others are arithmetic that every target has.
_RESTRICTED = BITVEC | _FROM_TRN3 | {AluOp.average}


def check_op(inst: Inst, op: AluOp, permitted: frozenset[AluOp], what: str = "op") -> None:
    """NKC035 unless `op` is one of `permitted`."""
    if op not in permitted:
        refuse_option(inst, what, op.value, ", ".join(sorted(p.value for p in permitted)))


def check_ops(inst: Inst, scope: Scope, ops: tuple[AluOp, ...], tiles: tuple[AccessPattern, ...]) -> None:
    """Operations of one instruction, in a row: bit operations on integer tiles only and never among arithmetic ones
    (NKC035), none that the target lacks (BIR530) and no average, which is not an operation of lanes (NKC035)."""
    if _RESTRICTED.isdisjoint(ops):
        return
    for op in ops:
        if op in _FROM_TRN3 and scope.target.arch < 40:
            fail("BIR530", opcode=f"{inst.label} with {op.value}", arch=scope.target.arch, min_arch=40, loc=inst.loc)
        if op is AluOp.average:
            refuse_option(inst, "op", op.value, "every operation but this one, which folds partitions")
    bits = [op in BITVEC for op in ops if op is not AluOp.bypass]
    if any(bits) and (not all(bits) or any(scope.dtype(tile).is_float for tile in tiles)):
        refuse_option(
            inst,
            "op",
            "/".join(op.value for op in ops),
            "bit operations on integers only, and never mixed with arithmetic ones",
        )


def check_arithmetic(inst: Inst, scope: Scope, ops: tuple[AluOp, ...]) -> None:
    """`check_ops` for an instruction that has no bit operations (NKC035)."""
    if _RESTRICTED.isdisjoint(ops):
        return
    for op in ops:
        if op in BITVEC:
            refuse_option(inst, "op", op.value, "arithmetic operations; this instruction has none on bits")
    check_ops(inst, scope, ops, ())
