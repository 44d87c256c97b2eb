"""The operand mappers, tiles, and the forms that arguments may have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nkicc.ir.access import AccessPattern
from nkicc.ir.penguin import HbmTensor
from nkicc.ir.types import AluOp, DType

from .helpers import codegen, refused

TILE = ((16, 2), (1, 16))


def elements(ap: AccessPattern) -> np.ndarray:
    """The element of the tensor at each place of a static pattern."""
    place = np.full(ap.shape, ap.offset)
    for axis, (stride, count) in enumerate(ap.pattern):
        place += (stride * np.arange(count)).reshape([-1 if k == axis else 1 for k in range(len(ap.shape))])
    return place


def test_nd_access_is_a_tuple_of_patterns() -> None:
    made = codegen()
    a, view = made.tensors["a"], AccessPattern("b", TILE, 16)
    assert made._map_to_nd_access(a) == (AccessPattern("a", ((16, 8), (1, 16))),)
    assert made._map_to_nd_access([a, view]) == (a.full(), view)
    assert made._map_to_nd_access(()) == ()


def test_hbm_tensors_are_whole() -> None:
    made = codegen()
    a, own = made.tensors["a"], made.tensors["own"]
    assert made._map_to_hbm_tensors([a, own]) == (HbmTensor("a", (8, 16)), HbmTensor("own", (8, 16)))
    assert made._map_to_hbm_tensors(AccessPattern("a", ((1, 128),))) == (HbmTensor("a", (128,)),)


@pytest.mark.parametrize(
    "view",
    [
        AccessPattern("a", ((16, 7), (1, 16))),
        AccessPattern("a", ((16, 8), (1, 15))),
        AccessPattern("a", ((16, 7), (1, 16)), 16),
        AccessPattern("a", ((1, 16), (16, 8))),
        AccessPattern("a", ((-16, 8), (1, 16)), 112),
        AccessPattern("a", ((16, 8), (1, 16)), dtype=DType.int32),
        AccessPattern("a", ((16, 8), (1, 16)), scalar_offset="r0", indirect_stride=16),
        AccessPattern("s", ((64, 128), (1, 64))),
    ],
)
def test_nothing_else_is_a_whole_hbm_tensor(view: AccessPattern) -> None:
    refused(codegen(), lambda cg: cg._map_to_hbm_tensors(view), "NKC057")


def test_one_tile_is_itself() -> None:
    made = codegen()
    tile = AccessPattern("a", TILE, 32)
    assert made.combine_tiles(tile) is tile
    assert made.combine_tiles([tile]) is tile
    assert made.combine_tiles(made.tensors["a"]) == made.tensors["a"].full()


@given(start=st.integers(0, 6), step=st.sampled_from([-3, -1, 1, 2]), count=st.integers(2, 4))
def test_tiles_become_an_outer_pair(start: int, step: int, count: int) -> None:
    tiles = [AccessPattern("wide", TILE, 16 * (10 + start + step * k)) for k in range(count)]
    combined = codegen().combine_tiles(tiles)
    assert combined.pattern == ((16 * step, count), *TILE)
    assert np.array_equal(elements(combined), np.stack([elements(tile) for tile in tiles]))


@pytest.mark.parametrize(
    "tiles",
    [
        [],
        [AccessPattern("a", TILE, 0), AccessPattern("b", TILE, 32)],
        [AccessPattern("a", TILE, 0), AccessPattern("a", ((16, 2), (1, 15)), 32)],
        [AccessPattern("a", TILE, 0), AccessPattern("a", TILE, 32), AccessPattern("a", TILE, 48)],
        [AccessPattern("a", TILE, 0), AccessPattern("a", TILE, 32, dtype=DType.int32)],
        [AccessPattern("a", TILE, 32), AccessPattern("a", TILE, 32)],
    ],
)
def test_tiles_that_do_not_line_up(tiles: list[AccessPattern]) -> None:
    refused(codegen(), lambda cg: cg.combine_tiles(tiles), "NKC062")


def test_the_names_of_indirect_tiles_are_told() -> None:
    index = AccessPattern("counts", ((1, 2),))
    tiles = [AccessPattern(name, TILE, vector_offset=index, indirect_stride=16) for name in ("a", "b", "a")]
    refused(
        codegen(),
        lambda cg: cg.combine_tiles(tiles),
        "NKC060",
        message="cannot use indirect indexing access with the current NKI API for a, b",
    )


def test_a_permute_is_chunked_per_tile() -> None:
    made = codegen()
    src = [AccessPattern("s", ((64, 128), (1, 16)), 16 * k) for k in (0, 1, 2)]
    dst = [AccessPattern("t", ((64, 128), (1, 16)), 16 * k) for k in (1, 2, 3)]
    op = made.tiled_collective_permute_implicit_cc_raw(src, dst, [[0, 1, 2, 3]], 0, 1)
    assert op.srcs == (AccessPattern("s", ((16, 3), (64, 128), (1, 16))),)
    assert op.dsts == (AccessPattern("t", ((16, 3), (64, 128), (1, 16)), 16),)


class Group:
    def __init__(self, groups: Any) -> None:
        self.groups = groups


@pytest.mark.parametrize(
    "groups",
    [
        [[0, 2], [3, 1]],
        ((0, 2), (3, 1)),
        np.array([[0, 2], [3, 1]]),
        [np.array([0, 2]), (np.int32(3), 1)],
        Group([[0, 2], [3, 1]]),
        Group(((0, 2), (3, 1))),
    ],
    ids=lambda groups: type(groups).__name__,
)
def test_groups_are_tuples_of_ints_in_the_order_given(groups: Any) -> None:
    made = codegen()
    for _ in range(2):
        op = made.all_reduce_cc_raw("add", made.tensors["a"], made.tensors["b"], groups)
        assert op.replica_groups == ((0, 2), (3, 1))
        assert {type(rank) for group in op.replica_groups for rank in group} == {int}


def test_a_list_of_groups_may_change_between_calls() -> None:
    made = codegen()
    groups = [[0, 1], [2, 3]]
    first = made.all_reduce_cc_raw("add", made.tensors["a"], made.tensors["b"], groups)
    groups[0], groups[1] = [0, 3], [2, 1]
    second = made.all_reduce_cc_raw("add", made.tensors["a"], made.tensors["b"], groups)
    assert (first.replica_groups, second.replica_groups) == (((0, 1), (2, 3)), ((0, 3), (2, 1)))


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("add", AluOp.add),
        ("max", AluOp.max),
        ("maximum", AluOp.max),
        ("min", AluOp.min),
        ("minimum", AluOp.min),
        (AluOp.min, AluOp.min),
    ],
)
def test_spellings_of_a_reduce_op(op: Any, expected: AluOp) -> None:
    made = codegen()
    assert made.all_reduce_cc(op, made.tensors["a"], made.tensors["b"]).op is expected


def test_integers_of_numpy_are_integers() -> None:
    made = codegen()
    op = made.all_gather_cc(None, made.tensors["a"], made.tensors["wide"], np.int64(0))  # type: ignore[arg-type]
    assert type(op.all_gather_dim) is int
    sent = made.broadcast_cc(None, made.tensors["a"], made.tensors["b"], np.array([0, 0, 8, 0]))  # type: ignore[arg-type]
    assert [type(size) for size in sent.broadcast_sizes] == [int] * 4
    permute = made.tiled_collective_permute_cc_raw(made.tensors["a"], made.tensors["b"], np.array([[0, 1]]))  # type: ignore[arg-type]
    assert permute.src_tgt_pairs == ((0, 1),)
    assert type(permute.src_tgt_pairs[0][0]) is int
