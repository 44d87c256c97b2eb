"""`nkicc run`: build, lower, check and simulate, then show what every rank got."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import File, Inputs, Json, LncCount, Passes, PathName, RankCount, Seed, TargetName

if TYPE_CHECKING:
    import numpy as np

    from nkicc.ir.program import Module, Program
    from nkicc.ir.types import World

    from .job import Arguments, Stage
    from .outcome import Outcome
    from .source import KernelFile

__all__ = ["run"]

ENGINE = "simulator"


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
    with job.progress("inputs") as stage:
        inputs = job.Arguments(source, input or (), world.ranks, seed, stage)
        if isinstance(source, KernelFile):
            done = _run_kernel(source, world, machine, inputs, path, passes, stage)
            if source.golden is not None and not no_golden:
                golden = _golden(source, world.ranks, inputs, done, stage)
        else:
            source.verify()
            done = _run_module(Path(file).name, job.lower(source, path, passes), inputs, seed, stage)
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
    stage: Stage,
) -> Outcome:
    from nkicc import session

    from .outcome import Outcome, collect, flatten

    traced = session.trace(source.kernel, ranks=world.ranks, lnc=world.lnc, target=target, inputs=inputs)
    stage(f"running on {world.ranks} ranks")
    result = session.execute(traced, engine=ENGINE, path=path or "loop", passes=passes)
    outputs = collect(result.program, [flatten(value) for value in result.outputs], result.inputs)
    return Outcome(source.name, result.program, outputs, result.report, [])


def _golden(source: KernelFile, ranks: int, inputs: Arguments, done: Outcome, stage: Stage) -> list[Any] | None:
    """What golden(rank, ranks) expects on every rank. None, with a note, if the run had other arguments than the
    file's."""
    if inputs.replaced:
        names = ", ".join(sorted(inputs.replaced))
        done.notes.append(f"golden() is not compared: it belongs to inputs(), of which --input replaces {names}")
        return None
    expected = []
    for rank in range(ranks):
        stage(f"golden of rank {rank} of {ranks}")
        expected.append(source.call("golden", rank, ranks))
    return expected


def _run_module(title: str, module: Module, inputs: Arguments, seed: int, stage: Stage) -> Outcome:
    """Check and simulate a program read from JSON. Arguments that are not given are random, different on each rank."""
    from nkicc.engines import Options
    from nkicc.simulator import simulate
    from nkicc.verify import verify

    from .outcome import Outcome, collect

    verify(module)
    given = [inputs(rank) for rank in range(module.world.ranks)]
    stacks = [_arguments(program, given, seed) for program in module.programs]
    stage(f"running on {module.world.ranks} ranks")
    execution = simulate(module, stacks, Options())
    returned: list[list[np.ndarray]] = [[] for _ in given]
    left: list[dict[str, np.ndarray]] = [{} for _ in given]
    for program, outputs, arguments in zip(module.programs, execution.outputs, execution.inputs, strict=True):
        for row, rank in enumerate(program.ranks or range(module.world.ranks)):
            returned[rank] = [array[min(row, len(array) - 1)] for array in outputs]
            left[rank] = {name: array[min(row, len(array) - 1)] for name, array in arguments.items()}
    names = dict.fromkeys(name for program in module.programs for name in program.inputs)
    drawn = [name for name in names if not all(name in values for values in given)]
    notes = [f"random inputs: {', '.join(drawn)} (seed {seed})"] if drawn else []
    return Outcome(title, module, collect(module, returned, left), execution.report, notes)


def _arguments(program: Program, given: list[dict[str, Any]], seed: int) -> dict[str, np.ndarray]:
    """The inputs of a program with ranks leading (extent 1 if one array serves all ranks). NKC007 for an unknown name
    or an array of another shape or type."""
    import numpy as np

    from nkicc.ir.errors import fail

    from .specs import random_array

    ranks = program.ranks or range(len(given))
    tensors = {tensor.name: tensor for tensor in program.tensors}
    for name in given[ranks[0]]:
        if name not in program.inputs:
            fail("NKC007", name=name, why=f"the program takes {', '.join(program.inputs) or 'no arguments'}")
    arguments: dict[str, np.ndarray] = {}
    for name in program.inputs:
        tensor = tensors[name]
        values: list[np.ndarray] = []
        for rank in ranks:
            value = given[rank].get(name)
            if value is None:
                value = random_array(tensor.dtype, tensor.shape, name, seed, rank)
            if getattr(value, "dtype", None) != tensor.dtype.numpy or value.shape != tensor.shape:
                found = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
                fail(
                    "NKC007",
                    name=name,
                    why=f"it is {found}, the program takes {tensor.dtype.value}{list(tensor.shape)}",
                )
            values.append(value)
        uniform = all(value is values[0] for value in values)
        arguments[name] = values[0][None] if uniform else np.stack(values)
    return arguments
