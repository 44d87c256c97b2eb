"""Memory that nobody has written.

A tensor that is filled part by part has a shadow, a buffer with one flag per element: 1 where nothing has been written.
Tensors whose first write covers them, the usual case, have none. Copies and collectives carry the flags along, so that
a tile loaded with its padding is no finding; arithmetic on a flagged element is (NKC121), and so is a result that keeps
flags (NKC122).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Never

import numpy as np

from nkicc.ir import isa
from nkicc.ir.base import Inst, show_ranks
from nkicc.ir.errors import fail

from .memory import AnyView
from .rules import Step

__all__ = [
    "copy_of_flags",
    "expected",
    "first_of",
    "flags_of",
    "is_open",
    "move",
    "refuse",
    "settle",
    "shade",
    "stored",
    "wrap",
]

Array = np.ndarray
_WRITTEN = np.zeros((1, 1), np.uint8)

#: Instructions that move elements as they are, and how the flags of the source become those of the destination.
_COPIES: dict[type[Inst], Callable[[Inst, Array], Array]] = {
    isa.InstDMACopy: lambda inst, flags: flags,
    isa.InstTensorCopy: lambda inst, flags: flags,
    isa.InstTranspose: lambda inst, flags: flags.reshape(*flags.shape[:2], -1).swapaxes(1, 2),
    isa.InstDMATranspose: lambda inst, flags: flags.transpose(0, *[axis + 1 for axis in inst.axes]),  # type: ignore[attr-defined]
}
#: Instructions that pick elements by content: what they do not pick does not matter.
_PICKS = frozenset({isa.InstStreamShuffle, isa.InstLocalGather, isa.InstNGather, isa.InstTensorCopyPredicated})


def flags_of(view: AnyView) -> Array | None:
    """Flags of the view's elements, (rows, *shape), or None if all have been written as far as is known."""
    buffer = view.buffer
    if buffer.shadow is None:
        if not buffer.is_fresh:
            return None
        buffer.shadow = buffer.flags(1)
    if view.dtype.itemsize != buffer.dtype.itemsize:
        return None
    flags = view.on(buffer.shadow).read()
    return flags if flags.any() else None


def copy_of_flags(view: AnyView) -> Array | None:
    """`flags_of`, to keep while the tensor is written."""
    flags = flags_of(view)
    return None if flags is None else flags.copy()


def is_open(view: AnyView) -> bool:
    """Whether something of the view's tensor may be unwritten."""
    return view.buffer.shadow is not None or view.buffer.is_fresh


def shade(view: AnyView) -> AnyView:
    """The flags of the view's elements as a view, to be written; the tensor gets a shadow if it has none."""
    buffer = view.buffer
    if buffer.shadow is None:
        buffer.shadow = buffer.flags(1 if buffer.is_fresh else 0)
    return view.on(buffer.shadow)


def settle(view: AnyView) -> None:
    """Drop the shadow of the view's tensor if nothing of it is flagged any more."""
    shadow = view.buffer.shadow
    if shadow is not None and not shadow.allocated().any():
        view.buffer.shadow = None


def move(source: AnyView, target: AnyView, checked: bool) -> None:
    """target = source, and the flags likewise if they are kept."""
    flags = copy_of_flags(source) if checked else None
    if checked:
        expected(target)
    target.write(source.read())
    stored(target, flags)


def expected(view: AnyView) -> None:
    """A write is about to come: a fresh tensor of which it is a part gets a shadow."""
    buffer = view.buffer
    if buffer.shadow is None and buffer.is_fresh and not view.covers:
        buffer.shadow = buffer.flags(1)


def stored(view: AnyView, flags: Array | None = None) -> None:
    """A write has come, of elements that are flagged as `flags` says (None: none of them)."""
    buffer = view.buffer
    if flags is None:
        if buffer.shadow is None:
            return
        if (view.covers and view.lanes.active is None) or view.dtype.itemsize != buffer.dtype.itemsize:
            buffer.shadow = None
            return
        flags = _WRITTEN
    elif buffer.shadow is None:
        buffer.shadow = buffer.flags(0)
    twin = view.on(buffer.shadow)
    if flags is _WRITTEN:
        twin.write(np.broadcast_to(np.uint8(0), (1, *view.shape)))
    else:
        twin.write(flags)


def first_of(flags: Array, ranks: Array) -> tuple[tuple[int, ...], list[int]]:
    """Index of the first flagged element, and the ranks that have flagged elements."""
    rows = np.flatnonzero(flags.reshape(len(flags), -1).any(axis=1))
    index = np.unravel_index(int(np.argmax(flags[rows[0]])), flags.shape[1:])
    return tuple(int(i) for i in index), (ranks if len(flags) == 1 else ranks[rows]).tolist()


def wrap(inst: Inst, reads: Sequence[AnyView], writes: Sequence[AnyView], step: Step) -> Step:
    """`step` with its reads checked and its writes noted."""
    copy = _COPIES.get(type(inst))
    if copy is not None and len(reads) == 1 and len(writes) == 1:
        return _wrap_copy(inst, copy, reads[0], writes[0], step)
    checked = () if type(inst) in _PICKS else reads
    buffers = [view.buffer for view in (*checked, *writes)]

    def run() -> None:
        for buffer in buffers:
            # Its shadow, or the one it is about to get, has to be looked at.
            if buffer.data is None or buffer.shadow is not None:
                _look(inst, checked, writes, step)
                return
        step()

    return run


def _look(inst: Inst, reads: Sequence[AnyView], writes: Sequence[AnyView], step: Step) -> None:
    for view in reads:
        flags = flags_of(view)
        if flags is not None:
            refuse(inst, view, flags)
    for view in writes:
        expected(view)
    step()
    for view in writes:
        stored(view)


def _wrap_copy(inst: Inst, copy: Callable[[Inst, Array], Array], source: AnyView, target: AnyView, step: Step) -> Step:
    src, dst = source.buffer, target.buffer

    def run() -> None:
        if src.shadow is None and dst.shadow is None and not src.is_fresh and (target.covers or not dst.is_fresh):
            step()
            return
        flags = flags_of(source)
        expected(target)
        step()
        stored(target, None if flags is None else copy(inst, flags).reshape(len(flags), *target.shape).copy())

    return run


def refuse(inst: Inst, view: AnyView, flags: Array) -> Never:
    """NKC121: an instruction uses what is flagged."""
    index, ranks = first_of(flags, view.buffer.ranks)
    count = int(flags.reshape(len(flags), -1).sum(axis=1).max())
    fail(
        "NKC121", inst=inst.label, name=view.buffer.tensor.name, index=list(index), count=count,
        ranks=show_ranks(ranks), operand=view.buffer.tensor.name, loc=inst.loc,
    )  # fmt: skip
