"""renumber-core-barriers: ids, names and what refers to them."""

from __future__ import annotations

import pytest

from nkicc.ir.bir import InstCoreBarrier
from nkicc.ir.program import InstLoop, Module
from nkicc.lowering.renumber_core_barriers import renumber_core_barriers

from .modules import barrier, body, hbm, load, module, sbuf

X, Y, S = hbm("x", (8, 16)), hbm("y", (8, 16)), sbuf("s", (8, 16))


def numbered(*bodies) -> Module:
    after = renumber_core_barriers(module(*bodies, shared=(X, Y), own=(S,)))
    after.verify()
    assert renumber_core_barriers(after) is after
    return after


def barriers(built: Module, core: int) -> list[tuple[str, int | None]]:
    return [(inst.name, inst.id) for inst in body(built, core) if type(inst) is InstCoreBarrier]


def test_ids_are_dense_and_agreed_names_stay() -> None:
    stream = [barrier("first", X.full(), id=7), load(S.full(), X.full()), barrier(), barrier("last", id=7)]
    after = numbered(stream, stream)
    for core in (0, 1):
        assert barriers(after, core) == [("first", 0), ("cb_1", 1), ("last", 2)]


def test_names_that_disagree_are_replaced_on_both_cores_with_their_deps() -> None:
    after = numbered(
        [
            load(S.full(), X.full(), name="z"),
            barrier("CoreBarrier-0"),
            load(S.full(), X.full(), deps=("CoreBarrier-0", "z")),
        ],
        [barrier("CoreBarrier-1"), load(S.full(), X.full(), deps=("CoreBarrier-1",))],
    )
    assert [barriers(after, core) for core in (0, 1)] == [[("cb_0", 0)]] * 2
    assert [body(after, core)[-1].deps for core in (0, 1)] == [("cb_0", "z"), ("cb_0",)]


def test_a_taken_name_is_stepped_around() -> None:
    stream = [barrier("cb_1"), barrier(), load(S.full(), X.full(), name="cb_2"), barrier()]
    assert barriers(numbered(stream, stream), 0) == [("cb_1", 0), ("cb_1_", 1), ("cb_2_", 2)]


def test_loops_count_once_in_program_order() -> None:
    loop = InstLoop(register="i", start=0, stop=4, body=(barrier(), barrier()))  # type: ignore[arg-type]
    stream = [barrier(), loop, barrier()]
    assert barriers(numbered(stream, stream), 1) == [("cb_0", 0), ("cb_1", 1), ("cb_2", 2), ("cb_3", 3)]


def test_cores_with_different_counts_keep_their_names() -> None:
    loop = InstLoop(register="i", start=0, stop=2, body=(barrier("in"),))  # type: ignore[arg-type]
    after = numbered([loop], [barrier("a"), barrier("b")])
    assert [barriers(after, core) for core in (0, 1)] == [[("in", 0)], [("a", 0), ("b", 1)]]


@pytest.mark.parametrize("cores", [1, 2])
def test_without_barriers_nothing_changes(cores: int) -> None:
    built = module(*[[load(S.full(), X.full())]] * cores, shared=(X, Y), own=(S,))
    assert renumber_core_barriers(built) is built
