"""`nki.collectives`: each call is one builder call of NeuronCodegen, in the signatures of all public releases together.

Operands are given as lists. `priority` is a hint of the DMA queues without effect on results and is not kept; `name`
labels the instruction. Calls that move data return a handle.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from nkicc.builder.arguments import replica_groups
from nkicc.builder.processing_rank import collective_permute_implicit_current_processing_rank_id as processing_rank
from nkicc.builder.source import refuse
from nkicc.ir.penguin import AllGatherVOp, AlltoAllVOp
from nkicc.ir.types import AluOp

from .instruction import NkiInstruction
from .language import NKIObject, Op
from .missing import refuse_unknown
from .tensor import Register, ndarray
from .trace import current

__all__ = [
    "ReplicaGroup",
    "all_gather",
    "all_gather_v",
    "all_gather_v_prepare",
    "all_gather_v_trigger",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "all_to_all_v_prepare",
    "all_to_all_v_trigger",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
    "rg_partition_op",
]

Tensors = Sequence[ndarray]


class rg_partition_op(Enum):
    """How `ReplicaGroup.from_partition_op` numbers the list that a rank belongs to."""

    bitwise_and = "bitwise_and"
    div = "div"
    mod = "mod"


class ReplicaGroup(NKIObject):
    """Lists of ranks that run a collective independently of each other: disjoint, each in ring order. NKC040 for what
    is no list of lists of integers."""

    __slots__ = ("groups",)

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self.groups = replica_groups(groups)

    @staticmethod
    def from_partition_op(world_size: int, op: rg_partition_op, operand: int) -> ReplicaGroup:
        """The ranks 0 .. world_size - 1 by the value of `op(rank, operand)`: rank & operand, rank // operand, or
        rank % operand. Lists come in the order of their first ranks. NKC035 for other arguments."""
        checks = (
            ("world_size", world_size, "a positive integer", type(world_size) is int and world_size > 0),
            ("op", op, "a member of rg_partition_op", isinstance(op, rg_partition_op)),
            ("operand", operand, "an integer, not 0 for div and mod", type(operand) is int
             and (operand > 0 or (operand == 0 and op is rg_partition_op.bitwise_and))),
        )  # fmt: skip
        for what, found, permitted, good in checks:
            if not good:
                refuse("NKC035", inst="from_partition_op", what=what, found=found, permitted=permitted, operand=what)
        lists: dict[int, list[int]] = {}
        for rank in range(world_size):
            if op is rg_partition_op.bitwise_and:
                key = rank & operand
            else:
                key = rank // operand if op is rg_partition_op.div else rank % operand
            lists.setdefault(key, []).append(rank)
        return ReplicaGroup(list(lists.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicaGroup) and self.groups == other.groups

    def __hash__(self) -> int:
        return hash(self.groups)

    def __repr__(self) -> str:
        return f"ReplicaGroup({[list(group) for group in self.groups]})"


def all_reduce(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    op: Op,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """dst = fold of the members' src on every member. `op`: nl.add, nl.maximum or nl.minimum."""
    codegen = current("nki.collectives.all_reduce").codegen
    codegen.all_reduce_cc_raw(_reducer(op), srcs, dsts, replica_group, name=name)
    return NkiInstruction(codegen)


