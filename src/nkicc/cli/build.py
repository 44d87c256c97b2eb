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
    """Trace a kernel and print the collective ops that its builders mint (the penguin level).

    Arguments come from the file's inputs(rank, ranks) or from --input; their shapes are part of the program, their
    data is not.
    """
    from nkicc.ir.errors import fail
    from nkicc.ir.program import Level

    from . import job
    from .source import load

    job.check_writable(output)
    source = load(file)
    world, machine = job.world(source, ranks, lnc, target)
    with job.progress("tracing") as stage:
        module = job.trace(source, world, machine, job.Arguments(source, input or (), world.ranks, seed, stage))
    if module.level is not Level.penguin:
        fail(
            "NKC006",
            option="FILE",
            why=f"{file} is at the bir level already, which does not lead back to penguin",
            hint="`nkicc lower` prints it.",
        )
    job.emit(module, json, output)
