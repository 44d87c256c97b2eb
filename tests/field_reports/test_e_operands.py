"""The ranks meet in one operation, but kind, shape, type or size do not fit."""

from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

from .helpers import copied, distinct, hbm, ranked, refused, returned, works


def per_rank(rank: int) -> dict[str, Any]:
    return {"rank": rank}


def filled(name: str, shape: tuple[int, ...], dtype: Any = nl.float32) -> nl.ndarray:
    return nl.full(shape, 1.0, dtype, nl.shared_hbm, name=name)


def test_f29_padding_that_differs_between_ranks() -> None:
    def kernel(rank: int) -> nl.ndarray:
        columns = 1435 if rank == 1 else 1436
        local, whole = filled("local", (359, columns)), hbm("whole", (3 * 359, columns))
        ncc.all_gather([local], [whole], ReplicaGroup([[0, 1, 2]]), 0)
        return returned(whole)

    refused(kernel, "NKC101", "ncc.all_gather(", ("[359, 1435]", "[359, 1436]", "rank(s) 1"), ranks=3, inputs=per_rank)


def test_f30_rows_that_differ_in_one_iteration() -> None:
    def kernel(rank: int) -> nl.ndarray:
        result = hbm("result", (8, 4))
        for i in range(5):
            rows = 3 if (rank, i) == (1, 3) else 4
            local, whole = filled(f"local{i}", (rows, 4)), hbm(f"whole{i}", (2 * rows, 4))
            ncc.all_gather([local], [whole], ReplicaGroup([[0, 1]]), 0, name=f"iteration{i}")
            nisa.dma_copy(result[0 : 2 * rows], whole)
        return result

    refused(kernel, "NKC101", "ncc.all_gather(", ("iteration3",), ranks=2, inputs=per_rank)


def test_f31_kinds_that_differ_are_shown_on_both_sides() -> None:
    def kernel(rank: int) -> nl.ndarray:
        group = ReplicaGroup([[0, 1]])
        if rank == 0:
            big, small = filled("big", (128, 64)), hbm("small", (64, 64))
            ncc.reduce_scatter([big], [small], group, 0, nl.add)
            return returned(small)
        local, whole = filled("local", (128, 2048)), hbm("whole", (256, 2048))
        ncc.all_gather([local], [whole], group, 0)
        return returned(whole)

    says = ("ReduceScatter", "AllGather", "'big' float32[128, 64]", "'local' float32[128, 2048]")
    error = refused(kernel, "NKC101", "ncc.", says, ranks=2, inputs=per_rank)
    assert error.loc is not None
    assert error.related[0].loc is not None
    assert error.related[0].loc.line == error.loc.line - 3


def test_f31_reduce_operations_that_differ() -> None:
    def kernel(rank: int) -> nl.ndarray:
        local, total = filled("local", (4, 4)), hbm("total", (4, 4))
        ncc.all_reduce([local], [total], ReplicaGroup([[0, 1]]), (nl.add, nl.maximum)[rank])
        return returned(total)

    refused(kernel, "NKC101", "ncc.all_reduce(", ("add", "max"), ranks=2, inputs=per_rank)


def test_f32_equal_bytes_of_different_types() -> None:
    def kernel(rank: int) -> nl.ndarray:
        shape, dtype = ((128, 8), nl.bfloat16) if rank == 0 else ((128, 4), nl.float32)
        local, total = filled("local", shape, dtype), hbm("total", shape, dtype)
        ncc.all_reduce([local], [total], ReplicaGroup([[0, 1]]), nl.add)
        return returned(total)

    refused(kernel, "NKC101", "ncc.all_reduce(", ("bfloat16", "float32"), ranks=2, inputs=per_rank)


@pytest.mark.parametrize(("source", "target"), [(8, 4), (4, 8)])
def test_f33_a_transfer_that_merely_fits_is_refused(source: int, target: int) -> None:
    def kernel() -> nl.ndarray:
        other = 1 - nl.program_id()
        src, dst = nl.full((128, source), 1.0, nl.float32), nl.ndarray((128, target), nl.float32)
        nisa.sendrecv(src=src, dst=dst, send_to_rank=other, recv_from_rank=other, pipe_id=0)
        return returned(dst)

    refused(kernel, "NKC033", "nisa.sendrecv(", (f"(128, {source})", f"(128, {target})"), ranks=1, lnc=2)


def test_f34_a_mismatch_is_reported_where_it_is_and_not_at_the_next_fence() -> None:
    def kernel(rank: int) -> nl.ndarray:
        columns = 3 if rank == 3 else 4
        group = ReplicaGroup([[0, 1, 2, 3]])
        local, moved = filled("local", (4, columns)), hbm("moved", (4, columns))
        fence, passed = filled("fence", (1, 1)), hbm("passed", (1, 1))
        ncc.all_to_all([local], [moved], group, 0)
        ncc.all_reduce([fence], [passed], group, nl.add)
        return returned(moved)

    refused(kernel, "NKC101", "ncc.all_to_all(", ("[4, 4]", "[4, 3]"), ranks=4, inputs=per_rank)


def test_f35_a_dimension_must_divide_by_the_group() -> None:
    def exchange() -> nl.ndarray:
        local, moved = filled("local", (5, 64)), hbm("moved", (5, 64))
        ncc.all_to_all([local], [moved], ReplicaGroup([[0, 1]]), 0)
        return returned(moved)

    def scatter() -> nl.ndarray:
        local, part = filled("local", (10, 64)), hbm("part", (2, 64))
        ncc.reduce_scatter([local], [part], ReplicaGroup([[0, 1, 2, 3]]), 0, nl.add)
        return returned(part)

    refused(exchange, "NKC036", "ncc.all_to_all(", ("extent 5", "size 2"), ranks=2)
    refused(scatter, "NKC036", "ncc.reduce_scatter(", ("extent 10", "size 4"), ranks=4)


def test_f36_every_number_of_rows_is_gathered() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        rows, columns = x.shape
        local, whole = copied(x, "local"), hbm("whole", (2 * rows, columns))
        ncc.all_gather([local], [whole], ReplicaGroup([[0, 1]]), 0)
        return returned(whole)

    for rows in range(1, 131):
        x = distinct((rows, 64))
        whole = np.concatenate([x(0)["x"], x(1)["x"]])
        works(kernel, ranks=2, inputs=x, golden=lambda rank, whole=whole: whole)


def test_f37_a_reduction_takes_what_commutes() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, total = copied(x, "local"), hbm("total", (4, 4))
        ncc.all_reduce([local], [total], ReplicaGroup([[0, 1]]), nl.subtract)
        return returned(total)

    refused(kernel, "NKC053", "ncc.all_reduce(", ("subtract", "add, maximum, minimum"), ranks=2, inputs=ranked())
