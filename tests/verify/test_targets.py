"""Rules of machines and releases: warnings, each with its source, and errors if asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkicc
from nkicc import NkiccError
from nkicc.ir.errors import CATALOGUE
from nkicc.ir.findings import Severity
from nkicc.verify import check
from nkicc.verify.targets import RULES

from .helpers import findings, lowered


def hbm(name: str, shape: tuple[int, ...], dtype: Any = nl.float32, buffer: Any = nl.shared_hbm) -> nl.ndarray:
    return nl.ndarray(shape, dtype, buffer, name=name)


def reduce(groups: Any, name: str = "r", dtype: Any = nl.float32, buffers: Any = (nl.shared_hbm,) * 2) -> None:
    a, b = hbm(f"{name}a", (2, 4), dtype, buffers[0]), hbm(f"{name}b", (2, 4), dtype, buffers[1])
    ncc.all_reduce([a], [b], ncc.ReplicaGroup(groups), nl.add)


def sbuf(groups: Any) -> None:
    ncc.all_reduce([nl.ndarray((2, 4), nl.float32)], [nl.ndarray((2, 4), nl.float32)], ncc.ReplicaGroup(groups), nl.add)


def ring(ranks: int, channels: int) -> None:
    tiles = [[hbm(f"{side}{channel}", (2, 4)) for channel in range(channels)] for side in "ab"]
    group = ncc.ReplicaGroup([list(range(ranks))])
    ncc.collective_permute_implicit(
        [[t] for t in tiles[0]], [[t] for t in tiles[1]], group, channel_ids=list(range(channels))
    )


def permute(pairs: Any) -> None:
    ncc.collective_permute([hbm("a", (2, 4))], [hbm("b", (2, 4))], pairs)


def exchange(groups: Any, dim: int = 0) -> None:
    size = len(groups[0])
    shape = (size, size)
    ncc.all_to_all([hbm("a", shape)], [hbm("b", shape)], ncc.ReplicaGroup(groups), dim)


def gather_dim_1(groups: Any, on_sbuf: bool) -> None:
    n = len(groups[0])
    a, b = (nl.ndarray((2, 4 * k), nl.float32) if on_sbuf else hbm(f"t{k}", (2, 4 * k)) for k in (1, n))
    ncc.all_gather([a], [b], ncc.ReplicaGroup(groups), 1)


def variable(issue: Callable[..., Any], groups: Any, rows: int = 3, **options: Any) -> None:
    n = len(groups[0])
    table = hbm("table", (rows, n), nl.uint32)
    issue([hbm("a", (8 * n,))], [hbm("b", (8 * n,))], ncc.ReplicaGroup(groups), table, **options)


def swap(partitions: int) -> None:
    core = nl.program_id(0)
    src, dst = (nl.ndarray((partitions, 4), nl.float32) for _ in range(2))
    nisa.memset(src, 1.0)
    nisa.sendrecv(src, dst, 1 - core, 1 - core, 0)


def in_while(x: Any) -> None:
    register, one = nisa.register_alloc(0), nl.ndarray((1, 1), nl.int32)
    nisa.register_load(register, one)
    a, b = hbm("a", (2, 4)), hbm("b", (2, 4))

    def body(_: Any) -> Any:
        ncc.all_reduce([a], [b], ncc.ReplicaGroup([[0, 1]]), nl.add)
        return register

    nl.while_loop(register, body)


def many_groups(count: int) -> None:
    for i in range(count):
        order = [*range(i, 32), *range(i)]
        reduce([order], f"r{i}")


class Case(NamedTuple):
    """`issue` breaks the rule with these options, `right` keeps it with the same."""

    code: str
    issue: Callable[[], Any]
    right: Callable[[], Any] | None
    options: dict[str, Any]


ALL8 = [list(range(8))]
PRIVATE, SHARED = nl.private_hbm, nl.shared_hbm
CASES = [
    Case("NKC150", lambda: reduce([[0, 1, 2]]), None, {"ranks": 3}),
    Case("NKC150", lambda: reduce([list(range(48))]), None, {"ranks": 48}),
    Case("NKC150", lambda: reduce([[0, 1], [2, 3, 4]]), None, {"ranks": 5}),
    Case("NKC151", lambda: reduce([[0], [1]]), lambda: reduce([[0, 1]]), {"ranks": 2}),
    Case("NKC152", lambda: reduce([[0, 2], [1, 3]]), lambda: reduce([[1, 0], [3, 2]]), {"ranks": 4}),
    Case("NKC153", lambda: ring(16, 4), lambda: ring(16, 2), {"ranks": 16, "lnc": 2}),
    Case("NKC153", lambda: ring(64, 4), None, {"ranks": 64, "lnc": 1}),
    Case("NKC154", lambda: exchange([[0, 1]]), None, {"ranks": 2, "lnc": 2}),
    Case("NKC154", lambda: exchange([[0, 1, 2, 3]]), None, {"ranks": 4, "lnc": 1}),
    Case("NKC155", lambda: variable(ncc.all_gather_v, [[0, 1, 2, 3]]), None, {"ranks": 4, "lnc": 1}),
    Case(
        "NKC155",
        lambda: variable(ncc.all_gather_v, ALL8),
        lambda: variable(ncc.all_gather_v, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        {"ranks": 8, "lnc": 2},
    ),
    Case(
        "NKC156",
        lambda: variable(ncc.all_to_all_v, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        lambda: variable(ncc.all_to_all_v, ALL8),
        {"ranks": 8, "lnc": 2, "target": "trn3"},
    ),
    Case("NKC157", lambda: variable(ncc.all_to_all_v, ALL8), None, {"ranks": 8, "lnc": 2, "sdk": "2.32"}),
    Case(
        "NKC157",
        lambda: variable(ncc.all_to_all_v, ALL8, 4, has_rdispls=True),
        lambda: variable(ncc.all_to_all_v, ALL8),
        {"ranks": 8, "lnc": 2},
    ),
    Case("NKC158", lambda: permute([(0, 1), (1, 2)]), lambda: permute([(0, 1), (1, 2), (2, 0)]), {"ranks": 3}),
    Case("NKC159", lambda: many_groups(17), lambda: many_groups(16), {"ranks": 32}),
    Case("NKC159", lambda: many_groups(13), lambda: many_groups(12), {"ranks": 32, "sdk": "2.31"}),
    Case("NKC160", lambda: permute([(0, 1)]), lambda: permute([(0, 0), (1, 2), (2, 1)]), {"ranks": 3}),
    Case("NKC161", lambda: reduce([[0, 1]], dtype=nl.int32), lambda: reduce([[0, 1]]), {"ranks": 2}),
    Case("BIR457", lambda: swap(24), lambda: swap(32), {"ranks": 2, "lnc": 2, "sdk": "2.29"}),
    Case("NKC162", lambda: gather_dim_1([[0, 1]], False), lambda: gather_dim_1([[0, 1]], True), {"ranks": 2}),
    Case("NKC162", lambda: exchange(ALL8, 1), lambda: exchange(ALL8), {"ranks": 8}),
    Case(
        "NKC163",
        lambda: reduce([[0, 1]], buffers=(PRIVATE, SHARED)),
        lambda: reduce([[0, 1]]),
        {"ranks": 2, "sdk": "2.32"},
    ),
    Case(
        "NKC165",
        lambda: reduce([[0, 1]], buffers=(SHARED, PRIVATE)),
        lambda: reduce([[0, 1]], buffers=(PRIVATE, PRIVATE)),
        {"ranks": 2},
    ),
    Case("NKC166", lambda: sbuf([[0, 1]]), lambda: reduce([[0, 1]]), {"ranks": 2, "lnc": 2, "sdk": "2.24"}),
    Case("NKC166", lambda: sbuf([[0, 1]]), None, {"ranks": 2, "sdk": "2.23"}),
    Case("BIR075", lambda: in_while(None), lambda: reduce([[0, 1]]), {"ranks": 2}),
]


def found_in(issue: Callable[[], Any], options: dict[str, Any]) -> list[Any]:
    def kernel() -> None:
        issue()

    return findings(kernel, **options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_a_broken_rule_is_a_warning(case: Case) -> None:
    found = [f for f in found_in(case.issue, case.options) if f.code == case.code]
    assert len(found) == 1
    assert found[0].severity is Severity.warning
    assert found[0].loc is not None
    assert found[0].loc.file == __file__
    assert found[0].source == CATALOGUE[case.code].source != "nkicc"
    strict = [f for f in found_in(case.issue, {**case.options, "strict": True}) if f.code == case.code]
    assert [f.severity for f in strict] == [Severity.error]
    if case.right is not None:
        assert case.code not in {f.code for f in found_in(case.right, case.options)}


def test_mixed_regions_of_a_list() -> None:
    def kernel() -> None:
        a = [hbm("a0", (2, 4), buffer=PRIVATE), hbm("a1", (2, 4))]
        b = [hbm("b0", (2, 4)), hbm("b1", (2, 4))]
        ncc.all_reduce(a, b, ncc.ReplicaGroup([[0, 1]]), nl.add)

    assert [f.operand for f in findings(kernel, ranks=2, lnc=2) if f.code == "NKC164"] == ["srcs"]
    assert "NKC164" not in {f.code for f in findings(kernel, ranks=2, lnc=2, sdk="2.32")}


def test_whole_nodes_have_four_channels() -> None:
    assert "NKC153" not in {f.code for f in found_in(lambda: ring(64, 4), {"ranks": 64, "lnc": 2})}


def test_f42_untargeted_ranks_are_named() -> None:
    (found,) = [f for f in found_in(lambda: permute([(0, 1)]), {"ranks": 3}) if f.code == "NKC160"]
    assert found.ranks == (0, 2)
    assert "rank(s) 0, 2 are nobody's target" in found.message


def test_f16_the_result_stands() -> None:
    def kernel(x: Any) -> Any:
        a, b, out = hbm("a", (1, 4)), hbm("b", (1, 4)), hbm("out", (1, 4))
        nisa.dma_copy(a, x)
        ncc.all_reduce([a], [b], ncc.ReplicaGroup([[0, 1, 2]]), nl.add)
        nisa.dma_copy(out, b)
        return out

    result = nkicc.run(kernel, ranks=3, lnc=2, inputs=lambda rank: {"x": np.full((1, 4), rank, np.float32)})
    assert [output[0, 0] for output in result.outputs] == [3, 3, 3]
    (warning,) = result.report.warnings
    assert warning.code == "NKC150"
    assert "1, 2, 4, 8, 16 or a multiple of 32" in warning.hint
    with pytest.raises(NkiccError) as caught:
        nkicc.run(kernel, ranks=3, lnc=2, inputs={"x": np.zeros((1, 4), np.float32)}, strict=True)
    assert caught.value.code == "NKC150"


@pytest.mark.parametrize("sdk", ["", "2", "two", "2.x", "latest"])
def test_a_release_is_two_numbers(sdk: str) -> None:
    def kernel() -> None:
        reduce([[0, 1]])

    with pytest.raises(NkiccError) as caught:
        check(lowered(kernel, ranks=2), sdk=sdk)
    assert caught.value.code == "NKC006"


def test_every_rule_has_a_case() -> None:
    tested = {case.code for case in CASES} | {"NKC164"}
    assert {rule.code for rule in RULES} | {"NKC159", "BIR075"} == tested
