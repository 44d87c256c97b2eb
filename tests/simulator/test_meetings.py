"""Where streams meet: programs of several rank sets, transfers that settle late, both ends that must agree."""

from __future__ import annotations

import numpy as np
import pytest

from nkicc.engines import Options
from nkicc.ir.access import AccessPattern, Register, Tensor
from nkicc.ir.base import Inst
from nkicc.ir.bir import CCChannel, CollectiveKind, InstCollectiveCompute, InstGPSIMDSB2SB
from nkicc.ir.errors import NkiccError
from nkicc.ir.isa import InstDMACopy, InstMemset, InstRegisterMove
from nkicc.ir.program import Core, Level, Module, Program
from nkicc.ir.types import AluOp, Groups, Memory, Target, World
from nkicc.simulator import simulate

from .bir_modules import module, run, sbuf, tensor

X, Y, Z = (tensor(name, (2, 3)) for name in "xyz")


def all_reduce(src: Tensor, dst: Tensor, groups: Groups, op: AluOp = AluOp.add) -> Inst:
    channel = CCChannel(CollectiveKind.AllReduce, groups, op)
    return InstCollectiveCompute(srcs=(src.full(),), dsts=(dst.full(),), cc_channel=channel)


def programs(*parts: tuple[tuple[int, ...], tuple[Inst, ...]]) -> Module:
    """One program per set of ranks, all with the tensors x, y and z; x is the input, z the output."""
    sets = [
        Program("k", (Core(body=body),), (X, Y, Z), ("x",), (Z.full(),), ranks=ranks)  # type: ignore[arg-type]
        for ranks, body in parts
    ]
    built = Module(Level.bir, World(sum(len(ranks) for ranks, _ in parts)), Target.trn2, tuple(sets))
    built.verify()
    return built


def data(*ranks: int) -> np.ndarray:
    return np.stack([np.arange(6, dtype=np.float32).reshape(2, 3) + 10**rank for rank in ranks])


def test_a_set_that_is_still_in_an_earlier_collective_of_others_has_not_arrived() -> None:
    # Ranks 0 and 1 pass the first operation alone and reach the second while rank 2 still waits for rank 3.
    halves, everyone = ((0, 1), (2, 3)), ((0, 1, 2, 3),)
    body = (all_reduce(X, Y, halves), all_reduce(Y, Z, everyone, AluOp.max))
    sets = ((0, 1), (2,), (3,))
    outputs = simulate(programs(*[(ranks, body) for ranks in sets]), [{"x": data(*ranks)} for ranks in sets]).outputs
    expected = np.maximum(data(0, 1).sum(0), data(2, 3).sum(0))
    for (z,) in outputs:
        assert np.array_equal(np.broadcast_to(z, (len(z), 2, 3)), np.broadcast_to(expected, (len(z), 2, 3)))


@pytest.mark.parametrize(
    "other",
    [all_reduce(X, Z, ((0, 1),), AluOp.max), all_reduce(X, Z, ((1, 0),))],
    ids=["another op", "another order"],
)
def test_members_that_issue_different_operations_are_named(other: Inst) -> None:
    built = programs(((0,), (all_reduce(X, Z, ((0, 1),)),)), ((1,), (other,)))
    with pytest.raises(NkiccError) as caught:
        simulate(built, [{"x": data(0)}, {"x": data(1)}])
    assert caught.value.code == "NKC101"


def test_groups_that_disagree_about_who_takes_part_are_named() -> None:
    # Each set waits for another one; none of the operations has all of its members.
    built = programs(
        ((0,), (all_reduce(X, Z, ((0, 1, 2),)),)),
        ((1,), (all_reduce(X, Z, ((0, 1),)),)),
        ((2,), (all_reduce(X, Z, ((0, 1, 2),)),)),
    )
    with pytest.raises(NkiccError) as caught:
        simulate(built, [{"x": data(rank)} for rank in range(3)])
    assert caught.value.code == "NKC101"
    assert "groups" in caught.value.message


# --- local transfers -----------------------------------------------------------------------------------------

A, B = sbuf("a", (1, 4)), sbuf("b", (1, 4))
OUT = tensor("out", (2, 4))
MASK = Register("m")


def transfer(core: int, src: AccessPattern, dst: AccessPattern, *, mask: str | None = None) -> Inst:
    return InstCollectiveCompute(
        srcs=(src,), dsts=(dst,), cc_channel=CCChannel(CollectiveKind.SendRecv), is_local=True, pipe_id=0,
        recv_from_rank=(1 - core,), send_to_rank=(1 - core,), mask=mask,
    )  # fmt: skip


def fill(core: int) -> tuple[Inst, ...]:
    return InstMemset(dst=A.full(), value=float(core + 1)), InstMemset(dst=B.full(), value=9.0)


def keep(core: int) -> Inst:
    return InstDMACopy(dst=AccessPattern("out", ((4, 1), (1, 4)), 4 * core), srcs=(B.full(),))


