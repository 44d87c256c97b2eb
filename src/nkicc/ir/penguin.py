"""The penguin level: collective ops exactly as the builders of `NeuronCodegen` mint them.

An op here holds routing fields only. Kind numbers, `cc_dim` and every other BIR field are written by the lowering.
Rules come from the builder contract (sections 3 to 7 there) and from the public nki.collectives pages; each check names
its error code.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from .access import AccessPattern, Register, dense_pattern, is_dense
from .base import Inst, Scope, in_memory, same_dtype, verify_operands
from .errors import fail
from .types import COMMUTATIVE_REDUCERS, AluOp, DType, Engine, Groups, Memory, NonNegative, Pairs

__all__ = [
    "AllGatherOp",
    "AllGatherVOp",
    "AllReduceOp",
    "AlltoAllOp",
    "AlltoAllVOp",
    "Barrier",
    "BroadcastOp",
    "CollectiveComputeOp",
    "CollectiveOp",
    "CollectivePermuteOp",
    "CollectivePermuteReduceOp",
    "CoreBarrierOp",
    "CurrentProcessingRankId",
    "GetGlobalRankId",
    "HbmTensor",
    "RecvOp",
    "ReduceScatterOp",
    "SendOp",
    "SendRecvCCEOp",
    "SendRecvOp",
    "ShardOp",
    "TiledAllReduceOp",
    "TiledCollectivePermuteOp",
    "TiledCollectivePermuteReduceOp",
    "VariableOp",
]

DmaQos = Annotated[int, Meta(ge=0, le=16)]
Operands = tuple[AccessPattern, ...]


class HbmTensor(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole HBM tensor as an operand: what `_map_to_hbm_tensors` makes, as opposed to an nd access pattern."""

    tensor: str
    shape: tuple[int, ...]

    def access(self) -> AccessPattern:
        """The tensor's dense access pattern."""
        return AccessPattern(self.tensor, dense_pattern(self.shape))


class CollectiveOp(Inst, frozen=True, kw_only=True):
    """Base of everything that takes part in a transfer between ranks."""

    dtype: DType | None = None
    dma_qos: DmaQos | None = None


class CollectiveComputeOp(CollectiveOp, frozen=True, kw_only=True):
    """Base of the group collectives: every member of a group issues the op with its own `srcs` and `dsts`.

    `op` is the reduce op of the reducers and `bypass` elsewhere (XCG826). `dtype` is None or the operands' type
    (NKC061).
    """

    op: AluOp = AluOp.bypass
    srcs: Operands
    dsts: Operands
    replica_groups: Groups = ()

    def reads(self) -> Operands:
        return self.srcs

    def writes(self) -> Operands:
        return self.dsts

    def check_zip(self, scope: Scope) -> Memory:
        """As many sources as destinations (NKC034), one memory for all (NKC031), one tensor per list in SBUF (NKC037),
        one dtype per pair (NKC032). Returns the memory."""
        if not self.srcs or len(self.srcs) != len(self.dsts):
            fail(
                "NKC034",
                inst=self.label,
                expected="as many destinations as sources, at least one",
                what="",
                found=f"{len(self.srcs)} sources and {len(self.dsts)} destinations",
                loc=self.loc,
            )
        verify_operands(self, scope)
        memory = collective_memory(self, scope)
        if memory is Memory.sbuf and len(self.srcs) > 1 and not isinstance(self, TiledAllReduceOp):
            fail("NKC037", inst=self.label, found=len(self.srcs), loc=self.loc)
        for src, dst in zip(self.srcs, self.dsts, strict=True):
            same_dtype(self, scope, src, dst)
            if self.dtype is not None and scope.dtype(src) is not self.dtype:
                fail(
                    "NKC061",
                    inst=self.label,
                    dtype=self.dtype.value,
                    operand_dtype=scope.dtype(src).value,
                    loc=self.loc,
                )
        return memory

    def check_bypass(self) -> None:
        """XCG826 if an op that does not reduce carries a reduce op."""
        if self.op is not AluOp.bypass:
            fail("XCG826", kind=type(self).__name__.removesuffix("Op"), operand="op", loc=self.loc)

    def check_reducer(self) -> None:
        """NKC053 unless the reduce op is add, max or min."""
        if self.op not in COMMUTATIVE_REDUCERS:
            fail("NKC053", op=self.op.value, inst=self.label, operand="op", loc=self.loc)

    def check_dense(self, memory: Memory) -> None:
        """NKC059 unless SBUF operands are densely packed."""
        if memory is not Memory.sbuf:
            return
        for role, operands in (("srcs", self.srcs), ("dsts", self.dsts)):
            for ap in operands:
                if not ap.is_dynamic and not is_dense(ap.pattern):
                    fail(
                        "NKC059",
                        inst=self.label,
                        name=ap.tensor,
                        width=ap.size // ap.pattern[0][1],
                        pitch=ap.pattern[0][0],
                        operand=role,
                        loc=self.loc,
                    )


