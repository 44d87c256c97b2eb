"""Replica groups as index arrays: which rows of a buffer form a group, in which order."""

from __future__ import annotations

import numpy as np

from nkicc.ir.types import Groups

__all__ = ["GroupPlan", "plan_groups"]

Array = np.ndarray


class GroupPlan:
    """Groups of equal size over the rows of a buffer: `members[g, i]` is the row of group g's i-th rank.

    `full` says that one group covers all rows, so that what its members share is the same on all ranks.
    """

    __slots__ = ("full", "identity", "members", "size")

    def __init__(self, members: Array, rows: int) -> None:
        self.members = members
        self.size = int(members.shape[1])
        self.full = members.shape[0] == 1 and self.size == rows
        #: Whether the groups, laid end to end, are the rows in order: then a group is a slice.
        self.identity = bool(np.array_equal(members.ravel(), np.arange(rows)))

    def take(self, value: Array) -> Array:
        """`value` (1 or rows, …) by group: (groups, size, …); a view where the rows allow it."""
        groups, size = self.members.shape
        if value.shape[0] == 1:
            return np.broadcast_to(value[None], (groups, size, *value.shape[1:]))
        if self.identity:
            return value.reshape(groups, size, *value.shape[1:])
        return value[self.members]


def plan_groups(groups: Groups, row_of: dict[int, int]) -> list[GroupPlan]:
    """Plans of the groups that have members among the rows, one plan per group size."""
    by_size: dict[int, list[list[int]]] = {}
    for group in groups:
        if group[0] in row_of:
            by_size.setdefault(len(group), []).append([row_of[rank] for rank in group])
    return [GroupPlan(np.array(rows, np.intp), len(row_of)) for rows in by_size.values()]
