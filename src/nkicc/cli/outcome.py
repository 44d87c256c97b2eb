"""What a run gave, rank by rank, in the form that the table, the JSON and the .npz file show."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from msgspec import Struct

from nkicc.engines import Report
from nkicc.ir.base import show_ranks
from nkicc.ir.errors import fail
from nkicc.ir.program import Module

__all__ = ["Golden", "Outcome", "Row", "check_golden", "flatten", "rows", "save"]


class Golden(Struct, frozen=True):
    """The largest difference from golden(): absolute, and relative to golden's largest magnitude."""

    abs: float
    rel: float
    ok: bool


class Row(Struct, frozen=True, omit_defaults=True):
    """One output on one rank. `min` and `max` of integers are exact, all else is float64; `digest` is the head of the
    SHA-256 of its row-major bytes."""

    rank: int
    output: str
    dtype: str
    shape: tuple[int, ...]
    min: float | int
    max: float | int
    mean: float
    digest: str
    golden: Golden | None = None


class Outcome(Struct):
    """Per rank the named outputs; the bir module that ran and the engine's report."""

    title: str
    module: Module
    outputs: list[list[tuple[str, np.ndarray]]]
    report: Report


def flatten(value: Any) -> list[np.ndarray]:
    """What a kernel or golden() returned as a flat list."""
    if value is None:
        return []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [array for item in value for array in flatten(item)]
    return [np.asarray(value)]


def rows(outcome: Outcome, golden: Sequence[list[np.ndarray]] | None) -> tuple[list[Row], str]:
    """One row per rank and output, and the digest over all of them in that order. Ranks that share one array (uniform
    data) share the work."""
    known: dict[tuple[object, ...], tuple[float | int, float | int, float, str]] = {}
    table: list[Row] = []
    total = hashlib.sha256()
    for rank, outputs in enumerate(outcome.outputs):
        for index, (name, array) in enumerate(outputs):
            key = (array.__array_interface__["data"][0], array.dtype, array.shape, array.strides)
            if key not in known:
                known[key] = _summary(array)
            low, high, mean, digest = known[key]
            total.update(f"{name} {array.dtype} {array.shape} {digest}".encode())
            difference = None if golden is None else _difference(array, golden[rank], index)
            table.append(Row(rank, name, str(array.dtype), array.shape, low, high, mean, digest[:12], difference))
    return table, total.hexdigest()[:12]


def check_golden(table: list[Row]) -> None:
    """NKC018 if a row differs from golden()."""
    bad = [(row, row.golden) for row in table if row.golden is not None and not row.golden.ok]
    if not bad:
        return
    worst, difference = max(bad, key=lambda pair: pair[1].rel)
    fail(
        "NKC018",
        output=worst.output,
        ranks=show_ranks(sorted({row.rank for row, _ in bad})),
        why=f"largest relative error {difference.rel:.3g}, on rank {worst.rank}",
    )


def save(outcome: Outcome, file: Path) -> None:
    """Write every output as `rank{r}/name`. Types that NumPy's format lacks become float32, which holds them exactly.
    NKC001 if the file cannot be written."""
    arrays: dict[str, np.ndarray] = {}
    for rank, outputs in enumerate(outcome.outputs):
        for name, array in outputs:
            arrays[f"rank{rank}/{name}"] = array.astype(np.float32) if array.dtype.kind == "V" else array
    try:
        with file.open("wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
    except OSError as error:
        fail("NKC001", file=str(file), why=error.strerror or str(error), cause=error)


def _summary(array: np.ndarray) -> tuple[float | int, float | int, float, str]:
    digest = hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()
    values = array if array.dtype.kind in "iu" else array.astype(np.float64)
    # Outputs may hold NaN and infinities; they are shown, not warned about.
    with np.errstate(all="ignore"):
        return values.min().item(), values.max().item(), float(values.mean(dtype=np.float64)), digest


def _difference(array: np.ndarray, golden: list[np.ndarray], index: int) -> Golden:
    """Integers must be equal; floats within max(1e-5, 2 eps) of golden's largest magnitude, where eps is the type's."""
    if index >= len(golden) or golden[index].shape != array.shape:
        return Golden(float("inf"), float("inf"), False)
    expected, found = golden[index].astype(np.float64), array.astype(np.float64)
    if not np.array_equal(np.isnan(expected), np.isnan(found)):
        return Golden(float("inf"), float("inf"), False)
    same = (expected == found) | np.isnan(expected)
    with np.errstate(invalid="ignore"):
        largest = float(np.max(np.abs(np.where(same, 0.0, expected - found))))
    scale = float(np.max(np.abs(expected), where=np.isfinite(expected), initial=0.0))
    relative = largest / scale if scale else (float("inf") if largest else 0.0)
    exact = array.dtype.kind in "iu"
    allowed = 0.0 if exact else max(1e-5, 2 * float(ml_dtypes.finfo(array.dtype).eps))
    return Golden(largest, relative, relative <= allowed)
