"""Every function of `nki.collectives` against NumPy on every rank, the op each one makes, and what is refused."""

from collections.abc import Callable
from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup
from numpy.testing import assert_array_equal

import nkicc
from nkicc import NkiccError
from nkicc.ir import penguin
from nkicc.nki.trace import tracing

from .helpers import data, returned, traced, tracer

GROUPS = {
    "all": [[0, 1, 2, 3, 4, 5]],
    "blocks": [[0, 1, 2], [3, 4, 5]],
    "strided": [[0, 2, 4], [1, 3, 5]],
    "reordered": [[4, 0, 2], [1, 5, 3]],
}
RANKS = 6

groups = pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS.keys())
lncs = pytest.mark.parametrize("lnc", [1, 2])


def members(groups: list[list[int]], rank: int) -> list[int]:
    return next(group for group in groups if rank in group)


def in_hbm(issue: Callable[..., None], src: tuple[int, ...], dst: tuple[int, ...]) -> Callable[..., nl.ndarray]:
    """A kernel that runs one collective on HBM tensors."""

    def kernel(x: nl.ndarray, group: Any) -> nl.ndarray:
        source = nl.ndarray(src, x.dtype, nl.shared_hbm, name="source")
        target = nl.zeros(dst, x.dtype, nl.shared_hbm, name="target")
        nisa.dma_copy(source, x)
        issue(source, target, group)
        out = nl.ndarray(dst, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, target)
        return out

    return kernel


def in_sbuf(issue: Callable[..., None], src: tuple[int, ...], dst: tuple[int, ...]) -> Callable[..., nl.ndarray]:
    """A kernel in which each core runs one collective on tiles of its own: its half of the columns of x."""

    def kernel(x: nl.ndarray, group: Any) -> nl.ndarray:
        cores, core = nl.num_programs(), nl.program_id()
        source, target = nl.ndarray(src, x.dtype), nl.ndarray(dst, x.dtype)
        nisa.dma_copy(source, x[:, nl.ds(core * src[1], src[1])])
        issue(source, target, group)
        out = nl.ndarray((cores, *dst), x.dtype, nl.shared_hbm)
        nisa.dma_copy(out[core], target)
        return out

    return kernel


def run(kernel: Callable[..., Any], shape: tuple[int, ...], group: Any, **options: Any) -> list[np.ndarray]:
    def inputs(rank: int) -> dict[str, Any]:
        return {"x": data(rank, shape), "group": group}

    return nkicc.run(kernel, ranks=RANKS, inputs=inputs, **options).outputs


@groups
@lncs
@pytest.mark.parametrize(("op", "fold"), [(nl.add, np.sum), (nl.maximum, np.max), (nl.minimum, np.min)])
def test_all_reduce(groups: list, lnc: int, op: nl.Op, fold: Callable[..., np.ndarray]) -> None:
    def issue(src: nl.ndarray, dst: nl.ndarray, group: Any) -> None:
        ncc.all_reduce(dsts=[dst], srcs=[src], replica_group=group, op=op)

    outputs = run(in_hbm(issue, (4, 5), (4, 5)), (4, 5), ReplicaGroup(groups), lnc=lnc)
    tiles = run(in_sbuf(issue, (4, 3), (4, 3)), (4, 3 * lnc), ReplicaGroup(groups), lnc=lnc)
    for rank in range(RANKS):
        assert_array_equal(outputs[rank], fold([data(r, (4, 5)) for r in members(groups, rank)], axis=0))
        whole = fold([data(r, (4, 3 * lnc)) for r in members(groups, rank)], axis=0)
        assert_array_equal(np.concatenate(list(tiles[rank]), axis=1), whole)


@groups
@lncs
def test_all_gather(groups: list, lnc: int) -> None:
    size = len(groups[0])

    def issue(dim: int) -> Callable[..., None]:
        return lambda src, dst, group: ncc.all_gather([src], [dst], group, dim)

    outputs = run(in_hbm(issue(0), (4, 5), (4 * size, 5)), (4, 5), ReplicaGroup(groups), lnc=lnc)
    rows = run(in_sbuf(issue(0), (4, 3), (4 * size, 3)), (4, 3 * lnc), ReplicaGroup(groups), lnc=lnc)
    columns = run(in_sbuf(issue(1), (4, 3), (4, 3 * size)), (4, 3 * lnc), ReplicaGroup(groups), lnc=lnc)
    for rank in range(RANKS):
        group = members(groups, rank)
        assert_array_equal(outputs[rank], np.concatenate([data(r, (4, 5)) for r in group]))
        for core in range(lnc):
            lane = [data(r, (4, 3 * lnc))[:, 3 * core : 3 * core + 3] for r in group]
            assert_array_equal(rows[rank][core], np.concatenate(lane))
            assert_array_equal(columns[rank][core], np.concatenate(lane, axis=1))


