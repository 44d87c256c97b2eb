"""Kernels called like functions: `kernel(x, y)`, `kernel[2](x, y)` and `nki.simulate(kernel)(x, y)`.

Such a call runs on one rank. It returns arrays and writes into the caller's arrays what the kernel wrote into its
arguments; torch tensors in give torch tensors out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nkicc.environment import default_lnc
from nkicc.host import from_host, is_torch, to_torch
from nkicc.ir.errors import fail
from nkicc.nki.kernel import Kernel, set_launcher
from nkicc.session import run, trace

__all__ = ["Eager"]


class Eager:
    """What `nkicc.nki.kernel` calls for a kernel outside of a trace."""

    def call(self, kernel: Kernel, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run on one rank of `kernel.grid` cores; without a grid, of NEURON_LOGICAL_NC_CONFIG cores."""
        given = _bind(kernel, args, kwargs)
        result = run(kernel, ranks=1, lnc=kernel.grid or default_lnc(), inputs=given)
        for name, left in result.inputs[0].items():
            _write_back(name, given[name], left)
        convert = to_torch if any(map(is_torch, given.values())) else _same
        return _converted(result.outputs[0], convert)

    def has_collectives(self, kernel: Kernel, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether the kernel, called so, issues a collective."""
        given = _bind(kernel, args, kwargs)
        module = trace(kernel, ranks=1, lnc=kernel.grid or default_lnc(), inputs=given).module
        return any(program.has_collectives for program in module.programs)


def _bind(kernel: Kernel, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by parameter name. NKC007 if they do not fit."""
    signature = inspect.signature(kernel.function)
    try:
        given = dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        fail("NKC007", name=kernel.name, why=str(error), cause=error)
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) and given.pop(name, None):
            fail("NKC007", name=name, why="a kernel takes its arguments by name, not in * or **", operand=name)
    return given


def _write_back(name: str, original: Any, left: np.ndarray) -> None:
    """What the kernel wrote into an argument, into the caller's array. NKC007 if that is read-only."""
    array = from_host(original)
    if np.may_share_memory(array, left):
        return
    if is_torch(original):
        original.copy_(to_torch(left.copy()))
        return
    if array.flags.writeable:
        np.copyto(array, left, casting="unsafe")
    elif not np.array_equal(array.view(np.uint8), left.view(np.uint8)):
        fail("NKC007", name=name, why="the kernel writes to it, but the array is read-only", operand=name)


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _converted(value: Any, convert: Callable[[np.ndarray], Any]) -> Any:
    """What the kernel returned, in arrays that the caller may write to."""
    if isinstance(value, np.ndarray):
        return convert(value.copy())
    return type(value)(_converted(item, convert) for item in value) if isinstance(value, list | tuple) else value


set_launcher(Eager())
