"""Operands and Python that the device compiler refuses with an obscure text."""

from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

from nkicc import NkiccError

from .helpers import copied, hbm, ranked, refused, returned, works

PAIR = ReplicaGroup([[0, 1]])


def ones(rank: int) -> np.ndarray:
    return np.full((4, 4), 1, np.float32)


def test_f64_an_argument_is_no_source_of_a_collective() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        total = hbm("total", (4, 4))
        ncc.all_reduce([x], [total], PAIR, nl.add)
        return returned(total)

    refused(kernel, "NKC140", "ncc.all_reduce(", ("'x'", "input", "shared_hbm"), ranks=2, inputs=ranked())
    works(kernel, ranks=2, inputs=ranked(), golden=ones, allow_io=True)


def test_f64_a_returned_tensor_is_no_destination_of_a_collective() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, result = copied(x, "local"), hbm("result", (4, 4))
        ncc.all_reduce([local], [result], PAIR, nl.add)
        return result

    refused(kernel, "NKC140", "ncc.all_reduce(", ("'result'", "output", "shared_hbm"), ranks=2, inputs=ranked())
    works(kernel, ranks=2, inputs=ranked(), golden=ones, allow_io=True)


def test_f65_a_tensor_without_a_name_is_worth_a_warning() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, total = copied(x, "local"), nl.ndarray((4, 4), nl.float32, nl.shared_hbm)
        ncc.all_reduce([local], [total], PAIR, nl.add)
        return returned(total)

    examined = works(kernel, ranks=2, inputs=ranked(), golden=ones)
    (warning,) = [warning for warning in examined.warnings if warning.code == "NKC141"]
    assert "NCC_IBIR440" in warning.hint


def test_f66_a_slice_of_a_tile_is_not_densely_packed() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        tile, total = nl.ndarray((128, 16), nl.float32), nl.ndarray((128, 4), nl.float32)
        nisa.dma_copy(tile, x)
        ncc.all_reduce([tile[:, 4:8]], [total], PAIR, nl.add)
        return returned(total)

    says = ("rows are 4 wide and 16 apart", "densely packed tile")
    refused(kernel, "NKC059", "ncc.all_reduce(", says, ranks=2, inputs=ranked((128, 16)))


def unpacked(x: nl.ndarray) -> nl.ndarray:
    rows, columns = x.shape
    return returned(x[0:rows, 0:columns])


def listed(x: nl.ndarray) -> nl.ndarray:
    result = hbm("result", (4, 4))
    for row in list(range(4)):
        nisa.dma_copy(result[row : row + 1], x[row : row + 1])
    return result


def closed(x: nl.ndarray) -> nl.ndarray:
    result = hbm("result", (4, 4))

    def copy() -> None:
        nisa.dma_copy(result, x)

    copy()
    return result


def comprehended(x: nl.ndarray) -> nl.ndarray:
    result = hbm("result", (4, 4))
    tiles = [nl.ndarray((1, 4), nl.float32, name=f"tile{row}") for row in range(4)]
    for row, tile in enumerate(tiles):
        nisa.dma_copy(tile, x[row : row + 1])
        nisa.dma_copy(result[row : row + 1], tile)
    return result


@pytest.mark.parametrize("kernel", [unpacked, listed, closed, comprehended])
def test_f67_python_that_some_tracers_refuse_runs(kernel: Any) -> None:
    works(kernel, ranks=2, inputs=ranked(), golden=lambda rank: np.full((4, 4), rank, np.float32))


def test_f68_a_reduction_over_cores_is_not_taken_for_one_over_ranks() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        return nl.all_reduce(x, op=nl.add, program_axes=(0,))  # type: ignore[attr-defined]

    says = ("all_reduce", "nki.collectives.all_reduce")
    with pytest.raises(NkiccError) as caught:
        nl.all_reduce  # type: ignore[attr-defined]  # noqa: B018
    assert all(part in str(caught.value) for part in says)
    refused(kernel, caught.value.code, "nl.all_reduce(", says, ranks=2, inputs=ranked())
