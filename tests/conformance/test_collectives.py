"""Every group collective × memory × LNC × reading × group shape × dimension × dtype against NumPy, on every rank."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nkicc.ir.types import Memory

from .road import FULL_PIPELINE, build, check, distinct, fold, run

HBM, SBUF = Memory.shared_hbm, Memory.sbuf
FLOATS = ["float32", "bfloat16", "float16", "float8e4", "float8e5", "float8_e4m3fn"]
INTEGERS = ["int32", "uint32", "int16", "uint16", "int8", "uint8"]


def group_shapes(ranks: int) -> dict[str, list[list[int]]]:
    """The named shapes for a world size: one group, several equal ones, strided, reordered."""
    shapes = {"all": [list(range(ranks))], "reversed": [list(range(ranks))[::-1]]}
    if ranks >= 4 and ranks % 2 == 0:
        half = ranks // 2
        shapes["halves"] = [list(range(half)), list(range(half, ranks))]
        shapes["strided"] = [list(range(0, ranks, 2)), list(range(1, ranks, 2))]
        shapes["pairs"] = [[r, r + half] for r in range(half)]
        shapes["shuffled"] = [[int(r) for r in np.random.default_rng(ranks).permutation(ranks)]]
    shapes["singles"] = [[r] for r in range(ranks)]
    return shapes


WORLDS = [(r, name) for r in (1, 2, 3, 4, 8, 16, 64) for name in group_shapes(r)]
#: (memory, lnc, cores that issue): the three readings under LNC=2 and both memories.
PLACES = [(HBM, 1, (0,)), (HBM, 2, (0, 1)), (HBM, 2, (0,)), (SBUF, 1, (0,)), (SBUF, 2, (0, 1))]


def place_id(place: tuple[Memory, int, tuple[int, ...]]) -> str:
    memory, lnc, cores = place
    return f"{memory.value}-lnc{lnc}-{'both' if len(cores) == lnc else 'one'}"


def group_of(groups: list[list[int]], rank: int) -> list[int]:
    return next(g for g in groups if rank in g)


def inputs(ranks: int, lnc: int, memory: Memory, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return distinct(ranks, (lnc, *shape) if memory is SBUF else shape, dtype)


def of(data: np.ndarray, memory: Memory, rank: int, core: int) -> np.ndarray:
    return data[rank, core] if memory is SBUF else data[rank]


@pytest.mark.parametrize(("ranks", "name"), WORLDS)
@pytest.mark.parametrize("place", PLACES, ids=place_id)
def test_all_reduce(ranks: int, name: str, place: tuple[Memory, int, tuple[int, ...]]) -> None:
    (memory, lnc, cores), groups = place, group_shapes(ranks)[name]
    shape = (4, 6)
    module = build(
        lambda cg, s, d: cg.all_reduce_cc_raw("add", s, d, groups),
        ranks=ranks, lnc=lnc, memory=memory, dtype="float32", srcs=[shape], dst=shape, issuers=cores,
    )  # fmt: skip
    data = inputs(ranks, lnc, memory, shape, "float32")
    want = lambda r, c: fold([of(data, memory, q, c) for q in group_of(groups, r)], "add")  # noqa: E731
    for passes in (None, FULL_PIPELINE):
        check(run(module, [data], passes=passes), want, ranks=ranks, lnc=lnc, lanes=memory is SBUF)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("op", ["add", "max", "min"])
def test_reduction_types(dtype: str, op: str) -> None:
    groups, ranks, shape = [[2, 0, 1], [5, 4, 3]], 6, (3, 6)
    data = distinct(ranks, shape, dtype)
    module = build(
        lambda cg, s, d: cg.all_reduce_cc_raw(op, s, d, groups),
        ranks=ranks, lnc=1, memory=HBM, dtype=dtype, srcs=[shape], dst=shape,
    )  # fmt: skip
    want = lambda r, c: fold([data[q] for q in group_of(groups, r)], op)  # noqa: E731
    check(run(module, [data]), want, ranks=ranks, lnc=1, lanes=False)
    scattered = build(
        lambda cg, s, d: cg.reduce_scatter_cc_raw(op, s, d, groups, 0),
        ranks=ranks, lnc=1, memory=HBM, dtype=dtype, srcs=[shape], dst=(1, 6),
    )  # fmt: skip
    chunk = lambda r, c: np.split(want(r, c), 3)[group_of(groups, r).index(r)]  # noqa: E731
    check(run(scattered, [data]), chunk, ranks=ranks, lnc=1, lanes=False)


def test_all_reduce_of_groups_of_unequal_size() -> None:
    groups, ranks, shape = [[0, 1], [4, 2, 3]], 5, (2, 3)
    data = distinct(ranks, shape, "float32")
    module = build(
        lambda cg, s, d: cg.all_reduce_cc_raw("add", s, d, groups),
        ranks=ranks, lnc=1, memory=HBM, dtype="float32", srcs=[shape], dst=shape,
    )  # fmt: skip
    want = lambda r, c: fold([data[q] for q in group_of(groups, r)], "add")  # noqa: E731
    check(run(module, [data]), want, ranks=ranks, lnc=1, lanes=False)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(("ranks", "name"), WORLDS)
@pytest.mark.parametrize("place", PLACES, ids=place_id)
def test_all_gather(ranks: int, name: str, dim: int, place: tuple[Memory, int, tuple[int, ...]]) -> None:
    (memory, lnc, cores), groups = place, group_shapes(ranks)[name]
    n, shape = len(groups[0]), (2, 6)
    dst = (2 * n, 6) if dim == 0 else (2, 6 * n)
    module = build(
        lambda cg, s, d: cg.all_gather_cc_raw(None, s, d, groups, dim),
        ranks=ranks, lnc=lnc, memory=memory, dtype="bfloat16", srcs=[shape], dst=dst, issuers=cores,
    )  # fmt: skip
    data = inputs(ranks, lnc, memory, shape, "bfloat16")
    want = lambda r, c: np.concatenate([of(data, memory, q, c) for q in group_of(groups, r)], axis=dim)  # noqa: E731
    for passes in (None, FULL_PIPELINE):
        check(run(module, [data], passes=passes), want, ranks=ranks, lnc=lnc, lanes=memory is SBUF)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(("ranks", "name"), WORLDS)
@pytest.mark.parametrize("place", PLACES, ids=place_id)
def test_reduce_scatter(ranks: int, name: str, dim: int, place: tuple[Memory, int, tuple[int, ...]]) -> None:
    (memory, lnc, cores), groups = place, group_shapes(ranks)[name]
    n, dst = len(groups[0]), (2, 4)
    shape = (2 * n, 4) if dim == 0 else (2, 4 * n)
    module = build(
        lambda cg, s, d: cg.reduce_scatter_cc_raw("add", s, d, groups, dim),
        ranks=ranks, lnc=lnc, memory=memory, dtype="float16", srcs=[shape], dst=dst, issuers=cores,
    )  # fmt: skip
    data = inputs(ranks, lnc, memory, shape, "float16")

    def want(rank: int, core: int) -> np.ndarray:
        group = group_of(groups, rank)
        total = fold([of(data, memory, q, core) for q in group], "add")
        return np.split(total, n, axis=dim)[group.index(rank)]

    for passes in (None, FULL_PIPELINE):
        check(run(module, [data], passes=passes), want, ranks=ranks, lnc=lnc, lanes=memory is SBUF)


@pytest.mark.parametrize("dims", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize(("ranks", "name"), WORLDS)
@pytest.mark.parametrize("place", [p for p in PLACES if p[0] is HBM], ids=place_id)
def test_all_to_all(ranks: int, name: str, dims: tuple[int, int], place: tuple[Memory, int, tuple[int, ...]]) -> None:
    (memory, lnc, cores), groups = place, group_shapes(ranks)[name]
    n, (cut, paste) = len(groups[0]), dims
    shape = (2 * n, 3) if cut == 0 else (2, 3 * n)
    dst = list(shape)
    dst[cut] //= n
    dst[paste] *= n
    module = build(
        lambda cg, s, d: cg.all_to_all_cc_raw(None, s, d, groups, split_dimension=cut, concat_dimension=paste),
        ranks=ranks, lnc=lnc, memory=memory, dtype="int32", srcs=[shape], dst=tuple(dst), issuers=cores,
    )  # fmt: skip
    data = inputs(ranks, lnc, memory, shape, "int32")

    def want(rank: int, core: int) -> np.ndarray:
        group = group_of(groups, rank)
        mine = group.index(rank)
        return np.concatenate([np.split(data[q], n, axis=cut)[mine] for q in group], axis=paste)

    for passes in (None, FULL_PIPELINE):
        check(run(module, [data], passes=passes), want, ranks=ranks, lnc=lnc, lanes=False)


@pytest.mark.parametrize(("ranks", "name"), WORLDS)
@pytest.mark.parametrize("place", [p for p in PLACES if p[0] is HBM], ids=place_id)
@pytest.mark.parametrize("method", ["plain", "tiled"])
def test_implicit_ring(ranks: int, name: str, place: tuple[Memory, int, tuple[int, ...]], method: str) -> None:
    (memory, lnc, cores), groups = place, group_shapes(ranks)[name]
    shape = (4, 3)

    def issue(cg, s, d):
        if method == "plain":
            return cg.collective_permute_cc_raw(None, s, d, groups)
        return cg.tiled_collective_permute_implicit_cc_raw(s, d, groups, channel_id=0, num_channels=1)

    module = build(issue, ranks=ranks, lnc=lnc, memory=memory, dtype="uint8", srcs=[shape], dst=shape, issuers=cores)
    data = inputs(ranks, lnc, memory, shape, "uint8")

    def want(rank: int, core: int) -> np.ndarray:
        group = group_of(groups, rank)
        return data[group[group.index(rank) - 1]]

    for passes in (None, FULL_PIPELINE):
        check(run(module, [data], passes=passes), want, ranks=ranks, lnc=lnc, lanes=False)


@pytest.mark.parametrize(("ranks", "name"), [(4, "all"), (4, "reversed"), (8, "strided"), (64, "shuffled")])
@pytest.mark.parametrize("lnc", [1, 2])
def test_implicit_ring_on_sbuf(ranks: int, name: str, lnc: int) -> None:
    groups, shape = group_shapes(ranks)[name], (4, 3)
    module = build(
        lambda cg, s, d: cg.tiled_collective_permute_implicit_cc_raw(s, d, groups, 0, 1),
        ranks=ranks, lnc=lnc, memory=SBUF, dtype="float32", srcs=[shape], dst=shape,
    )  # fmt: skip
    data = inputs(ranks, lnc, SBUF, shape, "float32")
    want = lambda r, c: data[group_of(groups, r)[group_of(groups, r).index(r) - 1], c]  # noqa: E731
    for passes in (None, FULL_PIPELINE):
        check(run(module, [data], passes=passes), want, ranks=ranks, lnc=lnc, lanes=True)


@pytest.mark.parametrize(("ranks", "name"), WORLDS)
@pytest.mark.parametrize("memory", [HBM, SBUF])
@pytest.mark.parametrize("op", ["add", "max"])
def test_ring_step_that_reduces(ranks: int, name: str, memory: Memory, op: str) -> None:
    groups, shape = group_shapes(ranks)[name], (4, 3)
    module = build(
        lambda cg, s, d: cg.tiled_collective_permute_reduce_implicit_cc_raw(op, s, d, groups, 0, 1),
        ranks=ranks, lnc=1, memory=memory, dtype="bfloat16", srcs=[shape, shape], dst=shape,
    )  # fmt: skip
    lead = (1, *shape) if memory is SBUF else shape
    data = [distinct(ranks, lead, "bfloat16", seed) for seed in (1, 2)]

    def want(rank: int, core: int) -> np.ndarray:
        group = group_of(groups, rank)
        before = group[group.index(rank) - 1]
        return fold([of(d, memory, before, 0) for d in data], op)

    check(run(module, data), want, ranks=ranks, lnc=1, lanes=memory is SBUF)


@pytest.mark.parametrize(
    "pairs", [[(0, 1), (1, 2), (2, 0)], [(0, 0), (1, 2), (2, 1)], [(3, 0), (0, 1), (1, 2), (2, 3)]]
)
@pytest.mark.parametrize("lnc", [1, 2])
def test_explicit_pairs(pairs: list[tuple[int, int]], lnc: int) -> None:
    ranks, shape = 4, (4, 3)
    module = build(
        lambda cg, s, d: cg.tiled_collective_permute_cc_raw(s, d, pairs),
        ranks=ranks, lnc=lnc, memory=HBM, dtype="float32", srcs=[shape], dst=shape,
    )  # fmt: skip
    data = distinct(ranks, shape, "float32")
    got = run(module, [data])
    sources = {t: s for s, t in pairs}
    for rank in range(ranks):
        if rank in sources:
            assert np.array_equal(got[rank], data[sources[rank]])
        else:
            assert np.isnan(got[rank]).all(), "a rank that no pair targets keeps its (here unwritten) destination"


@pytest.mark.parametrize("groups", [[[0, 1, 2]], [[2, 0, 1]]])
@pytest.mark.parametrize("sizes", [(2, 0, 0), (0, 3, 0), (1, 2, 3)])
def test_broadcast(groups: list[list[int]], sizes: tuple[int, ...]) -> None:
    ranks, shape = 3, (3, 4)
    module = build(
        lambda cg, s, d: cg.broadcast_cc_raw(None, s, d, groups, broadcast_sizes=sizes),
        ranks=ranks, lnc=1, memory=HBM, dtype="float32", srcs=[shape], dst=(sum(sizes), 4),
    )  # fmt: skip
    data = distinct(ranks, shape, "float32")
    want = lambda r, c: np.concatenate([data[q, :n] for q, n in zip(groups[0], sizes, strict=True)])  # noqa: E731
    check(run(module, [data]), want, ranks=ranks, lnc=1, lanes=False)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_any_partition_into_ordered_groups(draw: st.DataObject) -> None:
    ranks = draw.draw(st.integers(1, 12))
    order = draw.draw(st.permutations(range(ranks)))
    cuts = sorted(draw.draw(st.sets(st.integers(1, max(1, ranks - 1)), max_size=3)))
    edges = [0, *[c for c in cuts if c < ranks], ranks]
    groups = [list(order[a:b]) for a, b in pairwise(edges)]
    op = draw.draw(st.sampled_from(["add", "max", "min"]))
    dtype = draw.draw(st.sampled_from(["float32", "bfloat16", "int32"]))
    shape = draw.draw(st.sampled_from([(1, 1), (1, 2), (3, 1), (2, 5)]))
    data = distinct(ranks, shape, dtype)
    module = build(
        lambda cg, s, d: cg.all_reduce_cc_raw(op, s, d, groups),
        ranks=ranks, lnc=1, memory=HBM, dtype=dtype, srcs=[shape], dst=shape,
    )  # fmt: skip
    want = lambda r, c: fold([data[q] for q in group_of(groups, r)], op)  # noqa: E731
    check(run(module, [data]), want, ranks=ranks, lnc=1, lanes=False)


@pytest.mark.parametrize("lnc", [1, 2])
def test_the_same_collective_three_times_in_a_row(lnc: int) -> None:
    """Meetings do not pair with an earlier instance of themselves."""
    groups, shape = [[1, 0, 2]], (2, 2)
    module = build(
        lambda cg, s, d: (
            cg.all_reduce_cc_raw("add", s, d, groups),
            cg.all_reduce_cc_raw("add", d, s, groups),
        ),
        ranks=3, lnc=lnc, memory=HBM, dtype="float32", srcs=[shape], dst=shape, times=2,
    )  # fmt: skip
    data = np.arange(3, dtype=np.float32).reshape(3, 1, 1) * np.ones((3, 2, 2), np.float32)
    got = run(module, [data])
    # The sum 3 lands in dst, 9 in src, 27 in dst, 81 in src; dst is returned.
    assert (got == 27).all()
