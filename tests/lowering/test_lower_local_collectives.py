"""lower-local-collectives: what each transfer becomes, with the same numbers as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from nkicc.ir import isa, penguin
from nkicc.ir.access import AccessPattern, Register, Remote, Tensor
from nkicc.ir.bir import CollectiveKind, InstCollectiveCompute, InstCoreBarrier, InstGPSIMDSB2SB
from nkicc.ir.errors import NkiccError
from nkicc.ir.isa import DmaMode, InstDMACopy, InstTensorCopy
from nkicc.ir.program import InstLoop, Level, Module, walk
from nkicc.ir.types import AluOp, DType, Memory, Target
from nkicc.lowering import run_pipeline
from nkicc.lowering.lower_local_collectives import LowerLocalOptions, lower_local_collectives
from nkicc.lowering.sb2sb import effective_bytes, sb2sb_refusal

from .modules import (
    at,
    barrier,
    body,
    collective,
    columns,
    distinct,
    hbm,
    load,
    module,
    run,
    same_bits,
    sbuf,
    sendrecv,
    slab,
)

P, F = 16, 8
S, T, U, V = (sbuf(name, (P, F)) for name in "stuv")
X, Y = hbm("x", (4 * P, F)), hbm("y", (4 * P, F))
DMA_ONLY = LowerLocalOptions(max_bpp=0)


def stream(core: int, *middle: Any) -> list[Any]:
    """Fill s and u from the core's quarters of x, do something, store t and v to the core's quarters of y."""
    return [
        load(S.full(), slab(X, core, 4), name="in_s"),
        load(U.full(), slab(X, 2 + core, 4), name="in_u"),
        load(T.full(), slab(X, core, 4), name="in_t"),
        load(V.full(), slab(X, core, 4), name="in_v"),
        *middle,
        load(slab(Y, core, 4), T.full(), name="out_t"),
        load(slab(Y, 2 + core, 4), V.full(), name="out_v"),
    ]


def program(*middles: Any, own: tuple[Tensor, ...] = (S, T, U, V)) -> Module:
    return module(
        *[stream(core, *middle) for core, middle in enumerate(middles)],
        shared=(X, Y),
        own=own,
        inputs=("x",),
        outputs=("y",),
        ranks=3,
    )


def lowered(before: Module, options: LowerLocalOptions = DMA_ONLY) -> Module:
    """The lowered module: valid, stable, without local collectives, and with the same numbers on every rank."""
    after = lower_local_collectives(before, options)
    after.verify()
    assert lower_local_collectives(after, options) is after
    assert Module.from_json(after.to_json()) == after
    data = distinct(3, *X.shape)
    want = run(before, x=data)
    assert same_bits(want, run(after, x=data))
    assert not np.isnan(want[0]).any()
    return after


def middle(after: Module, core: int = 0) -> list[Any]:
    return [inst for inst in body(after, core) if not inst.name.startswith(("in_", "out_"))]


def shape_of(after: Module, core: int = 0) -> list[str]:
    return [f"{inst.name}:{type(inst).__name__}" for inst in middle(after, core)]


# --- SendRecv --------------------------------------------------------------------------------------------------------


def test_a_small_swap_goes_through_gpsimd_without_barriers() -> None:
    after = lowered(program(*[[sendrecv(core, S.full(), T.full(), pipe=2)] for core in (0, 1)]), LowerLocalOptions())
    for core in (0, 1):
        (inst,) = middle(after, core)
        assert inst == InstGPSIMDSB2SB(name="LocalSendRecv-2", dst=T.full(), src=S.full(), pipe_id=2)


def test_a_large_swap_is_pulled_between_barriers() -> None:
    after = lowered(
        program(*[[sendrecv(core, S.full(), T.full(), deps=("in_s",), loc=at(3))] for core in (0, 1)])
    )  # fmt: skip
    for core in (0, 1):
        start, pull, end = middle(after, core)
        assert (type(start), type(end)) == (InstCoreBarrier, InstCoreBarrier)
        assert (start.name, end.name) == ("LocalSendRecv-0_cb_start", "LocalSendRecv-0_cb_end")
        alias = f"s_remote_{1 - core}"
        assert pull == InstDMACopy(
            name="LocalSendRecv-0", deps=("in_s",), loc=at(3), dst=T.full(), srcs=(replace(S.full(), tensor=alias),)
        )
        (made,) = [t for t in after.programs[0].cores[core].tensors if t.name == alias]
        assert (made.remote, made.shape, made.memory) == (Remote(1 - core, "s"), S.shape, Memory.sbuf)


def test_the_closing_barrier_opens_the_next_transfer() -> None:
    after = lowered(
        program(*[[sendrecv(core, S.full(), T.full()), sendrecv(core, U.full(), V.full(), pipe=1)] for core in (0, 1)])
    )
    assert shape_of(after) == [
        "LocalSendRecv-0_cb_start:InstCoreBarrier",
        "LocalSendRecv-0:InstDMACopy",
        "LocalSendRecv-0_cb_end:InstCoreBarrier",
        "LocalSendRecv-1:InstDMACopy",
        "LocalSendRecv-1_cb_end:InstCoreBarrier",
    ]


def test_a_barrier_just_before_is_enough_on_both_cores_only() -> None:
    swap = [sendrecv(core, S.full(), T.full()) for core in (0, 1)]
    after = lowered(program([barrier("b"), swap[0]], [barrier("b"), swap[1]]))
    assert shape_of(after)[:2] == ["b:InstCoreBarrier", "LocalSendRecv-0:InstDMACopy"]
    late = load(U.full(), S.full(), name="late")
    after = lowered(program([barrier("b"), swap[0]], [barrier("b"), late, swap[1]]))
    assert shape_of(after)[:2] == ["b:InstCoreBarrier", "LocalSendRecv-0_cb_start:InstCoreBarrier"]


def test_without_initial_barrier_an_earlier_one_must_cover_the_source() -> None:
    swap = [sendrecv(core, S.full(), T.full(), initial_corebarrier=False) for core in (0, 1)]
    other, same = load(V.full(), U.full(), name="other"), load(S.full(), U.full(), name="same")
    after = lowered(program([barrier("b"), other, swap[0]], [barrier("b"), other, swap[1]]))
    assert "LocalSendRecv-0_cb_start:InstCoreBarrier" not in shape_of(after)
    after = lowered(program([barrier("b"), other, swap[0]], [barrier("b"), same, swap[1]]))
    assert "LocalSendRecv-0_cb_start:InstCoreBarrier" in shape_of(after)
    after = lowered(program([swap[0]], [swap[1]]))
    assert "LocalSendRecv-0_cb_start:InstCoreBarrier" in shape_of(after)


def test_a_transfer_in_place_is_received_aside() -> None:
    after = lowered(program(*[[sendrecv(core, T.full(), T.full())] for core in (0, 1)]))
    assert shape_of(after) == [
        "LocalSendRecv-0_cb_start:InstCoreBarrier",
        "LocalSendRecv-0_pull:InstDMACopy",
        "LocalSendRecv-0_cb_end:InstCoreBarrier",
        "LocalSendRecv-0:InstTensorCopy",
    ]


def test_halves_of_one_tile_need_no_detour() -> None:
    halves = columns(T, 0, F // 2), columns(T, F // 2, F // 2)
    after = lowered(program(*[[sendrecv(core, halves[0], halves[1])] for core in (0, 1)]))
    assert "LocalSendRecv-0:InstDMACopy" in shape_of(after)


def test_a_source_behind_a_register_is_packed_by_its_own_core() -> None:
    def part(core: int) -> list[Any]:
        register = Register("i")
        row = AccessPattern("s", ((F, P), (1, F // 2)), scalar_offset="i", indirect_stride=F // 2)
        set_i = isa.InstRegisterMove(name="set", dst=register, src=core)
        return [set_i, sendrecv(core, row, columns(T, 0, F // 2))]

    after = lowered(program(part(0), part(1)), LowerLocalOptions())
    assert shape_of(after, 1) == [
        "set:InstRegisterMove",
        "LocalSendRecv-0_pack:InstTensorCopy",
        "LocalSendRecv-0_cb_start:InstCoreBarrier",
        "LocalSendRecv-0:InstDMACopy",
        "LocalSendRecv-0_cb_end:InstCoreBarrier",
    ]


def test_a_core_that_receives_from_itself_copies() -> None:
    ops = [replace(sendrecv(core, S.full(), T.full()), recv_from_rank=(core,)) for core in (0, 1)]
    after = lowered(program([ops[0]], [ops[1]]))
    assert shape_of(after) == ["LocalSendRecv-0:InstTensorCopy"]
    swap = sendrecv(1, S.full(), T.full())
    after = lowered(program([ops[0]], [swap]))
    assert [type(inst) for inst in middle(after, 0)] == [InstCoreBarrier, InstTensorCopy, InstCoreBarrier]
    assert [type(inst) for inst in middle(after, 1)] == [InstCoreBarrier, InstDMACopy, InstCoreBarrier]


def test_transfers_in_loops() -> None:
    def loop(core: int) -> InstLoop:
        swap = sendrecv(core, S.full(), T.full())
        back = load(S.full(), T.full(), name="back")
        return InstLoop(register="i", start=0, stop=3, body=(swap, back))  # type: ignore[arg-type]

    after = lowered(program([loop(0)], [loop(1)]))
    assert [type(inst) for inst in middle(after, 1)] == [
        InstLoop,
        InstCoreBarrier,
        InstDMACopy,
        InstCoreBarrier,
        InstDMACopy,
    ]


def test_pipes_in_swapped_order_pair_by_pipe() -> None:
    def ops(core: int) -> list[Any]:
        return [sendrecv(core, S.full(), T.full(), pipe=0), sendrecv(core, U.full(), V.full(), pipe=1)]

    after = lowered(program(ops(0), ops(1)[::-1]), LowerLocalOptions())
    assert [inst.name for inst in middle(after, 0)] == [
        "LocalSendRecv-0_cb_start",
        "LocalSendRecv-0",
        "LocalSendRecv-1",
        "LocalSendRecv-1_cb_end",
    ]
    pulls = {inst.name: inst.srcs[0].tensor for inst in middle(after, 1) if isinstance(inst, InstDMACopy)}
    assert pulls == {"LocalSendRecv-0": "s_remote_0", "LocalSendRecv-1": "u_remote_0"}


# --- SB2SB or DMA ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "float8e4", "int8", "bfloat16", "float16", "int32", "float32"])
@pytest.mark.parametrize("path", ["loop", "klr"])
@pytest.mark.parametrize(("elements", "swap"), [(1, True), (256, True), (257, False)])
def test_the_byte_budget(dtype: str, path: str, elements: int, swap: bool) -> None:
    src, dst = sbuf("src", (P, elements), dtype), sbuf("dst", (P, elements), dtype)
    x, y = hbm("x", (2 * P, elements), dtype), hbm("y", (2 * P, elements), dtype)
    bodies = [
        [
            load(src.full(), slab(x, core, 2)),
            penguin.SendRecvOp(
                dst=dst.full(),
                src=src.full(),
                send_to_rank=1 - core,
                recv_from_rank=1 - core,
                pipe_id=0,
                use_gpsimd_dma=True,
            ),
            load(slab(y, core, 2), dst.full()),
        ]
        for core in (0, 1)
    ]
    built = module(
        *bodies, level=Level.penguin, shared=(x, y), own=(src, dst), inputs=("x",), outputs=("y",), ranks=2
    )  # fmt: skip
    assert effective_bytes(src.full(), src) == 4 * elements
    asked = [i.use_gpsimd_dma for i in body(run_pipeline(built, "codegen", path)) if hasattr(i, "use_gpsimd_dma")]
    assert asked == [path == "loop"]
    after = run_pipeline(built, "codegen,lower-local-collectives", path)
    kinds = [type(inst) for inst in body(after)[1:-1]]
    assert kinds == ([InstGPSIMDSB2SB] if swap else [InstCoreBarrier, InstDMACopy, InstCoreBarrier])
    data = distinct(2, 2 * P, elements, dtype=dtype)
    (got,) = run(after, x=data)
    assert got.tobytes() == np.concatenate([data[:, P:], data[:, :P]], axis=1).tobytes()


def test_the_budget_is_an_option() -> None:
    swaps = [[sendrecv(core, S.full(), T.full())] for core in (0, 1)]
    for max_bpp, kind in ((4 * F, InstGPSIMDSB2SB), (4 * F - 1, InstDMACopy)):
        after = lowered(program(*swaps), LowerLocalOptions(max_bpp=max_bpp))
        assert kind in [type(inst) for inst in middle(after)]


def test_64_bit_elements_count_as_they_are() -> None:
    wide = sbuf("w", (P, 128), "int64")
    assert effective_bytes(wide.full(), wide) == 1024


def refusal(dst: AccessPattern, src: AccessPattern, tensors: tuple[Tensor, Tensor], **where: Any) -> str | None:
    built = module([], *([[]] if where.get("lnc", 2) == 2 else []), target=where.get("target", Target.trn2))
    return sb2sb_refusal(built, dst, src, tensors, where.get("max_bpp", 1024))


def test_the_predicates_in_order() -> None:
    half, psum = sbuf("h", (P, F), "bfloat16"), Tensor("p", (P, F), DType.float32, Memory.psum)
    deep = AccessPattern("s", ((F, P), (1, 1), (1, 1), (1, 1), (1, 1), (1, F)))
    moving = AccessPattern("s", ((F, P), (1, F)), scalar_offset="i", indirect_stride=1)
    big = sbuf("b", (P, 300))
    full = (T.full(), S.full(), (T, S))
    assert refusal(*full) is None
    assert refusal(*full, lnc=1) == "BIR450: GPSIMDSB2SB is only available for LNC=2"
    assert refusal(*full, target=Target.trn1) == "BIR451: GPSIMDSB2SB is only available in trn2 and later"
    assert refusal(T.full(), half.full(), (T, half)) == "BIR452: GPSIMDSB2SB cannot be used to cast"
    assert refusal(T.full(), columns(S, 0, 4), (T, S)) == (
        "BIR453: GPSIMDSB2SB can only move data between access patterns of the same size"
    )
    assert refusal(deep, deep, (S, S)) == "BIR454: GPSIMDSB2SB access patterns must have a valid number of dimensions"
    assert refusal(T.full(), psum.full(), (T, psum)) == "BIR455: GPSIMDSB2SB can only move data between SBs"
    assert refusal(T.full(), moving, (T, S)) == "BIR456: GPSIMDSB2SB does not support dynamic access patterns"
    assert refusal(big.full(), big.full(), (big, big)) == (
        "BIR460: GPSIMDSB2SB can only transfer less than 1024 bytes/partition, but is trying to transfer 1200 "
        "bytes/partition"
    )


# --- SendRecvCCE -----------------------------------------------------------------------------------------------------


def cce(core: int, srcs: list[AccessPattern], froms: tuple[int, ...], dst: AccessPattern, **fields: Any):
    fields = {"op": AluOp.add, "name": "LocalSendRecvCCE-0", "initial_corebarrier": True, "pipe_id": 0, **fields}
    return collective(
        CollectiveKind.SendRecvCCE,
        srcs,
        [dst],
        ((0, 1),),
        is_local=True,
        recv_from_rank=froms,
        send_to_rank=(1 - core,),
        stream_id=0,
        **fields,
    )


@pytest.mark.parametrize("op", [AluOp.add, AluOp.max, AluOp.min])
def test_a_folding_receive_is_one_cce_copy(op: AluOp) -> None:
    after = lowered(
        program(*[[cce(core, [S.full(), U.full()], (0, 1), T.full(), op=op)] for core in (0, 1)])
    )  # fmt: skip
    start, copy, end = middle(after, 1)
    assert [type(start), type(end)] == [InstCoreBarrier] * 2
    assert (copy.mode, copy.op, copy.name) == (DmaMode.cce, op, "LocalSendRecvCCE-0")
    assert [ap.tensor for ap in copy.srcs] == ["s_remote_0", "u"]


def test_a_folding_receive_in_place() -> None:
    after = lowered(program(*[[cce(core, [T.full(), T.full()], (0, 1), T.full())] for core in (0, 1)]))
    assert shape_of(after)[-1] == "LocalSendRecvCCE-0:InstTensorCopy"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int8", "int32"])
@pytest.mark.parametrize("count", [15, 16, 17, 31, 32, 50])
def test_at_most_16_sources_and_the_same_bits(dtype: str, count: int) -> None:
    src, dst = sbuf("src", (P, count), dtype), sbuf("dst", (P, 1), dtype)
    x, y = hbm("x", (2 * P, count), dtype), hbm("y", (2 * P, 1), dtype)
    froms = tuple(i % 2 for i in range(count))

    def part(core: int) -> list[Any]:
        srcs = [columns(src, i, 1) for i in range(count)]
        receive = cce(core, srcs, froms, dst.full())
        return [load(src.full(), slab(x, core, 2)), receive, load(slab(y, core, 2), dst.full())]

    built = module(
        part(0), part(1), shared=(x, y), own=(src, dst), inputs=("x",), outputs=("y",), ranks=2
    )  # fmt: skip
    after = lower_local_collectives(built)
    copies = [inst for inst in body(after) if isinstance(inst, InstDMACopy) and inst.mode is DmaMode.cce]
    assert all(len(copy.srcs) <= 16 for copy in copies)
    assert len(copies) == {15: 1, 16: 1, 17: 2, 31: 2, 32: 3, 50: 4}[count]
    assert [copy.name for copy in copies[:-1]] == [
        f"LocalSendRecvCCE-0_imm_output_{i}" for i in range(len(copies) - 1)
    ]  # fmt: skip
    data = distinct(2, 2 * P, count, dtype=dtype)
    assert same_bits(run(built, x=data), run(after, x=data))


# --- local AllReduce -------------------------------------------------------------------------------------------------


def local_all_reduce(src: AccessPattern, dst: AccessPattern, groups: Any = ((0, 1),), **fields: Any):
    fields = {"op": AluOp.add, "name": "AllReduce-0", "stream_id": 0, **fields}
    return collective(CollectiveKind.AllReduce, [src], [dst], groups, is_local=True, **fields)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("groups", [((0, 1),), ((1, 0),), ()])
def test_local_all_reduce_is_scatter_barrier_gather(dtype: str, in_place: bool, groups: Any) -> None:
    src, dst = sbuf("src", (P, 3, 4), dtype), sbuf("dst", (P, 3, 4), dtype)
    x, y = hbm("x", (2 * P, 3, 4), dtype), hbm("y", (2 * P, 3, 4), dtype)
    into = src if in_place else dst

    def part(core: int) -> list[Any]:
        op = local_all_reduce(src.full(), into.full(), groups)
        return [load(src.full(), slab(x, core, 2), name="in_"), op, load(slab(y, core, 2), into.full(), name="out_")]

    built = module(part(0), part(1), shared=(x, y), own=(src, dst), inputs=("x",), outputs=("y",), ranks=2)
    after = lower_local_collectives(built)
    assert lower_local_collectives(after) is after
    assert shape_of(after, 1) == [
        "AllReduce-0_cb_start:InstCoreBarrier",
        *([] if in_place else ["AllReduce-0_seed:InstDMACopy"]),
        "AllReduce-0_scatter:InstDMACopy",
        "AllReduce-0_cb_end:InstCoreBarrier",
        "AllReduce-0:InstDMACopy",
        "AllReduce-0_cb_gather_end:InstCoreBarrier",
    ]
    *_, scatter, _, gather, _ = middle(after, 1)
    # 3 does not divide by two cores, 4 does: core 1 reduces the second half of the last dimension.
    assert (scatter.dst.pattern, scatter.dst.offset) == (((12, P), (4, 3), (1, 2)), 2)
    assert (gather.dst.pattern, gather.dst.offset) == (((12, P), (4, 3), (1, 2)), 0)
    assert gather.srcs[0].tensor == f"{into.name}_remote_0"
    data = distinct(2, 2 * P, 3, 4, dtype=dtype)
    assert same_bits(run(built, x=data), run(after, x=data))


def test_other_local_kinds_get_a_fence_and_stay() -> None:
    def op(core: int) -> InstCollectiveCompute:
        return collective(
            CollectiveKind.AllGather, [S.full()], [T.full()], ((0, 1),), is_local=True, name="g", stream_id=0
        )  # fmt: skip

    built = module([op(0)], [op(1)], own=(S, T))
    after = lower_local_collectives(built)
    assert [inst.name for inst in body(after, 1)] == ["g_cb_start", "g"]
    assert lower_local_collectives(after) == after


# --- refusals --------------------------------------------------------------------------------------------------------


def swap(core: int, **fields: Any) -> InstCollectiveCompute:
    return sendrecv(core, S.full(), T.full(), loc=at(20 + core), **fields)


def swap_uv(core: int, pipe: int = 1) -> InstCollectiveCompute:
    return sendrecv(core, U.full(), V.full(), pipe=pipe, loc=at(30 + core))


SHARED = hbm("shared", (P, F))
HALF = sbuf("half", (P, F), "bfloat16")
WRITE_S = load(S.full(), U.full(), name="w")
READ_T = load(U.full(), T.full(), name="r")

REFUSED: dict[str, tuple[list[Any], list[Any], str, int]] = {
    "one core only": ([swap(0)], [], "LLC052", 20),
    "twice and once": ([swap(0), swap_uv(0)], [swap(1)], "LLC052", 20),
    "another pipe": ([swap(0)], [sendrecv(1, S.full(), T.full(), pipe=5, loc=at(21))], "LLC064", 21),
    "another kind": (
        [swap(0)],
        [cce(1, [S.full()], (0,), T.full(), loc=at(21))],
        "LLC022",
        21,
    ),
    "another shape": (
        [swap(0)],
        [sendrecv(1, columns(S, 0, 4), columns(T, 0, 4), loc=at(21))],
        "LLC020",
        21,
    ),
    "another destination": ([swap(0)], [sendrecv(1, S.full(), columns(T, 0, 4), loc=at(21))], "LLC032", 21),
    "dst smaller than src": (
        [sendrecv(0, S.full(), columns(T, 0, 4), loc=at(20))],
        [sendrecv(1, S.full(), columns(T, 0, 4), loc=at(21))],
        "LLC005",
        20,
    ),
    "another dtype": (
        [swap(0)],
        [sendrecv(1, HALF.full(), T.full(), loc=at(21))],
        "BIR027",
        20,
    ),
    "another initial barrier": ([swap(0)], [swap(1, initial_corebarrier=False)], "LLC048", 21),
    "another initial barrier (cce)": (
        [cce(0, [S.full()], (1,), T.full())],
        [cce(1, [S.full()], (0,), T.full(), initial_corebarrier=False, loc=at(21))],
        "LLC049",
        21,
    ),
    "no swap for gpsimd": (
        [replace(swap(0, use_gpsimd_dma=True), send_to_rank=(0,))],
        [swap(1, use_gpsimd_dma=True)],
        "LLC060",
        20,
    ),
    "core 2": ([replace(swap(0), recv_from_rank=(2,))], [swap(1)], "NKC070", 20),
    "two sources": ([replace(swap(0), srcs=(S.full(), U.full()))], [swap(1)], "LLC019", 20),
    "fewer sources than ranks": (
        [cce(0, [S.full(), U.full()], (1,), T.full(), loc=at(20))],
        [cce(1, [S.full()], (0,), T.full())],
        "BIR026",
        20,
    ),
    "shared source": (
        [sendrecv(0, SHARED.full(), T.full(), loc=at(20))],
        [sendrecv(1, SHARED.full(), T.full())],
        "LLC030",
        20,
    ),
    "a barrier on one side": ([barrier("b"), swap(0)], [swap(1), barrier("b")], "LLC050", 20),
    "a barrier more": ([barrier("b"), swap(0)], [swap(1)], "LLC050", 20),
    "loops of different length": (
        [InstLoop(register="i", start=0, stop=2, body=(swap(0),))],  # type: ignore[arg-type]
        [InstLoop(register="i", start=0, stop=3, body=(swap(1),))],  # type: ignore[arg-type]
        "LLC050",
        20,
    ),
    "swapped, source written in between": (
        [swap(0), WRITE_S, swap_uv(0)],
        [swap_uv(1), swap(1)],
        "LLC035",
        20,
    ),
    "swapped, result read in between": ([swap(0), READ_T, swap_uv(0)], [swap_uv(1), swap(1)], "LLC035", 20),
    "swapped, one feeds the other": (
        [swap(0), sendrecv(0, T.full(), V.full(), pipe=1, loc=at(20))],
        [sendrecv(1, T.full(), V.full(), pipe=1), swap(1)],
        "LLC035",
        20,
    ),
    "swapped with a barrier in between": (
        [swap(0), barrier("b"), swap_uv(0)],
        [swap_uv(1), barrier("b"), swap(1)],
        "LLC064",
        31,
    ),
    "all-reduce of max": (
        [local_all_reduce(S.full(), T.full(), op=AluOp.max, loc=at(20))],
        [local_all_reduce(S.full(), T.full(), op=AluOp.max)],
        "LLC008",
        20,
    ),
    "all-reduce of two groups": (
        [local_all_reduce(S.full(), T.full(), ((0,), (1,)), loc=at(20))],
        [local_all_reduce(S.full(), T.full(), ((0,), (1,)))],
        "LLC001",
        20,
    ),
    "all-reduce of an odd width": (
        [local_all_reduce(columns(S, 0, 3), columns(T, 0, 3), loc=at(20))],
        [local_all_reduce(columns(S, 0, 3), columns(T, 0, 3))],
        "LLC015",
        20,
    ),
    "all-reduce that overlaps": (
        [local_all_reduce(columns(T, 0, 4), columns(T, 2, 4), loc=at(20))],
        [local_all_reduce(columns(T, 0, 4), columns(T, 2, 4))],
        "LLC035",
        20,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    left, right, code, line = REFUSED[case]
    built = module(left, right, shared=(SHARED,), own=(S, T, U, V, HALF), check=False)
    with pytest.raises(NkiccError) as caught:
        lower_local_collectives(built, DMA_ONLY)
    assert (caught.value.code, caught.value.loc) == (code, at(line))


def test_original_strings() -> None:
    built = module([swap(0)], [swap(1, initial_corebarrier=False)], own=(S, T))
    with pytest.raises(NkiccError) as caught:
        lower_local_collectives(built)
    assert caught.value.message == (
        "Expected matching SendRecv to have initial core barrier, but found core 1 does not have initial core barrier"
    )
    built = module([swap(0)], [], own=(S, T))
    with pytest.raises(NkiccError) as caught:
        lower_local_collectives(built)
    assert caught.value.message == (
        "Expected 1 local collective operations, but found 0 in core 1 subgraph(s)."
    )  # fmt: skip


def test_one_core_per_rank_is_left_alone() -> None:
    built = module([load(S.full(), SHARED.full())], shared=(SHARED,), own=(S,))
    assert lower_local_collectives(built) is built


def test_temporaries_do_not_meet_the_kernels_names() -> None:
    own = (S, T, U, V, sbuf("s_remote_0", (P, F)), sbuf("s_remote_1", (P, F)))
    after = lowered(program(*[[sendrecv(core, S.full(), T.full())] for core in (0, 1)], own=own))
    names = [t.name for t in after.programs[0].cores[0].tensors]
    assert len(set(names)) == len(names)
    assert "s_remote_1_" in names


def test_every_pull_stands_between_two_barriers() -> None:
    ops = [[sendrecv(c, S.full(), T.full()), cce(c, [S.full(), U.full()], (1, 0), V.full(), pipe_id=4)] for c in (0, 1)]
    after = lowered(program(*ops))
    for part in after.programs[0].cores:
        aliases = {t.name for t in part.tensors if t.remote}
        kinds = ["B" if isinstance(i, InstCoreBarrier) else "R" if aliases & {a.tensor for a in i.reads()} else "."
                 for i in walk(part.body)]  # fmt: skip
        text = "".join(kinds)
        assert text.index("B") < text.index("R") < text.rindex("R") < text.rindex("B")
