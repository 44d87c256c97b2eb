"""The scalar engine."""

from __future__ import annotations

from nkicc.builder.source import refuse
from nkicc.ir.isa import InstActivation
from nkicc.nki.language import Op
from nkicc.nki.tensor import ndarray

from . import constants
from .arguments import access, insert, number_or_tile
from .constants import reduce_cmd

__all__ = ["activation"]


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
    """dst = cast(f(data · scale + bias)) in float32. The accumulator (`reduce_*`) is not implemented (NKC008)."""
    if reduce_op is not None or reduce_res is not None or reduce_cmd is not constants.reduce_cmd.idle:
        refuse("NKC008", what="the accumulator of nki.isa.activation", instead="Use nki.isa.tensor_reduce after it.")
    if not isinstance(op, Op) or op.act is None:
        function = op.name if isinstance(op, Op) else op
        refuse("NKC008", what=f"activation function {function!r}", instead="Compose it of those in nki.language.")
    insert(
        InstActivation(
            name=name or "",
            dst=access(dst, "dst"),
            data=access(data, "data"),
            func=op.act,
            bias=0.0 if bias is None else number_or_tile(bias, "bias"),
            scale=number_or_tile(scale, "scale"),
        )
    )
