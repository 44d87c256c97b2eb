"""Random generators: counters under a key, one per lane.

The last word of a lane's state counts the numbers it has given, the others are hashed into its key. So numbers are a
function of the state alone, a whole tile of them takes a few NumPy calls, and saved states resume exactly.
"""

from __future__ import annotations

import numpy as np

from nkicc.ir import isa
from nkicc.ir.access import AccessPattern
from nkicc.ir.isa.random import STATE_WORDS
from nkicc.ir.types import Engine

from ..numerics import to_compute
from .common import Array, Context, Step, rule, scalar_reader

__all__ = ["draw", "lanes_of", "uniform"]

_LANES = 128
_WEYL = np.uint64(0x9E3779B97F4A7C15)


def _mix(value: Array) -> Array:
    """Scatters the bits of uint64 (the finalizer of SplitMix64; Steele, Lea and Flood, OOPSLA 2014)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _seeded(seeds: Array, engine: Engine) -> Array:
    """States from one seed per row: uint32 (rows, lanes, words)."""
    words = STATE_WORDS[engine]
    index = np.arange(1, _LANES * words + 1, dtype=np.uint64)
    spread = _mix(_mix(seeds.astype(np.uint64) + _WEYL)[:, None] + _WEYL * index)
    return (spread >> np.uint64(32)).astype(np.uint32).reshape(-1, _LANES, words)


def _state(ctx: Context, engine: Engine) -> Array:
    """The engine's state; before anything seeds it, it differs between ranks, cores and engines."""
    state = ctx.generators.get(engine)
    if state is None:
        state = ctx.generators[engine] = _seeded((ctx.ranks * 2 + ctx.index) * 2 + (engine is Engine.dve), engine)
    return state


def _keep(ctx: Context, engine: Engine, lanes: slice, words: Array) -> None:
    """Set the state of some lanes, on the ranks that execute."""
    old, active = _state(ctx, engine), ctx.lanes.active
    if active is None and words.shape[1] == _LANES:
        ctx.generators[engine] = np.array(words)
        return
    rows = max(len(old), len(words), 1 if active is None else len(active))
    state = np.array(np.broadcast_to(old, (rows, *old.shape[1:])))
    which = slice(None) if active is None else active
    state[which, lanes] = np.broadcast_to(words, (rows, *words.shape[1:]))[which]
    ctx.generators[engine] = state


def lanes_of(ap: AccessPattern) -> slice:
    """The lanes of an operand: the partitions it lies in."""
    stride, partitions = ap.pattern[0]
    first = ap.offset // stride if stride else 0
    return slice(first, first + partitions)


def draw(ctx: Context, engine: Engine, lanes: slice, count: int) -> Array:
    """The next `count` numbers of some lanes: 32 random bits each in uint64, (1 or ranks, lanes, count)."""
    words = _state(ctx, engine)[:, lanes].astype(np.uint64)
    places = np.arange(1, words.shape[-1], dtype=np.uint64)
    key = _mix(words[..., :-1] + _WEYL * places).sum(axis=-1, dtype=np.uint64)
    given = words[..., -1:] + np.arange(1, count + 1, dtype=np.uint64)
    bits = _mix(key[..., None] + _WEYL * given) >> np.uint64(32)
    words[..., -1] = given[..., -1]
    _keep(ctx, engine, lanes, words.astype(np.uint32))
    return bits


def uniform(ctx: Context, engine: Engine, lanes: slice, count: int) -> Array:
    """The next `count` numbers of some lanes as float32 in [0, 1): the 24 bits that it holds exactly there."""
    return (draw(ctx, engine, lanes, count) >> np.uint64(8)).astype(np.float32) * np.float32(2**-24)


@rule(isa.InstRng)
def rng(inst: isa.InstRng, ctx: Context) -> Step:
    dst, lanes = ctx.view(inst.dst, inst), lanes_of(inst.dst)
    count = inst.dst.size // inst.dst.shape[0]
    unsigned = np.dtype(f"u{dst.dtype.itemsize}")
    return lambda: dst.write(draw(ctx, inst.engine, lanes, count).astype(unsigned).view(dst.dtype))


@rule(isa.InstRand2)
def rand2(inst: isa.InstRand2, ctx: Context) -> Step:
    dst, lanes = ctx.view(inst.dst, inst), lanes_of(inst.dst)
    count = inst.dst.size // inst.dst.shape[0]
    low, high = scalar_reader(inst, inst.min, ctx, 3), scalar_reader(inst, inst.max, ctx, 3)

    def run() -> None:
        start = to_compute(low())
        dst.write(start + uniform(ctx, Engine.dve, lanes, count) * (to_compute(high()) - start))

    return run


@rule(isa.InstSetRngSeed)
def set_rng_seed(inst: isa.InstSetRngSeed, ctx: Context) -> Step:
    seed = ctx.view(inst.src_seeds, inst)

    def run() -> None:
        value = np.ascontiguousarray(seed.read()).view(np.uint32).reshape(-1)
        _keep(ctx, Engine.dve, slice(_LANES), _seeded(value, Engine.dve))

    return run


@rule(isa.InstRandSetState)
def rand_set_state(inst: isa.InstRandSetState, ctx: Context) -> Step:
    seeds, lanes = ctx.view(inst.src_seeds, inst), lanes_of(inst.src_seeds)

    def run() -> None:
        value = seeds.read()
        _keep(ctx, inst.engine, lanes, value.reshape(*value.shape[:2], -1))

    return run


@rule(isa.InstRandGetState)
def rand_get_state(inst: isa.InstRandGetState, ctx: Context) -> Step:
    dst, lanes = ctx.view(inst.dst, inst), lanes_of(inst.dst)
    return lambda: dst.write(_state(ctx, inst.engine)[:, lanes])
