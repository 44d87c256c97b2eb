"""The program grid, its barriers, the processing rank, and linking cores and programs into a module."""

from __future__ import annotations

from typing import Any

import pytest

from nkicc.builder import (
    CompositeSPMDDim,
    NeuronCodegen,
    ParallelState,
    ProgramAxis,
    ProgramBarrier,
    link,
    link_programs,
)
from nkicc.builder import collective_permute_implicit_current_processing_rank_id as processing_rank
from nkicc.ir.access import AccessPattern, Register
from nkicc.ir.errors import NkiccError
from nkicc.ir.listing import listing
from nkicc.ir.penguin import Barrier, CurrentProcessingRankId
from nkicc.ir.program import Level, Module
from nkicc.ir.types import DType, Target, World

from .helpers import LOOP, codegen, refused

# --- grid and barriers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "core", "ids"),
    [(2, 1, (1,)), ((2,), 0, (0,)), ((1, 2), 1, (0, 1)), ((2, 1), 1, (1, 0)), (None, 1, ()), ((), 1, ())],
)
def test_program_ids(grid: Any, core: int, ids: tuple[int, ...]) -> None:
    made = codegen(lnc=2, core=core)
    assert made.post_process_spmd_grid(grid) == made.grid
    assert made.program_ids == ids
    assert [axis.name for axis in made.program_axes] == [f"program_id_{n}" for n in range(len(ids))]


def test_a_composite_is_row_major() -> None:
    grid = CompositeSPMDDim((ProgramAxis("x", 2), ProgramAxis("y", 3)))
    assert grid.extent == 6
    assert [grid.program_ids(core) for core in range(6)] == [(x, y) for x in range(2) for y in range(3)]
    assert grid.cores_along(("y",), 4) == (3, 4, 5)
    assert grid.cores_along(("x",), 4) == (1, 4)
    assert grid.cores_along(("x", "y"), 4) == (0, 1, 2, 3, 4, 5)
    assert grid.cores_along((), 4) == (4,)


def test_sync_program_emits_one_barrier_per_axis() -> None:
    made = codegen(lnc=2, core=1)
    made.post_process_spmd_grid((1, 2))
    made.sync_program()
    made.sync_program(["program_id_1"])
    assert [(type(i), i.axes, i.cores) for i in made.core_part().body if isinstance(i, Barrier)] == [
        (Barrier, ("program_id_0",), (1,)),
        (Barrier, ("program_id_1",), (0, 1)),
        (Barrier, ("program_id_1",), (0, 1)),
    ]


def test_barriers_are_registered_on_the_grid() -> None:
    made = codegen(lnc=2)
    made.post_process_spmd_grid(2)
    axes = ("program_id_0",)
    made.core_barrier(made.tensors["a"], [0, 1])
    made.sendrecv(made.tensors["t"], made.tensors["s"], 1, 1, 5)
    made.post_process_allreduce_result(made.tensors["a"], [LOOP], made.program_axes, is_async=True)
    made.post_process_allreduce_result(made.tensors["a"], [LOOP], [])
    assert made.program_barriers == [
        ProgramBarrier("sema0", axes, (0, 1)),
        ProgramBarrier("pipe5", axes, (0, 1)),
        ProgramBarrier("sema2", axes, (0, 1), is_async=True),
        ProgramBarrier("sema3", (), (0,)),
    ]
    assert made.initiate_barrier(6) is True
    assert not made.has_collectives


def test_the_result_of_a_loop_reduction_is_its_destination() -> None:
    made = codegen(lnc=2)
    a, b = made.tensors["a"], made.tensors["b"]
    assert made.post_process_allreduce_result(a, [LOOP], []) == a.full()
    assert made.post_process_allreduce_result(a, [LOOP], [], loop_reduce_dst=b) == b.full()


# --- processing rank -------------------------------------------------------------------------------------------------


def test_processing_rank() -> None:
    made = codegen()
    assert processing_rank(made, 3, 1, 2, [[0, 1, 2, 3]], name="who") == Register("r0", DType.uint32)
    (op,) = made.core_part().body
    assert isinstance(op, CurrentProcessingRankId)
    assert (op.iteration_id, op.channel_id, op.num_channels, op.replica_groups) == (3, 1, 2, ((0, 1, 2, 3),))
    assert op.name == "who"
    assert not made.has_collectives


@pytest.mark.parametrize(("iteration", "channel"), [(-1, 0), (0, -1), (1.0, 0), (0, None), (True, 0)])
def test_refused_processing_ranks(iteration: Any, channel: Any) -> None:
    refused(
        codegen(),
        lambda cg: processing_rank(cg, iteration, channel, 1, [[0, 1, 2, 3]]),
        "NKC064",
        message="Invalid iteration_id or channel_id for CCGetRankExpr!",
    )


def test_a_processing_rank_needs_groups_of_all_ranks() -> None:
    refused(codegen(), lambda cg: processing_rank(cg, 0, 0, 1, [[0, 1]]), "NKC043", "replica_groups")