class AllReduceOp(CollectiveComputeOp, frozen=True, kw_only=True):
    """dst = fold of the members' src, in group order, on every member. Shapes are equal (NKC033); groups may differ in
    size. Lowered to kind AllReduce."""

    def verify(self, scope: Scope) -> None:
        self.check_reducer()
        scope.check_groups(self.replica_groups, self.label, self.loc, equal=False)
        self.check_dense(self.check_zip(scope))
        check_equal_shapes(self, self.srcs, self.dsts)


class TiledAllReduceOp(AllReduceOp, frozen=True, kw_only=True):
    """AllReduceOp with one access pattern per tile (`all_reduce_cc_raw(tiled=True)`)."""


class AllGatherOp(CollectiveComputeOp, frozen=True, kw_only=True):
    """dst = the members' src concatenated along `all_gather_dim` (0 outermost or partition, 1 free) in group order.
    Groups are of equal size (NKC044). Lowered to kind AllGather."""

    all_gather_dim: int

    def verify(self, scope: Scope) -> None:
        self.check_bypass()
        check_dim(self, "all_gather_dim", self.all_gather_dim)
        scope.check_groups(self.replica_groups, self.label, self.loc, equal=True)
        self.check_dense(self.check_zip(scope))
        n = len(self.replica_groups[0])
        for src, dst in zip(self.srcs, self.dsts, strict=True):
            check_gathered(self, src.shape, dst.shape, self.all_gather_dim, n)


class ReduceScatterOp(CollectiveComputeOp, frozen=True, kw_only=True):
    """Member i's dst = chunk i, along `reduce_scatter_dim`, of the fold of the members' src. The dim divides by the
    group size (NKC036). Lowered to kind ReduceScatter."""

    reduce_scatter_dim: int

    def verify(self, scope: Scope) -> None:
        self.check_reducer()
        check_dim(self, "reduce_scatter_dim", self.reduce_scatter_dim)
        scope.check_groups(self.replica_groups, self.label, self.loc, equal=True)
        self.check_dense(self.check_zip(scope))
        n, dim = len(self.replica_groups[0]), self.reduce_scatter_dim
        for src, dst in zip(self.srcs, self.dsts, strict=True):
            check_scattered(self, src.shape, dst.shape, dim, n)


class AlltoAllOp(CollectiveComputeOp, frozen=True, kw_only=True):
    """Member i's dst = for each member j in order, chunk i of j's src. Sources are cut along `split_dimension`, chunks
    are joined along `concat_dimension`; both are required (NKC050, NKC051). HBM only (XCG879, XCG880). Lowered to kind
    AllToAll."""

    split_dimension: int | None = None
    concat_dimension: int | None = None

    def verify(self, scope: Scope) -> None:
        if self.split_dimension is None:
            fail("NKC050", operand="split_dimension", loc=self.loc)
        if self.concat_dimension is None:
            fail("NKC051", operand="concat_dimension", loc=self.loc)
        self.check_bypass()
        check_dim(self, "split_dimension", self.split_dimension)
        check_dim(self, "concat_dimension", self.concat_dimension)
        scope.check_groups(self.replica_groups, self.label, self.loc, equal=True)
        only_hbm(self, scope, "AllToAll")
        self.check_zip(scope)
        n = len(self.replica_groups[0])
        for src, dst in zip(self.srcs, self.dsts, strict=True):
            check_exchanged(self, src.shape, dst.shape, self.split_dimension, self.concat_dimension, n)


