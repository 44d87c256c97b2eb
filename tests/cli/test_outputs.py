"""What a run compares, shows and saves, and how it answers what does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nkicc.cli.outcome import difference

from .conftest import GIVEN, SUM, Cli

# --- outputs, goldens and what a run says about them -----------------------------------------------------------------

IN_PLACE = """
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def add_all(x: nl.ndarray, group: ncc.ReplicaGroup, steps: int = 1):
    local = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="local")
    total = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="total")
    nisa.dma_copy(dst=local, src=x)
    ncc.all_reduce(dsts=[total], srcs=[local], replica_group=group, op=nl.add)
    nisa.dma_copy(dst=x, src=total)


def inputs(rank, ranks):
    return {"x": np.full((3, 4), rank + 1, np.float32), "group": ncc.ReplicaGroup([list(range(ranks))])}
"""


def in_place(folder: Path, golden: str) -> Path:
    """A file with a kernel that returns nothing, and the body of its golden()."""
    file = folder / "in_place.py"
    file.write_text(f"{IN_PLACE}\n\ndef golden(rank, ranks):\n    return {golden}\n")
    return file


@pytest.mark.parametrize("golden", ["np.full((3, 4), 6)", "{'x': np.full((3, 4), 6)}", "[np.full((3, 4), 6)]"])
@pytest.mark.parametrize("lnc", [1, 2])
def test_arguments_that_the_kernel_changed_are_outputs(cli: Cli, tmp_path: Path, golden: str, lnc: int) -> None:
    done = cli("run", in_place(tmp_path, golden), "--ranks", 3, "--lnc", lnc, "--out", tmp_path / "o.npz", "--json")
    assert done.code == 0, done.out
    assert [(row["output"], row["max"], row["golden"]["ok"]) for row in done.json()["rows"]] == [("x", 6.0, True)] * 3
    with np.load(tmp_path / "o.npz") as saved:
        assert sorted(saved) == ["rank0/x", "rank1/x", "rank2/x"]
        np.testing.assert_array_equal(saved["rank2/x"], np.full((3, 4), 6))


@pytest.mark.parametrize(
    ("golden", "words"),
    [
        ("None", "x differs from golden() on rank(s) 0-2: golden has no output 0, on rank 0"),
        ("{}", "golden has no output 0"),
        ("np.full((4, 3), 6)", "golden has shape [4, 3], the output [3, 4]"),
        ("np.full((3, 4), np.nan)", "0 of 12 elements are NaN, 12 should be by golden"),
        ("np.full((3, 4), 'a')", "golden has dtype <U1"),
        ("[np.full((3, 4), 6), 1]", "the number of outputs differs from golden()"),
        ("{'y': 1}", "it gives 'y', the kernel 'x'"),
        ("np.full((3, 4), 6 + (rank == 2))", "on rank(s) 2: largest relative error 0.143, on rank 2"),
    ],
)
def test_what_is_wrong_with_an_output_is_said(cli: Cli, tmp_path: Path, golden: str, words: str) -> None:
    file = in_place(tmp_path, golden)
    done = cli("run", file, "--ranks", 3)
    assert done.code == 1
    assert "error[NKC018]: " in done.err
    assert words in done.err
    assert "inf" not in done.err
    assert cli("run", file, "--ranks", 3, "--no-golden").code == 0


def test_a_changed_argument_beside_a_result_needs_no_golden(cli: Cli, tmp_path: Path) -> None:
    file = in_place(tmp_path, "np.full((3, 4), 6)")
    file.write_text(file.read_text().replace("src=total)\n", "src=total)\n    return total\n"))
    done = cli("run", file, "--ranks", 3, "--allow-io")
    assert done.code == 0, done.err
    assert [line.split()[1] for line in done.out.splitlines() if line[:4].strip().isdigit()] == ["total", "x"] * 3


def test_golden_belongs_to_the_inputs_of_the_file(cli: Cli, example: Path) -> None:
    for option in (("--input", "x=float32[3,4]"), ("--input", "group=groups:[[0,1],[2,3]]")):
        done = cli("run", example, *option)
        assert done.code == 0, done.err
        name = option[1].partition("=")[0]
        assert f"\nnote: golden() is not compared: it belongs to inputs(), of which --input replaces {name}" in done.out
        assert "error abs" not in done.out
    assert len(cli("run", example, *option, "--json").json()["notes"]) == 1
    assert cli("run", example, "--json").json()["notes"] == []


def test_outputs_without_a_name_are_called_after_their_place(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text(
        "import nki, nki.isa as nisa, nki.language as nl\n@nki.jit\ndef two(x):\n"
        "    a, b = [nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(2)]\n"
        "    c = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name='c')\n"
        "    nisa.dma_copy(dst=a, src=x)\n    nisa.dma_copy(dst=c, src=b)\n    return a, b, c\n"
    )
    done = cli("run", file, "--input", "x=float32[3,4]", "--ranks", 1)
    rows = {row[1]: " ".join(row[8:]) for row in map(str.split, done.out.splitlines()) if row[:1] == ["0"]}
    assert rows == {"out0": "", "out1": "never written", "c": "all NaN"}
    cli("lower", file, "--input", "x=float32[3,4]", "--ranks", 1, "--json", "-o", tmp_path / "p.json")
    assert cli("run", tmp_path / "p.json", "--json").json()["digest"] in done.out


def test_no_line_ends_in_a_blank(cli: Cli, example: Path) -> None:
    done = cli("run", example)
    assert [line for line in done.out.splitlines() if line != line.rstrip()] == []
    failed = cli("run", example, "--ranks", 2, "--input", "group=groups:[[0,1,2]]", "--json").json()["error"]
    assert failed["code"] == "NKC041"
    assert failed["hint"] == failed["hint"].strip()


@pytest.mark.parametrize("lnc", [1, 2])
def test_every_instruction_of_every_core_counts(cli: Cli, tmp_path: Path, lnc: int) -> None:
    done = cli("run", in_place(tmp_path, "None"), "--no-golden", "--lnc", lnc, "--json").json()
    assert (done["report"]["instructions"], done["report"]["collectives"]) == (3 * lnc, 1)


def test_random_inputs_of_a_program_in_json_are_mentioned(cli: Cli, kernel: Path, tmp_path: Path) -> None:
    cli("lower", kernel, *GIVEN, "--json", "-o", tmp_path / "p.json")
    assert "\nnote: random inputs: x (seed 7)\n" in cli("run", tmp_path / "p.json", "--seed", 7).out
    assert "random" not in cli("run", tmp_path / "p.json", "--input", "x=float32[3,4]").out


# --- options that have nothing to act on -----------------------------------------------------------------------------


def test_no_option_is_ignored(cli: Cli, kernel: Path, tmp_path: Path) -> None:
    bir = tmp_path / "bir.json"
    cli("lower", kernel, *GIVEN, "--json", "-o", bir)
    listed = cli("run", bir, "--json", "--listing").json()["listing"]
    assert listed == cli("lower", bir).out
    for args, words in (
        (("run", bir, "--path", "klr"), "--path: the program is at the bir level already"),
        (("lower", bir, "--path", "loop"), "--path: the program is at the bir level already"),
        (("build", bir), "is at the bir level already"),
        (("lower", kernel, *GIVEN, "--passes", "codegen,codegen"), "codegen is given twice"),
    ):
        refused = cli(*args)
        assert refused.code == 2
        assert refused.out == ""
        assert words in refused.err


def test_passes_explain_themselves(cli: Cli, kernel: Path) -> None:
    from nkicc.lowering import DEFAULT

    for command in ("run", "lower"):
        text = " ".join(cli(command, "--help").out.split())
        assert DEFAULT in text.replace("- ", "-").replace(", ", ",")
        assert "lower-local-collectives{max-bpp=256}" in text
    listed = cli("lower", "--list-passes").out
    assert "{max-bpp=1024}" in listed
    assert f"default:    {DEFAULT}\n" in listed
    for passes, words in (
        ("codegen,lower-local-collectives:max-bpp=4", "options stand in braces: lower-local-collectives{max-bpp=4}"),
        ("codegen infer-stream-ids", "passes are separated by commas: codegen,infer-stream-ids"),
        ("codgen", "did you mean 'codegen'?"),
        ("codegen,lower-local-collectives{max-bpp=x}", "max-bpp: expected int, got str\n"),
    ):
        refused = cli("lower", kernel, *GIVEN, "--passes", passes)
        assert words in refused.err
        assert refused.err.count("{max-bpp=256}") == 1


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("x=3", "input 'x': it is 3, the kernel says an array"),
        ("group=all", "input 'group': it is 'all', the kernel says ReplicaGroup"),
        ("steps=foo", "input 'steps': it is 'foo', the kernel says int"),
        ("steps=float32[3]", "input 'steps': it is an array float32[3], the kernel says int"),
        ("x=float64[3,4]", "float64 is no data type of the machine; it has uint8, "),
        ("x=float32[3,]", "[3,] is no shape"),
    ],
)
def test_values_are_held_against_the_annotations(cli: Cli, tmp_path: Path, option: str, words: str) -> None:
    refused = cli("run", in_place(tmp_path, "None"), "--input", option)
    assert refused.code == 2
    assert words in refused.err


def test_all_missing_inputs_are_named_at_once(cli: Cli, tmp_path: Path) -> None:
    file = in_place(tmp_path, "None")
    file.write_text(file.read_text().partition("def inputs")[0])
    refused = cli("run", file)
    assert refused.code == 2
    assert "input 'x': it is missing and has no default; so are 'group'\n" in refused.err
    assert "--input NAME=SPEC" in refused.err
    assert " at " not in refused.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("golden = 3", "input 'golden': "),
        ("inputs = {}", "defines it as dict, not as inputs(rank, ranks)"),
        ("def inputs(rank, ranks): return [1]", "a dict by parameter name is needed, not list"),
    ],
)
def test_inputs_and_golden_are_functions(cli: Cli, kernel: Path, text: str, words: str) -> None:
    kernel.write_text(f"{SUM}{text}\n")
    refused = cli("run", kernel)
    assert refused.code == 2
    assert words in refused.err


@pytest.mark.parametrize("wrapper", ["", "@functools.cache\n"])
def test_a_golden_of_another_form_is_named_with_its_line(cli: Cli, kernel: Path, wrapper: str) -> None:
    kernel.write_text(f"import functools\n{SUM}{wrapper}def golden(rank): pass\n")
    done = cli("run", kernel, *GIVEN)
    assert done.code == 1
    assert "golden(0, 4) raised TypeError" in done.err
    assert "sums.py:16" in done.err
    assert "nothing was run" not in done.err


def test_a_file_without_kernels_says_what_one_is(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("x = 1\n")
    err = cli("run", tmp_path / "none.py").err
    assert "none.py holds no kernel\n" in err
    assert "help: A kernel is a function under @nki.jit." in err


@pytest.mark.parametrize(("command", "option"), [("run", "--out"), ("build", "-o"), ("lower", "-o")])
def test_output_files_are_checked_first(cli: Cli, tmp_path: Path, command: str, option: str) -> None:
    kernel, ran = tmp_path / "k.py", tmp_path / "ran"
    kernel.write_text(f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n")
    for file, why in ((tmp_path / "no" / "x", "there is no folder"), (tmp_path, "it is a folder")):
        refused = cli(command, kernel, option, file)
        assert refused.code == 2
        assert f"error[NKC115]: {file} cannot be written: {why}" in refused.err
    assert not ran.exists()


def test_a_long_run_says_where_it_is(cli: Cli, example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nkicc.cli.job.PATIENCE", 0.01)
    example.write_text(
        example.read_text().replace("    return sum(", "    __import__('time').sleep(0.2)\n    return sum(")
    )
    done = cli("run", example, "--ranks", 2, "--json")
    assert done.json()["digest"]
    assert "nkicc: golden of rank 1 of 2 (" in done.err


TALKS = """
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl

