"""The engine interface: what executes a bir module, and what it gives back.

An engine is a function `(module, inputs, options) -> Execution`. Inputs and results keep ranks as the leading axis; an
extent of 1 there means "the same on all ranks of the program".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, field

from nkicc.ir.findings import Finding
from nkicc.ir.program import Module
from nkicc.ir.types import NonNegative

__all__ = ["Engine", "Execution", "Options", "Report"]

#: Per program: argument name -> array of shape (1, *shape) or (ranks of the program, *shape).
Inputs = Sequence[Mapping[str, np.ndarray]]


class Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Switches of a run, the same for every engine.

    `low_precision_as_float32` keeps bfloat16, float16 and float8 tensors in float32 (a differential check). `races`
    reports accesses of the two cores of a rank to shared memory that nothing orders, `uninitialised` arithmetic on
    memory that nobody has written and results that keep such memory, `non_finite` instructions that make infinities or
    NaNs of finite data. The others are seeds that perturb what a correct kernel must not depend on: `ring_order` the
    order of each implicit ring, per group and channel, `schedule` the order in which cores and programs advance,
    `poison` what fresh memory holds, and the destination of a collective where the collective leaves it.
    """

    low_precision_as_float32: bool = False
    races: bool = True
    uninitialised: bool = True
    non_finite: bool = False
    ring_order: NonNegative | None = None
    schedule: NonNegative | None = None
    poison: NonNegative | None = None


class Report(Struct, kw_only=True):
    """What a run did. `instructions` counts what each core of each program issued, collectives and barriers included,
    once for all ranks of the program; `collectives` counts the transfers, however many cores issue one. `readings`
    counts collectives under LNC=2 by reading: `both` cores on shared tensors, `lanes` (each core its own), `one` core
    for its rank, `each` core for its rank at the same time. `warnings` are rules of real machines that the program
    breaks, and what run-time checks saw without ending the run. `printed` is what the kernel printed while it ran."""

    ranks: int
    lnc: int
    target: str
    programs: int
    instructions: int = 0
    collectives: int = 0
    readings: dict[str, int] = field(default_factory=dict)
    warnings: list[Finding] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)


class Execution(Struct, kw_only=True):
    """Per program: the returned views in order and the arguments as the kernel left them, ranks leading."""

    outputs: list[tuple[np.ndarray, ...]]
    inputs: list[dict[str, np.ndarray]]
    report: Report


Engine = Callable[[Module, Inputs, Options], Execution]
