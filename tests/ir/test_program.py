"""What a module refuses that no builder would make, such as one that was read from an edited file."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from nkicc.ir.access import AccessPattern, Register, Remote, Tensor
from nkicc.ir.base import Inst
from nkicc.ir.bir import (
    CCChannel,
    CollectiveKind,
    InstCollectiveCompute,
    InstCollectiveRecv,
    InstCollectiveSend,
    InstGPSIMDSB2SB,
)
from nkicc.ir.errors import NkiccError
from nkicc.ir.isa import InstDMACopy
from nkicc.ir.penguin import CurrentProcessingRankId
from nkicc.ir.program import Constant, Core, InstLoop, Instruction, InstWhile, Level, Module, Program
from nkicc.ir.types import DType, Loc, Memory, Target, World


def tensor(name: str, shape: tuple[int, ...], dtype: DType = DType.float32, memory: Memory = Memory.sbuf) -> Tensor:
    return Tensor(name, shape, dtype, memory)


X, Y = (tensor(name, (8, 8), memory=Memory.shared_hbm) for name in "xy")
ROWS = ((8, 4), (1, 8))
INDEX, FLOATS = tensor("index", (4, 1), DType.int32), tensor("floats", (4, 1))


def built(
    *body: Instruction,
    own: Sequence[Tensor] = (),
    lnc: int = 1,
    level: Level = Level.bir,
    ranks: Sequence[tuple[int, ...]] = ((),),
) -> Module:
    cores = (Core(tuple(own), body),) * lnc
    return Module(
        level, World(2, lnc), Target.trn2, tuple([Program("k", cores, (X, Y), ranks=members) for members in ranks])
    )


def code_of(module: Module) -> str:
    with pytest.raises(NkiccError) as caught:
        module.verify()
    return caught.value.code


def read(**offset: object) -> Inst:
    src = AccessPattern("x", ROWS, indirect_stride=8, **offset)  # type: ignore[arg-type]
    return InstDMACopy(dst=AccessPattern("y", ROWS), srcs=(src,))


@pytest.mark.parametrize(
    ("inst", "code"),
    [
        (read(vector_offset=AccessPattern("index", ((1, 4),), 100)), "NKC024"),
        (read(vector_offset=AccessPattern("nothing", ((1, 4),))), "NKC023"),
        (read(vector_offset=AccessPattern("floats", ((1, 4),))), "NKC025"),
        (read(scalar_offset=AccessPattern("index", ((1, 4),))), "NKC025"),
        (read(scalar_offset=AccessPattern("index", ((1, 1),), scalar_offset="r")), "NKC025"),
    ],
    ids=["outside", "no such tensor", "floats", "four scalars", "nested without a stride"],
)
def test_offsets_in_memory(inst: Inst, code: str) -> None:
    assert code_of(built(inst, own=(INDEX, FLOATS))) == code  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("remote", "shape", "code"),
    [
        (Remote(2, "a"), (8, 8), "NKC070"),
        (Remote(-1, "a"), (8, 8), "NKC070"),
        (Remote(1, "nothing"), (8, 8), "NKC023"),
        (Remote(1, "alias"), (8, 8), "NKC023"),
        (Remote(1, "a"), (8, 9), "NKC022"),
    ],
)
def test_aliases(remote: Remote, shape: tuple[int, ...], code: str) -> None:
    alias = Tensor("alias", shape, DType.float32, Memory.sbuf, remote=remote)
    assert code_of(built(own=(tensor("a", (8, 8)), alias), lnc=2)) == code


@pytest.mark.parametrize("ranks", [(), ((0,),), ((0, 1), (1,)), ((0, 0, 1),)])
def test_every_rank_runs_one_program(ranks: Sequence[tuple[int, ...]]) -> None:
    assert code_of(built(ranks=ranks)) == "NKC049"


@pytest.mark.parametrize(
    "loop",
    [
        InstLoop(register="i", start=0, stop=4, step=0, body=()),
        InstLoop(register="i", start=0, stop=1 << 70, body=()),
        InstLoop(register="i", start=0, stop=4, body=(), mask="m"),
        InstWhile(condition="c", body=(), mask="m"),
    ],
)
def test_loops(loop: InstLoop | InstWhile) -> None:
    assert code_of(built(loop)) == "NKC035"


def test_more_dimensions_than_an_array_can_have() -> None:
    with pytest.raises(NkiccError) as caught:
        tensor("t", (1,) * 63).verify()
    assert caught.value.code == "NKC025"
    many = AccessPattern("x", ((0, 1),) * 63)
    assert code_of(built(InstDMACopy(dst=many, srcs=(many,)))) == "NKC025"


def test_a_swap_needs_two_cores() -> None:
    a = tensor("a", (8, 8))
    assert code_of(built(InstGPSIMDSB2SB(dst=a.full(), src=a.full()), own=(a,))) == "NKC073"


def test_an_all_to_all_v_of_two_sources() -> None:
    counts = tensor("counts", (3, 2), DType.uint32)
    op = InstCollectiveCompute(
        srcs=(X.full(),) * 2,
        dsts=(Y.full(),) * 2,
        metadata=counts.full(),
        cc_channel=CCChannel(CollectiveKind.AllToAllV, ((0, 1),)),
    )
    assert code_of(built(op, own=(counts,))) == "NKC034"


def test_a_processing_rank_of_a_number_of_channels_that_rings_do_not_have() -> None:
    op = CurrentProcessingRankId(
        dst_register=Register("r", DType.uint32), iteration_id=0, num_channels=3, replica_groups=((0, 1),)
    )
    assert code_of(built(op, level=Level.penguin)) == "NKC056"


def test_unknown_fields_of_a_source_line_are_refused() -> None:
    module = built(InstDMACopy(dst=Y.full(), srcs=(X.full(),), loc=Loc("k.py", 3)))
    text = json.loads(module.to_json())
    text["programs"][0]["cores"][0]["body"][0]["loc"]["column"] = 4
    with pytest.raises(NkiccError) as caught:
        Module.from_json(json.dumps(text))
    assert caught.value.code == "NKC002"


@pytest.mark.parametrize("peer", [2, -1])
def test_peers_of_raw_sends_and_receives(peer: int) -> None:
    assert code_of(built(InstCollectiveSend(srcs=(X.full(),), peer_id=peer))) == "NKC041"
    assert code_of(built(InstCollectiveRecv(dsts=(Y.full(),), peer_id=peer))) == "NKC041"


# --- programs that no builder makes, but a file may hold ------------------------------------------------------------


def program(*body: Instruction, inputs: tuple[str, ...] = ("a",), constants: tuple[Constant, ...] = ()) -> Module:
    a, b = (Tensor(name, (4, 4), DType.float32, Memory.shared_hbm) for name in "ab")
    part = Program("k", (Core(body=body),), (a, b), inputs, constants=constants)
    return Module(Level.bir, World(2), Target.trn2, (part,))


def copy(name: str = "", deps: tuple[str, ...] = (), src: AccessPattern | None = None) -> InstDMACopy:
    own = AccessPattern("a", ((4, 4), (1, 4)))
    dst = AccessPattern("b", own.pattern if src is None else ((0, src.size),) if src.size > 16 else src.pattern)
    return InstDMACopy(name=name, deps=deps, dst=dst, srcs=(src or own,), loc=Loc("k.py", 7))


@pytest.mark.parametrize(
    ("built", "code", "words"),
    [
        (program(copy("x"), copy("x")), "NKC029", "instruction name 'x' is taken"),
        (
            program(copy("x"), InstLoop(register="i", start=0, stop=2, body=(copy("x"),))),
            "NKC029",
            "instruction name 'x' is taken",
        ),
        (program(copy("x", deps=("y",))), "NKC089", "depends on 'y'"),
        (program(copy("x", deps=("x",))), "NKC089", "depends on 'x'"),
        (program(copy("x", deps=("y",)), copy("y")), "NKC089", "depends on 'y'"),
        (program(copy(), inputs=("a", "a")), "NKC029", "argument name 'a' is taken"),
        (program(copy(), constants=(Constant("a", bytes(64)),)), "NKC029", "argument name 'a' is taken"),
        (program(copy(src=AccessPattern("a", ((0, 10**12),)))), "NKC025", "up to 1000000000000"),
        (program(copy(src=AccessPattern("a", ((4, 4), (0, 1 << 15), (0, 1 << 15))))), "NKC025", "at most 1073741824"),
        (program(copy(src=AccessPattern("a", ((1 << 70, 1), (4, 4), (1, 4))))), "NKC025", "strides are at most"),
    ],
)
def test_programs_that_contradict_themselves(built: Module, code: str, words: str) -> None:
    with pytest.raises(NkiccError) as error:
        Module.from_json(built.to_json()).verify()
    assert error.value.code == code, str(error.value)
    assert words in error.value.message
    if "argument" not in words:
        assert error.value.loc == Loc("k.py", 7)


def test_names_that_do_depend_on_each_other_pass() -> None:
    inner = InstLoop(register="i", start=0, stop=2, name="loop", body=(copy("y", deps=("x", "loop")), copy()))
    program(copy("x"), inner, copy("z", deps=("y", "x"))).verify()


def test_a_broadcast_view_passes() -> None:
    program(copy(src=AccessPattern("a", ((0, 1 << 20),)))).verify()


def test_a_tensor_without_a_name_is_no_program() -> None:
    text = program(copy()).to_json().replace('"name": "b"', '"name": ""')
    with pytest.raises(NkiccError) as error:
        Module.from_json(text)
    assert error.value.code == "NKC002"
    assert "length >= 1" in error.value.message
