"""The collectives of variable counts, their prepare and trigger, and the handles of collectives."""

from collections.abc import Callable
from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup, rg_partition_op
from numpy.testing import assert_array_equal

import nkicc
from nkicc import NkiccError
from nkicc.ir import penguin
from nkicc.ir.program import Module, walk
from nkicc.nki.trace import tracing

from .helpers import data, returned, tracer

lncs = pytest.mark.parametrize("lnc", [1, 2])
SENTINEL = -7.0


def kernel_of(issue: Callable[..., Any], ranks: int, *, in_sbuf: bool = False) -> Callable[..., Any]:
    """A kernel that runs one variable collective from `x` into `fill` with the metadata `plan`."""

    def kernel(x: nl.ndarray, fill: nl.ndarray, plan: nl.ndarray, groups: Any = None) -> tuple[nl.ndarray, nl.ndarray]:
        source = nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name="source")
        target = nl.ndarray(fill.shape, fill.dtype, nl.shared_hbm, name="target")
        nisa.dma_copy(source, x)
        nisa.dma_copy(target, fill)
        if in_sbuf:
            table = nl.ndarray((1, *plan.shape), plan.dtype)
            nisa.dma_copy(table, plan.expand_dim(0))
        else:
            table = nl.ndarray(plan.shape, plan.dtype, nl.shared_hbm, name="table")
            nisa.dma_copy(table, plan)
        issue([source], [target], ReplicaGroup(groups or [list(range(ranks))]), table)
        counts = nl.ndarray(plan.shape, plan.dtype, nl.shared_hbm)
        nisa.dma_copy(counts, table[0] if in_sbuf else table)
        return returned(target), counts

    return kernel


