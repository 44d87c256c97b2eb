"""Golden listings: a program in, its listing after a pipeline out, compared exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nkicc.ir import penguin
from nkicc.ir.access import Register
from nkicc.ir.listing import listing
from nkicc.ir.program import InstLoop, Level, Module
from nkicc.ir.types import AluOp, DType
from nkicc.lowering import DEFAULT, FULL, run_pipeline

from .modules import ALL4, PAIRS4, all_reduce_op, at, columns, hbm, load, module, sbuf, slab

GOLDEN = Path(__file__).parents[1] / "golden"
X, Y, Z = hbm("x", (8, 16)), hbm("y", (8, 16)), hbm("z", (32, 16))
S, T, BIG, INTO = sbuf("s", (16, 8)), sbuf("t", (16, 8)), sbuf("big", (16, 300)), sbuf("into", (16, 300))


def every_collective() -> Module:
    """One op of every class that one core can issue."""
    both: dict[str, Any] = {"srcs": (X.full(),), "dsts": (Y.full(),), "replica_groups": ALL4}
    hbm_tensors = penguin.HbmTensor("x", (8, 16)), penguin.HbmTensor("y", (8, 16))
    halves = [[slab(t, c, 2) for c in (0, 1)] for t in (X, Y)]
    ops = [
        penguin.GetGlobalRankId(dst_register=Register("rank", DType.uint32), world_size=4, loc=at(1)),
        all_reduce_op(X, Y, PAIRS4, dma_qos=2, loc=at(2)),
        penguin.AllGatherOp(**{**both, "dsts": (Z.full(),)}, all_gather_dim=0, loc=at(3)),
        penguin.ReduceScatterOp(
            op=AluOp.max, srcs=(Z.full(),), dsts=(X.full(),), replica_groups=ALL4, reduce_scatter_dim=0, loc=at(4)
        ),
        penguin.AlltoAllOp(**both, split_dimension=0, concat_dimension=0, name="shuffle", loc=at(5)),
        penguin.BroadcastOp(**both, broadcast_sizes=(0, 8, 0, 0), loc=at(6)),
        penguin.CollectivePermuteOp(
            srcs=hbm_tensors[:1], dsts=hbm_tensors[1:], replica_groups=ALL4, loc=at(7)
        ),
        penguin.TiledCollectivePermuteOp(
            srcs=(X.full(),), dsts=(Y.full(),), src_tgt_pairs=((0, 1), (1, 0)), loc=at(8)
        ),
        InstLoop(
            register="i",
            start=0,
            stop=3,
            loc=at(9),
            body=(
                *[
                    penguin.TiledCollectivePermuteOp(
                        srcs=(src,), dsts=(dst,), replica_groups=ALL4, channel_id=c, num_channels=2, loc=at(10)
                    )
                    for c, (src, dst) in enumerate(zip(*halves, strict=True))
                ],
                penguin.CurrentProcessingRankId(
                    dst_register=Register("whose", DType.uint32), iteration_id=1, replica_groups=ALL4, loc=at(11)
                ),
            ),
        ),
    ]  # fmt: skip
    return module(ops, level=Level.penguin, shared=(X, Y, Z), inputs=("x",), outputs=("y",))


def two_cores() -> Module:
    """A collective that both cores issue, a small and a large swap, a folding receive, a user's barrier."""

    def core(c: int) -> list[Any]:
        peer = 1 - c
        return [
            load(slab(Y, c, 2), slab(X, c, 2), loc=at(1)),
            all_reduce_op(Y, X, loc=at(2)),
            load(S.full(), columns(Z, 0, 4), loc=at(3)),
            penguin.SendRecvOp(
                dst=T.full(), src=S.full(), send_to_rank=peer, recv_from_rank=peer, pipe_id=0, loc=at(4)
            ),
            penguin.SendRecvOp(
                dst=INTO.full(), src=BIG.full(), send_to_rank=peer, recv_from_rank=peer, pipe_id=1,
                use_gpsimd_dma=True, loc=at(5),
            ),
            penguin.SendRecvCCEOp(
                dst=T.full(), srcs=(S.full(), S.full()), send_to_rank=peer, recv_from_ranks=(0, 1), op=AluOp.add,
                pipe_id=2, loc=at(6),
            ),
            penguin.CoreBarrierOp(data=X.full(), cores=(0, 1), name="done", loc=at(7)),
        ]  # fmt: skip

    own = (S, T, BIG, INTO)
    return module(
        core(0), core(1), level=Level.penguin, shared=(X, Y, Z), own=own, inputs=("x", "z"), outputs=("x",)
    )  # fmt: skip


CASES = {
    "every_collective.loop": (every_collective, DEFAULT, "loop"),
    "every_collective.coalesced": (every_collective, FULL, "loop"),
    "two_cores.loop": (two_cores, DEFAULT, "loop"),
    "two_cores.lowered": (two_cores, FULL, "loop"),
    "two_cores.dma_only": (two_cores, FULL.replace("collectives", "collectives{max-bpp=0}"), "loop"),
}


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str) -> None:
    make, text, path = CASES[case]
    lowered = run_pipeline(make(), text, path)
    lowered.verify()
    assert Module.from_json(lowered.to_json()) == lowered
    assert listing(lowered) == (GOLDEN / f"{case}.txt").read_text()
