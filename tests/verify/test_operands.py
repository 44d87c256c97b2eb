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


def two_channels(x: Any, sent: list[slice], received: list[slice]) -> Any:
    """Two halves of one tensor move around the ring, each on a channel of its own."""
    near, far, out = hbm(x, "near"), hbm(x, "far"), hbm(x)
    nisa.dma_copy(near, x)
    nisa.dma_copy(far, x)
    tensors = {"near": near, "far": far}
    srcs = [[tensors[name][part]] for name, part in sent]
    dsts = [[tensors[name][part]] for name, part in received]
    ncc.collective_permute_implicit(srcs, dsts, ALL, channel_ids=[0, 1])
    nisa.dma_copy(out, far)
    return out


TOP, BOTTOM = slice(0, 4), slice(4, 8)


@pytest.mark.parametrize(
    ("sent", "received", "operand", "what"),
    [
        ([("near", TOP), ("near", BOTTOM)], [("far", TOP), ("far", BOTTOM)], None, ""),
        ([("near", TOP), ("near", BOTTOM)], [("near", TOP), ("near", BOTTOM)], None, ""),
        ([("near", TOP), ("near", BOTTOM)], [("far", TOP), ("far", TOP)], "dsts[0]", "also what channel 1 of"),
        ([("near", TOP), ("far", TOP)], [("far", TOP), ("near", BOTTOM)], "dsts[0]", "what channel 1 of"),
        (
            [("near", TOP), ("far", TOP)],
            [("far", BOTTOM), ("near", slice(2, 6))],
            "dsts[0]",
            "what channel 0 of",
        ),
    ],
)
def test_transfers_of_one_collective_do_not_share_memory(
    sent: Any, received: Any, operand: str | None, what: str
) -> None:
    found = errors(two_channels, {"x": np.ones((8, 4), np.float32), "sent": sent, "received": received})
    if operand is None:
        assert found == []
        return
    (one,) = found
    assert one.loc is not None
    assert (one.code, one.operand) == ("NKC133", operand)
    assert what in one.message
    assert one.loc.line == line_of(two_channels, "collective_permute_implicit")
