"""Infinities and NaNs: at which instruction they appear.

On request only, since every float that is read or written is looked at. An instruction is named if all it reads is
finite and something it writes is not; what spreads from there is not named again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nkicc.ir.base import Inst, show_ranks
from nkicc.ir.findings import Finding, Severity, finding
from nkicc.ir.isa import InstMemset

from .memory import AnyView
from .rules import Step
from .unwritten import first_of

__all__ = ["Nonfinite"]

Array = np.ndarray


class Nonfinite:
    """The watch over one set of ranks; `found` has one warning per instruction of the program (NKC124)."""

    def __init__(self) -> None:
        self.found: list[Finding] = []
        self._named: set[int] = set()

    def wrap(self, core: int, inst: Inst, reads: Sequence[AnyView], writes: Sequence[AnyView], step: Step) -> Step:
        """`step`, with what it reads looked at before and what it writes after it."""
        # A kernel that fills a tile with an infinity means it.
        if isinstance(inst, InstMemset) and not np.isfinite(inst.value):
            return step

        def run() -> None:
            if id(inst) in self._named or not self.all_finite(reads):
                step()
                return
            step()
            self.look((core,), inst, writes)

        return run

    @staticmethod
    def all_finite(views: Sequence[AnyView]) -> bool:
        """Whether no element of the views is an infinity or NaN."""
        return all(_bad(view) is None for view in views)

    def look(self, cores: tuple[int, ...], inst: Inst, writes: Sequence[AnyView]) -> None:
        """Note an instruction that has written an infinity or NaN."""
        for view in writes:
            bad = _bad(view)
            if bad is None:
                continue
            index, ranks = first_of(bad, view.buffer.ranks)
            # A row per rank, or one for all.
            row = 0 if len(bad) == 1 else view.buffer.ranks.tolist().index(ranks[0])
            tensor = view.buffer.tensor
            self._named.add(id(inst))
            self.found.append(
                finding(
                    "NKC124", Severity.warning, inst=inst.label, name=tensor.name, where=show_ranks(ranks),
                    value=float(view.read()[row][index]), index=list(index),
                    operand=tensor.name, ranks=tuple(ranks), cores=cores, loc=inst.loc,
                )
            )  # fmt: skip
            return


def _bad(view: AnyView) -> Array | None:
    """Which elements are not finite, (rows, *shape), or None if all are."""
    if view.dtype.kind in "iu":
        return None
    value = view.read()
    active = view.lanes.active
    if active is not None and len(value) == len(active):
        value = np.where(active.reshape(-1, *[1] * (value.ndim - 1)), value, value.dtype.type(0))
    finite = np.isfinite(value)
    return None if finite.all() else ~finite
