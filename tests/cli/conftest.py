"""One way to call the command line: in process, with what it printed and its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from nkicc.cli.app import invoke


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
