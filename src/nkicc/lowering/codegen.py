"""Collective codegen: penguin ops to bir instructions, one leaf per op class.

Kind, dimension, channel and every other BIR field are written here and nowhere else. What the two paths do differently
is a rule of `paths.DIFFERENCES`; a leaf asks its column of that table and knows no path by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from nkicc.ir import penguin
from nkicc.ir.access import AccessPattern
from nkicc.ir.base import Inst
from nkicc.ir.bir import (
    CCChannel,
    CollectiveDimension,
    CollectiveKind,
    DMAQoSClass,
    InstCollectiveCompute,
    InstCollectiveRecv,
    InstCollectiveSend,
    InstCoreBarrier,
    InstGetCurProcessingRankID,
    InstGetGlobalRankId,
)
from nkicc.ir.errors import fail
from nkicc.ir.program import LOOPS, Core, Instruction, Level, Module, Program, walk
from nkicc.ir.types import AluOp, Groups

from .paths import PATHS, check_klr

__all__ = ["LEAVES", "CodegenOptions", "codegen"]

_DIMENSIONS = (CollectiveDimension.Partition, CollectiveDimension.Free)
_UNASSIGNED = DMAQoSClass.Unassigned


class CodegenOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """`path`: which of the two sets of leaves lowers the ops."""

    path: Literal["loop", "klr"] = "loop"


def codegen(module: Module, options: CodegenOptions = CodegenOptions()) -> Module:  # noqa: B008 (frozen)
    """The module at the bir level; a module that is there already comes back as it is.

    Raises NKC090 and NKC091 for what the klr path refuses, NKC008 for an op class without a lowering.
    """
    if module.level is Level.bir:
        return module
    return replace(
        module,
        level=Level.bir,
        programs=tuple([_program(program, module, options) for program in module.programs]),
    )


def _program(program: Program, module: Module, options: CodegenOptions) -> Program:
    cores = [
        replace(part, body=CoreCodegen(module, options, core, part).lower(part.body))
        for core, part in enumerate(program.cores)
    ]
    return replace(program, cores=tuple(cores))


class CoreCodegen:
    """State of one core's codegen: its column of the path table and the two name counters."""

    def __init__(self, module: Module, options: CodegenOptions, core: int, part: Core) -> None:
        self.path = PATHS[options.path]
        self.core = core
        self.cores = tuple(range(module.world.lnc))
        self._collectives = 0
        self._others = 0
        self._taken = {inst.name for inst in walk(part.body) if inst.name}
        self._dropped: set[str] = set()

    def lower(self, body: Iterable[Instruction]) -> tuple[Instruction, ...]:
        """The lowered instructions, in order."""
        lowered: list[Any] = []
        for inst in body:
            leaf = LEAVES.get(type(inst))
            if leaf is None:
                new = replace(inst, body=self.lower(inst.body)) if isinstance(inst, LOOPS) else inst
            else:
                if self.path.asserts:
                    self._check_path(inst)
                new = leaf(inst, self)
            if new is None:
                self._dropped.add(inst.name)
                continue
            if self._dropped and new.deps:
                new = replace(new, deps=tuple([d for d in new.deps if d not in self._dropped]))
            lowered.append(new)
        return tuple(lowered)

    def _check_path(self, op: Inst) -> None:
        refused = self.path.refused.get(type(op).__name__)
        if refused is not None:
            fail("NKC090", kind=refused, loc=op.loc)
        if type(op) is penguin.SendRecvOp and op.mask is not None and not self.path.masked_sendrecv:
            fail("NKC076", operand="mask", loc=op.loc)
        check_klr(op, self.core)

    def collective_name(self, op: Inst, prefix: str) -> str:
        """The op's own name, or the prefix with the core's collective counter."""
        if op.name:
            return op.name
        while True:
            name = f"{prefix}-{self._collectives}"
            self._collectives += 1
            if name not in self._taken:
                return name

    def other_name(self, op: Inst, prefix: str) -> str:
        """The same for what is no collective, with a counter of its own."""
        if op.name:
            return op.name
        while True:
            name = f"{prefix}-{self._others}"
            self._others += 1
            if name not in self._taken:
                return name

    def compute(
        self,
        op: Any,
        kind: CollectiveKind,
        prefix: str,
        groups: Groups,
        reduce: AluOp = AluOp.bypass,
        *,
        srcs: tuple[AccessPattern, ...] | None = None,
        dsts: tuple[AccessPattern, ...] | None = None,
        **fields: Any,
    ) -> InstCollectiveCompute:
        """An InstCollectiveCompute with what all kinds share; operands are the op's own unless given."""
        return InstCollectiveCompute(
            name=op.name or self.collective_name(op, prefix),
            deps=op.deps,
            mask=op.mask,
            loc=op.loc,
            srcs=op.srcs if srcs is None else srcs,
            dsts=op.dsts if dsts is None else dsts,
            cc_channel=CCChannel(kind, groups, reduce),
            stream_id=self.path.stream_id,
            dma_qos=DMAQoSClass.of(op.dma_qos) if self.path.dma_qos else _UNASSIGNED,
            **fields,
        )


