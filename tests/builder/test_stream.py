"""The instruction stream: declarations, names, masks, dependency edges, loops, source lines."""

from __future__ import annotations

import timeit
from typing import Any

import numpy as np
import pytest

from nkicc.builder import NeuronCodegen, ParallelState, here
from nkicc.ir.access import Register, Tensor
from nkicc.ir.errors import NkiccError
from nkicc.ir.isa import InstDMACopy, InstRegisterMove
from nkicc.ir.program import InstLoop
from nkicc.ir.types import DType, Memory, Target, World

from .helpers import codegen, refused, state


def copy(cg: NeuronCodegen, name: str = "") -> InstDMACopy:
    return InstDMACopy(dst=cg.tensors["b"].full(), srcs=(cg.tensors["a"].full(),), name=name)


# --- declarations ----------------------------------------------------------------------------------------------------


def test_allocate() -> None:
    made = NeuronCodegen(ParallelState(World(2)))
    tensor = made.allocate("x", [np.int64(128), 4], np.float32, "sbuf")
    assert (tensor.shape, tensor.dtype, tensor.memory, tensor.named) == ((128, 4), DType.float32, Memory.sbuf, True)
    assert all(type(extent) is int for extent in tensor.shape)
    assert made.tensors["x"] is tensor
    assert tensor.loc is not None
    assert tensor.loc.function == "test_allocate"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("a", (8, 16), "float32", "shared_hbm"), "NKC022"),
        (("x", (), "float32", "shared_hbm"), "NKC020"),
        (("x", (4, 0), "float32", "shared_hbm"), "NKC020"),
        (("x", (4.0,), "float32", "shared_hbm"), "NKC020"),
        (("x", None, "float32", "shared_hbm"), "NKC020"),
        (("x", (129, 1), "float32", "sbuf"), "NKC021"),
        (("x", (4,), "float64", "sbuf"), "NKC028"),
        (("x", (4,), None, "sbuf"), "NKC028"),
        (("x", (4,), "float32", "dram"), "NKC035"),
        (("", (4,), "float32", "sbuf"), "NKC035"),
        ((7, (4,), "float32", "sbuf"), "NKC035"),
    ],
)
def test_refused_declarations(arguments: tuple[Any, ...], code: str) -> None:
    made = codegen()
    tensors = dict(made.tensors)
    refused(made, lambda cg: cg.allocate(*arguments), code)
    assert made.tensors == tensors


def test_registers_have_names_of_their_own() -> None:
    made = codegen()
    made.register("r1", DType.uint32)
    assert [made.register().name for _ in range(3)] == ["r0", "r2", "r3"]
    refused(made, lambda cg: cg.register("r1"), "NKC029", "name", "register name 'r1' is taken on this core")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"core": 1}, "NKC035"),
        ({"ranks": (0, 4)}, "NKC041"),
        ({"ranks": ("0",)}, "NKC075"),
        ({"target": "trn9"}, "NKC035"),
    ],
)
def test_refused_codegens(options: dict[str, Any], code: str) -> None:
    with pytest.raises(NkiccError) as caught:
        NeuronCodegen(ParallelState(World(4)), **options)
    assert caught.value.code == code
    assert caught.value.loc == here_in(test_refused_codegens, caught.value)


def here_in(function: Any, error: NkiccError) -> Any:
    """The error's line, if it is one of the function's."""
    assert error.loc is not None
    code = function.__code__
    inside = error.loc.file == code.co_filename and error.loc.line in {line for _, _, line in code.co_lines()}
    return error.loc if inside else None


def test_targets_go_by_name_too() -> None:
    assert NeuronCodegen(ParallelState(World(1)), target="trn3").target is Target.trn3  # type: ignore[arg-type]


# --- insertion -------------------------------------------------------------------------------------------------------


def test_insert_keeps_order_and_returns_what_entered() -> None:
    made = codegen()
    first, second = made.insert(copy(made, "one")), made.insert_raw(copy(made, "two"))
    assert made.core_part().body == (first, second)
    assert not made.has_collectives


def test_a_name_is_used_once_whatever_the_channel() -> None:
    made = codegen()
    made.insert(copy(made, "it"))
    refused(made, lambda cg: cg.insert(copy(cg, "it")), "NKC029", "name")
    refused(made, lambda cg: cg.insert_raw(copy(cg, "it")), "NKC029", "name")
    call = lambda cg: cg.all_reduce_cc("add", cg.tensors["a"], cg.tensors["b"], name="it")  # noqa: E731
    refused(made, call, "NKC029", "name", "instruction name 'it' is taken on this core")
    assert not made.has_collectives


