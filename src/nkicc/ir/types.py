"""The closed sets and small values that every level of the IR shares."""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import Annotated

import ml_dtypes
import numpy as np
from msgspec import Meta, Struct

__all__ = [
    "COMMUTATIVE_REDUCERS",
    "MAX_RANKS",
    "ActFn",
    "AluOp",
    "DType",
    "Engine",
    "Groups",
    "Loc",
    "Memory",
    "NonNegative",
    "Pairs",
    "RegisterName",
    "Target",
    "TensorName",
    "World",
]

#: Replica groups: one inner tuple of global rank ids per group; the list order is the ring order.
Groups = tuple[tuple[int, ...], ...]
#: Explicit edges of a permute: (source rank, target rank).
Pairs = tuple[tuple[int, int], ...]
#: The name of a register of the same core.
RegisterName = Annotated[str, Meta(min_length=1)]
#: The name of a tensor, which access patterns bear.
TensorName = Annotated[str, Meta(min_length=1)]
NonNegative = Annotated[int, Meta(ge=0)]


class DType(str, Enum):
    """Element types, under their BIR names (`downstream` dtype table)."""

    uint8 = "uint8"
    int8 = "int8"
    float8e3 = "float8e3"
    float8e4 = "float8e4"
    float8_e4m3fn = "float8_e4m3fn"
    float8e5 = "float8e5"
    float8_e8m0fnu = "float8_e8m0fnu"
    uint16 = "uint16"
    int16 = "int16"
    bfloat16 = "bfloat16"
    float16 = "float16"
    uint32 = "uint32"
    int32 = "int32"
    float32 = "float32"
    uint64 = "uint64"
    int64 = "int64"

    @cached_property
    def numpy(self) -> np.dtype:
        """The NumPy dtype (from ml_dtypes where NumPy has none)."""
        return np.dtype(_ML_DTYPES.get(self.value, self.value))

    @cached_property
    def size(self) -> int:
        """Bytes per element."""
        return self.numpy.itemsize

    @cached_property
    def is_float(self) -> bool:
        return "float" in self.value

    @classmethod
    def of(cls, dtype: object) -> DType:
        """The DType of a DType, a name in BIR or NumPy spelling, or anything NumPy takes for a dtype.

        Raises TypeError for a dtype that has no BIR counterpart.
        """
        if isinstance(dtype, DType):
            return dtype
        try:
            found = _BY_NAME.get(dtype)  # type: ignore[arg-type]
        except TypeError:
            found = None
        if found is None:
            try:
                found = _BY_NAME.get(np.dtype(dtype).name)  # type: ignore[call-overload]
            except (TypeError, ValueError, SyntaxError):
                found = None
        if found is None:
            raise TypeError(f"{dtype!r} is not a data type of the machine; it has {', '.join(cls)}")
        return found


_ML_DTYPES = {
    "float8e3": ml_dtypes.float8_e3m4,
    "float8e4": ml_dtypes.float8_e4m3,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e5": ml_dtypes.float8_e5m2,
    "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "bfloat16": ml_dtypes.bfloat16,
}
_BY_NAME: dict[object, DType] = {name: d for d in DType for name in (d.value, d.numpy.name, d.numpy)}
# A truth value is a byte.
_BY_NAME["bool"] = DType.uint8


