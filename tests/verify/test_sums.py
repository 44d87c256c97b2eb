"""Sums over a ring: every rank's part once, and nothing that a ring brings is left unread."""

from __future__ import annotations

from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import pytest

from nkicc import session
from nkicc.ir.findings import Finding, Severity
from nkicc.lowering import lower
from nkicc.verify import check

from .helpers import line_of, x_of

CODES = {"NKC130", "NKC131", "NKC132"}


def found(kernel: Any, ranks: int = 4, lnc: int = 1) -> list[Finding]:
    traced = session.trace(kernel, ranks=ranks, lnc=lnc, inputs={"x": x_of(0), "size": ranks})
    findings = check(lower(traced.module))
    assert [f for f in findings if f.severity is Severity.error] == []
    return [f for f in findings if f.code in CODES]


def codes(kernel: Any, ranks: int = 4, lnc: int = 1) -> list[str]:
    return [f.code for f in found(kernel, ranks, lnc)]


def result(x: Any, *rows: int) -> Any:
    return nl.ndarray((*rows, *x.shape), x.dtype, nl.shared_hbm, name="result")


def tiles(x: Any, count: int) -> list[Any]:
    return [nl.ndarray(x.shape, x.dtype) for _ in range(count)]


def hop(source: Any, target: Any, size: int) -> None:
    ncc.collective_permute_implicit([[source]], [[target]], ncc.ReplicaGroup([list(range(size))]))


def ring_sum(hops: int, *, begin: bool = True, scaled: bool = False) -> Any:
    """A kernel that adds what `hops` hops bring to its own block, or to zeros."""

    def kernel(x: Any, size: int) -> Any:
        out, (a, b, total) = result(x), tiles(x, 3)
        nisa.dma_copy(a, x)
        if begin:
            nisa.tensor_copy(total, a)
        else:
            nisa.memset(total, 0.0)
        for _ in range(hops):
            hop(a, b, size)
            nisa.tensor_tensor(total, total, b, nl.add)
            a, b = b, a
        if scaled:
            nisa.tensor_scalar(total, total, nl.multiply, 1 / size)
        nisa.dma_copy(out, total)
        return out

    return kernel


@pytest.mark.parametrize(
    ("ranks", "hops", "code"),
    [(4, 3, ""), (4, 2, "NKC131"), (4, 4, "NKC130"), (8, 7, ""), (8, 6, "NKC131"), (8, 9, "NKC130"), (2, 2, "NKC130")],
)
@pytest.mark.parametrize("scaled", [False, True])
def test_hops_of_a_sum(ranks: int, hops: int, code: str, scaled: bool) -> None:
    kernel = ring_sum(hops, scaled=scaled)
    findings = found(kernel, ranks)
    assert [f.code for f in findings] == ([code] if code else [])
    for f in findings:
        assert f.severity is Severity.warning
        assert f.loc is not None
        assert f.loc.line == line_of(ring_sum, "nl.add")
        assert f.related[0].loc is not None
        assert f.related[0].loc.line == line_of(ring_sum, "dma_copy(out")


@pytest.mark.parametrize("hops", [1, 3, 5])
def test_a_window_is_left_alone(hops: int) -> None:
    assert codes(ring_sum(hops), 8) == []


def test_the_rank_s_own_part_is_missed() -> None:
    (missing,) = found(ring_sum(3, begin=False))
    assert missing.code == "NKC131"
    assert "0 hop(s) away" in missing.message
    assert codes(ring_sum(4, begin=False)) == []


def scan(x: Any, size: int) -> Any:
    """Every partial sum is stored."""
    out, (a, b, total) = result(x, size), tiles(x, 3)
    nisa.dma_copy(a, x)
    nisa.tensor_copy(total, a)
    nisa.dma_copy(out[0], total)
    for step in range(1, size):
        hop(a, b, size)
        nisa.tensor_tensor(total, total, b, nl.add)
        nisa.dma_copy(out[step], total)
        a, b = b, a
    return out


def residual(x: Any, size: int) -> Any:
    """The block itself is added to the sum of all."""
    out, (a, b, total) = result(x), tiles(x, 3)
    nisa.dma_copy(a, x)
    nisa.dma_copy(total, x)
    nisa.tensor_tensor(total, total, a, nl.add)
    for _ in range(size - 1):
        hop(a, b, size)
        nisa.tensor_tensor(total, total, b, nl.add)
        a, b = b, a
    nisa.dma_copy(out, total)
    return out


