"""The documents say what is so: outputs in the README are real, tables name what exists."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
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


def code_block(word: str) -> str:
    """The Python block of the README that holds a word."""
    return next(block for block in re.findall(r"```python\n(.*?)```", README, re.S) if word in block)


def test_the_readmes_builder_program_prints_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "build.py").write_text(code_block("NeuronCodegen"))
    done = subprocess.run([sys.executable, "build.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert shown(done.stdout) in README


def test_the_readmes_commands_run_on_its_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernel.py").write_text(code_block("@nki.jit"))
    for rank in range(4):
        np.save(tmp_path / f"grad_{rank}.npy", np.full((128, 512), rank, np.float32))
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^nkicc .*", README, re.M)
    assert len(commands) == 8
    for command in commands:
        assert invoke(shlex.split(command, comments=True)[1:]) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert "all_reduce: 8 ranks x 2 cores" in out
    with np.load("results.npz") as saved:
        np.testing.assert_array_equal(saved["rank3/result"], 6)


def test_the_readmes_findings_are_real(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernel.py").write_text(code_block("@nki.jit").replace("srcs=[local]", "srcs=[grad]"))
    monkeypatch.chdir(tmp_path)
    assert invoke(["check", "kernel.py", "--lnc", "2"]) == 1
    assert shown(capsys.readouterr().out) in README


def test_the_readmes_call_from_python_runs(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(code_block("@nki.jit"))
    (tmp_path / "main.py").write_text(code_block("nkicc.run(") + "\nprint(result.outputs[3][0, 0], result)\n")
    done = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "28.0 <Result of all_reduce on 8 rank(s) x 2 core(s): float32[128, 512] on rank 0>\n"


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


@pytest.mark.parametrize(
    "name", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs/decisions.md", "docs/ops.md", "docs/checks.md"]
)
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
