"""Whether the meetings of all streams come about: cores of a rank, ranks of several programs."""

from __future__ import annotations

from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki import nccl

import nkicc
from nkicc.ir.access import AccessPattern
from nkicc.ir.bir import InstCollectiveSend
from nkicc.ir.program import Core, Level, Module, Program
from nkicc.ir.types import Target, World
from nkicc.verify import check

from ..simulator.bir_modules import tensor
from .helpers import by_rank, errors, line_of, x_of

INPUTS = {"x": x_of(0)}
FIRST = by_rank(x=x_of, first=lambda rank: rank == 0)


def hbm(name: str, shape: tuple[int, ...] = (2, 4), dtype: Any = nl.float32) -> nl.ndarray:
    return nl.ndarray(shape, dtype, nl.shared_hbm, name=name)


def sbuf(shape: tuple[int, ...] = (2, 4), dtype: Any = nl.float32) -> nl.ndarray:
    return nl.ndarray(shape, dtype)


def reduce(name: str, group: Any, shape: tuple[int, ...] = (2, 4), dtype: Any = nl.float32, op: Any = nl.add) -> None:
    src, dst, ones = hbm(f"{name}_src", shape, dtype), hbm(f"{name}_dst", shape, dtype), sbuf(shape, dtype)
    nisa.memset(ones, 1)
    nisa.dma_copy(src, ones)
    ncc.all_reduce([src], [dst], ncc.ReplicaGroup(group), op)


# --- the cores of a rank ---------------------------------------------------------------------------------------------


def swap(pipe: int) -> None:
    core = nl.program_id(0)
    src, dst = sbuf(), sbuf()
    nisa.memset(src, 1.0)
    nisa.sendrecv(src, dst, 1 - core, 1 - core, pipe)


def test_f04_the_partner_of_a_transfer_is_missing() -> None:
    def kernel() -> None:
        if nl.program_id(0) == 0:
            swap(0)  # alone

    (found,) = errors(kernel, ranks=2, lnc=2)
    assert found.code == "NKC142"
    assert "of core 0 has no partner: core 1 ends without one" in found.message
    assert found.cores == (0, 1)


def test_f45_transfers_pair_by_pipe_in_any_order() -> None:
    def kernel() -> None:
        for pipe in (0, 1) if nl.program_id(0) == 0 else (1, 0):
            swap(pipe)

    assert errors(kernel, ranks=2, lnc=2) == []


def test_transfers_that_are_used_in_different_orders_wait_for_each_other() -> None:
    def kernel() -> None:
        core = nl.program_id(0)
        for pipe in (0, 1) if core == 0 else (1, 0):
            src, dst = sbuf(), sbuf()
            nisa.memset(src, 1.0)
            nisa.sendrecv(src, dst, 1 - core, 1 - core, pipe)
            nisa.tensor_copy(src, dst)

    (found,) = errors(kernel, ranks=2, lnc=2)
    assert found.code == "NKC146"
    assert "core 0 waits in" in found.message
    assert "for core 1, core 1 waits in" in found.message
    assert [related.loc for related in found.related] == [found.loc, found.loc]


def test_f46_each_core_uses_a_pipe_of_its_own() -> None:
    def kernel() -> None:
        swap(nl.program_id(0))

    (found,) = errors(kernel, ranks=2, lnc=2)
    assert found.code == "NKC146"
    assert "(pipe 0) for core 1" in found.message
    assert "(pipe 1) for core 0" in found.message


def test_transfers_of_different_shapes() -> None:
    def kernel() -> None:
        core = nl.program_id(0)
        shape = (2, 4) if core == 0 else (2, 3)
        nisa.sendrecv(sbuf(shape), sbuf(shape), 1 - core, 1 - core, 0)

    (found,) = errors(kernel, ranks=2, lnc=2)
    assert found.code == "NKC101"
    assert "float32[2, 4]" in found.message
    assert "float32[2, 3]" in found.message


@pytest.mark.parametrize("times", [(1, 2), (30, 18)])
def test_a_barrier_that_one_core_does_not_reach(times: tuple[int, int]) -> None:
    def kernel() -> None:
        data = hbm("data")
        for _ in range(times[nl.program_id(0)]):
            nisa.core_barrier(data, (0, 1))

    (found,) = errors(kernel, ranks=2, lnc=2)
    assert found.code == "NKC143"
    assert found.loc is not None
    assert found.loc.line == line_of(kernel, "core_barrier")


