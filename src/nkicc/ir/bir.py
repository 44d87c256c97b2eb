"""The bir level: what the lowering emits, field by field under the device compiler's own names.

Kind numbers, wire bytes and ordinals live here and nowhere else. Fields without a public counterpart are marked "ours":
`split_dim`, `concat_dim`, `split_count` (AllToAll geometry), `broadcast_sizes`, `metadata`, `recv_counts_known`,
`has_rdispls` (variable-length forms).
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta, Struct

from .access import AccessPattern, Register
from .base import Inst, Scope, in_memory, same_dtype, verify_operands
from .errors import fail
from .penguin import (
    check_broadcast,
    check_core,
    check_dim,
    check_equal_shapes,
    check_exchanged,
    check_gathered,
    check_local,
    check_metadata,
    check_scattered,
    collective_memory,
)
from .types import COMMUTATIVE_REDUCERS, AluOp, Engine, Groups, Memory, NonNegative, Pairs

__all__ = [
    "CCChannel",
    "CollectiveComputeTypeHint",
    "CollectiveDimension",
    "CollectiveKind",
    "DMAQoSClass",
    "InstCollectiveCompute",
    "InstCollectiveRecv",
    "InstCollectiveSend",
    "InstCoreBarrier",
    "InstGPSIMDSB2SB",
    "InstGetCurProcessingRankID",
    "InstGetGlobalRankId",
    "UniqueTensors",
]

Operands = tuple[AccessPattern, ...]


class CollectiveKind(str, Enum):
    """`bir::CollectiveKind`; the JSON form is the name, `number` the enum value, `wire` the byte in the descriptor."""

    SendRecv = "SendRecv"
    SendRecvCCE = "SendRecvCCE"
    AllReduce = "AllReduce"
    ReduceScatter = "ReduceScatter"
    AllGather = "AllGather"
    AllToAll = "AllToAll"
    AllToAllV = "AllToAllV"
    Permute = "Permute"
    PermuteReduce = "PermuteReduce"
    PermuteImplicit = "PermuteImplicit"
    PermuteReduceImplicit = "PermuteReduceImplicit"

    @property
    def number(self) -> int:
        return _NUMBER[self]

    @property
    def wire(self) -> int:
        """The wire byte; ValueError `Invalid enum variant for enum CollectiveKind` for the local kinds 0 and 1."""
        if self.number < 2:
            raise ValueError("Invalid enum variant for enum CollectiveKind")
        return b"\x01\x02\x03\x04\x09\x05\x06\x07\x08"[self.number - 2]


_NUMBER = {kind: number for number, kind in enumerate(CollectiveKind)}

#: Kinds whose combine step needs a reduce op; every other kind must carry `bypass`.
REDUCING_KINDS = frozenset(
    {
        CollectiveKind.SendRecvCCE,
        CollectiveKind.AllReduce,
        CollectiveKind.ReduceScatter,
        CollectiveKind.PermuteReduce,
        CollectiveKind.PermuteReduceImplicit,
    }
)

#: Kinds that exist only between the cores of a rank.
LOCAL_KINDS = frozenset({CollectiveKind.SendRecv, CollectiveKind.SendRecvCCE})


class CollectiveDimension(str, Enum):
    """`cc_dim`: Partition is dimension 0 of the operands, Free is dimension 1."""

    Partition = "Partition"
    Free = "Free"


class CollectiveComputeTypeHint(str, Enum):
    TP = "TP"
    FSDP = "FSDP"
    none = "None"


class UniqueTensors(str, Enum):
    Unknown = "Unknown"
    No = "No"
    Yes = "Yes"


class DMAQoSClass(str, Enum):
    """DMA quality of service; `number` is the class, `encoded` the 3-bit field of gen3 and later."""

    Unassigned = "Unassigned"
    Default = "Default"
    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    P3 = "P3"
    P4 = "P4"
    P5 = "P5"
    P6 = "P6"
    P7 = "P7"
    P8 = "P8"
    P9 = "P9"
    P10 = "P10"
    P11 = "P11"
    P12 = "P12"
    P13 = "P13"
    P14 = "P14"

    @classmethod
    def of(cls, number: int | None) -> DMAQoSClass:
        """The class of a builder's `dma_qos` (None: Unassigned)."""
        return _QOS[number or 0]


_QOS = tuple(DMAQoSClass)


