"""What a run gave, rank by rank, in the form that the table, the JSON and the .npz file show."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from msgspec import Struct

from nkicc.engines import Report
from nkicc.ir.base import show_ranks
from nkicc.ir.errors import fail
from nkicc.ir.program import Module, Program, walk

__all__ = ["Golden", "Outcome", "Output", "Row", "check_golden", "collect", "difference", "flatten", "rows", "save"]


class Output(Struct, frozen=True):
    """What a rank holds after the run: something that the kernel returned, or an argument that it wrote to. `written`
    is False if no instruction of the program writes there."""

    name: str
    array: np.ndarray
    is_argument: bool = False
    written: bool = True


class Golden(Struct, frozen=True, omit_defaults=True):
    """The largest difference from golden(): absolute, and relative to golden's largest magnitude. `why` says what else
    is the matter; both differences are infinite then."""

    abs: float
    rel: float
    ok: bool
    why: str = ""


class Row(Struct, frozen=True, omit_defaults=True):
    """One output on one rank. `min` and `max` of integers are exact, all else is float64; `digest` is the head of the
    SHA-256 of its row-major bytes. `note` flags what is probably a mistake."""

    rank: int
    output: str
    dtype: str
    shape: tuple[int, ...]
    min: float | int
    max: float | int
    mean: float
    digest: str
    golden: Golden | None = None
    note: str = ""


class Outcome(Struct):
    """Per rank the named outputs; the bir module that ran, the engine's report, and what else the user should know."""

    title: str
    module: Module
    outputs: list[list[Output]]
    report: Report
    notes: list[str]


def collect(
    module: Module, returned: Sequence[Sequence[np.ndarray]], left: Sequence[Mapping[str, np.ndarray]]
) -> list[list[Output]]:
    """Per rank what the kernel returned, then the arguments that it wrote to. `returned` are the returned arrays of
    each rank, `left` its arguments after the run."""
    found: list[list[Output]] = [[] for _ in returned]
    for program in module.programs:
        slots = _slots(program)
        for rank in program.ranks or range(module.world.ranks):
            arrays = iter(returned[rank])
            found[rank] = [
                Output(name, left[rank][argument] if argument else next(arrays), bool(argument), written)
                for name, argument, written in slots
            ]
    return found


def _slots(program: Program) -> list[tuple[str, str, bool]]:
    """Per output its name, the argument that it is (empty: it is returned), and whether something writes there.
    Returned tensors that the kernel gave no name are called after their place."""
    tensors = {tensor.name: tensor for tensor in program.tensors}
    written = {ap.tensor for core in program.cores for inst in walk(core.body) for ap in inst.writes()}
    filled = written.union(program.inputs, [constant.tensor for constant in program.constants])
    slots = [
        (view.tensor if tensors[view.tensor].named else f"out{i}", "", view.tensor in filled)
        for i, view in enumerate(program.outputs)
    ]
    whole = {view.tensor for view in program.outputs if view.is_full(tensors[view.tensor])}
    slots += [(name, name, True) for name in program.inputs if name in written and name not in whole]
    names = [name for name, _, _ in slots]
    return [
        (name if names.count(name) == 1 else f"{name}.{i}", argument, full)
        for i, (name, argument, full) in enumerate(slots)
    ]


def flatten(value: Any) -> list[np.ndarray]:
    """What a kernel or golden() returned as a flat list."""
    if value is None:
        return []
    if isinstance(value, tuple | list):
        return [array for item in value for array in flatten(item)]
    return [np.asarray(value)]


def rows(outcome: Outcome, golden: Sequence[Any] | None) -> tuple[list[Row], str]:
    """One row per rank and output, and the digest over all of them in that order. `golden` is what golden() returned
    for each rank. Ranks that share one array (uniform data) share the work.

    NKC018 if golden() gives more than there is to compare.
    """
    known: dict[tuple[object, ...], tuple[float | int, float | int, float, str, str]] = {}
    table: list[Row] = []
    total = hashlib.sha256()
    for rank, outputs in enumerate(outcome.outputs):
        expected = None if golden is None else _expected(golden[rank], outputs, rank)
        for index, output in enumerate(outputs):
            array = output.array
            key = (array.__array_interface__["data"][0], array.dtype, array.shape, array.strides)
            if key not in known:
                known[key] = _summary(array)
            low, high, mean, digest, note = known[key]
            total.update(f"{output.name} {array.dtype} {array.shape} {digest}".encode())
            gap = None if expected is None else difference(array, expected[index], index)
            note = note if output.written else "never written"
            table.append(Row(rank, output.name, str(array.dtype), array.shape, low, high, mean, digest[:12], gap, note))
    return table, total.hexdigest()[:12]


