"""Findings: what checks report, one struct for the terminal, for JSON and for SARIF."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct

from .base import show_ranks
from .errors import CATALOGUE, NkiccError, Related
from .types import Loc

__all__ = ["Finding", "Related", "Severity", "finding"]


class Severity(str, Enum):
    """An error stops a run; a warning is a rule of real machines that the simulator does not need."""

    error = "error"
    warning = "warning"


class Finding(Struct, frozen=True, kw_only=True):
    """One fault or one broken rule of a target: a catalogue code, one sentence, where, and what to do."""

    code: str
    severity: Severity
    message: str
    hint: str = ""
    source: str = ""
    operand: str = ""
    ranks: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()
    loc: Loc | None = None
    related: tuple[Related, ...] = ()

    @staticmethod
    def of(error: NkiccError) -> Finding:
        """An error as a finding."""
        entry = CATALOGUE.get(error.code)
        return Finding(
            code=error.code,
            severity=Severity.error,
            message=error.message,
            hint=error.hint,
            source=entry.source if entry else "",
            operand=error.operand,
            ranks=() if error.rank is None else (error.rank,),
            cores=() if error.core is None else (error.core,),
            loc=error.loc,
            related=error.related,
        )

    def to_error(self) -> NkiccError:
        """The finding as the exception that stops a run."""
        return NkiccError(
            self.code,
            self.message,
            hint=self.hint,
            operand=self.operand,
            rank=self.ranks[0] if len(self.ranks) == 1 else None,
            core=self.cores[0] if len(self.cores) == 1 else None,
            loc=self.loc,
            notes=self.related,
        )


def raise_first(findings: Sequence[Finding], *, strict: bool) -> None:
    """Raise the first error among the findings as NkiccError; under `strict` a warning is one."""
    for found in findings:
        if strict or found.severity is Severity.error:
            raise found.to_error()


def finding(
    code: str,
    severity: Severity = Severity.error,
    *,
    operand: str = "",
    ranks: tuple[int, ...] = (),
    cores: tuple[int, ...] = (),
    loc: Loc | None = None,
    related: tuple[Related, ...] = (),
    **slots: object,
) -> Finding:
    """The finding of a catalogue code; `slots`, `operand` and `ranks` (folded) fill its message and hint."""
    entry = CATALOGUE[code]
    values = {"operand": operand, "ranks": show_ranks(ranks) if ranks else "", **slots}
    return Finding(
        code=code,
        severity=severity,
        message=entry.message.format(**values).rstrip(),
        hint=entry.hint.format(**values).rstrip(),
        source=entry.source,
        operand=operand,
        ranks=ranks,
        cores=cores,
        loc=loc,
        related=related,
    )
