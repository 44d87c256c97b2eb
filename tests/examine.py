"""Everything nkicc has to say about a kernel: what tracing refuses, the static checks, a run, the golden."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

import nkicc
from nkicc import session
from nkicc.ir.errors import NkiccError
from nkicc.ir.findings import Finding, Severity
from nkicc.lowering import lower
from nkicc.testing import Golden, assert_ranks
from nkicc.verify import SDK, check

__all__ = ["Examined", "examine", "load"]

nkicc.activate()


class Examined(Struct):
    """`findings` in the order in which they were made; `result` of a run that came to its end; `wrong` is the report of
    the comparison with the golden, empty if it holds on every rank."""

    findings: list[Finding]
    result: session.Result | None = None
    wrong: str = ""

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity is Severity.error]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity is Severity.warning]

    @property
    def clean(self) -> bool:
        return not self.errors and not self.wrong

    def describe(self) -> str:
        """All of it, for the message of an assertion."""
        return "\n".join([*(str(finding.to_error()) for finding in self.findings), self.wrong])


def examine(
    kernel: Any,
    *,
    ranks: int,
    lnc: int = 1,
    inputs: Mapping[str, Any] | Callable[[int], Mapping[str, Any]] = lambda rank: {},
    golden: Golden = None,
    target: str | None = None,
    allow_io: bool = False,
    strict: bool = False,
    sdk: str = SDK,
    **options: Any,
) -> Examined:
    """Trace, lower, check and run a kernel, compare with `golden` if there is one. `options` are those of a run."""
    try:
        traced = session.trace(kernel, ranks=ranks, lnc=lnc, target=target, inputs=inputs)
        static = check(lower(traced.module), sdk=sdk, strict=strict, allow_io=allow_io)
    except NkiccError as error:
        return Examined([Finding.of(error)])
    examined = Examined(static)
    if examined.errors:
        return examined
    try:
        examined.result = session.execute(traced, sdk=sdk, strict=strict, allow_io=allow_io, **options)
    except NkiccError as error:
        examined.findings = [*static, Finding.of(error)]
        return examined
    seen = set(static)
    examined.findings = [*static, *(w for w in examined.result.report.warnings if w not in seen)]
    if golden is not None:
        try:
            assert_ranks(examined.result.outputs, golden)
        except AssertionError as error:
            examined.wrong = str(error)
    return examined


def load(path: Path) -> ModuleType:
    """A kernel's file as a module of its own."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
