"""The order of implicit rings.

The list order of a group is its ring order, unless a seed asks for another legal one: any cyclic order, chosen per
group and channel. A kernel that asks for the processing rank is right in all of them; one that counts on its neighbour
in the list is not.
"""

from __future__ import annotations

import numpy as np

from nkicc.ir.types import Groups

__all__ = ["Rings"]


class Rings:
    """The rings of a run, the same wherever a group and a channel are named."""

    def __init__(self, seed: int | None) -> None:
        self._seed = seed

    def order(self, groups: Groups, channel: int) -> Groups:
        """The groups in ring order."""
        if self._seed is None:
            return groups
        return tuple([self._shuffled(group, channel) for group in groups])

    def _shuffled(self, group: tuple[int, ...], channel: int) -> tuple[int, ...]:
        assert self._seed is not None
        random = np.random.default_rng([self._seed, channel, *group])
        return tuple([group[i] for i in random.permutation(len(group))])