# --- leaves ----------------------------------------------------------------------------------------------------------


def _all_reduce(op: penguin.AllReduceOp, cg: CoreCodegen) -> Inst:
    return cg.compute(op, CollectiveKind.AllReduce, "AllReduce", op.replica_groups, op.op)


def _all_gather(op: penguin.AllGatherOp, cg: CoreCodegen) -> Inst:
    return cg.compute(
        op,
        CollectiveKind.AllGather,
        "AllGather",
        op.replica_groups,
        cc_dim=_DIMENSIONS[op.all_gather_dim],
        cc_type_hint=cg.path.cc_type_hint,
    )


def _reduce_scatter(op: penguin.ReduceScatterOp, cg: CoreCodegen) -> Inst:
    return cg.compute(
        op,
        CollectiveKind.ReduceScatter,
        "ReduceScatter",
        op.replica_groups,
        op.op,
        cc_dim=_DIMENSIONS[op.reduce_scatter_dim],
        cc_type_hint=cg.path.cc_type_hint,
    )


def _all_to_all(op: penguin.AlltoAllOp, cg: CoreCodegen) -> Inst:
    return cg.compute(
        op,
        CollectiveKind.AllToAll,
        "AllToAll",
        op.replica_groups,
        split_dim=op.split_dimension,
        concat_dim=op.concat_dimension,
        split_count=len(op.replica_groups[0]) if cg.path.split_count else None,
    )


def _all_to_all_v(op: penguin.AlltoAllVOp, cg: CoreCodegen) -> Inst:
    return cg.compute(
        op,
        CollectiveKind.AllToAllV,
        "AllToAllV",
        op.replica_groups,
        metadata=op.metadata,
        recv_counts_known=op.recv_counts_known,
        has_rdispls=op.has_rdispls,
    )


def _all_gather_v(op: penguin.AllGatherVOp, cg: CoreCodegen) -> Inst:
    """An AllGather that carries the metadata: BIR has no kind of its own for it, and without counts it is that gather
    over flat buffers."""
    return cg.compute(
        op,
        CollectiveKind.AllGather,
        "AllGatherV",
        op.replica_groups,
        metadata=op.metadata,
        recv_counts_known=op.recv_counts_known,
    )


def _broadcast(op: penguin.BroadcastOp, cg: CoreCodegen) -> Inst:
    """An AllGather along the outermost dimension that carries `broadcast_sizes`: BIR has no Broadcast kind, and a
    broadcast is a gather to which only some members contribute rows."""
    return cg.compute(
        op,
        CollectiveKind.AllGather,
        "Broadcast",
        op.replica_groups,
        cc_dim=CollectiveDimension.Partition,
        broadcast_sizes=op.broadcast_sizes,
    )


def _permute(op: penguin.CollectivePermuteOp, cg: CoreCodegen) -> Inst:
    return cg.compute(
        op,
        CollectiveKind.PermuteImplicit,
        "CollectivePermuteImplicit",
        op.replica_groups,
        srcs=op.reads(),
        dsts=op.writes(),
    )


def _tiled_permute(op: penguin.TiledCollectivePermuteOp, cg: CoreCodegen) -> Inst:
    if op.is_implicit:
        return cg.compute(
            op,
            CollectiveKind.PermuteImplicit,
            "CollectivePermuteImplicit",
            op.replica_groups,
            channel_id=op.channel_id,
        )
    return cg.compute(op, CollectiveKind.Permute, "CollectivePermute", (), src_target_pairs=op.src_tgt_pairs)


def _permute_reduce(op: penguin.CollectivePermuteReduceOp, cg: CoreCodegen) -> Inst:
    if op.src_tgt_pairs:
        fail("NKC052", operand="src_tgt_pairs", loc=op.loc)
    prefix = "CollectivePermuteImplicitReduce"
    return cg.compute(op, CollectiveKind.PermuteReduceImplicit, prefix, op.replica_groups, op.op)


def _tiled_permute_reduce(op: penguin.TiledCollectivePermuteReduceOp, cg: CoreCodegen) -> Inst:
    return cg.compute(
        op,
        CollectiveKind.PermuteReduceImplicit,
        "CollectivePermuteImplicitReduce",
        op.replica_groups,
        op.op,
        channel_id=op.channel_id,
    )


