"""Programs and loops of `nki.language`.

Loops over Python ranges are unrolled while the kernel is traced. `fori_loop`, `while_loop` and `dynamic_range` are
loops of the device: their bodies are traced once, and their trip counts may differ between ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nkicc.builder.source import refuse
from nkicc.ir.access import Register as IrRegister
from nkicc.ir.isa import InstRegisterMove

from .tensor import Register
from .trace import Tracer, current

__all__ = [
    "affine_range",
    "dynamic_range",
    "fori_loop",
    "no_reorder",
    "num_programs",
    "program_id",
    "program_ndim",
    "sequential_range",
    "static_range",
    "while_loop",
]

affine_range = sequential_range = static_range = range


def program_ndim() -> int:
    """Number of grid dimensions: 1, or 0 for a kernel that was launched without a grid."""
    return 0 if current("nl.program_ndim").grid is None else 1


def num_programs(axes: int = 0) -> int:
    """Number of programs: the physical cores of a rank. NKC088 for an axis other than 0."""
    _check_axis(axes)
    return current("nl.num_programs").grid or 1


def program_id(axis: int = 0) -> int:
    """Which of them this is. NKC088 for an axis other than 0."""
    _check_axis(axis)
    return current("nl.program_id").core


def _check_axis(axis: object) -> None:
    if type(axis) is not int or axis != 0:
        refuse("NKC088", axis=axis, axes="axis 0", operand="axis")


def _loop_tracer(function: str) -> Tracer:
    tracer = current(f"nl.{function}")
    if tracer.ordered:
        refuse("NKC008", what=f"nl.{function} inside nl.no_reorder()", instead="Put the loop around the block.")
    return tracer


def _bounds(function: str, start: Any, stop: Any, step: Any) -> tuple[int | IrRegister, int | IrRegister, int]:
    """NKC035 unless the step is a positive integer; the builder checks the rest."""
    if type(step) is not int or step < 1:
        refuse("NKC035", inst=f"nl.{function}", what="step", found=step, permitted="a positive integer", operand="step")
    lower, upper = (bound.register if isinstance(bound, Register) else bound for bound in (start, stop))
    return lower, upper, step


def fori_loop(
    lower: int | Register, upper: int | Register, body_fun: Callable[[Register], object], step: int = 1
) -> None:
    """A loop of the device: `body_fun` is traced once, with the register that counts from `lower` to before `upper`."""
    tracer = _loop_tracer("fori_loop")
    with tracer.codegen.loop(*_bounds("fori_loop", lower, upper, step)) as register:
        body_fun(Register(register))


def while_loop(init: Register, body_fun: Callable[[Register], Register]) -> None:
    """A loop of the device that runs while a register is not zero: `init` at first, then what `body_fun` returned. The
    body gets the current value. NKC035 unless both are registers."""
    codegen = _loop_tracer("while_loop").codegen
    condition = codegen.register()
    codegen.insert(InstRegisterMove(dst=condition, src=_register(init, "init").name))
    with codegen.while_loop(condition):
        following = _register(body_fun(Register(condition)), "what body_fun returns")
        if following.name != condition.name:
            codegen.insert(InstRegisterMove(dst=condition, src=following.name))


def _register(value: Any, what: str) -> Register:
    if not isinstance(value, Register):
        refuse("NKC035", inst="nl.while_loop", what=what, found=value, permitted="a register", operand="init")
    return value


def dynamic_range(start: int | Register, stop: int | Register | None = None, step: int = 1) -> Iterator[Register]:
    """`for i in nl.dynamic_range(...)`: a loop of the device whose body is traced once, with a register. Python cannot
    leave it early (NKC111)."""
    tracer = _loop_tracer("dynamic_range")
    lower, upper = (0, start) if stop is None else (start, stop)
    bounds = _bounds("dynamic_range", lower, upper, step)
    return _iterate(tracer, bounds)


def _iterate(tracer: Tracer, bounds: tuple[int | IrRegister, int | IrRegister, int]) -> Iterator[Register]:
    loop = tracer.codegen.loop(*bounds)
    register = loop.__enter__()
    # A `break` closes this generator here: nothing may be undone then, for the tracer must see the open loop.
    tracer.enter("nl.dynamic_range", loop)
    yield Register(register)
    tracer.leave(loop)
    loop.__exit__(None, None, None)


@contextmanager
def no_reorder() -> Iterator[None]:
    """Instructions inside keep their order, as they do everywhere here. Loops of the device are refused (NKC008)."""
    tracer = current("nl.no_reorder")
    before, tracer.ordered = tracer.ordered, True
    try:
        yield
    finally:
        tracer.ordered = before
