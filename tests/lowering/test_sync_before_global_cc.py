"""sync-before-global-cc: where a barrier goes, and where none may."""

from __future__ import annotations

import numpy as np

from nkicc.ir.bir import CollectiveKind, InstCollectiveCompute, InstCoreBarrier
from nkicc.ir.program import InstLoop, Module
from nkicc.ir.types import AluOp
from nkicc.lowering.sync_before_global_cc import sync_before_global_cc

from .modules import ALL4, barrier, body, collective, distinct, hbm, load, module, run, same_bits, sbuf, sendrecv, slab

X, Y, Z = hbm("x", (8, 16)), hbm("y", (8, 16)), hbm("z", (8, 16))
S, T = sbuf("s", (8, 16)), sbuf("t", (8, 16))
SHARED = (X, Y, Z)


def reduce_(src, dst, name: str) -> InstCollectiveCompute:
    return collective(CollectiveKind.AllReduce, [src.full()], [dst.full()], ALL4, op=AluOp.add, name=name, stream_id=0)


def step(channel: int, name: str) -> InstCollectiveCompute:
    src, dst = slab(X, channel, 2), slab(Y, channel, 2)
    return collective(
        CollectiveKind.PermuteImplicit, [src], [dst], ALL4, name=name, channel_id=channel, stream_id=0
    )  # fmt: skip


def synced(*bodies) -> Module:
    built = module(*bodies, shared=SHARED, own=(S, T), inputs=("x",), outputs=("y", "z"))
    after = sync_before_global_cc(built)
    after.verify()
    assert sync_before_global_cc(after) == after
    return after


def names(built: Module, core: int) -> list[str]:
    return [inst.name for inst in body(built, core)]


def test_both_cores_meet_before_each_shared_collective() -> None:
    stream = [reduce_(X, Y, "A"), load(S.full(), Y.full(), name="l"), reduce_(Y, Z, "B")]
    after = synced(stream, stream)
    for core in (0, 1):
        assert names(after, core) == ["A-sync", "A", "l", "B-sync", "B"]
    fence = body(after)[0]
    assert (type(fence), fence.cores, fence.data) == (InstCoreBarrier, (0, 1), None)


def test_no_second_barrier_after_one_that_both_cores_pass() -> None:
    stream = [barrier("b", X.full()), reduce_(X, Y, "A")]
    assert names(synced(stream, stream), 0) == ["b", "A"]


def test_a_barrier_before_only_one_core_is_not_enough() -> None:
    early = [barrier("b", X.full()), reduce_(X, Y, "A")]
    late = [barrier("b", X.full()), load(S.full(), X.full(), name="l"), reduce_(X, Y, "A")]
    after = synced(early, late)
    assert names(after, 0) == ["b", "A-sync", "A"]
    assert names(after, 1) == ["b", "l", "A-sync", "A"]


def test_a_collective_of_one_core_gets_none() -> None:
    after = synced([reduce_(X, Y, "A"), barrier("b", Y.full())], [barrier("b", Y.full())])
    assert names(after, 0) == ["A", "b"]
    assert names(after, 1) == ["b"]


def test_one_core_alone_in_one_part_and_both_in_the_next() -> None:
    after = synced(
        [reduce_(X, Y, "A"), barrier("b", Y.full()), load(S.full(), Y.full(), name="l"), reduce_(Y, Z, "B")],
        [barrier("b", Y.full()), load(S.full(), Y.full(), name="l"), reduce_(Y, Z, "B")],
    )
    assert names(after, 0) == ["A", "b", "l", "B-sync", "B"]
    assert names(after, 1) == ["b", "l", "B-sync", "B"]


def test_lanes_that_agree_are_synced_and_others_are_not() -> None:
    same = [reduce_(S, T, "A")]
    assert names(synced(same, same), 1) == ["A-sync", "A"]
    assert names(synced(same, [reduce_(T, S, "A")]), 0) == ["A"]
    assert names(synced(same, []), 0) == ["A"]


def test_a_lane_collective_at_different_sides_of_a_barrier_is_left_alone() -> None:
    after = synced(
        [barrier("b", X.full()), reduce_(S, T, "A")],
        [reduce_(S, T, "A"), barrier("b", X.full())],
    )
    assert [names(after, core) for core in (0, 1)] == [["b", "A"], ["A", "b"]]


def test_a_loop_of_barriers_is_not_matched_with_single_ones() -> None:
    loop = InstLoop(register="i", start=0, stop=2, body=(barrier("b"),))  # type: ignore[arg-type]
    after = synced([loop, reduce_(X, Y, "A")], [barrier("b0"), barrier("b1"), reduce_(X, Y, "A")])
    assert names(after, 0) == ["", "b", "A"]
    assert names(after, 1) == ["b0", "b1", "A"]


def test_local_transfers_are_meetings_too() -> None:
    swaps = [sendrecv(core, S.full(), T.full()) for core in (0, 1)]
    after = synced([swaps[0], reduce_(S, T, "A")], [reduce_(S, T, "A"), swaps[1]])
    assert "A-sync" not in names(after, 0) + names(after, 1)
    after = synced([swaps[0], reduce_(S, T, "A")], [swaps[1], reduce_(S, T, "A")])
    assert names(after, 1) == ["LocalSendRecv-0", "A-sync", "A"]


def test_channels_of_one_step_share_a_barrier() -> None:
    stream = [step(0, "c0"), step(1, "c1"), load(S.full(), Y.full(), name="l"), step(0, "d0"), step(1, "d1")]
    assert names(synced(stream, stream), 0) == ["c0-sync", "c0", "c1", "l", "d0-sync", "d0", "d1"]


def test_loops_are_synced_inside() -> None:
    loop = InstLoop(register="i", start=0, stop=3, body=(reduce_(X, Y, "A"),))  # type: ignore[arg-type]
    after = synced([loop, reduce_(Y, Z, "B")], [loop, reduce_(Y, Z, "B")])
    assert names(after, 1) == ["", "A-sync", "A", "B-sync", "B"]
    other = InstLoop(register="i", start=0, stop=2, body=loop.body)
    assert names(synced([loop], [other]), 0) == ["", "A"]


def test_one_core_per_rank_needs_nothing() -> None:
    built = module([reduce_(X, Y, "A")], shared=SHARED)
    assert sync_before_global_cc(built) is built


def test_the_numbers_stay() -> None:
    def stream(core: int):
        half = slab(Y, core, 2)
        return [
            load(S.full(), X.full(), name="l"),
            load(half, slab(X, core, 2), name="h"),
            reduce_(Y, Z, "A"),
            load(slab(Y, core, 2), slab(Z, core, 2), name="b"),
        ]

    built = module(stream(0), stream(1), shared=SHARED, own=(S, T), inputs=("x",), outputs=("y", "z"))
    data = distinct(4, 8, 16)
    before, after = run(built, x=data), run(sync_before_global_cc(built), x=data)
    assert same_bits(before, after)
    assert np.array_equal(after[1][2], ((data[0] + data[1]) + data[2]) + data[3])