def test_a_refused_instruction_leaves_its_name_free() -> None:
    made = codegen()
    refused(made, lambda cg: cg.all_reduce_cc("mult", cg.tensors["a"], cg.tensors["b"], name="it"), "NKC053")
    assert made.all_reduce_cc("add", made.tensors["a"], made.tensors["b"], name="it").name == "it"


@pytest.mark.parametrize("mask", [None, True, 1, np.True_])
def test_a_true_mask_is_none(mask: Any) -> None:
    made = codegen()
    inserted = made.insert(copy(made), mask=mask)
    assert inserted is not None
    assert inserted.mask is None


@pytest.mark.parametrize("mask", [False, 0, np.False_])
def test_a_false_mask_inserts_nothing(mask: Any) -> None:
    made = codegen(lnc=2)
    s, t = made.tensors["s"], made.tensors["t"]
    assert made.insert(copy(made, "it"), mask=mask) is None
    assert made.sendrecv(t, s, 1, 1, 0, mask=mask) is None
    assert made.sendrecv_cce(t, s, 1, [0, 1], "add", 0, mask=mask) is None
    assert made.core_barrier(made.tensors["a"], (0, 1), mask=mask) is None
    made.rank_id(mask=mask)
    assert made.core_part().body == ()
    assert made.program_barriers == []
    made.insert(copy(made, "it"))


def test_a_register_masks_by_its_name() -> None:
    made = codegen(lnc=2)
    flag = made.register("flag")
    op = made.sendrecv(made.tensors["t"], made.tensors["s"], 1, 1, 0, mask=flag)
    assert op is not None
    assert op.mask == "flag"
    refused(made, lambda cg: cg.insert(copy(cg), mask=Register("other")), "NKC027", "mask")
    refused(made, lambda cg: cg.insert(copy(cg), mask="flag"), "NKC035", "mask")  # type: ignore[arg-type]


def test_deps_are_earlier_instructions_by_name_or_as_such() -> None:
    made = codegen(lnc=2)
    first = made.insert(copy(made, "one"))
    assert first is not None
    made.insert(copy(made, "two"))
    op = made.sendrecv(made.tensors["t"], made.tensors["s"], 1, 1, 0, deps=(first, "two"), name="three")
    assert op is not None
    assert op.deps == ("one", "two")
    refused(made, lambda cg: cg.insert(copy(cg, "four"), deps=["four"]), "NKC089", "deps")
    refused(made, lambda cg: cg.insert(copy(cg), deps=[3]), "NKC089", "deps")  # type: ignore[list-item]
    unnamed = made.insert(copy(made))
    assert unnamed is not None
    refused(made, lambda cg: cg.insert(copy(cg), deps=[unnamed]), "NKC089", "deps")


def test_multi_receive_takes_one_view_per_core() -> None:
    made = codegen(lnc=2)
    s, t, big = (made.tensors[name] for name in ("s", "t", "big"))
    op = made.sendrecv_cce(big, [big, big], 1, (np.int64(1), 0), "maximum", np.int32(3))  # type: ignore[arg-type]
    assert op is not None
    assert (op.srcs, op.recv_from_ranks, op.pipe_id) == ((big.full(), big.full()), (1, 0), 3)
    one = made.sendrecv_cce(t, s, 1, [1], "add", 3)
    assert one is not None
    assert one.srcs == (s.full(),)


def test_rank_id_writes_a_uint32_register() -> None:
    made = codegen()
    assert made.rank_id() == Register("r0", DType.uint32)
    own = made.register("mine", DType.uint32)
    assert made.rank_id(own) is own
    signed = made.register("signed")
    refused(made, lambda cg: cg.rank_id(signed), "NKC035", "dst")


# --- loops -----------------------------------------------------------------------------------------------------------