class Memory(str, Enum):
    """Where a tensor lives. SBUF, PSUM and private HBM belong to one core, shared HBM to the cores of a rank."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    @property
    def is_hbm(self) -> bool:
        return self is Memory.shared_hbm or self is Memory.private_hbm


class Engine(str, Enum):
    """Engines under their BIR names; `all` is the pseudo engine of the rank instructions."""

    unassigned = "Unassigned"
    pool = "Pool"
    activation = "Activation"
    pe = "PE"
    dma = "DMA"
    dve = "DVE"
    sp = "SP"
    all = "ALL"


class AluOp(str, Enum):
    """ALU operations under their BIR names."""

    bypass = "bypass"
    bitwise_not = "bitwise_not"
    arith_shift_left = "arith_shift_left"
    arith_shift_right = "arith_shift_right"
    add = "add"
    subtract = "subtract"
    mult = "mult"
    divide = "divide"
    max = "max"
    min = "min"
    bitwise_and = "bitwise_and"
    bitwise_or = "bitwise_or"
    bitwise_xor = "bitwise_xor"
    logical_and = "logical_and"
    logical_or = "logical_or"
    logical_xor = "logical_xor"
    logical_shift_left = "logical_shift_left"
    logical_shift_right = "logical_shift_right"
    is_equal = "is_equal"
    not_equal = "not_equal"
    is_gt = "is_gt"
    is_ge = "is_ge"
    is_lt = "is_lt"
    is_le = "is_le"
    average = "average"
    elemwise_mul = "elemwise_mul"
    pow = "pow"
    mod = "mod"
    rsqrt = "rsqrt"
    reciprocal = "reciprocal"
    abs = "abs"
    square = "square"
    relu = "relu"
    abs_max = "abs_max"
    abs_min = "abs_min"
    mod_int = "mod_int"


#: What the collective engine can fold with (add, max and min; everything else is refused).
COMMUTATIVE_REDUCERS = frozenset({AluOp.add, AluOp.max, AluOp.min})


class ActFn(str, Enum):
    """Functions of the scalar engine (NKI documentation, "Supported Activation Functions")."""

    copy = "copy"
    abs = "abs"
    sign = "sign"
    square = "square"
    sqrt = "sqrt"
    rsqrt = "rsqrt"
    reciprocal = "reciprocal"
    exp = "exp"
    log = "log"
    sin = "sin"
    arctan = "arctan"
    erf = "erf"
    erf_dx = "erf_dx"
    relu = "relu"
    prelu = "prelu"
    sigmoid = "sigmoid"
    tanh = "tanh"
    softplus = "softplus"
    mish = "mish"
    silu = "silu"
    silu_dx = "silu_dx"
    gelu = "gelu"
    gelu_dx = "gelu_dx"
    gelu_apprx_tanh = "gelu_apprx_tanh"
    gelu_apprx_sigmoid = "gelu_apprx_sigmoid"
    gelu_apprx_sigmoid_dx = "gelu_apprx_sigmoid_dx"


class Target(str, Enum):
    """Machine generations. `arch` is the BIR architecture level (20, 30, 40)."""

    trn1 = "trn1"
    trn2 = "trn2"
    trn3 = "trn3"

    @property
    def arch(self) -> int:
        return {"trn1": 20, "trn2": 30, "trn3": 40}[self.value]

    @property
    def nc_version(self) -> int:
        """NeuronCore version as kernels compare it: 2, 3 or 4."""
        return self.arch // 10

    @property
    def sbuf_partition_bytes(self) -> int:
        """Usable SBUF bytes per partition (KLR's table)."""
        return {"trn1": 180_224, "trn2": 212_984, "trn3": 245_752}[self.value]

    @property
    def psum_partition_bytes(self) -> int:
        """PSUM bytes per partition: 8 banks of 2 KiB."""
        return 16_384


class Loc(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A line of the user's source: where an instruction, a tensor or an error comes from."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


#: No machine has a million logical cores; a list of all ranks still fits anywhere.
MAX_RANKS = 1 << 20


class World(Struct, frozen=True, forbid_unknown_fields=True):
    """`ranks` logical cores of `lnc` physical cores each; rank = physical core // lnc."""

    ranks: Annotated[int, Meta(ge=1, le=MAX_RANKS)]
    lnc: Annotated[int, Meta(ge=1, le=2)] = 1

    @property
    def is_possible(self) -> bool:
        """Whether the numbers are ones that a world can have; only JSON is held to them when a world is made."""
        return type(self.ranks) is type(self.lnc) is int and 1 <= self.ranks <= MAX_RANKS and self.lnc in (1, 2)
