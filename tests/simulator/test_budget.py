"""What arguments may take of memory: refused before it is taken, at every door (NKC106)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nkicc
from nkicc import NkiccError, session
from nkicc.cli.specs import parse
from nkicc.ir.program import Module
from nkicc.ir.types import World
from nkicc.nki import isa as nisa
from nkicc.nki import language as nl
from nkicc.simulator import budget
from nkicc.simulator.budget import Budget

from ..cli.conftest import Cli, cli

__all__ = ["cli"]

LARGE = np.zeros((64, 64), np.float32)


def copied(x: nl.ndarray) -> nl.ndarray:
    y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nisa.dma_copy(dst=y, src=x)
    return y


@pytest.fixture(autouse=True)
def _small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "physical_memory", lambda: 10 * LARGE.nbytes)


def refused(inputs: object, ranks: int) -> NkiccError:
    with pytest.raises(NkiccError) as error:
        nkicc.run(copied, ranks=ranks, inputs=inputs)  # type: ignore[arg-type]
    assert (error.value.code, error.value.operand) == ("NKC106", "x")
    return error.value


def test_arguments_of_many_ranks_stop_where_memory_would_be_full() -> None:
    made: list[int] = []

    def inputs(rank: int) -> dict[str, np.ndarray]:
        made.append(rank)
        return {"x": LARGE + rank}

    assert "16384 bytes, the limit is 73728 and 65536 are taken" in refused(inputs, 1000).message
    assert made == [0, 1, 2, 3, 4]


def test_few_arrays_over_and_over_are_many_rows() -> None:
    both = LARGE, LARGE + 1
    assert "1000 x 16384 bytes" in refused(lambda rank: {"x": both[rank % 2]}, 1000).message


def test_one_array_for_all_ranks_is_counted_once() -> None:
    assert len(nkicc.run(copied, ranks=1000, inputs=lambda rank: {"x": LARGE}).outputs) == 1000
    assert len(nkicc.run(copied, ranks=4, inputs=lambda rank: {"x": LARGE + rank}).outputs) == 4


def test_an_option_is_refused_before_anything_is_made() -> None:
    with pytest.raises(NkiccError) as error:
        parse(["x=float32[64,64]"], 1 << 20, 0)
    assert (error.value.code, error.value.operand) == ("NKC106", "x")
    assert "1048576 x 16384 bytes" in error.value.message
    assert parse(["x=float32[64,64]@same"], 1 << 20, 0)


def test_random_arguments_of_a_program_are_refused_before_anything_is_made(cli: Cli, tmp_path: Path) -> None:
    program = session.trace(copied, ranks=4, inputs={"x": LARGE}).module
    file = tmp_path / "p.json"
    file.write_text(program.to_json().replace('"ranks": 4', '"ranks": 1000000'))
    done = cli("run", file)
    assert (done.code, done.out) == (1, "")
    assert "error[NKC106]: tensor 'x' needs 1000000 x 16384 bytes" in done.err


def test_a_budget_holds_what_fits() -> None:
    held = Budget()
    held.reserve("x", held.limit)
    held.reserve("y", 0)
    with pytest.raises(NkiccError):
        held.reserve("z", 1)


def test_a_module_of_an_impossible_world_is_refused() -> None:
    module = session.trace(copied, ranks=1, inputs={"x": LARGE}).module
    for world in (World(10**8), World(0), World(1, 3)):
        with pytest.raises(NkiccError) as error:
            Module(module.level, world, module.target, module.programs).verify()
        assert error.value.code == "NKC014"
