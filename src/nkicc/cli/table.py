"""The result of a run on the screen: what ran, one row per rank and output, one digest; or the same as JSON."""

from __future__ import annotations

from itertools import groupby

import msgspec

from nkicc.ir.errors import NkiccError

from . import document
from .outcome import Golden, Outcome, Row

__all__ = ["print_json", "print_table"]

#: Up to this many ranks every rank has its row; beyond, neighbours with equal rows share one.
UNFOLDED_RANKS = 16
RIGHT = frozenset({"rank", "min", "max", "mean"})


def print_json(
    outcome: Outcome, engine: str, rows: list[Row], digest: str, error: NkiccError | None, listing: str | None
) -> None:
    """The whole result, never folded; `error` is a mismatch with golden(), `listing` the program as text if wanted."""
    # Wall time is left out: equal runs print equal bytes.
    report = {name: value for name, value in outcome.report.to_json().items() if name != "seconds"}
    found: dict[str, object] = {
        "kernel": outcome.title,
        "engine": engine,
        "grid": outcome.module.world.lnc,
        "report": report,
        "notes": outcome.notes,
        "rows": rows,
        "digest": digest,
    }
    if listing is not None:
        found["listing"] = listing
    if error is not None:
        found["error"] = error.to_json()
    # msgspec writes NaN and infinity as null, which every reader of JSON accepts.
    document.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())


def print_table(outcome: Outcome, engine: str, rows: list[Row], digest: str) -> None:
    """The header line, notes, the table and the digest. What the kernel printed has been on the screen since."""
    print(_header(outcome, engine))
    for note in outcome.notes:
        print(f"note: {note}")
    if outcome.report.warnings:
        codes = ", ".join(sorted({warning.code for warning in outcome.report.warnings}))
        print(f"{_count(len(outcome.report.warnings), 'warning')} ({codes}): `nkicc check` shows them")
    if not rows:
        print("the kernel returned nothing and wrote to none of its arguments")
        return
    columns: dict[str, list[str]] = {}
    for ranks, row in _fold(rows, outcome.report.ranks):
        limits = "d" if "int" in row.dtype else ".6g"
        cells = {
            "rank": ranks,
            "output": row.output,
            "dtype": row.dtype,
            "shape": "x".join(map(str, row.shape)) or "scalar",
            "min": format(row.min, limits),
            "max": format(row.max, limits),
            "mean": f"{row.mean:.6g}",
            "digest": row.digest,
            "error abs / rel": _error(row.golden),
            "note": row.note,
        }
        for name, cell in cells.items():
            columns.setdefault(name, []).append(cell)
    print()
    for line in _lines({name: cells for name, cells in columns.items() if any(cells)}):
        print(line)
    print()
    print(f"digest of all ranks: {digest}")


def _error(golden: Golden | None) -> str:
    if golden is None:
        return ""
    text = "-" if golden.why else f"{golden.abs:.2g} / {golden.rel:.2g}"
    return text if golden.ok else f"{text}  MISMATCH"


def _lines(columns: dict[str, list[str]]) -> list[str]:
    """Aligned text without trailing blanks."""
    aligned = []
    for name, cells in columns.items():
        width = max(map(len, (name, *cells)))
        aligned.append([cell.rjust(width) if name in RIGHT else cell.ljust(width) for cell in (name, *cells)])
    return ["   ".join(cells).rstrip() for cells in zip(*aligned, strict=True)]


def _header(outcome: Outcome, engine: str) -> str:
    report = outcome.report
    parts = [
        f"{_count(report.ranks, 'rank')} x {_count(report.lnc, 'core')}",
        f"grid [{outcome.module.world.lnc}]",
        report.target,
        engine,
        _count(report.instructions, "instruction"),
        _count(report.collectives, "collective"),
    ]
    if report.programs > 1:
        parts.append(_count(report.programs, "program"))
    if report.readings:
        parts.append("LNC readings: " + ", ".join(f"{name} {count}" for name, count in report.readings.items()))
    return f"{outcome.title}: " + ", ".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _fold(rows: list[Row], ranks: int) -> list[tuple[str, Row]]:
    """Rows with their rank column. With many ranks, consecutive ranks whose rows are equal become one range."""
    if ranks <= UNFOLDED_RANKS:
        return [(str(row.rank), row) for row in rows]
    by_rank = [list(group) for _, group in groupby(rows, key=lambda row: row.rank)]
    folded: list[tuple[str, Row]] = []
    for _, run in groupby(by_rank, key=lambda group: [msgspec.structs.replace(row, rank=0) for row in group]):
        same = list(run)
        first, last = same[0][0].rank, same[-1][0].rank
        folded += [(str(first) if first == last else f"{first}-{last}", row) for row in same[0]]
    return folded
