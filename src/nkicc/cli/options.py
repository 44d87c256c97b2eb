"""The options that several commands share, defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = [
    "DEFAULT_RANKS",
    "File",
    "Inputs",
    "Json",
    "LncCount",
    "OutFile",
    "Passes",
    "PathName",
    "RankCount",
    "Seed",
    "TargetName",
]

DEFAULT_RANKS = 4

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE[:KERNEL]", help="A Python file with NKI kernels, or a program in JSON.", show_default=False
    ),
]
RankCount = Annotated[
    int | None,
    typer.Option(
        "--ranks",
        min=1,
        max=1 << 20,
        help=f"Number of ranks [default: {DEFAULT_RANKS}; a JSON program brings its own].",
        show_default=False,
    ),
]
LncCount = Annotated[
    int | None,
    typer.Option("--lnc", min=1, max=2, help="Physical cores per rank [default: 1].", show_default=False),
]
TargetName = Annotated[
    Literal["trn1", "trn2", "trn3"] | None,
    typer.Option("--target", help="Machine generation [default: trn2].", show_default=False),
]
PathName = Annotated[Literal["loop", "klr"], typer.Option("--path", help="Codegen path from penguin to bir.")]
Passes = Annotated[
    str | None,
    typer.Option("--passes", metavar="PIPELINE", help="Passes to run, separated by commas.", show_default=False),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of generated inputs.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="NAME=SPEC",
        help="Argument of the kernel (repeatable). SPEC: x.npy, x.npz:key, x_{rank}.npy (one file per rank), "
        "float32[128,512] (random, differs per rank), float32[128,512]@same (random, one for all), groups:all, "
        "groups:[[0,1],[2,3]], or a constant.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
OutFile = Annotated[Path | None, typer.Option("-o", "--output", help="Write there instead of stdout.")]
