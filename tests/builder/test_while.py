"""While loops, constants and dependency edges of the builder, without a front end."""

from __future__ import annotations

import numpy as np
import pytest

from nkicc import NkiccError
from nkicc.builder import NeuronCodegen, ParallelState, link
from nkicc.ir.access import Register, Tensor
from nkicc.ir.isa import InstMemset, InstRegisterMove
from nkicc.ir.program import InstLoop, InstWhile, Level, Module
from nkicc.ir.types import Memory, World
from nkicc.lowering import codegen as lower_collectives


def builder(core: int = 0, lnc: int = 1) -> tuple[NeuronCodegen, Tensor]:
    made = NeuronCodegen(ParallelState(World(2, lnc)), core=core)
    return made, made.allocate("x", (4, 4), "float32", Memory.shared_hbm)


def fill(x: Tensor, value: float) -> InstMemset:
    return InstMemset(dst=x.full(), value=value)


def test_a_while_loop_holds_what_is_inserted_inside() -> None:
    made, x = builder()
    go = made.register("go")
    made.insert(InstRegisterMove(dst=go, src=3))
    with made.while_loop(go):
        made.insert(fill(x, 1.0))
        with made.loop(0, 2):
            made.insert(fill(x, 2.0))
        made.insert(InstRegisterMove(dst=go, src=0))
    made.insert(fill(x, 3.0))
    _, loop, after = made.core_part().body
    assert isinstance(loop, InstWhile)
    assert isinstance(after, InstMemset)
    assert loop.condition == "go"
    assert [type(inst) for inst in loop.body] == [InstMemset, InstLoop, InstRegisterMove]
    assert loop.loc is not None
    assert loop.loc.file == __file__
    module = link([made])
    module.verify()
    assert Module.from_json(module.to_json()) == module


def test_collectives_in_a_while_loop_are_lowered() -> None:
    made, x = builder()
    y = made.allocate("y", (4, 4), "float32", Memory.shared_hbm)
    with made.while_loop(made.register("go")):
        made.all_reduce_cc("add", [x], [y])
    lowered = lower_collectives.codegen(link([made]))
    assert lowered.level is Level.bir
    (loop,) = lowered.programs[0].cores[0].body
    assert [type(inst).__name__ for inst in loop.body] == ["InstCollectiveCompute"]


def test_a_while_loop_needs_a_register_of_its_core() -> None:
    made, _ = builder()
    with pytest.raises(NkiccError) as caught:  # noqa: SIM117
        with made.while_loop(Register("elsewhere")):
            pass
    assert caught.value.code == "NKC027"


def test_a_while_loop_that_raises_leaves_nothing() -> None:
    made, x = builder()
    go = made.register("go")
    with pytest.raises(ZeroDivisionError):  # noqa: PT012, SIM117
        with made.while_loop(go):
            made.insert(fill(x, 1.0).__class__(dst=x.full(), value=1.0, name="inside"))
            _ = 1 / 0
    made.insert(fill(x, 2.0))
    assert made.core_part().body == (fill(x, 2.0).__class__(dst=x.full(), value=2.0, loc=made.core_part().body[0].loc),)
    made.insert(InstMemset(dst=x.full(), value=3.0, name="inside"))


def test_constants_of_the_cores_become_the_programs() -> None:
    value = np.arange(6, dtype=np.int16).reshape(2, 3)
    cores = [builder(core, 2)[0] for core in range(2)]
    tensors = [made.constant("table", value) for made in cores]
    assert tensors[0].memory is Memory.shared_hbm
    (program,) = link(cores).programs
    assert [(c.tensor, c.data) for c in program.constants] == [("table", value.tobytes())]
    other = [builder(core, 2)[0] for core in range(2)]
    for core, made in enumerate(other):
        made.constant("table", value + core)
    with pytest.raises(NkiccError) as caught:
        link(other)
    assert caught.value.code == "NKC022"


def test_edges_name_their_producers() -> None:
    made, x = builder()
    made.insert(fill(x, 1.0))
    first = made.place()
    made.insert(InstMemset(dst=x.full(), value=2.0, name="second"))
    second = made.place()
    with made.loop(0, 2):
        made.insert(fill(x, 3.0))
        made.add_edges(made.place(), [first, second, first])
    with pytest.raises(NkiccError) as caught:
        made.add_edges(first, [second])
    assert caught.value.code == "NKC035"
    one, two, loop = made.core_part().body
    assert isinstance(loop, InstLoop)
    assert one.name
    assert two.name == "second"
    assert loop.body[0].deps == (one.name, "second")
    link([made]).verify()
