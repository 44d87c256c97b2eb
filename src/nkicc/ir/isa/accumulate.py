"""The accumulators: one float32 per partition, in the vector and in the scalar engine.

Instructions fold their results into the accumulator of their engine, which keeps its value for the next one; no tensor
names it. Source: NKI documentation, `nki.isa.reduce_cmd` and the instructions that take one.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from ..access import AccessPattern
from ..base import Inst, Scope
from ..types import AluOp, DType
from .alu import check_op
from .common import AnyNumber, Operands, check_per_partition, refuse_option, tiles_of

__all__ = ["Accumulate", "ReduceCmd"]


class ReduceCmd(str, Enum):
    """What happens to the accumulator before the results of the instruction are folded into it, if they are."""

    idle = "idle"
    reset = "reset"
    reduce = "reduce"
    reset_reduce = "reset_reduce"
    load_reduce = "load_reduce"


class Accumulate(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An instruction's use of the accumulator of its engine, over all free dimensions:

        reset            accumulator = identity of op
        reset_reduce     accumulator = fold(results)
        reduce           accumulator = accumulator op fold(results)
        load_reduce      accumulator = init op fold(results)

    Results enter in float32, before the cast to `dst`. `result` is a (P, 1) tile that then receives the accumulator,
    negated if `negate`, which leaves the accumulator as it is.
    """

    cmd: ReduceCmd
    op: AluOp = AluOp.add
    init: AnyNumber | AccessPattern | None = None
    result: AccessPattern | None = None
    negate: bool = False

    def reads(self) -> Operands:
        return tiles_of(self.init)

    def writes(self) -> Operands:
        return tiles_of(self.result)

    def verify(
        self, inst: Inst, scope: Scope, partitions: int, ops: frozenset[AluOp], cmds: frozenset[ReduceCmd]
    ) -> None:
        """NKC035 for an operation or command that the instruction does not have and for an `init` of no use or
        missing; NKC033 for tiles that are not (P, 1)."""
        check_op(inst, self.op, ops, "reduce_op")
        if self.cmd not in cmds:
            refuse_option(inst, "reduce_cmd", self.cmd.value, ", ".join(cmd.value for cmd in ReduceCmd if cmd in cmds))
        if (self.init is not None) != (self.cmd is ReduceCmd.load_reduce):
            refuse_option(
                inst,
                f"the initial value with reduce_cmd.{self.cmd.value}",
                None if self.init is None else "given",
                "a value with load_reduce, None with every other",
            )
        check_per_partition(inst, scope, self.init, "reduce_init", partitions, frozenset({DType.float32}))
        check_per_partition(inst, scope, self.result, "reduce_res", partitions)
