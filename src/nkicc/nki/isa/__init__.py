"""`nki.isa`: one instruction per call, inserted where the kernel calls it.

`dst` comes first, except in `sendrecv` and `core_barrier`. Semantics and limits are those of the public pages; each
instruction checks itself when it is inserted (`nkicc.ir.isa`). `name` labels the instruction. `priority`, `dge_mode`
and the choice of a DMA engine do not change results and are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

import msgspec
import numpy as np

from nkicc.builder.source import refuse
from nkicc.ir.access import AccessPattern
from nkicc.ir.isa import (
    DmaMode,
    InstActivation,
    InstDMACopy,
    InstDMATranspose,
    InstIota,
    InstMatmul,
    InstMemset,
    InstRegisterLoad,
    InstRegisterMove,
    InstRegisterStore,
    InstTensorCopy,
    InstTensorReduce,
    InstTensorScalar,
    InstTensorTensor,
    InstTranspose,
)
from nkicc.ir.program import Instruction
from nkicc.ir.types import AluOp, Engine
from nkicc.nki.language import Op
from nkicc.nki.missing import refuse_unknown
from nkicc.nki.tensor import Register, ndarray
from nkicc.nki.trace import current

from . import constants
from .constants import dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd

__all__ = [
    "activation",
    "constants",
    "core_barrier",
    "dge_mode",
    "dma_compute",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "engine",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "matmul_perf_mode",
    "memset",
    "nc_matmul",
    "nc_transpose",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "scalar_engine",
    "sendrecv",
    "tensor_copy",
    "tensor_engine",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_tensor",
    "unknown_engine",
    "vector_engine",
]

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown

_ENGINES = {
    engine.unknown: Engine.unassigned,
    engine.tensor: Engine.pe,
    engine.scalar: Engine.activation,
    engine.gpsimd: Engine.pool,
    engine.dma: Engine.dma,
    engine.vector: Engine.dve,
    engine.sync: Engine.sp,
}
_TRANSPOSES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
#: A CCE DMA takes this many sources.
_MAX_SOURCES = 16


# --- data movement ---------------------------------------------------------------------------------------------------


def dma_copy(
    dst: ndarray,
    src: ndarray,
    priority: int | None = None,
    oob_mode: oob_mode = oob_mode.error,
    dge_mode: dge_mode = dge_mode.unknown,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> None:
    """flat(dst)[i] = cast(flat(src)[i]), between HBM and SBUF in any combination."""
    _insert(InstDMACopy(name=name or "", dst=_bounded(dst, "dst", oob_mode), srcs=(_bounded(src, "src", oob_mode),)))


def dma_transpose(
    dst: ndarray,
    src: ndarray,
    axes: Sequence[int] | None = None,
    priority: int | None = None,
    dge_mode: dge_mode = dge_mode.unknown,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> None:
    """dst.shape[i] = src.shape[axes[i]]; by default (1, 0), (2, 1, 0) or (3, 1, 2, 0) for 2, 3 and 4 dimensions."""
    source = _bounded(src, "src", oob_mode)
    rank = len(source.pattern)
    order = _TRANSPOSES.get(rank) if axes is None else tuple(axes)
    if order is None or sorted(order) != list(range(rank)):
        _refuse("dma_transpose", "axes", axes, f"an order of the {rank} dimensions")
    _insert(InstDMATranspose(name=name or "", dst=_bounded(dst, "dst", oob_mode), src=source, axes=order))


def dma_compute(
    dst: ndarray,
    srcs: Sequence[ndarray],
    reduce_op: Op,
    scales: Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> None:
    """dst = cast(Σ srcs[i]), summed in float32 in list order: at most 16 sources, `nl.add` only, all scales 1."""
    if _alu(reduce_op, "dma_compute") is not AluOp.add:
        _refuse("dma_compute", "reduce_op", reduce_op, "nl.add")
    if scales is not None and any(scale != 1 for scale in scales):
        _refuse("dma_compute", "scales", scales, "1.0 for every source")
    sources = tuple([_bounded(src, "srcs", oob_mode) for src in srcs])
    if not 1 <= len(sources) <= _MAX_SOURCES:
        _refuse("dma_compute", "number of srcs", len(sources), f"1 to {_MAX_SOURCES}")
    _insert(
        InstDMACopy(name=name or "", dst=_bounded(dst, "dst", oob_mode), srcs=sources, mode=DmaMode.cce, op=AluOp.add)
    )


def memset(dst: ndarray, value: float, engine: engine = engine.unknown, name: str | None = None) -> None:
    """dst[*] = value."""
    number = _number(value, "value")
    _insert(InstMemset(name=name or "", dst=_access(dst, "dst"), value=number, engine=_engine(engine)))


def tensor_copy(dst: ndarray, src: ndarray, engine: engine = engine.unknown, name: str | None = None) -> None:
    """dst[p, f] = cast(src[p, f]) between SBUF and PSUM."""
    _insert(InstTensorCopy(name=name or "", dst=_access(dst, "dst"), src=_access(src, "src"), engine=_engine(engine)))


# --- compute ---------------------------------------------------------------------------------------------------------


def tensor_tensor(
    dst: ndarray, data1: ndarray, data2: ndarray, op: Op, engine: engine = engine.unknown, name: str | None = None
) -> None:
    """dst = data1 op data2, element by element."""
    _insert(
        InstTensorTensor(
            name=name or "",
            dst=_access(dst, "dst"),
            data1=_access(data1, "data1"),
            data2=_access(data2, "data2"),
            op=_alu(op, "tensor_tensor"),
            engine=_engine(engine),
        )
    )


def tensor_scalar(
    dst: ndarray,
    data: ndarray,
    op0: Op,
    operand0: float | ndarray | None,
    reverse0: bool = False,
    op1: Op | None = None,
    operand1: float | ndarray | None = None,
    reverse1: bool = False,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> None:
    """t = data op0 operand0; dst = t op1 operand1, sides swapped where reversed. An operand is a number or a (P, 1)
    tile; a unary op0 takes None."""
    _insert(
        InstTensorScalar(
            name=name or "",
            dst=_access(dst, "dst"),
            data=_access(data, "data"),
            op0=_alu(op0, "tensor_scalar"),
            operand0=0 if operand0 is None else _number_or_tile(operand0, "operand0"),
            reverse0=reverse0,
            op1=None if op1 is None else _alu(op1, "tensor_scalar"),
            operand1=None if operand1 is None else _number_or_tile(operand1, "operand1"),
            reverse1=reverse1,
            engine=_engine(engine),
        )
    )


def tensor_reduce(
    dst: ndarray,
    op: Op,
    data: ndarray,
    axis: int | Sequence[int],
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> None:
    """dst = fold of `data` over its last free axes, times -1 if `negate`. `axis` names exactly those, never 0."""
    source = _access(data, "data")
    rank = len(source.pattern)
    given = [axis] if isinstance(axis, int) else list(axis)
    axes = sorted(a + rank if a < 0 else a for a in given)
    if not axes or axes != list(range(rank - len(axes), rank)) or axes[0] < 1:
        _refuse("tensor_reduce", "axis", axis, f"the last free axes of {rank} dimension(s)")
    _insert(
        InstTensorReduce(
            name=name or "",
            dst=_access(dst, "dst"),
            data=source,
            op=_alu(op, "tensor_reduce"),
            axes=len(axes),
            negate=negate,
        )
    )


def activation(
    dst: ndarray,
    op: Op,
    data: ndarray,
    bias: float | ndarray | None = None,
    scale: float | ndarray = 1.0,
    reduce_op: Op | None = None,
    reduce_res: ndarray | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    name: str | None = None,
) -> None:
    """dst = cast(f(data · scale + bias)) in float32. The accumulator (`reduce_*`) is not implemented (NKC008)."""
    if reduce_op is not None or reduce_res is not None or reduce_cmd is not constants.reduce_cmd.idle:
        refuse("NKC008", what="the accumulator of nki.isa.activation", instead="Use nki.isa.tensor_reduce after it.")
    if not isinstance(op, Op) or op.act is None:
        function = op.name if isinstance(op, Op) else op
        refuse("NKC008", what=f"activation function {function!r}", instead="Compose it of those in nki.language.")
    _insert(
        InstActivation(
            name=name or "",
            dst=_access(dst, "dst"),
            data=_access(data, "data"),
            func=op.act,
            bias=0.0 if bias is None else _number_or_tile(bias, "bias"),
            scale=_number_or_tile(scale, "scale"),
        )
    )


def nc_matmul(
    dst: ndarray,
    stationary: ndarray,
    moving: ndarray,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: Sequence[int] = (),
    tile_size: Sequence[int] = (),
    perf_mode: matmul_perf_mode = matmul_perf_mode.none,
    name: str | None = None,
) -> None:
    """dst[m, n] (+)= Σ_k stationary[k, m] · moving[k, n] in float32. `accumulate` None: the first matmul into a PSUM
    location overwrites it, later ones add. Tiling, double rows and transposition are not implemented (NKC008)."""
    for option, used in (
        ("is_transpose", is_transpose),
        ("tile_position", len(tile_position) > 0),
        ("tile_size", len(tile_size) > 0),
        ("perf_mode", perf_mode is not matmul_perf_mode.none),
    ):
        if used:
            refuse("NKC008", what=f"{option} of nki.isa.nc_matmul", instead="Leave it out.", operand=option)
    _insert(
        InstMatmul(
            name=name or "",
            dst=_access(dst, "dst"),
            stationary=_access(stationary, "stationary"),
            moving=_access(moving, "moving"),
            accumulate=accumulate,
        )
    )


def nc_transpose(dst: ndarray, data: ndarray, engine: engine = engine.unknown, name: str | None = None) -> None:
    """dst[f, p] = data[p, f], free dimensions flattened."""
    _insert(InstTranspose(name=name or "", dst=_access(dst, "dst"), data=_access(data, "data"), engine=_engine(engine)))


def iota(
    dst: ndarray,
    pattern: Sequence[Sequence[int]],
    offset: int = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> None:
    """dst[p, …] = offset + p · channel_multiplier + Σ index_k · step_k over `pattern` [[step, count], …]."""
    try:
        pairs = tuple([(int(step), int(count)) for step, count in pattern])
    except (TypeError, ValueError):
        _refuse("iota", "pattern", pattern, "[[step, count], …]")
    _insert(
        InstIota(
            name=name or "",
            dst=_access(dst, "dst"),
            pattern=pairs,
            offset=offset,
            channel_multiplier=channel_multiplier,
        )
    )


# --- between the cores of a rank -------------------------------------------------------------------------------------


def sendrecv(
    src: ndarray,
    dst: ndarray,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: dma_engine = dma_engine.dma,
    name: str | None = None,
) -> None:
    """Swap between the two cores of a rank: dst = src of core `recv_from_rank`. The "ranks" are cores, 0 and 1."""
    current("nki.isa.sendrecv").codegen.sendrecv(
        dst,
        src,
        send_to_rank,
        recv_from_rank,
        pipe_id,
        use_gpsimd_dma=dma_engine is constants.dma_engine.gpsimd_dma,
        name=name,
    )


def core_barrier(data: ndarray, cores: Sequence[int], engine: engine = engine.gpsimd, name: str | None = None) -> None:
    """The cores of a rank wait for each other; `data` is the whole shared-HBM tensor it is about. Nothing at LNC=1,
    since kernels call it whatever the LNC."""
    tracer = current("nki.isa.core_barrier")
    if tracer.lnc > 1:
        tracer.codegen.core_barrier(data, cores, engine=_engine(engine), name=name)


# --- registers -------------------------------------------------------------------------------------------------------


def register_alloc(x: int | None = None) -> Register:
    """A new register, holding `x` if given."""
    register = Register(current("nki.isa.register_alloc").codegen.register())
    if x is not None:
        register_move(register, x)
    return register


def register_move(dst: Register, src: int | Register, name: str | None = None) -> None:
    """dst = src."""
    value = src.name if isinstance(src, Register) else _integer(src)
    _insert(InstRegisterMove(name=name or "", dst=_register(dst, "dst").register, src=value))


def register_load(dst: Register, src: ndarray, name: str | None = None) -> None:
    """dst = the single element of src."""
    _insert(InstRegisterLoad(name=name or "", dst=_register(dst, "dst").register, src=_access(src, "src")))


def register_store(dst: ndarray, src: Register, name: str | None = None) -> None:
    """The single element of dst = src."""
    _insert(InstRegisterStore(name=name or "", dst=_access(dst, "dst"), src=_register(src, "src").name))


def get_nc_version() -> nc_version:
    """The target's NeuronCore generation."""
    return nc_version(current("nki.isa.get_nc_version").target.nc_version)


