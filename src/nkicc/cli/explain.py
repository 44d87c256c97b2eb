"""`nkicc explain`: the page of a code."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["explain"]


def explain(
    code: Annotated[str, typer.Argument(metavar="CODE", help="Such as NKC100.", show_default=False)],
) -> None:
    """Print what a code means, an example where there is one, what to do, and where the rule comes from."""
    from difflib import get_close_matches

    from rich.console import Console
    from rich.text import Text

    from nkicc.ir.errors import CATALOGUE, fail
    from nkicc.ir.pages import PAGES

    entry = CATALOGUE.get(code) or CATALOGUE.get(code := code.upper())
    if entry is None:
        begin = [known for known in CATALOGUE if known.startswith(code)]
        close = begin[:5] or get_close_matches(code, CATALOGUE, n=3, cutoff=0.5)
        near = f"; the nearest are {', '.join(close)}" if close else ""
        fail("NKC006", option="CODE", why=f"there is no code {code!r}{near}", hint="docs/errors.md lists all of them.")
    text = Text.assemble((code, "bold red"), "  ", (entry.title, "bold"))
    for line in PAGES.get(code, "").rstrip().splitlines():
        text.append("\n" if text.plain.count("\n") else "\n\n").append(line, "cyan" if line.startswith("    ") else "")
    if entry.advice:
        text.append("\n\nWhat to do  ", "green").append(entry.advice)
    text.append("\n\nSource      ", "green").append(entry.source)
    Console(highlight=False, soft_wrap=True).print(text)
