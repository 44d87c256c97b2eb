"""The accumulators of the vector and the scalar engine: one float32 per partition, (rows, P)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nkicc.ir.base import Inst
from nkicc.ir.errors import fail
from nkicc.ir.isa.accumulate import Accumulate, ReduceCmd
from nkicc.ir.types import AluOp, Engine

from ..numerics import to_compute
from .common import Array, Binary, Context, function_of, scalar_reader

__all__ = ["accumulate", "forget", "hold", "starter", "writer"]

_IDENTITY = {
    AluOp.add: 0.0,
    AluOp.subtract: 0.0,
    AluOp.mult: 1.0,
    AluOp.max: -np.inf,
    AluOp.min: np.inf,
    AluOp.abs_max: 0.0,
    AluOp.abs_min: np.inf,
}


def accumulate(inst: Inst, use: Accumulate, ctx: Context, engine: Engine, partitions: int) -> Callable[[Array], None]:
    """What to call with the float32 results of the instruction, (rows, P, free…)."""
    function = function_of(inst, use.op)
    start, write = starter(inst, use, ctx, engine, partitions), writer(inst, use, ctx)
    folds = use.cmd not in (ReduceCmd.idle, ReduceCmd.reset)

    def run(value: Array) -> None:
        total = start()
        if folds:
            total = function(total, _fold(function, use.op, value.reshape(value.shape[0], partitions, -1)))
        hold(ctx, engine, total)
        write(total)

    return run


def _fold(function: Binary, op: AluOp, lanes: Array) -> Array:
    if op is AluOp.abs_max:
        return np.abs(lanes).max(axis=-1)
    if op is AluOp.abs_min:
        return np.abs(lanes).min(axis=-1)
    assert isinstance(function, np.ufunc)
    return function.reduce(lanes, axis=-1)


def starter(inst: Inst, use: Accumulate, ctx: Context, engine: Engine, partitions: int) -> Callable[[], Array]:
    """What the accumulator holds before results enter, (rows, P). NKC114 if it continues what is not there."""
    if use.cmd is ReduceCmd.load_reduce:
        init = scalar_reader(inst, use.init, ctx, 2)
        ones = np.ones((1, partitions), np.float32)
        return lambda: to_compute(init()) * ones
    if use.cmd in (ReduceCmd.reset, ReduceCmd.reset_reduce):
        identity = np.full((1, partitions), _IDENTITY[use.op], np.float32)
        return lambda: identity

    def held() -> Array:
        value = ctx.accumulators.get(engine)
        if value is None or value.shape[1] < partitions:
            fail(
                "NKC114",
                inst=inst.label,
                engine=engine.value,
                want=partitions,
                held=0 if value is None else value.shape[1],
                operand="reduce_cmd",
                loc=inst.loc,
            )
        return value[:, :partitions]

    return held


def writer(inst: Inst, use: Accumulate, ctx: Context) -> Callable[[Array], None]:
    """Writes the accumulator to the tile that shall have it, if any."""
    if use.result is None:
        return lambda total: None
    result, negate = ctx.view(use.result, inst), use.negate
    return lambda total: result.write(-total if negate else total)


def hold(ctx: Context, engine: Engine, total: Array) -> None:
    """The accumulator = total, (rows, P), on the ranks that execute. Partitions beyond keep what they have."""
    old, active = ctx.accumulators.get(engine), ctx.lanes.active
    partitions = total.shape[1]
    if active is None and (old is None or old.shape[1] <= partitions):
        ctx.accumulators[engine] = total
        return
    if old is None:
        old = np.full((1, partitions), np.nan, np.float32)
    rows = max(len(old), len(total), 1 if active is None else len(active))
    value = np.full((rows, max(partitions, old.shape[1])), np.nan, np.float32)
    value[:, : old.shape[1]] = old
    which = slice(None) if active is None else active
    value[which, :partitions] = np.broadcast_to(total, (rows, partitions))[which]
    ctx.accumulators[engine] = value


def forget(ctx: Context, engine: Engine) -> None:
    """The engine may have used its accumulator for something: what it holds is unknown."""
    ctx.accumulators.pop(engine, None)
