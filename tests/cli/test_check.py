"""`nkicc check`: findings, their reports in three forms, perturbed runs, exit codes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from nkicc.cli.sarif import document
from nkicc.ir.errors import CATALOGUE, Related
from nkicc.ir.findings import Severity, finding
from nkicc.ir.types import Loc

from .conftest import Cli

EXAMPLES = Path(__file__).parents[2] / "examples"

#: A rank takes what its ring neighbour sends, and keeps it: right for every ring order only if it asks for its source.
RING = """
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def shift(x, group):
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
    dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    nisa.dma_copy(dst=src, src=x)
    ncc.collective_permute_implicit(
        srcs_by_channel=[[src]], dsts_by_channel=[[dst]], replica_group=group, channel_ids=[0]
    )
    nisa.dma_copy(dst=y, src=dst)
    return y


def inputs(rank, ranks):
    return {"x": np.full((4, 4), rank, np.float32), "group": ncc.ReplicaGroup([list(range(ranks))])}
"""
SHIFT = """
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def shift(x):
    sent = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="sent")
    got = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="got")
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.dma_copy(dst=sent, src=tile)
    nisa.dma_copy(dst=got, src=x)
    ncc.collective_permute(dsts=[got], srcs=[sent], source_target_pairs=[(0, 1), (1, 2), (2, 3)])
    nisa.dma_copy(dst=y, src=got)
    return y


def inputs(rank, ranks):
    return {"x": np.full((4, 4), 100.0 * rank, np.float32)}
