"""Random programs of two cores: every pass, in any order, keeps the numbers and has nothing left to do afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nkicc.ir.bir import CollectiveKind
from nkicc.ir.program import InstLoop, Module
from nkicc.ir.types import AluOp
from nkicc.lowering import run_pipeline

from .modules import ALL4, PAIRS4, barrier, collective, columns, distinct, hbm, load, module, run, sbuf, sendrecv, slab

P, F, RANKS = 8, 8, 4
TILES = tuple(sbuf(name, (P, F)) for name in "abcd")
X, Y, G, H = hbm("x", (8 * P, F)), hbm("y", (8 * P, F)), hbm("g", (P, F)), hbm("h", (P, F))
PASSES = (
    "sync-before-global-cc",
    "lower-local-collectives",
    "lower-local-collectives{max-bpp=0}",
    "coalesce-multichannel-cc",
    "renumber-core-barriers",
    "infer-stream-ids",
)

#: What a statement may be; the passes' own subjects more often.
KINDS = (
    *("swap", "fold", "ring") * 3,
    *("reduce", "lane", "barrier", "loop", "cross") * 2,
    *("copy", "one copy"),
)

tiles = st.sampled_from(TILES)
groups = st.sampled_from((ALL4, PAIRS4))


def parts(tile: Any, half: int) -> Any:
    """A tile, or one of its column halves."""
    return tile.full() if half == 2 else columns(tile, half * F // 2, F // 2)


@st.composite
def statements(draw: st.DrawFn, depth: int = 0) -> tuple[list[Any], list[Any]]:
    """The same few instructions for both cores, each with operands of its own core."""
    left: list[Any] = []
    right: list[Any] = []
    both = (left, right)
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(KINDS))
        src, dst = draw(tiles), draw(tiles)
        if kind == "copy":
            for body in both:
                body.append(load(dst.full(), src.full()))
        elif kind == "one copy":
            both[draw(st.integers(0, 1))].append(load(dst.full(), src.full()))
        elif kind == "swap":
            half = draw(st.integers(0, 2))
            flag = draw(st.booleans())
            for core, body in enumerate(both):
                body.append(sendrecv(core, parts(src, half), parts(dst, half), name="", initial_corebarrier=flag))
        elif kind == "cross":
            a, b, c, d = TILES
            ops = [
                [sendrecv(core, a.full(), c.full(), 0, name=""), sendrecv(core, b.full(), d.full(), 1, name="")]
                for core in (0, 1)
            ]
            left += ops[0]
            right += ops[1][::-1]
        elif kind == "fold":
            other = draw(tiles)
            order = draw(st.permutations((0, 1)))
            for core, body in enumerate(both):
                body.append(
                    collective(
                        CollectiveKind.SendRecvCCE,
                        [src.full(), other.full()],
                        [dst.full()],
                        ((0, 1),),
                        op=AluOp.add,
                        is_local=True,
                        pipe_id=2,
                        recv_from_rank=tuple(order),
                        send_to_rank=(1 - core,),
                        initial_corebarrier=True,
                    )
                )
        elif kind == "barrier":
            for body in both:
                body.append(barrier())
        elif kind == "reduce":
            for core, body in enumerate(both):
                body.append(load(slab(G, core, 2), slab_of(src, core)))
                body.append(shared_reduce())
                body.append(barrier())
                body.append(load(dst.full(), H.full()))
        elif kind == "lane":
            members = draw(groups)
            for body in both:
                body.append(collective(CollectiveKind.AllReduce, [src.full()], [dst.full()], members, op=AluOp.add))
        elif kind == "ring":
            for channel in (0, 1):
                src, dst = draw(tiles), draw(tiles)
                half = draw(st.sampled_from((channel, 1 - channel)))
                for body in both:
                    body.append(
                        collective(
                            CollectiveKind.PermuteImplicit,
                            [parts(src, half)],
                            [parts(dst, channel)],
                            ALL4,
                            channel_id=channel,
                        )
                    )
        elif depth == 0:
            inside = draw(statements(depth=1))
            trips = draw(st.integers(1, 3))
            for body, part in zip(both, inside, strict=True):
                body.append(InstLoop(register="i", start=0, stop=trips, body=tuple(part)))
    return left, right


def slab_of(tile: Any, core: int) -> Any:
    return slab(tile, core, 2)


def shared_reduce() -> Any:
    return collective(CollectiveKind.AllReduce, [G.full()], [H.full()], ALL4, op=AluOp.add)


@st.composite
def programs(draw: st.DrawFn) -> Module:
    bodies = []
    for core, body in enumerate(draw(statements())):
        start = [load(t.full(), slab(X, 4 * core + i, 8)) for i, t in enumerate(TILES)]
        stop = [load(slab(Y, 4 * core + i, 8), t.full()) for i, t in enumerate(TILES)]
        bodies.append([*start, *body, *stop])
    return module(
        *bodies, shared=(X, Y, G, H), own=TILES, inputs=("x",), outputs=("y",), ranks=RANKS
    )  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(programs(), st.permutations(PASSES), st.integers(0, 1 << 16))
def test_passes_keep_the_numbers(built: Module, order: list[str], seed: int) -> None:
    data = distinct(RANKS, *X.shape, seed=seed)
    (want,) = run(built, x=data)
    after = built
    for name in order:
        after = run_pipeline(after, name)
        after.verify()
        assert run_pipeline(after, name) == after, f"{name} is not idempotent"
        assert Module.from_json(after.to_json()) == after
    (got,) = run(after, x=data)
    assert np.array_equal(want.view(np.uint32), got.view(np.uint32))
