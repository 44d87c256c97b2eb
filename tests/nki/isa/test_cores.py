"""What the two cores of a rank do together."""

from collections.abc import Callable

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkicc
from nkicc import NkiccError
from nkicc.ir import penguin
from nkicc.nki.trace import tracing

from ..helpers import data, tracer
from .reference import assert_array_equal

RANKS = 3
Swap = Callable[[nl.ndarray, nl.ndarray, int], None]

#: How each release says which engine moves a sendrecv.
FORMS: dict[str, tuple[Swap, bool]] = {
    "dma": (lambda src, dst, core: nisa.sendrecv(src, dst, 1 - core, 1 - core, 0, nisa.dma_engine.dma), False),
    "gpsimd_dma": (
        lambda src, dst, core: nisa.sendrecv(src, dst, 1 - core, 1 - core, 0, dma_engine=nisa.dma_engine.gpsimd_dma),
        True,
    ),
    "2.28 by position": (lambda src, dst, core: nisa.sendrecv(src, dst, 1 - core, 1 - core, 0, True), True),
    "2.28 by keyword": (
        lambda src, dst, core: nisa.sendrecv(src, dst, 1 - core, 1 - core, 0, use_gpsimd_dma=False),
        False,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_sendrecv_swaps_in_the_words_of_every_release(form: str) -> None:
    swap, gpsimd = FORMS[form]

    def kernel(x: nl.ndarray) -> nl.ndarray:
        core, out = nl.program_id(0), nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        mine, theirs = (nl.ndarray(x.shape[1:], x.dtype) for _ in range(2))
        nisa.dma_copy(mine, x[core])
        swap(mine, theirs, core)
        nisa.dma_copy(out[core], theirs)
        return out

    result = nkicc.run(kernel, ranks=RANKS, lnc=2, inputs=lambda rank: {"x": data(rank, (2, 8, 16))})
    for rank in range(RANKS):
        assert_array_equal(result.outputs[rank], data(rank, (2, 8, 16))[::-1])
    ops = [inst for inst in result.penguin.programs[0].cores[1].body if isinstance(inst, penguin.SendRecvOp)]
    assert [op.use_gpsimd_dma for op in ops] == [gpsimd]


def test_a_core_barrier_lets_a_core_read_what_the_other_wrote() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        core = nl.program_id(0)
        shared, out = (nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name=n) for n in ("shared", "out"))
        tile = nl.ndarray(x.shape[1:], x.dtype)
        nisa.dma_copy(tile, x[core])
        nisa.dma_copy(shared[core], tile)
        nisa.core_barrier(shared, cores=[0, 1])
        nisa.dma_copy(tile, shared[1 - core])
        nisa.dma_copy(out[core], tile)
        return out

    result = nkicc.run(kernel, ranks=RANKS, lnc=2, inputs=lambda rank: {"x": data(rank, (2, 4, 6), np.int32)})
    for rank in range(RANKS):
        assert_array_equal(result.outputs[rank], data(rank, (2, 4, 6), np.int32)[::-1])


def tile(*shape: int) -> nl.ndarray:
    return nl.ndarray(shape or (4, 4), nl.float32)


REFUSED: dict[str, tuple] = {
    "a third core": (lambda: nisa.sendrecv(tile(), tile(), 2, 1, 0), "NKC070"),
    "itself": (lambda: nisa.sendrecv(tile(), tile(), 1, 0, 0), "NKC071"),
    "HBM": (lambda: nisa.sendrecv(nl.ndarray((4, 4), nl.float32, nl.shared_hbm), tile(), 1, 1, 0), "NKC030"),
    "another shape": (lambda: nisa.sendrecv(tile(), tile(4, 5), 1, 1, 0), "NKC033"),
    "an engine by name": (lambda: nisa.sendrecv(tile(), tile(), 1, 1, 0, "gpsimd_dma"), "NKC035"),
    "a barrier of one core": (lambda: nisa.core_barrier(nl.ndarray((4,), nl.int32, nl.shared_hbm), (0,)), "NKC085"),
    "a barrier on a tile": (lambda: nisa.core_barrier(tile(), (0, 1)), "NKC080"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    function, code = REFUSED[case]
    with pytest.raises(NkiccError) as caught, tracing(tracer(lnc=2)):
        function()
    assert caught.value.code == code, caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
