"""`nki.jit`: what makes a function a kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from nkicc.builder.source import refuse

from .trace import is_tracing

__all__ = ["Kernel", "jit"]


class Kernel:
    """A function that can be launched. Inside of another kernel it is called like any function; `kernel[grid]` asks for
    a number of programs, which a run compares with its LNC."""

    def __init__(self, function: Callable[..., Any], grid: int | None = None) -> None:
        self.function = function
        self.grid = grid
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, while a kernel is traced; NKC009 otherwise."""
        if not is_tracing():
            refuse("NKC009", what=f"kernel {self.function.__name__}")
        return self.function(*args, **kwargs)

    def __getitem__(self, grid: int | tuple[int, ...]) -> Kernel:
        """The kernel launched on `grid` programs. NKC035 unless that is one positive integer."""
        extent = grid[0] if isinstance(grid, tuple) and len(grid) == 1 else grid
        if type(extent) is not int or extent < 1:
            refuse(
                "NKC035",
                inst=self.function.__name__,
                what="grid",
                found=grid,
                permitted="one integer, the number of cores of a rank",
                operand="grid",
            )
        return Kernel(self.function, extent)

    def __repr__(self) -> str:
        return f"<kernel {self.function.__qualname__}>"


@overload
def jit(function: Callable[..., Any]) -> Kernel: ...
@overload
def jit(*, mode: str | None = None) -> Callable[[Callable[..., Any]], Kernel]: ...
def jit(function: Callable[..., Any] | None = None, *, mode: str | None = None) -> Any:
    """Make a function a kernel, as `@nki.jit` or `@nki.jit()`. `mode` has no meaning since NKI 0.3.0."""
    return Kernel if function is None else Kernel(function)
