"""Bad usage and bad files: one coded error, exit code 2, never a traceback; and the process-level manners."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nkicc.ir.errors import CATALOGUE
from nkicc.ir.pages import PAGES

from .conftest import Cli

NKICC = [sys.executable, "-m", "nkicc.cli"]


def test_version_loads_no_array_library() -> None:
    """Start-up stays quick because nothing heavy is imported before it is needed."""
    code = (
        "import sys; sys.argv = ['nkicc', '--version']\n"
        "import nkicc.cli\n"
        "try: nkicc.cli.main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'ml_dtypes', 'rich.table'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    version, loaded = done.stdout.splitlines()
    assert version.startswith("nkicc 0.")
    assert loaded == "[]"


def test_no_arguments_show_the_help(cli: Cli) -> None:
    done = cli()
    assert done.code == 0
    for command in ("check", "run", "build", "lower", "explain"):
        assert f"\n  {command} " in done.out


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["frob"], "NKC006", "frob"),
        (["run"], "NKC006", "FILE"),
        (["run", "x.py", "--frob"], "NKC006", "--frob"),
        (["run", "x.py", "--ranks", "many"], "NKC006", "--ranks"),
        (["run", "x.py", "--ranks", "0"], "NKC006", "--ranks"),
        (["run", "x.py", "--ranks", "99999999999"], "NKC006", "--ranks"),
        (["run", "x.py", "--lnc", "3"], "NKC006", "--lnc"),
        (["run", "x.py", "--target", "tpu"], "NKC006", "--target"),
        (["run", "x.py", "--path", "left"], "NKC006", "--path"),
        (["run", "no/such.py"], "NKC001", "no/such.py"),
        (["build", "no/such.py:kernel"], "NKC001", "no/such.py"),
        (["lower", "no\0such.json"], "NKC001", "no"),
        (["run", "."], "NKC001", "directory"),
    ],
)
def test_bad_usage(cli: Cli, args: list[str], code: str, words: str) -> None:
    done = cli(*args)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith(f"error[{code}]: ")
    assert words in done.err
    assert done.err.count("error[") == 1
    assert "Traceback" not in done.err


def test_errors_as_json(cli: Cli) -> None:
    for args in (["run", "no.py", "--json"], ["run", "no.py", "--json", "--frob"]):
        done = cli(*args)
        assert done.code == 2
        assert done.err == ""
        assert done.json()["error"]["code"] in ("NKC001", "NKC006")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[1, 2]",
        '{"level": "bir"}',
        '{"level": "bir", "world": {"ranks": 0}, "target": "trn2", "programs": []}',
        '{"level": "bir", "world": {"ranks": 1}, "target": "trn2", "programs": [], "version": 99}',
        '{"level": "bir", "world": {"ranks": 1}, "target": "trn2", "programs": [], "extra": 1}',
        "[" * 200_000,
        '{"a":' * 100_000,
        "9" * 100_000,
        "\ud800",
    ],
    ids=lambda text: text[:40],
)
def test_files_that_are_no_program(cli: Cli, tmp_path: Path, text: str) -> None:
    file = tmp_path / "p.json"
    file.write_bytes(text.encode(errors="surrogatepass"))
    done = cli("run", file)
    assert done.code == 2
    assert done.err.startswith("error[NKC002]: ")
    assert len(done.err) < 2_000


def test_a_fault_of_nkicc_asks_for_a_report(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nkicc.ir.program

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of our own making")

    file = tmp_path / "p.json"
    file.write_text("{}")
    monkeypatch.setattr(nkicc.ir.program.Module, "from_json", broken)
    done = cli("run", file)
    assert done.code == 1
    assert "error[NKC-internal]: nkicc itself failed: ZeroDivisionError: of our own making" in done.err
    assert "report it" in done.err
    assert "Traceback" not in done.err
    monkeypatch.setenv("NKICC_DEBUG", "1")
    assert "Traceback" in cli("run", file).err


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["run", "no.py", "--json"]])
def test_a_closed_pipe_is_no_error(args: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*NKICC, *args], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 1


def test_ctrl_c_is_quiet(tmp_path: Path) -> None:
    kernel = tmp_path / "slow.py"
    started = tmp_path / "started"
    kernel.write_text(f"import time, pathlib\npathlib.Path({str(started)!r}).touch()\ntime.sleep(60)\n")
    # A background job inherits an ignored SIGINT, with which no Ctrl-C would ever arrive.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        process = subprocess.Popen(
            [*NKICC, "run", str(kernel)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 30
    while not started.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert started.exists()
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")


def test_json_errors_are_one_document(cli: Cli) -> None:
    assert list(json.loads(cli("run", "no.py", "--json").out)) == ["error"]


# --- nkicc explain ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", CATALOGUE)
def test_explain_prints_every_code(cli: Cli, code: str) -> None:
    done = cli("explain", code)
    assert done.code == 0
    first, *rest = done.out.splitlines()
    assert first == f"{code}  {CATALOGUE[code].title.rstrip()}".rstrip()
    assert any(line.startswith("Source ") for line in rest)


def test_explain_prints_the_longer_page_and_takes_small_letters(cli: Cli) -> None:
    done = cli("explain", "nkc100")
    assert done.code == 0
    for line in PAGES["NKC100"].splitlines():
        assert line in done.out.splitlines()


@pytest.mark.parametrize(("code", "near"), [("NKC10", "NKC100"), ("NKC999", "NKC"), ("BIR067", "BIR066")])
def test_explain_of_no_code_names_near_ones(cli: Cli, code: str, near: str) -> None:
    done = cli("explain", code)
    assert done.code == 2
    assert f"there is no code '{code}'; the nearest are" in done.err
    assert near in done.err


def test_a_machine_without_memory_is_told(cli: Cli, example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError("no 40 GB left")

    monkeypatch.setattr("nkicc.cli.outcome.rows", exhausted)
    done = cli("run", example)
    assert done.code == 1
    assert "NKC116" in done.err
    assert "no 40 GB left" in done.err
