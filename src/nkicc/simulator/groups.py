"""Replica groups as index arrays: which rows of a buffer form a group, in which order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nkicc.ir.types import Groups

from .rings import Rings

__all__ = ["GroupPlan", "Members"]

Array = np.ndarray


class GroupPlan:
    """Groups of equal size over the rows of a buffer: `members[g, i]` is the row of group g's i-th rank.

    `full` says that one group covers all rows, so that what its members share is the same on all ranks. `aligned` says
    that `take` needs no copy: the groups are the rows in order, or the rows are dealt to them in turn.
    """

    __slots__ = ("aligned", "full", "members", "size")

    def __init__(self, members: Array, rows: int) -> None:
        self.members = members
        self.size = int(members.shape[1])
        self.full = members.shape[0] == 1 and self.size == rows
        order = np.arange(rows)
        self.aligned = ""
        if np.array_equal(members.ravel(), order):
            self.aligned = "in order"
        elif np.array_equal(members.T.ravel(), order):
            self.aligned = "in turn"

    def take(self, value: Array) -> Array:
        """`value` (1 or rows, …) by group: (groups, size, …); a view if the plan is aligned."""
        if value.shape[0] == 1:
            return np.broadcast_to(value[None], (*self.members.shape, *value.shape[1:]))
        return self._by_group(value) if self.aligned else value[self.members]

    def give(self, out: Array, value: Array) -> None:
        """Store value[g, i] in the row of group g's i-th rank; an extent of 1 serves the whole group."""
        if self.aligned:
            self._by_group(out)[...] = value
        else:
            out[self.members] = value

    def _by_group(self, rows: Array) -> Array:
        groups, size = self.members.shape
        if self.aligned == "in order":
            return rows.reshape(groups, size, *rows.shape[1:])
        return rows.reshape(size, groups, *rows.shape[1:]).swapaxes(0, 1)


class Members:
    """Who takes part in a collective: the ranks that are its rows, in order, and the groups they form."""

    __slots__ = ("_groups", "_rings", "row_of")

    def __init__(self, groups: Groups, ranks: Sequence[int], rings: Rings) -> None:
        self.row_of = {rank: row for row, rank in enumerate(ranks)}
        self._groups = groups
        self._rings = rings

    @property
    def rows(self) -> int:
        return len(self.row_of)

    @property
    def plans(self) -> list[GroupPlan]:
        """The groups in list order, one plan per group size."""
        return self._plan(self._groups)

    def ring(self, channel: int) -> list[GroupPlan]:
        """The groups in the order of a channel's ring, one plan per group size."""
        return self._plan(self._rings.order(self._groups, channel))

    def _plan(self, groups: Groups) -> list[GroupPlan]:
        by_size: dict[int, list[list[int]]] = {}
        for group in groups:
            if group[0] in self.row_of:
                by_size.setdefault(len(group), []).append([self.row_of[rank] for rank in group])
        return [GroupPlan(np.array(rows, np.intp), self.rows) for rows in by_size.values()]
