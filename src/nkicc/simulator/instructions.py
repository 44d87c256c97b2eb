"""One rule per instruction of a kernel's own: from the instruction to a closure that executes it for all ranks.

A rule binds its operands once; the closure it returns takes no arguments and does one or a few NumPy calls whatever the
number of ranks. Values carry ranks as the leading axis, with extent 1 where all ranks agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from nkicc.ir import bir, isa
from nkicc.ir.access import AccessPattern
from nkicc.ir.base import Inst
from nkicc.ir.errors import fail
from nkicc.ir.types import COMMUTATIVE_REDUCERS, AluOp, Memory

from .memory import AnyView, DynamicView
from .numerics import ACTIVATIONS, BITVEC, alu, assign, is_integer, to_compute

__all__ = ["RULES", "Context", "Step"]

Array = np.ndarray
Step = Callable[[], None]
Binary = Callable[[Array, Array], Array]
Number = int | float | AccessPattern | None


class Context(Protocol):
    """What a rule may use of the core it compiles for."""

    #: Register values: int64 of shape (1,) or (ranks,).
    registers: dict[str, Array]
    #: Global rank of each row, shape (ranks,).
    ranks: Array

    def view(self, ap: AccessPattern, inst: Inst) -> AnyView: ...

    def memory(self, ap: AccessPattern) -> Memory: ...


Rule = Callable[..., Step]
RULES: dict[type[Inst], Rule] = {}


def rule(kind: type[Inst]) -> Callable[[Rule], Rule]:
    """Register the rule of an instruction class; one rule per class."""

    def register(function: Rule) -> Rule:
        if kind in RULES:
            raise ValueError(f"{kind.__name__} has two rules")
        RULES[kind] = function
        return function

    return register


# --- data movement ---------------------------------------------------------------------------------------------------


@rule(isa.InstDMACopy)
def dma_copy(inst: isa.InstDMACopy, ctx: Context) -> Step:
    dst = ctx.view(inst.dst, inst)
    srcs = [ctx.view(src, inst) for src in inst.srcs]
    if inst.mode is isa.DmaMode.cce:
        return _dma_fold(inst, dst, srcs)
    (src,) = srcs
    shape = dst.shape
    same_tensor = src.buffer is dst.buffer
    masked = any(isinstance(v, DynamicView) and v.skip for v in (src, dst))
    if masked:
        return _dma_masked(dst, src, shape)

    def run() -> None:
        value = src.read()
        if value.shape[1:] != shape:
            value = value.reshape(value.shape[0], *shape)
        # A DMA reads its source as it was: an overlapping destination must not feed back.
        dst.write(value.copy() if same_tensor else value)

    return run


def _dma_masked(dst: AnyView, src: AnyView, shape: tuple[int, ...]) -> Step:
    def run() -> None:
        value, good = src.read_masked() if isinstance(src, DynamicView) else (src.read(), None)
        value = value.reshape(value.shape[0], *shape)
        if isinstance(dst, DynamicView):
            dst.write_masked(value, good)
        elif good is None:
            dst.write(value)
        else:
            good = good.reshape(*good.shape, *[1] * (value.ndim - good.ndim))
            dst.write(np.where(good, value, dst.read().astype(value.dtype)))

    return run


def _dma_fold(inst: isa.InstDMACopy, dst: AnyView, srcs: list[AnyView]) -> Step:
    if inst.op not in (*COMMUTATIVE_REDUCERS, AluOp.bypass):
        fail("BIR066", kind="DMA CCE", op=inst.op.value, name=inst.name, loc=inst.loc)
    function = reducer(inst.op, is_integer(dst.dtype))
    wide = np.dtype(np.int64 if is_integer(dst.dtype) else np.float32)
    shape = dst.shape

    def run() -> None:
        total = srcs[0].read().astype(wide)
        total = total.reshape(total.shape[0], *shape)
        for src in srcs[1:]:
            value = src.read()
            total = function(total, value.reshape(value.shape[0], *shape).astype(wide))
        dst.write(total)

    return run


@rule(isa.InstDMATranspose)
def dma_transpose(inst: isa.InstDMATranspose, ctx: Context) -> Step:
    dst, src = ctx.view(inst.dst, inst), ctx.view(inst.src, inst)
    axes = (0, *[axis + 1 for axis in inst.axes])
    return lambda: dst.write(src.read().transpose(axes))


@rule(isa.InstMemset)
def memset(inst: isa.InstMemset, ctx: Context) -> Step:
    dst = ctx.view(inst.dst, inst)
    value = np.asarray(inst.value).astype(np.float32 if isinstance(inst.value, float) else np.int64)
    filled = np.empty(dst.shape, dst.dtype)
    assign(filled, np.broadcast_to(value, dst.shape))
    filled = filled[None]
    return lambda: dst.write(filled)


@rule(isa.InstTensorCopy)
def tensor_copy(inst: isa.InstTensorCopy, ctx: Context) -> Step:
    dst, src = ctx.view(inst.dst, inst), ctx.view(inst.src, inst)
    if src.buffer is dst.buffer:
        return lambda: dst.write(src.read().copy())
    return lambda: dst.write(src.read())


@rule(isa.InstTranspose)
def transpose(inst: isa.InstTranspose, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    partitions = data.shape[0]

    def run() -> None:
        value = data.read()
        dst.write(value.reshape(value.shape[0], partitions, -1).swapaxes(1, 2))

    return run


# --- compute ---------------------------------------------------------------------------------------------------------


def reducer(op: AluOp, integer: bool) -> Binary:
    """The two-operand fold of a reduce op. Floating max and min ignore a NaN operand, as fmaxf and fminf do."""
    if op is AluOp.max:
        return np.maximum if integer else np.fmax
    if op is AluOp.min:
        return np.minimum if integer else np.fmin
    return np.add


def _function(inst: Inst, op: AluOp) -> Binary:
    function = alu(op)
    if function is None:
        fail("NKC053", op=op.value, inst=inst.label, operand="op", loc=inst.loc)
    return function


def _operands(inst: Inst, ops: tuple[AluOp, ...], views: tuple[AnyView, ...]) -> Callable[[Array], Array]:
    """How operand values enter the ALU: raw bits for bit operations, 64-bit integers if everything is an integer,
    float32 otherwise."""
    integers = all(is_integer(view.dtype) for view in views)
    bits = [op in BITVEC for op in ops]
    if any(bits):
        if not all(bits) or not integers:
            fail(
                "NKC035",
                inst=inst.label,
                what="op",
                found="/".join(op.value for op in ops),
                permitted="bit operations on integers only, and never mixed with arithmetic ones",
                operand="op",
                loc=inst.loc,
            )
        return lambda value: value
    if integers and all(view.dtype.itemsize == 4 for view in views):
        return lambda value: value.astype(np.int64)
    return to_compute


@rule(isa.InstTensorTensor)
def tensor_tensor(inst: isa.InstTensorTensor, ctx: Context) -> Step:
    dst, data1, data2 = ctx.view(inst.dst, inst), ctx.view(inst.data1, inst), ctx.view(inst.data2, inst)
    function = _function(inst, inst.op)
    enter = _operands(inst, (inst.op,), (data1, data2, dst))
    shape = dst.shape

    def run() -> None:
        a, b = data1.read(), data2.read()
        if a.shape[1:] != shape:
            a = a.reshape(a.shape[0], *shape)
        if b.shape[1:] != shape:
            b = b.reshape(b.shape[0], *shape)
        dst.write(function(enter(a), enter(b)))

    return run


def _scalar(inst: Inst, operand: object, ctx: Context, ndim: int) -> Callable[[], Array]:
    """Reads a constant or a (P, 1) tile as something that broadcasts against (rows, P, free…)."""
    if isinstance(operand, AccessPattern):
        view = ctx.view(operand, inst)

        def read() -> Array:
            value = view.read()
            return value.reshape(value.shape[0], -1, *[1] * (ndim - 2))

        return read
    constant = np.asarray(operand if operand is not None else 0)
    return lambda: constant


@rule(isa.InstTensorScalar)
def tensor_scalar(inst: isa.InstTensorScalar, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    ndim = len(data.shape) + 1
    stages: list[tuple[AluOp, Number, bool]] = [(inst.op0, inst.operand0, inst.reverse0)]
    if inst.op1 is not None:
        stages.append((inst.op1, inst.operand1, inst.reverse1))
    whole = all(isinstance(o, AccessPattern | int) for _, o, _ in stages)
    views = (data, dst) if whole else (data,)
    enter = _operands(inst, tuple(op for op, _, _ in stages), views)
    if not whole and not any(op in BITVEC for op, _, _ in stages):
        enter = to_compute
    compiled = [(_function(inst, op), _scalar(inst, operand, ctx, ndim), reverse) for op, operand, reverse in stages]
    bits = any(op in BITVEC for op, _, _ in stages)

    def run() -> None:
        value = enter(data.read())
        for function, scalar, reverse in compiled:
            operand = scalar()
            operand = operand.astype(value.dtype) if bits else enter(operand)
            value = function(operand, value) if reverse else function(value, operand)
        dst.write(value)

    return run


@rule(isa.InstTensorReduce)
def tensor_reduce(inst: isa.InstTensorReduce, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    function = _function(inst, inst.op)
    if not isinstance(function, np.ufunc):
        fail("NKC053", op=inst.op.value, inst=inst.label, operand="op", loc=inst.loc)
    axes = tuple(range(-inst.axes, 0))
    enter = _operands(inst, (inst.op,), (data, dst))
    negate = inst.negate

    def run() -> None:
        value = function.reduce(enter(data.read()), axis=axes)
        dst.write(-value if negate else value)

    return run


@rule(isa.InstActivation)
def activation(inst: isa.InstActivation, ctx: Context) -> Step:
    dst, data = ctx.view(inst.dst, inst), ctx.view(inst.data, inst)
    ndim = len(data.shape) + 1
    function = ACTIVATIONS[inst.func]
    scale, bias = _scalar(inst, inst.scale, ctx, ndim), _scalar(inst, inst.bias, ctx, ndim)
    return lambda: dst.write(function(to_compute(data.read()) * to_compute(scale()) + to_compute(bias())))


@rule(isa.InstMatmul)
def matmul(inst: isa.InstMatmul, ctx: Context) -> Step:
    dst = ctx.view(inst.dst, inst)
    stationary, moving = ctx.view(inst.stationary, inst), ctx.view(inst.moving, inst)
    k = inst.stationary.shape[0]
    buffer = dst.buffer
    size = buffer.tensor.size
    flags_index = _flat_index(inst.dst)

    def run() -> None:
        a, b = stationary.read(), moving.read()
        a = to_compute(a.reshape(a.shape[0], k, -1)).swapaxes(1, 2)
        b = to_compute(b.reshape(b.shape[0], k, -1))
        value = np.matmul(a, b)
        value = value.reshape(value.shape[0], *dst.shape)
        if buffer.started is None:
            buffer.started = np.zeros(size, bool)
        started = buffer.started[flags_index]
        if inst.accumulate is True or (inst.accumulate is None and started.all()):
            value = to_compute(dst.read()) + value
        elif inst.accumulate is None and started.any():
            value = np.where(started, to_compute(dst.read()) + value, value)
        buffer.started[flags_index] = True
        dst.write(value)

    return run


def _flat_index(ap: AccessPattern) -> Array:
    """Element indices of a static pattern, in the pattern's shape."""
    index = np.full(ap.shape, ap.offset, np.intp)
    for axis, (stride, count) in enumerate(ap.pattern):
        steps = np.arange(count) * stride
        index += steps.reshape(-1, *[1] * (len(ap.pattern) - axis - 1))
    return index