@groups
@lncs
def test_reduce_scatter(groups: list, lnc: int) -> None:
    size = len(groups[0])

    def issue(src: nl.ndarray, dst: nl.ndarray, group: Any) -> None:
        ncc.reduce_scatter(srcs=[src], dsts=[dst], replica_group=group, collective_dim=0, op=nl.add)

    outputs = run(in_hbm(issue, (2 * size, 5), (2, 5)), (2 * size, 5), ReplicaGroup(groups), lnc=lnc)
    for rank in range(RANKS):
        group = members(groups, rank)
        at = 2 * group.index(rank)
        assert_array_equal(outputs[rank], sum(data(r, (2 * size, 5)) for r in group)[at : at + 2])


@groups
@lncs
def test_all_to_all(groups: list, lnc: int) -> None:
    size = len(groups[0])

    def issue(src: nl.ndarray, dst: nl.ndarray, group: Any) -> None:
        ncc.all_to_all(srcs=[src], dsts=[dst], replica_group=group, collective_dim=0)

    outputs = run(in_hbm(issue, (2 * size, 5), (2 * size, 5)), (2 * size, 5), ReplicaGroup(groups), lnc=lnc)
    for rank in range(RANKS):
        group = members(groups, rank)
        at = 2 * group.index(rank)
        assert_array_equal(outputs[rank], np.concatenate([data(r, (2 * size, 5))[at : at + 2] for r in group]))


@lncs
def test_all_to_all_v(lnc: int) -> None:
    ranks, slot = 4, 6
    counts = np.array([[1, 2, 3, 4], [0, 1, 5, 2], [2, 2, 2, 2], [6, 0, 1, 3]], np.uint32)

    def metadata(rank: int) -> np.ndarray:
        sent = counts[rank]
        return np.array([sent, np.cumsum(sent) - sent, np.zeros(ranks)], np.uint32)

    def kernel(x: nl.ndarray, plan: nl.ndarray) -> tuple[nl.ndarray, nl.ndarray]:
        source = nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name="source")
        target = nl.zeros((ranks * slot,), x.dtype, nl.shared_hbm, name="target")
        table = nl.ndarray(plan.shape, plan.dtype, nl.shared_hbm, name="table")
        nisa.dma_copy(source, x)
        nisa.dma_copy(table, plan)
        ncc.all_to_all_v([source], [target], ReplicaGroup([list(range(ranks))]), table)
        return returned(target), returned(table)

    result = nkicc.run(
        kernel, ranks=ranks, lnc=lnc, inputs=lambda rank: {"x": data(rank, (20,)), "plan": metadata(rank)}
    )
    for rank in range(ranks):
        expected = np.zeros((ranks, slot), np.float32)
        for source in range(ranks):
            start, count = metadata(source)[1, rank], counts[source, rank]
            expected[source, :count] = data(source, (20,))[start : start + count]
        target, table = result.outputs[rank]
        assert_array_equal(target.reshape(ranks, slot), expected)
        assert_array_equal(table[2], counts[:, rank])


@lncs
def test_collective_permute_leaves_ranks_without_a_source_alone(lnc: int) -> None:
    pairs = [(0, 3), (3, 1), (1, 0), (5, 5)]

    def issue(src: nl.ndarray, dst: nl.ndarray, group: Any) -> None:
        ncc.collective_permute(srcs=[src], dsts=[dst], source_target_pairs=group)

    outputs = run(in_hbm(issue, (4, 5), (4, 5)), (4, 5), tuple(pairs), lnc=lnc)
    source = {target: source for source, target in pairs}
    for rank in range(RANKS):
        expected = data(source[rank], (4, 5)) if rank in source else np.zeros((4, 5))
        assert_array_equal(outputs[rank], expected)


