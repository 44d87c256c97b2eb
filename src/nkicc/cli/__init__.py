"""The command line: `nkicc run`, `nkicc build`, `nkicc lower`. One module per command, started by `main`."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """The `nkicc` executable."""
    from .app import invoke

    sys.exit(invoke(sys.argv[1:]))
