"""lower-local-collectives: transfers between the cores of a rank become moves that one core does by itself.

SendRecv becomes a GpSimd swap or a DMA that pulls from the other core's SBUF, SendRecvCCE a folding pull, a local
AllReduce a reduce-scatter and a gather of pulls. A pull reads through an alias tensor `<tensor>_remote_<core>` and
stands between two core barriers: the first says that the source is ready, the second that it may be overwritten again.

The bodies of the cores are walked together, from meeting to meeting. The transfer that core 0 reaches next pairs with
the one of the same pipe on the other core. If the cores issue transfers in different orders, those up to the point
where both have issued the same ones form a batch, which is lowered between one pair of barriers; what such a batch
cannot express is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Never

from msgspec import Meta, Struct
from msgspec.structs import replace

from nkicc.ir.access import AccessPattern, Remote, Tensor
from nkicc.ir.base import Inst
from nkicc.ir.bir import (
    CollectiveKind,
    DMAQoSClass,
    InstCollectiveCompute,
    InstCoreBarrier,
    InstGPSIMDSB2SB,
)
from nkicc.ir.errors import fail
from nkicc.ir.isa import DmaMode, InstDMACopy, InstTensorCopy
from nkicc.ir.program import LOOPS, Module, Program, walk
from nkicc.ir.types import AluOp, DType, Memory

from .legalize_cce_dma import legalize_cce_dma
from .sb2sb import MAX_BPP, sb2sb_refusal
from .streams import Body, is_fence, is_local, is_meeting, overlap, same_trips, writes_any

__all__ = ["LowerLocalOptions", "lower_local_collectives"]

_QOS = {qos: number for number, qos in enumerate(DMAQoSClass)}


class LowerLocalOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """`max_bpp`: largest effective bytes per partition that a swap may have to go through GpSimd (the device compiler's
    `sendrecv-to-gpsimd-max-bpp`); 0 sends every swap through DMA."""

    max_bpp: Annotated[int, Meta(ge=0, le=MAX_BPP)] = MAX_BPP


def lower_local_collectives(module: Module, options: LowerLocalOptions = LowerLocalOptions()) -> Module:  # noqa: B008
    """Lower the local collectives of kinds 0 to 2; other kinds get a barrier in front and stay. LNC=1 comes back as it
    is. Raises LLC0xx for transfers whose two sides do not fit together."""
    if module.world.lnc == 1:
        return module
    programs = [
        _Lowering(module, program, options).lower()
        if any(is_local(inst) for part in program.cores for inst in walk(part.body))
        else program
        for program in module.programs
    ]
    if all(new is old for new, old in zip(programs, module.programs, strict=True)):
        return module
    return replace(module, programs=tuple(programs))


class _Lowering:
    """One program: its cores' tensors, which grow by aliases and temporaries, and the lowered bodies."""

    def __init__(self, module: Module, program: Program, options: LowerLocalOptions) -> None:
        self.module = module
        self.program = program
        self.options = options
        self.cores = tuple(range(len(program.cores)))
        self.tensors = [{t.name: t for t in (*program.tensors, *part.tensors)} for part in program.cores]
        self.added: list[list[Tensor]] = [[] for _ in self.cores]
        self.unnamed = [0 for _ in self.cores]

    def lower(self) -> Program:
        bodies = self.bodies([part.body for part in self.program.cores])
        cores = [
            replace(part, tensors=(*part.tensors, *added), body=tuple(body))
            for part, added, body in zip(self.program.cores, self.added, bodies, strict=True)
        ]
        return replace(self.program, cores=tuple(cores))

    def bodies(self, bodies: Sequence[Body]) -> list[list[Any]]:
        """The lowered bodies of all cores; they advance together from meeting to meeting."""
        counts = [sum(map(is_local, body)) for body in bodies]
        for core, count in enumerate(counts):
            if count != counts[0]:
                first = next(inst for body in bodies for inst in body if is_local(inst))
                fail(
                    "LLC052",
                    expected_ccop_count=counts[0],
                    actual_ccop_count=count,
                    core_id=core,
                    core=core,
                    loc=first.loc,
                )
        if not any(is_local(inst) for body in bodies for inst in walk(body)):
            return [list(body) for body in bodies]
        meetings = [[i for i, inst in enumerate(body) if is_meeting(inst, len(self.cores))] for body in bodies]
        if len({len(found) for found in meetings}) != 1:
            self.refuse_barriers(bodies, meetings)
        out: list[list[Any]] = [[] for _ in bodies]
        copied = [0] * len(bodies)
        places = list(zip(*meetings, strict=True))
        while places:
            heads = [body[i] for body, i in zip(bodies, places[0], strict=True)]
            size = self.batch_size(bodies, places) if is_local(heads[0]) else 1
            for core, body in enumerate(bodies):
                start, stop = places[0][core], places[size - 1][core] + 1
                out[core].extend(body[copied[core] : start])
                copied[core] = stop
            if is_local(heads[0]):
                self.batch(
                    [
                        body[first : last + 1]
                        for body, first, last in zip(bodies, places[0], places[size - 1], strict=True)
                    ],
                    out,
                )
            else:
                for core, inst in enumerate(self.meeting(bodies, meetings, heads)):
                    out[core].append(inst)
            places = places[size:]
        for core, body in enumerate(bodies):
            out[core].extend(body[copied[core] :])
        return out

    def meeting(self, bodies: Sequence[Body], meetings: Sequence[Sequence[int]], heads: Sequence[Any]) -> list[Any]:
        """What becomes of a meeting that is no local collective: barriers stay, loops are lowered inside."""
        if any(type(head) is not type(heads[0]) or is_local(head) for head in heads):
            self.refuse_barriers(bodies, meetings)
        if not isinstance(heads[0], LOOPS):
            return list(heads)
        if not same_trips(heads):
            self.refuse_barriers(bodies, meetings)
        inside = self.bodies([loop.body for loop in heads])
        return [replace(loop, body=tuple(body)) for loop, body in zip(heads, inside, strict=True)]

    # --- pairing ---------------------------------------------------------------------------------------------------

    def batch_size(self, bodies: Sequence[Body], places: Sequence[tuple[int, ...]]) -> int:
        """How many meetings, from the first of `places` on, until every core has issued the same transfers."""
        issued: list[Counter[int | None]] = [Counter() for _ in bodies]
        for size, place in enumerate(places, 1):
            for core, (body, i) in enumerate(zip(bodies, place, strict=True)):
                if not is_local(body[i]):
                    self.refuse_pairing(bodies, places[0])
                issued[core][body[i].pipe_id] += 1
            if all(count == issued[0] for count in issued):
                return size
        return self.refuse_pairing(bodies, places[0])

    def refuse_pairing(self, bodies: Sequence[Body], place: tuple[int, ...]) -> Never:
        core = len(bodies) - 1
        loc = bodies[core][place[core]].loc
        fail("LLC064", ncid=core, operand="pipe_id", core=core, loc=loc)

    def refuse_barriers(self, bodies: Sequence[Body], meetings: Sequence[Sequence[int]]) -> Never:
        expected, found = len(meetings[0]), len(meetings[-1])
        loc = next(inst.loc for body in bodies for inst in walk(body) if is_local(inst))
        fail("LLC050", expected=expected, sgId=0, actual=found, ncId=len(bodies) - 1, core=len(bodies) - 1, loc=loc)

    def check_batch(self, core: int, between: list[Any], ops: list[InstCollectiveCompute]) -> None:
        """A batch moves at the last of its ops: until then nothing may touch what it reads and writes (LLC035)."""
        tensors = self.tensors[core]
        dsts = [ap for op in ops for ap in op.dsts]
        changed = [w for inst in walk(between) for w in inst.writes()]
        used = [r for inst in walk(between) for r in inst.reads()]
        for op in ops:
            # A register may change before the last op; an in-place transfer would feed the other core's pull.
            if op.mask is not None or any(ap.is_dynamic for ap in (*op.srcs, *op.dsts)):
                fail("LLC035", name=op.name, core=core, loc=op.loc)
            for ap, others in (*((s, changed + dsts) for s in op.srcs), *((d, changed + used) for d in op.dsts)):
                if any(overlap(ap, other, tensors) for other in others):
                    fail("LLC035", name=ap.tensor, core=core, loc=op.loc)

    def batch(self, spans: Sequence[Body], out: list[list[Any]]) -> None:
        """Pair the local collectives of a span by pipe and order, and lower them at its end."""
        batch = [[self.named(core, inst) for inst in span if is_local(inst)] for core, span in enumerate(spans)]
        for core, (span, ops) in enumerate(zip(spans, batch, strict=True)):
            between = [inst for inst in span if not is_local(inst)]
            if len(ops) > 1:
                self.check_batch(core, between, ops)
            out[core].extend(between)
        pairs: list[tuple[InstCollectiveCompute, ...]] = []
        waiting = [list(ops) for ops in batch[1:]]
        for op in batch[0]:
            pair = [op]
            for ops in waiting:
                other = next(o for o in ops if o.pipe_id == op.pipe_id)
                ops.remove(other)
                pair.append(other)
            self.check_pair(pair)
            pairs.append(tuple(pair))
        kinds = {pair[0].kind for pair in pairs}
        if kinds <= {CollectiveKind.SendRecv, CollectiveKind.SendRecvCCE}:
            if len(pairs) == 1 and self.swap(pairs[0], out):
                return
            self.pull(pairs, batch, out)
        elif len(pairs) > 1:
            fail("LLC064", ncid=self.cores[-1], operand="pipe_id", core=self.cores[-1], loc=pairs[0][-1].loc)
        elif kinds == {CollectiveKind.AllReduce}:
            self.all_reduce(pairs[0], out)
        else:
            self.fence(pairs[0][0], out, "_cb_start", skip=self.after_fence(out))
            for core, op in enumerate(pairs[0]):
                out[core].append(op)

    def named(self, core: int, op: InstCollectiveCompute) -> InstCollectiveCompute:
        """The op with a name: what replaces it is named after it."""
        if op.name:
            return op
        self.unnamed[core] += 1
        return replace(op, name=f"Local{op.kind.value}_{self.unnamed[core]}")

    def check_pair(self, pair: Sequence[InstCollectiveCompute]) -> None:
        """The two sides of one transfer agree: kind (LLC022), operands (LLC019, BIR026), cores (NKC070), shapes
        (LLC020, LLC032), initial barrier (LLC048, LLC049)."""
        first = pair[0]
        for core, op in enumerate(pair):
            where: dict[str, Any] = {"core": core, "loc": op.loc}
            if op.kind is not first.kind:
                fail("LLC022", expected_kind=first.kind.value, core_id=core, actual_kind=op.kind.value, **where)
            if op.kind is CollectiveKind.SendRecvCCE:
                if len(op.srcs) != len(op.recv_from_rank) or len(op.dsts) != 1:
                    fail("BIR026", operand="recv_from_rank", **where)
            elif op.kind in (CollectiveKind.SendRecv, CollectiveKind.AllReduce):
                if len(op.srcs) != 1 or len(op.dsts) != 1:
                    fail("LLC019", arg_count=len(op.srcs), out_count=len(op.dsts), **where)
                if op.kind is CollectiveKind.SendRecv and len(op.recv_from_rank) != 1:
                    fail("BIR026", operand="recv_from_rank", **where)
            else:
                continue
            for rank in op.recv_from_rank:
                if rank not in self.cores:
                    fail("NKC070", inst=op.label, what="recv_from_rank", found=rank, operand="recv_from_rank", **where)
            if op.srcs[0].shape != first.srcs[0].shape:
                expected, actual = list(first.srcs[0].shape), list(op.srcs[0].shape)
                fail("LLC020", expected_arg_dims=expected, core_id=core, actual_arg_dims=actual, **where)
            if op.dsts[0].shape != first.dsts[0].shape:
                expected, actual = list(first.dsts[0].shape), list(op.dsts[0].shape)
                fail("LLC032", expected_out_dims=expected, core_id=core, actual_out_dims=actual, **where)
            if op.initial_corebarrier != first.initial_corebarrier:
                code = "LLC049" if op.kind is CollectiveKind.SendRecvCCE else "LLC048"
                expected = "have" if first.initial_corebarrier else "not have"
                actual = "has" if op.initial_corebarrier else "does not have"
                fail(code, expected=expected, ncId=core, actual=actual, **where)
        if first.kind in (CollectiveKind.SendRecv, CollectiveKind.SendRecvCCE):
            for core, op in enumerate(pair):
                self.check_received(core, op, pair)

    def check_received(self, core: int, op: InstCollectiveCompute, pair: Sequence[InstCollectiveCompute]) -> None:
        """What a core receives is there (BIR026) and has the shape (LLC005) and type (BIR027) of what it goes to."""
        dst = op.dsts[0]
        for i, source in enumerate(op.recv_from_rank):
            if i >= len(pair[source].srcs):
                fail("BIR026", operand="recv_from_rank", core=source, loc=pair[source].loc)
            src = pair[source].srcs[i]
            if src.shape != dst.shape:
                fail("LLC005", input_dim=list(src.shape), output_dim=list(dst.shape), core=core, loc=op.loc)
            if self.dtype(source, src, pair[source]) is not self.dtype(core, dst, op):
                fail("BIR027", operand="dsts", core=core, loc=op.loc)

    # --- barriers ----------------------------------------------------------------------------------------------------

    def fence(self, op: InstCollectiveCompute, out: list[list[Any]], suffix: str, *, skip: bool = False) -> None:
        """A barrier of all cores, named after core 0's op."""
        if skip:
            return
        for core in self.cores:
            out[core].append(InstCoreBarrier(name=op.name + suffix, cores=self.cores, loc=op.loc))

    def after_fence(self, out: list[list[Any]]) -> bool:
        """Whether on every core the nearest preceding instruction is a barrier of all cores."""
        return all(body and is_fence(body[-1], len(self.cores)) for body in out)

    def unchanged(self, served: list[list[AccessPattern]], out: list[list[Any]]) -> bool:
        """Whether no core has written what others read from it since the cores last met at a barrier."""
        for core, body in enumerate(out):
            last = next((i for i in range(len(body) - 1, -1, -1) if is_fence(body[i], len(self.cores))), None)
            if last is None or writes_any(body[last + 1 :], served[core], self.tensors[core]):
                return False
        return True

    # --- kinds 0 and 1 ---------------------------------------------------------------------------------------------

    def swap(self, pair: tuple[InstCollectiveCompute, ...], out: list[list[Any]]) -> bool:
        """Emit a GpSimd swap if both sides permit it. The swap is itself a rendezvous, so it needs no barriers."""
        if pair[0].kind is not CollectiveKind.SendRecv:
            return False
        is_swap = all(op.recv_from_rank == (1 - core,) == op.send_to_rank for core, op in enumerate(pair))
        if not is_swap:
            for core, op in enumerate(pair):
                if op.use_gpsimd_dma:
                    fail("LLC060", operand="send_to_rank", core=core, loc=op.loc)
            return False
        for core, op in enumerate(pair):
            peer = pair[1 - core]
            tensors = self.tensor(core, op.dsts[0], op), self.tensor(1 - core, peer.srcs[0], peer)
            if sb2sb_refusal(self.module, op.dsts[0], peer.srcs[0], tensors, self.options.max_bpp) is not None:
                return False
        for core, op in enumerate(pair):
            keep = _keep(op, op.name)
            out[core].append(InstGPSIMDSB2SB(dst=op.dsts[0], src=op.srcs[0], pipe_id=op.pipe_id or 0, **keep))
        return True

    def pull(
        self,
        pairs: list[tuple[InstCollectiveCompute, ...]],
        batch: list[list[InstCollectiveCompute]],
        out: list[list[Any]],
    ) -> None:
        """Emit pulls between barriers, each core in its own order."""
        pair_of = {id(op): pair for pair in pairs for op in pair}
        served: list[list[AccessPattern]] = [[] for _ in self.cores]
        for pair in pairs:
            for core, op in enumerate(pair):
                for i, source in enumerate(op.recv_from_rank):
                    if source != core:
                        served[source].append(pair[source].srcs[i])
        remote = any(served)
        packed = [self.pack(core, served[core], batch[core][0], out[core]) for core in self.cores]
        flagged = any(op.initial_corebarrier for pair in pairs for op in pair)
        ready = not any(packed) and (self.after_fence(out) or (not flagged and self.unchanged(served, out)))
        self.fence(pairs[0][0], out, "_cb_start", skip=not remote or ready)
        unstage: list[list[Any]] = [[] for _ in self.cores]
        for core in self.cores:
            for op in batch[core]:
                pair = pair_of[id(op)]
                srcs = [
                    pair[core].srcs[i]
                    if source == core
                    else self.remote(core, source, packed, pair[source].srcs[i], op)
                    for i, source in enumerate(op.recv_from_rank)
                ]
                dst = op.dsts[0]
                if any(overlap(dst, ap, self.tensors[core]) for ap in served[core]):
                    # The other core may still be reading what would be overwritten: receive aside, then copy.
                    stage = self.temporary(core, f"{op.name}_stage", dst, op)
                    unstage[core].append(InstTensorCopy(dst=dst, src=stage, **_keep(op, op.name)))
                    out[core].extend(self.move(core, op, stage, srcs, f"{op.name}_pull"))
                else:
                    out[core].extend(self.move(core, op, dst, srcs, op.name))
        self.fence(pairs[-1][0], out, "_cb_end", skip=not remote)
        for core in self.cores:
            out[core].extend(unstage[core])

    def move(
        self, core: int, op: InstCollectiveCompute, dst: AccessPattern, srcs: list[AccessPattern], name: str
    ) -> list[Inst]:
        """The instructions that bring `srcs` to `dst` on `core`; the last one gets the name."""
        keep = _keep(op, name)
        if op.kind is CollectiveKind.SendRecv:
            if op.recv_from_rank == (core,):
                return [InstTensorCopy(dst=dst, src=srcs[0], **keep)]
            return [InstDMACopy(dst=dst, srcs=tuple(srcs), dma_qos=_QOS[op.dma_qos] or None, **keep)]
        copy = InstDMACopy(
            dst=dst,
            srcs=tuple(srcs),
            mode=DmaMode.cce,
            op=op.cc_channel.op,
            dma_qos=_QOS[op.dma_qos] or None,
            **keep,
        )
        copies, partials = legalize_cce_dma(copy, self.dtype(core, op.dsts[0], op))
        for tensor in partials:
            self.add(core, tensor)
        return list(copies)

    def pack(
        self, core: int, served: list[AccessPattern], op: InstCollectiveCompute, out: list[Any]
    ) -> dict[AccessPattern, AccessPattern]:
        """Copy sources with a dynamic offset to a fixed place: the other core cannot read this core's registers."""
        packed: dict[AccessPattern, AccessPattern] = {}
        for ap in served:
            if ap.is_dynamic and ap not in packed:
                name = f"{op.name}_pack" + (f"_{len(packed)}" if packed else "")
                packed[ap] = self.temporary(core, name, ap, op)
                out.append(InstTensorCopy(name=name, dst=packed[ap], src=ap, loc=op.loc))
        return packed

    # --- kind 2 ----------------------------------------------------------------------------------------------------

    def all_reduce(self, pair: tuple[InstCollectiveCompute, ...], out: list[list[Any]]) -> None:
        """Seed copy, then each core reduces its slice over the cores' inputs, then each gathers the others' slices."""
        n = len(self.cores)
        order = self.check_all_reduce(pair)
        first = pair[0]
        dim = next(
            (
                d
                for d in range(1, len(first.dsts[0].shape))
                if first.dsts[0].shape[d] % n == 0 and first.dsts[0].shape[d] >= n
            ),
            None,
        )
        if dim is None:
            fail("LLC015", input=first.srcs[0].tensor, output=first.dsts[0].tensor, loc=first.loc)
        self.fence(first, out, "_cb_start", skip=self.after_fence(out))
        for core, op in enumerate(pair):
            src, dst = op.srcs[0], op.dsts[0]
            qos = _QOS[op.dma_qos] or None
            if dst != src:
                out[core].append(InstDMACopy(dst=dst, srcs=(src,), dma_qos=qos, **_keep(op, f"{op.name}_seed")))
            mine = _slice(dst, dim, core, n)
            slices = [_slice(peer.srcs[0], dim, core, n) for peer in pair]
            parts = tuple([mine if c == core else self.remote(core, c, [], slices[c], op) for c in order])
            keep = _keep(op, f"{op.name}_scatter")
            out[core].append(InstDMACopy(dst=mine, srcs=parts, mode=DmaMode.cce, op=AluOp.add, dma_qos=qos, **keep))
        self.fence(first, out, "_cb_end")
        for core, op in enumerate(pair):
            others = [c for c in self.cores if c != core]
            for other in others:
                name = op.name if other == others[-1] else f"{op.name}_gather_{other}"
                piece = self.remote(core, other, [], _slice(pair[other].dsts[0], dim, other, n), op)
                dst = _slice(op.dsts[0], dim, other, n)
                qos = _QOS[op.dma_qos] or None
                out[core].append(InstDMACopy(dst=dst, srcs=(piece,), dma_qos=qos, **_keep(op, name)))
        self.fence(first, out, "_cb_gather_end")

    def check_all_reduce(self, pair: tuple[InstCollectiveCompute, ...]) -> tuple[int, ...]:
        """The cores in fold order. One group (LLC001), add only (LLC008), equal shapes (LLC005) and types (BIR027),
        static operands (NKC008) that are apart or the same (LLC035)."""
        for core, op in enumerate(pair):
            groups = op.cc_channel.replica_groups
            src, dst = op.srcs[0], op.dsts[0]
            where: dict[str, Any] = {"core": core, "loc": op.loc}
            if len(groups) > 1:
                fail("LLC001", size=len(groups), operand="replica_groups", **where)
            if groups and set(groups[0]) != set(self.cores):
                fail("NKC085", found=list(groups[0]), expected=list(self.cores), operand="replica_groups", **where)
            if op.cc_channel.op is not AluOp.add:
                fail("LLC008", operand="op", **where)
            if src.shape != dst.shape:
                fail("LLC005", input_dim=list(src.shape), output_dim=list(dst.shape), **where)
            if self.dtype(core, src, op) is not self.dtype(core, dst, op):
                fail("BIR027", operand="dsts", **where)
            if src.is_dynamic or dst.is_dynamic or op.mask is not None:
                instead = "Use fixed operands, or sendrecv."
                fail("NKC008", what="a local AllReduce with a dynamic operand or mask", instead=instead, **where)
            if src != dst and overlap(src, dst, self.tensors[core]):
                fail("LLC035", name=dst.tensor, **where)
        groups = pair[0].cc_channel.replica_groups
        return groups[0] if groups else self.cores

    # --- tensors ---------------------------------------------------------------------------------------------------

    def tensor(self, core: int, ap: AccessPattern, op: InstCollectiveCompute) -> Tensor:
        found = self.tensors[core].get(ap.tensor)
        if found is None:
            fail("NKC023", name=ap.tensor, core=core, loc=op.loc)
        return found

    def dtype(self, core: int, ap: AccessPattern, op: InstCollectiveCompute) -> DType:
        return ap.dtype or self.tensor(core, ap, op).dtype

    def add(self, core: int, tensor: Tensor) -> None:
        self.tensors[core][tensor.name] = tensor
        self.added[core].append(tensor)

    def temporary(self, core: int, name: str, like: AccessPattern, op: InstCollectiveCompute) -> AccessPattern:
        """A new SBUF tensor with the shape and type of an operand."""
        while name in self.tensors[core]:
            name += "_"
        tensor = Tensor(name, like.shape, self.dtype(core, like, op), Memory.sbuf, loc=op.loc)
        self.add(core, tensor)
        return tensor.full()

    def remote(
        self,
        core: int,
        source: int,
        packed: Sequence[dict[AccessPattern, AccessPattern]],
        ap: AccessPattern,
        op: InstCollectiveCompute,
    ) -> AccessPattern:
        """Core `source`'s operand `ap` as `core` reads it: through an alias of its tensor. LLC030 for shared memory."""
        ap = packed[source].get(ap, ap) if packed else ap
        tensor = self.tensor(source, ap, op)
        if tensor.memory is Memory.shared_hbm:
            fail("LLC030", remote=ap.tensor, core=core, loc=op.loc)
        name, target = f"{ap.tensor}_remote_{source}", Remote(source, tensor.name)
        while name in self.tensors[core] and self.tensors[core][name].remote != target:
            name += "_"
        if name not in self.tensors[core]:
            self.add(core, Tensor(name, tensor.shape, tensor.dtype, tensor.memory, remote=target, loc=op.loc))
        return replace(ap, tensor=name)


def _keep(op: InstCollectiveCompute, name: str) -> dict[str, Any]:
    """What a replacement keeps of the op that it replaces."""
    return {"name": name, "deps": op.deps, "mask": op.mask, "loc": op.loc}


def _slice(ap: AccessPattern, dim: int, index: int, count: int) -> AccessPattern:
    """The `index`-th of `count` equal slices of an operand along `dim`."""
    stride, extent = ap.pattern[dim]
    part = extent // count
    pattern = (*ap.pattern[:dim], (stride, part), *ap.pattern[dim + 1 :])
    return replace(ap, pattern=pattern, offset=ap.offset + stride * part * index)
