"""Registers and rank instructions."""

from __future__ import annotations

import numpy as np

from nkicc.ir import bir, isa

from .common import Context, Step, rule


@rule(isa.InstRegisterMove)
def register_move(inst: isa.InstRegisterMove, ctx: Context) -> Step:
    registers, name, src = ctx.registers, inst.dst.name, inst.src
    if isinstance(src, str):

        def copy() -> None:
            registers[name] = registers[src]

        return copy
    value = np.array([src], np.int64)

    def move() -> None:
        registers[name] = value

    return move


@rule(isa.InstRegisterLoad)
def register_load(inst: isa.InstRegisterLoad, ctx: Context) -> Step:
    registers, name, src = ctx.registers, inst.dst.name, ctx.view(inst.src, inst)

    def run() -> None:
        registers[name] = src.read().reshape(-1).astype(np.int64)

    return run


@rule(isa.InstRegisterStore)
def register_store(inst: isa.InstRegisterStore, ctx: Context) -> Step:
    registers, src, dst = ctx.registers, inst.src, ctx.view(inst.dst, inst)
    return lambda: dst.write(registers[src].reshape(-1, *dst.shape))


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
    where = {rank: (group, position) for group in inst.replica_groups for position, rank in enumerate(group)}
    table = []
    for rank in ctx.ranks.tolist():
        ring, position = where[rank]
        table.append(ring[(position - inst.iter_id) % len(ring)])
    value = np.array(table, np.int64)

    def run() -> None:
        registers[name] = value

    return run
