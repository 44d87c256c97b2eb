"""Random numbers. They are a function of the generators' state and repeat from run to run; they are not those of the
device. Before anything seeds it, a generator differs between ranks, cores and engines."""

from __future__ import annotations

from nkicc.ir.access import AccessPattern
from nkicc.ir.isa import InstRand2, InstRandGetState, InstRandSetState, InstRng, InstSetRngSeed
from nkicc.ir.types import Engine
from nkicc.nki.tensor import ndarray

from .arguments import access, engine_of, insert, number_or_tile
from .constants import engine

__all__ = ["rand2", "rand_get_state", "rand_set_state", "rng", "set_rng_seed"]


def rng(dst: ndarray, engine: engine = engine.vector, name: str | None = None) -> None:
    """dst = random bits, of 32 per element those that fit its integer type, from the low end."""
    insert(InstRng(name=name or "", dst=access(dst, "dst"), engine=_generator(engine, Engine.dve)))


def rand2(dst: ndarray, min: float | ndarray, max: float | ndarray, name: str | None = None) -> None:
    """dst = numbers uniform between min and max, each a number or a (P, 1) tile. trn3 only."""
    insert(
        InstRand2(
            name=name or "",
            dst=access(dst, "dst"),
            min=number_or_tile(min, "min"),
            max=number_or_tile(max, "max"),
        )
    )


def set_rng_seed(src_seeds: ndarray, name: str | None = None) -> None:
    """Seed the vector engine's generators with the 32-bit value of a (1, 1) tile: equal seeds, equal numbers."""
    insert(InstSetRngSeed(name=name or "", src_seeds=access(src_seeds, "src_seeds")))


def rand_set_state(src_seeds: ndarray, engine: engine = engine.gpsimd, name: str | None = None) -> None:
    """State of the engine's generators = src_seeds: per partition 6 words on GpSimd, 24 on the vector engine (trn3).
    An unknown engine is told from the number of words."""
    seeds = access(src_seeds, "src_seeds")
    insert(InstRandSetState(name=name or "", src_seeds=seeds, engine=_generator(engine, _by_words(seeds))))


def rand_get_state(dst: ndarray, engine: engine = engine.gpsimd, name: str | None = None) -> None:
    """dst = state of the engine's generators, as rand_set_state takes it."""
    state = access(dst, "dst")
    insert(InstRandGetState(name=name or "", dst=state, engine=_generator(engine, _by_words(state))))


def _by_words(state: AccessPattern) -> Engine:
    return Engine.dve if state.size == state.shape[0] * 24 else Engine.pool


def _generator(given: engine, default: Engine) -> Engine:
    found = engine_of(given)
    return default if found is Engine.unassigned else found
