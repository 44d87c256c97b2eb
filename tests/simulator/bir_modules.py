"""Small bir modules for tests of the simulator alone."""

from __future__ import annotations

import numpy as np

from nkicc.engines import Execution, Options
from nkicc.ir.access import Tensor
from nkicc.ir.program import Core, Instruction, Level, Module, Program
from nkicc.ir.types import DType, Memory, Target, World
from nkicc.simulator import simulate


def tensor(name: str, shape: tuple[int, ...], dtype: str = "float32", memory: Memory = Memory.shared_hbm) -> Tensor:
    return Tensor(name, shape, DType.of(dtype), memory)


def sbuf(name: str, shape: tuple[int, ...], dtype: str = "float32") -> Tensor:
    return tensor(name, shape, dtype, Memory.sbuf)


def module(
    *bodies: tuple[Instruction, ...],
    shared: tuple[Tensor, ...] = (),
    own: tuple[Tensor, ...] = (),
    inputs: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
    ranks: int = 1,
) -> Module:
    """One program; one body per core; every core has the `own` tensors."""
    by_name = {t.name: t for t in shared}
    program = Program(
        "k",
        tuple(Core(tensors=own, body=body) for body in bodies),
        shared,
        inputs,
        tuple(by_name[name].full() for name in outputs),
    )
    built = Module(Level.bir, World(ranks, len(bodies)), Target.trn2, (program,))
    built.verify()
    return built


def run(built: Module, options: Options | None = None, **inputs: np.ndarray) -> Execution:
    """Simulate a module of one program; inputs have ranks leading."""
    return simulate(built, [inputs], options)
