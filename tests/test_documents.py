"""The documents say what is so: outputs in the README are real, tables name what exists."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import get_args

import pytest

from nkicc.builder import NeuronCodegen
from nkicc.cli.app import invoke
from nkicc.ir.bir import CollectiveKind
from nkicc.ir.program import PENGUIN
from nkicc.lowering import PASSES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def shown(text: str) -> str:
    """Text as the README shows it: without trailing blanks."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def test_the_readmes_first_run_is_real(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert invoke(["run", "examples/all_reduce.py", "--ranks", "4"]) == 0
    assert shown(capsys.readouterr().out) in README


def test_the_readmes_error_is_real(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    args = ["run", "examples/all_reduce.py", "--ranks", "2", "--lnc", "2", "--input", "group=groups:[[0,1,2,3]]"]
    assert invoke(args) == 1
    assert shown(capsys.readouterr().err) in README


def test_the_readmes_kernel_is_the_example() -> None:
    text = (ROOT / "examples" / "all_reduce.py").read_text()
    assert text.split('"""')[2].strip() in README


def test_the_readmes_builder_program_prints_what_it_says() -> None:
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "NeuronCodegen" in block)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "readme.py", "exec"), {})
    assert shown(re.sub(r" +; readme.py:\d+", "", printed.getvalue())) in README


def test_the_roster_is_the_builders() -> None:
    rows = re.findall(r"^\| \d+ \| `(\w+)` \|", (ROOT / "docs" / "roster.md").read_text(), re.M)
    assert len(rows) == len(set(rows)) == 25
    for name in rows:
        assert callable(getattr(NeuronCodegen, name)), name
    builders = {name for name in vars(NeuronCodegen) if name.endswith(("_cc", "_cc_raw"))}
    assert builders - set(rows) == {"all_gather_v_cc_raw", "all_to_all_v_cc_raw"}


def test_the_table_of_ops_is_complete() -> None:
    text = (ROOT / "docs" / "ops.md").read_text()
    rows = re.findall(r"^\| `(\w+)`", text, re.M)
    assert set(rows) == {op.__name__ for op in get_args(PENGUIN)}
    for name, number in re.findall(r"\| (\w+) \((\d+)\) \|", text):
        assert CollectiveKind(name).number == int(number)


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs/decisions.md", "docs/ops.md"])
def test_files_and_passes_that_documents_name_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (ROOT / name).parent.joinpath(target).exists(), target
    for file in re.findall(r"`((?:examples|benchmarks|tests|docs)/[\w/]+\.\w+)`", text):
        assert (ROOT / file).exists(), file
    for file in re.findall(r"`((?:ir|lowering|simulator|verify|nki|cli)/\w+\.py)`", text):
        assert (ROOT / "src" / "nkicc" / file).exists(), file
    for word in re.findall(r"`([a-z]+(?:-[a-z]+){2,})`", text):
        assert word in PASSES, word
