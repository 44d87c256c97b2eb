"""Memory with a rank axis: access patterns against NumPy, uniform storage, dynamic offsets."""

from __future__ import annotations

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nkicc.engines import Options, Report
from nkicc.ir.access import AccessPattern, Register
from nkicc.ir.bir import (
    CCChannel,
    CollectiveKind,
    InstCollectiveCompute,
    InstGetCurProcessingRankID,
    InstGetGlobalRankId,
)
from nkicc.ir.errors import NkiccError
from nkicc.ir.isa import InstDMACopy, InstIota, InstMemset, InstRegisterLoad, InstRegisterStore, InstTensorCopy
from nkicc.ir.program import Module
from nkicc.ir.types import DType
from nkicc.simulator.machine import RankSet
from nkicc.simulator.memory import Buffer, DynamicView, Lanes, Pool, View
from nkicc.simulator.scheduler import Scheduler

from .bir_modules import module, run, sbuf, tensor


@st.composite
def patterns(draw: st.DrawFn) -> tuple[int, AccessPattern]:
    """A tensor size and a pattern inside it, with zero and negative strides."""
    pairs = tuple(draw(st.lists(st.tuples(st.integers(-5, 7), st.integers(1, 4)), min_size=1, max_size=4)))
    low = sum(min(0, s * (n - 1)) for s, n in pairs)
    high = sum(max(0, s * (n - 1)) for s, n in pairs)
    offset = -low + draw(st.integers(0, 3))
    return offset + high + 1 + draw(st.integers(0, 3)), AccessPattern("t", pairs, offset)


@given(patterns(), st.integers(1, 4))
def test_a_view_reads_the_elements_that_the_formula_names(case: tuple[int, AccessPattern], rows: int) -> None:
    size, ap = case
    content = np.arange(rows * size, dtype=np.float32).reshape(rows, size)
    buffer = Buffer(tensor("t", (size,)), np.arange(rows), Pool())
    buffer.adopt(content)
    got = View(buffer, ap, Lanes()).read()
    for index in np.ndindex(*ap.shape):
        address = ap.offset + sum(s * i for (s, _), i in zip(ap.pattern, index, strict=True))
        assert (got[(slice(None), *index)] == content[:, address]).all()


def test_a_reinterpreted_view_sees_the_bytes() -> None:
    buffer = Buffer(tensor("t", (2, 4), "int32"), np.arange(3), Pool())
    content = np.arange(24, dtype=np.int32).reshape(3, 2, 4) * 1_000_003
    buffer.adopt(content)
    got = View(buffer, AccessPattern("t", ((8, 2), (1, 8)), dtype=DType.bfloat16), Lanes()).read()
    assert got.dtype == ml_dtypes.bfloat16
    assert got.tobytes() == content.tobytes()


def test_uniform_content_is_stored_once_until_a_rank_differs() -> None:
    buffer = Buffer(tensor("t", (2, 2)), np.arange(4), Pool())
    whole, row = (
        View(buffer, AccessPattern("t", ((2, 2), (1, 2))), Lanes()),
        View(buffer, AccessPattern("t", ((1, 2),)), Lanes()),
    )
    whole.write(np.ones((1, 2, 2), np.float32))
    assert buffer.rows == 1
    row.write(np.arange(8, dtype=np.float32).reshape(4, 2))
    assert buffer.rows == 4
    assert np.array_equal(whole.read()[2], [[4, 5], [1, 1]])
    row.write(np.zeros((1, 2), np.float32))
    assert buffer.rows == 4, "part of it still differs"
    whole.write(np.ones((1, 2, 2), np.float32))
    assert buffer.rows == 1


def test_adopted_arrays_are_never_written() -> None:
    mine = np.ones((2, 4), np.float32)
    buffer = Buffer(tensor("t", (4,)), np.arange(2), Pool())
    buffer.adopt(mine)
    View(buffer, AccessPattern("t", ((1, 2),)), Lanes()).write(np.zeros((1, 2), np.float32))
    assert (mine == 1).all()
    assert np.array_equal(buffer.tensor_value(), [[0, 0, 1, 1]] * 2)


def test_fresh_memory_is_poisoned() -> None:
    built = module((), shared=(tensor("f", (2,)), tensor("i", (2,), "int16")), outputs=("f", "i"))
    floats, integers = run(built).outputs[0]
    assert np.isnan(floats).all()
    assert (integers == np.iinfo(np.int16).max).all()


def test_an_offset_held_in_a_register_that_differs_between_ranks() -> None:
    """rank r reads row r of a table that is the same on all ranks, and writes row (R-1-r) of its result."""
    ranks = 4
    table, result, index = tensor("x", (ranks, 3)), tensor("y", (ranks, 3)), tensor("i", (1,), "int32")
    row = sbuf("row", (1, 3))
    body = (
        InstGetGlobalRankId(output=Register("r", DType.uint32)),
        InstDMACopy(dst=row.full(), srcs=(AccessPattern("x", ((3, 1), (1, 3)), scalar_offset="r", indirect_stride=3),)),
        InstMemset(dst=result.full(), value=-1.0),
        InstRegisterLoad(dst=Register("back"), src=index.full()),
        InstDMACopy(
            dst=AccessPattern("y", ((3, 1), (1, 3)), scalar_offset="back", indirect_stride=3), srcs=(row.full(),)
        ),
    )
    built = module(body, shared=(table, result, index), own=(row,), inputs=("x", "i"), outputs=("y",), ranks=ranks)
    x = np.arange(12, dtype=np.float32).reshape(1, ranks, 3)
    back = np.arange(ranks, dtype=np.int32)[::-1].reshape(ranks, 1)
    (y,) = run(built, x=x, i=back).outputs[0]
    for rank in range(ranks):
        want = np.full((ranks, 3), -1, np.float32)
        want[ranks - 1 - rank] = x[0, rank]
        assert np.array_equal(y[rank], want)


def test_rows_gathered_through_an_index_tensor() -> None:
    ranks, rows = 3, 5
    table, index = tensor("x", (rows, 4)), tensor("i", (2, 1), "int32")
    picked, out = sbuf("picked", (2, 1), "int32"), tensor("y", (2, 4))
    gather = AccessPattern(
        "x", ((4, 2), (1, 4)), vector_offset=AccessPattern("picked", ((1, 2), (1, 1))), indirect_stride=4
    )
    body = (InstDMACopy(dst=picked.full(), srcs=(index.full(),)), InstDMACopy(dst=out.full(), srcs=(gather,)))
    built = module(body, shared=(table, index, out), own=(picked,), inputs=("x", "i"), outputs=("y",), ranks=ranks)
    x = np.random.default_rng(0).standard_normal((ranks, rows, 4)).astype(np.float32)
    i = np.array([[[4], [0]], [[1], [1]], [[2], [3]]], np.int32)
    (y,) = run(built, x=x, i=i).outputs[0]
    for rank in range(ranks):
        assert np.array_equal(y[rank], x[rank][i[rank, :, 0]])


@pytest.mark.parametrize("value", [-1, 4])
def test_an_offset_out_of_bounds_names_the_rank(value: int) -> None:
    table, index, out = tensor("x", (4, 2)), tensor("i", (1,), "int32"), tensor("y", (1, 2))
    body = (
        InstRegisterLoad(dst=Register("r"), src=index.full()),
        InstDMACopy(dst=out.full(), srcs=(AccessPattern("x", ((2, 1), (1, 2)), scalar_offset="r", indirect_stride=2),)),
    )
    built = module(body, shared=(table, index, out), inputs=("x", "i"), outputs=("y",), ranks=3)
    i = np.array([[0], [1], [value]], np.int32)
    with pytest.raises(NkiccError) as error:
        run(built, x=np.zeros((1, 4, 2), np.float32), i=i)
    assert error.value.code == "NKC102"
    assert error.value.rank == 2


def test_skipped_rows_keep_what_was_there() -> None:
    table, index, out = tensor("x", (4, 2)), tensor("i", (2, 1), "int32"), tensor("y", (2, 2))
    gather = AccessPattern(
        "x", ((2, 2), (1, 2)), vector_offset=AccessPattern("i", ((1, 2), (1, 1))), indirect_stride=2, skip_oob=True
    )
    body = (InstMemset(dst=out.full(), value=-1.0), InstDMACopy(dst=out.full(), srcs=(gather,)))
    built = module(body, shared=(table, index, out), inputs=("x", "i"), outputs=("y",), ranks=2)
    x = np.arange(16, dtype=np.float32).reshape(2, 4, 2)
    (y,) = run(built, x=x, i=np.array([[[9], [1]], [[3], [-1]]], np.int32)).outputs[0]
    assert np.array_equal(y, [[[-1, -1], x[0, 1]], [x[1, 3], [-1, -1]]])


def test_a_register_is_stored_back() -> None:
    out = tensor("y", (1, 1), "int32")
    body = (InstGetGlobalRankId(output=Register("r", DType.uint32)), InstRegisterStore(dst=out.full(), src="r"))
    (y,) = run(module(body, shared=(out,), outputs=("y",), ranks=5)).outputs[0]
    assert y.reshape(-1).tolist() == [0, 1, 2, 3, 4]


