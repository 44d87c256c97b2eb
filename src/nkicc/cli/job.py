"""What the commands have in common: FILE and options in, a penguin module with its arguments out."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from nkicc.environment import default_target
from nkicc.ir.errors import fail
from nkicc.ir.listing import listing
from nkicc.ir.program import Level, Module
from nkicc.ir.types import World

from . import document, specs
from .options import DEFAULT_RANKS
from .source import KernelFile

__all__ = ["Arguments", "check_writable", "emit", "golden", "lower", "progress", "trace", "world"]

#: Says what is being done now.
Stage = Callable[[str], None]
#: Seconds between two lines about a long run where nobody sees a spinner.
PATIENCE = 10.0


def world(source: KernelFile | Module, ranks: int | None, lnc: int | None, target: str | None) -> tuple[World, str]:
    """World and target: the options', or those of a JSON program, which the options may repeat but not change
    (NKC006)."""
    if isinstance(source, KernelFile):
        return World(ranks or DEFAULT_RANKS, lnc or 1), target or default_target()
    for option, given, own in (
        ("--ranks", ranks, source.world.ranks),
        ("--lnc", lnc, source.world.lnc),
        ("--target", target, source.target.value),
    ):
        if given not in (None, own):
            fail("NKC006", option=option, why=f"the program was built for {own}, not {given}")
    return source.world, source.target.value


class Arguments:
    """What each rank passes: the file's `inputs(rank, ranks)`, overridden by `--input`. `replaced` names what was
    overridden on the ranks that were asked for. NKC007 if a value does not suit the kernel's annotation."""

    def __init__(
        self, source: KernelFile | Module, options: Sequence[str], ranks: int, seed: int, stage: Stage
    ) -> None:
        self.source = source if isinstance(source, KernelFile) else None
        self.values = specs.parse(options, ranks, seed)
        self.replaced: set[str] = set()
        self._ranks = ranks
        self._stage = stage
        self._kinds = {} if self.source is None else specs.annotated(self.source.kernel)

    def __call__(self, rank: int) -> dict[str, Any]:
        self._stage(f"tracing, with the arguments of {rank + 1} of {self._ranks} ranks")
        own: Any = {}
        if self.source is not None and self.source.inputs is not None:
            own = self.source.call("inputs", rank, self._ranks)
            if not isinstance(own, Mapping):
                fail("NKC007", name="inputs", why=f"a dict by parameter name is needed, not {type(own).__name__}")
        values = {name: value(rank) for name, value in self.values.items()}
        for name, kinds in self._kinds.items():
            if name in values:
                specs.check(name, values[name], kinds)
        self.replaced |= own.keys() & values.keys()
        return {**own, **values}


def trace(source: KernelFile | Module, world: World, target: str, inputs: Arguments) -> Module:
    """The penguin module of a kernel; a JSON program as it is, once its instructions are verified."""
    if isinstance(source, Module):
        source.verify()
        return source
    from nkicc import session

    return session.trace(source.kernel, ranks=world.ranks, lnc=world.lnc, target=target, inputs=inputs).module


def golden(source: KernelFile, ranks: int, inputs: Arguments, stage: Stage) -> tuple[list[Any] | None, list[str]]:
    """What the file's golden(rank, ranks) expects on every rank. None, with a note, if the run had other arguments than
    those of the file."""
    if inputs.replaced:
        names = ", ".join(sorted(inputs.replaced))
        return None, [f"golden() is not compared: it belongs to inputs(), of which --input replaces {names}"]
    expected = []
    for rank in range(ranks):
        stage(f"golden of rank {rank} of {ranks}")
        expected.append(source.call("golden", rank, ranks))
    return expected, []


def lower(module: Module, path: str | None, passes: str | None) -> Module:
    """The bir module after a pipeline (the default one if None; a bir program then stays as it is). NKC006 for the path
    of a codegen that has been already."""
    from nkicc import lowering

    if path is not None and module.level is Level.bir:
        fail("NKC006", option="--path", why="the program is at the bir level already, its codegen path is chosen")
    if passes is not None:
        return lowering.run_pipeline(module, passes, path=path or "loop")
    return module if module.level is Level.bir else lowering.lower(module, path=path or "loop")


def emit(module: Module, as_json: bool, file: Path | None) -> None:
    """Write a module as listing or JSON to stdout or a file (NKC115)."""
    text = module.to_json() if as_json else listing(module).removesuffix("\n")
    if file is None:
        document.write(text)
        return
    try:
        file.write_text(text + "\n")
    except (OSError, ValueError) as error:
        fail("NKC115", file=str(file), why=getattr(error, "strerror", None) or str(error), cause=error)


def check_writable(file: Path | None) -> None:
    """NKC115 for an output file that cannot be written, before the work is done."""
    if file is None:
        return
    if file.is_dir():
        fail("NKC115", file=str(file), why="it is a folder")
    if not file.parent.is_dir():
        fail("NKC115", file=str(file), why=f"there is no folder {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        fail("NKC115", file=str(file), why="permission denied")


@contextmanager
def progress(text: str) -> Iterator[Stage]:
    """Say on stderr what takes its time: at once on a terminal, else in a line now and then."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(text) as status:
            yield status.update
        return
    now = text
    done = threading.Event()
    start = time.monotonic()

    def stage(text: str) -> None:
        nonlocal now
        now = text

    def tell() -> None:
        with suppress(OSError, ValueError):
            while not done.wait(PATIENCE):
                print(f"nkicc: {now} ({time.monotonic() - start:.0f} s)", file=sys.stderr, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield stage
    finally:
        done.set()
        teller.join()
