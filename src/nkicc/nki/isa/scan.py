"""Scans: each element depends on the one before it in its partition."""

from __future__ import annotations

from nkicc.ir.isa import InstTensorScalarCumulative, InstTensorTensorScan, ReduceCmd
from nkicc.nki.language import Op
from nkicc.nki.tensor import ndarray

from .accumulate import accumulation, command
from .arguments import access, alu, constant_or_tile, insert
from .constants import reduce_cmd

__all__ = ["tensor_scalar_cumulative", "tensor_tensor_scan"]


def tensor_tensor_scan(
    dst: ndarray,
    data0: ndarray,
    data1: ndarray,
    initial: float | ndarray,
    op0: Op,
    op1: Op,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> None:
    """dst[i] = (data0[i] op0 dst[i - 1]) op1 data1[i] with `initial`, a number or a (P, 1) tile, before the first; the
    sides of an operation are swapped where reversed."""
    insert(
        InstTensorTensorScan(
            name=name or "",
            dst=access(dst, "dst"),
            data0=access(data0, "data0"),
            data1=access(data1, "data1"),
            initial=constant_or_tile(initial, "initial"),
            op0=alu(op0, "tensor_tensor_scan"),
            op1=alu(op1, "tensor_tensor_scan"),
            reverse0=bool(reverse0),
            reverse1=bool(reverse1),
        )
    )


def tensor_scalar_cumulative(
    dst: ndarray,
    src: ndarray,
    op0: Op,
    op1: Op,
    imm0: float | ndarray | None,
    imm1: float | ndarray | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    name: str | None = None,
) -> None:
    """accumulator = dst[i] = (src[i] op0 imm0) op1 accumulator. The accumulator starts with the identity of op1
    (reset_reduce), as it was (reduce) or with imm1 (load_reduce), which nothing else reads."""
    inst = "tensor_scalar_cumulative"
    init = imm1 if command(inst, reduce_cmd) is ReduceCmd.load_reduce else None
    insert(
        InstTensorScalarCumulative(
            name=name or "",
            dst=access(dst, "dst"),
            src=access(src, "src"),
            op0=alu(op0, inst),
            operand0=0 if imm0 is None else constant_or_tile(imm0, "imm0"),
            accumulate=accumulation(inst, reduce_cmd, op1, None, init),
        )
    )
