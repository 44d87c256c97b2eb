"""A bir module and the arguments of every rank in, the outcome out."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkicc import simulator
from nkicc.engines import Options
from nkicc.ir.errors import fail
from nkicc.ir.program import Module, Program
from nkicc.simulator.budget import Budget

from .job import Arguments
from .outcome import Outcome, collect
from .specs import random_array

__all__ = ["Stacks", "arguments", "simulate"]

#: Per program its arguments by name, ranks leading (extent 1: the same on all ranks of the program).
Stacks = list[dict[str, np.ndarray]]


def arguments(module: Module, inputs: Arguments, seed: int) -> tuple[Stacks, list[str]]:
    """The arguments of a program that was read from JSON, with a note on those that are not given: they are random,
    different on each rank. NKC007 for an unknown name or an array of another shape or type, NKC106 for more than this
    machine's memory holds."""
    budget = Budget()
    for program in module.programs:
        for tensor in program.tensors:
            if tensor.name in program.inputs and tensor.name not in inputs.values:
                count = len(program.ranks) or module.world.ranks
                budget.reserve(tensor.name, tensor.size * tensor.dtype.size, count)
    given: list[dict[str, Any]] = []
    for rank in range(module.world.ranks):
        given.append(inputs(rank))
        for name, value in given[rank].items():
            if isinstance(value, np.ndarray):
                budget.add(name, value)
    stacks = [_stack(program, given, seed) for program in module.programs]
    names = dict.fromkeys(name for program in module.programs for name in program.inputs)
    drawn = [name for name in names if not all(name in values for values in given)]
    return stacks, [f"random inputs: {', '.join(drawn)} (seed {seed})"] if drawn else []


def simulate(title: str, module: Module, stacks: Stacks, options: Options) -> Outcome:
    """Run a module that has been verified."""
    execution = simulator.simulate(module, stacks, options)
    ranks = range(module.world.ranks)
    returned: list[list[np.ndarray]] = [[] for _ in ranks]
    left: list[dict[str, np.ndarray]] = [{} for _ in ranks]
    for program, outputs, inputs in zip(module.programs, execution.outputs, execution.inputs, strict=True):
        for row, rank in enumerate(program.ranks or ranks):
            returned[rank] = [array[min(row, len(array) - 1)] for array in outputs]
            left[rank] = {name: array[min(row, len(array) - 1)] for name, array in inputs.items()}
    return Outcome(title, module, collect(module, returned, left), execution.report, [])


def _stack(program: Program, given: list[dict[str, Any]], seed: int) -> dict[str, np.ndarray]:
    ranks = program.ranks or range(len(given))
    tensors = {tensor.name: tensor for tensor in program.tensors}
    for name in given[ranks[0]]:
        if name not in program.inputs:
            fail("NKC007", name=name, why=f"the program takes {', '.join(program.inputs) or 'no arguments'}")
    stacked: dict[str, np.ndarray] = {}
    for name in program.inputs:
        tensor = tensors[name]
        values: list[np.ndarray] = []
        for rank in ranks:
            value = given[rank].get(name)
            if value is None:
                value = random_array(tensor.dtype, tensor.shape, name, seed, rank)
            if getattr(value, "dtype", None) != tensor.dtype.numpy or value.shape != tensor.shape:
                found = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
                fail(
                    "NKC007",
                    name=name,
                    why=f"it is {found}, the program takes {tensor.dtype.value}{list(tensor.shape)}",
                )
            values.append(value)
        uniform = all(value is values[0] for value in values)
        stacked[name] = values[0][None] if uniform else np.stack(values)
    return stacked
