"""What becomes of a refusal: its report and the exit code."""

from __future__ import annotations

import json
import os
import traceback

from rich.console import Console

from nkicc.ir.errors import NkiccError, fail, text_of
from nkicc.ir.findings import Finding

from .report import render

__all__ = ["USAGE", "report"]

#: Codes of bad usage (exit code 2); every other code is a finding in the user's program (exit code 1).
USAGE = frozenset({"NKC001", "NKC002", "NKC003", "NKC004", "NKC006", "NKC007", "NKC013", "NKC014", "NKC016", "NKC115"})


def report(error: Exception, command: str, *, usage: bool, as_json: bool) -> int:
    """Print `error` and return the exit code. `command` is what was called, `nkicc run`; `usage`: the parser of the
    command line refused it."""
    if not isinstance(error, NkiccError):
        error = _refusal(error, command, usage)
    if error.code == "NKC006" and not error.hint:
        error.hint = f"See `{command} --help`."
    if error.code == "NKC007":
        error.hint += " They come from --input NAME=SPEC or from the file's inputs(rank, ranks)."
    if as_json:
        print(json.dumps({"error": error.to_json()}))
    else:
        Console(stderr=True, soft_wrap=True, highlight=False).print(render(Finding.of(error)))
    return 2 if error.code in USAGE else 1


def _refusal(error: Exception, command: str, usage: bool) -> NkiccError:
    """The NkiccError for anything else: what the parser refuses (NKC006), or a fault of nkicc itself."""
    try:
        if usage:
            option, why = _usage(error)
            fail("NKC006", option=option or command, why=why)
        if isinstance(error, MemoryError):
            fail("NKC116", why=str(error) or "this machine has no more", cause=error)
        if os.environ.get("NKICC_DEBUG") == "1":
            traceback.print_exception(error)
        fail("NKC-internal", kind=type(error).__name__, text=text_of(error))
    except NkiccError as refusal:
        return refusal


def _usage(error: Exception) -> tuple[str, str]:
    """What the parser of the command line objects to, and why, in words that do not repeat each other."""
    param = getattr(error, "param", None)
    option = getattr(error, "option_name", None) or getattr(error, "param_hint", None) or ""
    if not option and param is not None:
        option = param.opts[-1] if param.param_type_name == "option" else param.metavar
    text = str(getattr(error, "message", "") or error).rstrip(".")
    if text == f"No such option: {option}":
        close = getattr(error, "possibilities", None)
        return option, "there is no such option" + (f"; did you mean {' or '.join(close)}?" if close else "")
    if text.startswith("Missing parameter"):
        return option, "it is missing"
    text = text.removeprefix(f"Option {option!r} ")
    return option, text[:1].lower() + text[1:]
