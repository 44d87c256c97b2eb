"""One way to call the command line, in process, with what it printed and its exit code; and kernels to call it on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nkicc.cli.app import invoke

SUM = """
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl


@nki.jit
def total(x, group):
    own, all, y = [nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name=n) for n in ("own", "all", "y")]
    nisa.dma_copy(dst=own, src=x)
    ncc.all_reduce(dsts=[all], srcs=[own], replica_group=group, op=nl.add)
    nisa.dma_copy(dst=y, src=all)
    return y
"""
DATA = """
import numpy as np


def inputs(rank, ranks):
    x = np.arange(12, dtype=np.float32).reshape(3, 4) * (rank + 1) + rank
    return {"x": x, "group": ncc.ReplicaGroup([list(range(ranks))])}


def golden(rank, ranks):
    return sum(inputs(r, ranks)["x"] for r in range(ranks)) + OFF * (rank == 1)
"""
GIVEN = ("--input", "x=float32[3,4]", "--input", "group=groups:all")


class Done(NamedTuple):
    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


Cli = Callable[..., Done]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*args: object) -> Done:
        code = invoke([str(arg) for arg in args])
        return Done(code, *capsys.readouterr())

    return call


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A file with one kernel and nothing else."""
    file = tmp_path / "sums.py"
    file.write_text(SUM)
    return file


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A file with a kernel, its inputs and its golden outputs."""
    file = tmp_path / "example.py"
    file.write_text(SUM + DATA + "OFF = 0\n")
    return file
