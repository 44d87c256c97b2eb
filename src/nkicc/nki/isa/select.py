"""Selection by position or by a predicate."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType

import numpy as np

from nkicc.ir.isa import InstAffineSelect, InstRangeSelect, InstSelectReduce
from nkicc.ir.isa.select import FLOAT32_MIN
from nkicc.nki.language import Op, equal, maximum
from nkicc.nki.tensor import ndarray

from .accumulate import optional_accumulation
from .arguments import access, alu, constant, constant_or_tile, insert, number, refuse_argument
from .constants import reduce_cmd
from .index import affine_pattern, whole

__all__ = ["affine_select", "range_select", "select_reduce"]


def affine_select(
    dst: ndarray,
    pattern: Sequence[Sequence[int]],
    channel_multiplier: int,
    on_true_tile: ndarray,
    on_false_value: float,
    cmp_op: Op = equal,
    offset: int = 0,
    name: str | None = None,
) -> None:
    """dst = on_true_tile where cmp_op(value, 0), else on_false_value, for the value that `iota` generates there."""
    insert(
        InstAffineSelect(
            name=name or "",
            dst=access(dst, "dst"),
            on_true=access(on_true_tile, "on_true_tile"),
            on_false=constant(on_false_value, "on_false_value"),
            pattern=affine_pattern("affine_select", pattern),
            channel_multiplier=whole("affine_select", "channel_multiplier", channel_multiplier),
            cmp=alu(cmp_op, "affine_select"),
            offset=whole("affine_select", "offset", offset),
        )
    )


def range_select(
    dst: ndarray,
    on_true_tile: ndarray,
    comp_op0: Op,
    comp_op1: Op,
    bound0: ndarray,
    bound1: ndarray,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_res: ndarray | None = None,
    reduce_op: Op = maximum,
    range_start: int = 0,
    on_false_value: float | EllipsisType = ...,
    name: str | None = None,
) -> None:
    """dst[p, i] = on_true_tile[p, i] if i + range_start compares with bound0[p] and with bound1[p], else the lowest
    float32, which is the only on_false_value of the device. The accumulator takes the maximum unless idle. trn2."""
    if on_false_value is not ... and np.float32(number(on_false_value, "on_false_value")) != np.float32(FLOAT32_MIN):
        refuse_argument("range_select", "on_false_value", on_false_value, f"the lowest float32, {FLOAT32_MIN}")
    insert(
        InstRangeSelect(
            name=name or "",
            dst=access(dst, "dst"),
            on_true=access(on_true_tile, "on_true_tile"),
            cmp0=alu(comp_op0, "range_select"),
            cmp1=alu(comp_op1, "range_select"),
            bound0=access(bound0, "bound0"),
            bound1=access(bound1, "bound1"),
            range_start=whole("range_select", "range_start", range_start),
            accumulate=optional_accumulation("range_select", reduce_cmd, reduce_op, reduce_res),
        )
    )


def select_reduce(
    dst: ndarray,
    predicate: ndarray,
    on_true: ndarray,
    on_false: float | ndarray,
    reduce_res: ndarray | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_op: Op = maximum,
    reverse_pred: bool = False,
    name: str | None = None,
) -> None:
    """dst = on_true where `predicate` is not 0, else on_false, a number or a (P, 1) tile; with `reverse_pred` the other
    way round. The accumulator takes the maximum unless idle."""
    insert(
        InstSelectReduce(
            name=name or "",
            dst=access(dst, "dst"),
            predicate=access(predicate, "predicate"),
            on_true=access(on_true, "on_true"),
            on_false=constant_or_tile(on_false, "on_false"),
            reverse_pred=bool(reverse_pred),
            accumulate=optional_accumulation("select_reduce", reduce_cmd, reduce_op, reduce_res),
        )
    )
