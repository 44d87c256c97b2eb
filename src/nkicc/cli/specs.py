"""`--input NAME=SPEC`: the arguments of a kernel, rank by rank."""

from __future__ import annotations

import ast
import json
import math
import re
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

import numpy as np

from nkicc.ir.access import MAX_TENSOR_BYTES
from nkicc.ir.errors import fail
from nkicc.ir.types import DType
from nkicc.nki import Kernel
from nkicc.nki.collectives import ReplicaGroup
from nkicc.nki.tensor import ndarray
from nkicc.simulator.budget import Budget

from . import arrays

__all__ = ["annotated", "check", "parse", "random_array"]

#: The value of one argument on a rank; equal on all ranks where it returns one object.
Value = Callable[[int], Any]

#: Annotations that a value of the command line is held against.
CHECKED = frozenset({int, float, bool, str, NoneType, ndarray, ReplicaGroup})

_GENERATED = re.compile(r"(\w+)\[([\d, ]*)\](@same)?")


def parse(options: Sequence[str], ranks: int, seed: int) -> dict[str, Value]:
    """Each NAME=SPEC as a function of the rank. Files are read when their rank asks.

    NKC006: an option is not of that form. NKC106: it asks for more than memory holds. NKC001: a file cannot be read
    (when called).
    """
    values: dict[str, Value] = {}
    for option in options:
        name, equals, spec = option.partition("=")
        if not name.isidentifier() or not equals:
            fail("NKC006", option="--input", why=f"{option!r} is not NAME=SPEC")
        if name in values:
            fail("NKC006", option="--input", why=f"{name!r} is given twice")
        values[name] = _value(name, spec, ranks, seed)
    return values


def annotated(kernel: Kernel) -> dict[str, tuple[type, ...]]:
    """The types that a kernel's annotations permit, for parameters that are annotated with nothing but CHECKED."""
    try:
        hints = get_type_hints(kernel.function)
    except Exception:  # an annotation may be any expression, and fail like one
        return {}
    kinds = {name: get_args(hint) if isinstance(hint, UnionType) else (hint,) for name, hint in hints.items()}
    return {name: permitted for name, permitted in kinds.items() if CHECKED.issuperset(permitted)}


def check(name: str, value: Any, permitted: tuple[type, ...]) -> None:
    """NKC007 unless the value of `--input` is of one of the types."""
    numbers = (int, float) if float in permitted else ()
    if isinstance(value, np.ndarray) and ndarray in permitted:
        return
    if not isinstance(value, (*permitted, *numbers)):
        found = f"an array {value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
        wanted = " or ".join("an array" if kind is ndarray else kind.__name__ for kind in permitted)
        fail("NKC007", name=name, why=f"it is {found}, the kernel says {wanted}")


def random_array(dtype: DType, shape: tuple[int, ...], name: str, seed: int, rank: int | None) -> np.ndarray:
    """Reproducible data: normal deviates, or integers from -8 (unsigned: 0) to 8. `rank` None: one for all ranks."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), 0 if rank is None else rank + 1])
    if dtype.is_float:
        values = rng.standard_normal(shape, dtype=np.float32)
        # The scale format holds powers of two only.
        return (np.exp2(np.rint(values)) if dtype is DType.float8_e8m0fnu else values).astype(dtype.numpy)
    low = 0 if dtype.value.startswith("u") else -8
    return rng.integers(low, 8, shape, endpoint=True).astype(dtype.numpy)


def _value(name: str, spec: str, ranks: int, seed: int) -> Value:
    if spec.startswith("groups:"):
        return _constant(_groups(spec.removeprefix("groups:"), ranks))
    generated = _GENERATED.fullmatch(spec)
    if generated:
        return _generated(name, seed, ranks, *generated.groups())
    if spec.endswith(".npz"):
        fail("NKC006", option="--input", why=f"{spec} holds several arrays, name one: {spec}:key")
    if spec.endswith(".npy") or ".npz:" in spec:
        return _file(spec)
    try:
        value = ast.literal_eval(spec)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = spec
    if not isinstance(value, int | float | bool | str | None) or not re.fullmatch(r"[^\[\](){}]*", spec):
        fail(
            "NKC006",
            option="--input",
            why=f"{spec!r} is neither a file, nor dtype[shape], nor groups:…, nor a constant",
        )
    return _constant(value)


def _constant(value: object) -> Value:
    return lambda rank: value


def _groups(text: str, ranks: int) -> object:
    if text == "all":
        return ReplicaGroup([list(range(ranks))])
    try:
        groups = json.loads(text)
    except (ValueError, RecursionError):
        groups = None
    if not isinstance(groups, list) or not all(
        isinstance(group, list) and all(type(rank) is int for rank in group) for group in groups
    ):
        fail("NKC006", option="--input", why=f"groups:{text} is not a list of lists of ranks, such as groups:[[0,1]]")
    return ReplicaGroup(groups)


def _generated(name: str, seed: int, ranks: int, dtype: str, extents: str, same: str | None) -> Value:
    try:
        element = DType.of(dtype)
    except TypeError:
        why = f"{dtype} is no data type of the machine; it has {', '.join(DType)}"
        fail("NKC006", option="--input", why=f"{name}: {why}")
    try:
        shape = tuple(int(extent) for extent in extents.split(","))
    except ValueError:
        fail("NKC006", option="--input", why=f"{name}: [{extents}] is no shape, such as [128,512]")
    if min(shape) < 1 or math.prod(shape) * element.size > MAX_TENSOR_BYTES:
        fail("NKC006", option="--input", why=f"{name}: {dtype}[{extents}] is no size of a tensor")
    if same:
        value = cache(lambda: random_array(element, shape, name, seed, None))
        return lambda rank: value()
    Budget().reserve(name, math.prod(shape) * element.size, ranks)
    return lambda rank: random_array(element, shape, name, seed, rank)


def _file(pattern: str) -> Value:
    if "{rank}" in pattern:
        return lambda rank: arrays.read(pattern.replace("{rank}", str(rank)))
    value = cache(lambda: arrays.read(pattern))
    return lambda rank: value()