def test_barriers_on_different_tensors() -> None:
    def kernel() -> None:
        nisa.core_barrier([hbm("a"), hbm("b")][nl.program_id(0)], (0, 1))

    (found,) = errors(kernel, ranks=2, lnc=2)
    assert found.code == "NKC101"
    assert "on a" in found.message
    assert "on b" in found.message


def test_one_core_issues_for_its_rank_and_the_other_waits() -> None:
    def kernel() -> None:
        data = hbm("data")
        nisa.core_barrier(data, (0, 1))
        if nl.program_id(0) == 0:
            reduce("r", [[0, 1]])
        nisa.core_barrier(data, (0, 1))

    assert errors(kernel, ranks=2, lnc=2) == []


@pytest.mark.parametrize("several", [False, True], ids=["one program", "two programs"])
@pytest.mark.parametrize("turns", [1, 3])
def test_each_core_issues_one_of_two_collectives(several: bool, turns: int) -> None:
    """A barrier orders what core 0 and what core 1 issue for their rank. From the second turn on both are under way at
    the same time: core 0 is a turn ahead."""

    def kernel(x: nl.ndarray, first: bool = False) -> tuple[nl.ndarray, ...]:
        core, group = nl.program_id(0), ncc.ReplicaGroup([[0, 1, 2, 3]])
        own, total, small, least = hbm("own"), hbm("total"), hbm("small", (1, 4)), hbm("least", (1, 4))
        data = hbm("data")
        if core == 0:
            nisa.dma_copy(own, x)
            nisa.dma_copy(small, x[:1])
        nisa.core_barrier(data, (0, 1))
        for _ in range(turns):
            if core == 0:
                ncc.all_reduce([own], [total], group, nl.add)
            nisa.core_barrier(data, (0, 1))
            if core == 1:
                ncc.all_reduce([small], [least], group, nl.minimum)
        nisa.core_barrier(data, (0, 1))
        outs = hbm("out"), hbm("out_small", (1, 4))
        if core == 0:
            for out, result in zip(outs, (total, least), strict=True):
                nisa.dma_copy(out, result)
        return outs

    inputs = by_rank(x=x_of, first=lambda rank: several and rank == 0)
    assert errors(kernel, inputs, ranks=4, lnc=2) == []
    for schedule in (None, 1, 2, 3, 4):
        result = nkicc.run(kernel, ranks=4, lnc=2, inputs=inputs, schedule=schedule)
        # The first and the last are alone between their barriers.
        each = (2 * turns - 2) * (1 + several)
        assert result.report.readings == {"one": 2 * (1 + several)} | ({"each": each} if each else {})
        for total, least in result.outputs:
            assert np.array_equal(total, sum(x_of(rank) for rank in range(4)))
            assert np.array_equal(least, x_of(0)[:1])


def test_one_rank_issues_on_both_cores_what_another_issues_on_one() -> None:
    def kernel(x: nl.ndarray, first: bool) -> nl.ndarray:
        own, total, out = hbm("own"), hbm("total"), hbm("out")
        core = nl.program_id(0)
        if core == 0:
            nisa.dma_copy(own, x)
        nisa.core_barrier(own, (0, 1))
        if core == 0 or first:
            ncc.all_reduce([own], [total], ncc.ReplicaGroup([[0, 1]]), nl.add)
        nisa.core_barrier(own, (0, 1))
        if core == 0:
            nisa.dma_copy(out, total)
        return out

    assert errors(kernel, FIRST, ranks=2, lnc=2) == []
    result = nkicc.run(kernel, ranks=2, lnc=2, inputs=FIRST)
    assert all(np.array_equal(out, x_of(0) + x_of(1)) for out in result.outputs)


@pytest.mark.parametrize("apart", [False, True])
def test_cores_that_issue_different_operations_at_one_place(apart: bool) -> None:
    def kernel() -> None:
        core = nl.program_id(0)
        name = f"r{core}" if apart else "r"
        reduce(name, [[0, 1]], op=(nl.add, nl.maximum)[core])

    assert {found.code for found in errors(kernel, ranks=2, lnc=2)} == (set() if apart else {"NKC104"})


