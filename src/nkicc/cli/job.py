"""What the commands have in common: FILE and options in, a penguin module with its arguments out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from nkicc.ir.errors import fail
from nkicc.ir.listing import listing
from nkicc.ir.program import Level, Module
from nkicc.ir.types import World

from . import specs
from .options import DEFAULT_RANKS
from .source import KernelFile, users_code

__all__ = ["Arguments", "arguments", "emit", "lower", "status", "trace", "world"]

#: The arguments of a rank by name.
Arguments = Callable[[int], dict[str, Any]]


def world(source: KernelFile | Module, ranks: int | None, lnc: int | None, target: str | None) -> tuple[World, str]:
    """World and target: the options', or those of a JSON program, which the options may repeat but not change
    (NKC006)."""
    if isinstance(source, KernelFile):
        return World(ranks or DEFAULT_RANKS, lnc or 1), target or "trn2"
    for option, given, own in (
        ("--ranks", ranks, source.world.ranks),
        ("--lnc", lnc, source.world.lnc),
        ("--target", target, source.target.value),
    ):
        if given not in (None, own):
            fail("NKC006", option=option, why=f"the program was built for {own}, not {given}")
    return source.world, source.target.value


def arguments(source: KernelFile | Module, options: Sequence[str], ranks: int, seed: int) -> Arguments:
    """What each rank passes: the file's `inputs(rank, ranks)`, overridden by `--input`."""
    values = specs.parse(options, ranks, seed)
    own = source.inputs if isinstance(source, KernelFile) else None

    def of_rank(rank: int) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if own is not None:
            with users_code(f"inputs({rank}, {ranks})", own.__code__.co_filename):
                given = dict(own(rank, ranks))
        return given | {name: value(rank) for name, value in values.items()}

    return of_rank


def trace(source: KernelFile | Module, world: World, target: str, inputs: Arguments) -> Module:
    """The penguin module of a kernel; a JSON program as it is, once its instructions are verified."""
    if isinstance(source, Module):
        source.verify()
        return source
    from nkicc import session

    return session.trace(source.kernel, ranks=world.ranks, lnc=world.lnc, target=target, inputs=inputs).module


def lower(module: Module, path: str, passes: str | None) -> Module:
    """The bir module after a pipeline (the default one if None; a bir program then stays as it is)."""
    from nkicc import lowering

    if passes is not None:
        return lowering.run_pipeline(module, passes, path=path)
    return module if module.level is Level.bir else lowering.lower(module, path=path)


def emit(module: Module, as_json: bool, file: Path | None) -> None:
    """Write a module as listing or JSON to stdout or a file (NKC001)."""
    text = module.to_json() + "\n" if as_json else listing(module)
    if file is None:
        print(text, end="")
        return
    try:
        file.write_text(text)
    except OSError as error:
        fail("NKC001", file=str(file), why=error.strerror or str(error), cause=error)


@contextmanager
def status(text: str) -> Iterator[None]:
    """Say on stderr what takes its time, if someone is looking."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield
