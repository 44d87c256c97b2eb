"""infer-stream-ids: who decides for whom, and what may not differ."""

from __future__ import annotations

import pytest

from nkicc.ir.access import Register
from nkicc.ir.bir import CollectiveComputeTypeHint, CollectiveKind, InstGetCurProcessingRankID
from nkicc.ir.errors import NkiccError
from nkicc.ir.program import InstLoop, Module
from nkicc.ir.types import AluOp, DType
from nkicc.lowering.infer_stream_ids import infer_stream_ids

from .modules import ALL4, PAIRS4, at, body, collective, hbm, module, sbuf, sendrecv

X, Y, S, T = hbm("x", (8, 16)), hbm("y", (8, 16)), sbuf("s", (8, 16)), sbuf("t", (8, 16))
FSDP, TP = CollectiveComputeTypeHint.FSDP, CollectiveComputeTypeHint.TP


def reduce_(groups=ALL4, **fields):
    return collective(CollectiveKind.AllReduce, [X.full()], [Y.full()], groups, op=AluOp.add, **fields)


def permute(pairs, **fields):
    return collective(CollectiveKind.Permute, [X.full()], [Y.full()], (), src_target_pairs=pairs, **fields)


def query(groups=ALL4, **fields):
    return InstGetCurProcessingRankID(output=Register("r", DType.uint32), iter_id=0, replica_groups=groups, **fields)


def inferred(*insts, check: bool = True) -> Module:
    after = infer_stream_ids(module(insts, shared=(X, Y), own=(S, T), check=check))
    assert infer_stream_ids(after) is after
    return after


def streams(built: Module) -> list[int]:
    return [inst.stream_id for inst in body(built) if hasattr(inst, "stream_id")]


def test_unset_is_stream_0() -> None:
    loop = InstLoop(register="i", start=0, stop=2, body=(reduce_(cc_type_hint=TP),))  # type: ignore[arg-type]
    assert streams(inferred(reduce_(), query(), permute(((0, 1),)), loop)) == [0, 0, 0, 0]


def test_fsdp_is_stream_1_and_takes_its_groups_with_it() -> None:
    insts = reduce_(), query(), reduce_(cc_type_hint=FSDP), reduce_(PAIRS4), query(PAIRS4)
    assert streams(inferred(*insts)) == [1, 1, 1, 0, 0]


def test_a_set_stream_decides_for_the_unset() -> None:
    assert streams(inferred(permute(((0, 1),), stream_id=1), permute(((0, 1),)), permute(((1, 0),)))) == [1, 1, 0]


def test_pairs_and_groups_of_equal_numbers_are_apart() -> None:
    pairs = ((0, 1), (2, 3))
    assert streams(inferred(permute(pairs, stream_id=1), reduce_(pairs))) == [1, 0]


def test_local_collectives_do_not_count_as_groups() -> None:
    swaps = [[sendrecv(core, S.full(), T.full()), reduce_(((0, 1), (2, 3)), stream_id=1)] for core in (0, 1)]
    built = module(*swaps, shared=(X, Y), own=(S, T))
    assert streams(infer_stream_ids(built)) == [0, 1]


def test_streams_that_are_set_stay() -> None:
    built = module([reduce_(stream_id=0), reduce_(PAIRS4, stream_id=1)], shared=(X, Y))
    assert infer_stream_ids(built) is built


@pytest.mark.parametrize(
    ("first", "second", "code", "message"),
    [
        (
            permute(((0, 1),), stream_id=0),
            permute(((0, 1),), stream_id=1, loc=at(8)),
            "ISI001",
            "All Collective Compute Instructions using the same src-target pairs must have the same stream ID",
        ),
        (
            reduce_(stream_id=0),
            reduce_(cc_type_hint=FSDP, loc=at(8)),
            "ISI002",
            "All Collective Compute Instructions using the same replica groups must have the same stream ID",
        ),
        (
            query(stream_id=0),
            query(stream_id=1, loc=at(8)),
            "ISI003",
            "All GetCurProcessingRankID Instructions using the same replica groups must have the same stream ID",
        ),
    ],
)
def test_one_stream_per_groups_or_pairs(first, second, code: str, message: str) -> None:
    with pytest.raises(NkiccError) as caught:
        inferred(first, second)
    assert (caught.value.code, caught.value.message, caught.value.loc) == (code, message, at(8))
