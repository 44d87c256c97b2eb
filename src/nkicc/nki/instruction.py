"""The handle of an inserted instruction."""

from __future__ import annotations

from typing import Any

from nkicc.builder import NeuronCodegen
from nkicc.builder.source import refuse
from nkicc.ir.penguin import AllGatherVOp, AlltoAllVOp

__all__ = ["NkiInstruction"]


class NkiInstruction:
    """What a call that inserts instructions returns. `count` of them stand at the end of the stream (one per channel of
    a permute); none for a prepare, whose op waits for its trigger."""

    __slots__ = ("_codegen", "_places", "prepared")

    def __init__(
        self, codegen: NeuronCodegen, count: int = 1, prepared: AllGatherVOp | AlltoAllVOp | None = None
    ) -> None:
        body, last = codegen.place()
        self._codegen = codegen
        self._places = [(body, last - k) for k in range(count)]
        self.prepared = prepared

    def depends_on(self, *producers: NkiInstruction, kind: Any = None) -> NkiInstruction:
        """Run after each producer: the instruction gets edges to them. A core runs in program order, so this changes no
        result. NKC035 unless they are earlier instructions of the same loop body or of one around it."""
        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                refuse("NKC035", inst="depends_on", what="producer", found=producer, permitted="an NkiInstruction")
            for place in self._places:
                self._codegen.add_edges(place, producer._places)
        return self
