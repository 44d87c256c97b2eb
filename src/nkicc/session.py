"""A run from kernel to results: trace once per core, lower, check, execute, hand back what every rank holds."""

from __future__ import annotations

import functools
import inspect
import os
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Never

import msgspec
import numpy as np
from msgspec import Struct

from nkicc.builder import NeuronCodegen, ParallelState, link, link_programs
from nkicc.builder.arguments import plain
from nkicc.engines import Engine, Options, Report
from nkicc.environment import default_target, low_precision_as_float32
from nkicc.host import from_host
from nkicc.ir.access import AccessPattern
from nkicc.ir.errors import USER_ERRORS, NkiccError, fail, text_of
from nkicc.ir.findings import raise_first
from nkicc.ir.program import Module
from nkicc.ir.types import DType, Loc, Memory, Target, World
from nkicc.lowering import DEFAULT, lower
from nkicc.nki import Kernel
from nkicc.nki.tensor import ndarray
from nkicc.nki.trace import Tracer, tracing
from nkicc.simulator import simulate
from nkicc.simulator.budget import Budget
from nkicc.verify import SDK, verify

__all__ = ["Inputs", "Result", "Traced", "execute", "run", "trace"]

#: Arguments by parameter name: one dict for all ranks, or a function of the rank.
Inputs = Mapping[str, Any] | Callable[[int], Mapping[str, Any]]
Arrays = dict[str, np.ndarray]

ENGINES: dict[str, Engine] = {"simulator": simulate}


class Result(Struct, frozen=True):
    """What a run gave. Arrays are read-only; ranks that hold the same may share one.

    `outputs[rank]` is what the kernel returned there, in the same structure; `inputs[rank]` its array arguments as the
    kernel left them. `program` is the bir module that ran, `penguin` what it was lowered from, `report` the engine's.
    """

    outputs: list[Any]
    inputs: list[Arrays]
    program: Module
    penguin: Module
    report: Report

    def __repr__(self) -> str:
        """What ran and what rank 0 got, without the values."""
        first = self.outputs[0]
        arrays = list(first) if isinstance(first, tuple | list) else [] if first is None else [first]
        shapes = ", ".join(f"{array.dtype}{list(array.shape)}" for array in arrays)
        return (
            f"<Result of {self.program.programs[0].name} on {self.report.ranks} rank(s) x {self.report.lnc} core(s): "
            f"{shapes or 'nothing'} on rank 0>"
        )


class Traced(Struct, frozen=True):
    """A kernel's program with the arguments to run it on. Per program of the module: `inputs` by name, ranks leading
    (extent 1: the same on all of them), and `structures`, which turns the list of returned arrays into what the kernel
    returned."""

    module: Module
    inputs: list[Arrays]
    structures: list[Callable[[list[np.ndarray]], Any]]

    def __repr__(self) -> str:
        """What was traced, without instructions and values."""
        names = ", ".join(dict.fromkeys(name for arrays in self.inputs for name in arrays))
        return f"<Traced {self.module.programs[0].name}({names}) on {self.module.world.ranks} rank(s)>"


def run(
    kernel: Kernel | Callable[..., Any],
    *,
    ranks: int,
    lnc: int = 1,
    target: str | Target | None = None,
    inputs: Inputs,
    engine: str = "simulator",
    passes: str | None = None,
    path: str = "loop",
    sdk: str = SDK,
    strict: bool = False,
    allow_io: bool = False,
    **options: Any,
) -> Result:
    """Run a kernel on `ranks` simulated ranks of `lnc` cores each.

    `inputs` names the kernel's parameters: a dict, the same on all ranks, or a function from the rank to one. NumPy
    arrays and torch tensors become tensors in shared HBM and are not modified; everything else is a constant of the
    trace. Ranks whose constants, shapes and dtypes agree share one program. `passes` is a lowering pipeline, None the
    default one. `sdk`, `strict` and `allow_io` are those of `nkicc.verify.check`: what a machine would refuse but the
    simulator does is in `report.warnings`, and refused if `strict`. `options` are those of `nkicc.engines.Options`.
    Where nothing is given, NEURON_PLATFORM_TARGET_OVERRIDE is the target (else trn2), and NKI_PRECISE_FP=0 means
    `low_precision_as_float32`.

    Raises NkiccError with the code of whatever is refused; a kernel's own exception is NKC005 with that as cause.
    """
    traced = trace(kernel, ranks=ranks, lnc=lnc, target=target, inputs=inputs)
    return execute(
        traced, engine=engine, passes=passes, path=path, sdk=sdk, strict=strict, allow_io=allow_io, **options
    )


