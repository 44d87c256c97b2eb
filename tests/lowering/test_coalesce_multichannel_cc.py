"""coalesce-multichannel-cc: which runs become one instruction, which stay, which are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from nkicc.ir.bir import CCChannel, CollectiveKind, InstCollectiveCompute
from nkicc.ir.errors import NkiccError
from nkicc.ir.program import InstLoop, Module
from nkicc.ir.types import AluOp, Engine
from nkicc.lowering.coalesce_multichannel_cc import coalesce_multichannel_cc

from .modules import (
    ALL4,
    PAIRS4,
    at,
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
    slab,
)

X, Y, Z = hbm("x", (8, 16)), hbm("y", (8, 16)), hbm("z", (8, 16))
S, T = sbuf("s", (8, 16)), sbuf("t", (8, 16))


def ring(channel: int, channels: int = 2, **fields: Any) -> InstCollectiveCompute:
    src, dst = slab(X, channel, channels), slab(Y, channel, channels)
    fields = {"name": f"c{channel}", "channel_id": channel, "stream_id": 0, **fields}
    return collective(CollectiveKind.PermuteImplicit, [src], [dst], ALL4, **fields)


def ring_reduce(channel: int, channels: int = 2, **fields: Any) -> InstCollectiveCompute:
    operands = [slab(t, channel, channels) for t in (X, Z, Y)]
    fields = {"name": f"r{channel}", "channel_id": channel, "stream_id": 0, **fields}
    return collective(CollectiveKind.PermuteReduceImplicit, operands[:2], operands[2:], ALL4, op=AluOp.add, **fields)


def built(*bodies: Any) -> Module:
    return module(*bodies, shared=(X, Y, Z), own=(S, T), inputs=("x", "z"), outputs=("y",))


def coalesced(*bodies: Any) -> Module:
    before = built(*bodies)
    after = coalesce_multichannel_cc(before)
    after.verify()
    assert coalesce_multichannel_cc(after) is after
    data = {"x": distinct(4, 8, 16), "z": distinct(4, 8, 16, seed=9)}
    assert same_bits(run(before, **data), run(after, **data))
    return after


def names(after: Module, core: int = 0) -> list[str]:
    return [inst.name for inst in body(after, core)]


@pytest.mark.parametrize("channels", [2, 4])
def test_channels_become_one_instruction(channels: int) -> None:
    (inst,) = body(coalesced([ring(c, channels) for c in range(channels)]))
    assert (inst.name, inst.channel_id, inst.channel_ids) == ("c0", None, tuple(range(channels)))
    assert inst.srcs == tuple(slab(X, c, channels) for c in range(channels))
    assert inst.dsts == tuple(slab(Y, c, channels) for c in range(channels))


def test_reduce_sources_stay_in_pairs() -> None:
    (inst,) = body(coalesced([ring_reduce(0), ring_reduce(1)]))
    assert inst.srcs == (slab(X, 0, 2), slab(Z, 0, 2), slab(X, 1, 2), slab(Z, 1, 2))
    assert inst.dsts == (slab(Y, 0, 2), slab(Y, 1, 2))


def test_column_halves_of_one_tile_are_apart() -> None:
    halves = [
        collective(
            CollectiveKind.PermuteImplicit,
            [columns(S, 8 * c, 8)],
            [columns(T, 8 * c, 8)],
            ALL4,
            channel_id=c,
            name=f"c{c}",
            stream_id=0,
        )
        for c in (0, 1)
    ]
    after = coalesced([load(S.full(), X.full()), *halves, load(Y.full(), T.full())])
    assert [inst.channel_ids for inst in body(after) if isinstance(inst, InstCollectiveCompute)] == [(0, 1)]


def test_each_step_is_a_run_of_its_own() -> None:
    second = [ring(0, name="d0"), ring(1, name="d1", deps=("c1", "c0"))]
    first = load(S.full(), Y.full(), name="load")
    after = coalesced([first, ring(0), ring(1, deps=("c0", "load")), *second])
    assert [(inst.name, inst.channel_ids, inst.deps) for inst in body(after)[1:]] == [
        ("c0", (0, 1), ("load",)),
        ("d0", (0, 1), ("c0",)),
    ]


def test_deps_on_a_member_follow_it() -> None:
    after = coalesced([ring(0), ring(1), load(S.full(), Y.full(), name="l", deps=("c1",))])
    assert body(after)[1].deps == ("c0",)


def test_loops_are_merged_inside() -> None:
    loop = InstLoop(register="i", start=0, stop=2, body=(ring(0), ring(1)))  # type: ignore[arg-type]
    assert names(coalesced([loop])) == ["", "c0"]


def test_what_stands_between_keeps_them_apart() -> None:
    after = coalesced([ring(0), load(S.full(), X.full(), name="l"), ring(1)])
    assert names(after) == ["c0", "l", "c1"]


@pytest.mark.parametrize(
    "second",
    [
        replace(ring(1), srcs=(slab(Y, 0, 2),)),  # reads what channel 0 brought
        replace(ring(1), dsts=(slab(Y, 0, 2),)),  # overwrites it
        replace(ring(1), dsts=(slab(X, 0, 2),)),  # overwrites what channel 0 sends
        ring(1, stream_id=1),
    ],
    ids=["read-after-write", "write-after-write", "write-after-read", "stream"],
)
def test_members_that_depend_on_each_other_stay(second: InstCollectiveCompute) -> None:
    assert names(coalesced([ring(0), second])) == ["c0", "c1"]


def test_cores_merge_alike_or_not_at_all() -> None:
    apart = [ring(0), load(S.full(), X.full(), name="l"), ring(1)]
    together = [ring(0), ring(1), load(S.full(), X.full(), name="l")]
    assert names(coalesced(apart, together), 1) == ["c0", "c1", "l"]
    assert names(coalesced(together, together), 1) == ["c0", "l"]


def test_a_single_channel_is_left_alone() -> None:
    assert names(coalesced([ring(0), ring(0, name="d0")])) == ["c0", "d0"]
    assert names(coalesced([ring(1)])) == ["c1"]


def prefix(what: str) -> str:
    return f"Expected all consecutive CC compute ops to be of {what}"


@pytest.mark.parametrize(
    ("first", "second", "code", "message"),
    [
        (
            ring_reduce(0),
            replace(ring_reduce(1), cc_channel=CCChannel(CollectiveKind.PermuteReduceImplicit, ALL4, AluOp.max)),
            "CCO001",
            prefix("the same Op, but got add != max"),
        ),
        (ring(0), ring(1, engine=Engine.dve), "CCO002", prefix("the same Engine, but got Pool != DVE")),
        (
            ring(0),
            replace(ring_reduce(1), cc_channel=CCChannel(CollectiveKind.PermuteReduceImplicit, ALL4)),
            "CCO003",
            prefix("the same Kind, but got PermuteImplicit != PermuteReduceImplicit"),
        ),
        (
            ring(0),
            replace(ring(1), cc_channel=CCChannel(CollectiveKind.PermuteImplicit, PAIRS4)),
            "CCO004",
            prefix("the same ReplicaGroups"),
        ),
        (ring(0), ring(1, can_read_uninit=True), "CCO006", prefix("the same CanReadUninit")),
        (ring(0), ring(1, is_local=True), "CCO007", prefix("the same IsLocal")),
        (ring(0), ring(1, src_target_pairs=((0, 1),)), "CCO008", prefix("the same SrcTargetPairs")),
        (
            ring(0, 4),
            ring(2, 4),
            "CCO009",
            prefix("channel id starting at 0 and increasing by 1, but got first: 0, curr: 2"),
        ),
        (
            ring(1, 4),
            ring(2, 4),
            "CCO009",
            prefix("channel id starting at 0 and increasing by 1, but got first: 1, curr: 1"),
        ),
        (
            ring(0, src_target_pairs=((0, 1),)),
            ring(1, src_target_pairs=((0, 1),)),
            "CCO010",
            "Expected CC op to not have both ReplicaGroups and SrcTargetPairs",
        ),
    ],
)
def test_a_run_that_does_not_fit_together_is_refused(
    first: InstCollectiveCompute, second: InstCollectiveCompute, code: str, message: str
) -> None:
    second = replace(second, loc=at(5))
    bad = module([replace(first, loc=at(5)), second], shared=(X, Y, Z), check=False)
    with pytest.raises(NkiccError) as caught:
        coalesce_multichannel_cc(bad)
    assert (caught.value.code, caught.value.message, caught.value.loc) == (code, message, at(5))


@pytest.mark.parametrize(
    "inst",
    [
        ring(0, channel_ids=(0,)),
        ring(0, channel_id=None, channel_ids=(0, 1)),
        ring(0, channel_id=None, channel_ids=(1,)),
        replace(ring(0, channel_id=None, channel_ids=(0,)), cc_channel=CCChannel(CollectiveKind.Permute)),
    ],
)
def test_what_claims_to_be_coalesced_and_is_not_is_refused(inst: InstCollectiveCompute) -> None:
    bad = module([inst], shared=(X, Y), check=False)
    with pytest.raises(NkiccError, match="cannot enter as coalesced") as caught:
        coalesce_multichannel_cc(bad)
    assert caught.value.code == "BIR436"


def test_the_numbers_of_a_ring_step() -> None:
    data = distinct(4, 8, 16)
    (out,) = run(coalesce_multichannel_cc(built([ring(0), ring(1)])), x=data, z=data)
    assert np.array_equal(out, np.roll(data, 1, axis=0))
