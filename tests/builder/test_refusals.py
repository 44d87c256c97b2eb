"""Bad arguments of every builder: code, operand, original string, the caller's line, and a stream left as it was."""

from __future__ import annotations

import ast
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nkicc
from nkicc.builder import NeuronCodegen, ProgramAxis
from nkicc.ir.access import AccessPattern, Register, Tensor
from nkicc.ir.errors import CATALOGUE
from nkicc.ir.types import DType, Memory, Target

from .helpers import LOOP, TP, codegen, refused

ALL = ((0, 1, 2, 3),)
ROWS = AccessPattern("a", ((16, 2), (1, 16)))
INDIRECT = AccessPattern("a", ((16, 4), (1, 16)), vector_offset=AccessPattern("counts", ((1, 4),)), indirect_stride=16)
BY_REGISTER = AccessPattern("a", ((16, 4), (1, 16)), scalar_offset="r0", indirect_stride=16)

Call = Callable[[NeuronCodegen], object]


def t(cg: NeuronCodegen, *names: str) -> list[Tensor]:
    return [cg.tensors[name] for name in names]


def args(cg: NeuronCodegen, **changes: Any) -> dict[str, Any]:
    """A correct all-reduce of a into b, and what is to be changed about it; tensors by their names."""
    given: dict[str, Any] = {"op": "add", "srcs": "a", "dsts": "b", "replica_groups": ALL} | changes
    return {name: cg.tensors[x] if name in ("srcs", "dsts") and isinstance(x, str) else x for name, x in given.items()}


class Case:
    """A call that is refused; `options` are those of `codegen`."""

    def __init__(self, name: str, call: Call, code: str, operand: str = "", message: str = "", **options: Any) -> None:
        self.name, self.call, self.code, self.operand, self.message = name, call, code, operand, message
        self.options = options

    def __str__(self) -> str:
        return self.name


def test_a_correct_call_passes() -> None:
    """What the refusals below differ from."""
    cg = codegen()
    cg.all_reduce_cc_raw(**args(cg))
    assert len(cg.core_part().body) == 1


GROUPS: list[tuple[Any, str]] = [
    ([], "NKC040"),
    ([[0, 1], []], "NKC040"),
    (None, "NKC040"),
    ([0, 1, 2, 3], "NKC040"),
    ("0123", "NKC040"),
    ([[0, 1, 2, 3.0]], "NKC040"),
    ([[False, True, 2, 3]], "NKC040"),
    ([[0, 1, 2, 4]], "NKC041"),
    ([[0, 1, 2, -1]], "NKC041"),
    ([[0, 1, 2, 3], [3]], "NKC042"),
    ([[0, 1, 1, 3]], "NKC042"),
    ([[0, 1], [3]], "NKC043"),
]


@pytest.mark.parametrize(("groups", "code"), GROUPS, ids=str)
def test_replica_groups(groups: Any, code: str) -> None:
    refused(codegen(), lambda cg: cg.all_reduce_cc_raw("add", *t(cg, "a", "b"), groups), code, "replica_groups")


@pytest.mark.parametrize("kind", ["gather", "scatter", "to_all", "broadcast"])
def test_groups_of_unequal_size(kind: str) -> None:
    groups = [[0, 1, 2], [3]]
    calls: dict[str, Call] = {
        "gather": lambda cg: cg.all_gather_cc_raw(None, *t(cg, "a", "wide"), groups, 0),
        "scatter": lambda cg: cg.reduce_scatter_cc_raw("add", *t(cg, "a", "narrow"), groups, 0),
        "to_all": lambda cg: cg.all_to_all_cc_raw(None, *t(cg, "a", "b"), groups, 0, 0),
        "broadcast": lambda cg: cg.broadcast_cc_raw(None, *t(cg, "a", "b"), groups, [8, 0, 0]),
    }
    refused(codegen(), calls[kind], "NKC044", "replica_groups")


def test_groups_may_differ_in_size_where_the_shape_does_not_depend_on_it() -> None:
    cg = codegen()
    cg.all_reduce_cc_raw(**args(cg, replica_groups=[[0, 1, 2], [3]]))


PAIRS: list[tuple[Any, str]] = [
    ([], "NKC045"),
    ([(0, 4)], "NKC041"),
    ([(0, 1), (2, 1)], "NKC046"),
    ([(0, 1), (0, 2)], "NKC047"),
    ([(0, 1, 2)], "NKC048"),
    ([0, 1], "NKC048"),
    ([("0", 1)], "NKC048"),
    ([(0, True)], "NKC048"),
    (3, "NKC048"),
]