# --- link ------------------------------------------------------------------------------------------------------------


def pair() -> list[NeuronCodegen]:
    return [codegen(lnc=2, core=core) for core in range(2)]


def test_cores_become_a_program() -> None:
    cores = pair()
    for made in cores:
        made.post_process_spmd_grid(2)
        made.sendrecv(made.tensors["t"], made.tensors["s"], 1 - made.core, 1 - made.core, 0)
    cores[1].all_reduce_cc("add", cores[1].tensors["a"], cores[1].tensors["b"])
    module = link(reversed(cores), name="k", inputs=["a"], outputs=[cores[0].tensors["b"]])  # type: ignore[arg-type]
    (program,) = module.programs
    assert (module.level, module.world, module.target) == (Level.penguin, World(4, 2), Target.trn2)
    assert (program.name, program.inputs, program.ranks, program.has_collectives) == ("k", ("a",), (), True)
    assert program.outputs == (AccessPattern("b", ((16, 8), (1, 16))),)
    assert [tensor.name for tensor in program.tensors] == ["a", "b", "wide", "narrow", "half", "counts"]
    for made, core in zip(cores, program.cores, strict=True):
        assert core == made.core_part()
        assert [tensor.name for tensor in core.tensors] == ["own", "s", "t", "big", "p"]
    module.verify()
    assert Module.from_json(module.to_json()) == module


def test_a_program_can_be_read() -> None:
    made = NeuronCodegen(ParallelState(World(4)))
    a, b = (made.allocate(name, (8, 16), "bfloat16", "shared_hbm") for name in "ab")
    made.all_reduce_cc("add", a, b, name="sum")
    text = listing(link([made], inputs=("a",), outputs=b))
    assert "input tensor a: bfloat16[8, 16] shared_hbm" in text
    assert "sum: AllReduceOp op=add srcs=[a] dsts=[b] replica_groups=[[0, 1, 2, 3]]" in text
    assert "; test_program.py:" in text


def test_programs_become_one_module() -> None:
    first, second = codegen(only=(0, 1)), codegen(only=(3, 2))
    first.send_cc_raw(first.tensors["a"], None, 2)
    second.recv_cc_raw(second.tensors["b"], None, 0, ())
    module = link_programs([link([first], name="front"), link([second], name="back")])
    assert [(program.name, program.ranks) for program in module.programs] == [("front", (0, 1)), ("back", (2, 3))]
    module.verify()


def fails(call: Any) -> NkiccError:
    with pytest.raises(NkiccError) as caught:
        call()
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
    return caught.value


def test_refused_links() -> None:
    first, second = pair()
    assert fails(lambda: link([])).code == "NKC011"
    assert fails(lambda: link([first])).code == "NKC011"
    assert fails(lambda: link([first, first])).code == "NKC011"
    assert fails(lambda: link([first, codegen(ranks=3, lnc=2, core=1)])).code == "NKC035"
    assert fails(lambda: link([first, codegen(lnc=2, core=1, only=(0, 1))])).code == "NKC035"
    assert fails(lambda: link([first, second], inputs=["s"])).code == "NKC023"
    assert fails(lambda: link([first, second], outputs=first.tensors["s"])).code == "NKC023"
    assert fails(lambda: link([first, second], outputs=AccessPattern("a", ((1, 200),)))).code == "NKC024"


@pytest.mark.parametrize(
    ("shape", "dtype", "memory"),
    [((4, 4), "float32", "shared_hbm"), ((8, 4), "int32", "shared_hbm"), ((8, 4), "float32", "sbuf")],
)
def test_cores_must_agree_on_what_they_share(shape: tuple[int, ...], dtype: str, memory: str) -> None:
    first, second = pair()
    first.allocate("x", (8, 4), "float32", "shared_hbm")
    second.allocate("x", shape, dtype, memory)
    error = fails(lambda: link([first, second]))
    assert error.code == "NKC022"
    assert "float32[8, 4] in shared_hbm" in error.message


def test_private_tensors_of_one_name_are_two() -> None:
    first, second = pair()
    first.allocate("x", (8, 4), "float32", "sbuf")
    second.allocate("x", (4, 4), "int32", "private_hbm")
    link([first, second]).verify()


@pytest.mark.parametrize(
    ("sets", "count"), [([(0, 1)], 0), ([(0, 1, 2), (2, 3)], 2), ([(0, 1), (2,)], 0), ([None, (3,)], 2), ([], 0)]
)
def test_every_rank_runs_one_program(sets: list[tuple[int, ...] | None], count: int) -> None:
    modules = [link([codegen(only=only)]) for only in sets]
    error = fails(lambda: link_programs(modules))
    assert error.code == "NKC049"
    assert f"run {count} programs" in error.message


def test_programs_share_a_world() -> None:
    modules = [link([codegen(only=(0, 1))]), link([codegen(ranks=5, only=(2, 3))])]
    assert fails(lambda: link_programs(modules)).code == "NKC035"
