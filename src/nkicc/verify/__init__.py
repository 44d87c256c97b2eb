"""Whole-program checks, one module per kind of fault. Nothing is executed.

`check` collects what is wrong with a program as findings; `verify` raises the first error and is what a run does first.
"""

from __future__ import annotations

from itertools import groupby

from msgspec.structs import replace

from nkicc.ir.errors import NkiccError
from nkicc.ir.findings import Finding, Severity, raise_first
from nkicc.ir.program import Level, Module
from nkicc.ir.readings import readings

from .capacity import check_capacity
from .cores import check_lanes
from .meetings import check_meetings
from .operands import check_io_operands, check_names, check_overlaps
from .rings import check_channels, check_rings
from .streams import streams_of
from .targets import SDK, check_targets, release

__all__ = ["SDK", "check", "check_capacity", "verify"]


def verify(module: Module, *, sdk: str = SDK, strict: bool = False, allow_io: bool = False) -> list[Finding]:
    """The warnings of `check`. Raises its first error as NkiccError."""
    findings = check(module, sdk=sdk, strict=strict, allow_io=allow_io)
    raise_first(findings, strict=strict)
    return findings


def check(module: Module, *, sdk: str = SDK, strict: bool = False, allow_io: bool = False) -> list[Finding]:
    """Everything that is wrong with a module, in the order of the checks; a line and a code are reported once.

    A malformed program or an instruction that is wrong by itself is one finding and ends the checks. What follows needs
    the bir level: operands, rules of the target, the cores of a rank, rings, meetings of all streams. `sdk` is the
    release whose limits are warned of (NKC006 if it is none), `strict` makes warnings errors, `allow_io` permits kernel
    inputs and outputs as operands of collectives.
    """
    rules = release(sdk)
    try:
        module.verify()
    except NkiccError as error:
        return [Finding.of(error)]
    findings: list[Finding] = []
    try:
        check_capacity(module)
    except NkiccError as error:
        findings.append(Finding.of(error))
    if module.level is Level.bir:
        findings += _whole_program(module, rules, allow_io)
    merged = _merge(findings)
    return [replace(f, severity=Severity.error) for f in merged] if strict else merged


def _whole_program(module: Module, sdk: tuple[int, int], allow_io: bool) -> list[Finding]:
    streams = streams_of(module)
    findings: list[Finding] = []
    for stream in streams:
        if not allow_io:
            findings += check_io_operands(stream)
        findings += check_names(stream)
        findings += check_overlaps(stream)
        findings += check_channels(stream)
        findings += check_targets(stream, sdk)
    understood = []
    for program, (_, group) in zip(module.programs, groupby(streams, lambda s: s.index), strict=True):
        cores = list(group)
        findings += check_lanes(cores)
        findings += check_rings(cores)
        try:
            understood += readings(program)
        except NkiccError as error:
            findings.append(Finding.of(error))
    if len(understood) == len(streams):
        findings += check_meetings(streams, understood)
    return findings


def _merge(findings: list[Finding]) -> list[Finding]:
    """One finding per code, line and operand, with the ranks and cores of all."""
    merged: dict[tuple[object, ...], Finding] = {}
    for found in findings:
        key = (found.code, found.loc or found.message, found.operand)
        known = merged.get(key)
        if known is not None and (known.ranks, known.cores) != (found.ranks, found.cores):
            known = replace(
                known,
                ranks=tuple(sorted({*known.ranks, *found.ranks})),
                cores=tuple(sorted({*known.cores, *found.cores})),
            )
        merged[key] = known if known is not None else found
    return list(merged.values())
