"""The vector engine: element-wise arithmetic."""

from __future__ import annotations

from types import EllipsisType

from nkicc.ir.isa import (
    InstExponential,
    InstReciprocal,
    InstScalarTensorTensor,
    InstTensorScalar,
    InstTensorTensor,
    ReduceCmd,
)
from nkicc.nki.language import Op, add
from nkicc.nki.tensor import ndarray

from .accumulate import accumulation, command, optional_accumulation
from .arguments import access, alu, constant_or_tile, engine_of, insert, refuse_argument
from .constants import engine, reduce_cmd

__all__ = ["exponential", "reciprocal", "scalar_tensor_tensor", "tensor_scalar", "tensor_tensor"]


def tensor_tensor(
    dst: ndarray, data1: ndarray, data2: ndarray, op: Op, engine: engine = engine.unknown, name: str | None = None
) -> None:
    """dst = data1 op data2, element by element. 32-bit integers in SBUF are computed exactly and wrap around, unless
    `engine` is the vector engine, which computes in float32."""
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
    tile; a unary op takes None or 0."""
    insert(
        InstTensorScalar(
            name=name or "",
            dst=access(dst, "dst"),
            data=access(data, "data"),
            op0=alu(op0, "tensor_scalar"),
            operand0=0 if operand0 is None else constant_or_tile(operand0, "operand0"),
            reverse0=bool(reverse0),
            op1=None if op1 is None else alu(op1, "tensor_scalar"),
            operand1=None if operand1 is None else constant_or_tile(operand1, "operand1"),
            reverse1=bool(reverse1),
            engine=engine_of(engine),
        )
    )


def scalar_tensor_tensor(
    dst: ndarray,
    data: ndarray,
    op0: Op,
    operand0: float | ndarray,
    op1: Op,
    operand1: ndarray,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_op: Op | EllipsisType | None = ...,
    reduce_res: ndarray | None = None,
    name: str | None = None,
) -> None:
    """dst = (data op0 operand0) op1 operand1, sides swapped where reversed; operand0 is a number or a (P, 1) tile,
    operand1 a tile like `data`. With a `reduce_op` the results are folded into the accumulator."""
    folds = reduce_op is not None and reduce_op is not ...
    if not folds and reduce_res is not None:
        refuse_argument("scalar_tensor_tensor", "reduce_op", None, "an operation with a reduce_res")
    inst = "scalar_tensor_tensor"
    insert(
        InstScalarTensorTensor(
            name=name or "",
            dst=access(dst, "dst"),
            data=access(data, "data"),
            op0=alu(op0, inst),
            operand0=constant_or_tile(operand0, "operand0"),
            op1=alu(op1, inst),
            operand1=access(operand1, "operand1"),
            reverse0=bool(reverse0),
            reverse1=bool(reverse1),
            accumulate=accumulation(inst, reduce_cmd, reduce_op, reduce_res) if folds else None,
        )
    )


def reciprocal(dst: ndarray, data: ndarray, name: str | None = None) -> None:
    """dst = 1 / data."""
    insert(InstReciprocal(name=name or "", dst=access(dst, "dst"), data=access(data, "data")))


def exponential(
    dst: ndarray,
    src: ndarray,
    max_value: float | ndarray = 0.0,
    reduce_res: ndarray | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_init: float | ndarray = 0.0,
    name: str | None = None,
) -> None:
    """dst = exp(src - max_value), max_value a number or a (P, 1) tile; trn3. The accumulator sums unless idle."""
    given = isinstance(reduce_init, ndarray) or reduce_init != 0.0
    loads = command("exponential", reduce_cmd) is ReduceCmd.load_reduce
    init = reduce_init if loads or given else None
    insert(
        InstExponential(
            name=name or "",
            dst=access(dst, "dst"),
            src=access(src, "src"),
            max_value=constant_or_tile(max_value, "max_value"),
            accumulate=optional_accumulation("exponential", reduce_cmd, add, reduce_res, init),
        )
    )