@rule(isa.InstIota)
def iota(inst: isa.InstIota, ctx: Context) -> Step:
    dst = ctx.view(inst.dst, inst)
    shape = tuple(count for _, count in inst.pattern)
    free = np.full(shape, inst.offset, np.int64)
    for axis, (step, count) in enumerate(inst.pattern):
        free += (np.arange(count) * step).reshape(-1, *[1] * (len(shape) - axis - 1))
    partitions = np.arange(dst.shape[0]) * inst.channel_multiplier
    value = (partitions[:, None] + free.reshape(1, -1)).astype(np.int32).reshape(1, *dst.shape)
    return lambda: dst.write(value)


# --- registers -------------------------------------------------------------------------------------------------------


@rule(isa.InstRegisterMove)
def register_move(inst: isa.InstRegisterMove, ctx: Context) -> Step:
    registers, name, src = ctx.registers, inst.dst.name, inst.src
    if isinstance(src, str):

        def copy() -> None:
            registers[name] = registers[src]

        return copy
    value = np.array([src], np.int64)

    def move() -> None:
        registers[name] = value

    return move


@rule(isa.InstRegisterLoad)
def register_load(inst: isa.InstRegisterLoad, ctx: Context) -> Step:
    registers, name, src = ctx.registers, inst.dst.name, ctx.view(inst.src, inst)

    def run() -> None:
        registers[name] = src.read().reshape(-1).astype(np.int64)

    return run