def check_golden(table: list[Row]) -> None:
    """NKC018 if a row differs from golden()."""
    bad = [(row, row.golden) for row in table if row.golden is not None and not row.golden.ok]
    if not bad:
        return
    worst, golden = max(bad, key=lambda pair: pair[1].rel)
    fail(
        "NKC018",
        output=worst.output,
        ranks=show_ranks(sorted({row.rank for row, _ in bad})),
        why=f"{golden.why or f'largest relative error {golden.rel:.3g}'}, on rank {worst.rank}",
    )


def save(outcome: Outcome, file: Path) -> None:
    """Write every output as `rank{r}/name`. Types that NumPy's format lacks become float32, which holds them exactly.
    NKC115 if the file cannot be written."""
    arrays: dict[str, np.ndarray] = {}
    for rank, outputs in enumerate(outcome.outputs):
        for output in outputs:
            array = output.array
            arrays[f"rank{rank}/{output.name}"] = array if array.dtype.isbuiltin == 1 else array.astype(np.float32)
    try:
        with file.open("wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
    except (OSError, ValueError) as error:
        fail("NKC115", file=str(file), why=getattr(error, "strerror", None) or str(error), cause=error)


def _summary(array: np.ndarray) -> tuple[float | int, float | int, float, str, str]:
    """min, max, mean, digest, note."""
    digest = hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()
    values = array if array.dtype.kind in "iu" else array.astype(np.float64)
    # Outputs may hold NaN and infinities; they are shown, not warned about.
    with np.errstate(all="ignore"):
        low, high, mean = values.min().item(), values.max().item(), float(values.mean(dtype=np.float64))
    note = "all NaN" if low != low and np.isnan(values).all() else ""
    return low, high, mean, digest, note


# --- golden() --------------------------------------------------------------------------------------------------------


class _Missing(Struct, frozen=True):
    """No golden where there must be one (`required`), or where one may be left out."""

    required: bool


def _expected(value: Any, outputs: list[Output], rank: int) -> list[Any]:
    """What golden() gives for each output: a dict by name, or arrays in order. Arguments that a kernel changed besides
    returning something may be left out. NKC018 for anything beyond the outputs."""
    returns = any(not output.is_argument for output in outputs)
    missing = [_Missing(not (returns and output.is_argument)) for output in outputs]
    if isinstance(value, dict):
        names = [output.name for output in outputs]
        surplus = [repr(name) for name in value if name not in names]
        found = [value.get(output.name, none) for output, none in zip(outputs, missing, strict=True)]
        text = f"it gives {', '.join(surplus)}, the kernel {', '.join(map(repr, names)) or 'nothing'}"
    else:
        given = flatten(value)
        surplus = given[len(outputs) :]
        found = [*given[: len(outputs)], *missing[len(given) :]]
        text = f"it gives {len(given)} array(s), the kernel {len(outputs)}"
    if surplus:
        fail("NKC018", output="the number of outputs", ranks=rank, why=text)
    return found


def _wrong(why: str) -> Golden:
    return Golden(float("inf"), float("inf"), False, why)


def difference(array: np.ndarray, golden: Any, index: int, name: str = "golden") -> Golden | None:
    """Integers must be equal; floats within max(1e-5, 2 eps) of golden's largest magnitude, where eps is the type's.
    `name` is what to call the golden."""
    if isinstance(golden, _Missing):
        return _wrong(f"{name} has no output {index}") if golden.required else None
    golden = np.asarray(golden)
    if golden.shape != array.shape:
        return _wrong(f"{name} has shape {list(golden.shape)}, the output {list(array.shape)}")
    if golden.dtype.kind in "OUSc":
        return _wrong(f"{name} has dtype {golden.dtype}, the output {array.dtype}")
    expected, found = golden.astype(np.float64), array.astype(np.float64)
    nan, expected_nan = np.isnan(found), np.isnan(expected)
    if not np.array_equal(nan, expected_nan):
        return _wrong(
            f"{nan.sum()} of {nan.size} elements are NaN, {expected_nan.sum()} should be by {name}"
            if nan.sum() != expected_nan.sum()
            else f"other elements are NaN than by {name}"
        )
    # Between integers NumPy compares exactly; as floats those of 64 bits lose their low bits.
    same = (golden == array if golden.dtype.kind in "iu" else expected == found) | expected_nan
    with np.errstate(invalid="ignore"):
        largest = float(np.max(np.abs(np.where(same, 0.0, expected - found))))
    integers = array.dtype.kind in "iu"
    if integers and not same.all():
        largest = max(largest, 1.0)
    scale = float(np.max(np.abs(expected), where=np.isfinite(expected), initial=0.0))
    relative = largest / scale if scale else (float("inf") if largest else 0.0)
    allowed = 0.0 if integers else max(1e-5, 2 * float(ml_dtypes.finfo(array.dtype).eps))
    return Golden(largest, relative, relative <= allowed)