@groups
@lncs
def test_implicit_permutes_move_slices_of_larger_tiles_along_the_ring(groups: list, lnc: int) -> None:
    """Whatever the ring, the kernel may only rely on what the current processing rank says."""

    def kernel(x: nl.ndarray, group: Any) -> tuple[nl.ndarray, nl.ndarray]:
        core = nl.program_id()
        held, free = nl.ndarray((4, 8), x.dtype), nl.ndarray((4, 8), x.dtype)
        nisa.dma_copy(held, x[core])
        lanes = [nl.ds(4 * channel, 4) for channel in range(2)]
        ncc.collective_permute_implicit(
            srcs_by_channel=[[held[:, lane]] for lane in lanes],
            dsts_by_channel=[[free[:, lane]] for lane in lanes],
            replica_group=group,
            channel_ids=[0, 1],
            num_channels=2,
        )
        owners = nl.ndarray((1, 2), nl.uint32)
        for channel in range(2):
            owner = ncc.collective_permute_implicit_current_processing_rank_id(1, group, channel, num_channels=2)
            nisa.register_store(owners[:, channel : channel + 1], owner)
        arrived = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        who = nl.ndarray((nl.num_programs(), 2), nl.uint32, nl.shared_hbm)
        nisa.dma_copy(arrived[core], free)
        nisa.dma_copy(who[core], owners)
        return arrived, who

    shape = (lnc, 4, 8)
    outputs = run(kernel, shape, ReplicaGroup(groups), lnc=lnc)
    for channel in range(2):
        for core in range(lnc):
            seen = []
            for rank in range(RANKS):
                arrived, who = outputs[rank]
                owner = int(who[core, channel])
                assert owner in members(groups, rank)
                assert owner != rank
                lane = slice(4 * channel, 4 * channel + 4)
                assert_array_equal(arrived[core][:, lane], data(owner, shape)[core][:, lane])
                seen.append(owner)
            assert sorted(seen) == list(range(RANKS))


@lncs
def test_implicit_permute_reduce_sends_the_sum_of_two_tensors(lnc: int) -> None:
    def kernel(x: nl.ndarray, group: Any) -> tuple[nl.ndarray, nl.ndarray]:
        tensors = [nl.ndarray((4, 5), x.dtype, nl.shared_hbm, name=f"t{i}") for i in range(3)]
        nisa.dma_copy(tensors[0], x[0])
        nisa.dma_copy(tensors[1], x[1])
        ncc.collective_permute_implicit_reduce([[tensors[0]]], [[tensors[1]]], [[tensors[2]]], group, nl.maximum)
        who = nl.ndarray((1, 1), nl.uint32)
        nisa.register_store(who, ncc.collective_permute_implicit_current_processing_rank_id(1, group))
        out = nl.ndarray((1, 1), nl.uint32, nl.shared_hbm)
        nisa.dma_copy(out, who)
        return returned(tensors[2]), out

    outputs = run(kernel, (2, 4, 5), ReplicaGroup(GROUPS["all"]), lnc=lnc)
    for rank in range(RANKS):
        arrived, who = outputs[rank]
        assert int(who[0, 0]) != rank
        assert_array_equal(arrived, data(int(who[0, 0]), (2, 4, 5)).max(axis=0))


