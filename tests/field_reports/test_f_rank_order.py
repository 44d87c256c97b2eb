"""Which member owns which chunk or slot."""

from itertools import permutations

import nki.collectives as ncc
import nki.language as nl
import numpy as np
from nki.collectives import ReplicaGroup

from .helpers import copied, hbm, ranked, returned, works


def gathered(order: tuple[int, ...]) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, whole = copied(x, "local"), hbm("whole", (16, 4))
        ncc.all_gather([local], [whole], ReplicaGroup([list(order)]), 0)
        return returned(whole)

    want = np.repeat(np.array(order, np.float32), 4)[:, None] * np.ones(4, np.float32)
    works(kernel, ranks=4, inputs=ranked(), golden=lambda rank: want)


def test_f38_a_list_is_not_sorted() -> None:
    gathered((3, 2, 1, 0))


def test_f39_slot_i_holds_the_ith_listed_member() -> None:
    for order in permutations(range(4)):
        gathered(order)


def test_f40_rank_i_gets_chunk_i() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, part = copied(x, "local"), hbm("part", (1, 4))
        ncc.reduce_scatter([local], [part], ReplicaGroup([[0, 1, 2, 3]]), 0, nl.add)
        return returned(part)

    chunks = np.arange(4, dtype=np.float32)[:, None] * np.ones(4, np.float32)
    works(
        kernel,
        ranks=4,
        inputs=lambda rank: {"x": 10 * rank + chunks},
        golden=lambda rank: np.full((1, 4), (60, 64, 68, 72)[rank], np.float32),
    )


def test_f40_large_chunks_are_exact_to_the_last_element() -> None:
    chunk = (1 << 20,)  # 4 MiB

    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, part = copied(x, "local"), hbm("part", (1, *chunk))
        ncc.reduce_scatter([local], [part], ReplicaGroup([[2 * i, 2 * i + 1] for i in range(12)]), 0, nl.add)
        return returned(part)

    base = np.arange(2 << 20, dtype=np.float32).reshape(2, *chunk) % 4093

    def golden(rank: int) -> np.ndarray:
        low = rank - rank % 2
        return (2 * base + (2 * low + 1))[rank % 2 :][:1]

    works(kernel, ranks=24, inputs=lambda rank: {"x": base + rank}, golden=golden)
