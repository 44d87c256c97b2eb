"""Registers and rank instructions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nkicc.ir import bir, isa
from nkicc.ir.base import Inst
from nkicc.ir.types import AluOp

from .common import Array, Context, Step, rule


@rule(isa.InstRegisterMove)
def register_move(inst: isa.InstRegisterMove, ctx: Context) -> Step:
    registers, name, read = ctx.registers, inst.dst.name, _reader(inst, inst.src, ctx)

    def move() -> None:
        registers[name] = read()

    return move


def _reader(inst: Inst, source: int | str, ctx: Context) -> Callable[[], Array]:
    """Reads a constant or a register."""
    if isinstance(source, str):
        return lambda: ctx.register(source, inst)
    value = np.array([source], np.int64)
    return lambda: value


@rule(isa.InstRegisterAlu)
def register_alu(inst: isa.InstRegisterAlu, ctx: Context) -> Step:
    registers, name, width = ctx.registers, inst.dst.name, inst.dst.dtype.numpy
    a, b = _reader(inst, inst.a, ctx), _reader(inst, inst.b, ctx)
    function = _ALU[inst.op]

    def run() -> None:
        # 64 bits hold every 32-bit product; the cast wraps around.
        registers[name] = function(a(), b()).astype(width).astype(np.int64)

    return run


_ALU = {AluOp.add: np.add, AluOp.subtract: np.subtract, AluOp.mult: np.multiply}


@rule(isa.InstRegisterLoad)
def register_load(inst: isa.InstRegisterLoad, ctx: Context) -> Step:
    registers, name, src = ctx.registers, inst.dst.name, ctx.view(inst.src, inst)

    def run() -> None:
        registers[name] = src.read().reshape(-1).astype(np.int64)

    return run


@rule(isa.InstRegisterStore)
def register_store(inst: isa.InstRegisterStore, ctx: Context) -> Step:
    read, dst = _reader(inst, inst.src, ctx), ctx.view(inst.dst, inst)
    return lambda: dst.write(read().astype(dst.dtype).reshape(-1, *dst.shape))


@rule(bir.InstGetGlobalRankId)
def global_rank_id(inst: bir.InstGetGlobalRankId, ctx: Context) -> Step:
    registers, name, ranks = ctx.registers, inst.output.name, ctx.ranks
    mask = inst.mask

    def run() -> None:
        if mask is None or registers[mask].all():
            registers[name] = ranks
        else:
            registers[name] = np.where(registers[mask] != 0, ranks, registers.get(name, np.zeros(1, np.int64)))

    return run


@rule(bir.InstGetCurProcessingRankID)
def current_processing_rank(inst: bir.InstGetCurProcessingRankID, ctx: Context) -> Step:
    registers, name = ctx.registers, inst.output.name
    rings = ctx.rings.order(inst.replica_groups, inst.channel_id)
    where = {rank: (ring, position) for ring in rings for position, rank in enumerate(ring)}
    table = []
    for rank in ctx.ranks.tolist():
        ring, position = where[rank]
        table.append(ring[(position - inst.iter_id) % len(ring)])
    value = np.array(table, np.int64)

    def run() -> None:
        registers[name] = value

    return run
