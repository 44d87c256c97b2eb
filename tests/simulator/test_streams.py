"""Cores and programs as streams: barriers, local transfers, raw sends, deadlock reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from msgspec import structs

from nkicc.engines import Options
from nkicc.ir.access import AccessPattern, Register
from nkicc.ir.bir import (
    CCChannel,
    CollectiveKind,
    InstCollectiveCompute,
    InstCollectiveRecv,
    InstCollectiveSend,
    InstCoreBarrier,
    InstGetCurProcessingRankID,
    InstGPSIMDSB2SB,
)
from nkicc.ir.errors import NkiccError
from nkicc.ir.isa import (
    InstDMACopy,
    InstMemset,
    InstRegisterLoad,
    InstRegisterStore,
    InstTensorCopy,
    InstTensorScalar,
    InstTensorTensor,
)
from nkicc.ir.program import Core, InstLoop, InstWhile, Level, Module, Program
from nkicc.ir.types import AluOp, Loc, Target, World
from nkicc.simulator import simulate

from .bir_modules import module, run, sbuf, tensor


def row(name: str, index: int, width: int) -> AccessPattern:
    return AccessPattern(name, ((width, 1), (1, width)), index * width)


@dataclass
class Swap:
    """A module in which each core loads its row of x, swaps on pipes, and stores the received tiles."""

    pipes: tuple[tuple[int, ...], tuple[int, ...]]
    ranks: int = 3

    def build(self) -> Module:
        count = 1 + max(pipe for pipes in self.pipes for pipe in pipes)
        x, y = tensor("x", (2, count * 4)), tensor("y", (2, count * 4))
        own = tuple(sbuf(f"{side}{pipe}", (1, 4)) for side in "sd" for pipe in range(count))
        bodies = []
        for core in (0, 1):
            part = lambda t, i, core=core: AccessPattern(t, ((4, 1), (1, 4)), (core * count + i) * 4)  # noqa: E731
            load = [InstDMACopy(dst=sbuf(f"s{i}", (1, 4)).full(), srcs=(part("x", i),)) for i in range(count)]
            swap = [
                InstCollectiveCompute(
                    name=f"swap{pipe}",
                    srcs=(sbuf(f"s{pipe}", (1, 4)).full(),),
                    dsts=(sbuf(f"d{pipe}", (1, 4)).full(),),
                    cc_channel=CCChannel(CollectiveKind.SendRecv),
                    is_local=True,
                    pipe_id=pipe,
                    recv_from_rank=(1 - core,),
                    send_to_rank=(1 - core,),
                )
                for pipe in self.pipes[core]
            ]
            store = [InstDMACopy(dst=part("y", i), srcs=(sbuf(f"d{i}", (1, 4)).full(),)) for i in range(count)]
            bodies.append((*load, *swap, *store))
        return module(*bodies, shared=(x, y), own=own, inputs=("x",), outputs=("y",), ranks=self.ranks)


@pytest.mark.parametrize("pipes", [((0,), (0,)), ((0, 1), (0, 1)), ((0, 1), (1, 0))])
def test_swaps_pair_by_pipe(pipes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    built = Swap(pipes).build()
    x = np.random.default_rng(0).standard_normal((3, *built.programs[0].tensors[0].shape)).astype(np.float32)
    (y,) = run(built, x=x).outputs[0]
    assert np.array_equal(y, x[:, ::-1])


def test_pipes_without_a_partner_are_a_wait_cycle() -> None:
    built = Swap(((0,), (1,))).build()
    with pytest.raises(NkiccError) as error:
        run(built, x=np.zeros((3, 2, 8), np.float32))
    assert error.value.code == "NKC100"
    report = "\n".join(error.value.notes)
    assert "ranks 0-2 core 0: wait for ranks 0-2 core 1 in InstCollectiveCompute 'swap0'" in report
    assert "ranks 0-2 core 1: wait for ranks 0-2 core 0 in InstCollectiveCompute 'swap1'" in report


def test_a_write_to_the_source_waits_for_the_swap() -> None:
    """Core 0 overwrites its source right after posting; core 1, which posts later, still gets the old value."""
    x, y = tensor("x", (2, 4)), tensor("y", (2, 4))
    s, d = sbuf("s", (1, 4)), sbuf("d", (1, 4))
    bodies = []
    for core in (0, 1):
        swap = InstCollectiveCompute(
            srcs=(s.full(),), dsts=(d.full(),), cc_channel=CCChannel(CollectiveKind.SendRecv), is_local=True, pipe_id=0,
            recv_from_rank=(1 - core,), send_to_rank=(1 - core,),
        )  # fmt: skip
        late = (InstMemset(dst=s.full(), value=9.0),) if core == 0 else ()
        bodies.append(
            (InstDMACopy(dst=s.full(), srcs=(row("x", core, 4),)), swap, *late,
             InstDMACopy(dst=row("y", core, 4), srcs=(d.full(),)))
        )  # fmt: skip
    built = module(*bodies, shared=(x, y), own=(s, d), inputs=("x",), outputs=("y",))
    data = np.arange(8, dtype=np.float32).reshape(1, 2, 4)
    (y_out,) = run(built, x=data).outputs[0]
    assert np.array_equal(y_out, data[:, ::-1])


@pytest.mark.parametrize("op", ["add", "max"])
def test_receive_from_several_cores_and_reduce(op: str) -> None:
    ranks = 2
    x, y = tensor("x", (2, 2, 4), "bfloat16"), tensor("y", (2, 4), "bfloat16")
    a, b, d = (sbuf(n, (1, 4), "bfloat16") for n in "abd")
    bodies = []
    for core in (0, 1):
        inst = InstCollectiveCompute(
            srcs=(a.full(), b.full()), dsts=(d.full(),), cc_channel=CCChannel(CollectiveKind.SendRecvCCE, op=AluOp(op)),
            is_local=True, pipe_id=0, recv_from_rank=(0, 1), send_to_rank=(1 - core,),
        )  # fmt: skip
        loads = [InstDMACopy(dst=t.full(), srcs=(row("x", 2 * core + i, 4),)) for i, t in enumerate((a, b))]
        bodies.append((*loads, inst, InstDMACopy(dst=row("y", core, 4), srcs=(d.full(),))))
    built = module(*bodies, shared=(x, y), own=(a, b, d), inputs=("x",), outputs=("y",), ranks=ranks)
    data = np.random.default_rng(1).standard_normal((ranks, 2, 2, 4)).astype(np.float32).astype(y.dtype.numpy)
    (got,) = run(built, x=data).outputs[0]
    for rank in range(ranks):
        left, right = data[rank, 0, 0].astype(np.float32), data[rank, 1, 1].astype(np.float32)
        want = (left + right if op == "add" else np.maximum(left, right)).astype(y.dtype.numpy)
        assert np.array_equal(got[rank], np.stack([want, want]))


def test_gpsimd_swap_meets_at_the_instruction() -> None:
    x, y = tensor("x", (2, 4)), tensor("y", (2, 4))
    s, d = sbuf("s", (1, 4)), sbuf("d", (1, 4))
    bodies = [
        (
            InstDMACopy(dst=s.full(), srcs=(row("x", core, 4),)),
            InstGPSIMDSB2SB(dst=d.full(), src=s.full()),
            InstDMACopy(dst=row("y", core, 4), srcs=(d.full(),)),
        )
        for core in (0, 1)
    ]
    built = module(*bodies, shared=(x, y), own=(s, d), inputs=("x",), outputs=("y",), ranks=2)
    data = np.arange(16, dtype=np.float32).reshape(2, 2, 4)
    (got,) = run(built, x=data).outputs[0]
    assert np.array_equal(got, data[:, ::-1])


def test_the_kth_barrier_meets_the_kth() -> None:
    """Both cores take turns on one shared cell, with a barrier after each turn."""
    cell, log = tensor("cell", (1,)), tensor("log", (8,))
    bodies: list[tuple] = [(), ()]
    for turn in range(8):
        for core in (0, 1):
            if turn % 2 == core:
                write = InstMemset(dst=cell.full(), value=float(turn))
                bodies[core] = (*bodies[core], write)
            bodies[core] = (*bodies[core], InstCoreBarrier(data=cell.full(), cores=(0, 1)))
            if turn % 2 != core:
                seen = InstDMACopy(dst=AccessPattern("log", ((1, 1),), turn), srcs=(cell.full(),))
                bodies[core] = (*bodies[core], seen, InstCoreBarrier(cores=(0, 1)))
            else:
                bodies[core] = (*bodies[core], InstCoreBarrier(cores=(0, 1)))
    (got,) = run(module(*bodies, shared=(cell, log), outputs=("log",))).outputs[0]
    assert got[0].tolist() == list(range(8))


def test_a_missing_barrier_is_reported_with_both_lines() -> None:
    cell = tensor("cell", (1,))
    wait = InstCoreBarrier(name="b", data=cell.full(), cores=(0, 1), loc=Loc("kernel.py", 7))
    with pytest.raises(NkiccError) as error:
        run(module((wait,), (), shared=(cell,)))
    assert error.value.code == "NKC100"
    assert error.value.loc == wait.loc
    assert any(
        note == "rank 0 core 0: waits for rank 0 core 1 in InstCoreBarrier 'b' at kernel.py:7"
        for note in error.value.notes
    )
    assert any("core 1: finished" in note for note in error.value.notes)


def stages(*, order: tuple[str, str] = ("send", "recv"), width: int = 3) -> Module:
    """Two programs: rank 0 doubles x by a copy and sends it to rank 1, which sends back what it got plus nothing."""
    x, y = tensor("x", (1, 3)), tensor("y", (1, width))
    send = lambda peer, t: InstCollectiveSend(name="send", srcs=(t.full(),), peer_id=peer)  # noqa: E731
    receive = lambda peer, t: InstCollectiveRecv(name="recv", dsts=(t.full(),), peer_id=peer)  # noqa: E731
    first = (send(1, x), receive(1, y))
    second = (receive(0, y), send(0, x)) if order == ("recv", "send") else (send(0, x), receive(0, y))
    programs = tuple(
        Program(f"stage{rank}", (Core(body=body),), (x, y), ("x",), (y.full(),), ranks=(rank,))
        for rank, body in enumerate((first, second))
    )
    return Module(Level.bir, World(2), Target.trn2, programs)


def test_raw_send_and_receive_between_programs() -> None:
    built = stages(order=("recv", "send"))
    built.verify()
    data = [{"x": np.full((1, 1, 3), rank + 1, np.float32)} for rank in range(2)]
    outputs = simulate(built, data).outputs
    assert (outputs[0][0] == 2).all()
    assert (outputs[1][0] == 1).all()


def test_two_sends_that_face_each_other_are_a_deadlock() -> None:
    built = stages()
    with pytest.raises(NkiccError) as error:
        simulate(built, [{"x": np.zeros((1, 1, 3), np.float32)}] * 2)
    assert error.value.code == "NKC100"
    assert error.value.message == "deadlock: rank 0 waits for rank 1, which waits for rank 0"
    assert error.value.notes[0] == "ranks 0-1: wait for ranks 0-1 in InstCollectiveSend 'send'"


def test_a_receive_of_another_size_is_refused() -> None:
    with pytest.raises(NkiccError) as error:
        simulate(stages(order=("recv", "send"), width=4), [{"x": np.zeros((1, 1, 3), np.float32)}] * 2)
    assert error.value.code == "NKC101"


def collective_programs(groups: tuple[tuple[int, ...], ...], ops: tuple[str, ...]) -> Module:
    """One program per rank set {0, 3}, {1}, {2}: each issues one all-reduce with its own op."""
    x, y = tensor("x", (2, 2)), tensor("y", (2, 2))
    programs = []
    for ranks, op in zip(((0, 3), (1,), (2,)), ops, strict=True):
        inst = InstCollectiveCompute(
            name=f"ar{ranks[0]}", srcs=(x.full(),), dsts=(y.full(),),
            cc_channel=CCChannel(CollectiveKind.AllReduce, groups, AluOp(op)),
        )  # fmt: skip
        programs.append(Program("k", (Core(body=(inst, inst)),), (x, y), ("x",), (y.full(),), ranks=ranks))
    return Module(Level.bir, World(4), Target.trn2, tuple(programs))


@pytest.mark.parametrize("groups", [((0, 1, 2, 3),), ((3, 1), (2, 0)), ((2, 1, 0, 3),)])
def test_a_collective_that_spans_programs(groups: tuple[tuple[int, ...], ...]) -> None:
    built = collective_programs(groups, ("add", "add", "add"))
    data = np.random.default_rng(3).standard_normal((4, 2, 2)).astype(np.float32)
    execution = simulate(built, [{"x": data[list(p.ranks)]} for p in built.programs])
    for program, outputs in zip(built.programs, execution.outputs, strict=True):
        got = np.broadcast_to(outputs[0], (len(program.ranks), 2, 2))
        for row_index, rank in enumerate(program.ranks):
            group = next(g for g in groups if rank in g)
            want = data[group[0]]
            for member in group[1:]:
                want = want + data[member]
            assert np.array_equal(got[row_index], want)


def test_members_that_disagree_are_named() -> None:
    built = collective_programs(((0, 1, 2, 3),), ("add", "add", "max"))
    with pytest.raises(NkiccError) as error:
        simulate(built, [{"x": np.zeros((len(p.ranks), 2, 2), np.float32)} for p in built.programs])
    assert error.value.code == "NKC101"
    assert "op max" in str(error.value)
    assert "op add" in str(error.value)


def both_cores(first: tuple[int, ...], second: tuple[int, ...]) -> Module:
    """Core 0 issues the all-reduces numbered in `first`, core 1 those in `second`, all on shared tensors."""
    x = tensor("x", (2, 2))
    ys = tuple(tensor(f"y{i}", (2, 2)) for i in range(3))
    reduce = [
        InstCollectiveCompute(
            name=f"ar{i}",
            srcs=(x.full(),),
            dsts=(ys[i].full(),),
            cc_channel=CCChannel(CollectiveKind.AllReduce, ((0, 1, 2),), AluOp.add),
        )
        for i in range(3)
    ]
    bodies = [tuple(reduce[i] for i in order) for order in (first, second)]
    return module(*bodies, shared=(x, *ys), inputs=("x",), outputs=tuple(y.name for y in ys), ranks=3)


@pytest.mark.parametrize(
    ("first", "second", "reading"),
    [
        ((0, 1, 2), (0, 1, 2), {"both": 3}),
        ((0, 1, 2), (), {"one": 3}),
        ((), (2,), {"one": 1}),
        ((0,), (1,), {"lanes": 2}),
    ],
)
def test_the_report_says_how_a_collective_was_read(
    first: tuple[int, ...], second: tuple[int, ...], reading: dict[str, int]
) -> None:
    data = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    execution = run(both_cores(first, second), x=data)
    assert execution.report.readings == reading
    for index, got in enumerate(execution.outputs[0]):
        if index in {*first, *second}:
            assert np.array_equal(np.broadcast_to(got, data.shape), np.broadcast_to(data.sum(0), data.shape))


def test_cores_that_issue_in_different_orders_are_refused() -> None:
    with pytest.raises(NkiccError) as error:
        run(both_cores((0, 1), (1, 0)), x=np.zeros((3, 2, 2), np.float32))
    assert error.value.code == "NKC104"


def test_a_loop_counts_and_its_bound_may_be_a_register() -> None:
    n, total, one = tensor("n", (1,), "int32"), tensor("t", (1, 1)), sbuf("one", (1, 1))
    acc = sbuf("acc", (1, 1))
    body = (
        InstMemset(dst=one.full(), value=1.0),
        InstMemset(dst=acc.full(), value=0.0),
        InstRegisterLoad(dst=Register("n"), src=n.full()),
        InstLoop(
            register="i", start=0, stop="n",
            body=(InstTensorTensor(dst=acc.full(), data1=acc.full(), data2=one.full(), op=AluOp.add),),
        ),
        InstDMACopy(dst=total.full(), srcs=(acc.full(),)),
    )  # fmt: skip
    built = module(body, shared=(n, total), own=(one, acc), inputs=("n",), outputs=("t",), ranks=2)
    (got,) = run(built, n=np.full((1, 1), 5, np.int32)).outputs[0]
    assert (got == 5).all()
    (got,) = run(built, n=np.array([[0], [3]], np.int32)).outputs[0]
    assert got.reshape(-1).tolist() == [0, 3], "each rank turns as often as its own bound says"


def collatz(*, collective: bool = False) -> Module:
    """while n != 1: n = n / 2 or 3 n + 1; steps counts the turns. Ranks start at different n."""
    n, steps, log = tensor("n", (1, 1), "int32"), tensor("steps", (1, 1), "int32"), tensor("log", (32,), "int32")
    tiles = {name: sbuf(name, (1, 1), "int32") for name in ("v", "odd", "half", "next", "more", "s")}
    t = {name: tile.full() for name, tile in tiles.items()}
    ts = lambda dst, data, op, value, **kw: InstTensorScalar(dst=t[dst], data=t[data], op0=op, operand0=value, **kw)  # noqa: E731
    turn = [
        InstRegisterLoad(dst=Register("at"), src=t["s"]),
        InstDMACopy(dst=AccessPattern("log", ((1, 1), (1, 1)), scalar_offset="at", indirect_stride=1), srcs=(t["v"],)),
        ts("odd", "v", AluOp.bitwise_and, 1),
        ts("half", "v", AluOp.arith_shift_right, 1),
        ts("next", "v", AluOp.mult, 3, op1=AluOp.add, operand1=1),
        InstTensorTensor(dst=t["next"], data1=t["next"], data2=t["odd"], op=AluOp.mult),
        ts("odd", "odd", AluOp.bitwise_xor, 1),
        InstTensorTensor(dst=t["half"], data1=t["half"], data2=t["odd"], op=AluOp.mult),
        InstTensorTensor(dst=t["v"], data1=t["next"], data2=t["half"], op=AluOp.add),
        ts("s", "s", AluOp.add, 1),
        ts("more", "v", AluOp.not_equal, 1),
        InstRegisterLoad(dst=Register("more"), src=t["more"]),
    ]
    if collective:
        turn.append(
            InstCollectiveCompute(
                name="ar", srcs=(n.full(),), dsts=(steps.full(),),
                cc_channel=CCChannel(CollectiveKind.AllReduce, ((0, 1, 2, 3),), AluOp.add),
            )
        )  # fmt: skip
    body = (
        InstMemset(dst=log.full(), value=-1),
        InstDMACopy(dst=t["v"], srcs=(n.full(),)),
        InstMemset(dst=t["s"], value=0),
        ts("more", "v", AluOp.not_equal, 1),
        InstRegisterLoad(dst=Register("more"), src=t["more"]),
        InstWhile(name="w", condition="more", body=tuple(turn)),
        InstDMACopy(dst=steps.full(), srcs=(t["s"],)),
    )
    return module(
        body, shared=(n, steps, log), own=tuple(tiles.values()), inputs=("n",), outputs=("steps", "log"), ranks=4
    )


def test_ranks_leave_a_while_loop_at_different_times() -> None:
    starts = [1, 6, 8, 7]
    steps, log = run(collatz(), n=np.array(starts, np.int32).reshape(4, 1, 1)).outputs[0]
    for rank, value in enumerate(starts):
        path = []
        while value != 1:
            path.append(value)
            value = 3 * value + 1 if value % 2 else value // 2
        assert steps[rank, 0, 0] == len(path)
        assert log[rank].tolist() == path + [-1] * (32 - len(path))


def test_a_collective_in_a_loop_that_some_ranks_have_left() -> None:
    with pytest.raises(NkiccError) as error:
        run(collatz(collective=True), n=np.array([4, 2, 4, 4], np.int32).reshape(4, 1, 1))
    assert error.value.code == "NKC107"
    assert error.value.rank == 1


def test_a_loop_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nkicc.simulator.streams.MAX_TURNS", 100)
    flag = tensor("f", (1,), "int32")
    body = (
        InstRegisterLoad(dst=Register("f"), src=flag.full()),
        InstWhile(name="forever", condition="f", body=(InstRegisterLoad(dst=Register("g"), src=flag.full()),)),
    )
    with pytest.raises(NkiccError, match="'forever' has not ended after 100 turns"):
        run(module(body, shared=(flag,), inputs=("f",)), f=np.ones((1, 1), np.int32))


@pytest.mark.parametrize("step", range(5))
def test_the_processing_rank_walks_back_through_the_ring(step: int) -> None:
    groups = ((2, 0, 3), (1, 4, 5))
    out = tensor("y", (1, 1), "int32")
    body = (
        InstGetCurProcessingRankID(output=Register("r"), iter_id=step, replica_groups=groups),
        InstRegisterStore(dst=out.full(), src="r"),
    )
    (got,) = run(module(body, shared=(out,), outputs=("y",), ranks=6)).outputs[0]
    for group in groups:
        for position, rank in enumerate(group):
            assert got[rank, 0, 0] == group[(position - step) % 3]


def metadata_module(ranks: int, n: int, *, known: bool = False, rdispls: bool = False) -> Module:
    x, y, m = tensor("x", (16,)), tensor("y", (4 * n,)), tensor("m", (4 if rdispls else 3, n), "uint32")
    work = tensor("w", m.shape, "uint32")
    groups = tuple(tuple(range(g * n, (g + 1) * n)) for g in range(ranks // n))
    body = (
        InstDMACopy(dst=work.full(), srcs=(m.full(),)),
        InstMemset(dst=y.full(), value=-1.0),
        InstCollectiveCompute(
            name="a2av", srcs=(x.full(),), dsts=(y.full(),), metadata=work.full(),
            cc_channel=CCChannel(CollectiveKind.AllToAllV, groups), recv_counts_known=known, has_rdispls=rdispls,
        ),
    )  # fmt: skip
    return module(body, shared=(x, y, m, work), inputs=("x", "m"), outputs=("y", "w"), ranks=ranks)


@pytest.mark.parametrize("rdispls", [False, True])
def test_variable_all_to_all(rdispls: bool) -> None:
    n, ranks = 3, 6
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 5, (ranks, n))
    counts[1] = 0
    starts = np.cumsum(counts, axis=1) - counts
    x = (np.arange(ranks * 16).reshape(ranks, 16) + 100).astype(np.float32)
    rows = [counts, starts, np.full((ranks, n), 77)]
    places = np.array([[8, 4, 0]] * ranks)
    if rdispls:
        rows.append(places)
    m = np.stack(rows, axis=1).astype(np.uint32)
    y, w = run(metadata_module(ranks, n, rdispls=rdispls), x=x, m=m).outputs[0]
    for rank in range(ranks):
        base = rank - rank % n
        want = np.full(4 * n, -1, np.float32)
        for s in range(n):
            sender, count = base + s, int(counts[base + s, rank % n])
            at = int(places[rank, s]) if rdispls else 4 * s
            begin = int(starts[sender, rank % n])
            want[at : at + count] = x[sender, begin : begin + count]
        assert np.array_equal(y[rank], want)
        assert w[rank, 2].tolist() == counts[base : base + n, rank % n].tolist(), "true counts replace the garbage"


def test_counts_that_disagree_name_the_pair() -> None:
    m = np.zeros((2, 3, 2), np.uint32)
    m[0, 0] = [0, 3]
    m[1, 2] = [1, 0]
    with pytest.raises(NkiccError) as error:
        run(metadata_module(2, 2, known=True), x=np.zeros((2, 16), np.float32), m=m)
    assert error.value.code == "NKC105"
    assert "0 -> 1" in str(error.value)
    assert "sends 3, rank 1 expects 1" in str(error.value)


def test_coalesced_channels_move_as_single_ones() -> None:
    ranks = 4
    srcs, dsts = [tensor(f"s{c}", (2,)) for c in range(2)], [tensor(f"d{c}", (2,)) for c in range(2)]
    inst = InstCollectiveCompute(
        srcs=tuple(t.full() for t in srcs), dsts=tuple(t.full() for t in dsts), channel_ids=(0, 1),
        cc_channel=CCChannel(CollectiveKind.PermuteImplicit, ((0, 1, 2, 3),)),
    )  # fmt: skip
    built = module((inst,), shared=(*srcs, *dsts), inputs=("s0", "s1"), outputs=("d0", "d1"), ranks=ranks)
    data = {f"s{c}": np.arange(8, dtype=np.float32).reshape(4, 2) + 10 * c for c in range(2)}
    outputs = run(built, **data).outputs[0]
    for c in range(2):
        assert np.array_equal(outputs[c], np.roll(data[f"s{c}"], 1, axis=0))


def test_two_runs_of_one_module_do_not_share_state() -> None:
    built = Swap(((0,), (0,))).build()
    a, b = (np.full((3, 2, 4), v, np.float32) for v in (1, 2))
    first = run(built, x=a)
    run(built, x=b)
    assert (first.outputs[0][0] == 1).all()


def test_penguin_modules_are_refused() -> None:
    built = structs.replace(module(()), level=Level.penguin)
    with pytest.raises(NkiccError) as error:
        run(built)
    assert error.value.code == "NKC012"


def test_tensor_copy_on_the_same_tensor_reads_first() -> None:
    t, x = sbuf("t", (1, 6)), tensor("x", (1, 6))
    body = (
        InstDMACopy(dst=t.full(), srcs=(x.full(),)),
        InstTensorCopy(dst=AccessPattern("t", ((6, 1), (1, 5)), 1), src=AccessPattern("t", ((6, 1), (1, 5)))),
        InstDMACopy(dst=x.full(), srcs=(t.full(),)),
    )
    (got,) = run(
        module(body, shared=(x,), own=(t,), inputs=("x",), outputs=("x",)),
        x=np.arange(6, dtype=np.float32).reshape(1, 1, 6),
    ).outputs[0]
    assert got.reshape(-1).tolist() == [0, 0, 1, 2, 3, 4]


def test_counts_in_sbuf_reach_both_cores() -> None:
    """Both cores issue one variable all-to-all on shared tensors, each with the metadata in its own SBUF."""
    n = 2
    x, y, m, out = (
        tensor("x", (4,)),
        tensor("y", (4,)),
        tensor("m", (1, 3, n), "uint32"),
        tensor("o", (2, 3, n), "uint32"),
    )
    own = sbuf("w", (1, 3, n), "uint32")
    bodies = [
        (
            InstDMACopy(dst=own.full(), srcs=(m.full(),)),
            InstCollectiveCompute(
                name="a2av",
                srcs=(x.full(),),
                dsts=(y.full(),),
                metadata=own.full(),
                cc_channel=CCChannel(CollectiveKind.AllToAllV, ((0, 1),)),
            ),
            InstDMACopy(dst=AccessPattern("o", own.full().pattern, core * 3 * n), srcs=(own.full(),)),
        )
        for core in (0, 1)
    ]
    built = module(*bodies, shared=(x, y, m, out), own=(own,), inputs=("x", "m"), outputs=("y", "o"), ranks=2)
    counts = np.array([[[1, 2], [0, 1], [9, 9]], [[0, 1], [0, 3], [9, 9]]], np.uint32).reshape(2, 1, 3, n)
    execution = run(built, x=np.arange(8, dtype=np.float32).reshape(2, 4), m=counts)
    assert execution.report.readings == {"both": 1}
    for core in (0, 1):
        assert execution.outputs[0][1][:, core, 2].tolist() == [[1, 0], [2, 1]]


@pytest.mark.parametrize("guess", [False, True])
def test_a_ring_order_seed_exposes_a_guessed_neighbour(guess: bool) -> None:
    """One hop of the ring, stored in the row of the rank it came from: asked for, or guessed as rank - 1."""
    ranks = 5
    ring = (tuple(range(ranks)),)
    x, moved, y, before = tensor("x", (1, 2)), tensor("b", (1, 2)), tensor("y", (ranks, 2)), tensor("p", (1,), "int32")
    body = (
        InstMemset(dst=y.full(), value=-1.0),
        InstCollectiveCompute(
            srcs=(x.full(),),
            dsts=(moved.full(),),
            cc_channel=CCChannel(CollectiveKind.PermuteImplicit, ring),
            channel_id=1,
        ),
        InstRegisterLoad(dst=Register("r"), src=before.full())
        if guess
        else InstGetCurProcessingRankID(output=Register("r"), iter_id=1, channel_id=1, replica_groups=ring),
        InstDMACopy(
            dst=AccessPattern("y", ((2, 1), (1, 2)), scalar_offset="r", indirect_stride=2), srcs=(moved.full(),)
        ),
    )
    built = module(body, shared=(x, moved, y, before), inputs=("x", "p"), outputs=("y",), ranks=ranks)
    data = np.arange(2 * ranks, dtype=np.float32).reshape(ranks, 1, 2)
    neighbour = (np.arange(ranks, dtype=np.int32).reshape(ranks, 1) - 1) % ranks
    right = []
    for seed in (None, *range(8)):
        (got,) = run(built, Options(ring_order=seed), x=data, p=neighbour).outputs[0]
        right.append(
            all(
                np.array_equal(row, data[slot, 0])
                for rank in range(ranks)
                for slot, row in enumerate(got[rank])
                if row[0] >= 0
            )
        )
    assert right[0], "in list order even a guess is right"
    assert all(right) is not guess


@pytest.mark.parametrize("seed", range(5))
def test_a_schedule_seed_changes_nothing_in_an_ordered_program(seed: int) -> None:
    built = Swap(((0, 1), (1, 0))).build()
    x = np.random.default_rng(0).standard_normal((3, 2, 8)).astype(np.float32)
    (y,) = run(built, Options(schedule=seed), x=x).outputs[0]
    assert np.array_equal(y, x[:, ::-1])
