"""One row per entry of the roster: arguments, op class, channel, flag, operand mapper, routing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from nkicc.builder import NeuronCodegen, ParallelState
from nkicc.ir import penguin
from nkicc.ir.access import AccessPattern, Register
from nkicc.ir.penguin import HbmTensor
from nkicc.ir.types import AluOp, DType, Engine

from .helpers import LOOP, TP, codegen

#: What the patched topology hands out: distinct from each other and from what any caller passes.
WORKERS = ((3, 2, 1, 0),)
RING = ((2, 0, 3, 1),)
PAIRS_OF_TWO = ((0, 1), (2, 3))
A = AccessPattern("a", ((16, 8), (1, 16)))
B = AccessPattern("b", ((16, 8), (1, 16)))
S = AccessPattern("s", ((64, 128), (1, 64)))
T = AccessPattern("t", ((64, 128), (1, 64)))
QOS: dict[str, Any] = {"dtype": "float32", "dma_qos": 3, "name": "it"}

ND = ("_map_to_nd_access",)
HBM = ("_map_to_hbm_tensors",)
TILES = ("combine_tiles", "_map_to_nd_access")
CC = ("insert_raw_cc", "insert_raw")


@dataclass
class Row:
    method: str
    parameters: str
    call: Callable[[NeuronCodegen], Any]
    mints: type | None = None
    channel: tuple[str, ...] = ()
    mappers: tuple[str, ...] = ()
    has_collectives: bool = False
    fields: dict[str, Any] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    lnc: int = 1

    def __str__(self) -> str:
        return self.method


COMMON = {"dtype": DType.float32, "dma_qos": 3, "name": "it"}
REDUCED = {"srcs": (A,), "dsts": (B,), "replica_groups": PAIRS_OF_TWO, **COMMON}
DELEGATED = {"srcs": (A,), "dsts": (B,), "replica_groups": WORKERS, **COMMON}

ROSTER = [
    Row(
        "all_reduce_cc_raw",
        "op srcs dsts replica_groups dtype tiled dma_qos name",
        lambda cg: cg.all_reduce_cc_raw("add", [cg.tensors["a"]], [cg.tensors["b"]], [[0, 1], [2, 3]], **QOS),
        penguin.AllReduceOp, CC, ND, True, {"op": AluOp.add, **REDUCED},
    ),
    Row(
        "all_reduce_cc",
        "op srcs dsts dtype dma_qos name",
        lambda cg: cg.all_reduce_cc("maximum", [cg.tensors["a"]], [cg.tensors["b"]], **QOS),
        penguin.AllReduceOp, CC, ND, True, {"op": AluOp.max, **DELEGATED},
        ("gen_all_worker_group", "all_reduce_cc_raw"),
    ),
    Row(
        "all_gather_cc_raw",
        "op srcs dsts replica_groups all_gather_dim dtype dma_qos name",
        lambda cg: cg.all_gather_cc_raw(None, [cg.tensors["a"]], [cg.tensors["wide"]], [[0, 1, 2, 3]], 0, **QOS),
        penguin.AllGatherOp, CC, ND, True, {"op": AluOp.bypass, "all_gather_dim": 0, **COMMON},
    ),
    Row(
        "all_gather_cc",
        "op srcs dsts all_gather_dim dtype dma_qos name",
        lambda cg: cg.all_gather_cc(None, [cg.tensors["a"]], [cg.tensors["wide"]], 0, **QOS),
        penguin.AllGatherOp, CC, ND, True, {"all_gather_dim": 0, "replica_groups": WORKERS, **COMMON},
        ("gen_all_worker_group", "all_gather_cc_raw"),
    ),
    Row(
        "reduce_scatter_cc_raw",
        "op srcs dsts replica_groups reduce_scatter_dim dtype dma_qos name",
        lambda cg: cg.reduce_scatter_cc_raw(
            AluOp.min, [cg.tensors["a"]], [cg.tensors["narrow"]], ((0, 1, 2, 3),), 0, **QOS
        ),
        penguin.ReduceScatterOp, CC, ND, True, {"op": AluOp.min, "reduce_scatter_dim": 0, **COMMON},
    ),
    Row(
        "reduce_scatter_cc",
        "op srcs dsts reduce_scatter_dim dtype dma_qos name",
        lambda cg: cg.reduce_scatter_cc("add", [cg.tensors["a"]], [cg.tensors["narrow"]], 0, **QOS),
        penguin.ReduceScatterOp, CC, ND, True, {"reduce_scatter_dim": 0, "replica_groups": WORKERS, **COMMON},
        ("gen_all_worker_group", "reduce_scatter_cc_raw"),
    ),
    Row(
        "collective_permute_cc_raw",
        "op srcs dsts replica_groups dtype dma_qos name",
        lambda cg: cg.collective_permute_cc_raw(None, [cg.tensors["a"]], [cg.tensors["b"]], [[0, 1], [2, 3]], **QOS),
        penguin.CollectivePermuteOp, CC, HBM, True,
        {**REDUCED, "srcs": (HbmTensor("a", (8, 16)),), "dsts": (HbmTensor("b", (8, 16)),)},
    ),
    Row(
        "collective_permute_cc",
        "op srcs dsts dtype dma_qos name",
        lambda cg: cg.collective_permute_cc(None, [cg.tensors["a"]], [cg.tensors["b"]], **QOS),
        penguin.CollectivePermuteOp, CC, HBM, True, {"replica_groups": RING, **COMMON},
        ("gen_all_collective_permute_config", "collective_permute_cc_raw"),
    ),
    Row(
        "tiled_collective_permute_cc_raw",
        "srcs dsts src_tgt_pairs dtype dma_qos name",
        lambda cg: cg.tiled_collective_permute_cc_raw([cg.tensors["a"]], [cg.tensors["b"]], [[0, 1], (1, 0)], **QOS),
        penguin.TiledCollectivePermuteOp, CC, TILES, True,
        {"src_tgt_pairs": ((0, 1), (1, 0)), "replica_groups": (), "channel_id": None, "num_channels": None, **COMMON},
    ),
    Row(
        "tiled_collective_permute_implicit_cc_raw",
        "srcs dsts replica_groups channel_id num_channels dtype dma_qos name",
        lambda cg: cg.tiled_collective_permute_implicit_cc_raw(
            cg.tensors["s"], cg.tensors["t"], [[0, 1], [2, 3]], 1, 2, **QOS
        ),
        penguin.TiledCollectivePermuteOp, CC, TILES, True,
        {**REDUCED, "srcs": (S,), "dsts": (T,), "src_tgt_pairs": (), "channel_id": 1, "num_channels": 2},
    ),
    Row(
        "tiled_collective_permute_reduce_implicit_cc_raw",
        "op srcs dsts replica_groups channel_id num_channels dtype dma_qos name",
        lambda cg: cg.tiled_collective_permute_reduce_implicit_cc_raw(
            "add", (cg.tensors["a"], cg.tensors["b"]), cg.tensors["own"], [[0, 1], [2, 3]], 3, 4, **QOS
        ),
        penguin.TiledCollectivePermuteReduceOp, CC, TILES, True,
        {"op": AluOp.add, "srcs": (A, B), "replica_groups": PAIRS_OF_TWO, "channel_id": 3, "num_channels": 4, **COMMON},
    ),
    Row(
        "broadcast_cc_raw",
        "op srcs dsts replica_groups broadcast_sizes dtype dma_qos name",
        lambda cg: cg.broadcast_cc_raw(
            None, [cg.tensors["a"]], [cg.tensors["b"]], [[0, 1, 2, 3]], [0, 8, 0, 0], **QOS
        ),
        penguin.BroadcastOp, CC, ND, True, {"broadcast_sizes": (0, 8, 0, 0), "srcs": (A,), "dsts": (B,), **COMMON},
    ),
    Row(
        "broadcast_cc",
        "op srcs dsts broadcast_sizes dtype dma_qos name",
        lambda cg: cg.broadcast_cc(None, [cg.tensors["a"]], [cg.tensors["b"]], [0, 8, 0, 0], **QOS),
        penguin.BroadcastOp, CC, ND, True, {"broadcast_sizes": (0, 8, 0, 0), **DELEGATED},
        ("gen_all_worker_group", "broadcast_cc_raw"),
    ),
    Row(
        "all_to_all_cc_raw",
        "op srcs dsts replica_groups split_dimension concat_dimension dtype dma_qos name",
        lambda cg: cg.all_to_all_cc_raw(
            None, [cg.tensors["a"]], [cg.tensors["b"]], [[0, 1], [2, 3]], split_dimension=0, concat_dimension=0, **QOS
        ),
        penguin.AlltoAllOp, CC, ND, True, {"split_dimension": 0, "concat_dimension": 0, **REDUCED},
    ),
    Row(
        "all_to_all_cc",
        "op srcs dsts split_dimension concat_dimension dtype dma_qos name",
        lambda cg: cg.all_to_all_cc(None, [cg.tensors["a"]], [cg.tensors["b"]], 0, 0, **QOS),
        penguin.AlltoAllOp, CC, ND, True, {"split_dimension": 0, "concat_dimension": 0, **DELEGATED},
        ("gen_all_worker_group", "all_to_all_cc_raw"),
    ),
    Row(
        "send_cc_raw",
        "srcs op peer_id dtype dma_qos name",
        lambda cg: cg.send_cc_raw([cg.tensors["a"]], None, 3, **QOS),
        penguin.SendOp, CC, ND, True, {"srcs": (A,), "peer_id": 3, **COMMON},
    ),
    Row(
        "recv_cc_raw",
        "dsts op peer_id replica_groups dtype dma_qos name",
        lambda cg: cg.recv_cc_raw([cg.tensors["b"]], None, 3, [[2, 3]], **QOS),
        penguin.RecvOp, CC, ND, True, {"dsts": (B,), "peer_id": 3, "replica_groups": ((2, 3),), **COMMON},
    ),
    Row(
        "sendrecv",
        "dst src send_to_rank recv_from_rank pipe_id use_gpsimd_dma dma_qos mask deps name",
        lambda cg: cg.sendrecv(
            cg.tensors["t"], cg.tensors["s"], 1, 1, 7, use_gpsimd_dma=True, dma_qos=3, mask=True, deps=(), name="it"
        ),
        penguin.SendRecvOp, ("insert",), TILES, False,
        {
            "dst": T, "src": S, "send_to_rank": 1, "recv_from_rank": 1, "pipe_id": 7, "use_gpsimd_dma": True,
            "initiate_barrier": True, "dma_qos": 3, "mask": None, "name": "it",
        },
        ("initiate_barrier",), lnc=2,
    ),
    Row(
        "sendrecv_cce",
        "dst src send_to_rank recv_from_ranks op pipe_id dma_qos mask deps name",
        lambda cg: cg.sendrecv_cce(cg.tensors["t"], cg.tensors["s"], 1, [0, 1], "add", 7, dma_qos=3, name="it"),
        penguin.SendRecvCCEOp, ("insert",), TILES, False,
        {"dst": T, "srcs": (S, S), "recv_from_ranks": (0, 1), "op": AluOp.add, "pipe_id": 7, "initiate_barrier": True},
        ("initiate_barrier",), lnc=2,
    ),
    Row(
        "insert_raw_cc",
        "inst",
        lambda cg: cg.insert_raw_cc(
            penguin.AllReduceOp(op=AluOp.add, srcs=(A,), dsts=(B,), replica_groups=PAIRS_OF_TWO)
        ),
        penguin.AllReduceOp, CC, (), True, {"srcs": (A,)},
    ),
    Row(
        "post_process_allreduce_result",
        "dst reduce_axes parallel_axes is_async loop_reduce_dst",
        lambda cg: cg.post_process_allreduce_result(cg.tensors["a"], [LOOP], [TP], is_async=True),
        penguin.Barrier, ("insert",), (), False, {"axes": ("program_id_0",), "cores": (0, 1)},
        ("translate_axis",), lnc=2,
    ),
    Row(
        "core_barrier",
        "wait_target cores engine mask deps name",
        lambda cg: cg.core_barrier(cg.tensors["a"], (0, 1), "Pool", name="it"),
        penguin.CoreBarrierOp, ("insert",), (), False,
        {"data": A, "cores": (0, 1), "engine": Engine.pool, "name": "it"},
        lnc=2,
    ),
    Row(
        "rank_id",
        "dst world_size mask deps name",
        lambda cg: cg.rank_id(world_size=4, mask=None, name="it"),
        penguin.GetGlobalRankId, ("insert",), (), False,
        {"dst_register": Register("r0", DType.uint32), "world_size": 4, "name": "it"},
    ),
    Row(
        "sync_program",
        "inactive_program_axes",
        lambda cg: cg.sync_program(),
        penguin.Barrier, ("insert",), (), False, {"axes": ("program_id_0",), "cores": (0, 1)},
        ("translate_axis",), lnc=2,
    ),
    Row("post_process_spmd_grid", "grid", lambda cg: cg.post_process_spmd_grid((1, 2)), lnc=2),
]  # fmt: skip

SPIED = (
    "validate_dma_qos _map_to_nd_access _map_to_hbm_tensors combine_tiles insert insert_raw insert_raw_cc "
    "initiate_barrier translate_axis "
    + " ".join(row.method for row in ROSTER if row.method.endswith("_cc_raw"))
).split()  # fmt: skip


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the spied methods, in the order of their calls."""
    seen: list[str] = []

    def spy(kind: type, name: str, result: object = None) -> None:
        original = getattr(kind, name)

        def recorded(*args: Any, **kwargs: Any) -> Any:
            seen.append(name)
            return result or original(*args, **kwargs)

        monkeypatch.setattr(kind, name, recorded)

    for name in SPIED:
        spy(NeuronCodegen, name)
    spy(ParallelState, "gen_all_worker_group", WORKERS)
    spy(ParallelState, "gen_all_collective_permute_config", RING)
    return seen


