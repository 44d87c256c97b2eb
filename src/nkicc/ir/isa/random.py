"""Random numbers: the generators of the vector engine and of GpSimd.

Each engine has one generator per compute lane, that is per partition; its state is words of 32 bits that can be saved
and restored. The numbers are a function of the state alone, and not those of the device, whose algorithm (XORWOW) and
seeding are not public. Before anything seeds it, a generator differs between ranks, cores and engines (NKI
documentation, nki.isa.rng, rand2, set_rng_seed, rand_set_state, rand_get_state).
"""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope, verify_operands
from ..types import DType, Engine
from .common import (
    Number,
    Operands,
    check_arch,
    check_dtype,
    check_engine,
    check_per_partition,
    check_tile,
    on_chip,
    refuse_option,
    tiles_of,
)

__all__ = ["InstRand2", "InstRandGetState", "InstRandSetState", "InstRng", "InstSetRngSeed"]

_INTEGERS = frozenset({DType.int8, DType.int16, DType.int32, DType.uint8, DType.uint16, DType.uint32})
_UNIFORM = _INTEGERS | {DType.float8e4, DType.float8e5, DType.float16, DType.bfloat16, DType.float32}
_UINT32 = frozenset({DType.uint32})
_FLOAT32 = frozenset({DType.float32})
_WORDS = frozenset({DType.uint32, DType.int32, DType.float32})
#: Words of state per lane: one XORWOW generator in GpSimd, four in the vector engine.
STATE_WORDS = {Engine.pool: 6, Engine.dve: 24}
_VECTOR, _GPSIMD, _BOTH = (Engine.dve,), (Engine.pool,), (Engine.dve, Engine.pool)


def _check_generator(inst: Inst, scope: Scope, ap: AccessPattern, engine: Engine, *valid: Engine) -> None:
    """The engine has a generator on this target, and reaches the operand."""
    verify_operands(inst, scope)
    on_chip(inst, scope, ap)
    if engine is Engine.unassigned:
        refuse_option(inst, "engine", engine.value, " or ".join(e.value for e in valid))
    check_engine(inst, scope, engine, *valid, operands=(ap,))


def _check_state(inst: Inst, scope: Scope, what: str, ap: AccessPattern, engine: Engine) -> None:
    """GpSimd from trn2 on, the vector engine from trn3 on; uint32, as many words as the engine's state has."""
    check_arch(inst, scope, 30)
    _check_generator(inst, scope, ap, engine, *(_BOTH if scope.target.arch >= 40 else _GPSIMD))
    check_dtype(inst, scope, ap, what, _UINT32)
    check_tile(inst, what, ap, ap.shape[0], STATE_WORDS[engine])


class InstRng(Inst, frozen=True, kw_only=True):
    """dst = random bits: of 32 per element those that fit the integer type, from the low end. GpSimd from trn2 on and
    not into PSUM."""

    dst: AccessPattern
    engine: Engine = Engine.dve

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        _check_generator(self, scope, self.dst, self.engine, *(_BOTH if scope.target.arch >= 30 else _VECTOR))
        check_dtype(self, scope, self.dst, "dst", _INTEGERS)


class InstRand2(Inst, frozen=True, kw_only=True):
    """dst = cast(min + u · (max - min)), u uniform in [0, 1), from the vector engine's generator. A bound is a number
    or a (P, 1) tile. From trn3 on."""

    dst: AccessPattern
    min: Number | AccessPattern
    max: Number | AccessPattern

    def reads(self) -> Operands:
        return tiles_of(self.min, self.max)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_arch(self, scope, 40)
        verify_operands(self, scope)
        on_chip(self, scope, self.dst)
        check_dtype(self, scope, self.dst, "dst", _UNIFORM)
        for what, bound in (("min", self.min), ("max", self.max)):
            check_per_partition(self, scope, bound, what, self.dst.shape[0], _FLOAT32)
        low, high = self.min, self.max
        if not isinstance(low, AccessPattern) and not isinstance(high, AccessPattern) and not low < high:
            refuse_option(self, "max", high, f"more than min, {low}")


class InstSetRngSeed(Inst, frozen=True, kw_only=True):
    """Seed the vector engine's generators with the 32-bit value in src_seeds, a (1, 1) tile: equal seeds give equal
    numbers, whatever the rank."""

    src_seeds: AccessPattern

    def reads(self) -> Operands:
        return (self.src_seeds,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        on_chip(self, scope, self.src_seeds)
        check_dtype(self, scope, self.src_seeds, "src_seeds", _WORDS)
        check_tile(self, "src_seeds", self.src_seeds, 1, 1)


class InstRandSetState(Inst, frozen=True, kw_only=True):
    """The state of the engine's generators = src_seeds, one row per lane: 6 words in GpSimd, 24 in the vector
    engine."""

    src_seeds: AccessPattern
    engine: Engine = Engine.pool

    def reads(self) -> Operands:
        return (self.src_seeds,)

    def verify(self, scope: Scope) -> None:
        _check_state(self, scope, "src_seeds", self.src_seeds, self.engine)


class InstRandGetState(Inst, frozen=True, kw_only=True):
    """dst = the state of the engine's generators, one row per lane, as InstRandSetState takes it."""

    dst: AccessPattern
    engine: Engine = Engine.pool

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        _check_state(self, scope, "dst", self.dst, self.engine)
