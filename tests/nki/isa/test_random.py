"""Random numbers: what a generator promises, since its numbers are its own."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkicc
from nkicc import NkiccError
from nkicc.nki.trace import tracing
from tests.nki.helpers import data, tracer

from .reference import assert_array_equal
from .tiles import load, run, tile

BF16, F32, I32, U32 = ml_dtypes.bfloat16, np.float32, np.int32, np.uint32
VECTOR, GPSIMD, UNKNOWN = nisa.engine.vector, nisa.engine.gpsimd, nisa.engine.unknown


def nothing(rank: int) -> list[np.ndarray]:
    """An input that is there for its ranks."""
    return [data(rank, (1, 1))]


def draw(
    shape: tuple[int, int] = (16, 20), dtype: Any = U32, engine: Any = VECTOR, layout: str = "whole"
) -> nl.ndarray:
    dst = tile(shape, dtype, layout)
    nisa.rng(dst, engine=engine)
    return dst


def seeded(seed: nl.ndarray) -> nl.ndarray:
    nisa.set_rng_seed(load(seed))
    return draw()


@pytest.mark.parametrize("engine", [VECTOR, GPSIMD])
@pytest.mark.parametrize("layout", ["whole", "strided", "turned"])
def test_numbers_repeat_between_runs_and_differ_otherwise(engine: Any, layout: str) -> None:
    def body(_: nl.ndarray) -> tuple[nl.ndarray, ...]:
        return draw(engine=engine, layout=layout), draw(engine=engine)

    first = run(body, nothing)
    assert_array_equal(first, run(body, nothing))
    numbers = np.array(first).reshape(-1)
    # 3 ranks x 2 calls x 16 lanes x 20 numbers of 32 bits: the odds of a pair of equal ones are below 1e-3.
    assert len(set(numbers.tolist())) == len(numbers)


def test_cores_engines_and_partitions_have_generators_of_their_own() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((2, 2, 128, 4), U32, nl.shared_hbm)
        for i, engine in enumerate((VECTOR, GPSIMD)):
            nisa.dma_copy(out[nl.program_id(0), i], draw((128, 4), engine=engine))
        return out

    numbers = nkicc.run(kernel, ranks=2, lnc=2, inputs={"x": np.zeros((1, 1), F32)}).outputs
    found = np.concatenate([numbers[0].reshape(-1), numbers[1].reshape(-1)]).tolist()
    assert len(set(found)) == len(found)


def test_equal_seeds_give_equal_numbers_on_every_rank() -> None:
    def body(seed: nl.ndarray) -> tuple[nl.ndarray, ...]:
        first, second = seeded(seed), draw()
        return first, second, seeded(seed)

    same = run(body, lambda rank: [np.array([[7]], I32)])
    for first, second, again in same:
        assert_array_equal(first, same[0][0])
        assert_array_equal(first, again)
        assert not np.array_equal(first, second)
    other = run(body, lambda rank: [np.array([[7 + rank]], I32)])
    assert_array_equal(other[0][0], same[0][0])
    assert not np.array_equal(other[0][0], other[1][0])


def test_seeding_leaves_gpsimd_alone() -> None:
    def plain(_: nl.ndarray) -> nl.ndarray:
        return draw(engine=GPSIMD)

    def after(_: nl.ndarray) -> nl.ndarray:
        seed = nl.ndarray((1, 1), U32)
        nisa.memset(seed, 3)
        nisa.set_rng_seed(seed)
        return draw(engine=GPSIMD)

    assert_array_equal(run(plain, nothing), run(after, nothing))


@pytest.mark.parametrize(("dtype", "bits"), [(np.uint8, 8), (np.int8, 8), (np.uint16, 16), (np.int16, 16), (I32, 32)])
def test_narrow_types_take_the_low_bits(dtype: Any, bits: int) -> None:
    def body(seed: nl.ndarray) -> tuple[nl.ndarray, ...]:
        nisa.set_rng_seed(load(seed))
        wide = draw()
        nisa.set_rng_seed(load(seed))
        return wide, draw(dtype=dtype)

    for wide, narrow in run(body, lambda rank: [np.array([[rank]], U32)]):
        assert_array_equal(narrow.view(f"u{bits // 8}"), wide & (2**bits - 1))


def test_bits_are_balanced() -> None:
    def body(_: nl.ndarray) -> nl.ndarray:
        return draw((128, 512))

    for (out,) in run(body, nothing):
        for bit in range(32):
            # 65536 coins: 5 standard deviations are 640.
            assert abs(int(((out >> U32(bit)) & U32(1)).sum()) - 32_768) < 640


@pytest.mark.parametrize(
    ("engine", "words", "target"), [(GPSIMD, 6, "trn2"), (GPSIMD, 6, "trn3"), (VECTOR, 24, "trn3")]
)
@pytest.mark.parametrize("named", [True, False])
def test_a_saved_state_resumes(engine: Any, words: int, target: str, named: bool) -> None:
    by = engine if named else UNKNOWN

    def body(_: nl.ndarray) -> tuple[nl.ndarray, ...]:
        draw((128, 5), engine=engine)
        state = nl.ndarray((128, words), U32)
        nisa.rand_get_state(state, engine=by)
        first = draw((128, 7), engine=engine)
        nisa.rand_set_state(state, engine=by)
        return first, draw((128, 7), engine=engine), state

    outputs = run(body, nothing, target=target)
    for first, again, state in outputs:
        assert_array_equal(first, again)
        assert len({tuple(row) for row in state.tolist()}) == 128
    assert not np.array_equal(outputs[0][2], outputs[1][2])


def test_a_state_seeds_its_own_lanes() -> None:
    def body(states: nl.ndarray) -> tuple[nl.ndarray, ...]:
        before = nl.ndarray((128, 6), U32)
        nisa.rand_get_state(before)
        wide = nl.ndarray((128, 6), U32)
        nisa.dma_copy(wide[64:96], states)
        nisa.rand_set_state(wide[64:96])
        after = nl.ndarray((128, 6), U32)
        nisa.rand_get_state(after)
        return before, after

    for rank, (before, after) in enumerate(run(body, lambda r: [data(r, (32, 6), I32).astype(U32)])):
        expected = before.copy()
        expected[64:96] = data(rank, (32, 6), I32).astype(U32)
        assert_array_equal(after, expected)


def test_ranks_that_left_a_loop_keep_their_state() -> None:
    def body(turns: nl.ndarray) -> nl.ndarray:
        count = nisa.register_alloc()
        nisa.register_load(count, load(turns))
        seed = nl.ndarray((1, 1), U32)
        nisa.memset(seed, 11)
        nisa.set_rng_seed(seed)

        def turn(_: Any) -> None:
            draw((128, 3))

        nl.fori_loop(0, count, turn)
        return draw((128, 12))

    def whole(_: nl.ndarray) -> nl.ndarray:
        seed = nl.ndarray((1, 1), U32)
        nisa.memset(seed, 11)
        nisa.set_rng_seed(seed)
        return draw((128, 24))

    stream = run(whole, nothing)[0][0]
    for rank, (out,) in enumerate(run(body, lambda r: [np.array([[r + 1]], I32)])):
        assert_array_equal(out, stream[:, 3 * (rank + 1) : 3 * (rank + 1) + 12])


@pytest.mark.parametrize("dtype", [F32, BF16, I32, np.uint8])
def test_rand2_is_uniform_between_its_bounds(dtype: Any) -> None:
    def body(bounds: nl.ndarray) -> tuple[nl.ndarray, ...]:
        low = load(bounds)
        mixed, plain = nl.ndarray((128, 300), dtype), nl.ndarray((4, 50), F32)
        nisa.rand2(mixed, min=low, max=200.0)
        nisa.rand2(plain, 3, 4.5)
        return mixed, plain

    def inputs(rank: int) -> list[np.ndarray]:
        return [np.arange(128, dtype=F32).reshape(128, 1) + rank]

    for rank, (mixed, plain) in enumerate(run(body, inputs, target="trn3")):
        low = inputs(rank)[0]
        value = mixed.astype(F32)
        assert (value >= low).all()
        assert (value <= 200).all()
        # The mean of 300 numbers is off by less than 6 standard errors in every partition.
        spread = (200 - low) / np.sqrt(12 * 300)
        assert (abs(value.mean(axis=1, keepdims=True) - (200 + low) / 2) < 6 * spread).all()
        assert (plain >= 3).all()
        assert (plain < 4.5).all()


def t(shape: tuple[int, ...] = (4, 6), dtype: Any = U32, memory: Any = nl.sbuf) -> nl.ndarray:
    return nl.ndarray(shape, dtype, memory)


REFUSED: dict[str, tuple[Any, str, str, str]] = {
    "floats of bits": (lambda: nisa.rng(t(dtype=F32)), "NKC035", "float32", "trn2"),
    "bits in HBM": (lambda: nisa.rng(t(memory=nl.hbm)), "NKC030", "private_hbm", "trn2"),
    "bits of GpSimd in PSUM": (lambda: nisa.rng(t(memory=nl.psum), GPSIMD), "NKC030", "psum", "trn2"),
    "bits of GpSimd on trn1": (lambda: nisa.rng(t(), GPSIMD), "BIR606", "Pool", "trn1"),
    "bits of the scalar engine": (lambda: nisa.rng(t(), nisa.engine.scalar), "BIR606", "Activation", "trn2"),
    "rand2 on trn2": (lambda: nisa.rand2(t(dtype=F32), 0.0, 1.0), "BIR530", "40", "trn2"),
    "rand2 upside down": (lambda: nisa.rand2(t(dtype=F32), 1.0, 1.0), "NKC035", "max is 1.0", "trn3"),
    "rand2 between words": (lambda: nisa.rand2(t(dtype=F32), "0", 1.0), "NKC035", "min", "trn3"),
    "rand2 with a bound per element": (lambda: nisa.rand2(t(dtype=F32), t(dtype=F32), 1.0), "NKC033", "min", "trn3"),
    "rand2 with integer bounds": (lambda: nisa.rand2(t(dtype=F32), 0.0, t((4, 1))), "NKC035", "max", "trn3"),
    "rand2 in HBM": (lambda: nisa.rand2(t(dtype=F32, memory=nl.hbm), 0.0, 1.0), "NKC030", "hbm", "trn3"),
    "two seeds": (lambda: nisa.set_rng_seed(t((1, 2))), "NKC033", "(1, 1)", "trn2"),
    "a seed of 16 bits": (lambda: nisa.set_rng_seed(t((1, 1), np.uint16)), "NKC035", "uint16", "trn2"),
    "a seed of the host": (lambda: nisa.set_rng_seed(7), "NKC035", "src_seeds", "trn2"),
    "state of 5 words": (lambda: nisa.rand_set_state(t((4, 5))), "NKC033", "(4, 6)", "trn2"),
    "state in int32": (lambda: nisa.rand_get_state(t(dtype=I32)), "NKC035", "int32", "trn2"),
    "state in PSUM": (lambda: nisa.rand_get_state(t(memory=nl.psum)), "NKC030", "psum", "trn2"),
    "state on trn1": (lambda: nisa.rand_get_state(t()), "BIR530", "30", "trn1"),
    "vector state on trn2": (lambda: nisa.rand_get_state(t((4, 24)), VECTOR), "BIR606", "DVE", "trn2"),
    "vector state of 6 words": (lambda: nisa.rand_set_state(t(), VECTOR), "NKC033", "(4, 24)", "trn3"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_generator_refuses(case: str) -> None:
    function, code, text, target = REFUSED[case]
    core = tracer(target=target)
    with pytest.raises(NkiccError) as caught, tracing(core):
        function()
    assert caught.value.code == code
    assert text in caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
    assert core.codegen.core_part().body == ()
