"""Reductions along the free dimensions and across partitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nkicc.builder.source import refuse
from nkicc.ir.isa import InstTensorPartitionReduce, InstTensorReduce, InstTensorScalarReduce
from nkicc.nki.language import Op
from nkicc.nki.tensor import ndarray

from .accumulate import accumulation
from .arguments import access, alu, constant_or_tile, insert, refuse_argument
from .constants import reduce_cmd

__all__ = ["tensor_partition_reduce", "tensor_reduce", "tensor_scalar_reduce"]


def tensor_reduce(
    dst: ndarray,
    op: Op,
    data: ndarray,
    axis: int | Sequence[int],
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> None:
    """dst = fold of `data` over its last free axes, times -1 if `negate`. `axis` names exactly those, never 0. `dst`
    may keep them with extent 1 or not, whatever `keepdims` says, since only element counts matter."""
    source = access(data, "data")
    rank = len(source.pattern)
    given = [axis] if isinstance(axis, int | np.integer) else list(axis)
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
            negate=bool(negate),
        )
    )


def tensor_partition_reduce(dst: ndarray, op: Op, data: ndarray, name: str | None = None) -> None:
    """dst[0] = fold of `data` over its partitions, with add, average, maximum, bitwise_or or bitwise_and."""
    insert(
        InstTensorPartitionReduce(
            name=name or "",
            dst=access(dst, "dst"),
            data=access(data, "data"),
            op=alu(op, "tensor_partition_reduce"),
        )
    )


def tensor_scalar_reduce(
    dst: ndarray,
    data: ndarray,
    op0: Op,
    operand0: float | ndarray | None,
    reduce_op: Op,
    reduce_res: ndarray | None = None,
    reverse0: bool = False,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_init: float | ndarray | None = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
) -> None:
    """dst = data op0 operand0, folded with `reduce_op` over all free dimensions into the accumulator and from there
    into `reduce_res`. `reverse0` is not supported by any release (NKC008)."""
    if reverse0:
        refuse(
            "NKC008",
            what="reverse0 of nki.isa.tensor_scalar_reduce",
            instead="The device has it neither: use tensor_scalar, then tensor_reduce.",
            operand="reverse0",
        )
    inst = "tensor_scalar_reduce"
    insert(
        InstTensorScalarReduce(
            name=name or "",
            dst=access(dst, "dst"),
            data=access(data, "data"),
            op0=alu(op0, inst),
            operand0=0 if operand0 is None else constant_or_tile(operand0, "operand0"),
            accumulate=accumulation(inst, reduce_cmd, reduce_op, reduce_res, reduce_init, reduce_res_negate),
        )
    )
