"""The options that several commands share, defined once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Never

import typer

__all__ = [
    "DEFAULT_RANKS",
    "AllowIo",
    "File",
    "Inputs",
    "Json",
    "LncCount",
    "NonFinite",
    "OutFile",
    "Passes",
    "PathName",
    "Poison",
    "RankCount",
    "RingOrder",
    "Schedule",
    "SdkRelease",
    "Seed",
    "Strict",
    "TargetName",
    "Without",
    "switches",
]

DEFAULT_RANKS = 4


def _refuse(option: str, why: str) -> Never:
    from nkicc.ir.errors import fail

    fail("NKC006", option=option, why=why)


def _integer(option: str, low: int, high: int) -> Callable[[str | int], int]:
    """A reader of integers from `low` to `high`; NKC006 for anything else."""

    def read(text: str | int) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            _refuse(option, f"an integer from {low} to {high} is needed, not {text!r}")
        return value

    return read


def _seed(option: str, help: str) -> Any:
    """The option of a seed that perturbs a run."""
    read = _integer(option, 0, (1 << 64) - 1)
    return typer.Option(option, metavar="SEED", parser=read, help=help, show_default=False)


def _choice(option: str, *names: str) -> Callable[[str], str]:
    """A reader of one of `names`; NKC006 for anything else."""

    def read(text: str) -> str:
        if text not in names:
            _refuse(option, f"{text!r} is none of {', '.join(names)}")
        return text

    return read


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
        metavar="N",
        parser=_integer("--ranks", 1, 1 << 20),
        help=f"Number of ranks [default: {DEFAULT_RANKS}; a JSON program brings its own].",
        show_default=False,
    ),
]
LncCount = Annotated[
    int | None,
    typer.Option(
        "--lnc",
        metavar="1|2",
        parser=_integer("--lnc", 1, 2),
        help="Physical cores per rank [default: 1].",
        show_default=False,
    ),
]
TargetName = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="trn1|trn2|trn3",
        parser=_choice("--target", "trn1", "trn2", "trn3"),
        help="Machine generation [default: trn2].",
        show_default=False,
    ),
]
PathName = Annotated[
    str | None,
    typer.Option(
        "--path",
        metavar="loop|klr",
        parser=_choice("--path", "loop", "klr"),
        help="Codegen path from penguin to bir [default: loop].",
        show_default=False,
    ),
]
Passes = Annotated[
    str | None,
    typer.Option(
        "--passes",
        metavar="PIPELINE",
        help="Passes separated by commas, options in braces: codegen,lower-local-collectives{max-bpp=256} "
        "[default: codegen,renumber-core-barriers,infer-stream-ids]. `nkicc lower --list-passes` lists them.",
        show_default=False,
    ),
]
Seed = Annotated[
    int,
    typer.Option("--seed", metavar="N", parser=_integer("--seed", 0, (1 << 64) - 1), help="Seed of generated inputs."),
]
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
OutFile = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write there instead of stdout.")]
RingOrder = Annotated[
    int | None, _seed("--ring-order", "Give implicit rings the order of this seed instead of that of the group's list.")
]
Schedule = Annotated[int | None, _seed("--schedule", "Advance cores and programs in the order of this seed.")]
Poison = Annotated[
    int | None,
    _seed(
        "--poison", "Fill fresh memory, and what a collective leaves of its destination, with a pattern of this seed."
    ),
]
NonFinite = Annotated[
    bool, typer.Option("--non-finite", help="Name the instructions that make infinities or NaNs of finite data.")
]
SdkRelease = Annotated[
    str,
    typer.Option("--sdk", metavar="RELEASE", help="Neuron SDK whose limits are warned of, such as 2.33."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings are errors.")]
AllowIo = Annotated[
    bool, typer.Option("--allow-io", help="Permit kernel inputs and outputs as operands of collectives.")
]
Without = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="CHECK",
        parser=_choice("--without", "races", "uninitialised"),
        help="Leave out a check that is made while running (repeatable): races, uninitialised.",
        show_default=False,
    ),
]


def switches(
    seeds: dict[str, int | None], without: Sequence[str] | None, non_finite: bool
) -> dict[str, int | bool | None]:
    """The options of a run as fields of `nkicc.engines.Options`."""
    return {**seeds, **dict.fromkeys(without or (), False), "non_finite": non_finite}
