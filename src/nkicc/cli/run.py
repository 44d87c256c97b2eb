"""`nkicc run`: build, lower, check and simulate, then show what every rank got."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import File, Inputs, Json, LncCount, Passes, PathName, RankCount, Seed, TargetName

if TYPE_CHECKING:
    import numpy as np

    from nkicc.ir.program import Module, Program

    from .job import Arguments
    from .outcome import Outcome
    from .source import KernelFile

__all__ = ["run"]

ENGINE = "simulator"


def run(
    file: File,
    ranks: RankCount = None,
    lnc: LncCount = None,
    target: TargetName = None,
    path: PathName = "loop",
    passes: Passes = None,
    seed: Seed = 0,
    input: Inputs = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.npz", help="Save all outputs as rank{r}/NAME.")
    ] = None,
    json: Json = False,
    listing: Annotated[bool, typer.Option("--listing", help="Print the program that ran, too.")] = False,
) -> None:
    """Build, lower, check and simulate a kernel or a program; show the outputs of every rank.

    A kernel file may define inputs(rank, ranks), the arguments by name, and golden(rank, ranks), the expected outputs.
    """
    from nkicc.ir.errors import NkiccError

    from . import job, outcome, table
    from .source import KernelFile, load

    source = load(file)
    world, machine = job.world(source, ranks, lnc, target)
    inputs = job.arguments(source, input or (), world.ranks, seed)
    golden = None
    with job.status("running"):
        if isinstance(source, KernelFile):
            done = _run_kernel(source, world.ranks, world.lnc, machine, inputs, path, passes)
            golden = _golden(source, world.ranks)
        else:
            source.verify()
            done = _run_module(Path(file).name, job.lower(source, path, passes), inputs, seed)
        rows, digest = outcome.rows(done, golden)
        if out is not None:
            outcome.save(done, out)
    mismatch = None
    try:
        outcome.check_golden(rows)
    except NkiccError as error:
        mismatch = error
    if json:
        table.print_json(done, ENGINE, rows, digest, mismatch)
        raise typer.Exit(1 if mismatch else 0)
    if listing:
        job.emit(done.module, False, None)
        print()
    table.print_table(done, ENGINE, rows, digest)
    if mismatch:
        raise mismatch


def _run_kernel(
    source: KernelFile, ranks: int, lnc: int, target: str, inputs: Arguments, path: str, passes: str | None
) -> Outcome:
    from nkicc import session

    from .outcome import Outcome, flatten

    result = session.run(
        source.kernel, ranks=ranks, lnc=lnc, target=target, inputs=inputs, engine=ENGINE, path=path, passes=passes
    )
    names = _output_names(result.program)
    outputs = [list(zip(names[rank], flatten(result.outputs[rank]), strict=True)) for rank in range(ranks)]
    return Outcome(source.name, result.program, outputs, result.report)


def _golden(source: KernelFile, ranks: int) -> list[list[np.ndarray]] | None:
    """What golden(rank, ranks) expects on every rank, or None if the file has no such function."""
    from .outcome import flatten
    from .source import users_code

    if source.golden is None:
        return None
    expected = []
    for rank in range(ranks):
        with users_code(f"golden({rank}, {ranks})", source.golden.__code__.co_filename):
            expected.append(flatten(source.golden(rank, ranks)))
    return expected


def _run_module(title: str, module: Module, inputs: Arguments, seed: int) -> Outcome:
    """Check and simulate a program read from JSON. Arguments that are not given are random, different on each rank."""
    from nkicc.engines import Options
    from nkicc.simulator import simulate
    from nkicc.verify import verify

    from .outcome import Outcome

    verify(module)
    given = [inputs(rank) for rank in range(module.world.ranks)]
    stacks = [_arguments(program, given, seed) for program in module.programs]
    execution = simulate(module, stacks, Options())
    names = _output_names(module)
    outputs: list[list[tuple[str, np.ndarray]]] = [[] for _ in given]
    for program, arrays in zip(module.programs, execution.outputs, strict=True):
        for row, rank in enumerate(program.ranks or range(module.world.ranks)):
            views = [array[min(row, len(array) - 1)] for array in arrays]
            outputs[rank] = list(zip(names[rank], views, strict=True))
    return Outcome(title, module, outputs, execution.report)


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


def _output_names(module: Module) -> list[list[str]]:
    """The output names of each rank's program, made unique."""
    names: list[list[str]] = [[] for _ in range(module.world.ranks)]
    for program in module.programs:
        tensors = [view.tensor for view in program.outputs]
        unique = [name if tensors.count(name) == 1 else f"{name}.{i}" for i, name in enumerate(tensors)]
        for rank in program.ranks or range(module.world.ranks):
            names[rank] = unique
    return names
