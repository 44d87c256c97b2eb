"""What a run can be asked to do beyond running: other fresh memory, and where infinities and NaNs appear."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nkicc.engines import Options
from nkicc.ir.access import AccessPattern
from nkicc.ir.bir import CCChannel, CollectiveKind, InstCollectiveCompute
from nkicc.ir.findings import Finding
from nkicc.ir.isa import InstActivation, InstDMACopy, InstMemset, InstTensorTensor
from nkicc.ir.program import Instruction
from nkicc.ir.types import ActFn, AluOp, Loc

from .bir_modules import module, run, sbuf, tensor

X, T, Y = tensor("x", (4, 6)), tensor("t", (4, 6)), tensor("y", (4, 6))
DATA = np.random.default_rng(0).standard_normal((3, 4, 6)).astype(np.float32)
HALF = AccessPattern("y", ((6, 2), (1, 6)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3", "int32", "uint8"])
def test_fresh_memory_holds_what_the_seed_says(dtype: str) -> None:
    y = tensor("y", (4, 6), dtype)
    fill = InstMemset(dst=HALF, value=0 if "int" in dtype else 0.0)
    built = module((fill,), shared=(y,), outputs=("y",), ranks=3)
    left = {seed: run(built, Options(poison=seed)).outputs[0][0] for seed in (None, 1, 2, 1)}
    contents = {seed: value[:, 2:].tobytes() for seed, value in left.items()}
    assert len(set(contents.values())) == 3
    assert all((value[:, :2].astype(np.float32) == 0).all() for value in left.values())


def shift(*pairs: tuple[int, int]) -> tuple[Instruction, ...]:
    """t = 7; t = the x of whoever sends to this rank; y = t."""
    permute = InstCollectiveCompute(
        name="shift", srcs=(X.full(),), dsts=(T.full(),), src_target_pairs=pairs,
        cc_channel=CCChannel(CollectiveKind.Permute),
    )  # fmt: skip
    return (InstMemset(dst=T.full(), value=7.0), permute, InstDMACopy(dst=Y.full(), srcs=(T.full(),)))


def test_what_a_permute_leaves_of_its_destination_is_not_to_be_counted_on() -> None:
    open_ended = module(shift((0, 1), (1, 2)), shared=(X, T, Y), inputs=("x",), outputs=("y",), ranks=3)
    plain = run(open_ended, x=DATA).outputs[0][0]
    poisoned = run(open_ended, Options(poison=3), x=DATA).outputs[0][0]
    assert (plain[0] == 7).all()
    assert not (poisoned[0] == 7).any()
    assert np.array_equal(plain[1:], DATA[:2])
    assert np.array_equal(poisoned[1:], DATA[:2])


def test_a_poisoned_run_of_a_closed_program_gives_the_same() -> None:
    closed = module(shift((0, 1), (1, 2), (2, 0)), shared=(X, T, Y), inputs=("x",), outputs=("y",), ranks=3)
    for seed in range(4):
        assert np.array_equal(run(closed, Options(poison=seed), x=DATA).outputs[0][0], np.roll(DATA, 1, axis=0))


def test_a_collective_in_place_keeps_its_source() -> None:
    total = InstCollectiveCompute(
        srcs=(T.full(),), dsts=(T.full(),),
        cc_channel=CCChannel(CollectiveKind.AllReduce, ((0, 1, 2),), AluOp.add),
    )  # fmt: skip
    body = (InstDMACopy(dst=T.full(), srcs=(X.full(),)), total, InstDMACopy(dst=Y.full(), srcs=(T.full(),)))
    built = module(body, shared=(X, T, Y), inputs=("x",), outputs=("y",), ranks=3)
    plain, poisoned = (run(built, options, x=DATA).outputs[0][0] for options in (Options(), Options(poison=1)))
    assert np.array_equal(plain, poisoned)


# --- infinities and NaNs ---------------------------------------------------------------------------------------------

A, B, C = sbuf("a", (4, 6)), sbuf("b", (4, 6)), sbuf("c", (4, 6))
LOAD = InstDMACopy(dst=A.full(), srcs=(X.full(),))
EXP = InstActivation(name="e", dst=B.full(), data=A.full(), func=ActFn.exp, loc=Loc("k.py", 8))
TWICE = InstTensorTensor(name="s", dst=C.full(), data1=B.full(), data2=B.full(), op=AluOp.add, loc=Loc("k.py", 9))
STORE = InstDMACopy(dst=Y.full(), srcs=(C.full(),))


def warnings(*body: Instruction, data: np.ndarray, on: bool = True) -> list[Finding]:
    built = module(body, shared=(X, Y), own=(A, B, C), inputs=("x",), outputs=("y",), ranks=3)
    return run(built, Options(non_finite=on), x=data).report.warnings


def test_the_instruction_that_makes_an_infinity_is_named_and_none_after_it() -> None:
    data = DATA.copy()
    data[1, 2, 3] = 1000.0
    (found,) = warnings(LOAD, EXP, TWICE, STORE, data=data)
    assert (found.code, found.loc, found.ranks, found.operand) == ("NKC124", Loc("k.py", 8), (1,), "b")
    assert "makes inf of finite data" in found.message
    assert "[2, 3]" in found.message
    assert not warnings(LOAD, EXP, TWICE, STORE, data=data, on=False)
    assert not warnings(LOAD, EXP, TWICE, STORE, data=DATA)


def test_what_comes_in_or_is_meant_is_no_finding() -> None:
    data = DATA.copy()
    data[0, 0, 0] = np.nan
    assert not warnings(LOAD, EXP, TWICE, STORE, data=data)
    fill = InstMemset(dst=B.full(), value=-np.inf)
    assert not warnings(fill, TWICE, STORE, data=DATA)


def test_a_reduction_over_ranks_that_overflows() -> None:
    half = [tensor(name, (4, 6), "float16") for name in ("x", "y")]
    total = InstCollectiveCompute(
        srcs=(half[0].full(),), dsts=(half[1].full(),), loc=Loc("k.py", 3),
        cc_channel=CCChannel(CollectiveKind.AllReduce, ((0, 1, 2),), AluOp.add),
    )  # fmt: skip
    built = module((total,), shared=(half[0], half[1]), inputs=("x",), outputs=("y",), ranks=3)
    data = np.full((3, 4, 6), 30_000, np.float16)
    (found,) = run(built, Options(non_finite=True), x=data).report.warnings
    assert (found.code, found.loc, found.ranks) == ("NKC124", Loc("k.py", 3), (0, 1, 2))
    assert not run(built, Options(non_finite=True), x=data // 4).report.warnings


def test_low_precision_floats_are_looked_at() -> None:
    x = tensor("x", (4, 6), "bfloat16")
    big = np.full((1, 4, 6), 3e38, ml_dtypes.bfloat16)
    body = (LOAD, InstTensorTensor(dst=B.full(), data1=A.full(), data2=A.full(), op=AluOp.mult, loc=Loc("k.py", 5)),
            InstDMACopy(dst=Y.full(), srcs=(B.full(),)))  # fmt: skip
    built = module(body, shared=(x, Y), own=(A, B), inputs=("x",), outputs=("y",), ranks=1)
    assert [found.loc for found in run(built, Options(non_finite=True), x=big).report.warnings] == [Loc("k.py", 5)]
