"""Memory that nobody has written: what is a finding, what is none."""

from __future__ import annotations

import numpy as np
import pytest

from nkicc.engines import Options
from nkicc.ir.access import AccessPattern, Register
from nkicc.ir.base import Inst
from nkicc.ir.bir import CCChannel, CollectiveKind, InstCollectiveCompute, InstGetGlobalRankId
from nkicc.ir.errors import NkiccError
from nkicc.ir.isa import InstDMACopy, InstMatmul, InstMemset, InstTensorCopy, InstTensorTensor, InstTranspose
from nkicc.ir.program import Module
from nkicc.ir.types import AluOp, Loc, Memory

from .bir_modules import module, run, sbuf, tensor

X, Y = tensor("x", (4, 6)), tensor("y", (4, 6))
A, B = sbuf("a", (4, 6)), sbuf("b", (4, 6))
DATA = np.random.default_rng(0).standard_normal((2, 4, 6)).astype(np.float32)
LEFT = AccessPattern("a", ((6, 4), (1, 4)))
RIGHT = AccessPattern("a", ((6, 4), (1, 2)), 4)


def x_part(view: AccessPattern) -> AccessPattern:
    return AccessPattern("x", view.pattern, view.offset)


def double(src: AccessPattern, dst: AccessPattern) -> InstTensorTensor:
    return InstTensorTensor(name="double", dst=dst, data1=src, data2=src, op=AluOp.add, loc=Loc("k.py", 7))


def load(view: AccessPattern) -> InstDMACopy:
    return InstDMACopy(dst=view, srcs=(x_part(view),))


def build(*body: Inst, own: tuple = (A, B), ranks: int = 2) -> Module:
    return module(body, shared=(X, Y), own=own, inputs=("x",), outputs=("y",), ranks=ranks)  # type: ignore[arg-type]


STORE = InstDMACopy(dst=Y.full(), srcs=(B.full(),))


def test_arithmetic_on_a_part_that_was_never_loaded() -> None:
    with pytest.raises(NkiccError) as error:
        run(build(load(LEFT), double(A.full(), B.full()), STORE), x=DATA)
    assert error.value.code == "NKC121"
    assert error.value.loc == Loc("k.py", 7)
    assert "8 element(s) of 'a'" in error.value.message
    assert "first at [0, 4]" in error.value.message


def test_a_tile_nobody_has_touched() -> None:
    with pytest.raises(NkiccError, match="24 element"):
        run(build(double(A.full(), B.full()), STORE), x=DATA)


@pytest.mark.parametrize("body", [(load(LEFT), load(RIGHT)), (InstMemset(dst=A.full(), value=0.0), load(LEFT))])
def test_what_is_filled_part_by_part_is_whole_in_the_end(body: tuple[Inst, ...]) -> None:
    execution = run(build(*body, double(A.full(), B.full()), STORE), x=DATA)
    assert np.array_equal(execution.outputs[0][0][..., :4], 2 * DATA[..., :4])
    assert not execution.report.warnings


def test_a_view_of_the_filled_part_is_fine() -> None:
    target = AccessPattern("b", LEFT.pattern)
    body = (InstMemset(dst=B.full(), value=0.0), load(LEFT), double(LEFT, target), STORE)
    assert not run(build(*body), x=DATA).report.warnings


def test_copies_carry_what_is_missing() -> None:
    """Loading and copying a tile with its padding is no use of it; adding it up afterwards is."""
    copies = (load(LEFT), InstTensorCopy(dst=B.full(), src=A.full()))
    run(build(*copies, InstMemset(dst=A.full(), value=0.0), InstDMACopy(dst=Y.full(), srcs=(A.full(),))), x=DATA)
    with pytest.raises(NkiccError, match=r"8 element.* of 'b'"):
        run(build(*copies, double(B.full(), A.full())), x=DATA)


def test_a_transpose_carries_it_to_the_right_place() -> None:
    square, turned = sbuf("s", (4, 4)), sbuf("t", (4, 4))
    first = AccessPattern("s", ((4, 4), (1, 1)))
    fill = InstDMACopy(dst=first, srcs=(AccessPattern("x", ((6, 4), (1, 1))),))
    row = lambda i: AccessPattern("t", ((4, 1), (1, 4)), 4 * i)  # noqa: E731
    body = (fill, InstTranspose(dst=turned.full(), data=square.full()))
    run(build(*body, double(row(0), row(0)), own=(square, turned)), x=DATA)
    with pytest.raises(NkiccError, match="first at \\[0, 0\\]"):
        run(build(*body, double(row(1), row(1)), own=(square, turned)), x=DATA)


