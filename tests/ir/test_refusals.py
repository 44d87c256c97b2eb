"""Refusals of single instructions that no builder lets through: they protect programs that come as JSON."""

from __future__ import annotations

import pytest

from nkicc.ir import isa
from nkicc.ir.access import AccessPattern, Register, Tensor
from nkicc.ir.base import Inst, Scope
from nkicc.ir.bir import CCChannel, CollectiveKind, InstCollectiveCompute
from nkicc.ir.errors import NkiccError
from nkicc.ir.penguin import AllReduceOp, AlltoAllOp, CollectivePermuteReduceOp
from nkicc.ir.types import ActFn, AluOp, DType, Loc, Memory, Target, World

HBM = Tensor("a", (8, 16), DType.float32, Memory.shared_hbm)
TILE = Tensor("t", (8, 16), DType.float32, Memory.sbuf)
SCOPE = Scope(World(4), Target.trn2, {tensor.name: tensor for tensor in (HBM, TILE)})
GROUPS = ((0, 1, 2, 3),)
LINE = Loc("k.py", 5)
#: Four columns of the tile: the next row begins 16 elements further.
SLICE = AccessPattern("t", ((16, 8), (1, 4)))


def compute(
    kind: CollectiveKind, op: AluOp, groups: tuple[tuple[int, ...], ...] = GROUPS, tensor: Tensor = HBM, inputs: int = 1
) -> Inst:
    channel = CCChannel(kind, groups, op)
    return InstCollectiveCompute(
        name="cc", srcs=(tensor.full(),) * inputs, dsts=(tensor.full(),), cc_channel=channel, loc=LINE
    )


@pytest.mark.parametrize(
    ("inst", "code", "words"),
    [
        (
            CollectivePermuteReduceOp(
                op=AluOp.add, srcs=(HBM.full(),) * 2, dsts=(HBM.full(),), src_tgt_pairs=((0, 1),), loc=LINE
            ),
            "NKC052",
            "not supported for now",
        ),
        (compute(CollectiveKind.PermuteReduce, AluOp.add, inputs=2), "NKC052", "not supported for now"),
        (
            AllReduceOp(op=AluOp.add, srcs=(SLICE,), dsts=(SLICE,), replica_groups=GROUPS, loc=LINE),
            "NKC059",
            "rows are 4 wide and 16 apart",
        ),
        (
            AlltoAllOp(
                op=AluOp.bypass, srcs=(HBM.full(),), dsts=(TILE.full(),), replica_groups=GROUPS, split_dimension=0,
                concat_dimension=0, loc=LINE,
            ),
            "XCG880",
            "does not support outputs outside of DRAM",
        ),
        (compute(CollectiveKind.AllReduce, AluOp.mult), "BIR066", "AllReduce CollectiveCompute does not support mult"),
        (compute(CollectiveKind.AllGather, AluOp.add), "BIR066", "AllGather CollectiveCompute does not support add"),
        (compute(CollectiveKind.AllReduce, AluOp.add, (), TILE), "BIR113", "AllReduce requires non-empty"),
    ],
)  # fmt: skip
def test_an_instruction_refuses_itself(inst: Inst, code: str, words: str) -> None:
    with pytest.raises(NkiccError) as error:
        inst.verify(SCOPE)
    assert error.value.code == code, str(error.value)
    assert words in error.value.message
    assert error.value.loc == LINE


X, Y = (Tensor(name, (8, 8), DType.float32, Memory.sbuf) for name in "xy")
BYTES = Tensor("bytes", (8, 8), DType.uint8, Memory.sbuf)
Z = Tensor("z", (8, 9), DType.int32, Memory.sbuf)
TILES = Scope(World(1), Target.trn3, {tensor.name: tensor for tensor in (X, Y, Z, BYTES)})
HUGE = 1 << 70


@pytest.mark.parametrize(
    ("inst", "operand"),
    [
        (isa.InstMemset(dst=Y.full(), value=HUGE, loc=LINE), "value"),
        (isa.InstMemset(dst=Z.full(), value=-HUGE, loc=LINE), "value"),
        (isa.InstTensorCopyPredicated(dst=Z.full(), src=HUGE, predicate=BYTES.full(), loc=LINE), "src"),
        (isa.InstTensorScalar(dst=Y.full(), data=X.full(), op0=AluOp.add, operand0=HUGE, loc=LINE), "operand0"),
        (
            isa.InstTensorScalar(
                dst=Y.full(), data=X.full(), op0=AluOp.add, op1=AluOp.mult, operand1=-HUGE, loc=LINE
            ),
            "operand1",
        ),
        (
            isa.InstScalarTensorTensor(
                dst=Y.full(), data=X.full(), op0=AluOp.add, operand0=HUGE, op1=AluOp.add, operand1=X.full(), loc=LINE
            ),
            "operand0",
        ),
        (isa.InstActivation(dst=Y.full(), data=X.full(), func=ActFn.exp, bias=HUGE, loc=LINE), "bias"),
        (isa.InstActivation(dst=Y.full(), data=X.full(), func=ActFn.exp, scale=HUGE, loc=LINE), "scale"),
        (isa.InstExponential(dst=Y.full(), src=X.full(), max_value=HUGE, loc=LINE), "max_value"),
        (
            isa.InstSelectReduce(dst=Y.full(), on_true=X.full(), predicate=BYTES.full(), on_false=HUGE, loc=LINE),
            "on_false",
        ),
        (isa.InstDropout(dst=Y.full(), data=X.full(), prob=10**400, loc=LINE), "prob"),
        (isa.InstRand2(dst=Y.full(), min=-HUGE, max=0, loc=LINE), "min"),
        (isa.InstMatchReplace8(dst=Y.full(), data=X.full(), vals=X.full(), imm=10**400, loc=LINE), "imm"),
        (isa.InstIota(dst=Y.full(), pattern=((1, 8),), offset=HUGE, loc=LINE), "offset"),
        (isa.InstIota(dst=Y.full(), pattern=((1, 8),), channel_multiplier=HUGE, loc=LINE), "channel_multiplier"),
        (isa.InstIota(dst=Y.full(), pattern=((HUGE, 8),), loc=LINE), "pattern"),
        (isa.InstIota(dst=Y.full(), pattern=((1, -2), (1, -4)), loc=LINE), "pattern"),
        (
            isa.InstAffineSelect(
                dst=Y.full(), on_true=X.full(), on_false=10**400, pattern=((1, 8),), channel_multiplier=0, loc=LINE
            ),
            "on_false_value",
        ),
        (
            isa.InstAffineSelect(
                dst=Y.full(), on_true=X.full(), on_false=0, pattern=((1, 8),), channel_multiplier=HUGE, loc=LINE
            ),
            "channel_multiplier",
        ),
        (isa.InstNonzeroWithCount(dst=Z.full(), src=X.full(), index_offset=HUGE, loc=LINE), "index_offset"),
        (isa.InstNonzeroWithCount(dst=Z.full(), src=X.full(), padding_val=-HUGE, loc=LINE), "padding_val"),
        (isa.InstRegisterAlu(dst=Register("r"), op=AluOp.add, a=HUGE, b=0, loc=LINE), "a"),
        (isa.InstRegisterAlu(dst=Register("r", DType.int64), op=AluOp.add, a=0, b=HUGE, loc=LINE), "b"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Inst) else value,
)  # fmt: skip
def test_constants_beyond_what_the_engines_count_with(inst: Inst, operand: str) -> None:
    with pytest.raises(NkiccError) as error:
        inst.verify(TILES)
    assert (error.value.code, error.value.operand, error.value.loc) == ("NKC035", operand, LINE), str(error.value)
