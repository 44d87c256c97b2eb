"""What callers may write for an argument, brought to the one form that ops hold.

Integers may come from NumPy; booleans are not integers here. What the ops themselves refuse (a dimension out of range,
a rank that does not exist) passes through.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from operator import index
from typing import Any, Protocol, TypeVar

import numpy as np

from nkicc.ir.access import Register
from nkicc.ir.types import AluOp, DType, Groups, Pairs

from .source import refuse

__all__ = ["AluOpLike", "DTypeLike", "GroupsLike", "Mask"]


class HasGroups(Protocol):
    """A replica group object of a front end."""

    @property
    def groups(self) -> Sequence[Sequence[int]]: ...


AluOpLike = AluOp | str | None
#: Anything that `DType.of` knows.
DTypeLike = Any
GroupsLike = Sequence[Sequence[int]] | HasGroups
Mask = Register | bool | None

EnumT = TypeVar("EnumT", bound=Enum)

_ALU_OPS: dict[str | None, AluOp] = {op.value: op for op in AluOp} | {
    None: AluOp.bypass,
    "maximum": AluOp.max,
    "minimum": AluOp.min,
    "multiply": AluOp.mult,
}


def alu_op(op: AluOpLike, inst: str) -> AluOp:
    """An AluOp, its BIR value or its NKI name; None is bypass. NKC053 for anything else."""
    found = _ALU_OPS.get(op) if op is None or isinstance(op, str) else None
    if found is None:
        refuse("NKC053", op=op, inst=inst, operand="op")
    return found


def optional_data_type(dtype: DTypeLike) -> DType | None:
    """`data_type`, and None for None."""
    return None if dtype is None else data_type(dtype)


def data_type(dtype: DTypeLike) -> DType:
    """The DType of anything that names one. NKC028 if the machine has no such type."""
    try:
        return DType.of(dtype)
    except TypeError:
        refuse("NKC028", what="dtype", found=repr(dtype), operand="dtype")


def member(kind: type[EnumT], value: object, what: str) -> EnumT:
    """A member of an enum, given as such or by its value. NKC035 otherwise."""
    try:
        return kind(value)
    except ValueError:
        permitted = ", ".join(str(m.value) for m in kind)
        refuse("NKC035", inst="NeuronCodegen", what=what, found=value, permitted=permitted, operand=what)


def plain(value: Any) -> Any:
    """A NumPy integer as an int; everything else as it is."""
    return int(value) if isinstance(value, np.integer) else value


def integer(value: object, what: str, operand: str) -> int:
    """NKC075 unless `value` is an integer; `what` is the field's name in the original message."""
    try:
        return strict_int(value)
    except TypeError:
        refuse("NKC075", what=what, operand=operand)


def integers(values: object, what: str, operand: str) -> tuple[int, ...]:
    """A sequence of integers, or NKC075."""
    if not isinstance(values, Iterable):
        refuse("NKC075", what=what, operand=operand)
    return tuple([integer(value, what, operand) for value in values])


def replica_groups(groups: GroupsLike) -> Groups:
    """Groups as tuples of ints, the value itself if it is that already. NKC040 if it is nothing of the kind."""
    if is_canonical(groups):
        return groups  # type: ignore[return-value]
    try:
        return tuple([tuple([strict_int(rank) for rank in group]) for group in groups])  # type: ignore[union-attr]
    except TypeError:
        refuse("NKC040", groups=brief(groups), why="not a list of lists of ranks", operand="replica_groups")


def is_canonical(groups: object) -> bool:
    """Whether groups are tuples of ints throughout, and so can never change."""
    return type(groups) is tuple and all(type(g) is tuple and all(type(r) is int for r in g) for g in groups)


def source_target_pairs(pairs: Iterable[Sequence[int]]) -> Pairs:
    """Edges as tuples of two ints. NKC048 for one that is not."""
    result: list[tuple[int, int]] = []
    for pair in pairs if isinstance(pairs, Iterable) else (pairs,):
        try:
            source, target = pair
            result.append((strict_int(source), strict_int(target)))
        except (TypeError, ValueError):
            refuse("NKC048", pair=brief(pair), operand="src_tgt_pairs")
    return tuple(result)


def extents(sizes: Iterable[int]) -> tuple[int, ...]:
    """`broadcast_sizes` as non-negative ints, or NKC058."""
    try:
        result = tuple([strict_int(size) for size in sizes])
    except TypeError:
        result = (-1,)
    if any(size < 0 for size in result):
        refuse(
            "NKC058",
            inst="BroadcastOp",
            found=brief(sizes),
            expected="non-negative integers, one per member",
            operand="broadcast_sizes",
        )
    return result


def is_scalar(mask: object) -> bool:
    """Whether a mask is one value for the whole instruction: a constant or a register."""
    return mask is None or isinstance(mask, (Register, bool, int, np.bool_, np.integer))


def is_never(mask: object) -> bool:
    """Whether a mask is a constant that is false: the instruction is not inserted."""
    return isinstance(mask, (bool, int, np.bool_, np.integer)) and not mask


def strict_int(value: Any) -> int:
    """`value` as an int; TypeError for booleans and for what is no integer."""
    if type(value) is int:
        return value
    if isinstance(value, (bool, np.bool_)):
        raise TypeError("a boolean is not an integer here")
    return index(value)


def brief(value: object) -> str:
    """A value as text for a message, cut after 100 characters."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
