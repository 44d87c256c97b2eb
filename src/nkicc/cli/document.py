"""A stdout that holds one JSON document, whatever a kernel prints."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import TextIO

__all__ = ["reserved", "write"]

_STDOUT: ContextVar[TextIO | None] = ContextVar("stdout", default=None)


@contextmanager
def reserved() -> Iterator[None]:
    """Leave stdout to `write`: all that is printed in here, by a kernel's file or by a program that runs, goes to
    stderr."""
    token = _STDOUT.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _STDOUT.reset(token)


def write(text: str) -> None:
    """Write a document to stdout."""
    print(text, file=_STDOUT.get() or sys.stdout)
