"""A collective for all who have arrived: what it moves, and what it moves of memory that nobody has written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Union

import numpy as np

from nkicc.engines import Report
from nkicc.ir.base import show_ranks
from nkicc.ir.bir import REDUCING_KINDS, CollectiveKind, InstCollectiveCompute
from nkicc.ir.errors import fail
from nkicc.ir.findings import Severity, finding

from .collectives import Transfer
from .machine import RankSet
from .memory import AnyView
from .numerics import differing, same_bits
from .rules import Step
from .streams import Token
from .unwritten import flags_of, is_open, refuse, settle, shade, stored

__all__ = ["Arrival", "check_twin", "perform"]

Array = np.ndarray
#: Where a transfer writes: a view of a tensor, or nowhere.
View = Union[AnyView, "Nowhere"]


class Arrival:
    """A rank set's arrival at a global collective: the instruction, its bound operands, the tokens of its cores."""

    __slots__ = ("begin", "inst", "number", "set", "sinks", "sources", "tokens", "twin")

    def __init__(
        self, ranks: RankSet, inst: InstCollectiveCompute, number: int, sources: list[AnyView], sinks: list[AnyView]
    ) -> None:
        self.set = ranks
        self.inst = inst
        self.number = number
        self.sources = sources
        self.sinks = sinks
        self.tokens: list[Token] = []
        #: Notes what one core reads and writes while the other goes on, see Watch.over.
        self.begin: Callable[[], Step] | None = None
        #: The other core's arrival, where both issue one operation.
        self.twin: Arrival | None = None

    @property
    def data_sources(self) -> list[AnyView]:
        """The sources but for metadata."""
        return self.sources if self.inst.metadata is None else self.sources[:-1]

    @property
    def data_sinks(self) -> list[AnyView]:
        """The sinks but for metadata."""
        return self.sinks if self.inst.metadata is None else self.sinks[:1]

    def copy_to_twin(self) -> None:
        """What the operation writes to a core's own memory (the counts of a variable-length one) reaches both cores."""
        if self.twin is not None:
            for mine, other in zip(self.sinks, self.twin.sinks, strict=True):
                if mine.buffer is not other.buffer:
                    other.write(mine.read())
                    stored(other)


class Staged:
    """The destination of a collective that spans several programs: written as a whole, then dealt out."""

    def __init__(self, parts: list[tuple[RankSet, View]]) -> None:
        self.parts = parts
        self.shape = parts[0][1].shape
        self.rows = sum(len(part.ranks) for part, _ in parts)
        self.value: Array | None = None

    def read(self) -> Array:
        return np.concatenate([np.broadcast_to(v.read(), (len(s.ranks), *v.shape)) for s, v in self.parts])

    def write(self, value: Array) -> None:
        self.value = value

    def prepare(self, rows: int, *, keep: bool = False) -> Array:
        self.value = self.read() if keep else np.empty((self.rows, *self.shape), self.parts[0][1].dtype)
        return self.value

    def deal(self) -> None:
        """Hand every program its rows."""
        assert self.value is not None
        row = 0
        for part, view in self.parts:
            count = len(part.ranks)
            view.write(self.value if self.value.shape[0] == 1 else self.value[row : row + count])
            row += count


class Nowhere:
    """A destination of no interest."""

    def __init__(self, like: AnyView) -> None:
        self.shape = like.shape
        self.dtype = like.dtype

    def read(self) -> Array:
        return np.zeros((1, *self.shape), self.dtype)

    def write(self, value: Array) -> None:
        pass

    def prepare(self, rows: int, *, keep: bool = False) -> Array:
        return np.zeros((rows, *self.shape), self.dtype)


def perform(transfer: Transfer, arrivals: Sequence[Arrival], report: Report) -> None:
    """Execute a collective. What is flagged as unwritten moves as the elements do; NKC121 if it would be reduced, or
    counts as a count."""
    report.collectives += 1
    carried = _flags(arrivals) if arrivals[0].set.uninitialised else None
    if arrivals[0].inst.metadata is not None:
        _warn_of_columns(arrivals, report)
    was_finite = [_is_finite(arrival) for arrival in arrivals]
    sources = [_sources(arrival) for arrival in arrivals]
    for arrival in arrivals:
        _scramble(arrival)
    _run(transfer, arrivals, sources, [arrival.sinks for arrival in arrivals])
    if carried is not None:
        _run(transfer, arrivals, [_with_counts(*pair) for pair in zip(arrivals, carried, strict=True)],
             [_shadows(arrival) for arrival in arrivals])  # fmt: skip
    for arrival in arrivals:
        arrival.copy_to_twin()
        for sink in arrival.sinks:
            if carried is None or sink not in arrival.data_sinks:
                stored(sink)
            else:
                settle(sink)
        if arrival.set.nonfinite is not None and all(was_finite):
            arrival.set.nonfinite.look((), arrival.inst, arrival.data_sinks)


def _run(
    transfer: Transfer, arrivals: Sequence[Arrival], sources: list[list[Array]], sinks: Sequence[Sequence[View]]
) -> None:
    """The transfer on one array and one destination per operand; those of several programs are put together."""
    if len(arrivals) == 1:
        transfer(sources[0], sinks[0])
        return
    sets = [arrival.set for arrival in arrivals]
    whole = [
        np.concatenate([np.broadcast_to(v, (len(s.ranks), *v.shape[1:])) for s, v in zip(sets, values, strict=True)])
        for values in zip(*sources, strict=True)
    ]
    staged = [Staged(list(zip(sets, views, strict=True))) for views in zip(*sinks, strict=True)]
    transfer(whole, staged)
    for sink in staged:
        sink.deal()