def test_a_loop_holds_what_is_inserted_inside() -> None:
    made = codegen()
    a, b = made.tensors["a"], made.tensors["b"]
    stop = made.register("n")
    before = made.insert(copy(made))
    with made.loop(0, stop, 2) as i:
        inner = made.all_reduce_cc("add", a, b)
        with made.loop(np.int64(4), 0, -1) as j:  # type: ignore[arg-type]
            deepest = made.insert(copy(made))
    after = made.insert(copy(made))
    first, loop, last = made.core_part().body
    assert (first, last) == (before, after)
    assert isinstance(loop, InstLoop)
    assert (loop.register, loop.start, loop.stop, loop.step) == (i.name, 0, "n", 2)
    nested = loop.body[1]
    assert loop.body[0] == inner
    assert isinstance(nested, InstLoop)
    assert (nested.register, nested.start, nested.stop, nested.step) == (j.name, 4, 0, -1)
    assert nested.body == (deepest,)
    assert i != j
    assert loop.loc is not None
    assert nested.loc is not None
    assert loop.loc.file == __file__
    assert nested.loc.line == loop.loc.line + 2
    assert made.has_collectives


def test_a_loop_that_raises_leaves_nothing() -> None:
    def call(cg: NeuronCodegen) -> None:
        with cg.loop(0, 4):
            cg.all_reduce_cc("add", cg.tensors["a"], cg.tensors["b"], name="it")
            cg.all_reduce_cc("mult", cg.tensors["a"], cg.tensors["b"])

    made = codegen()
    made.insert(copy(made))
    refused(made, call, "NKC053", "op")
    made.insert(copy(made, "it"))
    assert len(made.core_part().body) == 2


@pytest.mark.parametrize(
    ("bounds", "code"),
    [
        ((0, 4, 0), "NKC035"),
        ((0.0, 4), "NKC035"),
        ((0, "n"), "NKC035"),
        ((0, Register("n")), "NKC027"),
        ((0, 4, 1.0), "NKC035"),
    ],
)
def test_refused_loops(bounds: tuple[Any, ...], code: str) -> None:
    def call(cg: NeuronCodegen) -> None:
        with cg.loop(*bounds):
            pass

    refused(codegen(), call, code)


# --- source lines ----------------------------------------------------------------------------------------------------


def test_lines_are_those_of_the_caller_outside_the_package() -> None:
    made = codegen()
    line = here()
    op = made.collective_permute_cc(None, made.tensors["a"], made.tensors["b"])
    assert line is not None
    assert op.loc is not None
    assert (op.loc.file, op.loc.line, op.loc.function) == (line.file, line.line + 1, line.function)
    assert line.file == __file__


def test_a_line_that_is_given_stays() -> None:
    made = codegen()
    line = here()
    given = InstRegisterMove(dst=made.register(), src=1, loc=line)
    assert made.insert(given) is given


def test_one_line_in_two_calls_is_one_loc() -> None:
    made = codegen()
    first, second = [made.insert(copy(made)) for _ in range(2)]
    assert first is not None
    assert second is not None
    assert first.loc is second.loc


def test_a_line_costs_about_a_microsecond() -> None:
    """Ten times that is allowed: the machine may be busy."""
    assert min(timeit.repeat(here, number=1000, repeat=5)) < 1000 * 10e-6


def test_operands_may_be_of_any_class_with_an_access_pattern() -> None:
    class View:
        def __init__(self, tensor: Tensor) -> None:
            self.tensor = tensor

        def __access__(self) -> Any:
            return self.tensor.full()

    made = codegen()
    op = made.all_reduce_cc("add", View(made.tensors["a"]), [View(made.tensors["b"])])
    assert (op.srcs, op.dsts) == ((made.tensors["a"].full(),), (made.tensors["b"].full(),))
    refused(made, lambda cg: cg.all_reduce_cc("add", View, cg.tensors["b"]), "NKC035", "srcs")  # type: ignore[arg-type]


def test_a_loop_that_raises_leaves_no_tensor_and_no_name_behind() -> None:
    cg = codegen()
    before = state(cg)

    def broken() -> None:
        with cg.loop(0, 3):
            cg.allocate("tile", (4,), "float32", "sbuf")
            cg.rank_id()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert state(cg) == before
    cg.allocate("tile", (4,), "float32", "sbuf")


def test_what_is_no_list_of_dependencies_is_refused() -> None:
    refused(codegen(), lambda cg: cg.rank_id(deps=None), "NKC089", "deps")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["(1,", (np.float32, -1), {"names": ["a"]}, [("a", "f4")], object()])
def test_what_names_no_data_type_is_refused(dtype: object) -> None:
    refused(codegen(), lambda cg: cg.allocate("n", (4,), dtype, "sbuf"), "NKC028", "dtype")
