"""Views of a tensor against NumPy's on the same strides, and the views that are refused."""

import re
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_array_equal

from nkicc import NkiccError
from nkicc.ir.types import Memory

from .helpers import elements, traced

MEMORIES = [nl.shared_hbm, nl.private_hbm, nl.sbuf, nl.psum]
SHAPES = st.lists(st.integers(1, 5), min_size=2, max_size=4).map(tuple)

Draw = Callable[[st.SearchStrategy], Any]


def first_free(view: nl.ndarray) -> int:
    """The first dimension that is not the partition dimension."""
    return 1 if view.on_chip else 0


def index(draw: Draw, view: nl.ndarray) -> tuple[nl.ndarray, np.ndarray]:
    ours: list[Any] = []
    numpys: list[Any] = []
    for dim, extent in enumerate(view.shape):
        start = draw(st.integers(0, extent - 1))
        stop = draw(st.integers(start + 1, extent))
        step = draw(st.integers(1, 3))
        number = slice(start, start + 1) if view.on_chip and dim == 0 else start
        forms = [
            (slice(None), slice(None)),
            (slice(start, stop, step), slice(start, stop, step)),
            (slice(start - extent, None), slice(start, None)),
            (nl.ds(start, stop - start), slice(start, stop)),
            (start, number),
            (np.int64(start - extent), number),
        ]
        our, numpys_own = draw(st.sampled_from(forms))
        ours.append(our)
        numpys.append(numpys_own)
    expected = elements(view)[tuple(numpys)]
    if view.on_chip and expected.ndim < 2:
        expected = expected[:, None]
    return view[tuple(ours)], np.atleast_1d(expected)


def permute(draw: Draw, view: nl.ndarray) -> tuple[nl.ndarray, np.ndarray]:
    first = first_free(view)
    order = [*range(first), *draw(st.permutations(range(first, view.ndim)))]
    return view.permute(order), elements(view).transpose(order)


def expand(draw: Draw, view: nl.ndarray) -> tuple[nl.ndarray, np.ndarray]:
    dim = draw(st.integers(first_free(view), view.ndim))
    return view.expand_dim(dim), np.expand_dims(elements(view), dim)


def broadcast(draw: Draw, view: nl.ndarray) -> tuple[nl.ndarray, np.ndarray]:
    view = view.expand_dim(view.ndim)
    size = draw(st.integers(1, 3))
    before = elements(view)
    return view.broadcast(view.ndim - 1, size), np.broadcast_to(before, (*before.shape[:-1], size))


def squeeze(draw: Draw, view: nl.ndarray) -> tuple[nl.ndarray, np.ndarray]:
    view = view.expand_dim(view.ndim)
    return view.squeeze_dim(-1), elements(view)[..., 0]