def test_an_overlapping_copy_reads_its_source_first() -> None:
    t = tensor("x", (6,))
    body = (InstDMACopy(dst=AccessPattern("x", ((1, 5),), 1), srcs=(AccessPattern("x", ((1, 5),)),)),)
    built = module(body, shared=(t,), inputs=("x",), outputs=("x",))
    (x,) = run(built, x=np.arange(6, dtype=np.float32)[None]).outputs[0]
    assert x[0].tolist() == [0, 0, 1, 2, 3, 4]


@settings(deadline=None)
@given(
    st.sampled_from(["float32", "bfloat16", "float16", "float8e4", "int32", "uint32", "int16", "int8", "uint8"]),
    st.sampled_from(["float32", "bfloat16", "float16", "int32", "int16", "int8", "uint8"]),
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=4, max_size=4),
)
def test_a_copy_casts_through_float32_and_saturates(source: str, target: str, values: list[float]) -> None:
    src, dst = sbuf("a", (1, 4), source), sbuf("b", (1, 4), target)
    x, y = tensor("x", (1, 4), source), tensor("y", (1, 4), target)
    body = (
        InstDMACopy(dst=src.full(), srcs=(x.full(),)),
        InstTensorCopy(dst=dst.full(), src=src.full()),
        InstDMACopy(dst=y.full(), srcs=(dst.full(),)),
    )
    kind, goal = DType.of(source), DType.of(target)
    with np.errstate(all="ignore"):
        data = np.array(values, np.float32)
        if not kind.is_float:
            data = np.clip(data, np.iinfo(kind.numpy).min, min(np.iinfo(kind.numpy).max, 2**31 - 128))
        data = data.astype(kind.numpy).reshape(1, 1, 4)
        want = data.astype(np.float32)
        if source == target:
            want = data
        elif goal.is_float:
            want = want.astype(goal.numpy)
        else:
            info = np.iinfo(goal.numpy)
            wide = np.nan_to_num(np.rint(want.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
            want = np.clip(wide, info.min, info.max).astype(goal.numpy)
    built = module(body, shared=(x, y), own=(src, dst), inputs=("x",), outputs=("y",))
    (got,) = run(built, x=data).outputs[0]
    assert got.tobytes() == want.tobytes()


def test_iota_counts_partitions_and_steps() -> None:
    tile, out = sbuf("t", (3, 2, 4), "int32"), tensor("y", (3, 2, 4), "int32")
    body = (
        InstIota(dst=tile.full(), pattern=((10, 2), (-1, 4)), offset=5, channel_multiplier=100),
        InstDMACopy(dst=out.full(), srcs=(tile.full(),)),
    )
    (y,) = run(module(body, shared=(out,), own=(tile,), outputs=("y",))).outputs[0]
    for p, i, j in np.ndindex(3, 2, 4):
        assert y[0, p, i, j] == 5 + 100 * p + 10 * i - j


def test_dead_tensors_hand_on_their_storage() -> None:
    """A chain of many tiles needs the storage of two."""
    tiles = [sbuf(f"t{i}", (128, 64)) for i in range(50)]
    x, y = tensor("x", (128, 64)), tensor("y", (128, 64))
    body = [InstDMACopy(dst=tiles[0].full(), srcs=(x.full(),))]
    body += [InstTensorCopy(dst=b.full(), src=a.full()) for a, b in pairwise(tiles)]
    body.append(InstDMACopy(dst=y.full(), srcs=(tiles[-1].full(),)))
    built = module(tuple(body), shared=(x, y), own=tuple(tiles), inputs=("x",), outputs=("y",), ranks=3)
    data = np.random.default_rng(0).standard_normal((3, 128, 64)).astype(np.float32)
    machine = RankSet(built, built.programs[0], {"x": data}, Options(), Pool())
    Scheduler([machine], Report(ranks=3, lnc=1, target="trn2", programs=1)).run()
    assert np.array_equal(machine.shared["y"].tensor_value(), data)
    assert machine.pool.size == data.nbytes, "the other one became y"
    assert all(buffer.data is None for buffer in machine.cores[0].own_buffers().values())


def test_a_run_that_does_not_fit_stops_before_it_takes_the_memory() -> None:
    """The second tensor exceeds the limit once ranks differ; the error names it and what is taken."""
    x, y = tensor("x", (1000,)), tensor("y", (1000,))
    body = (InstDMACopy(dst=y.full(), srcs=(x.full(),)),)
    built = module(body, shared=(x, y), inputs=("x",), outputs=("y",), ranks=4)
    machine = RankSet(built, built.programs[0], {"x": np.zeros((4, 1000), np.float32)}, Options(), Pool(limit=10_000))
    with pytest.raises(NkiccError, match="tensor 'y' needs 4 x 4000 bytes, the limit is 10000 and 0 are taken"):
        Scheduler([machine], Report(ranks=4, lnc=1, target="trn2", programs=1)).run()


def ring_result(ranks: int, turns: int) -> Module:
    """Each rank writes x, cut in two column blocks, into row (rank - turn) mod R of y; x moves on in the ring."""
    x, y = tensor("x", (1, 6)), tensor("y", (ranks, 6))
    ring = (tuple(range(ranks)),)
    buffers = [tensor("b0", (1, 6)), tensor("b1", (1, 6))]
    body = [InstDMACopy(dst=buffers[0].full(), srcs=(x.full(),))]
    for turn in range(turns):
        here, there = buffers[turn % 2], buffers[(turn + 1) % 2]
        body.append(InstGetCurProcessingRankID(output=Register("r"), iter_id=turn, replica_groups=ring))
        for at, width in ((0, 2), (2, 4)):
            target = AccessPattern("y", ((6, 1), (1, width)), at, scalar_offset="r", indirect_stride=6)
            body.append(InstDMACopy(dst=target, srcs=(AccessPattern(here.name, ((6, 1), (1, width)), at),)))
        body.append(
            InstCollectiveCompute(
                srcs=(here.full(),), dsts=(there.full(),), cc_channel=CCChannel(CollectiveKind.PermuteImplicit, ring)
            )
        )
    return module(tuple(body), shared=(x, y, *buffers), inputs=("x",), outputs=("y",), ranks=ranks)


@pytest.mark.parametrize("turns", [1, 3, 5])
def test_a_result_that_ranks_fill_in_their_own_order_is_kept_once(turns: int) -> None:
    ranks = 5
    data = np.random.default_rng(0).standard_normal((ranks, 1, 6)).astype(np.float32)
    (y,) = run(ring_result(ranks, turns), x=data).outputs[0]
    assert len(y) == (1 if turns == ranks else ranks)
    y = np.broadcast_to(y, (ranks, ranks, 6))
    for rank in range(ranks):
        seen = {(rank - turn) % ranks for turn in range(turns)}
        for slot in range(ranks):
            assert np.array_equal(y[rank, slot], data[slot, 0]) if slot in seen else np.isnan(y[rank, slot]).all()


@st.composite
def scatters(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, list[int], list[float]]]]:
    """Writes (column, width, slot of each rank, value of each rank) into a buffer of 4 slots of 3 columns."""
    ranks = draw(st.integers(2, 4))
    writes = draw(
        st.lists(
            st.tuples(
                st.integers(0, 2),
                st.just(1) | st.integers(1, 3),
                st.lists(st.integers(0, 3), min_size=ranks, max_size=ranks),
                st.lists(st.sampled_from([1.0, 2.0]), min_size=ranks, max_size=ranks),
            ).map(lambda w: (w[0], min(w[1], 3 - w[0]), w[2], w[3])),
            max_size=8,
        )
    )
    return ranks, writes


