"""`nki.language`: tensors, buffers, data types, ranges, program ids and op tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Never

from msgspec import Struct

from nkicc.builder.source import refuse
from nkicc.ir.isa import InstMemset
from nkicc.ir.types import ActFn, AluOp, Memory

from .dtype import (
    bfloat16,
    float8_e4m3,
    float8_e4m3fn,
    float8_e5m2,
    float8_e8m0fnu,
    float16,
    float32,
    int8,
    int16,
    int32,
    uint8,
    uint16,
    uint32,
)
from .missing import refuse_unknown
from .tensor import Register, ds, ndarray
from .trace import current

__all__ = [
    "NKIObject",
    "Op",
    "abs",
    "abs_max",
    "abs_min",
    "add",
    "affine_range",
    "bfloat16",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "copy",
    "divide",
    "ds",
    "empty_like",
    "equal",
    "exp",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "fori_loop",
    "full",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_tanh",
    "greater",
    "greater_equal",
    "hbm",
    "int8",
    "int16",
    "int32",
    "invert",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "ndarray",
    "no_reorder",
    "not_equal",
    "num_programs",
    "ones",
    "power",
    "private_hbm",
    "program_id",
    "program_ndim",
    "psum",
    "reciprocal",
    "relu",
    "right_shift",
    "rsqrt",
    "sbuf",
    "sequential_range",
    "shared_hbm",
    "sigmoid",
    "silu",
    "sqrt",
    "square",
    "static_range",
    "subtract",
    "tanh",
    "tile_size",
    "uint8",
    "uint16",
    "uint32",
    "zeros",
    "zeros_like",
]

# --- buffers ---------------------------------------------------------------------------------------------------------

sbuf = Memory.sbuf
psum = Memory.psum
private_hbm = Memory.private_hbm
hbm = private_hbm
shared_hbm = Memory.shared_hbm


# --- op tokens -------------------------------------------------------------------------------------------------------


class Op(Struct, frozen=True):
    """The name of an operation, as an argument of an instruction. `alu` is what the vector engines do for it, `act` the
    scalar engine's function; an instruction refuses a token that its engine has nothing for."""

    name: str
    alu: AluOp | None = None
    act: ActFn | None = None

    def __call__(self, *_: Any, **__: Any) -> Never:
        refuse("NKC008", what=f"calling nl.{self.name}", instead="Pass it as the op of an nki.isa call.")


add = Op("add", AluOp.add)
subtract = Op("subtract", AluOp.subtract)
multiply = Op("multiply", AluOp.mult)
divide = Op("divide", AluOp.divide)
maximum = Op("maximum", AluOp.max)
minimum = Op("minimum", AluOp.min)
power = Op("power", AluOp.pow)
mod = Op("mod", AluOp.mod)
abs_max = Op("abs_max", AluOp.abs_max)
abs_min = Op("abs_min", AluOp.abs_min)
equal = Op("equal", AluOp.is_equal)
not_equal = Op("not_equal", AluOp.not_equal)
greater = Op("greater", AluOp.is_gt)
greater_equal = Op("greater_equal", AluOp.is_ge)
less = Op("less", AluOp.is_lt)
less_equal = Op("less_equal", AluOp.is_le)
logical_and = Op("logical_and", AluOp.logical_and)
logical_or = Op("logical_or", AluOp.logical_or)
logical_xor = Op("logical_xor", AluOp.logical_xor)
bitwise_and = Op("bitwise_and", AluOp.bitwise_and)
bitwise_or = Op("bitwise_or", AluOp.bitwise_or)
bitwise_xor = Op("bitwise_xor", AluOp.bitwise_xor)
invert = Op("invert", AluOp.bitwise_not)
left_shift = Op("left_shift", AluOp.logical_shift_left)
right_shift = Op("right_shift", AluOp.logical_shift_right)
abs = Op("abs", AluOp.abs, ActFn.abs)
rsqrt = Op("rsqrt", AluOp.rsqrt, ActFn.rsqrt)
copy = Op("copy", None, ActFn.copy)
exp = Op("exp", None, ActFn.exp)
log = Op("log", None, ActFn.log)
sqrt = Op("sqrt", None, ActFn.sqrt)
square = Op("square", None, ActFn.square)
reciprocal = Op("reciprocal", None, ActFn.reciprocal)
relu = Op("relu", None, ActFn.relu)
sigmoid = Op("sigmoid", None, ActFn.sigmoid)
tanh = Op("tanh", None, ActFn.tanh)
silu = Op("silu", None, ActFn.silu)
gelu = Op("gelu", None, ActFn.gelu)
# Kernels put these two in tables when they are imported; no instruction here does them.
gelu_apprx_tanh = Op("gelu_apprx_tanh")
gelu_apprx_sigmoid = Op("gelu_apprx_sigmoid")