def both_ways(x: Any, size: int) -> Any:
    """Half of the blocks come from either side, around two rings of their own."""
    out, (a, b, total, mine) = result(x), tiles(x, 4)
    nisa.dma_copy(mine, x)
    nisa.tensor_copy(total, mine)
    for order in (list(range(size)), list(range(size))[::-1]):
        nisa.tensor_copy(a, mine)
        for _ in range(size // 2):
            ncc.collective_permute_implicit([[a]], [[b]], ncc.ReplicaGroup([order]))
            nisa.tensor_tensor(total, total, b, nl.add)
            a, b = b, a
    nisa.dma_copy(out, total)
    return out


def sum_travels(hops: int) -> Any:
    """The sum goes around, and each rank adds its own."""

    def kernel(x: Any, size: int) -> Any:
        out, (own, held, come) = result(x), tiles(x, 3)
        nisa.dma_copy(own, x)
        nisa.tensor_copy(held, own)
        for _ in range(hops):
            hop(held, come, size)
            nisa.tensor_tensor(held, come, own, nl.add)
        nisa.dma_copy(out, held)
        return out

    return kernel


def halves(x: Any, size: int) -> Any:
    """Two channels, each with half of the columns."""
    out = result(x)
    group, half = ncc.ReplicaGroup([list(range(size))]), x.shape[1] // 2
    parts = [nl.ds(channel * half, half) for channel in range(2)]
    a, b, totals = (tiles(x[:, 0:half], 2) for _ in range(3))
    for channel, columns in enumerate(parts):
        nisa.dma_copy(a[channel], x[:, columns])
        nisa.tensor_copy(totals[channel], a[channel])
    for _ in range(size - 2):
        ncc.collective_permute_implicit([[t] for t in a], [[t] for t in b], group, channel_ids=[0, 1])
        for total, come in zip(totals, b, strict=True):
            nisa.tensor_tensor(total, total, come, nl.add)
        a, b = b, a
    for total, columns in zip(totals, parts, strict=True):
        nisa.dma_copy(out[:, columns], total)
    return out


def device_loop(turns: int) -> Any:
    def kernel(x: Any, size: int) -> Any:
        out, (a, b, total) = result(x), tiles(x, 3)
        nisa.dma_copy(a, x)
        nisa.tensor_copy(total, a)

        def turn(_: Any) -> None:
            hop(a, b, size)
            nisa.tensor_tensor(total, total, b, nl.add)
            nisa.tensor_copy(a, b)

        nl.fori_loop(0, turns, turn)
        nisa.dma_copy(out, total)
        return out

    return kernel


@pytest.mark.parametrize("kernel", [scan, residual, both_ways])
@pytest.mark.parametrize("ranks", [4, 8])
def test_other_sums_are_left_alone(kernel: Any, ranks: int) -> None:
    assert codes(kernel, ranks) == []


@pytest.mark.parametrize("form", [sum_travels, device_loop])
def test_other_forms_of_a_sum(form: Any) -> None:
    assert [codes(form(hops)) for hops in (2, 3, 4)] == [["NKC131"], [], ["NKC130"]]


def test_halves_of_a_sum_on_two_channels() -> None:
    assert codes(halves) == ["NKC131"]


def superfluous(x: Any, size: int) -> Any:
    """A gather whose last hop brings every rank's own block back."""
    out, (a, b) = result(x, size), tiles(x, 2)
    group = ncc.ReplicaGroup([list(range(size))])
    nisa.dma_copy(a, x)
    for step in range(size):
        owner = ncc.collective_permute_implicit_current_processing_rank_id(step, group)
        nisa.dma_copy(out.select(0, owner), a)
        hop(a, b, size)
        a, b = b, a
    return out


def other_core_reads(x: Any, size: int) -> Any:
    out = result(x)
    local, moved = (nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name=name) for name in ("local", "moved"))
    if nl.program_id() == 0:
        nisa.dma_copy(local, x)
        hop(local, moved, size)
    nisa.core_barrier(moved, (0, 1))
    if nl.program_id() == 1:
        nisa.dma_copy(out, moved)
    return out


def test_an_arrival_that_nothing_reads() -> None:
    (unread,) = found(superfluous)
    assert unread.code == "NKC132"
    assert unread.loc is not None
    assert unread.loc.line == line_of(hop, "permute_implicit")
    assert codes(other_core_reads, lnc=2) == []