def trace(
    kernel: Kernel | Callable[..., Any],
    *,
    ranks: int,
    lnc: int = 1,
    target: str | Target | None = None,
    inputs: Inputs,
) -> Traced:
    """The penguin module of a kernel and the arguments to run it on; arguments as those of `run`."""
    if not isinstance(kernel, Kernel):
        if not callable(kernel):
            fail("NKC006", option="kernel", why=f"a function is needed, not {type(kernel).__name__}")
        kernel = Kernel(kernel)
    ranks, lnc = plain(ranks), plain(lnc)
    if not World(ranks, lnc).is_possible:
        fail("NKC014", lnc=lnc, ranks=ranks)
    if target is None:
        target = default_target()
    if target not in list(Target):
        fail("NKC006", option="target", why=f"{target!r} is none of {', '.join(Target)}")
    state = ParallelState(World(ranks, lnc))
    programs: list[tuple[list[NeuronCodegen], _Returned]] = []
    arguments = _rank_sets(kernel, ranks, inputs)
    for members, values, arrays in arguments:
        codegens: list[NeuronCodegen] = []
        returned: list[_Returned] = []
        for core in range(lnc):
            codegen = NeuronCodegen(state, target=Target(target), core=core, ranks=members or None, name=kernel.name)
            grid = kernel.grid or (lnc if lnc > 1 else None)
            codegen.post_process_spmd_grid(grid)
            returned.append(_trace_core(kernel, Tracer(codegen, grid), values, arrays))
            codegens.append(codegen)
        for other in returned[1:]:
            if other != returned[0]:
                fail("NKC010", found="different tensors on the cores of a rank")
        programs.append((codegens, returned[0]))
    modules = [
        link(codegens, name=kernel.name, inputs=tuple(arrays), outputs=returned.views)
        for (codegens, returned), (_, _, arrays) in zip(programs, arguments, strict=True)
    ]
    return Traced(
        modules[0] if len(modules) == 1 else link_programs(modules),
        [arrays for _, _, arrays in arguments],
        [returned.structure for _, returned in programs],
    )


def execute(
    traced: Traced,
    *,
    engine: str = "simulator",
    passes: str | None = None,
    path: str = "loop",
    sdk: str = SDK,
    strict: bool = False,
    allow_io: bool = False,
    **options: Any,
) -> Result:
    """Lower, check and run what `trace` gave. NKC006 for an unknown engine, path or option, NKC013 for the pipeline."""
    if engine not in list(ENGINES):
        fail("NKC006", option="engine", why=f"{engine!r} is none of {', '.join(ENGINES)}")
    try:
        switches = msgspec.convert({"low_precision_as_float32": low_precision_as_float32(), **options}, Options)
    except msgspec.ValidationError as error:
        fail("NKC006", option="run", why=str(error), cause=error)
    for option, text in (("passes", DEFAULT if passes is None else passes), ("path", path), ("sdk", sdk)):
        if not isinstance(text, str):
            fail("NKC006", option=option, why=f"a text is needed, not {text!r}")
    module = lower(traced.module, path=path, passes=DEFAULT if passes is None else passes)
    warnings = verify(module, sdk=sdk, strict=strict, allow_io=allow_io)
    execution = ENGINES[engine](module, traced.inputs, switches)
    raise_first(execution.report.warnings, strict=strict)
    execution.report.warnings += warnings
    outputs: list[Any] = [None] * module.world.ranks
    inputs: list[Arrays] = [{} for _ in outputs]
    for index, program in enumerate(module.programs):
        returned, left = execution.outputs[index], execution.inputs[index]
        for array in (*returned, *left.values()):
            array.flags.writeable = False
        for row, rank in enumerate(program.ranks or range(module.world.ranks)):
            outputs[rank] = traced.structures[index]([_row(array, row) for array in returned])
            inputs[rank] = {name: _row(array, row) for name, array in left.items()}
    return Result(outputs, inputs, module, traced.module, execution.report)


