"""Copies and comparisons of large arrays, which several threads share, against plain NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nkicc.ir.bir import CCChannel, CollectiveKind, InstCollectiveCompute
from nkicc.ir.isa import DmaMode, InstDMACopy
from nkicc.ir.types import AluOp
from nkicc.simulator.numerics import assign, copy, same_bits, take_rows

from .bir_modules import module, run, tensor

DTYPES = ["uint8", "float16", "float32", "bfloat16"]


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    bits = np.random.default_rng(seed).integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
    return bits.view(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)[..., 0]


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [4096, 4099])
@pytest.mark.parametrize("rows", [1, 2, 3, 64])
def test_large_copies_and_comparisons(rows: int, columns: int, dtype: str) -> None:
    value = numbers((rows, 64, columns), dtype)[:, :, 1:]
    out = numbers((rows, 65, columns), dtype, seed=1)[:, 1:, :-1]
    assert not same_bits(out, value)
    copy(out, value)
    assert bits(out) == bits(value)
    assert same_bits(out, value)
    for row in range(rows):
        changed = out.copy()
        changed[row, -1, -1:].view(np.uint8)[:] ^= 1
        assert not same_bits(changed, value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axes", [(0, 2, 1, 3), (0, 3, 2, 1), (0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2)])
def test_large_transpositions(axes: tuple[int, ...], dtype: str) -> None:
    value = numbers((8, 32, 48, 100), dtype)[:, :, ::2, 1:].transpose(axes)
    out = numbers((8, *value.shape[1:-1], value.shape[-1] + 3), dtype, seed=1)[..., 2:-1]
    copy(out, value)
    assert bits(out) == bits(value)


@pytest.mark.parametrize("shift", [1, 5, 40])
def test_a_copy_within_one_tensor_reads_before_it_writes(shift: int) -> None:
    for down in (True, False):
        data = numbers((65, 1 << 14), "float32")
        out, value = (data[shift:], data[:-shift]) if down else (data[:-shift], data[shift:])
        want = bits(value)
        copy(out, value)
        assert bits(out) == want


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 9), st.data())
def test_rows_are_taken_in_any_order(ranks: int, data: st.DataObject) -> None:
    rows = np.array(data.draw(st.lists(st.integers(0, ranks - 1), min_size=ranks, max_size=ranks)))
    if data.draw(st.booleans()):
        rows = np.roll(np.arange(ranks), data.draw(st.integers(0, ranks)))
    value = numbers((ranks, 3, 1 << 14), "float32")[:, :, 5:]
    out = np.zeros_like(value)
    take_rows(out, value, rows)
    assert bits(out) == bits(value[rows])


# --- 64 bits ---------------------------------------------------------------------------------------------------------

#: Low bits that float64 loses, and values on both sides of 2^63.
EDGES = [0, 1, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 2, (1 << 64) - 1]


def wrapped(value: int, dtype: str) -> int:
    info = np.iinfo(dtype)
    return (value - info.min) % (1 << 64) + info.min


@pytest.mark.parametrize("dtype", ["uint64", "int64"])
@pytest.mark.parametrize("op", [AluOp.add, AluOp.max, AluOp.min])
@pytest.mark.parametrize("shape", [(1, 1), (2, 4), (64, 128)], ids=["one element", "few", "large rows"])
@pytest.mark.parametrize("groups", [((0, 1, 2, 3),), ((0, 2), (1, 3))], ids=["all", "apart"])
@pytest.mark.parametrize("uniform", [False, True])
def test_64_bit_integers_are_reduced_in_their_own_type(
    dtype: str, op: AluOp, shape: tuple[int, int], groups: tuple[tuple[int, ...], ...], uniform: bool
) -> None:
    rng = np.random.default_rng(1)
    x = rng.choice(np.array(EDGES, np.uint64), (1 if uniform else 4, *shape)).view(dtype)
    source, target = tensor("x", shape, dtype), tensor("y", shape, dtype)
    inst = InstCollectiveCompute(
        srcs=(source.full(),), dsts=(target.full(),), cc_channel=CCChannel(CollectiveKind.AllReduce, groups, op)
    )
    built = module((inst,), shared=(source, target), inputs=("x",), outputs=("y",), ranks=4)
    y = np.broadcast_to(run(built, x=x).outputs[0][0], (4, *shape))
    per_rank = np.broadcast_to(x, (4, *shape)).reshape(4, -1).tolist()
    fold = {AluOp.add: lambda v: wrapped(sum(v), dtype), AluOp.max: max, AluOp.min: min}[op]
    for group in groups:
        expected = [fold(column) for column in zip(*[per_rank[rank] for rank in group], strict=True)]
        for rank in group:
            assert y[rank].ravel().tolist() == expected


@pytest.mark.parametrize("op", [AluOp.add, AluOp.max])
def test_a_folding_dma_of_64_bit_integers(op: AluOp) -> None:
    x = np.array(EDGES, np.uint64).reshape(1, 2, 4)
    source, target = tensor("x", (2, 4), "uint64"), tensor("y", (2, 4), "uint64")
    inst = InstDMACopy(dst=target.full(), srcs=(source.full(),) * 3, mode=DmaMode.cce, op=op)
    built = module((inst,), shared=(source, target), inputs=("x",), outputs=("y",))
    expected = [wrapped(3 * value, "uint64") if op is AluOp.add else value for value in EDGES]
    assert run(built, x=x).outputs[0][0].ravel().tolist() == expected


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_casts_to_integers_saturate_at_the_limits_of_the_type(dtype: str) -> None:
    info = np.iinfo(dtype)
    out = np.empty(6, dtype)
    assign(out, np.array([np.inf, 1e30, 2.0**64, -np.inf, np.nan, 3.0], np.float32))
    assert out.tolist() == [info.max, info.max, info.max, info.min, 0, 3]
    for kind in ("uint64", "int64"):
        limits = np.array([np.iinfo(kind).min, 1, np.iinfo(kind).max], kind)
        out = np.empty(3, dtype)
        assign(out, limits)
        assert out.tolist() == [max(info.min, np.iinfo(kind).min), 1, min(info.max, np.iinfo(kind).max)]
