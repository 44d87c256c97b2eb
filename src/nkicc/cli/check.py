"""`nkicc check`: everything that is wrong with a kernel, found without and by running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import (
    AllowIo,
    File,
    Inputs,
    Json,
    LncCount,
    NonFinite,
    Passes,
    PathName,
    Poison,
    RankCount,
    RingOrder,
    Schedule,
    SdkRelease,
    Seed,
    Strict,
    TargetName,
    Without,
)

if TYPE_CHECKING:
    from nkicc.ir.findings import Finding

    from .examine import Examination

__all__ = ["check"]

_SEEDS = Annotated[
    int,
    typer.Option(
        "--seeds",
        metavar="K",
        min=0,
        max=1 << 20,
        help="Run again K times, each with another ring order, schedule and fresh memory, and compare the outputs.",
    ),
]


def check(
    context: typer.Context,
    file: File,
    ranks: RankCount = None,
    lnc: LncCount = None,
    target: TargetName = None,
    sdk: SdkRelease = "2.33",
    strict: Strict = False,
    allow_io: AllowIo = False,
    path: PathName = None,
    passes: Passes = None,
    seed: Seed = 0,
    input: Inputs = None,
    run: Annotated[bool, typer.Option("--run/--no-run", help="Run the kernel once, and look while it runs.")] = True,
    seeds: _SEEDS = 0,
    ring_order: RingOrder = None,
    schedule: Schedule = None,
    poison: Poison = None,
    non_finite: NonFinite = False,
    without: Without = None,
    no_golden: Annotated[bool, typer.Option("--no-golden", help="Do not compare with the file's golden().")] = False,
    json: Json = False,
    sarif: Annotated[
        Path | None, typer.Option("--sarif", metavar="FILE", help="Write the findings as SARIF 2.1.0, too.")
    ] = None,
) -> None:
    """Say everything that is wrong with a kernel or a program.

    It is built, lowered and checked as a whole for any data; then it runs once, and while it runs deadlocks, races and
    the like are looked for; golden() is compared. With --seeds it runs again with other legal ring orders and
    schedules and other content of fresh memory, which must not change its outputs.

    Exit code 0: no finding but warnings. 1: findings. 2: bad usage.
    """
    from nkicc.ir.errors import NkiccError
    from nkicc.ir.findings import Finding, Severity

    from . import job
    from .errors import USAGE
    from .examine import Examination, Perturbation
    from .source import load

    job.check_writable(sarif)
    perturbations = [Perturbation(seed, seed, seed) for seed in range(1, seeds + 1)]
    if (asked := Perturbation(ring_order, schedule, poison)) != Perturbation():
        perturbations.insert(0, asked)
    examination = Examination(without or (), non_finite)
    with job.progress("building") as stage:
        try:
            source = load(file)
            world, machine = job.world(source, ranks, lnc, target)
            inputs = job.Arguments(source, input or (), world.ranks, seed, stage)
            examination.build(source, Path(file).name, world, machine, inputs, path, passes, seed)
            stage("checking")
            examination.check(sdk, allow_io)
            if run and not examination.failed:
                stage(f"running on {world.ranks} ranks")
                examination.run()
                if not no_golden:
                    examination.compare(inputs, stage)
                examination.perturb(perturbations, context.obj or [], stage)
        except NkiccError as error:
            if error.code in USAGE:
                raise
            examination.add(Finding.of(error))
    findings = examination.findings(strict)
    if sarif is not None:
        _write(sarif, findings, file)
    errors = sum(finding.severity is Severity.error for finding in findings)
    if json:
        _print_json(examination, findings, errors)
    else:
        _print_report(examination, findings, errors)
    raise typer.Exit(1 if errors else 0)


def _write(file: Path, findings: list[Finding], checked: str) -> None:
    """The findings as SARIF; NKC115 if that cannot be written."""
    import json

    from nkicc.ir.errors import fail

    from .sarif import document

    try:
        file.write_text(json.dumps(document(findings, checked), indent=2) + "\n")
    except (OSError, ValueError) as error:
        fail("NKC115", file=str(file), why=getattr(error, "strerror", None) or str(error), cause=error)


def _print_json(examination: Examination, findings: list[Finding], errors: int) -> None:
    import msgspec

    from . import document

    found = {
        "kernel": examination.title,
        "done": examination.done,
        "errors": errors,
        "warnings": len(findings) - errors,
        "notes": examination.notes,
        "repeat": examination.repeat,
        "findings": findings,
    }
    document.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())


def _print_report(examination: Examination, findings: list[Finding], errors: int) -> None:
    from rich.console import Console

    from .report import render

    console = Console(soft_wrap=True, highlight=False)
    for finding in findings:
        console.print(render(finding))
        console.print()
    for note in examination.notes:
        print(f"note: {note}")
    counts = [(errors, "error"), (len(findings) - errors, "warning")]
    found = ", ".join(f"{count} {what}{'s' if count > 1 else ''}" for count, what in counts if count)
    print(f"{examination.title}: {found or 'no findings'} ({', '.join(examination.done) or 'not built'})")
    if findings:
        print(f"`nkicc explain {findings[0].code}` tells more.")