@pytest.mark.parametrize(("pairs", "code"), PAIRS, ids=str)
def test_source_target_pairs(pairs: Any, code: str) -> None:
    refused(codegen(), lambda cg: cg.tiled_collective_permute_cc_raw(*t(cg, "a", "b"), pairs), code, "src_tgt_pairs")


@pytest.mark.parametrize("dma_qos", [-1, 17, 1.0, "P0", True])
def test_dma_qos(dma_qos: Any) -> None:
    refused(codegen(), lambda cg: cg.all_reduce_cc_raw(**args(cg, dma_qos=dma_qos)), "NKC038", "dma_qos")
    refused(codegen(lnc=2), lambda cg: cg.sendrecv(*t(cg, "t", "s"), 1, 1, 0, dma_qos=dma_qos), "NKC038", "dma_qos")


@pytest.mark.parametrize("dma_qos", [None, 0, 16])
def test_permitted_dma_qos(dma_qos: int | None) -> None:
    cg = codegen()
    assert cg.all_reduce_cc_raw(**args(cg, dma_qos=dma_qos)).dma_qos == dma_qos


@pytest.mark.parametrize("op", ["mult", "multiply", "average", "max_pool", None, 3, [], "bypass"])
def test_reduce_op(op: Any) -> None:
    refused(codegen(), lambda cg: cg.all_reduce_cc_raw(**args(cg, op=op)), "NKC053", "op")
    error = refused(
        codegen(),
        lambda cg: cg.tiled_collective_permute_reduce_implicit_cc_raw(op, t(cg, "a", "b"), t(cg, "own"), ALL, 0, 1),
        "NKC053",
        "op",
    )
    assert error.message.endswith(" is not supported in 'TiledCollectivePermuteReduceOp'")