def _is_finite(arrival: Arrival) -> bool:
    nonfinite = arrival.set.nonfinite
    return nonfinite is not None and nonfinite.all_finite(arrival.data_sources)


def _scramble(arrival: Arrival) -> None:
    """In a poisoned run a kernel must not count on what a collective leaves of its destination."""
    pool = arrival.set.pool
    if not pool.poisoned:
        return
    kept = {id(source.buffer) for source in arrival.sources}
    for sink in arrival.data_sinks:
        if id(sink.buffer) not in kept:
            sink.write(np.broadcast_to(pool.fresh(sink.dtype), (1, *sink.shape)))


def _sources(arrival: Arrival) -> list[Array]:
    """The sources as arrays; copied where a destination is the same tensor: a collective reads before it writes."""
    targets = {id(sink.buffer) for sink in arrival.sinks}
    return [s.read().copy() if id(s.buffer) in targets else s.read() for s in arrival.sources]


def _warn_of_columns(arrivals: Sequence[Arrival], report: Report) -> None:
    """NKC123, a warning, once per instruction: counts that a gather does not look at."""
    for arrival in arrivals:
        inst = arrival.inst
        if inst.kind is not CollectiveKind.AllGather or any(
            (w.code, w.loc) == ("NKC123", inst.loc) for w in report.warnings
        ):
            continue
        table = arrival.sources[-1].read()
        extra = table.reshape(len(table), -1, table.shape[-1])[:, :2, 1:].any(axis=(1, 2))
        if extra.any():
            ranks = arrival.set.ranks if len(table) == 1 else arrival.set.ranks[extra]
            report.warnings.append(
                finding(
                    "NKC123", Severity.warning, inst=inst.label, where=show_ranks(ranks.tolist()),
                    ranks=tuple(ranks.tolist()), operand="metadata", loc=inst.loc,
                )
            )  # fmt: skip


# --- flags of unwritten memory ---------------------------------------------------------------------------------------


def _flags(arrivals: Sequence[Arrival]) -> list[list[Array]] | None:
    """The flags of the data sources of each arrival, and shadows for what is written; None if nothing is flagged and
    nothing will be."""
    inst = arrivals[0].inst
    partial = inst.kind is CollectiveKind.Permute or inst.metadata is not None
    if not any(is_open(view) for a in arrivals for view in a.sources) and not any(
        is_open(view) and (view.buffer.shadow is not None or partial or not view.covers)
        for a in arrivals
        for view in a.data_sinks
    ):
        return None
    carried: list[list[Array]] = []
    for arrival in arrivals:
        if inst.metadata is not None:
            _check_counts(inst, arrival.sources[-1])
        found = [(view, flags_of(view)) for view in arrival.data_sources]
        for view, flags in found:
            if flags is not None and inst.kind in REDUCING_KINDS:
                refuse(inst, view, flags)
        carried.append(
            [np.zeros((1, *view.shape), np.uint8) if flags is None else flags.copy() for view, flags in found]
        )
    if any(view.dtype.itemsize != view.buffer.dtype.itemsize for a in arrivals for view in a.data_sinks):
        return None
    for arrival in arrivals:
        for view in arrival.data_sinks:
            shade(view)
    return carried


def _check_counts(inst: InstCollectiveCompute, metadata: AnyView) -> None:
    """NKC121 for a count or an offset that nobody has written."""
    flags = flags_of(metadata)
    if flags is None:
        return
    if _counts(inst, flags).any():
        refuse(inst, metadata, flags)


def _counts(inst: InstCollectiveCompute, metadata: Array) -> Array:
    """What is read of metadata, (rows, …, members): the rest is written or ignored."""
    table = metadata.reshape(len(metadata), -1, metadata.shape[-1])
    rows = [0, 1, *([2] if inst.recv_counts_known else []), *([3] if inst.has_rdispls else [])]
    return table[:, rows, : 1 if inst.kind is CollectiveKind.AllGather else None]


def check_twin(first: Arrival, second: Arrival) -> None:
    """NKC125 if the cores of a rank issue one operation on sources of their own that differ: which of them counts would
    depend on who comes first."""
    inst = second.inst
    for mine, other in zip(first.sources, second.sources, strict=True):
        if mine.buffer is other.buffer:
            continue
        left, right = mine.read(), other.read()
        if mine not in first.data_sources:
            left, right = _counts(inst, left), _counts(inst, right)
        left, right = np.broadcast_arrays(left, right)
        if same_bits(left, right):
            continue
        differ: Array = np.any(differing(left, right).reshape(len(left), -1), axis=1)
        ranks = second.set.ranks[differ] if len(differ) > 1 else second.set.ranks
        name = other.buffer.tensor.name
        fail("NKC125", inst=inst.label, name=name, ranks=show_ranks(ranks.tolist()), operand=name, loc=inst.loc)


def _with_counts(arrival: Arrival, flags: list[Array]) -> list[Array]:
    """Flags in place of data, and the counts that say where they go."""
    return [*flags, *[view.read() for view in arrival.sources[len(flags) :]]]


def _shadows(arrival: Arrival) -> list[View]:
    """Where the flags go; counts are written once."""
    data = arrival.data_sinks
    return [*[shade(view) for view in data], *[Nowhere(view) for view in arrival.sinks[len(data) :]]]
