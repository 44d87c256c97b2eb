"""The distributed topology: which ranks form which groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from nkicc.ir.types import Groups, World

from .source import refuse

__all__ = ["ParallelState"]


@dataclass(frozen=True, init=False)
class ParallelState:
    """The world and its tensor-, data- and pipeline-parallel degrees; a value that a run owns.

    Ranks of one tensor-parallel group are contiguous, pipeline stages are outermost:
    rank = (pp index · dp + dp index) · tp + tp index. `tp` defaults to what dp and pp leave. NKC014 for an impossible
    world, NKC019 for degrees whose product is not the number of ranks.
    """

    world: World
    tp: int
    dp: int
    pp: int

    def __init__(self, world: World, *, tp: int | None = None, dp: int = 1, pp: int = 1) -> None:
        ranks = world.ranks
        if not world.is_possible:
            refuse("NKC014", lnc=world.lnc, ranks=ranks)
        given = (dp, pp) if tp is None else (tp, dp, pp)
        if any(type(degree) is not int or degree < 1 for degree in given):
            refuse("NKC019", tp=tp, dp=dp, pp=pp, ranks=ranks)
        if tp is None:
            tp = ranks // (dp * pp)
        if tp * dp * pp != ranks:
            refuse("NKC019", tp=tp, dp=dp, pp=pp, ranks=ranks)
        for name, value in (("world", world), ("tp", tp), ("dp", dp), ("pp", pp)):
            object.__setattr__(self, name, value)

    @cached_property
    def _all(self) -> Groups:
        return (tuple(range(self.world.ranks)),)

    def gen_all_worker_group(self) -> Groups:
        """All ranks in one group: what the `*_cc` reducers, gathers and broadcast run on."""
        return self._all

    def gen_all_collective_permute_config(self) -> Groups:
        """The routing of `collective_permute_cc`: one ring of all ranks, each sending to the next. A ring is a group
        whose list order is the ring order, since the raw builder routes by `replica_groups`."""
        return self._all

    def tp_groups(self) -> Groups:
        """Tensor-parallel groups: ranks that differ in the tp index only."""
        tp = self.tp
        return tuple(tuple(range(first, first + tp)) for first in range(0, self.world.ranks, tp))

    def dp_groups(self) -> Groups:
        """Data-parallel groups: ranks that differ in the dp index only."""
        tp, stage = self.tp, self.tp * self.dp
        return tuple(
            tuple(range(start + index, start + stage, tp))
            for start in range(0, self.world.ranks, stage)
            for index in range(tp)
        )

    def pp_groups(self) -> Groups:
        """Pipeline-parallel groups: ranks that differ in the pp index only."""
        stage = self.tp * self.dp
        return tuple(tuple(range(index, self.world.ranks, stage)) for index in range(stage))
