"""The result of a run on the screen: what ran, one row per rank and output, one digest; or the same as JSON."""

from __future__ import annotations

import sys
from itertools import groupby

import msgspec
from rich.console import Console
from rich.table import Table

from nkicc.ir.errors import NkiccError

from .outcome import Outcome, Row

__all__ = ["print_json", "print_table"]

#: Up to this many ranks every rank has its row; beyond, neighbours with equal rows share one.
UNFOLDED_RANKS = 16
#: Columns of a table that is not written to a terminal, so that nothing wraps.
PIPE_WIDTH = 240


def print_json(outcome: Outcome, engine: str, rows: list[Row], digest: str, error: NkiccError | None) -> None:
    """The whole result, never folded; `error` is a mismatch with golden()."""
    # Wall time is left out: equal runs print equal bytes.
    report = {name: value for name, value in outcome.report.to_json().items() if name != "seconds"}
    found: dict[str, object] = {
        "kernel": outcome.title,
        "engine": engine,
        "grid": outcome.module.world.lnc,
        "report": report,
        "rows": rows,
        "digest": digest,
    }
    if error is not None:
        found["error"] = error.to_json()
    # msgspec writes NaN and infinity as null, which every reader of JSON accepts.
    print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())


def print_table(outcome: Outcome, engine: str, rows: list[Row], digest: str) -> None:
    """The header line, the table and the digest."""
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    console.print(_header(outcome, engine), markup=False)
    for warning in outcome.report.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False)
    if not rows:
        console.print("the kernel returned nothing", markup=False)
        return
    golden = any(row.golden is not None for row in rows)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("rank", "output", "dtype", "shape", "min", "max", "mean", "digest"):
        table.add_column(column, justify="right" if column in ("rank", "min", "max", "mean") else "left", no_wrap=True)
    if golden:
        table.add_column("error abs / rel", no_wrap=True)
    for ranks, row in _fold(rows, outcome.report.ranks):
        cells = [ranks, row.output, row.dtype, "x".join(map(str, row.shape)) or "scalar"]
        limits = "d" if "int" in row.dtype else ".6g"
        cells += [format(row.min, limits), format(row.max, limits), f"{row.mean:.6g}", row.digest]
        if row.golden is not None:
            cells.append(f"{row.golden.abs:.2g} / {row.golden.rel:.2g}" + ("" if row.golden.ok else "  MISMATCH"))
        table.add_row(*cells)
    console.print()
    console.print(table)
    console.print()
    console.print(f"digest of all ranks: {digest}", markup=False)


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
