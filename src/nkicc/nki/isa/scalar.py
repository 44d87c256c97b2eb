"""The scalar engine: activation functions."""

from __future__ import annotations

from typing import Any

from nkicc.builder.source import refuse
from nkicc.ir.isa import Accumulate, InstActivate2, InstActivation, ReduceCmd
from nkicc.ir.types import ActFn
from nkicc.nki.language import Op
from nkicc.nki.tensor import ndarray

from .accumulate import accumulation, command
from .arguments import access, alu, constant_or_tile, insert, refuse_argument
from .constants import reduce_cmd

__all__ = ["activate2", "activation", "activation_reduce"]


def activation(
    dst: ndarray,
    op: Op,
    data: ndarray,
    bias: float | ndarray | None = None,
    scale: float | ndarray = 1.0,
    reduce_op: Op | None = None,
    reduce_res: ndarray | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    name: str | None = None,
) -> None:
    """dst = cast(f(data · scale + bias)), scale and bias numbers or (P, 1) tiles. `reduce_cmd` says what becomes of the
    accumulator, which adds up (`reduce_op` is nl.add); `reduce_res` receives it."""
    insert(
        InstActivation(
            name=name or "",
            dst=access(dst, "dst"),
            data=access(data, "data"),
            func=_function(op),
            bias=0.0 if bias is None else constant_or_tile(bias, "bias"),
            scale=constant_or_tile(scale, "scale"),
            accumulate=_accumulation("activation", reduce_cmd, reduce_op, reduce_res),
        )
    )


def activation_reduce(
    dst: ndarray,
    op: Op,
    data: ndarray,
    reduce_op: Op,
    reduce_res: ndarray | None,
    bias: float | ndarray | None = None,
    scale: float | ndarray = 1.0,
    name: str | None = None,
) -> None:
    """`activation` whose results are added up into `reduce_res`, from 0 on."""
    activation(dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd.reset_reduce, name)


def activate2(
    dst: ndarray,
    op: Op,
    data: ndarray,
    imm0: float | ndarray,
    imm1: float | ndarray,
    op0: Op,
    op1: Op,
    relu_param: float | ndarray = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Op | None = None,
    reduce_res: ndarray | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    name: str | None = None,
) -> None:
    """dst = cast(f((data op0 imm0) op1 imm1)), sides swapped where reversed; `relu_param` is the slope of nl.prelu for
    negative inputs. trn3."""
    insert(
        InstActivate2(
            name=name or "",
            dst=access(dst, "dst"),
            data=access(data, "data"),
            func=_function(op),
            op0=alu(op0, "activate2"),
            operand0=constant_or_tile(imm0, "imm0"),
            op1=alu(op1, "activate2"),
            operand1=constant_or_tile(imm1, "imm1"),
            reverse0=bool(reverse0),
            reverse1=bool(reverse1),
            slope=constant_or_tile(relu_param, "relu_param"),
            accumulate=_accumulation("activate2", reduce_cmd, reduce_op, reduce_res),
        )
    )


def _function(op: Any) -> ActFn:
    if not isinstance(op, Op) or op.act is None:
        function = op.name if isinstance(op, Op) else op
        refuse("NKC008", what=f"activation function {function!r}", instead="Compose it of those in nki.language.")
    return op.act


def _accumulation(inst: str, cmd: Any, op: Any, result: Any) -> Accumulate | None:
    """What the scalar engine does with its accumulator. Idle leaves it alone, and can still read it out."""
    what = command(inst, cmd)
    if op is None and what in (ReduceCmd.reduce, ReduceCmd.reset_reduce):
        refuse_argument(inst, "reduce_op", None, f"an operation with reduce_cmd.{what.value}")
    if what is ReduceCmd.idle and result is None:
        return None
    return accumulation(inst, cmd, op, result)
