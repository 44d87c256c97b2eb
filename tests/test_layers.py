"""Imports between the packages of nkicc point one way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "nkicc"

#: Package -> what it may import of nkicc, beside itself.
ALLOWED = {
    "ir": set(),
    "engines": {"ir"},
    "builder": {"ir"},
    "lowering": {"ir"},
    "verify": {"ir"},
    "simulator": {"engines", "ir"},
    "nki": {"builder", "ir"},
    "environment": {"ir"},
    "host": set(),
    "session": {"builder", "engines", "environment", "host", "ir", "lowering", "nki", "simulator", "verify"},
    "eager": {"environment", "host", "ir", "nki", "session"},
    "cli": {"", "builder", "engines", "environment", "ir", "lowering", "nki", "session", "simulator", "verify"},
    "testing": {"ir"},
    "pytest_plugin": {"", "session", "testing"},
    # The package itself hands out `run`, `activate` and NkiccError.
    "": {"alias", "ir", "session"},
    # Finds `nkicc.nki` by name, since it must not load it before it is asked to.
    "alias": {"ir"},
}


def package_of(file: Path) -> str:
    part = file.relative_to(SRC).parts[0]
    return "" if part == "__init__.py" else part.removesuffix(".py")


def imports_of(file: Path, source: str) -> set[str]:
    """The packages of nkicc that a file imports, wherever in the file."""
    here = ("nkicc", *file.relative_to(SRC).with_suffix("").parts)
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join((*here[: len(here) - node.level], *([base] if base else [])))
            # `from nkicc import session` imports a package by its last name.
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "nkicc" else [base]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == "nkicc":
                first = rest.partition(".")[0]
                found.add(first if first in ALLOWED else "")
    return found


@pytest.mark.parametrize("file", sorted(SRC.rglob("*.py")), ids=lambda file: str(file.relative_to(SRC)))
def test_imports_point_down(file: Path) -> None:
    package = package_of(file)
    assert package in ALLOWED, f"say in ALLOWED what {package} may import"
    found = imports_of(file, file.read_text())
    assert found <= ALLOWED[package] | {package}


def test_the_reader_of_imports_sees_every_form() -> None:
    file = SRC / "lowering" / "codegen.py"
    assert imports_of(file, "import nkicc.nki.language") == {"nki"}
    assert imports_of(file, "from nkicc import session") == {"session"}
    assert imports_of(file, "from nkicc import run") == {""}
    assert imports_of(file, "from nkicc.ir.types import DType") == {"ir"}
    assert imports_of(file, "def f():\n    from ..builder.codegen import NeuronCodegen") == {"builder"}
    assert imports_of(file, "from .pipeline import run") == {"lowering"}
    assert imports_of(file, "from .. import cli") == {"cli"}
    assert imports_of(file, "import numpy as np") == set()
