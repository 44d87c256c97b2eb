"""FILE[:KERNEL]: a kernel out of a Python file, or a module out of JSON."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from msgspec import Struct

import nkicc
from nkicc.ir.errors import USER_ERRORS, NkiccError, fail, text_of
from nkicc.ir.program import Module
from nkicc.ir.types import Loc
from nkicc.nki import Kernel

__all__ = ["KernelFile", "load", "users_code"]

#: Bytes of the largest program that is read, some million instructions.
LARGEST = 1 << 29


class KernelFile(Struct, frozen=True):
    """A kernel with what its file defines beside it: `inputs(rank, ranks)` gives the arguments of a rank by name,
    `golden(rank, ranks)` what the kernel must return there."""

    file: str
    name: str
    kernel: Kernel
    inputs: Callable[[int, int], Any] | None = None
    golden: Callable[[int, int], Any] | None = None

    def call(self, name: Literal["inputs", "golden"], rank: int, ranks: int) -> Any:
        """What `inputs` or `golden` returns for a rank. NKC017 if it raises."""
        function = getattr(self, name)
        code = getattr(inspect.unwrap(function), "__code__", None)
        file, line = (code.co_filename, code.co_firstlineno) if code else (self.file, None)
        with users_code(f"{name}({rank}, {ranks})", file, line):
            return function(rank, ranks)


def load(spec: str) -> KernelFile | Module:
    """Read `FILE[:KERNEL]`. A file that ends in .py is Python, anything else is JSON.

    NKC001: the file cannot be read. NKC002: it is no program. NKC003, NKC004: kernel unknown or ambiguous. NKC017: the
    file raised while it was imported.
    """
    file, _, kernel = spec.rpartition(":") if ":" in spec and not Path(spec).exists() else (spec, "", "")
    path = Path(file)
    try:
        with path.open("rb") as stream:
            # A pipe tells its size only when it has been read.
            size = os.fstat(stream.fileno()).st_size
            data = stream.read(LARGEST + 1) if size <= LARGEST else b""
    except (OSError, ValueError) as error:
        fail("NKC001", file=file, why=getattr(error, "strerror", None) or str(error), cause=error)
    if max(size, len(data)) > LARGEST:
        fail("NKC001", file=file, why=f"it is larger than {LARGEST >> 20} MiB")
    if path.suffix == ".py":
        return _kernel_file(_import(path.resolve()), file, kernel)
    if kernel:
        fail("NKC003", file=file, kernel=kernel, available="a program in JSON, which has no kernels")
    return Module.from_json(data, file=file)


@contextmanager
def users_code(what: str, file: str, start: int | None = None) -> Iterator[None]:
    """Turn whatever the user's own Python raises into NKC017 with the innermost line of `file`, or `start` if it is
    raised before the first."""
    try:
        yield
    except NkiccError:
        raise
    except USER_ERRORS as error:
        line = error.lineno if isinstance(error, SyntaxError) and error.filename == file else start
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == file:
                line = frame.lineno
        text = error.msg if isinstance(error, SyntaxError) else text_of(error)
        fail(
            "NKC017",
            what=what,
            kind=type(error).__name__,
            text=text,
            loc=Loc(file, line) if line else None,
            cause=error,
        )


def _import(path: Path) -> ModuleType:
    """The file as a module: by its dotted name if it lies in a package, so that its relative imports resolve, else
    under its stem, importing from its own folder as `python FILE` would."""
    nkicc.activate()
    folder, names = path.parent, [path.stem]
    while (folder / "__init__.py").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    name = ".".join(names)
    if len(names) > 1:
        with users_code(path.name, str(path)):
            return importlib.import_module(name)
    taken = sys.modules.get(name)
    if taken is not None and getattr(taken, "__file__", None) != str(path):
        name = f"{name}_kernel"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        fail("NKC001", file=str(path), why="it is not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    with users_code(path.name, str(path)):
        spec.loader.exec_module(module)
    return module


def _kernel_file(module: ModuleType, file: str, wanted: str) -> KernelFile:
    found = {name: value for name, value in vars(module).items() if isinstance(value, Kernel)}
    own = {name: value for name, value in found.items() if value.__module__ == module.__name__}
    candidates = own or found
    available = ", ".join(candidates) or "none"
    if wanted:
        kernel = found.get(wanted)
        if kernel is None:
            fail("NKC003", file=file, kernel=wanted, available=available)
    elif len(candidates) == 1:
        wanted, kernel = next(iter(candidates.items()))
    elif not candidates:
        fail("NKC004", file=file, kernels="no kernel", hint="A kernel is a function under @nki.jit.")
    else:
        fail("NKC004", file=file, kernels=f"{len(candidates)} kernels: {available}")
    own_functions = {name: getattr(module, name, None) for name in ("inputs", "golden")}
    for name, function in own_functions.items():
        if function is not None and not callable(function):
            fail("NKC007", name=name, why=f"{file} defines it as {type(function).__name__}, not as {name}(rank, ranks)")
    return KernelFile(module.__file__ or file, wanted, kernel, **own_functions)
