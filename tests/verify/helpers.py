"""From a kernel to what the static checks say of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from nkicc import session
from nkicc.ir.findings import Finding, Severity
from nkicc.ir.program import Module
from nkicc.lowering import lower
from nkicc.verify import check


def lowered(kernel: Callable[..., Any], inputs: Any = None, *, ranks: int = 4, lnc: int = 1, **options: Any) -> Module:
    given = {} if inputs is None else inputs
    return lower(session.trace(kernel, ranks=ranks, lnc=lnc, inputs=given, **options).module)


def findings(
    kernel: Callable[..., Any], inputs: Any = None, *, ranks: int = 4, lnc: int = 1, target: str = "trn2", **rules: Any
) -> list[Finding]:
    return check(lowered(kernel, inputs, ranks=ranks, lnc=lnc, target=target), **rules)


def errors(kernel: Callable[..., Any], inputs: Any = None, **options: Any) -> list[Finding]:
    return [found for found in findings(kernel, inputs, **options) if found.severity is Severity.error]


def codes(kernel: Callable[..., Any], inputs: Any = None, **options: Any) -> set[str]:
    return {found.code for found in findings(kernel, inputs, **options)}


def line_of(kernel: Callable[..., Any], text: str) -> int:
    """The line of the kernel that contains a text."""
    lines, start = inspect.getsourcelines(kernel)
    (offset,) = [number for number, line in enumerate(lines) if text in line]
    return start + offset


def by_rank(**values: Callable[[int], Any]) -> Callable[[int], dict[str, Any]]:
    """Inputs that differ by rank: every value is a function of the rank."""
    return lambda rank: {name: value(rank) for name, value in values.items()}


def x_of(rank: int) -> np.ndarray:
    return np.arange(8, dtype=np.float32).reshape(2, 4) + 10 * rank
