"""The catalogue and the code agree: every code is raised somewhere, and nothing else refuses the user's input."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from nkicc.ir.errors import CATALOGUE, NkiccError, fail
from nkicc.ir.types import Loc

SRC = Path(__file__).parents[1] / "src" / "nkicc"
FILES = sorted(SRC.rglob("*.py"))

#: Exceptions that are no refusals: programming interfaces of Python, and control flow.
NOT_FOR_USERS = {
    "AssertionError",
    "AttributeError",  # module and attribute look-up
    "KeyError",
    "TypeError",  # a call that Python itself would refuse, or DType.of
    "ValueError",  # CollectiveKind.wire, whose text is the original's
    "Exit",
}


def refusals(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls of `fail` and of the builders' `refuse`, which adds the caller's line to it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in (
            "fail",
            "refuse",
        ):
            yield node


def strings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_code_is_raised_somewhere() -> None:
    used = {
        text for file in FILES if file.name != "errors.py" or file.parent.name != "ir"
        for text in strings(ast.parse(file.read_text()))
    }  # fmt: skip
    assert sorted(set(CATALOGUE) - used) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SRC)))
def test_every_raised_code_is_in_the_catalogue(file: Path) -> None:
    codes = [
        call.args[0].value
        for call in refusals(ast.parse(file.read_text()))
        if call.args and isinstance(call.args[0], ast.Constant)
    ]
    assert [code for code in codes if code not in CATALOGUE] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SRC)))
def test_every_refusal_fills_its_message(file: Path) -> None:
    for call in refusals(ast.parse(file.read_text())):
        keywords = {k.arg for k in call.keywords}
        if not call.args or not isinstance(call.args[0], ast.Constant) or None in keywords:
            continue
        entry = CATALOGUE[str(call.args[0].value)]
        text = entry.message + ("" if "hint" in keywords else entry.hint)
        slots = {name for _, name, _, _ in string.Formatter().parse(text) if name}
        assert slots <= keywords, f"{file.name}:{call.lineno} leaves out {sorted(slots - keywords)}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SRC)))
def test_nothing_else_is_raised(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call | ast.Name | ast.Attribute):
            target = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = getattr(target, "id", getattr(target, "attr", ""))
            assert not name[:1].isupper() or name in NOT_FOR_USERS, f"{file.name}:{node.lineno} raises {name}"


def test_every_message_names_its_fault() -> None:
    for code, entry in CATALOGUE.items():
        assert entry.message, code
        list(string.Formatter().parse(entry.message + entry.hint))


def test_the_report_has_code_place_line_and_help(tmp_path: Path) -> None:
    kernel = tmp_path / "k.py"
    kernel.write_text("first\n  ncc.all_reduce(x)\n")
    with pytest.raises(NkiccError) as caught:
        fail("NKC042", rank=3, groups="[[3, 3]]", operand="replica_groups", loc=Loc(str(kernel), 2, "f"))
    text = str(caught.value)
    assert text.startswith("NKC042: rank 3 is listed twice")
    assert "k.py:2 in f" in text
    assert "    ncc.all_reduce(x)\n    ^^^" in text
    assert "help: Groups of one operation are disjoint." in text
