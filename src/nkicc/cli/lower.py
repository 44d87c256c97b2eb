"""`nkicc lower`: build a kernel, or read a program, and print it after any pipeline of passes."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import File, Inputs, Json, LncCount, OutFile, Passes, PathName, RankCount, Seed, TargetName

__all__ = ["lower"]


def _list_passes(wanted: bool) -> None:
    if not wanted:
        return
    from nkicc.lowering import DEFAULT, FULL, PASSES

    for entry in PASSES.values():
        defaults = entry.options()
        options = [f"{name.replace('_', '-')}={getattr(defaults, name)}" for name in entry.options.__struct_fields__]
        print(f"{entry.name:<26}{entry.summary}" + (f"; {{{' '.join(options)}}}" if options else ""))
    print("\nA pipeline is passes separated by commas; options (above, with their defaults) stand in braces:")
    print("  --passes 'codegen,lower-local-collectives{max-bpp=256},infer-stream-ids'")
    print(f"default:    {DEFAULT}")
    print(f"all passes: {FULL}")
    raise typer.Exit


def lower(
    file: File,
    ranks: RankCount = None,
    lnc: LncCount = None,
    target: TargetName = None,
    path: PathName = None,
    passes: Passes = None,
    seed: Seed = 0,
    input: Inputs = None,
    json: Json = False,
    output: OutFile = None,
    _list: Annotated[
        bool,
        typer.Option("--list-passes", callback=_list_passes, is_eager=True, help="List the passes with their options."),
    ] = False,
) -> None:
    """Lower a kernel or a program through a pipeline of passes and print the result (the bir level).

    Arguments come from the file's inputs(rank, ranks) or from --input; their shapes are part of the program, their
    data is not.
    """
    from . import job
    from .source import load

    job.check_writable(output)
    source = load(file)
    world, machine = job.world(source, ranks, lnc, target)
    with job.progress("tracing") as stage:
        module = job.trace(source, world, machine, job.Arguments(source, input or (), world.ranks, seed, stage))
        stage("lowering")
        module = job.lower(module, path, passes)
    job.emit(module, json, output)