# --- tensors ---------------------------------------------------------------------------------------------------------


def full(shape: Sequence[int], fill_value: float, dtype: Any, buffer: Memory = sbuf, name: str = "") -> ndarray:
    """A tensor with every element set to `fill_value`. Errors as those of `ndarray`."""
    tensor = ndarray(shape, dtype, buffer, name)
    current("nl.full").codegen.insert(InstMemset(dst=tensor.__access__(), value=fill_value))
    return tensor


def zeros(shape: Sequence[int], dtype: Any, buffer: Memory = sbuf, name: str = "") -> ndarray:
    """A tensor of zeros."""
    return full(shape, 0, dtype, buffer, name)


def ones(shape: Sequence[int], dtype: Any, buffer: Memory = sbuf, name: str = "") -> ndarray:
    """A tensor of ones."""
    return full(shape, 1, dtype, buffer, name)


def empty_like(x: ndarray, dtype: Any = None, buffer: Memory | None = None, name: str = "") -> ndarray:
    """An uninitialised tensor with the shape of `x` and, unless given, its dtype and buffer."""
    return ndarray(x.shape, x.dtype if dtype is None else dtype, x.buffer if buffer is None else buffer, name)


def zeros_like(x: ndarray, dtype: Any = None, buffer: Memory | None = None, name: str = "") -> ndarray:
    """A tensor of zeros with the shape of `x` and, unless given, its dtype and buffer."""
    return zeros(x.shape, x.dtype if dtype is None else dtype, x.buffer if buffer is None else buffer, name)


class NKIObject:
    """Base of a kernel author's own classes, which pass through a kernel as constants."""


# --- programs and loops ----------------------------------------------------------------------------------------------

#: Loops of a kernel are unrolled while it is traced.
affine_range = sequential_range = static_range = range


def program_ndim() -> int:
    """Number of grid dimensions: 1, or 0 for a kernel that was launched without a grid."""
    return 0 if current("nl.program_ndim").grid is None else 1


def num_programs(axes: int = 0) -> int:
    """Number of programs: the physical cores of a rank. NKC088 for an axis other than 0."""
    _check_axis(axes)
    return current("nl.num_programs").grid or 1


def program_id(axis: int = 0) -> int:
    """Which of them this is. NKC088 for an axis other than 0."""
    _check_axis(axis)
    return current("nl.program_id").core


def _check_axis(axis: object) -> None:
    if type(axis) is not int or axis != 0:
        refuse("NKC088", axis=axis, axes="axis 0", operand="axis")


def fori_loop(lower: int | Register, upper: int | Register, body: Callable[[Register], object], step: int = 1) -> None:
    """A loop of the device: `body` is traced once, with the register that counts from `lower` to before `upper`."""
    start, stop = (bound.register if isinstance(bound, Register) else bound for bound in (lower, upper))
    with current("nl.fori_loop").codegen.loop(start, stop, step) as register:
        body(Register(register))


@contextmanager
def no_reorder() -> Iterator[None]:
    """Instructions inside keep their order, as they do everywhere here."""
    yield


class _TileSize:
    """Limits of the machine; those that differ between targets are known inside a kernel only (NKC009)."""

    pmax = 128
    psum_fmax = psum_bank_fmax = 512
    psum_bank_fmax_bytes = 2048
    psum_num_banks = 8
    psum_min_align = 4
    sbuf_min_align = 1
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512
    bn_stats_fmax = 512

    @property
    def total_available_sbuf_size(self) -> int:
        """Bytes per partition."""
        return current("nl.tile_size.total_available_sbuf_size").target.sbuf_partition_bytes

    sbuf_fmax_bytes = total_available_sbuf_size

    @property
    def sbuf_fmax(self) -> int:
        """float32 elements per partition."""
        return self.total_available_sbuf_size // 4

    @property
    def sbuf_size_bytes(self) -> int:
        """Bytes of all partitions."""
        return self.total_available_sbuf_size * self.pmax


tile_size = _TileSize()

__getattr__ = refuse_unknown("nki.language")