class VariableOp(CollectiveComputeOp, frozen=True, kw_only=True):
    """Base of the collectives whose counts are data: one flat HBM source, one flat HBM destination, and `metadata`.

    `metadata` is uint32 of shape (rows, N) in HBM or (1, rows, N) in SBUF: row 0 elements sent, row 1 their offset in
    src, row 2 elements received from each member (written unless `recv_counts_known`), row 3 (with `has_rdispls`) their
    offset in dst; without it member s's slot in dst starts at s·(dst.size / N).
    """

    metadata: AccessPattern
    recv_counts_known: bool = False
    has_rdispls: bool = False

    def reads(self) -> Operands:
        return (*self.srcs, self.metadata)

    def writes(self) -> Operands:
        return self.dsts if self.recv_counts_known else (*self.dsts, self.metadata)

    def verify(self, scope: Scope) -> None:
        self.check_bypass()
        scope.check_groups(self.replica_groups, self.label, self.loc, equal=True)
        if len(self.srcs) != 1 or len(self.dsts) != 1:
            fail(
                "NKC034",
                inst=self.label,
                expected="exactly one",
                what="source and destination",
                found=f"{len(self.srcs)} and {len(self.dsts)}",
                loc=self.loc,
            )
        self.check_zip(scope)
        only_hbm(self, scope, type(self).__name__.removesuffix("Op"))
        check_metadata(self, scope, self.metadata, self.dsts[0], len(self.replica_groups[0]), self.has_rdispls)


class AlltoAllVOp(VariableOp, frozen=True, kw_only=True):
    """All-to-all of variable counts (nki.collectives.all_to_all_v): rows 0 and 1 of the metadata have one column per
    destination. Lowered to kind AllToAllV."""


class AllGatherVOp(VariableOp, frozen=True, kw_only=True):
    """All-gather of variable counts (nki.collectives.all_gather_v): every member sends one chunk to all, so rows 0 and
    1 of the metadata have one value, in column 0. `has_rdispls` is refused (NKC035), as the releases do. Lowered to
    kind AllGather carrying the metadata, since BIR has no kind of its own."""

    def verify(self, scope: Scope) -> None:
        if self.has_rdispls:
            fail(
                "NKC035",
                inst=self.label,
                what="has_rdispls",
                found=True,
                permitted="False, every member has an equal slot of dst",
                operand="has_rdispls",
                loc=self.loc,
            )
        VariableOp.verify(self, scope)


class BroadcastOp(CollectiveComputeOp, frozen=True, kw_only=True):
    """Every member sends `broadcast_sizes[i]` rows (along dim 0) of its src to all: dst = those rows concatenated in
    group order. With one non-zero entry this is a broadcast from that member. Lowered to kind AllGather carrying the
    sizes, since BIR has no Broadcast kind."""

    broadcast_sizes: tuple[NonNegative, ...]

    def verify(self, scope: Scope) -> None:
        self.check_bypass()
        scope.check_groups(self.replica_groups, self.label, self.loc, equal=True)
        self.check_zip(scope)
        n = len(self.replica_groups[0])
        for src, dst in zip(self.srcs, self.dsts, strict=True):
            check_broadcast(self, src.shape, dst.shape, self.broadcast_sizes, n)


class CollectivePermuteOp(CollectiveOp, frozen=True, kw_only=True):
    """One step of the implicit ring on whole HBM tensors: dst = the predecessor's src; group order is ring order. One
    channel, so neither channel_id nor num_channels. Lowered to kind PermuteImplicit."""

    op: AluOp = AluOp.bypass
    srcs: tuple[HbmTensor, ...]
    dsts: tuple[HbmTensor, ...]
    replica_groups: Groups

    def reads(self) -> Operands:
        return tuple(s.access() for s in self.srcs)

    def writes(self) -> Operands:
        return tuple(d.access() for d in self.dsts)

    def verify(self, scope: Scope) -> None:
        if self.op is not AluOp.bypass:
            fail("XCG826", kind="Permute", operand="op", loc=self.loc)
        scope.check_groups(self.replica_groups, self.label, self.loc, equal=False)
        check_permute(self, scope, self.reads(), self.writes(), self.dtype)
        only_hbm(self, scope, "PermuteImplicit")


