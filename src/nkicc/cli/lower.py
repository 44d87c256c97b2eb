"""`nkicc lower`: build a kernel, or read a program, and print it after any pipeline of passes."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import File, Inputs, Json, LncCount, OutFile, Passes, PathName, RankCount, Seed, TargetName

__all__ = ["lower"]


def _list_passes(wanted: bool) -> None:
    if not wanted:
        return
    from nkicc.lowering import PASSES

    for entry in PASSES.values():
        options = ", ".join(name.replace("_", "-") for name in entry.options.__struct_fields__)
        print(f"{entry.name:<26}{entry.summary}" + (f"; options: {options}" if options else ""))
    raise typer.Exit


def lower(
    file: File,
    ranks: RankCount = None,
    lnc: LncCount = None,
    target: TargetName = None,
    path: PathName = "loop",
    passes: Passes = None,
    seed: Seed = 0,
    input: Inputs = None,
    json: Json = False,
    output: OutFile = None,
    _list: Annotated[
        bool, typer.Option("--list-passes", callback=_list_passes, is_eager=True, help="List the passes.")
    ] = False,
) -> None:
    """Lower a kernel or a program through a pipeline of passes and print the result (the bir level)."""
    from . import job
    from .source import load

    source = load(file)
    world, machine = job.world(source, ranks, lnc, target)
    with job.status("lowering"):
        module = job.trace(source, world, machine, job.arguments(source, input or (), world.ranks, seed))
        module = job.lower(module, path, passes)
    job.emit(module, json, output)
