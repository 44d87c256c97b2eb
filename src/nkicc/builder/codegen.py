"""NeuronCodegen: the forward builders of collectives.

A builder checks, maps its operands, picks the op class, fills its routing fields and inserts the op. It writes no kind
number, no `cc_dim`, no field of the bir level; the lowering does. Two things set the builders apart:

* who supplies the routing: `*_cc_raw` takes groups, dims and pairs from the caller, `*_cc` asks `parallel_state` and
  calls its raw sibling;
* which channel inserts: group collectives, permutes and raw send/recv go through `insert_raw_cc`, which sets
  `has_collectives`; `sendrecv`, `sendrecv_cce`, `core_barrier` and `rank_id` weave a barrier or a register into the
  local stream and use the tile-aware `insert`.

Every instruction verifies itself before it enters the stream. One that is refused leaves stream, names and flags as
they were; the error carries the line of the caller. The builder contract is the source of every rule here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from nkicc.ir.access import AccessPattern, Register, Tensor
from nkicc.ir.base import Inst, Scope
from nkicc.ir.errors import NkiccError, fail
from nkicc.ir.penguin import (
    AllGatherOp,
    AllGatherVOp,
    AllReduceOp,
    AlltoAllOp,
    AlltoAllVOp,
    Barrier,
    BroadcastOp,
    CollectivePermuteOp,
    CoreBarrierOp,
    GetGlobalRankId,
    HbmTensor,
    RecvOp,
    ReduceScatterOp,
    SendOp,
    SendRecvCCEOp,
    SendRecvOp,
    TiledAllReduceOp,
    TiledCollectivePermuteOp,
    TiledCollectivePermuteReduceOp,
)
from nkicc.ir.program import Constant, Core, InstLoop, Instruction, InstWhile, walk
from nkicc.ir.types import DType, Engine, Groups, Loc, Memory, RegisterName, Target

from .arguments import (
    AluOpLike,
    DTypeLike,
    GroupsLike,
    Mask,
    alu_op,
    data_type,
    extents,
    integer,
    integers,
    is_never,
    is_scalar,
    member,
    optional_data_type,
    plain,
    replica_groups,
    source_target_pairs,
)
from .grid import CompositeSPMDDim, ProgramAxis, ProgramBarrier
from .operands import Operand, Operands, Tiles, as_list, combine, declaration, to_access, to_hbm_tensor
from .parallel_state import ParallelState
from .source import here, refuse

__all__ = ["NeuronCodegen"]

InstT = TypeVar("InstT", bound=Instruction)
VariableT = TypeVar("VariableT", AllGatherVOp, AlltoAllVOp)
Deps = Iterable[str | Inst]
#: An instruction of a stream: the body that it is in, and its position there.
Place = tuple[list[Instruction], int]


class NeuronCodegen:
    """One physical core's instruction stream, and the methods that write it.

    Operands are tensors, access patterns, or objects with a method `__access__() -> AccessPattern`. `ranks` are the
    ranks that run the stream, all by default. `has_collectives` tells later passes that they must run. `program_axes`
    are those of the launch grid, `program_barriers` what the builder has registered on them.
    """

    def __init__(
        self,
        state: ParallelState,
        *,
        target: Target = Target.trn2,
        core: int = 0,
        ranks: Iterable[int] | None = None,
        name: str = "kernel",
        program_axes: Iterable[ProgramAxis] = (),
    ) -> None:
        lnc = state.world.lnc
        if type(core) is not int or not 0 <= core < lnc:
            refuse("NKC035", inst="NeuronCodegen", what="core", found=core, permitted=f"0..{lnc - 1}", operand="core")
        self.parallel_state = state
        self.target = member(Target, target, "target")
        self.core = core
        self.name = name
        self.tensors: dict[str, Tensor] = {}
        self.registers: dict[str, Register] = {}
        self.has_collectives = False
        self.constants: dict[str, Constant] = {}
        self.grid = CompositeSPMDDim(tuple(program_axes))
        self.program_barriers: list[ProgramBarrier] = []
        chosen = tuple(sorted(set(integers(() if ranks is None else ranks, "ranks", "ranks"))))
        self.scope = Scope(state.world, self.target, self.tensors, core, chosen or None)
        for rank in chosen:
            self.scope.check_rank(rank, "ranks", here())
        self._body: list[Instruction] = []
        self._tail = self._body  # where instructions go: the innermost open loop's body, or the stream itself
        self._open = [self._body]
        self._named: dict[str, Instruction] = {}
        self._fresh: dict[str, int] = {}
        self._canonical_groups: dict[int, Groups] = {}
        #: What waits for its trigger, and where the stream was then.
        self._prepared: tuple[AllGatherVOp | AlltoAllVOp, list[Instruction], int] | None = None

    # --- declarations ------------------------------------------------------------------------------------------------

    def allocate(
        self,
        name: str,
        shape: Sequence[int],
        dtype: DTypeLike,
        memory: Memory | str,
        named: bool = True,
        loc: Loc | None = None,
    ) -> Tensor:
        """Declare a tensor of this core; a shared-HBM tensor is the same on all cores that declare its name. `named`
        tells that the caller chose the name, `loc` the line if it is not the caller's. NKC020, NKC021 for its shape,
        NKC022 for a name declared before."""
        if not self._label(name):
            refuse("NKC035", inst="tensor", what="name", found=name, permitted="a non-empty string", operand="name")
        extents = tuple([plain(extent) for extent in as_list(shape)])
        tensor = Tensor(name, extents, data_type(dtype), member(Memory, memory, "memory"), named, loc=loc or here())
        tensor.verify()
        first = self.tensors.get(name)
        if first is not None:
            refuse("NKC022", name=name, first=declaration(first), second=declaration(tensor))
        self.tensors[name] = tensor
        return tensor

    def constant(self, name: str, value: np.ndarray, named: bool = True) -> Tensor:
        """Declare a shared-HBM tensor that holds `value` before the program starts, on every rank. Errors as those of
        `allocate`."""
        tensor = self.allocate(name, value.shape, value.dtype, Memory.shared_hbm, named)
        self.constants[name] = Constant(name, np.ascontiguousarray(value, tensor.dtype.numpy).tobytes())
        return tensor

    def register(self, name: str | None = None, dtype: DTypeLike = DType.int32) -> Register:
        """Declare a scalar register of this core. NKC029 for a name declared before."""
        name = self.fresh_name("r") if name is None else name
        if name in self.registers:
            refuse("NKC029", what="register", name=name, operand="name")
        register = self.registers[name] = Register(name, data_type(dtype))
        return register

    def fresh_name(self, prefix: str) -> str:
        """`prefix` and the next number that no tensor, register or instruction of this core is named with."""
        number = self._fresh.get(prefix, 0)
        while (name := f"{prefix}{number}") in self.tensors or name in self.registers or name in self._named:
            number += 1
        self._fresh[prefix] = number + 1
        return name

    # --- insertion ---------------------------------------------------------------------------------------------------

    def insert(self, inst: InstT, *, mask: Mask = None, deps: Deps = ()) -> InstT | None:
        """The tile-aware channel. In order: name, predicate, dependency edges, the instruction, its source line.

        Returns what entered the stream; None if `mask` is a constant that is false. NKC029 for a name used before,
        NKC035 for a mask that is not scalar, NKC027 for a register that is not of this core, NKC089 for an unknown dep.
        """
        self._add_named_instruction(inst)
        if is_never(mask):
            return None
        predicate = self._add_predicates(inst, mask)
        edges = self._process_dep_edges(inst, deps)
        if predicate is not None or edges:
            inst = replace(inst, mask=predicate, deps=edges)
        return self._process_new_neuroninst(inst)

    def insert_raw(self, inst: InstT) -> InstT:
        """Verify an instruction and append it as it is, at the caller's line if it has none. NKC029 for its name."""
        self._add_named_instruction(inst)
        return self._process_new_neuroninst(inst)

    def insert_raw_cc(self, inst: InstT) -> InstT:
        """The sink of all `*_cc_raw`: mark the kernel as one with collectives, then `insert_raw`."""
        before, self.has_collectives = self.has_collectives, True
        try:
            return self.insert_raw(inst)
        except NkiccError:
            self.has_collectives = before
            raise

    @contextmanager
    def loop(self, start: int | Register, stop: int | Register, step: int = 1) -> Iterator[Register]:
        """`with loop(...) as i:` puts the instructions inserted inside into the body of a loop over range(start, stop,
        step), whose register is `i` (int32). A bound that is a register is read once at entry. If the block raises,
        nothing of it stays. NKC035 for other bounds or a step of 0."""
        loc = here()
        bounds = [self._loop_bound("start", start), self._loop_bound("stop", stop)]
        step = plain(step)
        if type(step) is not int or step == 0:
            refuse("NKC035", inst="InstLoop", what="step", found=step, permitted="an integer other than 0")
        with self.undone_on_error():
            register = self.register(self.fresh_name("i"))
            with self._inside() as body:
                yield register
            self.insert_raw(
                InstLoop(register=register.name, start=bounds[0], stop=bounds[1], step=step, body=tuple(body), loc=loc)
            )

    @contextmanager
    def while_loop(self, condition: Register) -> Iterator[None]:
        """`with while_loop(condition):` puts the instructions inserted inside into the body of a loop that runs while
        the register is not zero, which is read before every pass. The body recomputes it. Errors as those of `loop`."""
        loc = here()
        register = self._own_register(condition, "condition").name
        with self.undone_on_error():
            with self._inside() as body:
                yield
            self.insert_raw(InstWhile(condition=register, body=tuple(body), loc=loc))

    @contextmanager
    def _inside(self) -> Iterator[list[Instruction]]:
        """What the block inserts goes into a list of its own."""
        outer = self._tail
        body = self._tail = []
        self._open.append(body)
        try:
            yield body
        finally:
            self._open.pop()
            self._tail = outer

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Whatever the block names, declares and flags is taken back if it raises."""
        ledgers = (self._named, self.registers, self.tensors, self.constants)
        before = [len(ledger) for ledger in ledgers]
        fresh, prepared = dict(self._fresh), self._prepared
        barriers, has_collectives = len(self.program_barriers), self.has_collectives
        try:
            yield
        except BaseException:
            for ledger, length in zip(ledgers, before, strict=True):
                while len(ledger) > length:
                    ledger.popitem()
            self._fresh, self._prepared = fresh, prepared
            del self.program_barriers[barriers:]
            self.has_collectives = has_collectives
            raise

    def place(self) -> Place:
        """Where the instruction inserted last stands."""
        return self._tail, len(self._tail) - 1

    def add_edges(self, consumer: Place, producers: Iterable[Place]) -> None:
        """Make an inserted instruction depend on earlier ones, of its own body or of one around it; those without a
        name get one. NKC035 for an instruction that is elsewhere."""
        body, index = consumer
        names: list[str] = []
        for other, at in producers:
            around = any(other is outer for outer in self._open[:-1])
            if body is not self._tail or not (around or (other is body and at < index)):
                refuse(
                    "NKC035",
                    inst=body[index].label,
                    what="a dependency",
                    found=other[at].label,
                    permitted="an earlier instruction of the same loop body or of one around it",
                    operand="depends_on",
                )
            if not other[at].name:
                other[at] = replace(other[at], name=self.fresh_name("inst"))
                self._named[other[at].name] = other[at]
            names.append(other[at].name)
        inst = body[index]
        body[index] = replace(inst, deps=tuple(dict.fromkeys((*inst.deps, *names))))

    def core_part(self) -> Core:
        """This core's instructions, and the tensors that only it sees. NKC065 if a prepare has no trigger."""
        if self._prepared is not None:
            fail("NKC065", why="it has no trigger", loc=self._prepared[0].loc)
        private = [tensor for tensor in self.tensors.values() if tensor.memory is not Memory.shared_hbm]
        return Core(tuple(private), tuple(self._body))

    def _add_named_instruction(self, inst: Instruction) -> None:
        if not isinstance(inst.name, str):
            kind = type(inst).__name__
            refuse("NKC035", inst=kind, what="name", found=type(inst.name).__name__, permitted="a text", operand="name")
        if inst.name in self._named:
            refuse("NKC029", what="instruction", name=inst.name, operand="name")

    def _add_predicates(self, inst: Instruction, mask: Mask) -> RegisterName | None:
        if isinstance(mask, Register):
            return self._own_register(mask, "mask").name
        if not is_scalar(mask):
            refuse(
                "NKC035",
                inst=inst.label,
                what="mask",
                found=type(mask).__name__,
                permitted="a constant or a register",
                operand="mask",
            )
        return inst.mask

    def _process_dep_edges(self, inst: Instruction, deps: Deps) -> tuple[str, ...]:
        if not isinstance(deps, Iterable):
            refuse("NKC089", inst=inst.label, name=deps, operand="deps")
        edges = tuple([dep.name if isinstance(dep, Inst) else dep for dep in (*inst.deps, *deps)])
        for name in edges:
            if not isinstance(name, str) or name not in self._named:
                refuse("NKC089", inst=inst.label, name=name, operand="deps")
        return edges

    def _process_new_neuroninst(self, inst: InstT) -> InstT:
        if inst.loc is None:
            inst = replace(inst, loc=here())
        inst.verify(self.scope)
        if inst.name:
            self._named[inst.name] = inst
        self._tail.append(inst)
        return inst

    # --- operands and arguments --------------------------------------------------------------------------------------

    def _map_to_nd_access(self, operands: Operands, role: str = "operand") -> tuple[AccessPattern, ...]:
        """One operand or several as nd access patterns, a tensor as the pattern of all of it (row-major)."""
        return tuple([to_access(operand, self.tensors, role) for operand in as_list(operands)])

    def _map_to_hbm_tensors(
        self, operands: Operands, role: str = "operand", inst: str = "CollectivePermuteOp"
    ) -> tuple[HbmTensor, ...]:
        """One operand or several as whole HBM tensors. NKC057 for a view, a tile, or a tensor that is not in HBM."""
        return tuple([to_hbm_tensor(operand, self.tensors, inst, role) for operand in as_list(operands)])

    def combine_tiles(self, tiles: Tiles, role: str = "operand") -> AccessPattern:
        """One access pattern over a view, or over equal tiles of one tensor at a constant distance, which become an
        outer pair. NKC060 for a dynamic view, NKC062 for tiles that do not line up."""
        return combine(self._map_to_nd_access(tiles, role), role)

    def validate_dma_qos(self, dma_qos: int | None) -> None:
        """NKC038 unless `dma_qos` is None or a DMAQoSClass number, 0 (Unassigned) to 16 (P14)."""
        if dma_qos is not None and (type(dma_qos) is not int or not 0 <= dma_qos <= 16):
            refuse("NKC038", found=dma_qos, operand="dma_qos")

    def canonical_groups(self, groups: GroupsLike) -> Groups:
        """Replica groups (lists, tuples, arrays, or an object with `groups`) as tuples of ints. NKC040 if malformed."""
        # Programs repeat their groups. A tuple of tuples of ints cannot change, so it is looked at once and then known
        # by its identity (the dict keeps it alive).
        groups = getattr(groups, "groups", groups)
        known = self._canonical_groups.get(id(groups))
        if known is not None:
            return known
        result = replica_groups(groups)
        if result is groups:
            self._canonical_groups[id(groups)] = result
        return result

    def _own_register(self, register: Register, operand: str) -> Register:
        if self.registers.get(register.name) != register:
            refuse("NKC027", name=register.name, operand=operand)
        return register

    def _loop_bound(self, what: str, bound: int | Register) -> int | RegisterName:
        if isinstance(bound, Register):
            return self._own_register(bound, what).name
        bound = plain(bound)
        if type(bound) is not int:
            refuse("NKC035", inst="InstLoop", what=what, found=bound, permitted="an integer or a register")
        return bound

    def _label(self, name: str | None) -> str:
        if name is None:
            return ""
        if not isinstance(name, str):
            refuse("NKC035", inst="NeuronCodegen", what="name", found=name, permitted="a string", operand="name")
        return name

    # --- group collectives -------------------------------------------------------------------------------------------

    def all_reduce_cc_raw(
        self,
        op: AluOpLike,
        srcs: Operands,
        dsts: Operands,
        replica_groups: GroupsLike,
        dtype: DTypeLike = None,
        tiled: bool = False,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> AllReduceOp:
        """AllReduceOp: every dst becomes the fold of its src over the group. `op` is add, max or min. There is no dim:
        it spans the group. `tiled` mints TiledAllReduceOp, whose operands are one view per tile."""
        self.validate_dma_qos(dma_qos)
        kind = TiledAllReduceOp if tiled else AllReduceOp
        return self.insert_raw_cc(
            kind(
                op=alu_op(op, kind.__name__),
                srcs=self._map_to_nd_access(srcs, "srcs"),
                dsts=self._map_to_nd_access(dsts, "dsts"),
                replica_groups=self.canonical_groups(replica_groups),
                dtype=optional_data_type(dtype),
                dma_qos=dma_qos,
                name=self._label(name),
            )
        )

    def all_reduce_cc(
        self,
        op: AluOpLike,
        srcs: Operands,
        dsts: Operands,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> AllReduceOp:
        """`all_reduce_cc_raw` over all workers."""
        groups = self.parallel_state.gen_all_worker_group()
        return self.all_reduce_cc_raw(op, srcs, dsts, groups, dtype=dtype, dma_qos=dma_qos, name=name)

    def all_gather_cc_raw(
        self,
        op: AluOpLike,
        srcs: Operands,
        dsts: Operands,
        replica_groups: GroupsLike,
        all_gather_dim: int,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> AllGatherOp:
        """AllGatherOp: every dst becomes the srcs of the group joined along `all_gather_dim`, 0 (partition, outermost)
        or 1 (free). No reduce op: `op` is None or bypass."""
        self.validate_dma_qos(dma_qos)
        return self.insert_raw_cc(
            AllGatherOp(
                op=alu_op(op, "AllGatherOp"),
                srcs=self._map_to_nd_access(srcs, "srcs"),
                dsts=self._map_to_nd_access(dsts, "dsts"),
                replica_groups=self.canonical_groups(replica_groups),
                all_gather_dim=plain(all_gather_dim),
                dtype=optional_data_type(dtype),
                dma_qos=dma_qos,
                name=self._label(name),
            )
        )

    def all_gather_cc(
        self,
        op: AluOpLike,
        srcs: Operands,
        dsts: Operands,
        all_gather_dim: int,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> AllGatherOp:
        """`all_gather_cc_raw` over all workers."""
        groups = self.parallel_state.gen_all_worker_group()
        return self.all_gather_cc_raw(op, srcs, dsts, groups, all_gather_dim, dtype=dtype, dma_qos=dma_qos, name=name)

    def reduce_scatter_cc_raw(
        self,
        op: AluOpLike,
        srcs: Operands,
        dsts: Operands,
        replica_groups: GroupsLike,
        reduce_scatter_dim: int,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> ReduceScatterOp:
        """ReduceScatterOp: member i's dst becomes chunk i, along `reduce_scatter_dim` (0 or 1), of the fold of the
        srcs. `op` is add, max or min."""
        self.validate_dma_qos(dma_qos)
        return self.insert_raw_cc(
            ReduceScatterOp(
                op=alu_op(op, "ReduceScatterOp"),
                srcs=self._map_to_nd_access(srcs, "srcs"),
                dsts=self._map_to_nd_access(dsts, "dsts"),
                replica_groups=self.canonical_groups(replica_groups),
                reduce_scatter_dim=plain(reduce_scatter_dim),
                dtype=optional_data_type(dtype),
                dma_qos=dma_qos,
                name=self._label(name),
            )
        )

    def reduce_scatter_cc(
        self,
        op: AluOpLike,
        srcs: Operands,
        dsts: Operands,
        reduce_scatter_dim: int,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> ReduceScatterOp:
        """`reduce_scatter_cc_raw` over all workers."""
        groups = self.parallel_state.gen_all_worker_group()
        return self.reduce_scatter_cc_raw(
            op, srcs, dsts, groups, reduce_scatter_dim, dtype=dtype, dma_qos=dma_qos, name=name
        )

    def all_to_all_cc_raw(
        self,
        op: AluOpLike,
        srcs: Operands,
        dsts: Operands,
        replica_groups: GroupsLike,
        split_dimension: int | None = None,
        concat_dimension: int | None = None,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> AlltoAllOp:
        """AlltoAllOp: member i's dst becomes chunk i of every member's src. Srcs are cut along `split_dimension`,
        chunks are joined along `concat_dimension`; both are required (NKC050, NKC051). No reduce op."""
        self.validate_dma_qos(dma_qos)
        return self.insert_raw_cc(
            AlltoAllOp(
                op=alu_op(op, "AlltoAllOp"),
                srcs=self._map_to_nd_access(srcs, "srcs"),
                dsts=self._map_to_nd_access(dsts, "dsts"),
                replica_groups=self.canonical_groups(replica_groups),
                split_dimension=plain(split_dimension),
                concat_dimension=plain(concat_dimension),
                dtype=optional_data_type(dtype),
                dma_qos=dma_qos,
                name=self._label(name),
            )
        )

    def all_to_all_cc(
        self,
        op: AluOpLike,
        srcs: Operands,
        dsts: Operands,
        split_dimension: int | None = None,
        concat_dimension: int | None = None,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> AlltoAllOp:
        """`all_to_all_cc_raw` over all workers."""
        groups = self.parallel_state.gen_all_worker_group()
        return self.all_to_all_cc_raw(
            op, srcs, dsts, groups, split_dimension, concat_dimension, dtype=dtype, dma_qos=dma_qos, name=name
        )

    def all_to_all_v_cc_raw(
        self,
        srcs: Operands,
        dsts: Operands,
        replica_groups: GroupsLike,
        metadata: Operand,
        recv_counts_known: bool = False,
        has_rdispls: bool = False,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
        prepare: bool = False,
    ) -> AlltoAllVOp:
        """AlltoAllVOp: the all-to-all of variable counts of nki.collectives, counts in `metadata` (uint32, shape (rows,
        group size)). The original has no builder for its kind; this one follows the style of the others. With `prepare`
        the op waits for its `trigger`."""
        return self._variable(
            AlltoAllVOp, srcs, dsts, replica_groups, metadata, recv_counts_known, has_rdispls, dtype, dma_qos, name,
            prepare,
        )  # fmt: skip

    def all_gather_v_cc_raw(
        self,
        srcs: Operands,
        dsts: Operands,
        replica_groups: GroupsLike,
        metadata: Operand,
        recv_counts_known: bool = False,
        has_rdispls: bool = False,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
        prepare: bool = False,
    ) -> AllGatherVOp:
        """AllGatherVOp: the all-gather of variable counts of nki.collectives. Like `all_to_all_v_cc_raw` it has no
        original; `has_rdispls` is refused (NKC035)."""
        return self._variable(
            AllGatherVOp, srcs, dsts, replica_groups, metadata, recv_counts_known, has_rdispls, dtype, dma_qos, name,
            prepare,
        )  # fmt: skip

    def trigger(self, prepared: AllGatherVOp | AlltoAllVOp, name: str | None = None) -> AllGatherVOp | AlltoAllVOp:
        """Insert what `prepare` has put in the slot. NKC065 for anything else, and if the metadata has been written
        in between, since preparing reads it."""
        if self._prepared is None or self._prepared[0] is not prepared or self._prepared[1] is not self._tail:
            refuse("NKC065", why="the trigger does not belong to the prepare that is pending", operand="prepare_instr")
        since = walk(self._tail[self._prepared[2] :])
        if any(ap.tensor == prepared.metadata.tensor for inst in since for ap in inst.writes()):
            refuse("NKC065", why="the metadata was written between prepare and trigger", operand="metadata_tensor")
        op = self.insert_raw_cc(replace(prepared, loc=here(), name=self._label(name) or prepared.name))
        self._prepared = None
        return op

    def _variable(
        self, kind: type[VariableT], srcs: Operands, dsts: Operands, replica_groups: GroupsLike, metadata: Operand,
        recv_counts_known: bool, has_rdispls: bool, dtype: DTypeLike, dma_qos: int | None, name: str | None,
        prepare: bool,
    ) -> VariableT:  # fmt: skip
        self.validate_dma_qos(dma_qos)
        op = kind(
            srcs=self._map_to_nd_access(srcs, "srcs"),
            dsts=self._map_to_nd_access(dsts, "dsts"),
            replica_groups=self.canonical_groups(replica_groups),
            metadata=to_access(metadata, self.tensors, "metadata"),
            recv_counts_known=bool(recv_counts_known),
            has_rdispls=bool(has_rdispls),
            dtype=optional_data_type(dtype),
            dma_qos=dma_qos,
            name=self._label(name),
        )
        if not prepare:
            return self.insert_raw_cc(op)
        if self._prepared is not None:
            refuse("NKC065", why=f"another prepare, at {self._prepared[0].loc}, waits for its trigger")
        op = replace(op, loc=here())
        op.verify(self.scope)
        self._prepared = (op, self._tail, len(self._tail))
        return op

    def broadcast_cc_raw(
        self,
        op: AluOpLike,
        srcs: Operands,
        dsts: Operands,
        replica_groups: GroupsLike,
        broadcast_sizes: Sequence[int],
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> BroadcastOp:
        """BroadcastOp: every dst becomes, joined in group order, the first `broadcast_sizes[i]` rows (dimension 0) of
        member i's src. One entry per member; with a single non-zero one this is a broadcast from that member."""
        self.validate_dma_qos(dma_qos)
        return self.insert_raw_cc(
            BroadcastOp(
                op=alu_op(op, "BroadcastOp"),
                srcs=self._map_to_nd_access(srcs, "srcs"),
                dsts=self._map_to_nd_access(dsts, "dsts"),
                replica_groups=self.canonical_groups(replica_groups),
                broadcast_sizes=extents(broadcast_sizes),
                dtype=optional_data_type(dtype),
                dma_qos=dma_qos,
                name=self._label(name),
            )
        )

    def broadcast_cc(
        self,
        op: AluOpLike,
        srcs: Operands,
        dsts: Operands,
        broadcast_sizes: Sequence[int],
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> BroadcastOp:
        """`broadcast_cc_raw` over all workers."""
        groups = self.parallel_state.gen_all_worker_group()
        return self.broadcast_cc_raw(op, srcs, dsts, groups, broadcast_sizes, dtype=dtype, dma_qos=dma_qos, name=name)

    # --- permutes ----------------------------------------------------------------------------------------------------

    def collective_permute_cc_raw(
        self,
        op: AluOpLike,
        srcs: Operands,
        dsts: Operands,
        replica_groups: GroupsLike,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> CollectivePermuteOp:
        """CollectivePermuteOp: one step of the implicit ring of each group, on whole HBM tensors and one channel. A
        view is refused (NKC057). The multi-channel ring is `tiled_collective_permute_implicit_cc_raw`."""
        self.validate_dma_qos(dma_qos)
        return self.insert_raw_cc(
            CollectivePermuteOp(
                op=alu_op(op, "CollectivePermuteOp"),
                srcs=self._map_to_hbm_tensors(srcs, "srcs"),
                dsts=self._map_to_hbm_tensors(dsts, "dsts"),
                replica_groups=self.canonical_groups(replica_groups),
                dtype=optional_data_type(dtype),
                dma_qos=dma_qos,
                name=self._label(name),
            )
        )

    def collective_permute_cc(
        self,
        op: AluOpLike,
        srcs: Operands,
        dsts: Operands,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> CollectivePermuteOp:
        """`collective_permute_cc_raw` on the ring that the topology configures."""
        groups = self.parallel_state.gen_all_collective_permute_config()
        return self.collective_permute_cc_raw(op, srcs, dsts, groups, dtype=dtype, dma_qos=dma_qos, name=name)

    def tiled_collective_permute_cc_raw(
        self,
        srcs: Tiles,
        dsts: Tiles,
        src_tgt_pairs: Iterable[Sequence[int]],
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> TiledCollectivePermuteOp:
        """TiledCollectivePermuteOp routed by explicit (source, target) pairs of ranks, never by groups. HBM only."""
        self.validate_dma_qos(dma_qos)
        return self.insert_raw_cc(
            TiledCollectivePermuteOp(
                srcs=(self.combine_tiles(srcs, "srcs"),),
                dsts=(self.combine_tiles(dsts, "dsts"),),
                src_tgt_pairs=source_target_pairs(src_tgt_pairs),
                dtype=optional_data_type(dtype),
                dma_qos=dma_qos,
                name=self._label(name),
            )
        )

    def tiled_collective_permute_implicit_cc_raw(
        self,
        srcs: Tiles,
        dsts: Tiles,
        replica_groups: GroupsLike,
        channel_id: int,
        num_channels: int,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> TiledCollectivePermuteOp:
        """TiledCollectivePermuteOp on channel `channel_id` of `num_channels` (1, 2 or 4) of the implicit ring: each
        rank sends to its successor in its group."""
        self.validate_dma_qos(dma_qos)
        return self.insert_raw_cc(
            TiledCollectivePermuteOp(
                srcs=(self.combine_tiles(srcs, "srcs"),),
                dsts=(self.combine_tiles(dsts, "dsts"),),
                replica_groups=self.canonical_groups(replica_groups),
                channel_id=plain(channel_id),
                num_channels=plain(num_channels),
                dtype=optional_data_type(dtype),
                dma_qos=dma_qos,
                name=self._label(name),
            )
        )

    def tiled_collective_permute_reduce_implicit_cc_raw(
        self,
        op: AluOpLike,
        srcs: Sequence[Tiles],
        dsts: Tiles,
        replica_groups: GroupsLike,
        channel_id: int,
        num_channels: int,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> TiledCollectivePermuteReduceOp:
        """TiledCollectivePermuteReduceOp: `srcs` is (src0, src1); each rank sends op(src0, src1) to its successor. `op`
        is add, max or min (NKC053)."""
        self.validate_dma_qos(dma_qos)
        return self.insert_raw_cc(
            TiledCollectivePermuteReduceOp(
                op=alu_op(op, "TiledCollectivePermuteReduceOp"),
                srcs=tuple([self.combine_tiles(src, "srcs") for src in as_list(srcs)]),  # type: ignore[arg-type]
                dsts=(self.combine_tiles(dsts, "dsts"),),
                replica_groups=self.canonical_groups(replica_groups),
                channel_id=plain(channel_id),
                num_channels=plain(num_channels),
                dtype=optional_data_type(dtype),
                dma_qos=dma_qos,
                name=self._label(name),
            )
        )

    # --- point to point ----------------------------------------------------------------------------------------------

    def send_cc_raw(
        self,
        srcs: Operands,
        op: AluOpLike,
        peer_id: int,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> SendOp:
        """SendOp: a bare descriptor that sends `srcs` to rank `peer_id`, which runs the matching receive."""
        self.validate_dma_qos(dma_qos)
        return self.insert_raw_cc(
            SendOp(
                op=alu_op(op, "SendOp"),
                srcs=self._map_to_nd_access(srcs, "srcs"),
                peer_id=integer(peer_id, "peerId", "peer_id"),
                dtype=optional_data_type(dtype),
                dma_qos=dma_qos,
                name=self._label(name),
            )
        )

    def recv_cc_raw(
        self,
        dsts: Operands,
        op: AluOpLike,
        peer_id: int,
        replica_groups: GroupsLike,
        dtype: DTypeLike = None,
        dma_qos: int | None = None,
        name: str | None = None,
    ) -> RecvOp:
        """RecvOp: a bare descriptor that receives `dsts` from rank `peer_id`. `replica_groups` may be empty."""
        self.validate_dma_qos(dma_qos)
        return self.insert_raw_cc(
            RecvOp(
                op=alu_op(op, "RecvOp"),
                dsts=self._map_to_nd_access(dsts, "dsts"),
                peer_id=integer(peer_id, "peerId", "peer_id"),
                replica_groups=self.canonical_groups(replica_groups),
                dtype=optional_data_type(dtype),
                dma_qos=dma_qos,
                name=self._label(name),
            )
        )

    def sendrecv(
        self,
        dst: Tiles,
        src: Tiles,
        send_to_rank: int,
        recv_from_rank: int,
        pipe_id: int,
        use_gpsimd_dma: bool = False,
        dma_qos: int | None = None,
        mask: Mask = None,
        deps: Deps = (),
        name: str | None = None,
    ) -> SendRecvOp | None:
        """SendRecvOp between the two cores of a rank (0 and 1, not ranks), both sides in SBUF: dst becomes the src of
        core `recv_from_rank`. Transfers pair by `pipe_id`. `use_gpsimd_dma` is a wish that the op carries; the local
        lowering decides. NKC075 unless the three numbers are integers."""
        self.validate_dma_qos(dma_qos)
        if is_never(mask):
            return None
        with self.undone_on_error():
            return self.insert(
                SendRecvOp(
                    dst=self.combine_tiles(dst, "dst"),
                    src=self.combine_tiles(src, "src"),
                    send_to_rank=integer(send_to_rank, "sendToRank", "send_to_rank"),
                    recv_from_rank=integer(recv_from_rank, "recvFromRank", "recv_from_rank"),
                    pipe_id=integer(pipe_id, "pipeId", "pipe_id"),
                    use_gpsimd_dma=bool(use_gpsimd_dma),
                    initiate_barrier=self.initiate_barrier(pipe_id),
                    dma_qos=dma_qos,
                    name=self._label(name),
                ),
                mask=mask,
                deps=deps,
            )

    def sendrecv_cce(
        self,
        dst: Tiles,
        src: Tiles | Sequence[Tiles],
        send_to_rank: int,
        recv_from_ranks: Sequence[int],
        op: AluOpLike,
        pipe_id: int,
        dma_qos: int | None = None,
        mask: Mask = None,
        deps: Deps = (),
        name: str | None = None,
    ) -> SendRecvCCEOp | None:
        """SendRecvCCEOp: dst becomes the fold with `op`, in list order, of what each core of `recv_from_ranks` holds at
        the matching `src`: a list with one view per received core, or one view for all of them."""
        self.validate_dma_qos(dma_qos)
        if is_never(mask):
            return None
        with self.undone_on_error():
            cores = integers(recv_from_ranks, "recvFromRank", "recv_from_ranks")
            srcs = tuple([self.combine_tiles(part, "src") for part in as_list(src)])  # type: ignore[arg-type]
            if type(src) not in (list, tuple):
                srcs *= len(cores)
            return self.insert(
                SendRecvCCEOp(
                    dst=self.combine_tiles(dst, "dst"),
                    srcs=srcs,
                    send_to_rank=integer(send_to_rank, "sendToRank", "send_to_rank"),
                    recv_from_ranks=cores,
                    op=alu_op(op, "SendRecvCCEOp"),
                    pipe_id=integer(pipe_id, "pipeId", "pipe_id"),
                    initiate_barrier=self.initiate_barrier(pipe_id),
                    dma_qos=dma_qos,
                    name=self._label(name),
                ),
                mask=mask,
                deps=deps,
            )

    def initiate_barrier(self, pipe_id: int) -> bool:
        """Register the fence that the cores of a rank pass before a transfer of pipe `pipe_id`. The value is the op's
        flag of that name; the lowering turns it into `initial_corebarrier`."""
        self._register_barrier(f"pipe{pipe_id}", tuple(range(self.scope.world.lnc)))
        return True

    # --- program and synchronisation ---------------------------------------------------------------------------------

    def core_barrier(
        self,
        wait_target: Operand,
        cores: Sequence[int],
        engine: Engine | str = Engine.unassigned,
        mask: Mask = None,
        deps: Deps = (),
        name: str | None = None,
    ) -> CoreBarrierOp | None:
        """CoreBarrierOp: `cores` of the rank meet on `engine` once `wait_target` is written. It is a full HBM tensor
        (NKC080, NKC081) and both input and output of the op. Needs NeuronCore-v3 (BIR530)."""
        if is_never(mask):
            return None
        members = integers(cores, "cores", "cores")
        with self.undone_on_error():
            self._register_barrier(f"sema{len(self.program_barriers)}", members)
            return self.insert(
                CoreBarrierOp(
                    data=to_access(wait_target, self.tensors, "wait_target"),
                    cores=members,
                    engine=member(Engine, engine, "engine"),
                    name=self._label(name),
                ),
                mask=mask,
                deps=deps,
            )

    def rank_id(
        self,
        dst: Register | None = None,
        world_size: int | None = None,
        mask: Mask = None,
        deps: Deps = (),
        name: str | None = None,
    ) -> Register:
        """GetGlobalRankId into `dst`, or into a new register: uint32, the physical core // cores per LNC. `world_size`
        is the number of ranks (NKC086). NKC082 unless `mask` is scalar."""
        if not is_scalar(mask):
            refuse("NKC082", operand="mask")
        with self.undone_on_error():
            register = self.register(dtype=DType.uint32) if dst is None else dst
            if not isinstance(register, Register) or self._own_register(register, "dst").dtype is not DType.uint32:
                refuse("NKC035", inst="rank_id", what="dst", found=dst, permitted="a register of uint32", operand="dst")
            size = self.scope.world.ranks if world_size is None else plain(world_size)
            op = GetGlobalRankId(dst_register=register, world_size=size, name=self._label(name))
            self.insert(op, mask=mask, deps=deps)
            return register

    def sync_program(self, inactive_program_axes: Iterable[ProgramAxis | str] | None = None) -> None:
        """Synchronise the program grid: one Barrier per inactive axis (all axes by default), over the cores that differ
        from this one along it. Mints no op class of its own. NKC088 for an axis that is not of the grid."""
        inactive = self.program_axes if inactive_program_axes is None else inactive_program_axes
        for axis in [self.translate_axis(axis) for axis in inactive]:
            self.insert(Barrier(axes=(axis.name,), cores=self.grid.cores_along((axis.name,), self.core)))

    def post_process_allreduce_result(
        self,
        dst: Operand,
        reduce_axes: Iterable[ProgramAxis],
        parallel_axes: Iterable[ProgramAxis],
        is_async: bool = False,
        loop_reduce_dst: Operand | None = None,
    ) -> AccessPattern:
        """Fence the result of an all-reduce over the parallel axes, so that consumers see the reduced value: one
        Barrier and one entry of `program_barriers`, which `is_async` marks. Returns the view to read, that of
        `loop_reduce_dst` if the reduction ran in a loop. Parallel axes are program ids (NKC083), reduce axes are not
        (NKC084)."""
        reduce_axes, parallel_axes = tuple(reduce_axes), tuple(parallel_axes)
        for axis in (*reduce_axes, *parallel_axes):
            if not isinstance(axis, ProgramAxis):
                refuse("NKC035", inst="all_reduce", what="axis", found=axis, permitted="a ProgramAxis", operand="axes")
        if not all(axis.is_program_id for axis in parallel_axes):
            refuse("NKC083", operand="parallel_axes")
        if any(axis.is_program_id for axis in reduce_axes):
            refuse("NKC084", operand="reduce_axes")
        result = to_access(dst if loop_reduce_dst is None else loop_reduce_dst, self.tensors, "dst")
        names = tuple([self.translate_axis(axis).name for axis in parallel_axes])
        cores = self.grid.cores_along(names, self.core)
        self.insert(Barrier(axes=names, cores=cores))
        semaphore = f"sema{len(self.program_barriers)}"
        self.program_barriers.append(ProgramBarrier(semaphore, names, cores, bool(is_async)))
        return result

    def post_process_spmd_grid(self, grid: int | Sequence[int] | None) -> CompositeSPMDDim:
        """Set up the launch grid: one program axis per entry, one program per core of the rank, none for an empty grid.
        NKC011 if the grid does not have as many programs as the rank has cores, NKC015 for several cores on trn1."""
        shape = () if grid is None else as_list(grid)
        extents = tuple([plain(extent) for extent in shape])
        if any(type(extent) is not int or extent < 1 for extent in extents):
            refuse("NKC035", inst="kernel", what="grid", found=grid, permitted="integers of at least 1", operand="grid")
        axes = [ProgramAxis(f"program_id_{number}", int(extent)) for number, extent in enumerate(extents)]
        composite = CompositeSPMDDim(tuple(axes))
        if composite.extent > 1 and self.target.arch < 30:
            refuse("NKC015", target=self.target.value, operand="grid")
        if axes and composite.extent != self.scope.world.lnc:
            refuse("NKC011", grid=composite.extent, lnc=self.scope.world.lnc, operand="grid")
        self.grid = composite
        return composite

    @property
    def program_axes(self) -> tuple[ProgramAxis, ...]:
        """The axes of the launch grid, outermost first; empty without a grid."""
        return self.grid.axes

    @property
    def program_ids(self) -> tuple[int, ...]:
        """Where this core stands on the grid, one index per axis."""
        return self.grid.program_ids(self.core)

    def translate_axis(self, axis: ProgramAxis | str) -> ProgramAxis:
        """The axis of the launch grid of that name. NKC088 if there is none."""
        name = axis.name if isinstance(axis, ProgramAxis) else axis
        own = next((own for own in self.program_axes if own.name == name), None)
        if own is None:
            refuse("NKC088", axis=name, axes=", ".join(own.name for own in self.program_axes) or "no axes")
        return own

    def _register_barrier(self, semaphore: str, cores: tuple[int, ...]) -> None:
        axes = tuple([axis.name for axis in self.program_axes])
        self.program_barriers.append(ProgramBarrier(semaphore, axes, cores))