def test_one_operation_that_the_cores_issue_on_both_sides_of_a_barrier() -> None:
    def kernel() -> None:
        data = hbm("data")
        for core in (0, 1):
            if nl.program_id(0) == core:
                reduce("r", [[0, 1]])
            nisa.core_barrier(data, (0, 1))

    (found,) = errors(kernel, ranks=2, lnc=2)
    assert found.code == "NKC104"
    assert "stands at different places" in found.message


def test_a_collective_on_sbuf_needs_both_cores() -> None:
    def kernel() -> None:
        if nl.program_id(0) == 1:
            ncc.all_reduce([sbuf()], [sbuf()], ncc.ReplicaGroup([[0, 1]]), nl.add)

    (found,) = errors(kernel, ranks=2, lnc=2)
    assert found.code == "LLC057"
    assert "core 1 issues" in found.hint
    assert found.loc is not None
    assert found.loc.line == line_of(kernel, "all_reduce")


def test_the_same_operations_at_different_places() -> None:
    def kernel() -> None:
        names = ("a", "b") if nl.program_id(0) == 0 else ("b", "a")
        for name in names:
            reduce(name, [[0, 1]], (2, 4 if name == "a" else 6))

    assert {found.code for found in errors(kernel, ranks=2, lnc=2)} == {"NKC104"}


# --- loops -----------------------------------------------------------------------------------------------------------


def test_loops_of_the_device_are_passed_as_often_as_they_say() -> None:
    def kernel(first: bool) -> None:
        src, dst = hbm("src"), hbm("dst")

        def body(_: Any) -> None:
            ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[0, 1, 2, 3]]), nl.add)

        nl.fori_loop(0, 30 if first else 18, body)

    (found,) = errors(kernel, by_rank(first=lambda rank: rank == 0))
    assert found.code == "NKC144"
    assert "expected rank(s) 0-3, arrived 0" in found.message
    assert "ends after 18 operation(s), rank(s) 0 has 12 more" in found.message


def test_what_only_the_run_knows_is_left_to_it() -> None:
    def kernel(x: Any, first: bool) -> None:
        src, dst = hbm("src"), hbm("dst")
        count = nl.full((1, 1), 3, nl.int32)
        register = nisa.register_alloc()
        nisa.register_load(register, count)

        def body(_: Any) -> None:
            ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[0, 1, 2, 3]]), nl.add)

        nl.fori_loop(0, register, body)
        if first:
            reduce("more", [[0, 1, 2, 3]])

    assert errors(kernel, FIRST) == []


# --- several programs ------------------------------------------------------------------------------------------------


def test_f28_a_rank_that_ends_before_the_collective() -> None:
    def kernel(stays: bool) -> None:
        reduce("first", [[0, 1, 2, 3]])
        if stays:
            reduce("second", [[0, 1, 2, 3]])

    (found,) = errors(kernel, by_rank(stays=lambda rank: rank != 2))
    assert found.code == "NKC144"
    assert "expected rank(s) 0-3, arrived 0-1, 3: rank(s) 2 ends after 1 operation(s)" in found.message
    assert found.ranks == (0, 1, 2, 3)
    assert "rank(s) 2 has finished after InstCollectiveCompute" in found.related[0].message


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ({"shape": (7, 5)}, {"shape": (7, 6)}, ("float32[7, 5]", "float32[7, 6]")),
        ({"shape": (8, 8), "dtype": nl.bfloat16}, {"shape": (8, 4)}, ("bfloat16[8, 8]", "float32[8, 4]")),
        ({"op": nl.add}, {"op": nl.maximum}, ("op add", "op max")),
        ({"group": [[0, 1]]}, {"group": [[1, 0]]}, ("groups [[0, 1]]", "groups [[1, 0]]")),
    ],
)
def test_f29_to_f32_members_that_differ(left: Any, right: Any, words: tuple[str, ...]) -> None:
    def kernel(first: bool) -> None:
        reduce("r", **{"group": [[0, 1]], **(left if first else right)})

    (found,) = errors(kernel, by_rank(first=lambda rank: rank == 0), ranks=2)
    assert found.code == "NKC101"
    assert all(word in found.message for word in words)
    assert found.ranks == (0, 1)
    assert found.related


