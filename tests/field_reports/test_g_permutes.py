"""A pair, peer or pipe that names nobody, or transfers that cross."""

from collections.abc import Iterable
from typing import Any

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

from .helpers import copied, distinct, hbm, ranked, refused, returned, works


def permute(pairs: Iterable[Any]) -> Any:
    """dst is x before, so that a rank that nothing arrives at returns its own number."""

    def kernel(x: nl.ndarray) -> nl.ndarray:
        local, moved = copied(x, "local"), copied(x, "moved")
        ncc.collective_permute([local], [moved], pairs)  # type: ignore[arg-type]
        return returned(moved)

    return kernel


def golden(*values: float) -> Any:
    return lambda rank: np.full((4, 4), values[rank], np.float32)


def test_f41_a_pair_of_a_rank_with_itself_is_a_copy() -> None:
    works(permute([(0, 0), (1, 2), (2, 1)]), ranks=3, inputs=ranked(), golden=golden(0, 2, 1))


def test_f42_ranks_that_nothing_arrives_at_keep_what_they_have_and_are_named() -> None:
    examined = works(permute([(0, 1)]), ranks=3, inputs=ranked(), golden=golden(0, 0, 2))
    (warning,) = [warning for warning in examined.warnings if warning.code == "NKC160"]
    assert "rank(s) 0, 2 are nobody's target" in warning.message


def test_f43_pairs_that_name_nobody() -> None:
    spent = iter([(0, 1)])
    next(spent)
    refused(permute(spent), "NKC045", "ncc.collective_permute(", "at least one", ranks=4, inputs=ranked())
    says = ("rank 9 does not exist", "0..3")
    refused(permute([(0, 9)]), "NKC041", "ncc.collective_permute(", says, ranks=4, inputs=ranked())


def test_f44_the_peers_of_a_local_transfer_are_cores() -> None:
    def kernel() -> nl.ndarray:
        tile, far = nl.full((4, 4), 1.0, nl.float32), nl.ndarray((4, 4), nl.float32)
        nisa.sendrecv(src=tile, dst=far, send_to_rank=2, recv_from_rank=2, pipe_id=0)
        return returned(far)

    refused(kernel, "NKC070", "nisa.sendrecv(", "0 and 1, the cores of the LNC pair, not ranks", ranks=4, lnc=2)


def swaps(pipes: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
    """Each core swaps tile i on pipe i, in the order given for it."""

    def kernel(x: nl.ndarray) -> nl.ndarray:
        core = nl.program_id()
        result = hbm("result", (2, 2, 4, 4))
        for pipe in pipes[core]:
            tile, far = nl.ndarray((4, 4), nl.float32), nl.ndarray((4, 4), nl.float32)
            nisa.dma_copy(tile, x[core, pipe])
            nisa.sendrecv(src=tile, dst=far, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=pipe)
            nisa.dma_copy(result[core, pipe], far)
        return result

    return kernel


def test_f45_transfers_pair_by_pipe() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        core = nl.program_id()
        result = hbm("result", (2, 2, 4, 4))
        tiles = [nl.ndarray((4, 4), nl.float32, name=f"tile{i}") for i in range(2)]
        far = [nl.ndarray((4, 4), nl.float32, name=f"far{i}") for i in range(2)]
        for i in range(2):
            nisa.dma_copy(tiles[i], x[core, i])
        for i in (0, 1) if core == 0 else (1, 0):
            nisa.sendrecv(src=tiles[i], dst=far[i], send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=i)
        for i in range(2):
            nisa.dma_copy(result[core, i], far[i])
        return result

    x = distinct((2, 2, 4, 4))
    works(kernel, ranks=2, lnc=2, inputs=x, golden=lambda rank: x(rank)["x"][::-1])


def test_f46_pipes_that_only_one_core_uses_form_a_cycle() -> None:
    x = distinct((2, 2, 4, 4))
    error = refused(swaps(((0,), (1,))), "NKC146", "nisa.sendrecv(", ranks=1, lnc=2, inputs=x)
    first, second = (related.message for related in error.related)
    assert first.startswith("core 0 waits in")
    assert first.endswith("(pipe 0) for core 1")
    assert second.startswith("core 1 waits in")
    assert second.endswith("(pipe 1) for core 0")


def test_f47_channels_do_not_cross() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        tiles = [nl.ndarray((4, 4), nl.float32, name=f"tile{c}") for c in range(2)]
        moved = [nl.ndarray((4, 4), nl.float32, name=f"moved{c}") for c in range(2)]
        result = hbm("result", (2, 4, 4))
        for c in range(2):
            nisa.dma_copy(tiles[c], x[c])
        ncc.collective_permute_implicit(
            [[tile] for tile in tiles], [[tile] for tile in moved], ReplicaGroup([[0, 1]]), channel_ids=[0, 1]
        )
        for c in range(2):
            nisa.dma_copy(result[c], moved[c])
        return result

    def source(rank: int) -> np.ndarray:
        return np.stack([np.full((4, 4), 10 * c + rank, np.float32) for c in range(2)])

    works(kernel, ranks=2, inputs=lambda rank: {"x": source(rank)}, golden=lambda rank: source(1 - rank))


@pytest.mark.parametrize("seed", [None, 1, 2, 3, 4])
def test_f48_a_slow_rank_is_no_finding(seed: int | None) -> None:
    """Rank 5 has a thousand instructions more to do than the others before the ring step."""

    def kernel(x: nl.ndarray, slow: bool) -> nl.ndarray:
        local, moved = copied(x, "local"), hbm("moved", (4, 4))
        scratch = nl.ndarray((4, 4), nl.float32)
        for _ in range(1000 if slow else 0):
            nisa.memset(scratch, 1.0)
        ncc.collective_permute_implicit([[local]], [[moved]], ReplicaGroup([list(range(8))]))
        return returned(moved)

    def inputs(rank: int) -> dict[str, Any]:
        return {"x": np.full((4, 4), rank, np.float32), "slow": rank == 5}

    works(
        kernel, ranks=8, inputs=inputs, golden=lambda rank: np.full((4, 4), (rank - 1) % 8, np.float32), schedule=seed
    )