def reshape(draw: Draw, view: nl.ndarray) -> tuple[nl.ndarray, np.ndarray]:
    """Refused exactly where NumPy would have to copy."""
    kept = view.shape[: first_free(view)]
    free = int(np.prod(view.shape[len(kept) :]))
    outer = draw(st.sampled_from([n for n in range(1, free + 1) if free % n == 0]))
    shape = (*kept, *draw(st.permutations([outer, free // outer, 1])))
    before = elements(view)
    expected = before.reshape(shape)
    if np.shares_memory(before, expected):
        return view.reshape(shape), expected
    with pytest.raises(NkiccError, match="would need a copy") as caught:
        view.reshape(shape)
    assert caught.value.code == "NKC025"
    return view, before


STEPS = [index, permute, expand, broadcast, squeeze, reshape]


@given(st.data(), st.sampled_from(MEMORIES), SHAPES)
def test_chains_of_views_are_numpys(data: st.DataObject, memory: Memory, shape: tuple[int, ...]) -> None:
    view = traced(lambda: nl.ndarray(shape, nl.float32, memory))
    assert_array_equal(elements(view), np.arange(np.prod(shape)).reshape(shape))
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=5)):
        view, expected = step(data.draw, view)
        assert view.shape == expected.shape
        assert_array_equal(elements(view), expected)


@pytest.mark.parametrize(
    ("memory", "index", "shape"),
    [
        (nl.sbuf, 3, (1, 6, 2)),
        (nl.sbuf, (3, 1, 1), (1, 1)),
        (nl.sbuf, (slice(None), 2, 1), (4, 1)),
        (nl.psum, (..., 1), (4, 6)),
        (nl.shared_hbm, 3, (6, 2)),
        (nl.shared_hbm, (3, 1, 1), (1,)),
        (nl.private_hbm, (..., 1), (4, 6)),
        (nl.private_hbm, (2, ...), (6, 2)),
    ],
)
def test_which_dimensions_an_integer_leaves(memory: Memory, index: Any, shape: tuple[int, ...]) -> None:
    view = traced(lambda: nl.ndarray((4, 6, 2), nl.float32, memory)[index])
    assert view.shape == shape


def test_rearrange_splits_orders_and_merges() -> None:
    view = traced(lambda: nl.ndarray((6, 5, 4), nl.float32, nl.shared_hbm))
    expected = np.arange(120).reshape(2, 3, 5, 4).transpose(1, 0, 2, 3)
    assert_array_equal(elements(view.rearrange((("g", "n"), "b", "d"), ("n", "g", "b", "d"), {"g": 2})), expected)
    merged = view.rearrange((("g", "n"), "b", "d"), ("g", "n", ("b", "d")), {"n": 3})
    assert_array_equal(elements(merged), np.arange(120).reshape(2, 3, 20))


def test_reshape_dim_and_flatten_dims_are_inverse() -> None:
    view = traced(lambda: nl.ndarray((4, 24, 3), nl.bfloat16, nl.sbuf))
    split = view.reshape_dim(1, (2, -1, 4))
    assert split.shape == (4, 2, 3, 4, 3)
    assert split.flatten_dims(1, 3).get_pattern() == view.get_pattern() == [[72, 4], [3, 24], [1, 3]]


def test_view_reads_the_same_bytes() -> None:
    tile = traced(lambda: nl.ndarray((4, 8), nl.float32, nl.sbuf))
    halves = tile[:, 2:6].view(nl.uint16)
    assert (halves.shape, halves.strides, halves.offset, halves.dtype) == ((4, 8), (16, 1), 4, nl.uint16)
    back = halves.view("float32")
    assert back.get_pattern() == tile[:, 2:6].get_pattern()
    assert back.__access__() == tile[:, 2:6].__access__()


def test_attributes() -> None:
    tile = traced(lambda: nl.ndarray([4, np.int64(6), 2], dtype="bfloat16", buffer=nl.psum, name="acc"))
    assert (tile.shape, tile.strides, tile.offset, tile.ndim, tile.size) == ((4, 6, 2), (12, 2, 1), 0, 3, 48)
    assert (tile.name, tile.buffer, tile.dtype, str(tile.dtype)) == ("acc", nl.psum, nl.bfloat16, "bfloat16")
    assert isinstance(tile, nl.ndarray)
    assert tile.is_contiguous()
    assert tile[1:3].is_contiguous()
    assert not tile[:, 1:3, :1].is_contiguous()
    assert not traced(lambda: nl.ndarray((4, 6), nl.float32, nl.hbm))[:, :3].is_contiguous()


def test_unnamed_tensors_have_names_of_their_own() -> None:
    def allocate() -> list[nl.ndarray]:
        return [nl.ndarray((4, 4), nl.float32, memory) for memory in (nl.sbuf, nl.shared_hbm, nl.sbuf, nl.shared_hbm)]

    tensors = traced(allocate)
    assert len({tensor.name for tensor in tensors}) == 4
    assert not any(tensor.storage.named for tensor in tensors)
    # Another core allocates other SBUF tiles in between and still calls the shared tensors the same.
    other = traced(lambda: [nl.ndarray((4, 4), nl.float32, nl.sbuf) for _ in range(3)] + allocate(), lnc=2, core=1)
    assert [t.name for t in other if t.buffer is nl.shared_hbm] == [tensors[1].name, tensors[3].name]


def hbm() -> nl.ndarray:
    return nl.ndarray((4, 6, 2), nl.float32, nl.shared_hbm, name="t")


def sbuf() -> nl.ndarray:
    return nl.ndarray((4, 6, 2), nl.float32, nl.sbuf, name="t")


REFUSED = {
    "index past the end": (lambda: hbm()[4], "NKC025", "index 4 of dimension 0"),
    "slice past the end": (lambda: hbm()[:, 3:7], "NKC025", r"\[3:7:1\] of dimension 1"),
    "empty slice": (lambda: hbm()[2:2], "NKC025", r"\[2:2:1\]"),
    "negative step": (lambda: hbm()[3:0:-1], "NKC025", r"\[3:0:-1\]"),
    "ds past the end": (lambda: hbm()[nl.ds(2, 3)], "NKC025", "3 elements from 2 of dimension 0"),
    "too many indices": (lambda: hbm()[0, 0, 0, 0], "NKC025", "4 indices for 3"),
    "a float": (lambda: hbm()[1.5], "NKC025", "1.5 is not an index"),
    "a float bound": (lambda: hbm()[: 6 / 2], "NKC025", "not an integer"),
    "reshape to another size": (lambda: hbm().reshape((5, 10)), "NKC025", "48 and 50 elements"),
    "reshape of partitions": (lambda: sbuf().reshape((8, 6)), "NKC025", "partition dimension"),
    "split of partitions": (lambda: sbuf().reshape_dim(0, (2, 2)), "NKC025", "neither split nor merged"),
    "merge of partitions": (lambda: sbuf().flatten_dims(0, 1), "NKC025", "neither split nor merged"),
    "permuted partitions": (lambda: sbuf().permute((1, 0, 2)), "NKC025", "in SBUF or PSUM"),
    "permute without a dimension": (lambda: hbm().permute((0, 1)), "NKC025", "permute"),
    "broadcast of more than one": (lambda: hbm().broadcast(1, 6), "NKC025", "broadcast"),
    "squeeze of more than one": (lambda: hbm().squeeze_dim(1), "NKC025", "squeeze_dim"),
    "select of partitions": (lambda: sbuf().select(0, 1), "NKC025", "cannot be dropped"),
    "no such dimension": (lambda: hbm().slice(3, 0, 1), "NKC025", "no dimension 3"),
    "rearrange with other names": (lambda: hbm().rearrange("abc", "abd"), "NKC025", "rearrange"),
    "view of odd bytes": (
        lambda: hbm()[:, :, :1].view(nl.uint8).view(nl.float32)[0].view("uint64"),
        "NKC025",
        "uint64",
    ),
    "view of a stride": (lambda: hbm()[:, :, 0].view(nl.uint16), "NKC025", "strides"),
    "iteration": (lambda: list(hbm()), "NKC025", "not a sequence"),
    "truth": (lambda: bool(hbm()), "NKC025", "when the program runs"),
    "no extent": (lambda: nl.ndarray((), nl.float32), "NKC020", "shape"),
    "zero extent": (lambda: nl.ndarray((4, 0), nl.float32), "NKC020", r"\(4, 0\)"),
    "float extent": (lambda: nl.ndarray((4, 2.0), nl.float32), "NKC020", "2.0"),
    "too many partitions": (lambda: nl.ndarray((129, 2), nl.float32), "NKC021", "129"),
    "name taken": (lambda: (hbm(), hbm()), "NKC022", "'t'"),
    "no such dtype": (lambda: nl.ndarray((4, 4), "float64"), "NKC028", "float64"),
    "buffer as a string": (lambda: nl.ndarray((4, 4), nl.float32, "sbuf"), "NKC035", "nl.sbuf"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_views_are_refused_at_the_line_of_the_kernel(case: str) -> None:
    function, code, text = REFUSED[case]
    with pytest.raises(NkiccError) as caught:
        traced(function)
    assert caught.value.code == code
    assert re.search(text, caught.value.message)
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