"""
BARRIER = """
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def wait(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    nisa.dma_copy(dst=y, src=x)
    if nl.program_id(0) == 0:
        nisa.core_barrier(y, (0, 1))
    return y


def inputs(rank, ranks):
    return {"x": np.full((4, 4), rank, np.float32)}
"""


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    file = tmp_path / "ring.py"
    file.write_text(RING)
    return file


@pytest.fixture
def barrier(tmp_path: Path) -> Path:
    file = tmp_path / "barrier.py"
    file.write_text(BARRIER)
    return file


@pytest.mark.parametrize("example", ["ring_all_gather", "core_barrier", "sequence_parallel"])
def test_correct_kernels_are_clean(cli: Cli, example: str) -> None:
    done = cli("check", EXAMPLES / f"{example}.py", "--lnc", 2, "--seeds", 2)
    assert done.code == 0, done.out
    assert "error" not in done.out
    assert "(static checks, one run, golden(), 2 perturbed runs)" in done.out


def test_a_finding_has_place_line_caret_and_help(cli: Cli, barrier: Path) -> None:
    done = cli("check", barrier, "--lnc", 2, "--ranks", 2)
    assert done.code == 1
    assert done.out.startswith("error[")
    assert f"barrier.py:{BARRIER.splitlines().index('        nisa.core_barrier(y, (0, 1))') + 1} in wait" in done.out
    assert " | nisa.core_barrier(y, (0, 1))\n" in done.out
    assert "^" in done.out
    assert "help: " in done.out
    assert "wait: 1 error (" in done.out


def test_a_fault_is_found_without_running(cli: Cli, example: Path) -> None:
    done = cli("check", example, "--no-run", "--input", "group=groups:[[0,9]]", "--json")
    assert done.code == 1
    assert [f["code"] for f in done.json()["findings"]] == ["NKC041"]


def test_a_difference_from_golden_is_a_finding(cli: Cli, example: Path) -> None:
    example.write_text(example.read_text().replace("OFF = 0", "OFF = 5"))
    done = cli("check", example, "--allow-io", "--json")
    assert done.code == 1
    assert "NKC018" in [f["code"] for f in done.json()["findings"]]
    assert cli("check", example, "--allow-io", "--no-golden").code == 0


def test_a_kernel_that_counts_on_its_neighbour_is_found_and_repeated(cli: Cli, ring: Path) -> None:
    assert cli("check", ring).code == 0
    done = cli("check", ring, "--seeds", "5", "--json")
    assert done.code == 1
    (found,) = [f for f in done.json()["findings"] if f["severity"] == "error"]
    assert found["code"] == "NKC180"
    assert "depends on the ring order" in found["message"]
    assert found["ranks"]
    repeat = done.json()["repeat"]
    assert repeat in found["related"][-1]["message"]
    again = cli(*shlex.split(repeat)[1:])
    assert "--schedule" not in repeat
    assert again.code == 1
    assert [f["message"] for f in again.json()["findings"]] == [f["message"] for f in done.json()["findings"]]


def test_a_kernel_that_counts_on_what_a_permute_leaves_is_found(cli: Cli, tmp_path: Path) -> None:
    shift = tmp_path / "shift.py"
    shift.write_text(SHIFT)
    assert cli("check", shift).code == 0
    done = cli("check", shift, "--seeds", "2", "--json").json()
    (found,) = [f for f in done["findings"] if f["severity"] == "error"]
    assert (found["code"], found["ranks"]) == ("NKC180", [0])
    assert "depends on the content of fresh memory" in found["message"]
    assert done["repeat"].endswith("--poison 1")
    again = cli(*shlex.split(done["repeat"])[1:])
    assert again.code == 1


@pytest.fixture
def unfilled(tmp_path: Path) -> Path:
    """What rank 0, the target of no pair, returns has never been written."""
    file = tmp_path / "shift.py"
    file.write_text(SHIFT.replace("    nisa.dma_copy(dst=got, src=x)\n", ""))
    return file


def test_a_result_that_holds_fresh_memory_is_said_once(cli: Cli, unfilled: Path) -> None:
    for options in ((), ("--seeds", "2")):
        done = cli("check", unfilled, "--json", *options)
        assert (done.code, done.json()["errors"]) == (0, 0)
        assert [f["code"] for f in done.json()["findings"] if f["code"] in ("NKC122", "NKC180")] == ["NKC122"]
    asked = cli("check", unfilled, "--json", "--poison", "2").json()
    (found,) = [f for f in asked["findings"] if f["code"] == "NKC180"]
    assert found["ranks"] == [0]
    assert "golden" not in found["message"]


def test_strict_goes_for_what_is_seen_while_running(cli: Cli, tmp_path: Path) -> None:
    half = tmp_path / "half.py"
    half.write_text(
        BARRIER.replace("    if nl.program_id(0) == 0:\n        nisa.core_barrier(y, (0, 1))\n", "").replace(
            "nisa.dma_copy(dst=y, src=x)", "nisa.dma_copy(dst=y[:2], src=x[:2])"
        )
    )
    program = half.with_suffix(".json")
    assert cli("lower", half, "--json", "-o", program).code == 0
    for file in (half, program):
        assert cli("run", file).code == 0
        strict = cli("run", file, "--strict")
        assert strict.code == 1
        assert "error[NKC122]" in strict.err


def test_strict_does_not_end_a_check(cli: Cli, unfilled: Path) -> None:
    """The run tells more, whatever a machine would say."""
    codes = {
        strict: [f["code"] for f in cli("check", unfilled, "--json", *strict).json()["findings"]]
        for strict in ((), ("--strict",))
    }
    assert sorted(codes[()]) == sorted(codes["--strict",])
    assert {"NKC122", "NKC158"} <= set(codes[()])
    assert cli("check", unfilled, "--strict").code == 1


def test_what_was_done_counts_the_run_that_failed(cli: Cli, ring: Path) -> None:
    assert "one run, 1 perturbed run" in ", ".join(cli("check", ring, "--seeds", "1", "--json").json()["done"])


def test_infinities_are_named_if_asked(cli: Cli, tmp_path: Path) -> None:
    shift = tmp_path / "shift.py"
    shift.write_text(SHIFT)
    for options, expected in (((), False), (("--non-finite",), True)):
        found = cli("check", shift, "--json", *options).json()["findings"]
        assert any(f["code"] == "NKC124" and f["ranks"] == [1, 2, 3] for f in found) is expected
        printed = cli("run", shift, "--json", *options).json()["report"]["warnings"]
        assert any(f["code"] == "NKC124" for f in printed) is expected


def test_run_takes_the_seeds_too(cli: Cli, ring: Path) -> None:
    plain = cli("run", ring, "--json").json()["digest"]
    digests = {cli("run", ring, "--json", "--ring-order", seed).json()["digest"] for seed in range(5)}
    assert digests - {plain}
    assert cli("run", ring, "--json", "--schedule", 3).json()["digest"] == plain


def test_a_program_in_json_is_checked_as_well(cli: Cli, ring: Path) -> None:
    program = ring.with_suffix(".json")
    assert cli("lower", ring, "--json", "-o", program).code == 0
    done = cli("check", program, "--seeds", 4, "--json")
    assert done.code == 1
    assert [f["code"] for f in done.json()["findings"] if f["severity"] == "error"] == ["NKC180"]
    assert done.json()["notes"] == ["random inputs: x (seed 0)"]


RACE = """
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def both(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=float(nl.program_id(0)))
    nisa.dma_copy(dst=y, src=tile)
    return y


def inputs(rank, ranks):
    return {"x": np.full((4, 4), rank, np.float32)}
"""


def test_a_check_can_be_left_out(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "race.py"
    file.write_text(RACE)
    for command in ("check", "run"):
        done = cli(command, file, "--lnc", 2)
        assert done.code == 1
        assert "NKC120" in done.out + done.err
        assert cli(command, file, "--lnc", 2, "--without", "races").code == 0
        assert cli(command, file, "--without", "everything").code == 2


def test_bad_usage_is_no_finding(cli: Cli, example: Path, tmp_path: Path) -> None:
    assert cli("check", "no/such.py").code == 2
    assert cli("check", example, "--seeds", "-1").code == 2
    assert cli("check", example, "--input", "nothing=3").code == 2
    assert cli("check", example, "--sarif", tmp_path / "no" / "such.sarif").code == 2


# --- SARIF -----------------------------------------------------------------------------------------------------------


def hold_to_the_schema(log: dict[str, Any]) -> None:
    """What the schema of SARIF 2.1.0 requires of the parts that are written."""
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    for run in log["runs"]:
        rules = run["tool"]["driver"]["rules"]
        assert run["tool"]["driver"]["name"] == "nkicc"
        assert len({rule["id"] for rule in rules}) == len(rules)
        for rule in rules:
            assert rule["shortDescription"]["text"]
            assert rule["help"]["text"]
        for result in run["results"]:
            assert result["level"] in ("none", "note", "warning", "error")
            assert result["message"]["text"]
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            assert len(result["locations"]) >= 1
            ids = [other["id"] for other in result.get("relatedLocations", ())]
            assert len(set(ids)) == len(ids)
            for location in (*result["locations"], *result.get("relatedLocations", ())):
                place = location.get("physicalLocation")
                if place is None:
                    assert location["message"]["text"]
                    continue
                assert " " not in place["artifactLocation"]["uri"]
                base = place["artifactLocation"].get("uriBaseId")
                assert base is None or run["originalUriBaseIds"][base]["uri"].endswith("/")
                region = place["region"]
                assert region["startLine"] >= 1
                assert region.get("endColumn", 2) > region.get("startColumn", 1) >= 1


def test_sarif_has_rules_places_and_related_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my kernel.py").write_text("first\n    ncc.all_reduce(dsts=[total], srcs=[x])\n")
    loc = Loc(str(tmp_path / "my kernel.py"), 2, "f")
    found = finding(
        "NKC023", Severity.warning, operand="total", name="total", ranks=(0, 1, 2, 5), cores=(1,), loc=loc,
        related=(Related("declared here", Loc(str(tmp_path / "my kernel.py"), 1)), Related("again: nkicc …")),
    )  # fmt: skip
    log = json.loads(json.dumps(document([found, finding("NKC045", inst="AllReduceOp")], "my kernel.py")))
    hold_to_the_schema(log)
    (run,) = log["runs"]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(CATALOGUE)
    first, second = run["results"]
    assert (first["ruleId"], first["level"]) == ("NKC023", "warning")
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "my%20kernel.py", "uriBaseId": "SRCROOT"}
    assert place["region"]["startLine"] == 2
    line = "    ncc.all_reduce(dsts=[total], srcs=[x])"
    assert line[place["region"]["startColumn"] - 1 : place["region"]["endColumn"] - 1] == "total"
    assert first["properties"] == {"operand": "total", "ranks": "0-2, 5", "cores": "1"}
    assert first["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 1
    assert second["locations"][0]["physicalLocation"]["region"]["startLine"] == 1


def test_sarif_is_written_for_clean_and_faulty_kernels(cli: Cli, barrier: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.sarif"
    assert cli("check", barrier, "--lnc", 2, "--sarif", log).code == 1
    written = json.loads(log.read_text())
    hold_to_the_schema(written)
    assert len(written["runs"][0]["results"]) == 1
    assert cli("check", EXAMPLES / "all_reduce.py", "--sarif", log).code == 0
    written = json.loads(log.read_text())
    hold_to_the_schema(written)
    assert [r for r in written["runs"][0]["results"] if r["level"] == "error"] == []