def prepared(row: Row) -> NeuronCodegen:
    made = codegen(4, row.lnc, only=(0, 1, 2) if row.method in ("send_cc_raw", "recv_cc_raw") else None)
    if row.lnc == 2:
        made.post_process_spmd_grid(2)
    return made


def test_the_roster_is_complete() -> None:
    """24 methods and the grid post-processor, each once."""
    names = [row.method for row in ROSTER]
    assert len(names) == len(set(names)) == 25
    public = {name for name in vars(NeuronCodegen) if name.endswith(("_cc", "_cc_raw"))}
    assert public - set(names) == {"all_gather_v_cc_raw", "all_to_all_v_cc_raw"}


@pytest.mark.parametrize("row", ROSTER, ids=str)
def test_arguments(row: Row) -> None:
    parameters = inspect.signature(getattr(NeuronCodegen, row.method)).parameters
    assert list(parameters)[1:] == row.parameters.split()
    assert {p.kind for p in parameters.values()} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}
    with pytest.raises(TypeError):
        getattr(prepared(row), row.method)(channel=0)


@pytest.mark.parametrize("row", [row for row in ROSTER if row.mints], ids=str)
def test_op_channel_and_flag(row: Row, log: list[str]) -> None:
    made = prepared(row)
    row.call(made)
    (op,) = made.core_part().body
    assert type(op) is row.mints
    assert {name: getattr(op, name) for name in row.fields} == row.fields
    assert tuple(name for name in log if name.startswith("insert")) == row.channel
    assert made.has_collectives is row.has_collectives
    assert op.loc is not None
    assert op.loc.file == __file__


