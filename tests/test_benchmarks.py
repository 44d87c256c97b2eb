"""The benchmark runs: small sizes here, no times asked for."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "collectives.py"


def test_the_benchmark_measures_all_its_figures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    names = runpy.run_path(str(SCRIPT))
    main = names["main"]
    main.__globals__.update(OPERATIONS=50, ELEMENTS=64 * 16, REPEATS=2)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--json"])
    main()
    measured = json.loads(capsys.readouterr().out)
    assert set(measured) == {"operations/s", "copies", "us per small instruction", "checks"}
    assert all(rate > 0 for stages in measured["operations/s"].values() for rate in stages.values())
    assert len(measured["copies"]) == 7
    assert len(measured["us per small instruction"]) == 6
    assert len(measured["checks"]) == 8