CASES = [
    Case(
        "gather with a reduce op",
        lambda cg: cg.all_gather_cc_raw("add", *t(cg, "a", "wide"), ALL, 0),
        "XCG826",
        operand="op",
        message="Collective AllGather does not support an ALU op",
    ),
    Case(
        "permute with a reduce op",
        lambda cg: cg.collective_permute_cc_raw("add", *t(cg, "a", "b"), ALL),
        "XCG826",
        operand="op",
        message="Collective Permute does not support an ALU op",
    ),
    Case(
        "gather dim 2",
        lambda cg: cg.all_gather_cc_raw(None, *t(cg, "a", "wide"), ALL, 2),
        "NKC054",
        operand="all_gather_dim",
    ),
    Case(
        "gather dim True",
        lambda cg: cg.all_gather_cc_raw(None, *t(cg, "a", "wide"), ALL, True),
        "NKC054",
        operand="all_gather_dim",
    ),
    Case(
        "scatter dim -1",
        lambda cg: cg.reduce_scatter_cc_raw("add", *t(cg, "a", "narrow"), ALL, -1),
        "NKC054",
        operand="reduce_scatter_dim",
    ),
    Case(
        "scatter of 2 rows over 4",
        lambda cg: cg.reduce_scatter_cc_raw("add", *t(cg, "narrow", "narrow"), ALL, 0),
        "NKC036",
        operand="src",
    ),
    Case(
        "no split dimension",
        lambda cg: cg.all_to_all_cc_raw(None, *t(cg, "a", "b"), ALL, concat_dimension=0),
        "NKC050",
        operand="split_dimension",
        message="Illegal AlltoAll without split_dimension",
    ),
    Case(
        "no concat dimension",
        lambda cg: cg.all_to_all_cc_raw(None, *t(cg, "a", "b"), ALL, split_dimension=0),
        "NKC051",
        operand="concat_dimension",
        message="Illegal AlltoAll without concat_dimension",
    ),
    Case(
        "no dimension at all, all workers",
        lambda cg: cg.all_to_all_cc(None, *t(cg, "a", "b")),
        "NKC050",
        operand="split_dimension",
        message="Illegal AlltoAll without split_dimension",
    ),
    Case(
        "all-to-all in SBUF",
        lambda cg: cg.all_to_all_cc(None, *t(cg, "s", "t"), 0, 0),
        "XCG879",
        operand="srcs",
        message="CollectiveKind AllToAll does not support arguments outside of DRAM",
    ),
    Case(
        "broadcast sizes of three",
        lambda cg: cg.broadcast_cc(None, *t(cg, "a", "b"), [8, 0, 0]),
        "NKC058",
        operand="broadcast_sizes",
    ),
    Case(
        "broadcast sizes negative",
        lambda cg: cg.broadcast_cc(None, *t(cg, "a", "b"), [9, -1, 0, 0]),
        "NKC058",
        operand="broadcast_sizes",
    ),
    Case(
        "broadcast sizes a number",
        lambda cg: cg.broadcast_cc(None, *t(cg, "a", "b"), 8),
        "NKC058",
        operand="broadcast_sizes",
    ),
    Case("mixed memories", lambda cg: cg.all_reduce_cc_raw(**args(cg, srcs="s")), "NKC031"),
    Case("PSUM operand", lambda cg: cg.all_reduce_cc_raw(**args(cg, srcs="p", dsts="t")), "NKC030"),
    Case(
        "SBUF before trn2",
        lambda cg: cg.all_reduce_cc_raw(**args(cg, srcs="s", dsts="t")),
        "BIR428",
        message="SB CC is only supported on trn2+.",
        target=Target.trn1,
    ),
    Case("two tensors in SBUF", lambda cg: cg.all_reduce_cc("add", t(cg, "s", "t"), t(cg, "t", "s")), "NKC037"),
    Case("more sources than destinations", lambda cg: cg.all_reduce_cc("add", t(cg, "a", "a"), t(cg, "b")), "NKC034"),
    Case("no operand", lambda cg: cg.all_reduce_cc("add", [], []), "NKC034"),
    Case("dtypes differ", lambda cg: cg.all_reduce_cc_raw(**args(cg, dsts="half")), "NKC032"),
    Case("dtype is another", lambda cg: cg.all_reduce_cc_raw(**args(cg, dtype="bfloat16")), "NKC061"),
    Case(
        "dtype is none of the machine",
        lambda cg: cg.all_reduce_cc_raw(**args(cg, dtype="float64")),
        "NKC028",
        operand="dtype",
    ),
    Case("shapes differ", lambda cg: cg.all_reduce_cc_raw(**args(cg, dsts="wide")), "NKC033", operand="dst"),
    Case("gather shape", lambda cg: cg.all_gather_cc(None, *t(cg, "a", "b"), 0), "NKC033", operand="dst"),
    Case(
        "operand is an array",
        lambda cg: cg.all_reduce_cc_raw(**args(cg, srcs=np.zeros((8, 16)))),
        "NKC035",
        operand="srcs",
    ),
    Case("operand is None", lambda cg: cg.all_reduce_cc_raw(**args(cg, dsts=None)), "NKC035", operand="dsts"),
    Case(
        "tensor of another core",
        lambda cg: cg.all_reduce_cc_raw(**args(cg, srcs=Tensor("x", (8, 16), DType.float32, Memory.shared_hbm))),
        "NKC023",
        operand="srcs",
    ),
    Case(
        "another tensor of that name",
        lambda cg: cg.all_reduce_cc_raw(**args(cg, srcs=Tensor("a", (4, 32), DType.float32, Memory.shared_hbm))),
        "NKC023",
        operand="srcs",
    ),
    Case(
        "view out of bounds",
        lambda cg: cg.all_reduce_cc_raw(**args(cg, srcs=AccessPattern("a", ((16, 8), (1, 16)), 16))),
        "NKC024",
        operand="src",
    ),
    Case("name is a number", lambda cg: cg.all_reduce_cc_raw(**args(cg, name=3)), "NKC035", operand="name"),
    Case(
        "permute of a view",
        lambda cg: cg.collective_permute_cc_raw(None, [ROWS], t(cg, "narrow"), ALL),
        "NKC057",
        operand="srcs",
        message="CollectivePermuteOp takes whole HBM tensors; 'a' is a view: pattern [[16, 2], [1, 16]] at offset 0 of "
        "shape (8, 16)",
    ),
    Case(
        "permute into a view",
        lambda cg: cg.collective_permute_cc(None, t(cg, "narrow"), [ROWS]),
        "NKC057",
        operand="dsts",
    ),
    Case(
        "permute in SBUF",
        lambda cg: cg.collective_permute_cc(None, *t(cg, "s", "t")),
        "NKC057",
        operand="srcs",
        message="CollectivePermuteOp takes whole HBM tensors; 's' is in sbuf",
    ),
    Case(
        "permute of two tensors", lambda cg: cg.collective_permute_cc(None, t(cg, "a", "b"), t(cg, "b", "a")), "XCG876"
    ),
    Case(
        "permute of a view of an unknown tensor",
        lambda cg: cg.collective_permute_cc(None, [AccessPattern("x", ((1, 4),))], t(cg, "b")),
        "NKC023",
        operand="srcs",
    ),
    Case(
        "explicit permute in SBUF",
        lambda cg: cg.tiled_collective_permute_cc_raw(*t(cg, "s", "t"), [(0, 1)]),
        "XCG879",
        operand="srcs",
        message="CollectiveKind Permute does not support arguments outside of DRAM",
    ),
    Case(
        "channel 2 of 2",
        lambda cg: cg.tiled_collective_permute_implicit_cc_raw(*t(cg, "a", "b"), ALL, 2, 2),
        "NKC055",
        operand="channel_id",
    ),
    Case(
        "channel -1",
        lambda cg: cg.tiled_collective_permute_implicit_cc_raw(*t(cg, "a", "b"), ALL, -1, 2),
        "NKC055",
        operand="channel_id",
    ),
    Case(
        "no channel",
        lambda cg: cg.tiled_collective_permute_implicit_cc_raw(*t(cg, "a", "b"), ALL, None, 1),
        "NKC055",
        operand="channel_id",
    ),
    Case(
        "three channels",
        lambda cg: cg.tiled_collective_permute_implicit_cc_raw(*t(cg, "a", "b"), ALL, 0, 3),
        "NKC056",
        operand="num_channels",
    ),
    Case(
        "ring without groups",
        lambda cg: cg.tiled_collective_permute_implicit_cc_raw(*t(cg, "a", "b"), [], 0, 1),
        "NKC040",
        operand="replica_groups",
    ),
    Case(
        "reducing permute of one source",
        lambda cg: cg.tiled_collective_permute_reduce_implicit_cc_raw("add", t(cg, "a"), t(cg, "b"), ALL, 0, 1),
        "XCG877",
        message="CollectiveKind PermuteReduceImplicit requires 2 arguments per output, got num_arguments=1, "
        "num_outputs=1",
    ),
    Case(
        "indirect tile",
        lambda cg: cg.tiled_collective_permute_cc_raw(INDIRECT, AccessPattern("b", ((16, 4), (1, 16))), [(0, 1)]),
        "NKC060",
        operand="srcs",
        message="cannot use indirect indexing access with the current NKI API for a",
    ),
    Case(
        "tile at a register's offset",
        lambda cg: cg.tiled_collective_permute_implicit_cc_raw([ROWS, BY_REGISTER], t(cg, "b"), ALL, 0, 1),
        "NKC060",
        operand="srcs",
        message="cannot use indirect indexing access with the current NKI API for a",
    ),
    Case(
        "raw send to itself", lambda cg: cg.send_cc_raw(t(cg, "a"), None, 1), "NKC074", operand="peer_id", only=(0, 1)
    ),
    Case(
        "raw send outside the world",
        lambda cg: cg.send_cc_raw(t(cg, "a"), None, 4),
        "NKC041",
        operand="peer_id",
        only=(0, 1),
    ),
    Case(
        "raw receive from itself",
        lambda cg: cg.recv_cc_raw(t(cg, "a"), None, 0, ()),
        "NKC074",
        operand="peer_id",
        only=(0, 1),
    ),
    Case(
        "raw send to no integer",
        lambda cg: cg.send_cc_raw(t(cg, "a"), None, "2"),
        "NKC075",
        operand="peer_id",
        only=(0, 1),
    ),
    Case("raw send of nothing", lambda cg: cg.send_cc_raw([], None, 3), "NKC034", only=(0, 1)),
    Case(
        "send to itself",
        lambda cg: cg.sendrecv(*t(cg, "t", "s"), 0, 1, 0),
        "NKC072",
        operand="send_to_rank",
        message="SendRecv instruction on core 0 is sending to itself!",
        lnc=2,
    ),
    Case(
        "receive from itself",
        lambda cg: cg.sendrecv(*t(cg, "t", "s"), 1, 0, 0),
        "NKC071",
        operand="recv_from_rank",
        message="SendRecv instruction on core 0 is receiving from itself!",
        lnc=2,
    ),
    Case(
        "send to a rank, not a core",
        lambda cg: cg.sendrecv(*t(cg, "t", "s"), 2, 1, 0),
        "NKC070",
        operand="send_to_rank",
        lnc=2,
    ),
    Case(
        "send to no integer",
        lambda cg: cg.sendrecv(*t(cg, "t", "s"), 1.0, 1, 0),
        "NKC075",
        operand="send_to_rank",
        message="The sendToRank must be a integer",
        lnc=2,
    ),
    Case(
        "receive from no integer",
        lambda cg: cg.sendrecv(*t(cg, "t", "s"), 1, None, 0),
        "NKC075",
        operand="recv_from_rank",
        message="The recvFromRank must be a integer",
        lnc=2,
    ),
    Case(
        "pipe is no integer",
        lambda cg: cg.sendrecv(*t(cg, "t", "s"), 1, 1, True),
        "NKC075",
        operand="pipe_id",
        message="The pipeId must be a integer",
        lnc=2,
    ),
    Case("sendrecv on one core", lambda cg: cg.sendrecv(*t(cg, "t", "s"), 1, 1, 0), "NKC073"),
    Case("sendrecv on trn1", lambda cg: cg.sendrecv(*t(cg, "t", "s"), 1, 1, 0), "BIR535", lnc=2, target=Target.trn1),
    Case("sendrecv in HBM", lambda cg: cg.sendrecv(*t(cg, "b", "a"), 1, 1, 0), "NKC030", operand="src", lnc=2),
    Case(
        "sendrecv under an array mask",
        lambda cg: cg.sendrecv(*t(cg, "t", "s"), 1, 1, 0, mask=np.ones(2)),
        "NKC035",
        operand="mask",
        lnc=2,
    ),
    Case(
        "multi-receive with one source too many",
        lambda cg: cg.sendrecv_cce(cg.tensors["t"], t(cg, "s", "s"), 1, [1], "add", 0),
        "BIR026",
        operand="recv_from_ranks",
        message="Number of input arguments must be the same as recvFomRank size",
        lnc=2,
    ),
    Case(
        "multi-receive without a reduce op",
        lambda cg: cg.sendrecv_cce(*t(cg, "t", "s"), 1, [0, 1], None, 0),
        "NKC053",
        operand="op",
        lnc=2,
    ),
    Case(
        "multi-receive from one number",
        lambda cg: cg.sendrecv_cce(*t(cg, "t", "s"), 1, 1, "add", 0),
        "NKC075",
        operand="recv_from_ranks",
        message="The recvFromRank must be a integer",
        lnc=2,
    ),
    Case(
        "barrier on SBUF",
        lambda cg: cg.core_barrier(cg.tensors["s"], (0, 1)),
        "NKC080",
        operand="wait_target",
        message="core_barrier can only wait for HBM Tensor.",
        lnc=2,
    ),
    Case(
        "barrier on a tile",
        lambda cg: cg.core_barrier(ROWS, (0, 1)),
        "NKC081",
        operand="wait_target",
        message="core_barrier can only wait for full HBM Tensor, but tile of HBM Tensor is passed in.",
        lnc=2,
    ),
    Case(
        "barrier on a dynamic view",
        lambda cg: cg.core_barrier(BY_REGISTER, (0, 1)),
        "NKC081",
        operand="wait_target",
        message="core_barrier can only wait for full HBM Tensor, but tile of HBM Tensor is passed in.",
        lnc=2,
    ),
    Case(
        "barrier on trn1",
        lambda cg: cg.core_barrier(cg.tensors["a"], (0, 1)),
        "BIR530",
        message="CoreBarrier is not supported on arch 20, must be 30 or greater",
        lnc=2,
        target=Target.trn1,
    ),
    Case("barrier of core 2", lambda cg: cg.core_barrier(cg.tensors["a"], (0, 2)), "NKC085", operand="cores", lnc=2),
    Case(
        "barrier of a core twice", lambda cg: cg.core_barrier(cg.tensors["a"], (0, 0)), "NKC085", operand="cores", lnc=2
    ),
    Case(
        "barrier on an unknown engine",
        lambda cg: cg.core_barrier(cg.tensors["a"], (0, 1), "gpsimd"),
        "NKC035",
        operand="engine",
        lnc=2,
    ),
    Case(
        "rank under an array mask",
        lambda cg: cg.rank_id(mask=np.ones(2)),
        "NKC082",
        operand="mask",
        message="rank_id can only support scalar mask",
    ),
    Case(
        "rank under a view as mask",
        lambda cg: cg.rank_id(mask=cg.tensors["a"].full()),
        "NKC082",
        operand="mask",
        message="rank_id can only support scalar mask",
    ),
    Case("rank under an unknown register", lambda cg: cg.rank_id(mask=Register("x")), "NKC027", operand="mask"),
    Case("rank in a world of 8", lambda cg: cg.rank_id(world_size=8), "NKC086", operand="world_size"),
    Case(
        "rank into a register of another core",
        lambda cg: cg.rank_id(Register("x", DType.uint32)),
        "NKC027",
        operand="dst",
    ),
    Case("rank into a tensor", lambda cg: cg.rank_id(cg.tensors["a"]), "NKC035", operand="dst"),
    Case("rank after an unknown instruction", lambda cg: cg.rank_id(deps=["x"]), "NKC089", operand="deps"),
    Case(
        "result over a loop axis",
        lambda cg: cg.post_process_allreduce_result(cg.tensors["a"], [], [LOOP]),
        "NKC083",
        operand="parallel_axes",
        message="program_axes of all_reduce must be program_id! Consider use loop_reduce or reduce instead.",
    ),
    Case(
        "result reduced over a program id",
        lambda cg: cg.post_process_allreduce_result(cg.tensors["a"], [TP], []),
        "NKC084",
        operand="reduce_axes",
        message="reduce_axes of all_reduce cannot be program_id!",
    ),
    Case(
        "result over an axis outside the grid",
        lambda cg: cg.post_process_allreduce_result(cg.tensors["a"], [], [TP]),
        "NKC088",
    ),
    Case(
        "result over a word",
        lambda cg: cg.post_process_allreduce_result(cg.tensors["a"], [], ["tp"]),
        "NKC035",
        operand="axes",
    ),
    Case(
        "grid on trn1",
        lambda cg: cg.post_process_spmd_grid(2),
        "NKC015",
        operand="grid",
        message="SPMD grid with multi neuron cores is not supported on trn1",
        lnc=2,
        target=Target.trn1,
    ),
    Case("grid of two on one core", lambda cg: cg.post_process_spmd_grid(2), "NKC011", operand="grid"),
    Case("grid of one on two cores", lambda cg: cg.post_process_spmd_grid((1, 1)), "NKC011", operand="grid", lnc=2),
    Case("grid of zero", lambda cg: cg.post_process_spmd_grid((0,)), "NKC035", operand="grid"),
    Case("grid of words", lambda cg: cg.post_process_spmd_grid("two"), "NKC035", operand="grid"),
    Case(
        "metadata of three members",
        lambda cg: cg.all_to_all_v_cc_raw(*t(cg, "a", "b"), ALL, cg.tensors["a"]),
        "NKC033",
        operand="metadata",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refusal(case: Case) -> None:
    refused(codegen(**case.options), case.call, case.code, case.operand, case.message)


def test_a_refusal_keeps_the_flag_of_earlier_collectives() -> None:
    made = codegen()
    made.all_reduce_cc_raw(**args(made))
    refused(made, lambda cg: cg.all_reduce_cc_raw(**args(cg, op="mult")), "NKC053", "op")
    assert made.has_collectives


def test_a_hint_maps_a_core_number_to_its_rank() -> None:
    error = refused(
        codegen(lnc=2),
        lambda cg: cg.all_reduce_cc_raw(**args(cg, replica_groups=[[0, 1, 2, 5]])),
        "NKC041",
        "replica_groups",
    )
    assert "Physical core 5 belongs to rank 2." in error.hint


def test_a_second_inactive_axis_that_is_unknown_emits_nothing() -> None:
    made = codegen(lnc=2)
    made.post_process_spmd_grid(2)
    refused(made, lambda cg: cg.sync_program([TP, ProgramAxis("other", 2)]), "NKC088")


@pytest.mark.parametrize("file", sorted(Path(nkicc.__path__[0]).rglob("*.py")), ids=lambda file: file.stem)
def test_every_refusal_has_a_code_and_fills_its_message(file: Path) -> None:
    for call in ast.walk(ast.parse(file.read_text())):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "refuse":
            code, keywords = call.args[0], {k.arg for k in call.keywords}
            if isinstance(code, ast.Constant) and None not in keywords:
                entry = CATALOGUE[str(code.value)]
                slots = {name for _, name, _, _ in string.Formatter().parse(entry.message + entry.hint) if name}
                assert slots <= keywords, f"{file.name}:{call.lineno} leaves out {sorted(slots - keywords)}"
