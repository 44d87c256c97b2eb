"""Do the two cores of a rank issue collectives that mean something together?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nkicc.ir.bir import InstCollectiveCompute
from nkicc.ir.findings import Finding, Related, finding

from .streams import Stream

__all__ = ["check_lanes"]


def check_lanes(cores: Sequence[Stream]) -> Iterator[Finding]:
    """LLC057 for a collective on SBUF tiles that one core of a rank issues and the other does not. `cores` are the
    streams of one program."""
    if len(cores) < 2:
        return
    sequences = [[inst for inst in stream.collectives if _on_sbuf(stream, inst)] for stream in cores]
    short, long = sorted((0, 1), key=lambda core: len(sequences[core]))
    for position, inst in enumerate(sequences[long]):
        other = sequences[short][position] if position < len(sequences[short]) else None
        if other is not None and other.cc_channel == inst.cc_channel:
            continue
        related = (Related(f"core {short} issues {other.label} in its place", other.loc),) if other is not None else ()
        yield finding(
            "LLC057", core=long, other=short, inst=inst.label, ranks=cores[long].ranks, cores=(long,), loc=inst.loc,
            related=related,
        )  # fmt: skip
        return


def _on_sbuf(stream: Stream, inst: InstCollectiveCompute) -> bool:
    return not inst.is_local and not stream.scope.tensors[inst.dsts[0].tensor].memory.is_hbm