print("on import")
X = np.full((2, 2), 7, np.int32)


@nki.jit
def talks(x):
    print("while traced")
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(dst=tile, src=x)
    nl.device_print("tile", tile)
    y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nisa.dma_copy(dst=y, src=tile)
    return y


def inputs(rank, ranks):
    print("inputs")
    return {"x": X}
"""


@pytest.mark.parametrize(
    "command", [["run"], ["run", "--listing"], ["check"], ["check", "--seeds", "1"], ["build"], ["lower"]]
)
def test_what_a_kernel_prints_is_not_in_the_json(cli: Cli, tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "talks.py"
    file.write_text(TALKS)
    done = cli(*command[:1], file, "--json", *command[1:])
    assert done.code == 0
    assert isinstance(json.loads(done.out), dict)
    runs = command[0] in ("run", "check")
    for text in ("on import", "while traced", "inputs", *(["tile [ranks 0-3, core 0] int32[2, 2]"] if runs else [])):
        assert text in done.err
    if command[0] == "run":
        assert done.json()["report"]["printed"] == ["tile [ranks 0-3, core 0] int32[2, 2]\n[[7 7]\n [7 7]]"]


def test_what_a_kernel_prints_is_shown_once(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "talks.py"
    file.write_text(TALKS)
    done = cli("run", file)
    assert done.out.count("tile [ranks 0-3, core 0]") == 1
    assert done.err == ""


@pytest.mark.parametrize(
    ("golden", "ok"),
    [
        ([(1 << 53) + 1, (1 << 64) - 1], True),
        ([1 << 53, (1 << 64) - 1], False),
        ([(1 << 53) + 1, (1 << 64) - 2], False),
        ([(1 << 53) + 1, -1], False),
    ],
)
def test_integers_of_64_bits_are_compared_exactly(golden: list[int], ok: bool) -> None:
    array = np.array([(1 << 53) + 1, (1 << 64) - 1], np.uint64)
    expected = np.array(golden, np.int64 if golden[1] < 0 else np.uint64)
    found = difference(array, expected, 0)
    assert found is not None
    assert found.ok is ok
    assert (found.abs > 0) is not ok