def _row(array: np.ndarray, row: int) -> np.ndarray:
    """A rank's part of an array with ranks leading, as a view."""
    return array[row if len(array) > 1 else 0]


# --- arguments -------------------------------------------------------------------------------------------------------


def _rank_sets(kernel: Kernel, ranks: int, inputs: Inputs) -> list[tuple[tuple[int, ...], dict[str, Any], Arrays]]:
    """The ranks grouped by what a trace depends on: per group its ranks (empty: all), the arguments of its first rank,
    and its arrays with ranks leading."""
    bind = _binder(kernel)
    if isinstance(inputs, Mapping):
        values = bind(inputs)
        return [((), values, _stack(values, [values]))]
    if not callable(inputs):
        fail("NKC007", name="inputs", why=f"a dict or a function of the rank is needed, not {type(inputs).__name__}")
    groups: dict[Any, list[int]] = {}
    given: list[dict[str, Any]] = []
    budget = Budget()
    for rank in range(ranks):
        given.append(bind(_call(inputs, rank)))
        for name, value in given[rank].items():
            if isinstance(value, np.ndarray):
                budget.add(name, value)
        key = tuple([(name, _key(name, value)) for name, value in given[rank].items()])
        groups.setdefault(key, []).append(rank)
    return [
        (
            tuple(members) if len(groups) > 1 else (),
            given[members[0]],
            _stack(given[members[0]], [given[rank] for rank in members]),
        )
        for members in groups.values()
    ]


def _call(inputs: Callable[[int], Mapping[str, Any]], rank: int) -> Mapping[str, Any]:
    """The arguments of a rank; NKC017 if the caller's function raises."""
    try:
        return inputs(rank)
    except NkiccError:
        raise
    except USER_ERRORS as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        fail(
            "NKC017",
            what=f"inputs({rank})",
            kind=type(error).__name__,
            text=text_of(error),
            loc=Loc(where.filename, where.lineno or 0, where.name),
            cause=error,
        )


def _binder(kernel: Kernel) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """From given arguments to all of them, in the order of the kernel's parameters, defaults filled in. NKC007 for what
    is missing or unknown."""
    try:
        parameters = inspect.signature(kernel.function).parameters
    except ValueError as error:
        # Some callables that are not written in Python tell nobody what they take.
        fail("NKC006", option="kernel", why=str(error), cause=error)
    needed = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]

    def bind(given: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            fail("NKC007", name="inputs", why=f"a dict by parameter name is needed, not {type(given).__name__}")
        for name in given:
            if name not in parameters:
                takes = ", ".join(parameters) or "nothing"
                fail("NKC007", name=name, why=f"kernel {kernel.name} takes {takes}", operand=str(name))
        missing = [name for name in needed if name not in given]
        if missing:
            others = f"; so are {', '.join(map(repr, missing[1:]))}" if missing[1:] else ""
            fail("NKC007", name=missing[0], why=f"it is missing and has no default{others}", operand=missing[0])
        return {
            name: from_host(given.get(name, parameter.default))
            for name, parameter in parameters.items()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }

    return bind


def _key(name: str, value: Any) -> Any:
    """What a trace depends on in one argument: shape and dtype of an array, the value of a constant."""
    if isinstance(value, np.ndarray):
        return (np.ndarray, value.shape, value.dtype)
    if isinstance(value, tuple | list):
        return (type(value), *[_key(name, item) for item in value])
    if isinstance(value, dict):
        return (dict, *[(key, _key(name, item)) for key, item in value.items()])
    try:
        hash(value)
    except TypeError:
        # A dataclass with __eq__ has no hash; its fields have.
        fields = getattr(value, "__dict__", None)
        return (type(value), id(value)) if fields is None else (type(value), _key(name, fields))
    return (type(value), value)


def _stack(first: Mapping[str, Any], given: Sequence[Mapping[str, Any]]) -> Arrays:
    """The array arguments with ranks leading: extent 1 if all ranks were given one object. NKC028 for a dtype that the
    machine lacks, NKC106 for more than its memory holds, NKC007 for an array inside of a container."""
    arrays: Arrays = {}
    for name, value in first.items():
        if isinstance(value, np.ndarray):
            dtype = _dtype(name, value)
            rows = [values[name] for values in given]
            uniform = all(row is value for row in rows)
            if not uniform:
                # Rows may be few arrays over and over, so that all of them together are what is large.
                Budget().reserve(name, value.nbytes, len(rows))
            arrays[name] = np.asarray(value[None] if uniform else np.stack(rows), dtype)
        elif _holds_array(value):
            fail("NKC007", name=name, why="arrays are passed one per parameter, not in a container", operand=name)
    return arrays


def _dtype(name: str, value: np.ndarray) -> np.dtype:
    try:
        return DType.of(value.dtype).numpy
    except TypeError as error:
        fail(
            "NKC028",
            what=f"input {name!r}",
            found=value.dtype,
            operand=name,
            hint=f"Cast it, for instance with .astype(np.float32). The machine has {', '.join(DType)}.",
            cause=error,
        )


def _holds_array(value: Any) -> bool:
    items: Iterable[Any] = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    )
    return any(isinstance(item, np.ndarray) or _holds_array(item) for item in items)


