"""`nki.jit`: what makes a function a kernel, and what it means to call one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol, overload

from nkicc.builder.source import refuse

from .trace import is_tracing

__all__ = ["Kernel", "baremetal", "benchmark", "jit", "set_launcher", "simulate"]


class Launcher(Protocol):
    """What runs kernels that are called outside of a trace."""

    def call(self, kernel: Kernel, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any: ...

    def has_collectives(self, kernel: Kernel, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool: ...


_launcher: Launcher | None = None


def set_launcher(launcher: Launcher) -> None:
    """Running a kernel is the business of layers above this one, which say here how."""
    global _launcher
    _launcher = launcher


class Kernel:
    """A function that can be launched. Inside of another kernel it is called like any function; outside it runs on one
    rank. `kernel[grid]` asks for a number of programs, which a run compares with its LNC."""

    def __init__(self, function: Callable[..., Any], grid: int | None = None) -> None:
        self.function = function
        self.grid = grid
        functools.update_wrapper(self, function)
        self.name: str = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, while a kernel is traced. Otherwise a run on one rank: returns arrays, and arrays that
        the kernel writes to are changed in place."""
        if is_tracing():
            return self.function(*args, **kwargs)
        return self._launcher().call(self, args, kwargs)

    def _launcher(self) -> Launcher:
        if _launcher is None:
            refuse("NKC009", what=f"kernel {self.name}")
        return _launcher

    def __getitem__(self, grid: int | tuple[int, ...]) -> Kernel:
        """The kernel launched on `grid` programs. NKC035 unless that is one positive integer."""
        extent = grid[0] if isinstance(grid, tuple) and len(grid) == 1 else grid
        if type(extent) is not int or extent < 1:
            refuse(
                "NKC035",
                inst=self.name,
                what="grid",
                found=grid,
                permitted="one integer, the number of cores of a rank",
                operand="grid",
            )
        return type(self)(self.function, extent)

    def with_schedule(self, schedule: Any) -> Kernel:
        """The kernel itself: edges of a schedule order instructions that run in program order here."""
        return self

    def __repr__(self) -> str:
        return f"<kernel {self.function.__qualname__}>"


_WITHOUT_EFFECT = frozenset({"mode", "debug_kernel", "compile_config", "specialization_config"})


@overload
def jit(function: Callable[..., Any]) -> Kernel: ...
@overload
def jit(**options: Any) -> Callable[[Callable[..., Any]], Kernel]: ...
def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a function a kernel, as `@nki.jit` or `@nki.jit()`. What steers frameworks and the compiler's back end
    (`mode`, `debug_kernel`, `compile_config`, `specialization_config`) has no effect; other options are refused
    (NKC008)."""
    for name in options:
        if name not in _WITHOUT_EFFECT:
            refuse("NKC008", what=f"nki.jit({name}=...)", instead="Give target and LNC to the run.", operand=name)
    return Kernel if function is None else Kernel(function)


def simulate(kernel: Callable[..., Any]) -> Kernel:
    """`nki.simulate(kernel)(*args)`: run on one rank. A plain function counts as a kernel."""
    return kernel if isinstance(kernel, Kernel) else Kernel(kernel)


class _OnDevice(Kernel):
    """A kernel that wants to run on a device. Calling it is refused: NKC113 if it holds a collective, else NKC008."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            return self.function(*args, **kwargs)
        if self._launcher().has_collectives(self, args, kwargs):
            refuse("NKC113")
        return refuse(
            "NKC008", what="running on a device", instead="Call nki.simulate(kernel)(*args) or nkicc.run(...)."
        )


def benchmark(kernel: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Refused when the kernel is called: there is no device here."""
    return _on_device if kernel is None else _on_device(kernel)


def baremetal(kernel: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Refused when the kernel is called: there is no device here."""
    return _on_device if kernel is None else _on_device(kernel)


def _on_device(kernel: Callable[..., Any]) -> Kernel:
    return _OnDevice(kernel.function, kernel.grid) if isinstance(kernel, Kernel) else _OnDevice(kernel)