class TiledCollectivePermuteOp(CollectiveOp, frozen=True, kw_only=True):
    """A permute chunked per tile, routed either by `src_tgt_pairs` (kind Permute; no groups, no channel) or by
    `replica_groups` with `channel_id` of `num_channels` (kind PermuteImplicit)."""

    srcs: Operands
    dsts: Operands
    src_tgt_pairs: Pairs = ()
    replica_groups: Groups = ()
    channel_id: int | None = None
    num_channels: int | None = None

    @property
    def is_implicit(self) -> bool:
        """Whether groups route it."""
        return bool(self.replica_groups) or self.channel_id is not None

    def reads(self) -> Operands:
        return self.srcs

    def writes(self) -> Operands:
        return self.dsts

    def verify(self, scope: Scope) -> None:
        if self.replica_groups and self.src_tgt_pairs:
            fail(
                "NKC035",
                inst=self.label,
                what="routing",
                found="replica_groups and src_tgt_pairs",
                permitted="one of the two",
                loc=self.loc,
            )
        if self.is_implicit:
            scope.check_groups(self.replica_groups, self.label, self.loc, equal=False)
            check_channel(self, self.channel_id, self.num_channels)
        else:
            scope.check_pairs(self.src_tgt_pairs, self.label, self.loc)
        check_permute(self, scope, self.srcs, self.dsts, self.dtype)
        if not self.is_implicit:
            only_hbm(self, scope, "Permute")


class CollectivePermuteReduceOp(CollectiveOp, frozen=True, kw_only=True):
    """The non-tiled permute-reduce class. No builder mints it; its explicit form (pairs) is refused with NKC052."""

    op: AluOp
    srcs: Operands
    dsts: Operands
    replica_groups: Groups = ()
    src_tgt_pairs: Pairs = ()

    def reads(self) -> Operands:
        return self.srcs

    def writes(self) -> Operands:
        return self.dsts

    def verify(self, scope: Scope) -> None:
        if self.src_tgt_pairs:
            fail("NKC052", operand="src_tgt_pairs", loc=self.loc)
        check_permute_reduce(self, scope, self.op, self.srcs, self.dsts, self.replica_groups)


class TiledCollectivePermuteReduceOp(CollectiveOp, frozen=True, kw_only=True):
    """Ring step that reduces: each rank computes op(srcs[0], srcs[1]) and sends it to its successor; dst holds the
    predecessor's result. Lowered to kind PermuteReduceImplicit."""

    op: AluOp
    srcs: Operands
    dsts: Operands
    replica_groups: Groups
    channel_id: int
    num_channels: int

    def reads(self) -> Operands:
        return self.srcs

    def writes(self) -> Operands:
        return self.dsts

    def verify(self, scope: Scope) -> None:
        check_permute_reduce(self, scope, self.op, self.srcs, self.dsts, self.replica_groups)
        check_channel(self, self.channel_id, self.num_channels)


class SendOp(CollectiveOp, frozen=True, kw_only=True):
    """Bare send descriptor: `srcs` go to rank `peer_id`, which must issue the matching RecvOp."""

    op: AluOp = AluOp.bypass
    srcs: Operands
    peer_id: int

    def reads(self) -> Operands:
        return self.srcs

    def verify(self, scope: Scope) -> None:
        check_peer(self, scope, self.peer_id, len(self.srcs), "source")


class RecvOp(CollectiveOp, frozen=True, kw_only=True):
    """Bare receive descriptor: `dsts` come from rank `peer_id`."""

    op: AluOp = AluOp.bypass
    dsts: Operands
    peer_id: int
    replica_groups: Groups = ()

    def writes(self) -> Operands:
        return self.dsts

    def verify(self, scope: Scope) -> None:
        check_peer(self, scope, self.peer_id, len(self.dsts), "destination")


