"""Dropout, which draws from the generator of the vector engine."""

from __future__ import annotations

import numpy as np

from nkicc.ir import isa
from nkicc.ir.types import Engine

from ..numerics import to_compute
from .common import Context, Step, rule, scalar_reader
from .random import lanes_of, uniform


@rule(isa.InstDropout)
def dropout(inst: isa.InstDropout, ctx: Context) -> Step:
    dst, data, lanes = ctx.view(inst.dst, inst), ctx.view(inst.data, inst), lanes_of(inst.data)
    prob = scalar_reader(inst, inst.prob, ctx, 3)
    partitions = data.shape[0]
    count = inst.data.size // partitions
    zero = np.zeros((), data.dtype)

    def run() -> None:
        value = data.read()
        drops = uniform(ctx, Engine.dve, lanes, count) < to_compute(prob())
        dst.write(np.where(drops, zero, value.reshape(value.shape[0], partitions, count)))

    return run
