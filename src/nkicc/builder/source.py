"""The user's line: where an instruction, a tensor or an error comes from."""

from __future__ import annotations

import contextlib
import os
import sys
from types import CodeType
from typing import Never

from nkicc.ir.errors import fail
from nkicc.ir.types import Loc

__all__ = ["here", "refuse"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

#: Per code object, by identity: the object (kept, so that its id stays its own) and the Loc of each of its instruction
#: offsets, or None where the code is ours. Hashing a code object by value costs more than the whole look-up.
_CODES: dict[int, tuple[CodeType, dict[int, Loc] | None]] = {}


def here() -> Loc | None:
    """The line of the innermost caller outside nkicc; None if nkicc is all there is."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        known = _CODES.get(id(code))
        if known is None:
            known = _CODES[id(code)] = (code, None if _is_ours(code.co_filename) else {})
        lines = known[1]
        if lines is not None:
            found = lines.get(frame.f_lasti)
            if found is None:
                found = lines[frame.f_lasti] = Loc(code.co_filename, frame.f_lineno, code.co_name)
            return found
        frame = frame.f_back
    return None


def refuse(code: str, *, operand: str = "", **slots: object) -> Never:
    """`fail` at the user's line."""
    fail(code, operand=operand, loc=here(), **slots)  # type: ignore[arg-type]


def _is_ours(file: str) -> bool:
    # Python itself stands between the user's line and us in a `with` statement and in `from nki... import`.
    return file.startswith((_PACKAGE, "<frozen ")) or file == contextlib.__file__