@pytest.mark.parametrize(("before", "after", "expected"), [(1, 0, (2, 1)), (0, 1, (9, 9))])
def test_a_mask_counts_where_the_transfer_stands(before: int, after: int, expected: tuple[int, int]) -> None:
    bodies = [
        (
            *fill(core),
            InstRegisterMove(dst=MASK, src=before),
            transfer(core, A.full(), B.full(), mask="m"),
            InstRegisterMove(dst=MASK, src=after),
            keep(core),
        )
        for core in (0, 1)
    ]
    (out,) = run(module(*bodies, shared=(OUT,), own=(A, B), outputs=("out",))).outputs[0]
    assert out[0, :, 0].tolist() == list(expected)


def test_an_offset_counts_where_the_transfer_stands() -> None:
    def body(core: int) -> tuple[Inst, ...]:
        src = AccessPattern("a", ((4, 1), (1, 1)), scalar_offset="m", indirect_stride=1)
        columns = [
            InstMemset(dst=AccessPattern("a", ((4, 1), (1, 1)), column), value=10.0 * core + column)
            for column in range(4)
        ]
        return (
            *columns,
            InstMemset(dst=B.full(), value=9.0),
            InstRegisterMove(dst=MASK, src=2),
            transfer(core, src, AccessPattern("b", ((4, 1), (1, 1)))),
            InstRegisterMove(dst=MASK, src=0),
            keep(core),
        )

    (out,) = run(module(body(0), body(1), shared=(OUT,), own=(A, B), outputs=("out",))).outputs[0]
    assert out[0].tolist() == [[12, 9, 9, 9], [2, 9, 9, 9]]


def refused(*bodies: tuple[Inst, ...]) -> NkiccError:
    with pytest.raises(NkiccError) as caught:
        run(module(*bodies, shared=(OUT,), own=(A, B), outputs=("out",)))  # type: ignore[arg-type]
    assert caught.value.code == "NKC101"
    return caught.value


def test_a_core_that_sends_less_than_its_peer_receives() -> None:
    def body(core: int, *froms: int) -> tuple[Inst, ...]:
        channel = CCChannel(CollectiveKind.SendRecvCCE, op=AluOp.add)
        srcs = (A.full(),) * len(froms)
        op = InstCollectiveCompute(
            srcs=srcs, dsts=(B.full(),), cc_channel=channel, is_local=True, pipe_id=0, recv_from_rank=froms,
            send_to_rank=(1 - core,),
        )  # fmt: skip
        return (*fill(core), op)

    assert "core 1 does send nothing" in refused(body(0, 0, 1), body(1, 0)).message


def test_a_swap_of_unequal_shapes() -> None:
    part = AccessPattern("a", ((4, 1), (1, 2)))
    left = (*fill(0), InstGPSIMDSB2SB(dst=B.full(), src=A.full()))
    right = (*fill(1), InstGPSIMDSB2SB(dst=AccessPattern("b", part.pattern), src=part))
    refused(left, right)


@pytest.mark.parametrize("row", [0, 1], ids=["counts", "offsets"])
def test_negative_metadata_of_an_all_to_all_v(row: int) -> None:
    metadata = tensor("meta", (3, 2), "int32")
    op = InstCollectiveCompute(
        srcs=(X.full(),), dsts=(Y.full(),), metadata=metadata.full(),
        cc_channel=CCChannel(CollectiveKind.AllToAllV, ((0, 1),)),
    )  # fmt: skip
    table = np.ones((2, 3, 2), np.int32)
    table[1, row, 0] = -2
    with pytest.raises(NkiccError) as caught:
        run(module((op,), shared=(X, Y, metadata), inputs=("x", "meta"), ranks=2), x=data(0, 1), meta=table)
    assert caught.value.code == "NKC102"


# --- both cores issue one operation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [None, 1, 2, 3])
@pytest.mark.parametrize("equal", [True, False])
def test_sources_of_the_cores_own_for_one_destination(equal: bool, schedule: int | None) -> None:
    """Which source counts must not depend on which core comes first."""
    own = tensor("own", (2, 3), memory=Memory.private_hbm)
    bodies = [
        (InstMemset(dst=own.full(), value=1.0 if equal or core == 0 else 5.0), all_reduce(own, Z, ((0, 1),)))
        for core in (0, 1)
    ]
    built = module(*bodies, shared=(Z,), own=(own,), outputs=("z",), ranks=2)
    if equal:
        execution = run(built, Options(schedule=schedule))
        assert execution.report.readings == {"both": 1}
        assert np.array_equal(execution.outputs[0][0], np.full((1, 2, 3), 2, np.float32))
        return
    with pytest.raises(NkiccError) as caught:
        run(built, Options(schedule=schedule))
    assert (caught.value.code, caught.value.operand) == ("NKC125", "own")
    assert "rank(s) 0-1" in caught.value.message


def test_the_ranks_whose_cores_have_different_sources_are_named() -> None:
    own = tensor("own", (2, 3), memory=Memory.private_hbm)
    bodies = [(InstDMACopy(dst=own.full(), srcs=(src.full(),)), all_reduce(own, Z, ((0, 1, 2),))) for src in (X, Y)]
    built = module(*bodies, shared=(X, Y, Z), own=(own,), inputs=("x", "y"), outputs=("z",), ranks=3)
    x = data(0, 1, 2)
    y = x + np.array([0, 0, 1], np.float32)[:, None, None]
    with pytest.raises(NkiccError) as caught:
        run(built, x=x, y=y)
    assert caught.value.code == "NKC125"
    assert "rank(s) 2 issue" in caught.value.message
