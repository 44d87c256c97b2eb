"""The instructions of the vector and scalar engines survive the way through JSON, infinite constants included."""

from __future__ import annotations

from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np

import nkicc
from nkicc.ir import isa
from nkicc.ir.program import Module

from .tiles import load, store

INFINITE = float("inf")


def kernel(x: nl.ndarray) -> tuple[nl.ndarray, ...]:
    data, column = load(x), nl.full((4, 1), 1.0, nl.float32)
    total, stats = nl.ndarray((4, 1), nl.float32), nl.ndarray((4, 6), nl.float32)
    mask, folds = nl.full(x.shape, 1, nl.uint8), nisa.reduce_cmd
    outs: list[Any] = []

    def out() -> nl.ndarray:
        outs.append(nl.ndarray(x.shape, nl.float32))
        return outs[-1]

    nisa.tensor_tensor(out(), data, data, nl.subtract)
    nisa.tensor_scalar(out(), data, nl.minimum, INFINITE, op1=nl.maximum, operand1=-INFINITE)
    nisa.scalar_tensor_tensor(out(), data, nl.add, column, nl.multiply, data, reduce_op=nl.add, reduce_res=total)
    nisa.reciprocal(out(), data)
    nisa.exponential(out(), data, column, total, folds.load_reduce, -INFINITE)
    nisa.tensor_reduce(total, nl.add, data, 1, negate=True)
    nisa.tensor_partition_reduce(out()[:1], nl.average, data)
    nisa.memset(outs[-1][1:], 0.0)
    nisa.tensor_scalar_reduce(out(), data, nl.add, 1.0, nl.maximum, total, reduce_res_negate=True)
    nisa.tensor_tensor_scan(out(), data, data, -INFINITE, nl.maximum, nl.add)
    nisa.tensor_scalar_cumulative(out(), data, nl.add, nl.add, column, 2.0, folds.load_reduce)
    nisa.activation(out(), nl.gelu, data, column, 0.5, nl.add, total, folds.reset_reduce)
    nisa.activate2(out(), nl.prelu, data, 1.0, column, nl.multiply, nl.add, 0.25)
    nisa.iota(out(), [[1, 8]], offset=3)
    nisa.affine_select(out(), [[1, 8]], -1, data, -INFINITE, nl.greater_equal)
    nisa.range_select(out(), data, nl.greater, nl.less, column, column)
    nisa.select_reduce(out(), mask, data, INFINITE, total, folds.reset_reduce)
    nisa.dropout(out(), data, 0.5)
    nisa.bn_stats(stats, data)
    nisa.bn_aggr(out()[:, :2], stats)
    nisa.memset(outs[-1][:, 2:], 0.0)
    return tuple(store(t) for t in outs)


def test_a_program_of_all_of_them_reads_back_equal() -> None:
    inputs = {"x": np.arange(1, 33, dtype=np.float32).reshape(4, 8)}
    result = nkicc.run(kernel, ranks=2, inputs=inputs, target="trn3")
    again = Module.from_json(result.program.to_json())
    assert again == result.program
    kinds = {type(inst).__name__ for inst in again.programs[0].cores[0].body}
    families = "vector", "reduce", "scan", "scalar", "index", "select", "dropout", "statistics"
    mine = {name for name in isa.__all__ if getattr(isa, name).__module__.rpartition(".")[2] in families}
    assert {name for name in mine if name.startswith("Inst")} <= kinds
