"""Kernel inputs and outputs, and unnamed tensors, as operands of collectives."""

from __future__ import annotations

from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkicc
from nkicc import NkiccError
from nkicc.ir.findings import Severity

from .helpers import codes, errors, findings, line_of, x_of

ALL = ncc.ReplicaGroup([[0, 1, 2, 3]])
INPUTS = {"x": x_of(0)}


def hbm(x: nl.ndarray, name: str | None = None) -> nl.ndarray:
    return nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name=name)


def reads_input(x: Any) -> Any:
    total, out = hbm(x, "total"), hbm(x)
    ncc.all_reduce([x], [total], ALL, nl.add)
    nisa.dma_copy(out, total)
    return out


def writes_output(x: Any) -> Any:
    own, out = hbm(x, "own"), hbm(x, "out")
    nisa.dma_copy(own, x)
    ncc.all_reduce([own], [out], ALL, nl.add)
    return out


@pytest.mark.parametrize("lnc", [1, 2])
def test_a_kernel_input_is_refused_as_an_operand(lnc: int) -> None:
    (found,) = errors(reads_input, INPUTS, lnc=lnc)
    assert found.code == "NKC140"
    assert found.message == "Collective instruction cannot read/write IO tensors: 'x' is a kernel input"
    assert "Copy it to an internal tensor" in found.hint
    assert found.loc is not None
    assert (found.operand, found.loc.line) == ("srcs", line_of(reads_input, "all_reduce"))
    assert found.cores == tuple(range(lnc))


def test_a_kernel_output_is_refused_as_an_operand() -> None:
    (found,) = errors(writes_output, INPUTS)
    assert (found.code, found.operand) == ("NKC140", "dsts")
    assert "'out' is a kernel output" in found.message


@pytest.mark.parametrize("kernel", [reads_input, writes_output])
def test_a_switch_allows_them(kernel: Any) -> None:
    assert errors(kernel, INPUTS, allow_io=True) == []
    with pytest.raises(NkiccError) as caught:
        nkicc.run(kernel, ranks=4, inputs=lambda rank: {"x": x_of(rank)})
    assert caught.value.code == "NKC140"
    result = nkicc.run(kernel, ranks=4, inputs=lambda rank: {"x": x_of(rank)}, allow_io=True)
    for output in result.outputs:
        np.testing.assert_array_equal(output, sum(x_of(rank) for rank in range(4)))


def test_an_hbm_operand_needs_a_name() -> None:
    def kernel(x: Any) -> Any:
        own, total, out = hbm(x), hbm(x, "total"), hbm(x)
        nisa.dma_copy(own, x)
        ncc.all_reduce([own], [total], ALL, nl.add)
        nisa.dma_copy(out, total)
        return out

    (found,) = [found for found in findings(kernel, INPUTS) if found.code == "NKC141"]
    assert found.severity is Severity.warning
    assert found.operand == "srcs"
    assert "NCC_IBIR440" in found.hint
    (found,) = [found for found in errors(kernel, INPUTS, strict=True) if found.code == "NKC141"]
    result = nkicc.run(kernel, ranks=4, inputs=INPUTS)
    assert "NKC141" in {warning.code for warning in result.report.warnings}


def test_sbuf_operands_need_no_name() -> None:
    def kernel(x: Any) -> Any:
        own, total, out = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype), hbm(x)
        nisa.dma_copy(own, x)
        ncc.all_reduce([own], [total], ALL, nl.add)
        nisa.dma_copy(out, total)
        return out

    assert codes(kernel, INPUTS) == set()