def run(
    issue: Callable[..., Any], sources: list[np.ndarray], plans: list[np.ndarray], slot: int, **options: Any
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Targets (members x slot) and metadata of every rank."""
    ranks = len(sources)
    in_sbuf, groups = options.pop("in_sbuf", False), options.pop("groups", None)
    members = len(groups[0]) if groups else ranks
    fill = np.full(members * slot, SENTINEL, sources[0].dtype)
    result = nkicc.run(
        kernel_of(issue, ranks, in_sbuf=in_sbuf),
        ranks=ranks,
        inputs=lambda rank: {
            "x": sources[rank],
            "fill": fill,
            "plan": plans[rank],
            "groups": groups and tuple(map(tuple, groups)),
        },
        **options,
    )
    return [(target.reshape(members, slot), counts) for target, counts in result.outputs]


def plan(counts: Any, offsets: Any = None, received: Any = None) -> np.ndarray:
    counts = np.asarray(counts)
    offsets = np.cumsum(counts) - counts if offsets is None else offsets
    return np.array([counts, offsets, np.zeros_like(counts) if received is None else received], np.uint32)


def chunk(rank: int, count: int, offset: int, n: int) -> np.ndarray:
    """Metadata of an all-gather: only column 0 counts."""
    table = np.zeros((3, n), np.uint32)
    table[:2, 0] = count, offset
    return table


# --- all_gather_v ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lnc", "in_sbuf"), [(1, False), (1, True), (2, False)])
@pytest.mark.parametrize("groups", [None, [[0, 2], [3, 1]], [[3, 1, 0, 2]]])
def test_all_gather_v(lnc: int, in_sbuf: bool, groups: Any) -> None:
    ranks, slot = 4, 6
    sends = [(3, 1), (0, 0), (6, 2), (1, 7)]
    sources = [data(rank, (8,)) for rank in range(ranks)]
    n = len(groups[0]) if groups else ranks
    plans = [chunk(rank, *sends[rank], n) for rank in range(ranks)]
    outputs = run(ncc.all_gather_v, sources, plans, slot, lnc=lnc, in_sbuf=in_sbuf, groups=groups)
    for rank in range(ranks):
        members = next(g for g in groups or [[0, 1, 2, 3]] if rank in g)
        expected = np.full((n, slot), SENTINEL, np.float32)
        for at, member in enumerate(members):
            count, offset = sends[member]
            expected[at, :count] = sources[member][offset : offset + count]
        target, table = outputs[rank]
        assert_array_equal(target, expected)
        assert_array_equal(table[2], [sends[member][0] for member in members])


def test_all_gather_v_reads_column_0_only() -> None:
    """F53: what stands in the other columns is ignored."""
    plans = [chunk(rank, 2, rank, 3) for rank in range(3)]
    for table in plans:
        table[:2, 1:] = 99
    sources = [data(rank, (5,)) for rank in range(3)]
    for target, table in run(ncc.all_gather_v, sources, plans, 2):
        assert_array_equal(target, [sources[rank][rank : rank + 2] for rank in range(3)])
        assert_array_equal(table[2], [2, 2, 2])


def test_all_gather_v_takes_no_displacements() -> None:
    with pytest.raises(NkiccError) as caught:
        run(
            lambda *args: ncc.all_gather_v(*args, has_rdispls=True),
            [data(0, (4,))] * 2,
            [np.zeros((4, 2), np.uint32)] * 2,
            2,
        )
    assert (caught.value.code, caught.value.operand) == ("NKC035", "has_rdispls")
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


def test_all_gather_v_is_an_all_gather_with_metadata_and_keeps_its_json() -> None:
    sources, plans = [data(rank, (4,)) for rank in range(2)], [chunk(rank, rank + 1, 0, 2) for rank in range(2)]
    result = nkicc.run(
        kernel_of(ncc.all_gather_v, 2),
        ranks=2,
        inputs=lambda rank: {"x": sources[rank], "fill": np.zeros(4, np.float32), "plan": plans[rank]},
    )
    for module in (result.penguin, result.program):
        assert Module.from_json(module.to_json()) == module
    (op,) = [i for i in walk(result.penguin.programs[0].cores[0].body) if isinstance(i, penguin.AllGatherVOp)]
    assert op.metadata.tensor == "table"


# --- counts (field reports F49 to F55) -------------------------------------------------------------------------------


def test_known_counts_that_disagree_name_the_pair() -> None:
    """F49: rank 0 sends 3 to rank 1, rank 1 expects 1."""
    plans = [plan([0, 3], received=[0, 0]), plan([0, 0], received=[1, 0])]
    with pytest.raises(NkiccError) as caught:
        run(lambda *args: ncc.all_to_all_v(*args, recv_counts_known=True), [data(r, (4,)) for r in range(2)], plans, 4)
    assert caught.value.code == "NKC105"
    assert "0 -> 1" in caught.value.message
    assert "rank 0 sends 3, rank 1 expects 1" in caught.value.message


def test_known_counts_of_an_all_gather_that_disagree_name_the_pair() -> None:
    plans = [chunk(0, 2, 0, 2), chunk(1, 1, 0, 2)]
    plans[0][2], plans[1][2] = (2, 1), (2, 2)
    with pytest.raises(NkiccError) as caught:
        run(lambda *args: ncc.all_gather_v(*args, recv_counts_known=True), [data(r, (4,)) for r in range(2)], plans, 4)
    assert (caught.value.code, "1 -> 1" in caught.value.message) == ("NKC105", True)


COUNTS = {
    "F52": [[5, 1, 0, 2], [0, 0, 0, 0], [1, 3, 2, 1], [0, 4, 1, 6]],
    "F54": [[3, 2, 1], [2, 2, 2], [1, 2, 3]],
    "F55 a zero row and a zero column": [[0, 0, 0], [0, 2, 1], [0, 1, 3]],
    "F55 all zero": [[0, 0], [0, 0]],
    "F51 nothing to self": [[0, 2, 1], [3, 0, 2], [1, 1, 0]],
}


@lncs
@pytest.mark.parametrize("case", COUNTS)
@pytest.mark.parametrize("prepared", [False, True])
def test_all_to_all_v_moves_and_writes_back_the_counts(case: str, lnc: int, prepared: bool) -> None:
    """F50 to F55: row 2 is output only; only what arrives is written; zero is a count like any other."""
    counts = np.array(COUNTS[case])
    ranks, slot = len(counts), 6
    sources = [data(rank, (14,)) for rank in range(ranks)]
    plans = [plan(counts[rank], received=[77] * ranks) for rank in range(ranks)]

    def issue(*args: Any) -> None:
        if prepared:
            ncc.all_to_all_v_trigger(ncc.all_to_all_v_prepare(*args))
        else:
            ncc.all_to_all_v(*args)

    outputs = run(issue, sources, plans, slot, lnc=lnc)
    for rank, (target, table) in enumerate(outputs):
        expected = np.full((ranks, slot), SENTINEL, np.float32)
        for sender in range(ranks):
            start, count = plans[sender][1, rank], counts[sender, rank]
            expected[sender, :count] = sources[sender][start : start + count]
        assert_array_equal(target, expected)
        assert_array_equal(table[2], counts[:, rank])


def test_all_gather_v_with_a_rank_of_length_zero() -> None:
    """F55."""
    sources = [data(rank, (3,)) for rank in range(3)]
    plans = [chunk(rank, count, 0, 3) for rank, count in enumerate((3, 0, 2))]
    for target, table in run(ncc.all_gather_v, sources, plans, 3):
        expected = np.full((3, 3), SENTINEL, np.float32)
        expected[0], expected[2, :2] = sources[0], sources[2][:2]
        assert_array_equal(target, expected)
        assert_array_equal(table[2], [3, 0, 2])


@pytest.mark.parametrize("function", [ncc.all_to_all_v, ncc.all_gather_v])
def test_more_than_a_slot_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(NkiccError) as caught:
        run(function, [data(r, (8,)) for r in range(2)], [plan([3, 0]), plan([1, 1])], 2)
    assert (caught.value.code, "slot of dst" in caught.value.message) == ("NKC102", True)


# --- prepare and trigger ---------------------------------------------------------------------------------------------


def hbm(name: str, shape: tuple[int, ...] = (8,), dtype: Any = nl.float32) -> nl.ndarray:
    return nl.ndarray(shape, dtype, nl.shared_hbm, name=name)


def operands() -> tuple[Any, ...]:
    return [hbm("a")], [hbm("b")], ReplicaGroup([[0, 1, 2, 3]]), hbm("m", (3, 4), nl.uint32)


def _twice() -> None:
    args = operands()
    ncc.all_to_all_v_prepare(*args)
    ncc.all_gather_v_prepare(*args)


def _two_triggers() -> None:
    prepared = ncc.all_to_all_v_prepare(*operands())
    ncc.all_to_all_v_trigger(prepared)
    ncc.all_to_all_v_trigger(prepared)


def _wrong_twin() -> None:
    ncc.all_gather_v_trigger(ncc.all_to_all_v_prepare(*operands()))


def _metadata_changes() -> None:
    args = operands()
    prepared = ncc.all_to_all_v_prepare(*args)
    nisa.dma_copy(args[3], hbm("other", (3, 4), nl.uint32))
    ncc.all_to_all_v_trigger(prepared)


def _no_prepare() -> None:
    ncc.all_to_all_v_trigger(ncc.all_to_all_v(*operands()))


@pytest.mark.parametrize("call", [_twice, _two_triggers, _wrong_twin, _metadata_changes, _no_prepare])
def test_prepare_and_trigger_pair(call: Callable[[], None]) -> None:
    with tracing(tracer()), pytest.raises(NkiccError) as caught:
        call()
    assert caught.value.code == "NKC065"
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


def test_a_prepare_without_a_trigger_is_refused_at_its_line() -> None:
    def issue(*args: Any) -> None:
        ncc.all_to_all_v_prepare(*args)

    with pytest.raises(NkiccError) as caught:
        run(issue, [data(r, (4,)) for r in range(2)], [plan([1, 1])] * 2, 2)
    assert caught.value.code == "NKC065"
    assert caught.value.loc is not None
    assert caught.value.loc.line == issue.__code__.co_firstlineno + 1


def test_a_prepare_is_checked_where_it_stands() -> None:
    with tracing(tracer()), pytest.raises(NkiccError) as caught:
        ncc.all_to_all_v_prepare([hbm("a")], [hbm("b")], ReplicaGroup([[0, 1, 2, 3]]), hbm("m", (2, 4), nl.uint32))
    assert (caught.value.code, caught.value.operand) == ("NKC033", "metadata")


# --- handles ---------------------------------------------------------------------------------------------------------


def test_handles_carry_dependencies() -> None:
    trace = tracer(ranks=2)
    group = ReplicaGroup([[0, 1]])
    with tracing(trace):
        a, b, c = hbm("a"), hbm("b"), hbm("c")
        first = ncc.all_reduce([a], [b], group, nl.add)
        second = ncc.all_reduce([a], [c], group, nl.add, name="second")
        assert first
        assert isinstance(second, nisa.NkiInstruction)
        both = ncc.collective_permute_implicit([[a], [b]], [[b], [c]], group, [0, 1])
        assert both.depends_on(second, kind=nisa.dependency.runtime).depends_on(first) is both
        with pytest.raises(NkiccError) as caught:
            first.depends_on(second)
    assert caught.value.code == "NKC035"
    body = trace.codegen.core_part().body
    assert body[0].name
    assert [set(inst.deps) for inst in body] == [set(), set(), {body[0].name, "second"}, {body[0].name, "second"}]


def test_dependencies_do_not_cross_loops() -> None:
    trace = tracer(ranks=2)
    group = ReplicaGroup([[0, 1]])
    with tracing(trace):
        a, b = hbm("a"), hbm("b")
        before = ncc.all_reduce([a], [b], group, nl.add)
        inside: list[Any] = []

        def body(_: Any) -> None:
            inside.append(ncc.all_reduce([b], [a], group, nl.add).depends_on(before))

        nl.fori_loop(0, 3, body)
        after = ncc.all_reduce([a], [b], group, nl.add)
        for consumer, producer in ((after, inside[0]), (inside[0], before)):
            with pytest.raises(NkiccError) as caught:
                consumer.depends_on(producer)
            assert caught.value.code == "NKC035"


# --- replica groups --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "operand", "expected"),
    [
        (rg_partition_op.bitwise_and, 0, [[0, 1, 2, 3, 4, 5, 6, 7]]),
        (rg_partition_op.bitwise_and, 1, [[0, 2, 4, 6], [1, 3, 5, 7]]),
        (rg_partition_op.div, 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (rg_partition_op.mod, 4, [[0, 4], [1, 5], [2, 6], [3, 7]]),
    ],
)
def test_groups_by_partition(op: rg_partition_op, operand: int, expected: list[list[int]]) -> None:
    assert ReplicaGroup.from_partition_op(8, op, operand) == ReplicaGroup(expected)


@pytest.mark.parametrize("args", [(0, rg_partition_op.div, 1), (8, "div", 2), (8, rg_partition_op.mod, 0)])
def test_bad_partitions(args: Any) -> None:
    with pytest.raises(NkiccError) as caught:
        ReplicaGroup.from_partition_op(*args)
    assert caught.value.code == "NKC035"


def test_the_order_of_the_permutes_arguments_is_that_of_the_releases() -> None:
    """2.32 has `priority` and `name` behind `channel_ids`; `num_channels`, of 2.28, comes last."""
    trace = tracer(ranks=2)
    group = ReplicaGroup([[0, 1]])
    with tracing(trace):
        a, b, c = hbm("a"), hbm("b"), hbm("c")
        ncc.collective_permute_implicit([[a]], [[b]], group, [0], 2, "permute")
        ncc.collective_permute_implicit_reduce([[a]], [[b]], [[c]], group, nl.add, [0], 2, "reduce", num_channels=1)
        ncc.collective_permute_implicit_current_processing_rank_id(1, group, 0, "where")
    assert [inst.name for inst in trace.codegen.core_part().body] == ["permute", "reduce", "where"]