def test_a_result_that_keeps_fresh_memory_is_a_warning() -> None:
    part = AccessPattern("y", ((6, 4), (1, 4)))
    body = (load(LEFT), InstDMACopy(dst=part, srcs=(LEFT,)))
    execution = run(build(*body), x=DATA)
    (found,) = execution.report.warnings
    assert (found.code, found.severity.value, found.ranks) == ("NKC122", "warning", (0, 1))
    assert "8 element(s) of the result 'y'" in found.message
    assert np.isnan(execution.outputs[0][0][..., 4:]).all()


def test_what_a_rank_has_not_written_is_told_by_rank() -> None:
    """Rank r fills rows 0..r of the result, one by one."""
    ranks = 3
    y = tensor("y", (3, 6))
    x = tensor("x", (1, 6))
    target = AccessPattern("y", ((6, 1), (1, 6)), scalar_offset="r", indirect_stride=6)
    body = (
        InstDMACopy(dst=AccessPattern("y", ((6, 1), (1, 6))), srcs=(x.full(),)),
        InstGetGlobalRankId(output=Register("r")),
        InstDMACopy(dst=target, srcs=(x.full(),)),
    )
    built = module(body, shared=(x, y), inputs=("x",), outputs=("y",), ranks=ranks)
    execution = run(built, x=np.arange(18, dtype=np.float32).reshape(3, 1, 6))
    (found,) = execution.report.warnings
    assert found.ranks == (0, 1, 2)
    assert "12 element(s)" in found.message


def test_a_reduction_over_ranks_uses_values_and_a_permute_does_not() -> None:
    src, dst = tensor("s", (4, 6)), tensor("d", (4, 6))
    fill = InstDMACopy(dst=AccessPattern("s", LEFT.pattern), srcs=(x_part(LEFT),))
    for kind, op in ((CollectiveKind.AllReduce, AluOp.add), (CollectiveKind.PermuteImplicit, AluOp.bypass)):
        move = InstCollectiveCompute(
            srcs=(src.full(),), dsts=(dst.full(),), cc_channel=CCChannel(kind, ((0, 1),), op), loc=Loc("k.py", 3)
        )
        built = module((fill, move), shared=(X, src, dst), inputs=("x",), ranks=2)
        if kind is CollectiveKind.AllReduce:
            with pytest.raises(NkiccError, match="NKC121"):
                run(built, x=DATA)
        else:
            assert run(built, x=DATA).report.collectives == 1


def test_psum_that_a_matmul_overwrites_is_written() -> None:
    psum, weights = tensor("p", (4, 6), memory=Memory.psum), sbuf("w", (4, 4))
    body = (
        load(A.full()),
        InstMemset(dst=weights.full(), value=1.0),
        InstMatmul(dst=psum.full(), stationary=weights.full(), moving=A.full()),
        InstTensorCopy(dst=B.full(), src=psum.full()),
        STORE,
    )
    (y,) = run(build(*body, own=(A, B, weights, psum)), x=DATA).outputs[0]
    assert np.allclose(y, np.broadcast_to(DATA.sum(1, keepdims=True), DATA.shape), atol=1e-5)


def test_the_check_can_be_switched_off() -> None:
    (y,) = run(build(double(A.full(), B.full()), STORE), Options(uninitialised=False), x=DATA).outputs[0]
    assert np.isnan(y).all()


def test_the_count_is_that_of_a_rank_that_misses_something() -> None:
    """Both ranks write row 1, rank r row r as well: rank 1 misses row 0."""
    t, u, x = tensor("t", (2, 6)), sbuf("u", (2, 6)), tensor("x", (1, 6))
    body = (
        InstDMACopy(dst=AccessPattern("t", ((6, 1), (1, 6)), 6), srcs=(x.full(),)),
        InstGetGlobalRankId(output=Register("r")),
        InstDMACopy(dst=AccessPattern("t", ((6, 1), (1, 6)), scalar_offset="r", indirect_stride=6), srcs=(x.full(),)),
        InstDMACopy(dst=u.full(), srcs=(t.full(),)),
        double(u.full(), u.full()),
    )
    built = module(body, shared=(x, t), own=(u,), inputs=("x",), ranks=2)
    with pytest.raises(NkiccError) as caught:
        run(built, x=np.ones((2, 1, 6), np.float32))
    assert caught.value.code == "NKC121"
    assert "6 element(s) of 'u'" in caught.value.message
