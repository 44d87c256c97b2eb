"""Refusals of single instructions that no builder lets through: they protect programs that come as JSON."""

from __future__ import annotations

import pytest

from nkicc.ir.access import AccessPattern, Tensor
from nkicc.ir.base import Inst, Scope
from nkicc.ir.bir import CCChannel, CollectiveKind, InstCollectiveCompute
from nkicc.ir.errors import NkiccError
from nkicc.ir.penguin import AllReduceOp, AlltoAllOp, CollectivePermuteReduceOp
from nkicc.ir.types import AluOp, DType, Loc, Memory, Target, World

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
