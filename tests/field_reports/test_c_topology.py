"""Legal collectives that a real machine refuses at load."""

from typing import Any

import nki.collectives as ncc
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

from .helpers import copied, distinct, hbm, ranked, refused, returned, works
from .test_b_groups import filled, reduction


def test_f16_three_ranks_reduce_with_a_warning() -> None:
    examined = works(reduction([[0, 1, 2]]), ranks=3, inputs=ranked(), golden=filled(3, 3, 3))
    (warning,) = [warning for warning in examined.warnings if warning.code == "NKC150"]
    assert "a group of 3 ranks" in warning.message
    assert "1, 2, 4, 8, 16 or a multiple of 32" in warning.hint


def test_f17_strided_groups_reduce_with_a_warning() -> None:
    examined = works(reduction([[0, 2], [1, 3]]), ranks=4, inputs=ranked(), golden=filled(2, 4, 2, 4))
    (warning,) = [warning for warning in examined.warnings if warning.code == "NKC152"]
    assert "[0, 2]" in warning.message
    for target in ("trn1", "trn2"):
        refused(reduction([[0, 2], [1, 3]]), "NKC152", "ncc.all_reduce(", "[0, 2]", ranks=4, inputs=ranked(),
                strict=True, sdk="2.32", target=target)  # fmt: skip


@pytest.mark.parametrize("ranks", [8, 12])
def test_f18_an_exchange_of_an_odd_size_runs_with_a_warning(ranks: int) -> None:
    def kernel(x: nl.ndarray, size: int) -> nl.ndarray:
        local, moved = copied(x, "local"), hbm("moved", x.shape)
        ncc.all_to_all([local], [moved], ReplicaGroup([list(range(size))]), 0)
        return returned(moved)

    x = distinct((ranks, 4))

    def golden(rank: int) -> np.ndarray:
        return np.stack([x(r)["x"][rank] for r in range(ranks)])

    def inputs(rank: int) -> dict[str, Any]:
        return {**x(rank), "size": ranks}

    examined = works(kernel, ranks=ranks, inputs=inputs, golden=golden)
    assert ("NKC150" in [warning.code for warning in examined.warnings]) == (ranks == 12), examined.describe()
    if ranks == 12:
        says = ("group of 12 ranks", "multiple of 32")
        for target in ("trn1", "trn2"):
            refused(kernel, "NKC150", "ncc.all_to_all(", says, ranks=ranks, inputs=inputs, strict=True, sdk="2.32",
                    target=target)  # fmt: skip
