"""`nkicc run`, `build` and `lower` on kernels and on programs in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nkicc.ir.program import Level, Module

from .conftest import DATA, GIVEN, SUM, Cli


def test_run_shows_every_rank_and_its_error(cli: Cli, example: Path) -> None:
    done = cli("run", example, "--ranks", 3)
    assert done.code == 0, done.err
    header, *lines = done.out.splitlines()
    assert header.startswith("total: 3 ranks x 1 core, grid [1], trn2, simulator, ")
    assert "3 instructions, 1 collective" in header
    shown = [line.split() for line in lines if line[:4].strip().isdigit()]
    assert [row[:4] for row in shown] == [[str(rank), "y", "float32", "3x4"] for rank in range(3)]
    assert {tuple(row[8:]) for row in shown} == {("0", "/", "0")}
    assert lines[-1].startswith("digest of all ranks: ")


def test_run_as_json_has_the_numbers(cli: Cli, example: Path) -> None:
    done = cli("run", example, "--ranks", 3, "--json")
    assert done.code == 0
    found = done.json()
    assert found["kernel"] == "total"
    assert found["report"]["collectives"] == 1
    expected = sum(np.arange(12) * (rank + 1) + rank for rank in range(3))
    for rank, row in enumerate(found["rows"]):
        assert (row["rank"], row["min"], row["max"]) == (rank, expected.min(), expected.max())
        assert row["mean"] == expected.mean()
        assert row["golden"] == {"abs": 0.0, "rel": 0.0, "ok": True}


def test_json_of_many_ranks_is_not_folded_but_the_table_is(cli: Cli, example: Path) -> None:
    assert len(cli("run", example, "--ranks", 40, "--json").json()["rows"]) == 40
    table = cli("run", example, "--ranks", 40).out
    assert "\n0-39 " in table


def test_a_mismatch_with_golden_is_shown_and_fails(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(SUM + DATA + "OFF = 5\n")
    done = cli("run", file, "--ranks", 3)
    assert done.code == 1
    assert done.out.count("MISMATCH") == 1
    assert "error[NKC018]: y differs from golden() on rank(s) 1:" in done.err
    as_json = cli("run", file, "--ranks", 3, "--json")
    assert as_json.code == 1
    assert [row["golden"]["ok"] for row in as_json.json()["rows"]] == [True, False, True]
    assert as_json.json()["error"]["code"] == "NKC018"


def test_generated_inputs_follow_the_seed(cli: Cli, kernel: Path) -> None:
    runs = [cli("run", kernel, *GIVEN, "--seed", seed, "--json") for seed in (1, 1, 2)]
    assert [run.code for run in runs] == [0, 0, 0]
    assert runs[0].out == runs[1].out
    assert runs[0].json()["digest"] != runs[2].json()["digest"]


def test_out_holds_every_rank(cli: Cli, example: Path, tmp_path: Path) -> None:
    assert cli("run", example, "--ranks", 2, "--out", tmp_path / "o.npz").code == 0
    with np.load(tmp_path / "o.npz") as saved:
        assert sorted(saved) == ["rank0/y", "rank1/y"]
        np.testing.assert_array_equal(saved["rank1/y"], np.arange(12, dtype=np.float32).reshape(3, 4) * 3 + 1)
    assert cli("run", example, "--out", tmp_path / "no" / "o.npz").code == 2


def test_out_widens_types_that_numpy_lacks(cli: Cli, kernel: Path, tmp_path: Path) -> None:
    for dtype in ("bfloat16", "float8e4", "float8e5"):
        args = ("--input", f"x={dtype}[3,4]", "--input", "group=groups:all", "--out", tmp_path / "o.npz")
        assert cli("run", kernel, *args).code == 0
        with np.load(tmp_path / "o.npz") as saved:
            assert saved["rank3/y"].dtype == np.float32


def test_listing_prints_the_program_first(cli: Cli, example: Path) -> None:
    done = cli("run", example, "--listing")
    assert done.out.startswith("module bir  target=trn2  ranks=4  lnc=1\n")
    assert "\ntotal: 4 ranks" in done.out


def test_build_prints_what_the_builders_minted(cli: Cli, kernel: Path) -> None:
    done = cli("build", kernel, *GIVEN)
    assert done.code == 0, done.err
    assert done.out.startswith("module penguin  target=trn2  ranks=4  lnc=1\n")
    assert "AllReduceOp" in done.out
    assert "; sums.py:12" in done.out


def test_lower_prints_bir(cli: Cli, kernel: Path) -> None:
    done = cli("lower", kernel, *GIVEN, "--target", "trn3")
    assert done.out.startswith("module bir  target=trn3  ranks=4  lnc=1\n")
    assert "kind=AllReduce" in done.out


def test_the_path_decides_what_codegen_writes(cli: Cli, kernel: Path) -> None:
    loop, klr = (cli("lower", kernel, *GIVEN, "--passes", "codegen", "--path", path).out for path in ("loop", "klr"))
    assert "stream_id=0" in loop
    assert "stream_id" not in klr
    assert cli("run", kernel, *GIVEN, "--path", "klr").out == cli("run", kernel, *GIVEN).out


def test_output_files_and_stages_give_the_same_program(cli: Cli, kernel: Path, tmp_path: Path) -> None:
    penguin, bir = tmp_path / "penguin.json", tmp_path / "bir.json"
    assert cli("build", kernel, *GIVEN, "--json", "-o", penguin) == (0, "", "")
    assert cli("lower", kernel, *GIVEN, "--json", "-o", bir) == (0, "", "")
    assert Module.from_json(penguin.read_text()).level is Level.penguin
    assert cli("lower", penguin, "--json").out == bir.read_text()
    assert cli("build", penguin, "--json").out == penguin.read_text()
    assert cli("build", kernel, "-o", tmp_path / "no" / "x").code == 2


def test_programs_in_json_run_to_the_same_bits(cli: Cli, kernel: Path, tmp_path: Path) -> None:
    digests = {cli("run", kernel, *GIVEN, "--json").json()["digest"]}
    for command in ("build", "lower"):
        file = tmp_path / f"{command}.json"
        cli(command, kernel, *GIVEN, "--json", "-o", file)
        done = cli("run", file, "--json")
        assert done.code == 0, done.out
        digests.add(done.json()["digest"])
    assert len(digests) == 1


def test_programs_in_json_bring_their_own_world(cli: Cli, kernel: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    cli("lower", kernel, *GIVEN, "--ranks", 2, "--json", "-o", file)
    assert cli("run", file, "--ranks", 2).code == 0
    refused = cli("run", file, "--ranks", 3)
    assert refused.code == 2
    assert "--ranks: the program was built for 2, not 3" in refused.err
    for option, words in (
        ("x=float32[4,3]", "float32[4, 3], the program takes float32[3, 4]"),
        ("x=int32[3,4]", "int32[3, 4], the program takes float32[3, 4]"),
        ("x=3", "it is 3, "),
        ("z=3", "the program takes x"),
    ):
        refused = cli("run", file, "--input", option)
        assert refused.code == 2
        assert "NKC007" in refused.err
        assert words in refused.err


def test_pipelines(cli: Cli, kernel: Path) -> None:
    listed = cli("lower", "--list-passes")
    assert listed.code == 0
    for name in (
        "codegen",
        "sync-before-global-cc",
        "lower-local-collectives",
        "coalesce-multichannel-cc",
        "renumber-core-barriers",
        "infer-stream-ids",
    ):
        assert f"{name} " in listed.out
    default = cli("run", kernel, *GIVEN, "--json").json()["digest"]
    for passes in ("codegen", "codegen,sync-before-global-cc,lower-local-collectives{max-bpp=256},infer-stream-ids"):
        done = cli("run", kernel, *GIVEN, "--passes", passes, "--json")
        assert done.code == 0, done.out
        assert done.json()["digest"] == default
    for passes in ("codegen,frob", "codegen{frob=1}", "codegen{", ","):
        refused = cli("lower", kernel, *GIVEN, "--passes", passes)
        assert refused.code == 2, passes
        assert "NKC013" in refused.err


def test_kernels_are_found_by_type(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text(SUM)
    two = tmp_path / "two.py"
    two.write_text(
        "from shared import total, nki\nhelper = lambda: None\n"
        "@nki.jit\ndef one(x, group):\n    return total(x, group)\n"
    )
    alone = cli("run", two, *GIVEN)
    assert alone.code == 0, alone.err
    assert alone.out.startswith("one: ")
    assert cli("run", f"{two}:total", *GIVEN).out.startswith("total: ")
    unknown = cli("run", f"{two}:helper", *GIVEN)
    assert unknown.code == 2
    assert "error[NKC003]: " in unknown.err
    assert "has no kernel named helper; it has one" in unknown.err
    two.write_text(two.read_text() + "@nki.jit()\ndef three(x, group):\n    return total(x, group)\n")
    several = cli("run", two, *GIVEN)
    assert several.code == 2
    assert "holds 2 kernels: one, three" in several.err
    (tmp_path / "none.py").write_text("x = 1\n")
    assert "NKC004" in cli("run", tmp_path / "none.py").err


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("import nki\ndef f(:\n    pass\n", 2, "SyntaxError"),
        ("import nki\n\n1 / 0\n", 3, "ZeroDivisionError: division by zero"),
        ("import nki, no_such_module\n", 1, "No module named 'no_such_module'"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
    ],
)
def test_a_file_that_raises_is_named_with_its_line(cli: Cli, tmp_path: Path, text: str, line: int, words: str) -> None:
    file = tmp_path / "raises.py"
    file.write_text(text)
    done = cli("run", file)
    assert done.code == 1
    assert "error[NKC017]: raises.py raised " in done.err
    assert words in done.err
    assert f"raises.py:{line}" in done.err
    assert "^" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("function", ["inputs", "golden"])
def test_inputs_and_golden_that_raise_are_named_with_their_line(cli: Cli, tmp_path: Path, function: str) -> None:
    file = tmp_path / "raises.py"
    file.write_text(SUM + f"def {function}(rank, ranks):\n    return {{}}[rank]\n")
    done = cli("run", file, *GIVEN)
    assert done.code == 1
    assert f"error[NKC017]: {function}(0, 4) raised KeyError: 0" in done.err
    assert "raises.py:16" in done.err
    assert "return {}[rank]" in done.err


def test_findings_in_the_kernel_have_its_line(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text(SUM.replace("dsts=[all]", "dsts=[all.reshape((4, 3))]"))
    done = cli("run", file, *GIVEN)
    assert done.code == 1
    assert done.out == ""
    assert "error[NKC033]: " in done.err
    assert "bad.py:12 in total" in done.err
    assert "ncc.all_reduce(dsts=[all.reshape" in done.err
    as_json = cli("run", file, *GIVEN, "--json")
    assert as_json.code == 1
    assert as_json.json()["error"]["line"] == 12


def test_missing_and_unknown_arguments(cli: Cli, kernel: Path) -> None:
    missing = cli("run", kernel, "--input", "x=float32[3,4]")
    assert missing.code == 2
    assert "error[NKC007]: input 'group'" in missing.err
    unknown = cli("run", kernel, *GIVEN, "--input", "z=1")
    assert unknown.code == 2
    assert "error[NKC007]: input 'z'" in unknown.err


def test_a_truncated_program_is_refused(cli: Cli, kernel: Path, tmp_path: Path) -> None:
    text = cli("lower", kernel, *GIVEN, "--json").out
    assert json.loads(text)
    file = tmp_path / "p.json"
    for cut in (1, len(text) // 2, len(text) - 3):
        file.write_text(text[:cut])
        done = cli("run", file)
        assert done.code == 2
        assert done.err.startswith("error[NKC002]: ")


def test_a_kernel_file_inside_a_package_may_import_relatively(cli: Cli, tmp_path: Path) -> None:
    package = tmp_path / "mylib" / "kernels"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package.parent / "sizes.py").write_text("ROWS = 2\n")
    (package / "copy.py").write_text(
        "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nfrom ..sizes import ROWS\n\n\n"
        "@nki.jit\ndef copy(x):\n"
        "    out = nl.ndarray((ROWS, 4), dtype=x.dtype, buffer=nl.shared_hbm, name='out')\n"
        "    nisa.dma_copy(dst=out, src=x)\n    return out\n"
    )
    done = cli("run", f"{package / 'copy.py'}:copy", "--ranks", "2", "--input", "x=float32[2,4]")
    assert done.code == 0, done.err
    assert "out" in done.out


@pytest.mark.parametrize("what", ["SystemExit(0)", "SystemExit(3)", "GeneratorExit()", "Mute()"])
def test_a_kernel_that_ends_python_is_a_kernel_that_raises(cli: Cli, tmp_path: Path, what: str) -> None:
    file = tmp_path / "ends.py"
    mute = "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\n\n"
    file.write_text(mute + SUM.replace("    return y\n", f"    raise {what}\n"))
    done = cli("run", file, *GIVEN)
    assert done.code == 1
    assert "NKC005" in done.err
    assert f"raise {what}" in done.err
    assert cli("run", file, *GIVEN, "--json").json()["error"]["code"] == "NKC005"


def test_a_refused_argument_has_the_kernels_line(cli: Cli, kernel: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "scalar.npy", np.float32(1))
    error = cli("run", kernel, "--input", f"x={tmp_path}/scalar.npy", "--input", "group=groups:all", "--json").json()
    assert (error["error"]["code"], error["error"]["file"]) == ("NKC020", str(kernel))