@given(scatters())
def test_slot_writes_leave_what_each_rank_wrote(
    case: tuple[int, list[tuple[int, int, list[int], list[float]]]],
) -> None:
    ranks, writes = case
    want = np.full((ranks, 4, 3), np.nan, np.float32)
    buffer = Buffer(tensor("t", (4, 3)), np.arange(ranks), Pool())
    for column, width, slots, values in writes:
        ap = AccessPattern("t", ((3, 1), (1, width)), column, scalar_offset="r", indirect_stride=3)
        view = DynamicView(buffer, ap, Lanes(), lambda slots=slots: np.array(slots), "write", None)
        value = np.array(values, np.float32).reshape(ranks, 1, 1)
        view.write(np.broadcast_to(value, (ranks, 1, width)))
        for rank in range(ranks):
            want[rank, slots[rank], column : column + width] = values[rank]
    got = np.broadcast_to(buffer.tensor_value(), want.shape)
    assert np.array_equal(got, want, equal_nan=True)


def test_zeros_of_both_signs_are_two_values() -> None:
    buffer = Buffer(tensor("t", (2, 3)), np.arange(2), Pool())
    ap = AccessPattern("t", ((3, 1), (1, 3)), scalar_offset="r", indirect_stride=3)
    for zero, slots in ((0.0, [0, 1]), (-0.0, [1, 0])):
        view = DynamicView(buffer, ap, Lanes(), lambda slots=slots: np.array(slots), "write", None)
        view.write(np.broadcast_to(np.float32(zero), (1, 1, 3)))
    negative = np.signbit(buffer.tensor_value())
    assert negative.all(axis=2).tolist() == [[False, True], [True, False]]
