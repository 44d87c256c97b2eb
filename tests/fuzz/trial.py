"""One trial: a program is checked and run, with the data of every rank compared to the reference."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nkicc.engines import Options
from nkicc.ir.errors import NkiccError
from nkicc.ir.findings import Severity
from nkicc.ir.program import Module
from nkicc.lowering import DEFAULT, lower
from nkicc.simulator import simulate
from nkicc.verify import check

from .programs import Plan

__all__ = ["FULL_PIPELINE", "SECONDS", "Hang", "execute", "findings", "found", "limited", "wrong"]

FULL_PIPELINE = (
    "codegen,sync-before-global-cc,lower-local-collectives,coalesce-multichannel-cc,renumber-core-barriers,"
    "infer-stream-ids"
)
#: A program of a few steps that takes longer hangs.
SECONDS = 20

Array = np.ndarray


class Hang(Exception):
    """A trial took longer than SECONDS."""


@contextmanager
def limited() -> Iterator[None]:
    """Raise Hang if the block does not end in time."""

    def stop(signum: int, frame: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def findings(module: Module) -> list[Any]:
    """What the static checks call an error."""
    return [finding for finding in check(module) if finding.severity is Severity.error]


def execute(module: Module, plan: Plan, **options: Any) -> tuple[str, list[Array]]:
    """Run a bir module on the arguments of a plan: the code of the first warning, or none, and what every rank returns,
    ranks leading."""
    given = {f"arg.{name}": value for name, value in plan.inputs().items()}
    ranks = [list(program.ranks or range(module.world.ranks)) for program in module.programs]
    inputs = [
        {name: given[name][rows] for name in program.inputs}
        for program, rows in zip(module.programs, ranks, strict=True)
    ]
    execution = simulate(module, inputs, Options(**options))
    results = []
    for number in range(len(plan.returned)):
        parts = [outputs[number] for outputs in execution.outputs]
        whole = np.empty((module.world.ranks, *parts[0].shape[1:]), parts[0].dtype)
        for rows, part in zip(ranks, parts, strict=True):
            whole[rows] = part
        results.append(whole)
    return next((warning.code for warning in execution.report.warnings), ""), results


def wrong(got: list[Array], want: list[Array]) -> str:
    """Where results differ from the reference, bit for bit; empty if nowhere."""
    for number, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {number}: {a.dtype}{a.shape}, the reference is {b.dtype}{b.shape}"
        places = np.argwhere(~((a == b) | (np.isnan(a.astype(np.float32)) & np.isnan(b.astype(np.float32)))))
        if len(places):
            at = tuple(places[0])
            return f"result {number} at {[int(i) for i in at]}: {a[at]}, the reference has {b[at]}"
    return ""


def found(module: Module, plan: Plan, *, passes: str = DEFAULT, **options: Any) -> tuple[str, list[Array]]:
    """The code of the first error, or of what a run warns of, or none; and the results."""
    try:
        lowered = lower(module, passes=passes)
        static = findings(lowered)
        if static:
            return static[0].code, []
        return execute(lowered, plan, **options)
    except NkiccError as error:
        return error.code, []