def test_f31_different_kinds() -> None:
    def kernel(first: bool) -> None:
        a, b = hbm("a", (128, 64)), hbm("b", (256, 64))
        group = ncc.ReplicaGroup([[0, 1]])
        if first:
            ncc.reduce_scatter([b], [a], group, 0, nl.add)
        else:
            ncc.all_gather([a], [b], group, 0)

    (found,) = errors(kernel, by_rank(first=lambda rank: rank == 0), ranks=2)
    assert found.code == "NKC101"
    assert "kind ReduceScatter" in found.message
    assert "kind AllGather" in found.message


@pytest.mark.parametrize("groups", [([[0, 1]], [[0, 1]]), ([[0, 1]], [[1, 0]])])
def test_f19_f20_another_order(groups: tuple[Any, Any]) -> None:
    def kernel(first: bool) -> None:
        operations = [("a", groups[0], (2, 2)), ("b", groups[1], (2, 3))]
        for name, group, shape in operations if first else reversed(operations):
            reduce(name, group, shape)

    (found,) = errors(kernel, by_rank(first=lambda rank: rank == 0), ranks=2)
    assert found.code == "NKC101"
    assert len(found.related) == 3
    assert all("at another place" in related.message for related in found.related[1:])


def test_f21_groups_that_share_ranks_in_a_legal_order() -> None:
    def kernel(rank: int) -> None:
        if rank != 2:
            reduce("a", [[0, 1]])
        if rank != 0:
            reduce("b", [[1, 2]])

    assert errors(kernel, by_rank(rank=lambda rank: rank), ranks=3) == []
    for seed in range(8):
        nkicc.run(kernel, ranks=3, inputs=by_rank(rank=lambda rank: rank), schedule=seed, uninitialised=False)


def test_groups_that_wait_in_a_circle() -> None:
    def kernel(rank: int) -> None:
        mine = [[rank, (rank + 1) % 3], [rank - 1 if rank else 2, rank]]
        for index, group in enumerate(mine):
            reduce(f"r{index}", [sorted(group)])

    (found,) = errors(kernel, by_rank(rank=lambda rank: rank), ranks=3)
    assert found.code == "NKC146"
    assert found.ranks == (0, 1, 2)
    assert len(found.related) == 3


def test_f73_ranks_in_one_place_are_one_entry() -> None:
    def kernel(rank: int) -> None:
        if rank == 7:
            for peer in range(7):
                nccl.recv([sbuf()], None, peer, [])
            reduce("late", [list(range(8))])
        else:
            reduce("early", [list(range(8))])
            nccl.send([sbuf()], None, 7)

    (found,) = errors(kernel, by_rank(rank=lambda rank: rank), ranks=8)
    assert found.code == "NKC146"
    assert len(found.related) == 2
    assert found.related[0].message.startswith("rank(s) 0-6 waits in InstCollectiveCompute")
    assert found.related[0].message.endswith("for rank(s) 7")


# --- raw sends and receives ------------------------------------------------------------------------------------------


def send_or_receive(x: Any, first: bool, kind: str) -> None:
    a, b = hbm("a"), hbm("b", (4, 2))
    nisa.dma_copy(a, x)
    if first:
        nccl.send([a], None, 1)
    elif kind == "matched":
        nccl.recv([a], None, 0, [])
    elif kind == "shape":
        nccl.recv([b], None, 0, [])
    elif kind == "both send":
        nccl.send([a], None, 0)


@pytest.mark.parametrize(
    ("kind", "code"), [("matched", None), ("shape", "NKC101"), ("nothing", "NKC145"), ("both send", "NKC146")]
)
def test_sends_and_receives(kind: str, code: str | None) -> None:
    found = errors(send_or_receive, by_rank(x=x_of, first=lambda rank: rank == 0, kind=lambda _: kind), ranks=2)
    assert [f.code for f in found] == ([] if code is None else [code])
    if code == "NKC145":
        assert "of rank 0 waits for a receive from it, and rank 1 ends without one" in found[0].message


def test_a_send_of_several_ranks_names_one_peer() -> None:
    a = tensor("a", (2, 4))
    send = InstCollectiveSend(srcs=(AccessPattern("a", ((4, 2), (1, 4))),), peer_id=2)
    programs = (
        Program("k", (Core(body=(send,)),), (a,), ranks=(0, 1)),
        Program("k", (Core(),), (a,), ranks=(2,)),
    )
    (found,) = check(Module(Level.bir, World(3), Target.trn2, programs))
    assert (found.code, found.ranks) == ("NKC103", (0, 1))
    assert "on ranks 0-1 names one peer, rank 2" in found.message
