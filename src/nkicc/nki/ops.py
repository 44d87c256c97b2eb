"""The operations of `nki.language`: tokens that name an instruction's operation, and functions of tiles when called.

As a function an operation works element by element and returns a new tile in SBUF. Its dtype is that of the input, of
two inputs the wider one, and floating before integer; `dtype` asks for another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from nkicc.builder.source import refuse
from nkicc.ir.isa import InstActivation, InstTensorCopy, InstTensorScalar, InstTensorTensor
from nkicc.ir.types import ActFn, AluOp

from .tensor import ndarray
from .trace import current

__all__ = ["OPS", "Op", "logical_not", "negative"]


class Op(Struct, frozen=True):
    """The name of an operation, as an argument of an instruction. `alu` is what the vector engines do for it, `act` the
    scalar engine's function; an instruction refuses a token that its engine has nothing for.

    Called with tiles (and numbers) it is a function, of one operand or of two (`unary`).
    """

    name: str
    alu: AluOp | None = None
    act: ActFn | None = None
    unary: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> ndarray:
        """NKC008 for a token that names no function, NKC035 if no operand is a tile."""
        return _unary(self, *args, **kwargs) if self.unary else _binary(self, *args, **kwargs)


def _unary(op: Op, x: ndarray, dtype: Any = None) -> ndarray:
    x = tile(x, op.name)
    out = result(x.shape, x.dtype if dtype is None else dtype)
    if op.act is ActFn.copy:
        inst = InstTensorCopy(dst=out.__access__(), src=x.__access__())
    elif op.act is not None:
        inst = InstActivation(dst=out.__access__(), data=x.__access__(), func=op.act)
    elif op.alu is not None:
        inst = InstTensorScalar(dst=out.__access__(), data=x.__access__(), op0=op.alu)
    else:
        refuse("NKC008", what=f"calling nl.{op.name}", instead="Pass it as the op of an nki.isa call.")
    current(f"nl.{op.name}").codegen.insert(inst)
    return out


def _binary(op: Op, x: Any, y: Any, dtype: Any = None) -> ndarray:
    if op.alu is None or op.alu is AluOp.bypass:
        refuse("NKC008", what=f"calling nl.{op.name}", instead="Pass it as the op of an nki.isa call.")
    if isinstance(x, ndarray) and isinstance(y, ndarray):
        x, y = stretched(op.name, x, y)
        out = result(x.shape, wider(x.dtype, y.dtype) if dtype is None else dtype)
        inst = InstTensorTensor(dst=out.__access__(), data1=x.__access__(), data2=y.__access__(), op=op.alu)
    else:
        reverse = isinstance(y, ndarray)
        data = tile(y if reverse else x, op.name)
        operand = number(x if reverse else y, op.name)
        out = result(data.shape, data.dtype if dtype is None else dtype)
        inst = InstTensorScalar(
            dst=out.__access__(), data=data.__access__(), op0=op.alu, operand0=operand, reverse0=reverse
        )
    current(f"nl.{op.name}").codegen.insert(inst)
    return out


def tile(value: Any, function: str) -> ndarray:
    """NKC035 unless `value` is a tensor."""
    if not isinstance(value, ndarray):
        refuse("NKC035", inst=f"nl.{function}", what="operand", found=value, permitted="a tile", operand="x")
    return value


def number(value: Any, function: str) -> int | float:
    """A number of Python. NKC035 for anything else."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, int | float):
        refuse("NKC035", inst=f"nl.{function}", what="operand", found=value, permitted="a tile or a number")
    return plain


def result(shape: tuple[int, ...], dtype: Any) -> ndarray:
    """A new tile in SBUF."""
    return ndarray(shape, dtype)


def wider(a: np.dtype, b: np.dtype) -> np.dtype:
    """The type of the two that holds more: floating before integer, then the larger; the first of equals."""
    rank = [(dtype.kind not in "iu", dtype.itemsize) for dtype in (a, b)]
    return b if rank[1] > rank[0] else a


def stretched(function: str, x: ndarray, y: ndarray) -> tuple[ndarray, ndarray]:
    """Both tiles as views of one shape: free dimensions of extent 1 are repeated. NKC033 where that is not enough."""
    if x.shape == y.shape:
        return x, y
    if x.ndim == y.ndim and x.shape[0] == y.shape[0]:
        for dim, (a, b) in enumerate(zip(x.shape, y.shape, strict=True)):
            if a == 1 != b:
                x = x.broadcast(dim, b)
            elif b == 1 != a:
                y = y.broadcast(dim, a)
    if x.shape != y.shape:
        refuse(
            "NKC033",
            inst=f"nl.{function}",
            what=repr(y.name),
            found=y.shape,
            expected=x.shape,
            why="(equal, or 1 in a free dimension)",
            operand="y",
        )
    return x, y


def negative(x: ndarray, dtype: Any = None) -> ndarray:
    """-x."""
    return _binary(OPS["multiply"], tile(x, "negative"), -1, dtype)


def logical_not(x: ndarray, dtype: Any = None) -> ndarray:
    """x XOR 1 in the sense of logic: 1 where x is 0, else 0."""
    return _binary(OPS["logical_xor"], tile(x, "logical_not"), 1, dtype)


def _ops() -> dict[str, Op]:
    binary: dict[str, AluOp] = {
        "add": AluOp.add,
        "subtract": AluOp.subtract,
        "multiply": AluOp.mult,
        "divide": AluOp.divide,
        "maximum": AluOp.max,
        "minimum": AluOp.min,
        "power": AluOp.pow,
        "mod": AluOp.mod,
        "average": AluOp.average,
        "abs_max": AluOp.abs_max,
        "abs_min": AluOp.abs_min,
        "equal": AluOp.is_equal,
        "not_equal": AluOp.not_equal,
        "greater": AluOp.is_gt,
        "greater_equal": AluOp.is_ge,
        "less": AluOp.is_lt,
        "less_equal": AluOp.is_le,
        "logical_and": AluOp.logical_and,
        "logical_or": AluOp.logical_or,
        "logical_xor": AluOp.logical_xor,
        "bitwise_and": AluOp.bitwise_and,
        "bitwise_or": AluOp.bitwise_or,
        "bitwise_xor": AluOp.bitwise_xor,
        "left_shift": AluOp.logical_shift_left,
        "right_shift": AluOp.logical_shift_right,
        "bypass": AluOp.bypass,
    }
    ops = {name: Op(name, alu) for name, alu in binary.items()}
    ops["invert"] = Op("invert", AluOp.bitwise_not, unary=True)
    for act in ActFn:
        # Some functions are operations of the vector engines, too.
        alu = AluOp.__members__.get(act.name) if act is not ActFn.copy else None
        ops[act.name] = Op(act.name, alu, act, unary=True)
    return ops


#: Every operation by its name in `nki.language`.
OPS: dict[str, Op] = _ops()
