"""`nkicc build`: trace a kernel and print its penguin level."""

from __future__ import annotations

from .options import File, Inputs, Json, LncCount, OutFile, RankCount, Seed, TargetName

__all__ = ["build"]


def build(
    file: File,
    ranks: RankCount = None,
    lnc: LncCount = None,
    target: TargetName = None,
    seed: Seed = 0,
    input: Inputs = None,
    json: Json = False,
    output: OutFile = None,
) -> None:
    """Trace a kernel and print the collective ops that its builders mint (the penguin level)."""
    from . import job
    from .source import load

    source = load(file)
    world, machine = job.world(source, ranks, lnc, target)
    with job.status("tracing"):
        module = job.trace(source, world, machine, job.arguments(source, input or (), world.ranks, seed))
    job.emit(module, json, output)
