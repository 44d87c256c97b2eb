"""The commands as one application, and what becomes of anything that they raise."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer
from typer.exceptions import TyperException
from typer.main import get_command

from . import build, check, document, explain, lower, run

__all__ = ["app", "invoke"]

COMMANDS = {
    "check": (check.check, "Say what is wrong, without and by running it."),
    "run": (run.run, "Build, lower, check and simulate; show the outputs."),
    "build": (build.build, "Print the penguin level: what the builders mint."),
    "explain": (explain.explain, "Say what a code of an error or warning means."),
    "lower": (lower.lower, "Print the bir level, after any pipeline of passes."),
}
# A line with \b keeps the lines below it as they are.
_EXAMPLES = """\b
Examples:
  nkicc run kernel.py --ranks 8 --lnc 2
  nkicc run kernel.py:name -i x='float32[128,512]' -i group=groups:all
  nkicc check kernel.py --seeds 20
  nkicc lower kernel.py --json -o program.json
  nkicc run program.json
"""

app = typer.Typer(
    name="nkicc",
    help="Build, lower, check and run the collectives of NKI kernels on any number of simulated ranks.",
    epilog=_EXAMPLES,
    add_completion=False,
    rich_markup_mode=None,
)
for _name, (_function, _summary) in COMMANDS.items():
    app.command(_name, short_help=_summary)(_function)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"nkicc {version('nkicc')}")
        raise typer.Exit


@app.callback()
def _top(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def invoke(args: list[str]) -> int:
    """Run the command line `args` and return the exit code: 0 done, 1 a fault in the user's program, 2 bad usage.

    Nothing escapes: a refusal is printed once, on stderr, or with `--json` as `{"error": …}` on stdout, which holds
    nothing else then: what a kernel prints goes to stderr.
    """
    try:
        code = _dispatch(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Python flushes stdout once more on exit; the reader is gone, so let that go nowhere.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _dispatch(args: list[str]) -> int:
    try:
        with document.reserved() if "--json" in args and "--help" not in args else contextlib.nullcontext():
            code = get_command(app).main(args or ["--help"], prog_name="nkicc", standalone_mode=False, obj=args)
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:
        from .errors import report

        command = " ".join(["nkicc", *(name for name in args[:1] if name in COMMANDS)])
        return report(error, command, usage=isinstance(error, TyperException), as_json="--json" in args)
