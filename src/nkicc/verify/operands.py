"""Operands that no machine takes: kernel inputs and outputs, HBM tensors without a name, destinations that overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from msgspec import Struct

from nkicc.ir.access import AccessPattern
from nkicc.ir.bir import CollectiveKind, InstCollectiveCompute
from nkicc.ir.findings import Finding, Severity, finding
from nkicc.ir.program import LOOPS, Instruction, Program

from .regions import overlap
from .streams import Stream

__all__ = ["check_io_operands", "check_names", "check_overlaps"]

_IMPLICIT = frozenset({CollectiveKind.PermuteImplicit, CollectiveKind.PermuteReduceImplicit})
_FIX = {
    "input": "Copy it to an internal tensor in shared_hbm first (nisa.dma_copy) and give that to the collective.",
    "output": "Let the collective write an internal tensor in shared_hbm and copy that to the output (nisa.dma_copy).",
}


def check_io_operands(stream: Stream) -> Iterator[Finding]:
    """NKC140 for each kernel input or output that is the operand of a collective between ranks. A program that is
    nothing but instructions (no inputs, no outputs) has none."""
    roles = _roles(stream.program)
    for inst in stream.collectives if roles else ():
        if inst.is_local:
            continue
        for operand, aps in (("srcs", inst.srcs), ("dsts", inst.dsts)):
            for ap in aps:
                role = roles.get(ap.tensor)
                if role is not None:
                    yield finding(
                        "NKC140", inst=inst.label, name=ap.tensor, role=role, fix=_FIX[role], operand=operand,
                        ranks=stream.ranks, cores=(stream.core,), loc=inst.loc,
                    )  # fmt: skip


def check_names(stream: Stream) -> Iterator[Finding]:
    """NKC141, a warning, for each HBM operand of a collective to which the kernel gave no name."""
    tensors, roles = stream.scope.tensors, _roles(stream.program)
    for inst in stream.collectives:
        if inst.is_local:
            continue
        for operand, aps in (("srcs", inst.srcs), ("dsts", inst.dsts)):
            for ap in aps:
                tensor = tensors[ap.tensor]
                if tensor.memory.is_hbm and not tensor.named and ap.tensor not in roles:
                    yield finding(
                        "NKC141", Severity.warning, inst=inst.label, name=ap.tensor, operand=operand,
                        ranks=stream.ranks, cores=(stream.core,), loc=inst.loc,
                    )  # fmt: skip


def check_overlaps(stream: Stream) -> Iterator[Finding]:
    """NKC133 for a transfer that writes what another one writes or still has to read: the tensors of a list, and the
    channels of a step of a ring, move at the same time."""
    for transfers in _concurrent(stream.program.cores[stream.core].body):
        for one, other in permutations(transfers, 2):
            if one.index < other.index and overlap(one.dst, other.dst):
                yield _overlapping(stream, one, f"also what {other} writes")
            elif any(overlap(one.dst, src) for src in other.srcs):
                yield _overlapping(stream, one, f"what {other} reads")


class _Transfer(Struct, frozen=True):
    """One destination of a collective with its sources; `index` counts the transfers that run at the same time."""

    index: int
    inst: InstCollectiveCompute
    place: int
    dst: AccessPattern
    srcs: tuple[AccessPattern, ...]

    def __str__(self) -> str:
        line = f" at line {self.inst.loc.line}" if self.inst.loc is not None else ""
        channel = f"channel {self.inst.channel_id}" if self.inst.channel_id is not None else f"transfer {self.place}"
        return f"{channel} of {self.inst.label}{line}"


def _concurrent(body: Sequence[Instruction]) -> Iterator[list[_Transfer]]:
    """The transfers of each collective. A step of a ring is one instruction per channel, from one line."""
    together: list[_Transfer] = []
    for inst in body:
        if isinstance(inst, LOOPS):
            yield from _concurrent(inst.body)
        elif isinstance(inst, InstCollectiveCompute) and inst.metadata is None:
            if not (together and _is_next_channel(together[-1].inst, inst)):
                yield together
                together = []
            each = len(inst.srcs) // len(inst.dsts)
            for i, dst in enumerate(inst.dsts):
                together.append(_Transfer(len(together), inst, i, dst, inst.srcs[i * each : (i + 1) * each]))
        elif inst.reads() or inst.writes():
            yield together
            together = []
    yield together


def _is_next_channel(before: InstCollectiveCompute, inst: InstCollectiveCompute) -> bool:
    return (
        inst.kind in _IMPLICIT
        and before.channel_id is not None
        and (inst.kind, inst.channel_id, inst.loc) == (before.kind, before.channel_id + 1, before.loc)
        and inst.cc_channel.replica_groups == before.cc_channel.replica_groups
    )


def _overlapping(stream: Stream, one: _Transfer, what: str) -> Finding:
    return finding(
        "NKC133", inst=one.inst.label, name=one.dst.tensor, what=what, operand=f"dsts[{one.place}]",
        ranks=stream.ranks, cores=(stream.core,), loc=one.inst.loc,
    )  # fmt: skip


def _roles(program: Program) -> dict[str, str]:
    """Whether a tensor is an input or an output. What the kernel returns after writing its input is an output, too."""
    return {view.tensor: "output" for view in program.outputs} | dict.fromkeys(program.inputs, "input")
