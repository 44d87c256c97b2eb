"""The vector engine."""

from __future__ import annotations

from collections.abc import Sequence

from nkicc.ir.isa import InstTensorReduce, InstTensorScalar, InstTensorTensor
from nkicc.nki.language import Op
from nkicc.nki.tensor import ndarray

from .arguments import access, alu, engine_of, insert, number_or_tile, refuse_argument
from .constants import engine

__all__ = ["tensor_reduce", "tensor_scalar", "tensor_tensor"]


def tensor_tensor(
    dst: ndarray, data1: ndarray, data2: ndarray, op: Op, engine: engine = engine.unknown, name: str | None = None
) -> None:
    """dst = data1 op data2, element by element."""
    insert(
        InstTensorTensor(
            name=name or "",
            dst=access(dst, "dst"),
            data1=access(data1, "data1"),
            data2=access(data2, "data2"),
            op=alu(op, "tensor_tensor"),
            engine=engine_of(engine),
        )
    )


def tensor_scalar(
    dst: ndarray,
    data: ndarray,
    op0: Op,
    operand0: float | ndarray | None,
    reverse0: bool = False,
    op1: Op | None = None,
    operand1: float | ndarray | None = None,
    reverse1: bool = False,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> None:
    """t = data op0 operand0; dst = t op1 operand1, sides swapped where reversed. An operand is a number or a (P, 1)
    tile; a unary op0 takes None."""
    insert(
        InstTensorScalar(
            name=name or "",
            dst=access(dst, "dst"),
            data=access(data, "data"),
            op0=alu(op0, "tensor_scalar"),
            operand0=0 if operand0 is None else number_or_tile(operand0, "operand0"),
            reverse0=reverse0,
            op1=None if op1 is None else alu(op1, "tensor_scalar"),
            operand1=None if operand1 is None else number_or_tile(operand1, "operand1"),
            reverse1=reverse1,
            engine=engine_of(engine),
        )
    )


def tensor_reduce(
    dst: ndarray,
    op: Op,
    data: ndarray,
    axis: int | Sequence[int],
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> None:
    """dst = fold of `data` over its last free axes, times -1 if `negate`. `axis` names exactly those, never 0."""
    source = access(data, "data")
    rank = len(source.pattern)
    given = [axis] if isinstance(axis, int) else list(axis)
    axes = sorted(a + rank if a < 0 else a for a in given)
    if not axes or axes != list(range(rank - len(axes), rank)) or axes[0] < 1:
        refuse_argument("tensor_reduce", "axis", axis, f"the last free axes of {rank} dimension(s)")
    insert(
        InstTensorReduce(
            name=name or "",
            dst=access(dst, "dst"),
            data=source,
            op=alu(op, "tensor_reduce"),
            axes=len(axes),
            negate=negate,
        )
    )