# --- one core's trace ------------------------------------------------------------------------------------------------


class _Returned(Struct, frozen=True):
    """What a kernel returned: the views in order, and how to put arrays in their place."""

    views: tuple[AccessPattern, ...]
    structure: Callable[[list[np.ndarray]], Any]


def _trace_core(kernel: Kernel, tracer: Tracer, values: Mapping[str, Any], arrays: Arrays) -> _Returned:
    """Call the kernel's function with tensors for its arrays. Its own exceptions become NKC005 at its line."""
    arguments = dict(values)
    line = _kernel_line(kernel)
    for name, array in arrays.items():
        arguments[name] = ndarray.of(tracer.argument(name, array.shape[1:], DType.of(array.dtype), line))
    with tracing(tracer):
        try:
            returned = kernel.function(**arguments)
            tracer.finish()
        except NkiccError:
            raise
        except USER_ERRORS as error:
            _fail_in_kernel(kernel, error)
    return _returned(returned)


def _kernel_line(kernel: Kernel) -> Loc | None:
    """Where the kernel is defined; None for a callable that is not written in Python."""
    function: Any = kernel.function
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return None if code is None else Loc(code.co_filename, code.co_firstlineno, code.co_name)


def _fail_in_kernel(kernel: Kernel, error: BaseException) -> Never:
    line = _kernel_line(kernel)
    package = os.path.dirname(__file__) + os.sep
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(package)]
    own = [frame for frame in frames if line is not None and frame.filename == line.file]
    where = (own or frames)[-1] if frames else None
    deepest = frames[-1] if frames else None
    fail(
        "NKC005",
        kind=type(error).__name__,
        text=text_of(error),
        loc=Loc(where.filename, where.lineno or 0, where.name) if where else None,
        notes=() if deepest is where or deepest is None else (f"raised at {deepest.filename}:{deepest.lineno}",),
        cause=error,
    )


def _nothing(arrays: list[np.ndarray]) -> None:
    return None


def _only(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0]


def _returned(value: Any) -> _Returned:
    """NKC010 for what is no tensor in shared HBM, or a tuple or list of such. A kernel may return nothing and write to
    its arguments."""
    if value is None:
        return _Returned((), _nothing)
    if type(value) in (tuple, list):
        return _Returned(tuple([_output(item) for item in value]), type(value))
    return _Returned((_output(value),), _only)


def _output(value: Any) -> AccessPattern:
    if not isinstance(value, ndarray):
        fail("NKC010", found=f"a value of type {type(value).__name__}")
    if value.buffer is not Memory.shared_hbm:
        fail("NKC010", found=f"{value.name!r}, which is in {value.buffer.value}", loc=value.storage.loc)
    if value.is_indirect():
        fail("NKC010", found=f"a view of {value.name!r} with a dynamic offset", loc=value.storage.loc)
    return value.__access__()