@rule(isa.InstRegisterStore)
def register_store(inst: isa.InstRegisterStore, ctx: Context) -> Step:
    registers, src, dst = ctx.registers, inst.src, ctx.view(inst.dst, inst)
    return lambda: dst.write(registers[src].reshape(-1, *dst.shape))


@rule(bir.InstGetGlobalRankId)
def global_rank_id(inst: bir.InstGetGlobalRankId, ctx: Context) -> Step:
    registers, name, ranks = ctx.registers, inst.output.name, ctx.ranks
    mask = inst.mask

    def run() -> None:
        if mask is None or registers[mask].all():
            registers[name] = ranks
        else:
            registers[name] = np.where(registers[mask] != 0, ranks, registers.get(name, np.zeros(1, np.int64)))

    return run


@rule(bir.InstGetCurProcessingRankID)
def current_processing_rank(inst: bir.InstGetCurProcessingRankID, ctx: Context) -> Step:
    registers, name = ctx.registers, inst.output.name
    where = {rank: (group, position) for group in inst.replica_groups for position, rank in enumerate(group)}
    table = []
    for rank in ctx.ranks.tolist():
        ring, position = where[rank]
        table.append(ring[(position - inst.iter_id) % len(ring)])
    value = np.array(table, np.int64)

    def run() -> None:
        registers[name] = value

    return run
