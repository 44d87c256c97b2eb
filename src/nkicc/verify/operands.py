"""Operands that no machine takes: kernel inputs and outputs, and HBM tensors without a name."""

from __future__ import annotations

from collections.abc import Iterator

from nkicc.ir.findings import Finding, Severity, finding
from nkicc.ir.program import Program

from .streams import Stream

__all__ = ["check_io_operands", "check_names"]

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


def _roles(program: Program) -> dict[str, str]:
    """Whether a tensor is an input or an output. What the kernel returns after writing its input is an output, too."""
    return {view.tensor: "output" for view in program.outputs} | dict.fromkeys(program.inputs, "input")
