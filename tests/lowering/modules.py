"""Small modules for the tests of the lowering, made from IR structs directly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nkicc.ir import bir, isa, penguin
from nkicc.ir.access import AccessPattern, Tensor
from nkicc.ir.bir import CCChannel, CollectiveKind, InstCollectiveCompute
from nkicc.ir.program import Core, Level, Module, Program, walk
from nkicc.ir.types import AluOp, DType, Groups, Loc, Memory, Target, World
from nkicc.simulator import simulate

ALL4: Groups = ((0, 1, 2, 3),)
PAIRS4: Groups = ((2, 0), (1, 3))


def hbm(name: str, shape: tuple[int, ...], dtype: str = "float32") -> Tensor:
    return Tensor(name, shape, DType.of(dtype), Memory.shared_hbm)


def sbuf(name: str, shape: tuple[int, ...], dtype: str = "float32") -> Tensor:
    return Tensor(name, shape, DType.of(dtype), Memory.sbuf)


def module(
    *bodies: Sequence[Any],
    level: Level = Level.bir,
    shared: Sequence[Tensor] = (),
    own: Sequence[Tensor] | Sequence[Sequence[Tensor]] = (),
    inputs: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
    ranks: int = 4,
    target: Target = Target.trn2,
    check: bool = True,
) -> Module:
    """One program, one body per core. `own`: tensors that every core has."""
    by_name = {t.name: t for t in shared}
    program = Program(
        "k",
        tuple([Core(tuple(own), tuple(body)) for body in bodies]),  # type: ignore[arg-type]
        tuple(shared),
        inputs,
        tuple([by_name[name].full() for name in outputs]),
    )
    built = Module(level, World(ranks, len(bodies)), target, (program,))
    if check:
        built.verify()
    return built


def body(built: Module, core: int = 0) -> list[Any]:
    """All instructions of a core, loops flattened."""
    return list(walk(built.programs[0].cores[core].body))


def only(built: Module, kind: type, core: int = 0) -> Any:
    """The one instruction of a class on a core."""
    (found,) = [inst for inst in body(built, core) if type(inst) is kind]
    return found


def at(line: int) -> Loc:
    return Loc("kernel.py", line)


def collective(
    kind: CollectiveKind, srcs: Sequence[AccessPattern], dsts: Sequence[AccessPattern], groups: Groups, **fields: Any
) -> InstCollectiveCompute:
    op = fields.pop("op", AluOp.bypass)
    return InstCollectiveCompute(srcs=tuple(srcs), dsts=tuple(dsts), cc_channel=CCChannel(kind, groups, op), **fields)


def sendrecv(core: int, src: AccessPattern, dst: AccessPattern, pipe: int = 0, **fields: Any) -> InstCollectiveCompute:
    """A local swap as codegen makes it for `core`."""
    fields = {"name": f"LocalSendRecv-{pipe}", "initial_corebarrier": True, **fields}
    return collective(
        CollectiveKind.SendRecv,
        [src],
        [dst],
        ((0, 1),),
        is_local=True,
        pipe_id=pipe,
        recv_from_rank=(1 - core,),
        send_to_rank=(1 - core,),
        peer=core,
        stream_id=0,
        **fields,
    )


def slab(tensor: Tensor, part: int, parts: int) -> AccessPattern:
    """The `part`-th of `parts` equal row blocks of a tensor."""
    rows = tensor.shape[0] // parts
    width = tensor.size // tensor.shape[0]
    full = tensor.full()
    return AccessPattern(tensor.name, ((width, rows), *full.pattern[1:]), part * rows * width)


def columns(tensor: Tensor, first: int, count: int) -> AccessPattern:
    """Columns of a 2-D tensor."""
    return AccessPattern(tensor.name, ((tensor.shape[1], tensor.shape[0]), (1, count)), first)


def load(dst: AccessPattern, src: AccessPattern, **fields: Any) -> isa.InstDMACopy:
    return isa.InstDMACopy(dst=dst, srcs=(src,), **fields)


def barrier(name: str = "", data: AccessPattern | None = None, **fields: Any) -> bir.InstCoreBarrier:
    return bir.InstCoreBarrier(name=name, cores=(0, 1), data=data, **fields)


def all_reduce_op(src: Tensor, dst: Tensor, groups: Groups = ALL4, **fields: Any) -> penguin.AllReduceOp:
    return penguin.AllReduceOp(
        op=AluOp.add, srcs=(src.full(),), dsts=(dst.full(),), replica_groups=groups, **fields
    )  # fmt: skip


def run(built: Module, **data: np.ndarray) -> list[np.ndarray]:
    """The outputs of all ranks; `data` has ranks leading."""
    built.verify()
    ranks = built.world.ranks
    execution = simulate(built, [data])
    return [np.array(np.broadcast_to(out, (ranks, *out.shape[1:]))) for out in execution.outputs[0]]


def distinct(ranks: int, *shape: int, dtype: str = "float32", seed: int = 7) -> np.ndarray:
    """Random data of its own on every rank."""
    rng = np.random.default_rng([seed, ranks, *shape])
    kind = DType.of(dtype).numpy
    if DType.of(dtype).is_float:
        return rng.uniform(-8, 8, (ranks, *shape)).astype(np.float32).astype(kind)
    info = np.iinfo(kind)
    return rng.integers(info.min // 2, info.max // 2, (ranks, *shape)).astype(kind)


def same_bits(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> bool:
    return [(a.dtype, a.shape, a.tobytes()) for a in left] == [(b.dtype, b.shape, b.tobytes()) for b in right]
