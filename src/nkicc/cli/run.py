"""`nkicc run`: build, lower, check and simulate, then show what every rank got."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

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
    switches,
)

if TYPE_CHECKING:
    from nkicc.ir.program import Module
    from nkicc.ir.types import World

    from .job import Arguments, Stage
    from .outcome import Outcome
    from .source import KernelFile

__all__ = ["run"]

ENGINE = "simulator"


class Checks(TypedDict):
    """What `nkicc.verify.check` is told."""

    sdk: str
    strict: bool
    allow_io: bool


def run(
    file: File,
    ranks: RankCount = None,
    lnc: LncCount = None,
    target: TargetName = None,
    path: PathName = None,
    passes: Passes = None,
    seed: Seed = 0,
    input: Inputs = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE.npz", help="Save all outputs and changed arguments of all ranks as rank{r}/NAME."
        ),
    ] = None,
    ring_order: RingOrder = None,
    schedule: Schedule = None,
    poison: Poison = None,
    non_finite: NonFinite = False,
    without: Without = None,
    sdk: SdkRelease = "2.33",
    strict: Strict = False,
    allow_io: AllowIo = False,
    no_golden: Annotated[bool, typer.Option("--no-golden", help="Do not compare with the file's golden().")] = False,
    json: Json = False,
    listing: Annotated[bool, typer.Option("--listing", help="Print the program that ran, too.")] = False,
) -> None:
    """Build, lower, check and simulate a kernel or a program; show the outputs of every rank.

    A kernel file may define inputs(rank, ranks), the arguments by name, and golden(rank, ranks), the expected outputs:
    what the kernel returns, in order, or a dict by the names of the table. Arguments that the kernel writes to are
    outputs, too. golden() is not compared when --input replaces what inputs() gives. Arguments of a JSON program that
    --input does not give are random.
    """
    from nkicc.ir import listing as listings
    from nkicc.ir.errors import NkiccError

    from . import job, outcome, table
    from .source import KernelFile, load

    job.check_writable(out)
    source = load(file)
    world, machine = job.world(source, ranks, lnc, target)
    golden = None
    seeds = {"ring_order": ring_order, "schedule": schedule, "poison": poison}
    options = switches(seeds, without, non_finite)
    checks: Checks = {"sdk": sdk, "strict": strict, "allow_io": allow_io}
    with job.progress("inputs") as stage:
        inputs = job.Arguments(source, input or (), world.ranks, seed, stage)
        if isinstance(source, KernelFile):
            done = _run_kernel(source, world, machine, inputs, path, passes, checks, options, stage)
            if source.golden is not None and not no_golden:
                golden, notes = job.golden(source, world.ranks, inputs, stage)
                done.notes += notes
        else:
            source.verify()
            module = job.lower(source, path, passes)
            done = _run_module(Path(file).name, module, inputs, seed, checks, options, stage)
        stage("comparing" if golden is not None else "summing up")
        rows, digest = outcome.rows(done, golden)
        if out is not None:
            stage(f"writing {out}")
            outcome.save(done, out)
    mismatch = None
    try:
        outcome.check_golden(rows)
    except NkiccError as error:
        mismatch = error
    if json:
        table.print_json(done, ENGINE, rows, digest, mismatch, listings.listing(done.module) if listing else None)
        raise typer.Exit(1 if mismatch else 0)
    if listing:
        job.emit(done.module, False, None)
        print()
    table.print_table(done, ENGINE, rows, digest)
    if mismatch:
        raise mismatch


def _run_kernel(
    source: KernelFile,
    world: World,
    target: str,
    inputs: Arguments,
    path: str | None,
    passes: str | None,
    checks: Checks,
    options: Mapping[str, int | bool | None],
    stage: Stage,
) -> Outcome:
    from nkicc import session

    from .outcome import Outcome, collect, flatten

    traced = session.trace(source.kernel, ranks=world.ranks, lnc=world.lnc, target=target, inputs=inputs)
    stage(f"running on {world.ranks} ranks")
    result = session.execute(traced, engine=ENGINE, path=path or "loop", passes=passes, **checks, **options)
    outputs = collect(result.program, [flatten(value) for value in result.outputs], result.inputs)
    return Outcome(source.name, result.program, outputs, result.report, [])


def _run_module(
    title: str,
    module: Module,
    inputs: Arguments,
    seed: int,
    checks: Checks,
    options: Mapping[str, int | bool | None],
    stage: Stage,
) -> Outcome:
    """Check and simulate a program read from JSON."""
    from nkicc.engines import Options
    from nkicc.ir.findings import raise_first
    from nkicc.verify import verify

    from . import execution

    warnings = verify(module, **checks)
    arguments, notes = execution.arguments(module, inputs, seed)
    stage(f"running on {module.world.ranks} ranks")
    done = execution.simulate(title, module, arguments, Options(**options))  # type: ignore[arg-type]
    raise_first(done.report.warnings, strict=checks["strict"])
    done.notes += notes
    done.report.warnings += warnings
    return done