def _sendrecv(op: penguin.SendRecvOp, cg: CoreCodegen) -> Inst:
    path = cg.path
    return cg.compute(
        op,
        CollectiveKind.SendRecv,
        "LocalSendRecv",
        (cg.cores,) if path.sendrecv_groups else (),
        srcs=(op.src,),
        dsts=(op.dst,),
        is_local=True,
        pipe_id=op.pipe_id,
        recv_from_rank=(op.recv_from_rank,),
        send_to_rank=(op.send_to_rank,),
        peer=1 - op.recv_from_rank,
        initial_corebarrier=op.initiate_barrier if path.initial_corebarrier else True,
        use_gpsimd_dma=op.use_gpsimd_dma and path.use_gpsimd_dma,
    )


def _sendrecv_cce(op: penguin.SendRecvCCEOp, cg: CoreCodegen) -> Inst:
    return cg.compute(
        op,
        CollectiveKind.SendRecvCCE,
        "LocalSendRecvCCE",
        (cg.cores,) if cg.path.sendrecv_groups else (),
        op.op,
        srcs=op.srcs,
        dsts=(op.dst,),
        is_local=True,
        pipe_id=op.pipe_id,
        recv_from_rank=op.recv_from_ranks,
        send_to_rank=(op.send_to_rank,),
        initial_corebarrier=op.initiate_barrier if cg.path.initial_corebarrier else True,
    )


def _send(op: penguin.SendOp, cg: CoreCodegen) -> Inst:
    name = cg.collective_name(op, "CollectiveSend")
    return InstCollectiveSend(name=name, deps=op.deps, mask=op.mask, loc=op.loc, srcs=op.srcs, peer_id=op.peer_id)


def _recv(op: penguin.RecvOp, cg: CoreCodegen) -> Inst:
    name = cg.collective_name(op, "CollectiveRecv")
    return InstCollectiveRecv(name=name, deps=op.deps, mask=op.mask, loc=op.loc, dsts=op.dsts, peer_id=op.peer_id)


def _core_barrier(op: penguin.CoreBarrierOp, cg: CoreCodegen) -> Inst:
    name = cg.other_name(op, "CoreBarrier")
    return InstCoreBarrier(
        name=name, deps=op.deps, mask=op.mask, loc=op.loc, data=op.data, cores=op.cores, engine=op.engine
    )


def _barrier(op: penguin.Barrier, cg: CoreCodegen) -> Inst | None:
    """A core barrier where the axes span cores; nothing otherwise, since a core runs in program order."""
    if len(op.cores) < 2:
        return None
    name = cg.other_name(op, "CoreBarrier")
    return InstCoreBarrier(name=name, deps=op.deps, mask=op.mask, loc=op.loc, cores=op.cores)


def _global_rank_id(op: penguin.GetGlobalRankId, cg: CoreCodegen) -> Inst:
    return InstGetGlobalRankId(
        name=cg.other_name(op, "GetGlobalRankId"),
        deps=op.deps,
        mask=op.mask,
        loc=op.loc,
        output=op.dst_register,
        world_size=op.world_size if cg.path.world_size else None,
    )


def _processing_rank_id(op: penguin.CurrentProcessingRankId, cg: CoreCodegen) -> Inst:
    return InstGetCurProcessingRankID(
        name=cg.other_name(op, "GetCurProcessingRankID"),
        deps=op.deps,
        mask=op.mask,
        loc=op.loc,
        output=op.dst_register,
        iter_id=op.iteration_id,
        channel_id=op.channel_id,
        replica_groups=op.replica_groups,
        stream_id=cg.path.stream_id,
    )


def _shard(op: penguin.ShardOp, cg: CoreCodegen) -> Inst:
    fail("NKC008", what="the lowering of ShardOp", instead="Only the name of this class is known.", loc=op.loc)


#: One leaf per op class. A leaf returns the instruction, or None if nothing is left of the op.
LEAVES: dict[type[Inst], Callable[[Any, CoreCodegen], Inst | None]] = {
    penguin.AllGatherOp: _all_gather,
    penguin.AllGatherVOp: _all_gather_v,
    penguin.AllReduceOp: _all_reduce,
    penguin.AlltoAllOp: _all_to_all,
    penguin.AlltoAllVOp: _all_to_all_v,
    penguin.Barrier: _barrier,
    penguin.BroadcastOp: _broadcast,
    penguin.CollectivePermuteOp: _permute,
    penguin.CollectivePermuteReduceOp: _permute_reduce,
    penguin.CoreBarrierOp: _core_barrier,
    penguin.CurrentProcessingRankId: _processing_rank_id,
    penguin.GetGlobalRankId: _global_rank_id,
    penguin.RecvOp: _recv,
    penguin.ReduceScatterOp: _reduce_scatter,
    penguin.SendOp: _send,
    penguin.SendRecvCCEOp: _sendrecv_cce,
    penguin.SendRecvOp: _sendrecv,
    penguin.ShardOp: _shard,
    penguin.TiledAllReduceOp: _all_reduce,
    penguin.TiledCollectivePermuteOp: _tiled_permute,
    penguin.TiledCollectivePermuteReduceOp: _tiled_permute_reduce,
}
