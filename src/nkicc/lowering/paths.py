"""The two codegen paths: one table of what they do differently, and the assertions of the klr leaves.

`loop` lowers every op class completely. `klr` reproduces the KLR leaves: what they assert, drop and refuse (public
compiler notes, "KLR to BIR leaves" and "Two paths"). Fields of ours that carry a dimension (`cc_dim`, `split_dim`,
`concat_dim`) are written on both, since otherwise a klr program could not be run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from nkicc.ir import penguin
from nkicc.ir.base import Inst
from nkicc.ir.bir import CollectiveComputeTypeHint
from nkicc.ir.errors import fail
from nkicc.ir.types import AluOp

__all__ = ["DIFFERENCES", "KLR", "LOOP", "PATHS", "Path", "check_klr"]

#: One row per difference: rule -> (loop, klr). The rules are the fields of `Path`.
DIFFERENCES: dict[str, tuple[Any, Any]] = {
    "asserts": (False, True),
    "refused": (
        {},
        {
            "SendRecvCCEOp": "43",
            "BroadcastOp": "58",
            "SendOp": "62",
            "RecvOp": "63",
            "TiledAllReduceOp": "TiledAllReduceOp",
            "AlltoAllVOp": "AlltoAllVOp",
            "AllGatherVOp": "AllGatherVOp",
        },
    ),
    "masked_sendrecv": (True, False),
    "use_gpsimd_dma": (True, False),
    "initial_corebarrier": (True, False),
    "sendrecv_groups": (True, False),
    "dma_qos": (True, False),
    "cc_type_hint": ("TP", "None"),
    "stream_id": (0, -1),
    "split_count": (True, False),
    "world_size": (True, False),
}


class Path(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One column of the table.

    `asserts`: the leaf's assertions are checked. `refused`: op class -> operator kind without a leaf.
    `masked_sendrecv`: a mask is permitted there. `use_gpsimd_dma`, `dma_qos`: copied from the op, else left at false
    and Unassigned. `initial_corebarrier`: copied, else constant true. `sendrecv_groups`: local transfers carry the
    cores as their group. `cc_type_hint`: of AllGather and ReduceScatter. `stream_id`: of every collective and of the
    processing-rank query. `split_count`: written on AllToAll. `world_size`: written on GetGlobalRankId.
    """

    asserts: bool
    refused: dict[str, str]
    masked_sendrecv: bool
    use_gpsimd_dma: bool
    initial_corebarrier: bool
    sendrecv_groups: bool
    dma_qos: bool
    cc_type_hint: CollectiveComputeTypeHint
    stream_id: int
    split_count: bool
    world_size: bool


LOOP = msgspec.convert({rule: loop for rule, (loop, _) in DIFFERENCES.items()}, Path)
KLR = msgspec.convert({rule: klr for rule, (_, klr) in DIFFERENCES.items()}, Path)
PATHS = {"loop": LOOP, "klr": KLR}

Assertion = tuple[str, Callable[[Any], bool]]


def _has_channel(op: Any) -> bool:
    return getattr(op, "channel_id", None) is not None


_SHARED: tuple[Assertion, ...] = (
    ("srcs are not empty", lambda op: len(op.srcs) > 0),
    ("dsts are not empty", lambda op: len(op.dsts) > 0),
    ("as many srcs as dsts", lambda op: len(op.srcs) == len(op.dsts)),
)
_ONE_SRC: Assertion = ("exactly 1 src (guaranteed by frontend API)", lambda op: len(op.srcs) == 1)
_ONE_DST: Assertion = ("exactly 1 dst", lambda op: len(op.dsts) == 1)
_CHANNEL: Assertion = ("channel_id is present", _has_channel)
_OP: Assertion = ("op is present", lambda op: op.op is not AluOp.bypass)

_IMPLICIT = ("codegenCollectivePermuteImplicit", (_ONE_SRC, _ONE_DST, _CHANNEL, *_SHARED))
_EXPLICIT = (
    "codegenCollectivePermute",
    (
        _ONE_SRC,
        _ONE_DST,
        ("sourceTargetPairs are present", lambda op: bool(op.src_tgt_pairs)),
        ("each pair has length 2", lambda op: all(len(pair) == 2 for pair in op.src_tgt_pairs)),
    ),
)
_REDUCE = (
    "codegenCollectivePermuteImplicitReduce",
    (("exactly 2 srcs", lambda op: len(op.srcs) == 2), _ONE_DST, _OP, _CHANNEL),
)
_ASSERTIONS: dict[type[Inst], tuple[str, tuple[Assertion, ...]]] = {
    penguin.AllReduceOp: ("codegenAllReduce", (_OP, *_SHARED)),
    penguin.AllGatherOp: (
        "codegenAllGather",
        (
            ("concatDim is present", lambda op: op.all_gather_dim is not None),
            *_SHARED,
            ("concatDim is 0 or 1", lambda op: op.all_gather_dim in (0, 1)),
        ),
    ),
    penguin.ReduceScatterOp: ("codegenReduceScatter", _SHARED),
    penguin.AlltoAllOp: ("codegenAllToAll", _SHARED),
    penguin.CollectivePermuteOp: _IMPLICIT,
    penguin.CollectivePermuteReduceOp: _REDUCE,
    penguin.TiledCollectivePermuteReduceOp: _REDUCE,
}


def check_klr(op: Inst, core: int) -> None:
    """The assertions of the op's klr leaf, in the leaf's order: NKC091, or the leaf's own string for SendRecv (NKC071,
    NKC072, NKC075, NKC076)."""
    if isinstance(op, penguin.SendRecvOp):
        _check_sendrecv(op, core)
        return
    if isinstance(op, penguin.TiledCollectivePermuteOp):
        leaf, assertions = _IMPLICIT if op.is_implicit else _EXPLICIT
    else:
        leaf, assertions = _ASSERTIONS.get(type(op), ("", ()))
    for condition, holds in assertions:
        if not holds(op):
            fail("NKC091", leaf=leaf, condition=condition, loc=op.loc)


def _check_sendrecv(op: penguin.SendRecvOp, core: int) -> None:
    for what, value in (
        ("sendToRank", op.send_to_rank),
        ("recvFromRank", op.recv_from_rank),
        ("pipeId", op.pipe_id),
    ):
        if type(value) is not int:
            fail("NKC075", what=what, loc=op.loc)
    if op.recv_from_rank == core:
        fail("NKC071", core=core, operand="recv_from_rank", loc=op.loc)
    if op.send_to_rank == core:
        fail("NKC072", core=core, operand="send_to_rank", loc=op.loc)
