"""A codegen with tensors of every kind, and the check that a refusal changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nkicc.builder import NeuronCodegen, ParallelState, ProgramAxis
from nkicc.ir.errors import NkiccError
from nkicc.ir.types import Target, World

TP = ProgramAxis("program_id_0", 2)
LOOP = ProgramAxis("i", 8, is_program_id=False)


def codegen(
    ranks: int = 4, lnc: int = 1, core: int = 0, target: Target = Target.trn2, only: tuple[int, ...] | None = None
) -> NeuronCodegen:
    """Four ranks by default. HBM: a, b (8, 16), wide (32, 16), narrow (2, 16), half (bfloat16), own (private). SBUF: s,
    t (128, 64), big (128, 256). PSUM: p (128, 64). Everything else is float32."""
    made = NeuronCodegen(ParallelState(World(ranks, lnc)), target=target, core=core, ranks=only)
    for name, shape, dtype, memory in (
        ("a", (8, 16), "float32", "shared_hbm"),
        ("b", (8, 16), "float32", "shared_hbm"),
        ("wide", (32, 16), "float32", "shared_hbm"),
        ("narrow", (2, 16), "float32", "shared_hbm"),
        ("half", (8, 16), "bfloat16", "shared_hbm"),
        ("own", (8, 16), "float32", "private_hbm"),
        ("counts", (3, 4), "uint32", "shared_hbm"),
        ("s", (128, 64), "float32", "sbuf"),
        ("t", (128, 64), "float32", "sbuf"),
        ("big", (128, 256), "float32", "sbuf"),
        ("p", (128, 64), "float32", "psum"),
    ):
        made.allocate(name, shape, dtype, memory)
    return made


def state(cg: NeuronCodegen) -> tuple[object, ...]:
    """Everything that a refused instruction must leave as it was."""
    return (
        cg.core_part(),
        tuple(cg.registers),
        tuple(cg.tensors),
        dict(cg._fresh),
        dict(cg._named),
        cg.has_collectives,
        tuple(cg.program_barriers),
        cg.grid,
    )


def refused(
    cg: NeuronCodegen, call: Callable[[NeuronCodegen], object], code: str, operand: str = "", message: str = ""
) -> NkiccError:
    """`call` is refused with `code`, at its own source line, and nothing has changed."""
    before = state(cg)
    with pytest.raises(NkiccError) as caught:
        call(cg)
    error = caught.value
    assert (error.code, error.operand) == (code, operand or error.operand), str(error)
    if message:
        assert error.message == message
    assert error.loc is not None
    assert error.loc.file == call.__code__.co_filename
    assert error.loc.line in {line for _, _, line in call.__code__.co_lines()}
    assert state(cg) == before
    return error
