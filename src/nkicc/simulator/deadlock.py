"""The report of a deadlock: who waits where for whom, what each did before, where their ways part.

Streams in the same state share an entry, however many ranks there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Never

from nkicc.ir.base import Inst, show_ranks
from nkicc.ir.bir import InstCollectiveCompute, InstCollectiveRecv, InstCollectiveSend, InstCoreBarrier
from nkicc.ir.errors import Related, fail

from .meetings import Meetings
from .streams import Stream

__all__ = ["report"]

#: A longer cycle is cut in the middle of its sentence, not in the notes.
_CHAIN = 4


def report(streams: Sequence[Stream], meetings: Meetings) -> Never:
    """NKC100. `streams` are all of the run, none of which can move."""
    waits_for = {stream: _awaited(stream, streams, meetings) for stream in streams if not stream.finished}
    first = next(iter(waits_for))
    chain = _chain(first, waits_for)
    start = chain[0]
    assert start.waits is not None
    notes: list[Related] = []
    for fold in _folded(streams, _place):
        wait = fold[0].waits
        if wait is None:
            notes.append(Related(f"{_who(fold)}: finished"))
        else:
            whom = _whom([other for stream in fold for other in waits_for[stream]])
            notes.append(Related(f"{_who(fold)}: {_verb('wait', fold)} for {whom} in {wait.inst.label}", wait.inst.loc))
    for fold in _folded(streams, lambda s: (s.history.count, tuple(map(_line, s.history.last)))):
        notes += _past(fold)
    notes += _parting(streams)
    fail(
        "NKC100", summary=_sentence(chain, waits_for), loc=start.waits.inst.loc, notes=tuple(notes),
        core=start.core.index if len(start.core.set.cores) > 1 else None,
    )  # fmt: skip


# --- who waits for whom ----------------------------------------------------------------------------------------------


def _awaited(stream: Stream, streams: Sequence[Stream], meetings: Meetings) -> list[Stream]:
    """The streams that have not come to the meeting in which a stream waits."""
    assert stream.waits is not None
    missing = meetings.missing(stream.core, stream.waits)
    return [s for s in streams if any(s.core.set is ranks and core in (None, s.core.index) for ranks, core in missing)]


def _chain(start: Stream, waits_for: dict[Stream, list[Stream]]) -> list[Stream]:
    """The cycle that a walk from `start` along the waits runs into, or the walk to a stream that has finished."""
    walk: list[Stream] = []
    stream = start
    while stream in waits_for and stream not in walk:
        walk.append(stream)
        awaited = waits_for[stream]
        # One that will never come explains more than one that waits itself.
        stream = next((other for other in awaited if other.finished), awaited[0] if awaited else stream)
    return walk[walk.index(stream) :] if stream in walk else [*walk, stream]


def _sentence(chain: list[Stream], waits_for: dict[Stream, list[Stream]]) -> str:
    last = chain[-1]
    if last.finished:
        waiting = chain[-2]
        assert waiting.waits is not None
        gone = [s for s in waits_for[waiting] if s.finished]
        have = "has" if len(gone) == 1 and len(gone[0].core.ranks) == 1 else "have"
        waits = _verb("wait", [waiting])
        return f"{_who([waiting])} {waits} in {waiting.waits.inst.label} for {_whom(gone)}, which {have} finished"
    links = [f" {_verb('wait', [s])} for " for s in chain]
    names = [_who([s]) for s in (*chain[1:], chain[0])]
    steps = [link + name for link, name in zip(links, names, strict=True)]
    if len(steps) > _CHAIN:
        steps[_CHAIN - 1 : -1] = [" …"]
    return _who(chain[:1]) + ", which".join(steps)


# --- what they did ---------------------------------------------------------------------------------------------------


def _past(fold: list[Stream]) -> list[Related]:
    history = fold[0].history
    if not history.count:
        return []
    earlier = "… " if history.count > len(history.last) else ""
    what = ", ".join(map(_brief, history.last))
    return [Related(f"{_who(fold)} issued {history.count}: {earlier}{what}")]


def _parting(streams: Sequence[Stream]) -> list[Related]:
    """Where the sequences of ranks first differ, else those of the cores of a rank: who does what there."""
    for core in sorted({s.core.index for s in streams}):
        found = _difference([s for s in streams if s.core.index == core], _between_ranks)
        if found:
            return found
    for ranks in dict.fromkeys(s.core.set for s in streams):
        found = _difference([s for s in streams if s.core.set is ranks], _between_cores)
        if found:
            return found
    return []


def _difference(streams: list[Stream], meaning: Callable[[Inst], Hashable | None]) -> list[Related]:
    """`meaning` is None for instructions that need no counterpart."""
    sequences = [[(what, inst) for inst in s.history.first if (what := meaning(inst)) is not None] for s in streams]
    for place in range(max(map(len, sequences), default=0)):
        # A stream that waits will perhaps go on as the others did; one that has finished will not.
        here = [
            (sequence[place] if place < len(sequence) else None, stream)
            for stream, sequence in zip(streams, sequences, strict=True)
            if place < len(sequence) or stream.finished
        ]
        kinds = dict.fromkeys(entry and entry[0] for entry, _ in here)
        if len(kinds) < 2:
            continue
        notes: list[Related] = []
        for kind in kinds:
            fold = [stream for entry, stream in here if (entry and entry[0]) == kind]
            inst = next((entry[1] for entry, _ in here if entry and entry[0] == kind), None)
            does = "nothing more" if inst is None else inst.label
            what = f"first difference, number {place + 1}: {_who(fold)} {_verb('issue', fold)} {does}"
            notes.append(Related(what, inst and inst.loc))
        return notes
    return []


def _between_ranks(inst: Inst) -> Hashable | None:
    """What members of a group must do alike. Sends and receives have counterparts, not equals."""
    if isinstance(inst, InstCollectiveSend | InstCollectiveRecv):
        return None
    if isinstance(inst, InstCollectiveCompute):
        channel = inst.cc_channel
        return inst.kind, channel.op, channel.replica_groups, inst.src_target_pairs, inst.pipe_id, inst.channel_id
    return type(inst)


def _between_cores(inst: Inst) -> Hashable | None:
    """What both cores of a rank must do. A global collective may be issued by one of them."""
    if isinstance(inst, InstCollectiveCompute):
        return (inst.kind, inst.pipe_id) if inst.is_local else None
    return (InstCoreBarrier, inst.cores) if isinstance(inst, InstCoreBarrier) else None


# --- words -----------------------------------------------------------------------------------------------------------


def _folded(streams: Iterable[Stream], key: Callable[[Stream], Hashable]) -> list[list[Stream]]:
    """The streams with equal keys together, in order of appearance."""
    folds: dict[Hashable, list[Stream]] = {}
    for stream in streams:
        folds.setdefault(key(stream), []).append(stream)
    return list(folds.values())


def _place(stream: Stream) -> Hashable:
    return None if stream.waits is None else _line(stream.waits.inst)


def _line(inst: Inst) -> Hashable:
    """The instruction as the kernel's author knows it: a name differs from program to program."""
    return type(inst), inst.loc if inst.loc is not None else inst.name


def _brief(inst: Inst) -> str:
    """`AllReduce kernel.py:12`."""
    kind = inst.kind.value if isinstance(inst, InstCollectiveCompute) else type(inst).__name__.removeprefix("Inst")
    return f"{kind} {os.path.basename(inst.loc.file)}:{inst.loc.line}" if inst.loc else f"{kind} {inst.name!r}"


def _verb(verb: str, streams: Sequence[Stream]) -> str:
    return verb if len(streams) > 1 or len(streams[0].core.ranks) > 1 else f"{verb}s"


def _who(streams: Sequence[Stream]) -> str:
    """`ranks 0-2, 5 core 1`; the core is left out where there is only one."""
    ranks = sorted(int(rank) for s in streams for rank in s.core.ranks)
    cores = sorted({s.core.index for s in streams})
    text = f"rank{'s' if len(set(ranks)) > 1 else ''} {show_ranks(sorted(set(ranks)))}"
    if len(streams[0].core.set.cores) > 1:
        text += f" core{'s' if len(cores) > 1 else ''} {show_ranks(cores)}"
    return text


def _whom(streams: Sequence[Stream]) -> str:
    return _who(streams) if streams else "nobody"
