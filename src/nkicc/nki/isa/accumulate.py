"""How `reduce_op`, `reduce_cmd`, `reduce_res` and `reduce_init` become an instruction's use of its accumulator."""

from __future__ import annotations

from typing import Any

from nkicc.ir.isa import Accumulate, ReduceCmd
from nkicc.ir.types import AluOp

from .arguments import access, alu, constant_or_tile, refuse_argument
from .constants import reduce_cmd

__all__ = ["accumulation", "command", "optional_accumulation"]


def accumulation(inst: str, cmd: Any, op: Any, result: Any, init: Any = None, negate: bool = False) -> Accumulate:
    """NKC035 for arguments of other types; what the instruction permits is its own to check."""
    return Accumulate(
        cmd=command(inst, cmd),
        op=AluOp.add if op is None else alu(op, inst),
        init=None if init is None else constant_or_tile(init, "reduce_init"),
        result=None if result is None else access(result, "reduce_res"),
        negate=bool(negate),
    )


def optional_accumulation(inst: str, cmd: Any, op: Any, result: Any, init: Any = None) -> Accumulate | None:
    """None for idle, which has no result to write: what the accumulator holds then is undefined (NKC035)."""
    if command(inst, cmd) is not ReduceCmd.idle:
        return accumulation(inst, cmd, op, result, init)
    if result is not None:
        refuse_argument(inst, "reduce_cmd", "idle", "reset_reduce or reduce with a reduce_res")
    if init is not None:
        refuse_argument(inst, "reduce_init", init, "0.0 unless reduce_cmd is load_reduce")
    return None


def command(inst: str, cmd: Any) -> ReduceCmd:
    if not isinstance(cmd, reduce_cmd):
        refuse_argument(inst, "reduce_cmd", cmd, "a member of nki.isa.reduce_cmd")
    return ReduceCmd[cmd.name]