class SendRecvOp(Inst, frozen=True, kw_only=True):
    """Swap between the two cores of a rank: dst = src of core `recv_from_rank`; src goes to core `send_to_rank`.
    Transfers pair by `pipe_id`. `use_gpsimd_dma` is the author's wish, kept here and decided by the local lowering.
    Lowered to kind SendRecv, local."""

    dst: AccessPattern
    src: AccessPattern
    send_to_rank: int
    recv_from_rank: int
    pipe_id: int
    use_gpsimd_dma: bool = False
    initiate_barrier: bool = True
    dma_qos: DmaQos | None = None

    def reads(self) -> Operands:
        return (self.src,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        check_local(self, scope)
        check_core(self, scope, "recv_from_rank", self.recv_from_rank)
        check_core(self, scope, "send_to_rank", self.send_to_rank)
        if self.recv_from_rank == scope.core:
            fail("NKC071", core=scope.core, operand="recv_from_rank", loc=self.loc)
        if self.send_to_rank == scope.core:
            fail("NKC072", core=scope.core, operand="send_to_rank", loc=self.loc)
        in_memory(self, scope, self.src, "src", Memory.sbuf)
        in_memory(self, scope, self.dst, "dst", Memory.sbuf)
        same_dtype(self, scope, self.src, self.dst)
        check_equal_shapes(self, (self.src,), (self.dst,))


class SendRecvCCEOp(Inst, frozen=True, kw_only=True):
    """Receive from several cores of the rank and reduce: dst = fold over i of `srcs[i]` of core `recv_from_ranks[i]`,
    in list order. A core may receive from itself, which is how it adds its own part. Lowered to kind SendRecvCCE,
    local."""

    dst: AccessPattern
    srcs: Operands
    send_to_rank: int
    recv_from_ranks: tuple[int, ...]
    op: AluOp
    pipe_id: int
    initiate_barrier: bool = True
    dma_qos: DmaQos | None = None

    def reads(self) -> Operands:
        return self.srcs

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        check_local(self, scope)
        if self.op not in COMMUTATIVE_REDUCERS:
            fail("NKC053", op=self.op.value, inst=self.label, operand="op", loc=self.loc)
        if not self.recv_from_ranks or len(self.srcs) != len(self.recv_from_ranks):
            fail("BIR026", operand="recv_from_ranks", loc=self.loc)
        for core in self.recv_from_ranks:
            check_core(self, scope, "recv_from_ranks", core)
        check_core(self, scope, "send_to_rank", self.send_to_rank)
        if self.send_to_rank == scope.core:
            fail("NKC072", core=scope.core, operand="send_to_rank", loc=self.loc)
        in_memory(self, scope, self.dst, "dst", Memory.sbuf)
        for src in self.srcs:
            in_memory(self, scope, src, "src", Memory.sbuf)
            if scope.dtype(src) is not scope.dtype(self.dst):
                fail("BIR027", operand="src", loc=self.loc)
        check_equal_shapes(self, self.srcs, (self.dst,) * len(self.srcs))


class CoreBarrierOp(Inst, frozen=True, kw_only=True):
    """Rendezvous of the cores of a rank on `engine`. `data` is the full shared-HBM tensor that is waited for; it is
    input and output. Needs architecture level 30 (BIR530)."""

    data: AccessPattern
    cores: tuple[int, ...]
    engine: Engine = Engine.unassigned

    def reads(self) -> Operands:
        return (self.data,)

    def writes(self) -> Operands:
        return (self.data,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        tensor = scope.tensor(self.data, self.loc)
        if not tensor.memory.is_hbm:
            fail("NKC080", operand="wait_target", loc=self.loc)
        if not self.data.is_full(tensor):
            fail("NKC081", operand="wait_target", loc=self.loc)
        if scope.target.arch < 30:
            fail("BIR530", opcode="CoreBarrier", arch=scope.target.arch, min_arch=30, loc=self.loc)
        expected = tuple(range(scope.world.lnc))
        if (
            scope.core not in self.cores
            or len(set(self.cores)) != len(self.cores)
            or not set(self.cores) <= set(expected)
        ):
            fail("NKC085", found=list(self.cores), expected=list(expected), operand="cores", loc=self.loc)


class Barrier(Inst, frozen=True, kw_only=True):
    """A barrier of the program grid over `axes`, as `sync_program` and `post_process_allreduce_result` emit it. Lowered
    to a core barrier when the axes span the cores of a rank, to nothing otherwise (a stream is in program order)."""

    axes: tuple[str, ...]
    cores: tuple[int, ...] = ()


class GetGlobalRankId(Inst, frozen=True, kw_only=True):
    """dst_register (uint32) = the global rank: physical core // cores per LNC."""

    dst_register: Register
    world_size: int

    def verify(self, scope: Scope) -> None:
        if self.world_size != scope.world.ranks:
            fail("NKC086", found=self.world_size, expected=scope.world.ranks, operand="world_size", loc=self.loc)


class CurrentProcessingRankId(Inst, frozen=True, kw_only=True):
    """dst_register (uint32) = the rank whose data the ring has brought here after `iteration_id` implicit permutes of
    `channel_id`: ring[(position - iteration_id) mod n]. Minted by the ncc layer, not by NeuronCodegen."""

    dst_register: Register
    iteration_id: NonNegative
    channel_id: NonNegative = 0
    num_channels: int = 1
    replica_groups: Groups

    def verify(self, scope: Scope) -> None:
        if self.num_channels not in (1, 2, 4):
            fail("NKC056", inst=self.label, found=self.num_channels, operand="num_channels", loc=self.loc)
        scope.check_groups(self.replica_groups, self.label, self.loc, equal=False)


class ShardOp(CollectiveOp, frozen=True, kw_only=True):
    """A class of the original's collective module of which only the name is public. It can be read, written and
    printed; no builder mints it and no lowering exists for it (NKC008)."""

    srcs: Operands = ()
    dsts: Operands = ()

    def reads(self) -> Operands:
        return self.srcs

    def writes(self) -> Operands:
        return self.dsts

    def verify(self, scope: Scope) -> None:
        fail("NKC008", what="ShardOp", instead="Only its name is known.", loc=self.loc)


# --- shared checks ---------------------------------------------------------------------------------------------------


def collective_memory(inst: Inst, scope: Scope) -> Memory:
    """The one memory of a collective's operands: shared or private HBM count as HBM (returned as shared_hbm). NKC031 on
    a mix, NKC030 for PSUM, BIR428 for SBUF before trn2."""
    sbuf = hbm = False
    # The metadata of a variable collective may be in either memory, whatever the data is in.
    metadata = getattr(inst, "metadata", None)
    aps = [ap for ap in (*inst.writes(), *inst.reads()) if ap is not metadata]
    for ap in aps:
        memory = scope.tensor(ap, inst.loc).memory
        if memory is Memory.psum:
            fail(
                "NKC030",
                inst=inst.label,
                what="a collective operand",
                expected="HBM or SBUF",
                name=ap.tensor,
                found="psum",
                loc=inst.loc,
            )
        if memory is Memory.sbuf:
            sbuf = True
        else:
            hbm = True
    if sbuf and hbm:
        found = ", ".join(f"{ap.tensor} in {scope.tensor(ap).memory.value}" for ap in aps)
        fail("NKC031", inst=inst.label, found=found, loc=inst.loc)
    if sbuf and scope.target.arch < 30:
        fail("BIR428", loc=inst.loc)
    return Memory.sbuf if sbuf and not hbm else Memory.shared_hbm


def only_hbm(
    inst: CollectiveComputeOp | CollectivePermuteOp | TiledCollectivePermuteOp, scope: Scope, kind: str
) -> None:
    """XCG879/XCG880 unless sources and destinations are in HBM."""
    sources = inst.srcs if not isinstance(inst, CollectivePermuteOp) else inst.reads()
    dests = inst.dsts if not isinstance(inst, CollectivePermuteOp) else inst.writes()
    for code, operands, role in (("XCG879", sources, "srcs"), ("XCG880", dests, "dsts")):
        for ap in operands:
            tensor = scope.tensors.get(ap.tensor)
            if tensor is not None and not tensor.memory.is_hbm:
                fail(code, kind=kind, operand=role, loc=inst.loc)


def check_dim(inst: Inst, name: str, value: object) -> None:
    """NKC054 unless a collective dimension is 0 or 1."""
    if type(value) is not int or value not in (0, 1):
        fail("NKC054", inst=inst.label, name=name, found=value, operand=name, loc=inst.loc)


def check_equal_shapes(inst: Inst, srcs: Operands, dsts: Operands) -> None:
    """NKC033 unless each dst has its src's shape."""
    for src, dst in zip(srcs, dsts, strict=True):
        if src.pattern != dst.pattern and src.shape != dst.shape:
            fail(
                "NKC033",
                inst=inst.label,
                what="dst",
                found=dst.shape,
                expected=src.shape,
                why="(the shape of src)",
                operand="dst",
                loc=inst.loc,
            )


def check_divides(inst: Inst, shape: tuple[int, ...], dim: int, n: int, what: str) -> None:
    """NKC036 unless the extent of `dim` divides by the group size."""
    extent = shape[dim] if dim < len(shape) else 1
    if extent % n:
        fail("NKC036", inst=inst.label, what=what, extent=extent, dim=dim, size=n, operand=what, loc=inst.loc)


def check_gathered(inst: Inst, src: tuple[int, ...], dst: tuple[int, ...], dim: int, n: int) -> None:
    """NKC033 unless `dst` is `src` with `dim` multiplied by the group size. NKC054 for a dim that src does not have."""
    _check_joined(inst, src, dst, dim, n, src[dim] * n if dim < len(src) else 0)


def check_scattered(inst: Inst, src: tuple[int, ...], dst: tuple[int, ...], dim: int, n: int) -> None:
    """NKC033 unless `dst` is `src` with `dim` divided by the group size (NKC036). NKC054 for a dim that src does not
    have."""
    check_divides(inst, src, dim, n, "src")
    _check_joined(inst, src, dst, dim, n, src[dim] // n if dim < len(src) else 0)


def _check_joined(inst: Inst, src: tuple[int, ...], dst: tuple[int, ...], dim: int, n: int, extent: int) -> None:
    if dim >= len(src):
        fail("NKC054", inst=inst.label, name="the dimension", found=dim, loc=inst.loc)
    expected = (*src[:dim], extent, *src[dim + 1 :])
    if dst != expected:
        fail(
            "NKC033",
            inst=inst.label,
            what="dst",
            found=dst,
            expected=expected,
            why=f"(src {src}, dim {dim}, {n} ranks)",
            operand="dst",
            loc=inst.loc,
        )


def check_exchanged(inst: Inst, src: tuple[int, ...], dst: tuple[int, ...], split: int, concat: int, n: int) -> None:
    """All-to-all: `src` cut into n along `split` (NKC036), chunks joined along `concat`, gives the shape `dst`
    (NKC033). NKC054 for a dimension that src does not have."""
    for name, dim in (("split_dimension", split), ("concat_dimension", concat)):
        if dim >= len(src):
            fail("NKC054", inst=inst.label, name=name, found=dim, operand=name, loc=inst.loc)
    check_divides(inst, src, split, n, "src")
    expected = list(src)
    expected[split] //= n
    expected[concat] *= n
    if dst != tuple(expected):
        fail(
            "NKC033",
            inst=inst.label,
            what="dst",
            found=dst,
            expected=tuple(expected),
            why=f"(src {src}, {n} ranks)",
            operand="dsts",
            loc=inst.loc,
        )


def check_broadcast(inst: Inst, src: tuple[int, ...], dst: tuple[int, ...], sizes: tuple[int, ...], n: int) -> None:
    """`sizes` has one extent per member, not all zero, none above src's dim 0 (NKC058); dst holds their sum
    (NKC033)."""
    expected_sizes = ""
    if len(sizes) != n or not any(sizes):
        expected_sizes = f"{n} extents, one per member, not all zero"
    elif max(sizes) > src[0]:
        expected_sizes = f"extents of at most {src[0]}, src's dim 0"
    if expected_sizes:
        fail(
            "NKC058",
            inst=inst.label,
            found=list(sizes),
            expected=expected_sizes,
            operand="broadcast_sizes",
            loc=inst.loc,
        )
    expected = (sum(sizes), *src[1:])
    if dst != expected:
        fail(
            "NKC033",
            inst=inst.label,
            what="dst",
            found=dst,
            expected=expected,
            why="(the sum of broadcast_sizes rows)",
            operand="dsts",
            loc=inst.loc,
        )


def check_metadata(
    inst: Inst, scope: Scope, metadata: AccessPattern, dst: AccessPattern, n: int, has_rdispls: bool
) -> None:
    """The table of a variable collective has 3 (with displacements 4) rows of n columns (NKC033) of uint32 (NKC035);
    dst has n equal slots (NKC036)."""
    metadata.verify(scope.tensor(metadata, inst.loc), operand="metadata", loc=inst.loc)
    rows, shape = 4 if has_rdispls else 3, metadata.shape
    if len(shape) < 2 or shape[-1] != n or not rows <= shape[-2] <= 4:
        fail(
            "NKC033",
            inst=inst.label,
            what="metadata",
            found=shape,
            expected=(rows, n),
            why="(rows, group size)",
            operand="metadata",
            loc=inst.loc,
        )
    if scope.dtype(metadata) not in (DType.uint32, DType.int32):
        fail(
            "NKC035",
            inst=inst.label,
            what="metadata dtype",
            found=scope.dtype(metadata).value,
            permitted="uint32",
            operand="metadata",
            loc=inst.loc,
        )
    if dst.size % n:
        fail("NKC036", inst=inst.label, what="dst", extent=dst.size, dim=0, size=n, operand="dsts", loc=inst.loc)


def check_permute(inst: Inst, scope: Scope, srcs: Operands, dsts: Operands, dtype: DType | None) -> None:
    """One source, one destination (XCG876), one memory, one shape, one dtype."""
    if len(srcs) != 1 or len(dsts) != 1:
        fail(
            "XCG876",
            kind=type(inst).__name__.removesuffix("Op"),
            num_arguments=len(srcs),
            num_outputs=len(dsts),
            loc=inst.loc,
        )
    verify_operands(inst, scope)
    collective_memory(inst, scope)
    same_dtype(inst, scope, srcs[0], dsts[0])
    check_equal_shapes(inst, srcs, dsts)
    if dtype is not None and scope.dtype(srcs[0]) is not dtype:
        fail("NKC061", inst=inst.label, dtype=dtype.value, operand_dtype=scope.dtype(srcs[0]).value, loc=inst.loc)


def check_permute_reduce(inst: Inst, scope: Scope, op: AluOp, srcs: Operands, dsts: Operands, groups: Groups) -> None:
    """Two sources, one destination (XCG877), a reduce op (NKC053), one memory, shape and dtype."""
    if op not in COMMUTATIVE_REDUCERS:
        fail("NKC053", op=op.value, inst=inst.label, operand="op", loc=inst.loc)
    if len(srcs) != 2 or len(dsts) != 1:
        fail("XCG877", kind="PermuteReduceImplicit", num_arguments=len(srcs), num_outputs=len(dsts), loc=inst.loc)
    scope.check_groups(groups, inst.label, inst.loc, equal=False)
    verify_operands(inst, scope)
    collective_memory(inst, scope)
    for src in srcs:
        same_dtype(inst, scope, src, dsts[0])
        check_equal_shapes(inst, (src,), dsts)


def check_channel(inst: Inst, channel: int | None, count: int | None) -> None:
    """num_channels is 1, 2 or 4 (NKC056) and channel_id counts from 0 below it (NKC055)."""
    if type(count) is not int or count not in (1, 2, 4):
        fail("NKC056", inst=inst.label, found=count, operand="num_channels", loc=inst.loc)
    if type(channel) is not int or not 0 <= channel < count:
        fail("NKC055", inst=inst.label, channel=channel, count=count, operand="channel_id", loc=inst.loc)


def check_peer(inst: Inst, scope: Scope, peer: int, operands: int, what: str) -> None:
    """A raw send or receive has operands (NKC034) and an existing peer (NKC041) other than the rank itself (NKC074)."""
    if operands < 1:
        fail("NKC034", inst=inst.label, expected="at least one", what=what, found=operands, loc=inst.loc)
    verify_operands(inst, scope)
    scope.check_rank(peer, "peer_id", inst.loc)
    if peer in scope.ranks:
        fail("NKC074", rank=peer, inst=inst.label, operand="peer_id", loc=inst.loc)


def check_local(inst: Inst, scope: Scope) -> None:
    """A transfer between the cores of a rank needs trn2 (BIR535) and LNC=2 (NKC073)."""
    if scope.target.arch < 30:
        fail("BIR535", loc=inst.loc)
    if scope.world.lnc < 2:
        fail("NKC073", inst=inst.label, lnc=scope.world.lnc, loc=inst.loc)


def check_core(inst: Inst, scope: Scope, what: str, core: int) -> None:
    """NKC070 unless `core` is a core of the LNC pair."""
    if not 0 <= core < scope.world.lnc:
        fail("NKC070", inst=inst.label, what=what, found=core, operand=what, loc=inst.loc)
