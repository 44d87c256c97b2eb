"""SBUF and PSUM capacity with liveness."""

from __future__ import annotations

from typing import Any

import pytest

from nkicc.ir.access import Remote, Tensor
from nkicc.ir.errors import NkiccError
from nkicc.ir.isa import InstMatmul, InstMemset, InstTensorCopy, InstTensorScalar
from nkicc.ir.program import Core, InstLoop, Level, Module, Program
from nkicc.ir.types import AluOp, DType, Loc, Memory, Target, World
from nkicc.verify import verify

KIB = 1024


def tile(name: str, kib: float, memory: Memory = Memory.sbuf, **fields: Any) -> Tensor:
    """A tensor of so many KiB per partition."""
    return Tensor(name, (128, int(kib * 256)), DType.float32, memory, **fields)


def use(tensor: Tensor, line: int) -> InstTensorScalar:
    """Reads and writes all of a tensor."""
    t = tensor.full()
    return InstTensorScalar(dst=t, data=t, op0=AluOp.add, operand0=1.0, loc=Loc("kernel.py", line))


def fill(tensor: Tensor, line: int) -> InstMemset:
    return InstMemset(dst=tensor.full(), value=0.0, loc=Loc("kernel.py", line))


def module(
    tensors: tuple[Tensor, ...], *bodies: tuple[Any, ...], target: Target = Target.trn2, shared: tuple[Tensor, ...] = ()
) -> Module:
    cores = tuple(Core(tensors, body) for body in bodies)
    return Module(Level.bir, World(2, len(bodies)), target, (Program("k", cores, shared),))


def refused(built: Module) -> NkiccError:
    with pytest.raises(NkiccError) as caught:
        verify(built)
    assert caught.value.code == "NKC026"
    return caught.value


A, B, C = tile("a", 100), tile("b", 100), tile("c", 100)


def test_the_peak_is_at_the_line_whose_tensor_does_not_fit() -> None:
    error = refused(module((A, B, C), (use(A, 1), use(B, 2), use(C, 3), use(B, 4), use(A, 5))))
    assert error.loc == Loc("kernel.py", 3)
    assert error.core == 0
    assert error.message == "sbuf needs 307200 bytes per partition at this line, trn2 has 212984"
    assert "a (102400), b (102400), c (102400)" in error.hint


def test_one_after_the_other_fits() -> None:
    verify(module((A, B, C), (use(A, 1), use(B, 2), use(C, 3))))
    verify(module((A, B, C), (use(A, 1), use(B, 2), use(A, 3), use(C, 4))))


def test_between_its_last_read_and_its_refilling_a_tensor_takes_no_place() -> None:
    """A and B fit only while C is not needed: B is dead when C comes, if B is filled anew afterwards."""
    copy = InstTensorCopy(dst=A.full(), src=B.full(), loc=Loc("kernel.py", 3))
    body = (fill(B, 2), copy, use(C, 4), fill(B, 5), copy)
    verify(module((A, B, C), body))
    error = refused(module((A, B, C), (fill(B, 2), copy, use(C, 4), copy)))
    assert error.loc == Loc("kernel.py", 4)


def test_unused_tensors_take_no_place() -> None:
    verify(module((A, B, C), (use(A, 1), use(A, 2))))


def test_a_loop_is_one_point() -> None:
    body = (use(A, 2), use(B, 3), use(C, 4))
    loop = InstLoop(register="i", start=0, stop=2, body=body, loc=Loc("kernel.py", 1))
    error = refused(module((A, B, C), (loop,)))
    assert error.loc == Loc("kernel.py", 4)


def test_each_core_by_itself() -> None:
    error = refused(module((A, B, C), (use(A, 1),), (use(A, 1), use(B, 2), use(C, 3), use(A, 4), use(B, 5))))
    assert error.core == 1


@pytest.mark.parametrize(("target", "fits"), [(Target.trn1, False), (Target.trn2, True)])
def test_the_capacity_is_the_targets(target: Target, fits: bool) -> None:
    built = module((A, B), (use(A, 1), use(B, 2), use(A, 3)), target=target)
    if fits:
        verify(built)
    else:
        assert "trn1 has 180224" in refused(built).message


def test_an_alias_takes_no_place() -> None:
    alias = tile("a_remote_1", 100, remote=Remote(1, "a"))
    verify(module((A, B, alias), (use(A, 1), use(B, 2), use(alias, 3), use(A, 4)), (use(A, 1),)))


def test_psum_is_checked_too() -> None:
    p, q = tile("p", 10, Memory.psum), tile("q", 7, Memory.psum)
    k = Tensor("k", (128, 128), DType.float32, Memory.sbuf)
    m = Tensor("m", (128, 64), DType.float32, Memory.sbuf)
    sums = Tensor("sums", (128, 64), DType.float32, Memory.psum)
    error = refused(
        module(
            (p, q, k, m, sums),
            (
                use(p, 1),
                InstMatmul(dst=sums.full(), stationary=k.full(), moving=m.full()),
                use(q, 3),
                use(p, 4),
            ),
        )
    )
    assert error.message.startswith("psum needs 17408 bytes")
    assert error.loc == Loc("kernel.py", 3)


def test_the_largest_five_are_named() -> None:
    many = tuple(tile(f"t{i}", 30 + i) for i in range(8))
    body = tuple(use(t, i) for i, t in enumerate(many)) + tuple(use(t, 20 + i) for i, t in enumerate(many))
    error = refused(module(many, body))
    assert error.loc == Loc("kernel.py", 6)
    assert "t6 (36864), t5 (35840), t4 (34816), t3 (33792), t2 (32768) and 2 more" in error.hint


def test_structure_comes_first() -> None:
    bad = module((A, A), (use(A, 1),))
    with pytest.raises(NkiccError) as caught:
        verify(bad)
    assert caught.value.code == "NKC022"