@lncs
def test_rank_id_is_the_rank_in_the_world(lnc: int) -> None:
    def kernel(table: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((1, 3), table.dtype, nl.shared_hbm)
        nisa.dma_copy(out, table.ap([[3, 1], [1, 3]], scalar_offset=ncc.rank_id(name="me")))
        return out

    table = data(0, (RANKS, 3))
    outputs = nkicc.run(kernel, ranks=RANKS, lnc=lnc, inputs={"table": table}).outputs
    for rank in range(RANKS):
        assert_array_equal(outputs[rank], table[rank : rank + 1])


def test_replica_groups_are_values() -> None:
    assert ReplicaGroup([[0, 1], (np.int64(2), 3)]) == ReplicaGroup(((0, 1), (2, 3)))
    assert len({ReplicaGroup([[0, 1]]), ReplicaGroup([(0, 1)]), ReplicaGroup([[1, 0]])}) == 2
    assert repr(ReplicaGroup(((0, 1),))) == "ReplicaGroup([[0, 1]])"
    assert isinstance(ReplicaGroup([[0]]), nl.NKIObject)
    for groups in (3, [0, 1], [["a"]], [[0.5]]):
        with pytest.raises(NkiccError) as caught:
            ReplicaGroup(groups)
        assert caught.value.code == "NKC040"


ALL = ReplicaGroup([[0, 1, 2, 3]])


def hbm(rows: int = 4, dtype: Any = nl.float32) -> nl.ndarray:
    return nl.ndarray((rows, 4), dtype, nl.shared_hbm)


def sbuf(rows: int = 4) -> nl.ndarray:
    return nl.ndarray((rows, 4), nl.float32)


OPS = {
    "all_reduce": (
        lambda: ncc.all_reduce([hbm()], [hbm()], ALL, nl.add, priority=0, name="here"),
        penguin.AllReduceOp,
    ),
    "all_gather": (lambda: ncc.all_gather([hbm()], [hbm(16)], ALL, 0, name="here"), penguin.AllGatherOp),
    "reduce_scatter": (
        lambda: ncc.reduce_scatter([hbm()], [hbm(1)], ALL, 0, nl.add, name="here"),
        penguin.ReduceScatterOp,
    ),
    "all_to_all": (lambda: ncc.all_to_all([hbm()], [hbm()], ALL, 0, name="here"), penguin.AlltoAllOp),
    "collective_permute": (
        lambda: ncc.collective_permute([hbm()], [hbm()], [(0, 1), (1, 0)], name="here"),
        penguin.TiledCollectivePermuteOp,
    ),
    "collective_permute_implicit": (
        lambda: ncc.collective_permute_implicit([[hbm()]], [[hbm()]], ALL, [0], name="here"),
        penguin.TiledCollectivePermuteOp,
    ),
    "collective_permute_implicit_reduce": (
        lambda: ncc.collective_permute_implicit_reduce([[hbm()]], [[hbm()]], [[hbm()]], ALL, nl.add, name="here"),
        penguin.TiledCollectivePermuteReduceOp,
    ),
}


@pytest.mark.parametrize("name", OPS)
def test_each_call_is_one_op_of_the_builder(name: str) -> None:
    call, kind = OPS[name]
    core = tracer()
    with tracing(core):
        call()
    (inst,) = core.codegen.core_part().body
    assert type(inst) is kind
    assert inst.name == "here"
    assert core.codegen.has_collectives
    assert inst.loc is not None
    assert inst.loc.file == __file__


REFUSED = {
    "an op that cannot reduce": (lambda: ncc.all_reduce([hbm()], [hbm()], ALL, nl.multiply), "NKC053"),
    "an op without an ALU": (lambda: ncc.all_reduce([hbm()], [hbm()], ALL, nl.exp), "NKC053"),
    "NumPy's add": (lambda: ncc.all_reduce([hbm()], [hbm()], ALL, np.add), "NKC053"),
    "another shape": (lambda: ncc.all_reduce([hbm()], [hbm(8)], ALL, nl.add), "NKC033"),
    "another dtype": (lambda: ncc.all_reduce([hbm()], [hbm(dtype=nl.bfloat16)], ALL, nl.add), "NKC032"),
    "mixed memories": (lambda: ncc.all_reduce([hbm()], [sbuf()], ALL, nl.add), "NKC031"),
    "two tiles": (lambda: ncc.all_reduce([sbuf(), sbuf()], [sbuf(), sbuf()], ALL, nl.add), "NKC037"),
    "fewer destinations": (lambda: ncc.all_reduce([hbm(), hbm()], [hbm()], ALL, nl.add), "NKC034"),
    "a rank outside the world": (lambda: ncc.all_reduce([hbm()], [hbm()], ReplicaGroup([[0, 4]]), nl.add), "NKC041"),
    "a rank twice": (lambda: ncc.all_reduce([hbm()], [hbm()], ReplicaGroup([[0, 1], [1, 2]]), nl.add), "NKC042"),
    "a rank in no group": (lambda: ncc.all_reduce([hbm()], [hbm()], ReplicaGroup([[0, 1, 2]]), nl.add), "NKC043"),
    "unequal groups": (
        lambda: ncc.all_gather([hbm()], [hbm(12)], ReplicaGroup([[0, 1, 2], [3]]), 0),
        "NKC044",
    ),
    "a wrong dimension": (lambda: ncc.all_gather([hbm()], [hbm(16)], ALL, 2), "NKC054"),
    "rows that do not divide": (lambda: ncc.reduce_scatter([hbm(6)], [hbm(1)], ALL, 0, nl.add), "NKC036"),
    "all_to_all in SBUF": (lambda: ncc.all_to_all([sbuf()], [sbuf()], ALL, 0), "XCG879"),
    "two sources": (lambda: ncc.collective_permute([hbm()], [hbm()], [(0, 1), (2, 1)]), "NKC046"),
    "channels from 1": (lambda: ncc.collective_permute_implicit([[hbm()]], [[hbm()]], ALL, [1]), "NKC035"),
    "no channel": (lambda: ncc.collective_permute_implicit([], [], ALL, []), "NKC035"),
    "channels without tensors": (
        lambda: ncc.collective_permute_implicit([[hbm()]], [[hbm()]], ALL, [0, 1]),
        "NKC034",
    ),
    "two tensors in a channel": (
        lambda: ncc.collective_permute_implicit([[hbm(), hbm()]], [[hbm()]], ALL),
        "NKC034",
    ),
    "three channels": (
        lambda: ncc.collective_permute_implicit([[hbm()]] * 3, [[hbm()]] * 3, ALL, [0, 1, 2]),
        "NKC056",
    ),
    "a negative iteration": (
        lambda: ncc.collective_permute_implicit_current_processing_rank_id(-1, ALL),
        "NKC064",
    ),
    "an unknown collective": (lambda: ncc.all_gather_w([hbm()], [hbm()], ALL, hbm()), "NKC112"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_collective_refuses(case: str) -> None:
    call, code = REFUSED[case]
    with pytest.raises(NkiccError) as caught:
        traced(call)
    assert caught.value.code == code
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