@pytest.mark.parametrize("row", ROSTER, ids=str)
def test_mappers(row: Row, log: list[str]) -> None:
    row.call(prepared(row))
    assert {name for name in log if "map_to" in name or name == "combine_tiles"} == set(row.mappers)


@pytest.mark.parametrize("row", [row for row in ROSTER if "dma_qos" in row.parameters.split()], ids=str)
def test_order_of_a_builder(row: Row, log: list[str]) -> None:
    """validate_dma_qos, then the operands, then the channel."""
    row.call(prepared(row))
    steps = [name for name in log if name in ("validate_dma_qos", *row.mappers, *row.channel)]
    ranks = [0 if name == "validate_dma_qos" else 2 if name in row.channel else 1 for name in steps]
    assert ranks == sorted(ranks)
    assert set(ranks) == {0, 1, 2}


@pytest.mark.parametrize("row", [row for row in ROSTER if row.calls], ids=str)
def test_delegation(row: Row, log: list[str]) -> None:
    row.call(prepared(row))
    assert [name for name in log if name in row.calls] == list(row.calls)
    asked = [name for name in log if name.startswith("gen_all")]
    assert asked == [name for name in row.calls if name.startswith("gen_all")]


@pytest.mark.parametrize("row", [row for row in ROSTER if "dma_qos" in row.parameters.split()], ids=str)
def test_every_builder_also_takes_its_arguments_by_name(row: Row) -> None:
    """Positional and keyword calls mint the same op."""
    by_position, by_name = prepared(row), prepared(row)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    original = getattr(by_position, row.method)
    setattr(by_position, row.method, lambda *args, **kwargs: calls.append((args, kwargs)) or original(*args, **kwargs))
    row.call(by_position)
    ((args, kwargs),) = calls
    names = list(inspect.signature(original).parameters)
    getattr(by_name, row.method)(**dict(zip(names, args, strict=False)), **kwargs)
    (left,), (right,) = by_position.core_part().body, by_name.core_part().body
    assert all(getattr(left, name) == getattr(right, name) for name in left.__struct_fields__ if name != "loc")


def test_tiled_all_reduce_has_one_view_per_tile() -> None:
    made = codegen()
    src = [AccessPattern("a", ((16, 4), (1, 16)), offset) for offset in (0, 64)]
    dst = [AccessPattern("b", ((16, 4), (1, 16)), offset) for offset in (0, 64)]
    op = made.all_reduce_cc_raw("add", src, dst, [[0, 1, 2, 3]], tiled=True)
    assert type(op) is penguin.TiledAllReduceOp
    assert (op.srcs, op.dsts) == (tuple(src), tuple(dst))


@pytest.mark.parametrize(
    ("method", "kind"),
    [("all_to_all_v_cc_raw", penguin.AlltoAllVOp), ("all_gather_v_cc_raw", penguin.AllGatherVOp)],
)
def test_variable_collectives_follow_the_style(method: str, kind: type[penguin.VariableOp]) -> None:
    made = codegen()
    op = getattr(made, method)([made.tensors["a"]], [made.tensors["b"]], [[0, 1, 2, 3]], made.tensors["counts"])
    assert type(op) is kind
    assert op.metadata.tensor == "counts"
    assert not op.recv_counts_known
    assert made.has_collectives
