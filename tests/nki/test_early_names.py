"""`nki.nccl` and `nki.distributed`: the builders under the names of early releases."""

from typing import Any

import nki.distributed as dist
import nki.isa as nisa
import nki.language as nl
import nki.nccl as nccl
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import nkicc
from nkicc import NkiccError
from nkicc.ir import penguin
from nkicc.nki.trace import tracing

from .helpers import data, returned, tracer

RANKS = 4


def run(issue: Any, src: tuple[int, ...], dst: tuple[int, ...]) -> list[np.ndarray]:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        a = nl.ndarray(src, x.dtype, nl.shared_hbm, name="a")
        b = nl.ndarray(dst, x.dtype, nl.shared_hbm, name="b")
        nisa.dma_copy(a, x)
        issue(a, b)
        return returned(b)

    return nkicc.run(kernel, ranks=RANKS, inputs=lambda rank: {"x": data(rank, src)}).outputs


ALL = [data(rank, (4, 3)) for rank in range(RANKS)]
GROUPS = [[0, 2], [3, 1]]


def test_distributed_spans_all_ranks() -> None:
    for found in run(lambda a, b: dist.all_reduce(nl.maximum, [a], [b]), (4, 3), (4, 3)):
        assert_array_equal(found, np.max(ALL, axis=0))
    for found in run(lambda a, b: dist.all_gather(None, srcs=[a], dsts=[b], all_gather_dim=0), (4, 3), (16, 3)):
        assert_array_equal(found, np.concatenate(ALL))
    for rank, found in enumerate(run(lambda a, b: dist.reduce_scatter(nl.add, [a], [b], 0), (4, 3), (1, 3))):
        assert_array_equal(found, np.sum(ALL, axis=0)[rank : rank + 1])
    for rank, found in enumerate(run(lambda a, b: dist.all_to_all(None, [a], [b], 0, 0), (4, 3), (4, 3))):
        assert_array_equal(found, np.stack([x[rank] for x in ALL]))
    for rank, found in enumerate(run(lambda a, b: dist.collective_permute(None, [a], [b]), (4, 3), (4, 3))):
        assert_array_equal(found, ALL[(rank - 1) % RANKS])
    for found in run(lambda a, b: dist.broadcast(None, [a], [b], (0, 4, 0, 0)), (4, 3), (4, 3)):
        assert_array_equal(found, ALL[1])


def test_nccl_takes_groups() -> None:
    for rank, found in enumerate(run(lambda a, b: nccl.all_reduce(nl.add, [a], [b], GROUPS), (4, 3), (4, 3))):
        assert_array_equal(found, np.sum([ALL[r] for r in next(g for g in GROUPS if rank in g)], axis=0))
    before = {0: 2, 2: 0, 3: 1, 1: 3}
    for rank, found in enumerate(
        run(lambda a, b: nccl.collective_permute_implicit(a, b, GROUPS, 0, 1), (4, 3), (4, 3))
    ):
        assert_array_equal(found, ALL[before[rank]])


def test_nccl_send_and_recv_name_their_peer() -> None:
    def kernel(x: nl.ndarray, first: bool) -> nl.ndarray:
        a = nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name="a")
        nisa.dma_copy(a, x)
        if first:
            nccl.send([a], None, 1)
        else:
            nccl.recv([a], None, 0, [])
        return a

    result = nkicc.run(kernel, ranks=2, inputs=lambda rank: {"x": data(rank, (4, 3)), "first": rank == 0})
    for found in result.outputs:
        assert_array_equal(found, ALL[0])
    assert isinstance(result.penguin.programs[0].cores[0].body[1], penguin.SendOp)


def test_what_they_do_not_have() -> None:
    for module in (nccl, dist):
        with pytest.raises(NkiccError) as caught:
            _ = module.all_gatherr
        assert (caught.value.code, caught.value.hint) == ("NKC112", f"Did you mean {module.__name__[6:]}.all_gather?")
    with tracing(tracer()):
        a = nl.ndarray((4, 4), nl.float32, nl.shared_hbm)
        with pytest.raises(NkiccError) as caught:
            nccl.all_reduce(nl.exp, [a], [a], [[0, 1, 2, 3]])
    assert caught.value.code == "NKC053"
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
