"""Correct kernels are clean, and every fault in the corpus is found, with its code and line."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from nkicc.cli.app import invoke
from tests.examine import Examined, examine, load

from .corpus import CORPUS, GOLDEN, ORIGINALS, Fault


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


@pytest.mark.parametrize("fault", CORPUS, ids=lambda fault: fault.id)
def test_fault_is_found(fault: Fault, tmp_path: Path) -> None:
    file = tmp_path / f"{fault.original}.py"
    file.write_text(fault.text)
    module = load(file)
    found = examined(module, fault.original)
    if found.clean:
        found = examined(module, fault.original, ring_order=1)
    # A result that was never written is a warning: the run stands.
    named = [finding for finding in found.findings if finding in found.errors or finding.code == "NKC122"]
    if fault.code == GOLDEN:
        assert not named, found.describe()
        assert "ranks differ" in found.wrong
        assert "first at" in found.wrong
        return
    assert named, f"nothing is found, golden: {found.wrong or 'holds'}"
    assert named[0].code == fault.code, found.describe()
    lines = [named[0].loc, *[related.loc for related in named[0].related]]
    assert fault.line in [loc.line for loc in lines if loc is not None and loc.file == str(file)], found.describe()


BY_CODE = {fault.code: fault for fault in CORPUS if fault.code not in (GOLDEN, "NKC122")}


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
    assert len(ids) == len(set(ids)) >= 80
    assert sum(fault.code == GOLDEN for fault in CORPUS) <= 10


@pytest.mark.parametrize("fault", CORPUS, ids=lambda fault: fault.id)
def test_one_place_is_changed(fault: Fault) -> None:
    assert ORIGINALS[fault.original].read_text().count(fault.old) == 1
    assert fault.text != ORIGINALS[fault.original].read_text()
    assert fault.code == GOLDEN or fault.at in fault.text