def all_gather(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """dst = the members' src joined along `collective_dim`, 0 or in SBUF also 1."""
    codegen = current("nki.collectives.all_gather").codegen
    codegen.all_gather_cc_raw(None, srcs, dsts, replica_group, collective_dim, name=name)
    return NkiInstruction(codegen)


def reduce_scatter(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: Op,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Member i's dst = chunk i, along `collective_dim`, of the fold of the members' src."""
    codegen = current("nki.collectives.reduce_scatter").codegen
    codegen.reduce_scatter_cc_raw(_reducer(op), srcs, dsts, replica_group, collective_dim, name=name)
    return NkiInstruction(codegen)


def all_to_all(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Member i's dst = for each member j in order, chunk i of j's src, cut and joined along `collective_dim`."""
    codegen = current("nki.collectives.all_to_all").codegen
    codegen.all_to_all_cc_raw(None, srcs, dsts, replica_group, collective_dim, collective_dim, name=name)
    return NkiInstruction(codegen)


def all_to_all_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: ndarray,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """All-to-all of variable counts over flat HBM buffers.

    `metadata_tensor` is uint32 of shape (rows, members), or (1, rows, members) in SBUF: elements sent to each member,
    their offsets in src, elements received from each (written), and with `has_rdispls` their offsets in dst, which
    otherwise has equal slots."""
    codegen = current("nki.collectives.all_to_all_v").codegen
    codegen.all_to_all_v_cc_raw(srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, name=name)
    return NkiInstruction(codegen)


def all_gather_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: ndarray,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """All-gather of variable counts: every member's chunk, of metadata[0, 0] elements at offset metadata[1, 0] of its
    src, goes to its slot of every dst. `has_rdispls` is refused (NKC035)."""
    codegen = current("nki.collectives.all_gather_v").codegen
    codegen.all_gather_v_cc_raw(srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, name=name)
    return NkiInstruction(codegen)


def all_to_all_v_prepare(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: ndarray,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """The metadata part of `all_to_all_v`, for `all_to_all_v_trigger`. NKC065 if another prepare is pending."""
    codegen = current("nki.collectives.all_to_all_v_prepare").codegen
    op = codegen.all_to_all_v_cc_raw(
        srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, name=name, prepare=True
    )
    return NkiInstruction(codegen, 0, op)


def all_gather_v_prepare(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: ndarray,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """The metadata part of `all_gather_v`, for `all_gather_v_trigger`. NKC065 if another prepare is pending."""
    codegen = current("nki.collectives.all_gather_v_prepare").codegen
    op = codegen.all_gather_v_cc_raw(
        srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, name=name, prepare=True
    )
    return NkiInstruction(codegen, 0, op)


def all_to_all_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """Run what `all_to_all_v_prepare` returned. NKC065 unless that is the prepare that is pending."""
    return _trigger("all_to_all_v", AlltoAllVOp, prepare_instr, name)


def all_gather_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """Run what `all_gather_v_prepare` returned. NKC065 unless that is the prepare that is pending."""
    return _trigger("all_gather_v", AllGatherVOp, prepare_instr, name)


def _trigger(
    function: str, kind: type[AlltoAllVOp] | type[AllGatherVOp], prepared: NkiInstruction, name: str | None
) -> NkiInstruction:
    codegen = current(f"nki.collectives.{function}_trigger").codegen
    op = prepared.prepared if isinstance(prepared, NkiInstruction) else None
    if not isinstance(op, kind):
        refuse("NKC065", why=f"this is no {function}_prepare", operand="prepare_instr")
    codegen.trigger(op, name)
    return NkiInstruction(codegen)


def collective_permute(
    srcs: Tensors,
    dsts: Tensors,
    source_target_pairs: Sequence[tuple[int, int]],
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """For each pair (s, t): dst of rank t = src of rank s. Ranks that are no target keep their dst."""
    codegen = current("nki.collectives.collective_permute").codegen
    codegen.tiled_collective_permute_cc_raw(srcs, dsts, source_target_pairs, name=name)
    return NkiInstruction(codegen)


def collective_permute_implicit(
    srcs_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
    num_channels: int | None = None,
) -> NkiInstruction:
    """One ring step per channel: dst = the predecessor's src. Channels count from 0; `num_channels` is that of older
    releases, which `channel_ids` made superfluous."""
    codegen = current("nki.collectives.collective_permute_implicit").codegen
    count = _channels(channel_ids, srcs_by_channel, dsts_by_channel)
    for channel, (srcs, dsts) in enumerate(zip(srcs_by_channel, dsts_by_channel, strict=True)):
        codegen.tiled_collective_permute_implicit_cc_raw(
            srcs, dsts, replica_group, channel, count, name=_of_channel(name, channel)
        )
    return NkiInstruction(codegen, count)


def collective_permute_implicit_reduce(
    srcs0_by_channel: Sequence[Tensors],
    srcs1_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: ReplicaGroup,
    op: Op,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
    num_channels: int | None = None,
) -> NkiInstruction:
    """One ring step per channel that reduces: dst = op(src0, src1) of the predecessor."""
    codegen = current("nki.collectives.collective_permute_implicit_reduce").codegen
    count = _channels(channel_ids, srcs0_by_channel, srcs1_by_channel, dsts_by_channel)
    for channel, (srcs0, srcs1, dsts) in enumerate(
        zip(srcs0_by_channel, srcs1_by_channel, dsts_by_channel, strict=True)
    ):
        codegen.tiled_collective_permute_reduce_implicit_cc_raw(
            _reducer(op), (*srcs0, *srcs1), dsts, replica_group, channel, count, name=_of_channel(name, channel)
        )
    return NkiInstruction(codegen, count)


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int,
    replica_group: ReplicaGroup,
    channel_id: int = 0,
    name: str | None = None,
    num_channels: int = 1,
) -> Register:
    """The rank whose data the ring of `channel_id` has brought here after `iteration_id` permutes; 0 is this rank."""
    codegen = current("nki.collectives.collective_permute_implicit_current_processing_rank_id").codegen
    return Register(processing_rank(codegen, iteration_id, channel_id, num_channels, replica_group, name=name))


def rank_id(name: str | None = None) -> Register:
    """This rank's number in the world, in a register."""
    return Register(current("nki.collectives.rank_id").codegen.rank_id(name=name))


def _reducer(op: Any) -> AluOp | str:
    """The ALU operation of a token; the builder refuses what cannot reduce."""
    if isinstance(op, Op):
        return op.alu or op.name
    return repr(op)


def _channels(channel_ids: Sequence[int], *operands: Sequence[Tensors]) -> int:
    """Number of channels; NKC035 unless the ids are 0, 1, …, NKC034 unless each has one tensor per operand."""
    count = len(channel_ids)
    if list(channel_ids) != list(range(count)) or not count:
        refuse(
            "NKC035",
            inst="collective_permute_implicit",
            what="channel_ids",
            found=list(channel_ids),
            permitted="consecutive ids from 0",
            operand="channel_ids",
        )
    for lists in operands:
        if len(lists) != count or any(len(tensors) != 1 for tensors in lists):
            refuse(
                "NKC034",
                inst="collective_permute_implicit",
                expected=f"{count} channel(s) of one",
                what="tensor each",
                found=[len(tensors) for tensors in lists],
                operand="channel_ids",
            )
    return count


def _of_channel(name: str | None, channel: int) -> str | None:
    """An instruction's label: one call makes one instruction per channel."""
    return name if name is None or channel == 0 else f"{name}.{channel}"


__getattr__ = refuse_unknown("nki.collectives")


def __dir__() -> list[str]:
    return __all__
