"""One leaf per op class: kind and fields on both paths, and every row of the table of their differences."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nkicc.ir import bir, penguin
from nkicc.ir.access import Register
from nkicc.ir.bir import CollectiveComputeTypeHint, CollectiveDimension, CollectiveKind, DMAQoSClass
from nkicc.ir.errors import NkiccError
from nkicc.ir.program import PENGUIN, InstLoop, Level, Module
from nkicc.ir.types import AluOp, DType, Engine
from nkicc.lowering import lower, run_pipeline
from nkicc.lowering.codegen import LEAVES
from nkicc.lowering.paths import DIFFERENCES, KLR, LOOP, PATHS, Path

from .modules import ALL4, PAIRS4, all_reduce_op, at, body, hbm, module, sbuf

A, B = hbm("a", (8, 16)), hbm("b", (8, 16))
WIDE, NARROW = hbm("wide", (32, 16)), hbm("narrow", (2, 16))
COUNTS = hbm("counts", (3, 4), "uint32")
S, T = sbuf("s", (128, 64)), sbuf("t", (128, 64))
SHARED, OWN = (A, B, WIDE, NARROW, COUNTS), (S, T)
REGISTER = Register("r", DType.uint32)
COMMON: dict[str, Any] = {"srcs": (A.full(),), "dsts": (B.full(),), "replica_groups": ALL4}
TWO: dict[str, Any] = {"srcs": (A.full(), WIDE.full()), "dsts": (B.full(),)}
HBM: dict[str, Any] = {"srcs": (penguin.HbmTensor("a", (8, 16)),), "dsts": (penguin.HbmTensor("b", (8, 16)),)}
SWAP: dict[str, Any] = {"dst": T.full(), "src": S.full(), "send_to_rank": 1, "recv_from_rank": 1, "pipe_id": 3}

OPS: dict[str, penguin.Inst] = {
    "all_reduce": penguin.AllReduceOp(op=AluOp.max, dma_qos=4, **COMMON),
    "tiled_all_reduce": penguin.TiledAllReduceOp(op=AluOp.add, **COMMON),
    "all_gather": penguin.AllGatherOp(**{**COMMON, "dsts": (WIDE.full(),)}, all_gather_dim=0),
    "all_gather_free": penguin.AllGatherOp(**COMMON, all_gather_dim=1),
    "reduce_scatter": penguin.ReduceScatterOp(
        op=AluOp.min, **{**COMMON, "dsts": (NARROW.full(),)}, reduce_scatter_dim=0, dma_qos=1
    ),
    "reduce_scatter_free": penguin.ReduceScatterOp(op=AluOp.add, **COMMON, reduce_scatter_dim=1),
    "all_to_all": penguin.AlltoAllOp(**COMMON, split_dimension=0, concat_dimension=1),
    "all_to_all_v": penguin.AlltoAllVOp(**COMMON, metadata=COUNTS.full(), has_rdispls=True),
    "all_gather_v": penguin.AllGatherVOp(**COMMON, metadata=COUNTS.full(), recv_counts_known=True),
    "broadcast": penguin.BroadcastOp(**COMMON, broadcast_sizes=(0, 8, 0, 0)),
    "permute": penguin.CollectivePermuteOp(**HBM, replica_groups=PAIRS4),
    "permute_pairs": penguin.TiledCollectivePermuteOp(
        srcs=(A.full(),), dsts=(B.full(),), src_tgt_pairs=((0, 1), (1, 0))
    ),
    "permute_implicit": penguin.TiledCollectivePermuteOp(**COMMON, channel_id=1, num_channels=2),
    "permute_reduce": penguin.TiledCollectivePermuteReduceOp(
        op=AluOp.add, **TWO, replica_groups=ALL4, channel_id=3, num_channels=4
    ),
    "permute_reduce_plain": penguin.CollectivePermuteReduceOp(op=AluOp.add, **TWO, replica_groups=ALL4),
    "send": penguin.SendOp(srcs=(A.full(),), peer_id=2),
    "recv": penguin.RecvOp(dsts=(B.full(),), peer_id=2),
    "sendrecv": penguin.SendRecvOp(**SWAP, use_gpsimd_dma=True, initiate_barrier=False, dma_qos=2),
    "sendrecv_cce": penguin.SendRecvCCEOp(
        dst=T.full(), srcs=(S.full(), S.full()), send_to_rank=1, recv_from_ranks=(0, 1), op=AluOp.add, pipe_id=1
    ),
    "core_barrier": penguin.CoreBarrierOp(data=A.full(), cores=(0, 1), engine=Engine.pool),
    "barrier": penguin.Barrier(axes=("program_id_0",), cores=(0, 1)),
    "rank_id": penguin.GetGlobalRankId(dst_register=REGISTER, world_size=4),
    "processing_rank": penguin.CurrentProcessingRankId(
        dst_register=REGISTER, iteration_id=2, channel_id=1, num_channels=2, replica_groups=PAIRS4
    ),
}  # fmt: skip

Kind, Dim = CollectiveKind, CollectiveDimension
CC, Off = bir.InstCollectiveCompute, DMAQoSClass.Unassigned
TP, NONE = CollectiveComputeTypeHint.TP, CollectiveComputeTypeHint.none

#: op -> class, name, fields on both paths, fields on the loop path, fields on the klr path (or the refusal).
ROWS: dict[str, tuple[type, str, dict[str, Any], dict[str, Any], dict[str, Any] | str]] = {
    "all_reduce": (
        CC,
        "AllReduce-0",
        {"kind": Kind.AllReduce, "groups": ALL4, "op": AluOp.max, "cc_dim": None, "cc_type_hint": NONE},
        {"dma_qos": DMAQoSClass.P2, "stream_id": 0},
        {"dma_qos": Off, "stream_id": -1},
    ),
    "tiled_all_reduce": (
        CC,
        "AllReduce-0",
        {"kind": Kind.AllReduce, "op": AluOp.add},
        {"stream_id": 0},
        "NKC090: Unsupported operator TiledAllReduceOp",
    ),
    "all_gather": (
        CC,
        "AllGather-0",
        {"kind": Kind.AllGather, "groups": ALL4, "op": AluOp.bypass, "cc_dim": Dim.Partition},
        {"cc_type_hint": TP, "stream_id": 0},
        {"cc_type_hint": NONE, "stream_id": -1},
    ),
    "all_gather_free": (CC, "AllGather-0", {"kind": Kind.AllGather, "cc_dim": Dim.Free}, {}, {}),
    "reduce_scatter": (
        CC,
        "ReduceScatter-0",
        {"kind": Kind.ReduceScatter, "groups": ALL4, "op": AluOp.min, "cc_dim": Dim.Partition},
        {"cc_type_hint": TP, "dma_qos": DMAQoSClass.Default},
        {"cc_type_hint": NONE, "dma_qos": Off},
    ),
    "reduce_scatter_free": (CC, "ReduceScatter-0", {"kind": Kind.ReduceScatter, "cc_dim": Dim.Free}, {}, {}),
    "all_to_all": (
        CC,
        "AllToAll-0",
        {"kind": Kind.AllToAll, "groups": ALL4, "split_dim": 0, "concat_dim": 1, "cc_dim": None, "cc_type_hint": NONE},
        {"split_count": 4},
        {"split_count": None},
    ),
    "all_to_all_v": (
        CC,
        "AllToAllV-0",
        {"kind": Kind.AllToAllV, "metadata": COUNTS.full(), "has_rdispls": True, "recv_counts_known": False},
        {},
        "NKC090: Unsupported operator AlltoAllVOp",
    ),
    "all_gather_v": (
        CC,
        "AllGatherV-0",
        {"kind": Kind.AllGather, "cc_dim": None, "metadata": COUNTS.full(), "recv_counts_known": True},
        {},
        "NKC090: Unsupported operator AllGatherVOp",
    ),
    "broadcast": (
        CC,
        "Broadcast-0",
        {"kind": Kind.AllGather, "cc_dim": Dim.Partition, "broadcast_sizes": (0, 8, 0, 0), "cc_type_hint": NONE},
        {},
        "NKC090: Unsupported operator 58",
    ),
    "permute": (
        CC,
        "CollectivePermuteImplicit-0",
        {"kind": Kind.PermuteImplicit, "groups": PAIRS4, "channel_id": None, "src_target_pairs": ()},
        {"srcs": (A.full(),), "dsts": (B.full(),)},
        "NKC091: codegenCollectivePermuteImplicit: channel_id is present",
    ),
    "permute_pairs": (
        CC,
        "CollectivePermute-0",
        {"kind": Kind.Permute, "groups": (), "channel_id": None, "src_target_pairs": ((0, 1), (1, 0))},
        {},
        {},
    ),
    "permute_implicit": (
        CC,
        "CollectivePermuteImplicit-0",
        {"kind": Kind.PermuteImplicit, "groups": ALL4, "channel_id": 1, "src_target_pairs": ()},
        {},
        {},
    ),
    "permute_reduce": (
        CC,
        "CollectivePermuteImplicitReduce-0",
        {"kind": Kind.PermuteReduceImplicit, "groups": ALL4, "channel_id": 3, "op": AluOp.add, "srcs": TWO["srcs"]},
        {},
        {},
    ),
    "permute_reduce_plain": (
        CC,
        "CollectivePermuteImplicitReduce-0",
        {"kind": Kind.PermuteReduceImplicit, "groups": ALL4, "channel_id": None, "op": AluOp.add},
        {},
        "NKC091: codegenCollectivePermuteImplicitReduce: channel_id is present",
    ),
    "send": (
        bir.InstCollectiveSend,
        "CollectiveSend-0",
        {"srcs": (A.full(),), "peer_id": 2},
        {},
        "NKC090: Unsupported operator 62",
    ),
    "recv": (
        bir.InstCollectiveRecv,
        "CollectiveRecv-0",
        {"dsts": (B.full(),), "peer_id": 2},
        {},
        "NKC090: Unsupported operator 63",
    ),
    "sendrecv": (
        CC,
        "LocalSendRecv-0",
        {
            "kind": Kind.SendRecv,
            "is_local": True,
            "pipe_id": 3,
            "recv_from_rank": (1,),
            "send_to_rank": (1,),
            "peer": 0,
            "op": AluOp.bypass,
        },
        {"groups": ((0, 1),), "use_gpsimd_dma": True, "initial_corebarrier": False, "dma_qos": DMAQoSClass.P0},
        {"groups": (), "use_gpsimd_dma": False, "initial_corebarrier": True, "dma_qos": Off},
    ),
    "sendrecv_cce": (
        CC,
        "LocalSendRecvCCE-0",
        {
            "kind": Kind.SendRecvCCE,
            "is_local": True,
            "pipe_id": 1,
            "recv_from_rank": (0, 1),
            "send_to_rank": (1,),
            "op": AluOp.add,
            "initial_corebarrier": True,
        },
        {"groups": ((0, 1),)},
        "NKC090: Unsupported operator 43",
    ),
    "core_barrier": (
        bir.InstCoreBarrier,
        "CoreBarrier-0",
        {"data": A.full(), "cores": (0, 1), "engine": Engine.pool, "id": None},
        {},
        {},
    ),
    "barrier": (bir.InstCoreBarrier, "CoreBarrier-0", {"data": None, "cores": (0, 1), "id": None}, {}, {}),
    "rank_id": (
        bir.InstGetGlobalRankId,
        "GetGlobalRankId-0",
        {"output": REGISTER, "engine": Engine.all},
        {"world_size": 4},
        {"world_size": None},
    ),
    "processing_rank": (
        bir.InstGetCurProcessingRankID,
        "GetCurProcessingRankID-0",
        {"output": REGISTER, "iter_id": 2, "channel_id": 1, "replica_groups": PAIRS4, "engine": Engine.all},
        {"stream_id": 0},
        {"stream_id": -1},
    ),
}


def penguin_module(*ops: Any, lnc: int = 2) -> Module:
    return module(
        list(ops), *[[] for _ in range(lnc - 1)], level=Level.penguin, shared=SHARED, own=OWN, ranks=4, check=False
    )


def codegen(op: Any, path: str) -> Any:
    built = run_pipeline(penguin_module(op), "codegen", path)
    assert built.level is Level.bir
    (inst,) = body(built)
    return inst


def fields_of(inst: Any) -> dict[str, Any]:
    found = {name: getattr(inst, name) for name in inst.__struct_fields__}
    if isinstance(inst, CC):
        found |= {"kind": inst.kind, "groups": inst.cc_channel.replica_groups, "op": inst.cc_channel.op}
    return found


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("row", ROWS)
def test_leaf(row: str, path: str) -> None:
    kind, name, both, loop, klr = ROWS[row]
    expected = klr if path == "klr" else loop
    if isinstance(expected, str):
        with pytest.raises(NkiccError) as caught:
            codegen(OPS[row], path)
        assert f"{caught.value.code}: {caught.value.message}" == expected
        return
    inst = codegen(OPS[row], path)
    assert type(inst) is kind
    found = fields_of(inst)
    expected = {"name": name, **both, **expected}
    assert {key: found[key] for key in expected} == expected


def test_every_op_class_has_a_leaf_and_a_row() -> None:
    classes = set(PENGUIN.__args__)
    assert set(LEAVES) == classes
    assert {type(op) for op in OPS.values()} == classes - {penguin.ShardOp}
    assert set(OPS) == set(ROWS)


@pytest.mark.parametrize("path", PATHS)
def test_shard_op_has_no_lowering(path: str) -> None:
    with pytest.raises(NkiccError, match="ShardOp is not implemented") as caught:
        codegen(penguin.ShardOp(loc=at(4)), path)
    assert caught.value.code == "NKC008"
    assert caught.value.loc == at(4)


@pytest.mark.parametrize("row", sorted(set(ROWS) - {"barrier"}))
def test_name_mask_deps_and_line_are_kept(row: str) -> None:
    op: Any = replace(OPS[row], name="mine", deps=("x",), mask="go", loc=at(9))  # type: ignore[type-var]
    inst = codegen(op, "loop")
    assert (inst.name, inst.deps, inst.mask, inst.loc) == ("mine", ("x",), "go", at(9))


# --- the table -------------------------------------------------------------------------------------------------------


def test_the_table_has_one_row_per_rule() -> None:
    assert set(DIFFERENCES) == set(Path.__struct_fields__)
    for rule in DIFFERENCES:
        assert getattr(LOOP, rule) != getattr(KLR, rule), f"{rule} is no difference"


#: rule of the table -> (op, field it decides, value on loop, value on klr)
DECIDES: dict[str, tuple[str, str, Any, Any]] = {
    "use_gpsimd_dma": ("sendrecv", "use_gpsimd_dma", True, False),
    "initial_corebarrier": ("sendrecv", "initial_corebarrier", False, True),
    "sendrecv_groups": ("sendrecv", "groups", ((0, 1),), ()),
    "dma_qos": ("all_reduce", "dma_qos", DMAQoSClass.P2, Off),
    "cc_type_hint": ("all_gather", "cc_type_hint", TP, NONE),
    "stream_id": ("all_to_all", "stream_id", 0, -1),
    "split_count": ("all_to_all", "split_count", 4, None),
    "world_size": ("rank_id", "world_size", 4, None),
}


@pytest.mark.parametrize("rule", sorted(set(DIFFERENCES) - {"asserts", "refused", "masked_sendrecv"}))
def test_row_decides_its_field(rule: str) -> None:
    op, field, loop, klr = DECIDES[rule]
    assert fields_of(codegen(OPS[op], "loop"))[field] == loop
    assert fields_of(codegen(OPS[op], "klr"))[field] == klr


@pytest.mark.parametrize("name", DIFFERENCES["refused"][1])
def test_row_refuses_its_op_class(name: str) -> None:
    op = next(op for op in OPS.values() if type(op).__name__ == name)
    codegen(op, "loop")
    with pytest.raises(NkiccError) as caught:
        codegen(replace(op, loc=at(3)), "klr")  # type: ignore[type-var]
    assert (caught.value.code, caught.value.loc) == ("NKC090", at(3))
    assert caught.value.message == f"Unsupported operator {DIFFERENCES['refused'][1][name]}"


def test_row_masked_sendrecv() -> None:
    op: Any = replace(OPS["sendrecv"], mask="go")  # type: ignore[type-var]
    assert codegen(op, "loop").mask == "go"
    with pytest.raises(NkiccError) as caught:
        codegen(op, "klr")
    assert (caught.value.code, caught.value.message) == ("NKC076", "mask parameter is not supported")


@pytest.mark.parametrize(
    ("op", "changes", "message"),
    [
        ("all_reduce", {"op": AluOp.bypass}, "codegenAllReduce: op is present"),
        ("all_reduce", {"srcs": ()}, "codegenAllReduce: srcs are not empty"),
        ("all_reduce", {"dsts": ()}, "codegenAllReduce: dsts are not empty"),
        ("all_reduce", {"srcs": (A.full(), B.full())}, "codegenAllReduce: as many srcs as dsts"),
        ("all_reduce", {"op": AluOp.bypass, "srcs": ()}, "codegenAllReduce: op is present"),
        ("all_gather", {"all_gather_dim": 2}, "codegenAllGather: concatDim is 0 or 1"),
        ("all_gather", {"all_gather_dim": 2, "srcs": ()}, "codegenAllGather: srcs are not empty"),
        ("reduce_scatter", {"dsts": ()}, "codegenReduceScatter: dsts are not empty"),
        ("all_to_all", {"srcs": ()}, "codegenAllToAll: srcs are not empty"),
        (
            "permute_pairs",
            {"srcs": ()},
            "codegenCollectivePermute: exactly 1 src (guaranteed by frontend API)",
        ),
        ("permute_pairs", {"dsts": (A.full(), B.full())}, "codegenCollectivePermute: exactly 1 dst"),
        ("permute_pairs", {"src_tgt_pairs": ()}, "codegenCollectivePermute: sourceTargetPairs are present"),
        ("permute_pairs", {"src_tgt_pairs": ((0, 1, 2),)}, "codegenCollectivePermute: each pair has length 2"),
        ("permute_implicit", {"channel_id": None}, "codegenCollectivePermuteImplicit: channel_id is present"),
        ("permute_reduce", {"srcs": (A.full(),)}, "codegenCollectivePermuteImplicitReduce: exactly 2 srcs"),
        ("permute_reduce", {"dsts": ()}, "codegenCollectivePermuteImplicitReduce: exactly 1 dst"),
        ("permute_reduce", {"op": AluOp.bypass}, "codegenCollectivePermuteImplicitReduce: op is present"),
        ("permute_reduce", {"channel_id": None}, "codegenCollectivePermuteImplicitReduce: channel_id is present"),
    ],
)
def test_row_asserts(op: str, changes: dict[str, Any], message: str) -> None:
    broken: Any = replace(OPS[op], **changes)  # type: ignore[type-var]
    with pytest.raises(NkiccError) as caught:
        codegen(broken, "klr")
    assert (caught.value.code, caught.value.message) == ("NKC091", message)


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"send_to_rank": "r"}, "NKC075", "The sendToRank must be a integer"),
        ({"recv_from_rank": 1.0}, "NKC075", "The recvFromRank must be a integer"),
        ({"pipe_id": None}, "NKC075", "The pipeId must be a integer"),
        (
            {"recv_from_rank": 0, "send_to_rank": 0},
            "NKC071",
            "SendRecv instruction on core 0 is receiving from itself!",
        ),
        ({"send_to_rank": 0}, "NKC072", "SendRecv instruction on core 0 is sending to itself!"),
    ],
)
def test_klr_sendrecv_asserts_in_order(changes: dict[str, Any], code: str, message: str) -> None:
    with pytest.raises(NkiccError) as caught:
        codegen(replace(OPS["sendrecv"], **changes), "klr")  # type: ignore[type-var]
    assert (caught.value.code, caught.value.message) == (code, message)


# --- streams of instructions -----------------------------------------------------------------------------------------


def test_counters_are_per_core_and_run_through_loops() -> None:
    reduce_, rank = all_reduce_op(A, B), OPS["rank_id"]
    loop = InstLoop(register="i", start=0, stop=2, body=(reduce_, rank, reduce_))  # type: ignore[arg-type]
    built = module(
        [reduce_, loop, OPS["all_gather"]], [reduce_, rank, rank], level=Level.penguin, shared=SHARED, check=False
    )
    lowered = run_pipeline(built, "codegen")
    assert [inst.name for inst in body(lowered, 0)] == [
        "AllReduce-0",
        "",
        "AllReduce-1",
        "GetGlobalRankId-0",
        "AllReduce-2",
        "AllGather-3",
    ]
    assert [inst.name for inst in body(lowered, 1)] == ["AllReduce-0", "GetGlobalRankId-0", "GetGlobalRankId-1"]


def test_generated_names_step_around_the_kernels() -> None:
    built = penguin_module(all_reduce_op(A, B), all_reduce_op(A, B, name="AllReduce-0"), all_reduce_op(A, B))
    names = [inst.name for inst in body(run_pipeline(built, "codegen"))]
    assert names == ["AllReduce-1", "AllReduce-0", "AllReduce-2"]


@pytest.mark.parametrize("cores", [(), (0,)])
def test_a_barrier_of_one_core_leaves_nothing(cores: tuple[int, ...]) -> None:
    built = penguin_module(
        penguin.Barrier(axes=("i",), cores=cores, name="fence"),
        all_reduce_op(A, B, name="first"),
        all_reduce_op(A, B, deps=("first", "fence")),
    )
    first, second = body(run_pipeline(built, "codegen"))
    assert (first.name, second.deps) == ("first", ("first",))


def test_codegen_of_a_bir_module_changes_nothing() -> None:
    lowered = lower(penguin_module(OPS["all_reduce"]))
    assert run_pipeline(lowered, "codegen") is lowered


LOWERED = [(row, path) for row in ROWS for path in PATHS if not (path == "klr" and isinstance(ROWS[row][4], str))]


@pytest.mark.parametrize(("row", "path"), LOWERED)
def test_json_reads_back_equal(row: str, path: str) -> None:
    lowered = lower(penguin_module(OPS[row]), path=path)
    assert Module.from_json(lowered.to_json()) == lowered
