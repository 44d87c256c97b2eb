"""How a finding looks on a terminal: code, sentence, where, the guilty source line with a caret, what to do."""

from __future__ import annotations

import linecache
import os
import re
from pathlib import Path

from rich.text import Text

from nkicc.ir.base import show_ranks
from nkicc.ir.findings import Finding, Severity
from nkicc.ir.types import Loc

__all__ = ["mark", "render", "source_line"]

_COLOUR = {Severity.error: "bold red", Severity.warning: "bold yellow"}
#: A caret line is no longer than this.
_WIDEST = 100


def render(finding: Finding) -> Text:
    """The finding for a terminal, without a line break at its end."""
    text = Text.assemble(
        (f"{finding.severity.value}[{finding.code}]", _COLOUR[finding.severity]), ": ", (finding.message, "bold")
    )
    where = _where(finding)
    if finding.loc is not None:
        text.append(f"\n  at {_place(finding.loc)}")
        where = f" [{where}]" if where else ""
    elif where:
        where = f"\n  at {where}"
    text.append(where)
    _excerpt(text, finding.loc, finding.operand, "^", "red")
    for related in finding.related:
        text.append("\n  note: ", "cyan").append(related.message)
        if related.loc is not None:
            text.append(f" at {_place(related.loc)}")
            if related.loc != finding.loc:
                _excerpt(text, related.loc, finding.operand, "-", "cyan")
    if finding.hint:
        text.append("\n  help: ", "green").append(finding.hint)
    if finding.severity is Severity.warning and finding.source:
        text.append("\n  rule: ", "green").append(finding.source)
    return text


def source_line(loc: Loc | None) -> str:
    """The line of a place without its indentation; empty if it cannot be read."""
    return "" if loc is None else linecache.getline(loc.file, loc.line).strip()


def mark(line: str, operand: str) -> tuple[int, int]:
    """Start and length of what is marked in a line: the operand where the line names it once, else all of it."""
    found = list(re.finditer(rf"(?<![\w.]){re.escape(operand)}(?!\w)", line)) if operand else []
    if len(found) == 1:
        return found[0].start(), len(operand)
    return 0, min(len(line), _WIDEST)


def _excerpt(text: Text, loc: Loc | None, operand: str, marker: str, colour: str) -> None:
    line = source_line(loc)
    if loc is None or not line:
        return
    number = str(loc.line)
    start, length = mark(line, operand)
    text.append(f"\n  {number} | ", "blue").append(line)
    text.append(f"\n  {' ' * len(number)} | ", "blue").append(" " * start).append(marker * length, colour)


def _where(finding: Finding) -> str:
    """`operand, ranks, cores` as far as they are known. An operand that the message names in quotes is left out."""
    parts = [finding.operand] if finding.operand and repr(finding.operand) not in finding.message else []
    for name, ids in (("rank", finding.ranks), ("core", finding.cores)):
        if ids:
            parts.append(f"{name}{'s' if len(ids) > 1 else ''} {show_ranks(sorted(ids))}")
    return ", ".join(parts)


def _place(loc: Loc) -> str:
    return f"{_relative(loc.file)}:{loc.line}" + (f" in {loc.function}" if loc.function else "")


def _relative(file: str) -> str:
    """The shorter of the absolute and the relative path."""
    try:
        return min(os.path.relpath(file), file, key=len) if Path(file).is_absolute() else file
    except (ValueError, OSError):
        return file
