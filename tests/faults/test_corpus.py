"""Correct kernels are clean, and every fault in the corpus is found, with its code and line."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from nkicc.cli.app import invoke
from tests.examine import Examined, examine, load

from .corpus import CORPUS, GOLDEN, ORIGINALS, Fault

#: Warnings that tell of a fault: of these the run stands, but its result is hardly what was meant.
WARNINGS = ("NKC122", "NKC147", "NKC130", "NKC131", "NKC132")
#: Findings of two places, either of which may be the changed one.
TWO_SIDED = ("NKC101", "NKC120", "NKC146")
#: Rules of machines and releases, which correct kernels may break.
TARGETS = frozenset({"NKC141", *[f"NKC{number}" for number in range(150, 167)]})


def examined(module: ModuleType, kernel: str, **options: int) -> Examined:
    return examine(
        getattr(module, kernel),
        ranks=module.RANKS,
        lnc=module.LNC,
        inputs=lambda rank: module.inputs(rank, module.RANKS),
        golden=lambda rank: module.golden(rank, module.RANKS),
        **options,
    )


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize("name", ORIGINALS)
def test_originals_are_clean_in_any_order(name: str, seed: int | None) -> None:
    options = {} if seed is None else {"ring_order": seed, "schedule": seed}
    found = examined(load(ORIGINALS[name]), name, **options)
    assert found.clean, found.describe()
    assert {warning.code for warning in found.warnings} <= TARGETS, found.describe()


@pytest.mark.parametrize("fault", CORPUS, ids=lambda fault: fault.id)
def test_fault_is_found(fault: Fault, tmp_path: Path) -> None:
    file = tmp_path / f"{fault.original}.py"
    file.write_text(fault.text)
    module = load(file)
    found = examined(module, fault.original)
    if found.clean:
        found = examined(module, fault.original, ring_order=1)
    named = found.errors[:1] or [warning for warning in found.warnings if warning.code in WARNINGS]
    if fault.code == GOLDEN:
        assert not named, found.describe()
        assert "ranks differ" in found.wrong
        assert "first at" in found.wrong
        return
    assert named, f"nothing is found, golden: {found.wrong or 'holds'}"
    named = [finding for finding in named if finding.code == fault.code]
    assert named, found.describe()
    # Of two sides that do not fit together, either may be the one that is told first.
    related = [related.loc for finding in named for related in finding.related if finding.code in TWO_SIDED]
    lines = [loc for loc in [*[finding.loc for finding in named], *related] if loc is not None]
    assert fault.line in [loc.line for loc in lines if loc.file == str(file)], found.describe()


BY_CODE = {fault.code: fault for fault in CORPUS if fault.code not in (GOLDEN, *WARNINGS)}


@pytest.mark.parametrize("fault", BY_CODE.values(), ids=lambda fault: fault.id)
def test_the_command_line_says_the_same(fault: Fault, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One fault of each code, in a file of its own, as an author would check it."""
    file = tmp_path / f"{fault.original}.py"
    file.write_text(fault.text)
    module = load(file)
    status = invoke(["check", str(file), "--ranks", str(module.RANKS), "--lnc", str(module.LNC), "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert status == 1
    assert fault.code in [finding["code"] for finding in findings]


def test_the_corpus_is_large_and_hardly_needs_goldens() -> None:
    ids = [fault.id for fault in CORPUS]
    assert len(ids) == len(set(ids)) >= 159
    assert sum(fault.code == GOLDEN for fault in CORPUS) <= 5


@pytest.mark.parametrize("fault", CORPUS, ids=lambda fault: fault.id)
def test_one_place_is_changed(fault: Fault) -> None:
    assert ORIGINALS[fault.original].read_text().count(fault.old) == 1
    assert fault.text != ORIGINALS[fault.original].read_text()
    assert fault.code == GOLDEN or fault.at in fault.text