class CCChannel(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`cc_channel` of a collective: algorithm, membership, reduce op."""

    kind: CollectiveKind
    replica_groups: Groups = ()
    op: AluOp = AluOp.bypass


class InstCollectiveCompute(Inst, frozen=True, kw_only=True):
    """IT48. One collective: `srcs` are its arguments, `dsts` its outputs.

    `cc_dim` is None where the kind has no dimension. `stream_id` -1 means unset. `recv_from_rank` and `send_to_rank`
    are lists (kind 1 receives from several). `peer` is the value of the peer expression 1 - recv_from_rank of a local
    swap. After `coalesce-multichannel-cc` one instruction carries several channels: `channel_ids` lists them, one
    (srcs, dsts) zip position each.
    """

    srcs: Operands
    dsts: Operands
    cc_channel: CCChannel
    engine: Engine = Engine.pool
    channel_id: NonNegative | None = None
    channel_ids: tuple[int, ...] = ()
    stream_id: Annotated[int, Meta(ge=-1)] = -1
    src_target_pairs: Pairs = ()
    can_read_uninit: bool = False
    is_local: bool = False
    pipe_id: int | None = None
    recv_from_rank: tuple[int, ...] = ()
    send_to_rank: tuple[int, ...] = ()
    peer: int | None = None
    initial_corebarrier: bool = False
    use_gpsimd_dma: bool = False
    cc_type_hint: CollectiveComputeTypeHint = CollectiveComputeTypeHint.none
    permute_chain: tuple[int, ...] = ()
    cc_dim: CollectiveDimension | None = None
    unique_tensors: UniqueTensors = UniqueTensors.Unknown
    dma_qos: DMAQoSClass = DMAQoSClass.Unassigned
    queue: str | None = None
    split_count: int | None = None
    split_dim: int | None = None
    concat_dim: int | None = None
    broadcast_sizes: tuple[NonNegative, ...] = ()
    metadata: AccessPattern | None = None
    recv_counts_known: bool = False
    has_rdispls: bool = False

    @property
    def kind(self) -> CollectiveKind:
        return self.cc_channel.kind

    def reads(self) -> Operands:
        return self.srcs if self.metadata is None else (*self.srcs, self.metadata)

    def writes(self) -> Operands:
        return self.dsts if self.metadata is None or self.recv_counts_known else (*self.dsts, self.metadata)

    def verify(self, scope: Scope) -> None:
        """The device verifier's operand rules: arity (BIR026, XCG876, XCG877), reduce op (BIR066), groups (BIR113,
        NKC04x); and the shapes and dtypes that the kind needs."""
        kind, groups, op = self.cc_channel.kind, self.cc_channel.replica_groups, self.cc_channel.op
        verify_operands(self, scope)
        if (op in COMMUTATIVE_REDUCERS) != (kind in REDUCING_KINDS) or (
            kind not in REDUCING_KINDS and op is not AluOp.bypass
        ):
            fail("BIR066", kind=kind.value, op=op.value, name=self.name, operand="cc_channel.op", loc=self.loc)
        if kind is CollectiveKind.PermuteReduce:
            fail("NKC052", loc=self.loc)
        self._verify_arity(kind)
        if self.is_local:
            self._verify_local(scope)
            return
        if kind in LOCAL_KINDS:
            fail("NKC035", inst=self.label, what="is_local", found=False, permitted="true", loc=self.loc)
        memory = collective_memory(self, scope)
        if kind is CollectiveKind.Permute:
            scope.check_pairs(self.src_target_pairs, self.label, self.loc)
        elif not groups and memory is Memory.sbuf:
            fail("BIR113", kind=kind.value, operand="cc_channel.replica_groups", loc=self.loc)
        else:
            equal = kind not in (
                CollectiveKind.AllReduce,
                CollectiveKind.PermuteImplicit,
                CollectiveKind.PermuteReduceImplicit,
            )
            scope.check_groups(groups, self.label, self.loc, equal=equal)
        for name in ("split_dim", "concat_dim"):
            if getattr(self, name) is not None:
                check_dim(self, name, getattr(self, name))
        self._verify_shapes(kind, scope, len(groups[0]) if groups else 1)

    def _verify_local(self, scope: Scope) -> None:
        """A transfer inside a rank names cores of that rank (NKC070) and moves equal shapes (NKC033)."""
        check_local(self, scope)
        for core in self.recv_from_rank:
            check_core(self, scope, "recv_from_rank", core)
        for core in self.send_to_rank:
            check_core(self, scope, "send_to_rank", core)
        for src in self.srcs:
            same_dtype(self, scope, src, self.dsts[0])
            check_equal_shapes(self, (src,), self.dsts[:1])

    def _verify_shapes(self, kind: CollectiveKind, scope: Scope, n: int) -> None:
        """What the kind makes of shapes for groups of `n` (NKC033, NKC036, NKC054, NKC058); one dtype for a source and
        its destination (NKC032)."""
        per_dst = len(self.srcs) // len(self.dsts)
        for index, src in enumerate(self.srcs):
            dst = self.dsts[index // per_dst]
            same_dtype(self, scope, src, dst)
            match kind:
                case CollectiveKind.AllGather if self.metadata is not None:
                    check_metadata(self, scope, self.metadata, dst, n, self.has_rdispls)
                case CollectiveKind.AllGather if self.broadcast_sizes:
                    check_broadcast(self, src.shape, dst.shape, self.broadcast_sizes, n)
                case CollectiveKind.AllGather:
                    check_gathered(self, src.shape, dst.shape, self._dim(), n)
                case CollectiveKind.ReduceScatter:
                    check_scattered(self, src.shape, dst.shape, self._dim(), n)
                case CollectiveKind.AllToAll:
                    check_exchanged(self, src.shape, dst.shape, self.split_dim or 0, self.concat_dim or 0, n)
                case CollectiveKind.AllToAllV:
                    if self.metadata is None:
                        fail("NKC034", inst=self.label, expected="one", what="metadata tensor", found=0, loc=self.loc)
                    if len(self.srcs) != 1:
                        count = len(self.srcs)
                        fail(
                            "NKC034", inst=self.label, expected="exactly one", what="source", found=count, loc=self.loc
                        )
                    check_metadata(self, scope, self.metadata, dst, n, self.has_rdispls)
                case _:
                    if src.shape != dst.shape:
                        check_equal_shapes(self, (src,), (dst,))

    def _dim(self) -> int:
        return 1 if self.cc_dim is CollectiveDimension.Free else 0

    def _verify_arity(self, kind: CollectiveKind) -> None:
        srcs, dsts = len(self.srcs), len(self.dsts)
        if kind in LOCAL_KINDS:
            if srcs < 1 or dsts != 1 or srcs != len(self.recv_from_rank):
                fail("BIR026", operand="recv_from_rank", loc=self.loc)
        elif kind is CollectiveKind.PermuteReduceImplicit:
            if dsts < 1 or srcs != 2 * dsts:
                fail("XCG877", kind=kind.value, num_arguments=srcs, num_outputs=dsts, loc=self.loc)
        elif dsts < 1 or srcs != dsts:
            fail("XCG876", kind=kind.value, num_arguments=srcs, num_outputs=dsts, loc=self.loc)


class InstCollectiveSend(Inst, frozen=True, kw_only=True):
    """IT49: `srcs` to rank `peer_id`."""

    srcs: Operands
    peer_id: int
    can_read_uninit: bool = False

    def reads(self) -> Operands:
        return self.srcs

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        scope.check_rank(self.peer_id, "peer_id", self.loc)


class InstCollectiveRecv(Inst, frozen=True, kw_only=True):
    """IT50: `dsts` from rank `peer_id`."""

    dsts: Operands
    peer_id: int

    def writes(self) -> Operands:
        return self.dsts

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        scope.check_rank(self.peer_id, "peer_id", self.loc)


class InstCoreBarrier(Inst, frozen=True, kw_only=True):
    """IT87: the `cores` of a rank meet here. `data` (argument and output) is None on barriers that passes insert; `id`
    is written by `renumber-core-barriers`."""

    data: AccessPattern | None = None
    cores: tuple[int, ...]
    engine: Engine = Engine.unassigned
    id: NonNegative | None = None

    def reads(self) -> Operands:
        return () if self.data is None else (self.data,)

    def writes(self) -> Operands:
        return self.reads()

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        if scope.target.arch < 30:
            fail("BIR530", opcode="CoreBarrier", arch=scope.target.arch, min_arch=30, loc=self.loc)
        expected = tuple(range(scope.world.lnc))
        if scope.core not in self.cores or not set(self.cores) <= set(expected):
            fail("NKC085", found=list(self.cores), expected=list(expected), operand="cores", loc=self.loc)


class InstGetGlobalRankId(Inst, frozen=True, kw_only=True):
    """IT11: output register = global rank. `world_size` is None on the klr path, whose leaf does not write it."""

    output: Register
    world_size: int | None = None
    engine: Engine = Engine.all

    def verify(self, scope: Scope) -> None:
        check_engine_all(self, self.engine, "GetGlobalRankId", scope)


class InstGetCurProcessingRankID(Inst, frozen=True, kw_only=True):
    """IT66: output register = rank whose data the implicit ring has brought here at `iter_id`."""

    output: Register
    iter_id: NonNegative
    channel_id: NonNegative = 0
    replica_groups: Groups
    stream_id: Annotated[int, Meta(ge=-1)] = -1
    engine: Engine = Engine.all

    def verify(self, scope: Scope) -> None:
        check_engine_all(self, self.engine, "GetCurProcessingRankID", scope)
        scope.check_groups(self.replica_groups, self.label, self.loc, equal=False)


class InstGPSIMDSB2SB(Inst, frozen=True, kw_only=True):
    """IT33: dst = the other core's `src`, moved by the GpSimd engine. Both cores issue it; they meet there."""

    dst: AccessPattern
    src: AccessPattern
    pipe_id: int = 0
    engine: Engine = Engine.pool

    def reads(self) -> Operands:
        return (self.src,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_local(self, scope)
        verify_operands(self, scope)
        in_memory(self, scope, self.src, "src", Memory.sbuf)
        in_memory(self, scope, self.dst, "dst", Memory.sbuf)
        same_dtype(self, scope, self.src, self.dst)
        check_equal_shapes(self, (self.src,), (self.dst,))


def check_engine_all(inst: Inst, engine: Engine, opcode: str, scope: Scope) -> None:
    """Rank instructions run on the pseudo engine ALL (BIR606)."""
    if engine is not Engine.all:
        fail(
            "BIR606",
            engine=engine.value,
            opcode=opcode,
            arch=scope.target.arch,
            valid="ALL",
            operand="engine",
            loc=inst.loc,
        )