# --- operands --------------------------------------------------------------------------------------------------------


def _insert(inst: Instruction) -> None:
    current("nki.isa").codegen.insert(inst)


def _access(value: Any, operand: str) -> AccessPattern:
    if type(value) is not ndarray:
        _refuse("nki.isa", operand, type(value).__name__, "a tensor")
    return value.__access__()


def _bounded(value: Any, operand: str, mode: oob_mode) -> AccessPattern:
    """A DMA operand: a dynamic one skips the rows out of bounds if the mode says so."""
    access = _access(value, operand)
    if mode is oob_mode.skip and access.is_dynamic:
        return msgspec.structs.replace(access, skip_oob=True)
    return access


def _number(value: Any, operand: str) -> int | float:
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, int | float):
        _refuse("nki.isa", operand, value, "a number")
    return value


def _number_or_tile(value: Any, operand: str) -> int | float | AccessPattern:
    return value.__access__() if type(value) is ndarray else _number(value, operand)


def _integer(value: Any) -> int:
    number = _number(value, "src")
    if not isinstance(number, int):
        _refuse("register_move", "src", value, "an integer or a register")
    return number


def _register(value: Any, operand: str) -> Register:
    if not isinstance(value, Register):
        _refuse("nki.isa", operand, value, "a register")
    return value


def _alu(op: Any, inst: str) -> AluOp:
    if not isinstance(op, Op) or op.alu is None:
        _refuse(inst, "op", op.name if isinstance(op, Op) else op, "an op of nki.language with an ALU operation")
    return op.alu


def _engine(value: Any) -> Engine:
    try:
        return _ENGINES[value]
    except (KeyError, TypeError):
        _refuse("nki.isa", "engine", value, "a member of nki.isa.engine")


def _refuse(inst: str, what: str, found: object, permitted: str) -> Never:
    refuse("NKC035", inst=inst, what=what, found=found, permitted=permitted, operand=what)


__getattr__ = refuse_unknown("nki.isa")
