"""The whole road for one collective: builders, lowering, passes, simulator. Data differ on every rank and core, and the
caller compares every rank and core."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nkicc.builder import NeuronCodegen, ParallelState, link
from nkicc.ir.access import Tensor
from nkicc.ir.isa import InstDMACopy
from nkicc.ir.program import Module
from nkicc.ir.types import DType, Memory, Target, World
from nkicc.lowering import lower
from nkicc.simulator import simulate
from nkicc.verify import verify

#: Issues the collective under test: (codegen, sources, destinations).
Issue = Callable[[NeuronCodegen, list[Tensor], list[Tensor]], object]

FULL_PIPELINE = (
    "codegen,sync-before-global-cc,lower-local-collectives,coalesce-multichannel-cc,renumber-core-barriers,"
    "infer-stream-ids"
)


def build(
    issue: Issue,
    *,
    ranks: int,
    lnc: int,
    memory: Memory,
    dtype: str,
    srcs: list[tuple[int, ...]],
    dst: tuple[int, ...],
    issuers: tuple[int, ...] = (0, 1),
    times: int = 1,
) -> Module:
    """A penguin module: every core loads its sources, the `issuers` issue the collective `times` times, every core
    stores its destination.

    SBUF operands are the core's own (lane-wise): arguments and results have a leading core extent. HBM operands are
    shared by the cores: each core loads and stores its part of the rows. Where one core issues for its rank, the cores
    meet at a barrier before and after.
    """
    state = ParallelState(World(ranks, lnc))
    codegens = [NeuronCodegen(state, target=Target.trn2, core=core) for core in range(lnc)]
    lanes = memory is Memory.sbuf
    inputs: list[str] = []
    for core, cg in enumerate(codegens):
        sources, arguments = [], []
        for index, shape in enumerate(srcs):
            full = (lnc, *shape) if lanes else shape
            arguments.append(cg.allocate(f"x{index}", full, DType.of(dtype), Memory.shared_hbm))
            sources.append(cg.allocate(f"src{index}", shape, DType.of(dtype), memory))
        result = cg.allocate("y", (lnc, *dst) if lanes else dst, DType.of(dtype), Memory.shared_hbm)
        target = cg.allocate("dst", dst, DType.of(dtype), memory)
        inputs = [a.name for a in arguments]
        for argument, source in zip(arguments, sources, strict=True):
            _copy(cg, source, argument, core, lnc, lanes, load=True)
        alone = lnc == 2 and issuers == (0,)
        if alone:
            cg.core_barrier(sources[0], (0, 1))
        for _ in range(times):
            if core in issuers:
                issue(cg, sources, [target])
        if alone:
            cg.core_barrier(target, (0, 1))
        _copy(cg, result, target, core, lnc, lanes, load=False)
    return link(codegens, inputs=inputs, outputs=[result])


def _copy(cg: NeuronCodegen, dst: Tensor, src: Tensor, core: int, lnc: int, lanes: bool, *, load: bool) -> None:
    """Copy this core's share between an argument or result and an operand."""
    whole, part = (src, dst) if load else (dst, src)
    if lanes:
        share = whole.full()
        share = type(share)(whole.name, part.full().pattern, core * part.size)
        pair = (part.full(), share) if load else (share, part.full())
    else:
        rows = whole.shape[0]
        start = rows * core // lnc
        count = rows * (core + 1) // lnc - start
        if count == 0:
            return
        pattern = ((whole.size // rows, count), *whole.full().pattern[1:])
        offset = start * (whole.size // rows)
        ap = type(whole.full())
        pair = (ap(dst.name, pattern, offset), ap(src.name, pattern, offset))
    cg.insert(InstDMACopy(dst=pair[0], srcs=(pair[1],)))


def run(module: Module, data: list[np.ndarray], *, passes: str | None = None, path: str = "loop") -> np.ndarray:
    """Lower and simulate; the output of every rank, shape (ranks, …). `data` has ranks leading."""
    lowered = lower(module, path=path) if passes is None else lower(module, path=path, passes=passes)
    verify(lowered)
    program = lowered.programs[0]
    execution = simulate(lowered, [dict(zip(program.inputs, data, strict=True))])
    (out,) = execution.outputs[0]
    return np.broadcast_to(out, (module.world.ranks, *out.shape[1:]))


def distinct(ranks: int, shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Data that differ on every rank and element (as far as the type has room), NaN- and infinity-free."""
    rng = np.random.default_rng([seed, ranks, *shape])
    kind = DType.of(dtype).numpy
    if DType.of(dtype).is_float:
        value = rng.uniform(-4, 4, (ranks, *shape)).astype(np.float32)
        return (value + np.arange(ranks).reshape(-1, *[1] * len(shape)) / 8).astype(kind)
    info = np.iinfo(kind)
    return rng.integers(max(info.min, -(1 << 20)), min(info.max, 1 << 20), (ranks, *shape)).astype(kind)


def fold(values: list[np.ndarray], op: str) -> np.ndarray:
    """The golden reduction: in list order, float32 or exact integers, cast once at the end."""
    dtype = values[0].dtype
    integer = dtype.kind in "iu"
    wide = [v.astype(np.int64 if integer else np.float32) for v in values]
    total = wide[0]
    for value in wide[1:]:
        total = {"add": np.add, "max": np.maximum, "min": np.minimum}[op](total, value)
    if integer:
        total = np.clip(total, np.iinfo(dtype).min, np.iinfo(dtype).max)
    return total.astype(dtype)


def same(got: np.ndarray, want: np.ndarray) -> bool:
    """Bit equality (NaN equals NaN)."""
    return got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == np.ascontiguousarray(want).tobytes()


def check(got: np.ndarray, want: Callable[[int, int], np.ndarray], *, ranks: int, lnc: int, lanes: bool) -> None:
    """Compare every rank (and every core, if each has a result of its own) with `want(rank, core)`."""
    for rank in range(ranks):
        for core in range(lnc if lanes else 1):
            value = got[rank, core] if lanes else got[rank]
            expected = want(rank, core)
            assert same(value, expected), f"rank {rank} core {core}:\n{value}\nexpected\n{expected}"
