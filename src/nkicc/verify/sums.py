"""Sums of what passes by in a ring: is every rank's part in them once?

Data that goes around a ring is a value of one rank that has made some hops. Where such data are added up, the sum is
known by the hops of its parts. A ring of n ranks has come full circle after n hops: a sum with parts of h and of h + n
hops has one rank's part twice. One that ends with all parts but one is a hop short, or has left out the rank's own.

A sum of fewer parts may be a window, and one that passes through all parts a scan: both are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from nkicc.ir.base import Inst
from nkicc.ir.findings import Finding, Related, Severity, finding
from nkicc.ir.types import Groups, Loc

__all__ = ["ZERO", "Sum", "Value", "add", "check_sums"]

#: What tells values from each other that a rank may send: an input's name, or the line that computes it.
Value = Loc | str | None

#: With fewer parts there is no telling a sum over a ring from arithmetic on neighbours.
LEAST_PARTS = 3


class Sum(Struct, frozen=True):
    """A sum of one value of several ranks, known by the hops that each part has made. `groups` empty: nothing in it
    has been sent."""

    value: Value
    groups: Groups
    hops: tuple[int, ...]
    loc: Loc | None = None

    def same_parts(self, other: Sum) -> bool:
        return (self.value, self.groups, self.hops) == (other.value, other.groups, other.hops)

    def sent(self, groups: Groups) -> Sum | None:
        """The sum one rank further, or None if it would be on another ring."""
        if self.groups not in ((), groups):
            return None
        return replace(self, groups=groups, hops=tuple([hop + 1 for hop in self.hops]))

    def members(self) -> tuple[int, dict[int, list[int]]]:
        """The size of the ring (0 if groups differ), and by a rank's distance the different hops of its parts."""
        sizes = {len(group) for group in self.groups}
        size = sizes.pop() if len(sizes) == 1 else 0
        distances: dict[int, list[int]] = {}
        for hop in sorted(set(self.hops)) if size else ():
            distances.setdefault(hop % size, []).append(hop)
        return size, distances


#: A memory filled with zeros.
ZERO = Sum(None, (), ())


def add(left: Sum | None, right: Sum | None, loc: Loc | None) -> Sum | None:
    """The sum of two, None where they are no parts of one value on one ring."""
    if left is None or right is None:
        return None
    if not left.hops or not right.hops:
        return replace(left if left.hops else right, loc=loc)
    if left.value is None or left.value != right.value or (left.groups and right.groups not in ((), left.groups)):
        return None
    return Sum(left.value, left.groups or right.groups, tuple(sorted(left.hops + right.hops)), loc)


def check_sums(stored: Iterable[tuple[Inst, Sum]], whole: set[Value], **where: object) -> Iterator[Finding]:
    """Warnings for sums that are stored: NKC130 with a rank's part twice, NKC131 with all parts but one.

    `whole` are the values whose sum was complete at some time, `where` the ranks and cores.
    """
    for inst, total in stored:
        size, distances = total.members()
        if size < 2 or len(total.hops) < LEAST_PARTS:
            continue
        slots = {**where, "inst": type(inst).__name__, "size": size, "operand": "dst", "loc": total.loc}
        slots["related"] = (Related("the sum is stored here", inst.loc),)
        again = next((hops for hops in distances.values() if len(hops) > 1), None)
        if again is not None:
            yield finding("NKC130", Severity.warning, first=again[0], second=again[1], **slots)
        elif len(distances) == size - 1 and total.value not in whole:
            (missing,) = set(range(size)) - set(distances)
            yield finding("NKC131", Severity.warning, missing=missing, **slots)
