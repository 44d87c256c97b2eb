"""From what a caller holds to the operands of ops: nd access patterns, whole HBM tensors, combined tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from nkicc.ir.access import AccessPattern, Tensor
from nkicc.ir.penguin import HbmTensor

from .source import refuse

__all__ = ["Operand", "Operands", "Tiles", "View"]


class View(Protocol):
    """Anything with an access pattern: what the tensor class of a front end implements."""

    def __access__(self) -> AccessPattern: ...


Operand = Tensor | AccessPattern | View
#: One operand or several.
Operands = Operand | Sequence[Operand]
#: One view, or the tiles that make it up.
Tiles = Operand | Sequence[Operand]


def to_access(operand: object, tensors: Mapping[str, Tensor], role: str) -> AccessPattern:
    """The access pattern of one operand. NKC035 for what is none, NKC023 for a tensor that the core does not have."""
    kind = type(operand)
    if isinstance(operand, AccessPattern):
        return operand
    if isinstance(operand, Tensor):
        known = tensors.get(operand.name)
        if known is not operand and (known is None or not same_declaration(known, operand)):
            refuse("NKC023", name=operand.name, operand=role)
        return operand.full()
    convert = getattr(kind, "__access__", None)
    if convert is None:
        refuse(
            "NKC035",
            inst="NeuronCodegen",
            what=role,
            found=kind.__name__,
            permitted="a tensor or a view of one",
            operand=role,
        )
    return convert(operand)


def to_hbm_tensor(operand: object, tensors: Mapping[str, Tensor], inst: str, role: str) -> HbmTensor:
    """A whole HBM tensor. NKC057 for a view or a tile of one, and for a tensor elsewhere."""
    view = to_access(operand, tensors, role)
    tensor = tensors.get(view.tensor)
    if tensor is None:
        refuse("NKC023", name=view.tensor, operand=role)
    found = ""
    if not tensor.memory.is_hbm:
        found = f"in {tensor.memory.value}"
    elif not view.is_full(tensor):
        found = f"a view: pattern {list(map(list, view.pattern))} at offset {view.offset} of shape {tensor.shape}"
    if found:
        refuse("NKC057", inst=inst, name=view.tensor, found=found, operand=role)
    return HbmTensor(view.tensor, view.shape)


def as_list(operands: object) -> Sequence[object]:
    """Several operands, or one as a list of one."""
    return operands if type(operands) in (list, tuple) else (operands,)  # type: ignore[return-value]


def combine(tiles: Sequence[AccessPattern], role: str) -> AccessPattern:
    """One access pattern over equal tiles of one tensor that follow each other at a constant distance: an outer pair
    (distance, number of tiles) before the pattern of a tile. A single tile is returned as it is.

    NKC060 for a tile with a dynamic offset, NKC062 for tiles that do not line up.
    """
    dynamic = [tile.tensor for tile in tiles if tile.is_dynamic]
    if dynamic:
        refuse("NKC060", operands=", ".join(dict.fromkeys(dynamic)), operand=role)
    if len(tiles) == 1:
        return tiles[0]
    if not tiles:
        refuse("NKC062", inst="combine_tiles", operand=role)
    first = tiles[0]
    step = tiles[1].offset - first.offset
    expected = [msgspec.structs.replace(first, offset=first.offset + k * step) for k in range(len(tiles))]
    if step == 0 or list(tiles) != expected:
        refuse("NKC062", inst="combine_tiles", operand=role)
    return msgspec.structs.replace(first, pattern=((step, len(tiles)), *first.pattern))


def same_declaration(left: Tensor, right: Tensor) -> bool:
    """Whether two declarations are of one tensor, wherever they were written."""
    return (left.shape, left.dtype, left.memory) == (right.shape, right.dtype, right.memory)


def declaration(tensor: Tensor) -> str:
    """Type, shape and memory of a tensor, for messages."""
    return f"{tensor.dtype.value}{list(tensor.shape)} in {tensor.memory.value}"
