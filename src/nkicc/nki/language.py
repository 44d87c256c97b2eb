"""`nki.language`: tensors, buffers, data types, operations, loops and program ids, as a kernel imports them."""

from __future__ import annotations

import os
from builtins import bool as _bool
from typing import Any

from nkicc.ir.types import Memory

from .creation import (
    device_print,
    empty_like,
    full,
    ones,
    shared_constant,
    shared_identity_matrix,
    zeros,
    zeros_like,
)
from .dtype import (
    bfloat16,
    bool_,
    float4_e2m1fn_x4,
    float8_e4m3,
    float8_e4m3fn,
    float8_e4m3fn_x4,
    float8_e5m2,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from .loops import (
    affine_range,
    dynamic_range,
    fori_loop,
    no_reorder,
    num_programs,
    program_id,
    program_ndim,
    sequential_range,
    static_range,
    while_loop,
)
from .missing import refuse_unknown
from .ops import OPS, Op, logical_not, negative
from .tensor import ds, ndarray
from .tiles import (
    all,
    broadcast_to,
    expand_dims,
    load,
    load_transpose2d,
    matmul,
    max,
    mean,
    min,
    prod,
    rms_norm,
    softmax,
    store,
    sum,
    transpose,
    var,
    where,
)
from .trace import current

__all__ = [
    "MemoryRegion",
    "NKIObject",
    "NkiTensor",
    "Op",
    "abs",
    "abs_max",
    "abs_min",
    "add",
    "affine_range",
    "all",
    "arctan",
    "average",
    "bfloat16",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bool",
    "bool_",
    "broadcast_to",
    "bypass",
    "copy",
    "device_print",
    "divide",
    "ds",
    "dynamic_range",
    "empty_like",
    "equal",
    "erf",
    "erf_dx",
    "exp",
    "expand_dims",
    "float4_e2m1fn_x4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fn_x4",
    "float8_e5m2",
    "float8_e5m2_x4",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "fori_loop",
    "full",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "gelu_apprx_tanh",
    "gelu_dx",
    "greater",
    "greater_equal",
    "hbm",
    "int8",
    "int16",
    "int32",
    "int64",
    "invert",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "left_shift",
    "less",
    "less_equal",
    "load",
    "load_transpose2d",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mish",
    "mod",
    "multiply",
    "ndarray",
    "negative",
    "no_reorder",
    "not_equal",
    "num_programs",
    "ones",
    "power",
    "prelu",
    "private_hbm",
    "prod",
    "program_id",
    "program_ndim",
    "psum",
    "range",
    "reciprocal",
    "relu",
    "right_shift",
    "rms_norm",
    "rsqrt",
    "sbuf",
    "sequential_range",
    "shared_constant",
    "shared_hbm",
    "shared_identity_matrix",
    "sigmoid",
    "sign",
    "silu",
    "silu_dx",
    "sin",
    "softmax",
    "softplus",
    "sqrt",
    "square",
    "static_range",
    "store",
    "subtract",
    "sum",
    "tanh",
    "tensor",
    "tfloat32",
    "tile_size",
    "transpose",
    "uint8",
    "uint16",
    "uint32",
    "var",
    "where",
    "while_loop",
    "zeros",
    "zeros_like",
]

#: Names that kernels use beside those of the documentation.
NkiTensor = tensor = ndarray
bool = bool_
range = range

# --- buffers ---------------------------------------------------------------------------------------------------------

MemoryRegion = Memory
sbuf = Memory.sbuf
psum = Memory.psum
private_hbm = Memory.private_hbm
hbm = private_hbm
shared_hbm = Memory.shared_hbm


def is_sbuf(buffer: Memory) -> _bool:
    """Whether a tensor's buffer is SBUF."""
    return buffer is sbuf


def is_psum(buffer: Memory) -> _bool:
    """Whether a tensor's buffer is PSUM."""
    return buffer is psum


def is_hbm(buffer: Memory) -> _bool:
    """Whether a tensor's buffer is HBM, private or shared."""
    return buffer in (private_hbm, shared_hbm)


def is_on_chip(buffer: Memory) -> _bool:
    """Whether a tensor's buffer is SBUF or PSUM."""
    return buffer in (sbuf, psum)


# --- operations ------------------------------------------------------------------------------------------------------

add = OPS["add"]
subtract = OPS["subtract"]
multiply = OPS["multiply"]
divide = OPS["divide"]
maximum = OPS["maximum"]
minimum = OPS["minimum"]
power = OPS["power"]
mod = OPS["mod"]
average = OPS["average"]
abs_max = OPS["abs_max"]
abs_min = OPS["abs_min"]
equal = OPS["equal"]
not_equal = OPS["not_equal"]
greater = OPS["greater"]
greater_equal = OPS["greater_equal"]
less = OPS["less"]
less_equal = OPS["less_equal"]
logical_and = OPS["logical_and"]
logical_or = OPS["logical_or"]
logical_xor = OPS["logical_xor"]
bitwise_and = OPS["bitwise_and"]
bitwise_or = OPS["bitwise_or"]
bitwise_xor = OPS["bitwise_xor"]
left_shift = OPS["left_shift"]
right_shift = OPS["right_shift"]
bypass = OPS["bypass"]
invert = OPS["invert"]
abs = OPS["abs"]
sign = OPS["sign"]
square = OPS["square"]
sqrt = OPS["sqrt"]
rsqrt = OPS["rsqrt"]
reciprocal = OPS["reciprocal"]
exp = OPS["exp"]
log = OPS["log"]
sin = OPS["sin"]
arctan = OPS["arctan"]
erf = OPS["erf"]
erf_dx = OPS["erf_dx"]
relu = OPS["relu"]
prelu = OPS["prelu"]
sigmoid = OPS["sigmoid"]
tanh = OPS["tanh"]
softplus = OPS["softplus"]
mish = OPS["mish"]
silu = OPS["silu"]
silu_dx = OPS["silu_dx"]
gelu = OPS["gelu"]
gelu_dx = OPS["gelu_dx"]
gelu_apprx_tanh = OPS["gelu_apprx_tanh"]
gelu_apprx_sigmoid = OPS["gelu_apprx_sigmoid"]
gelu_apprx_sigmoid_dx = OPS["gelu_apprx_sigmoid_dx"]
copy = OPS["copy"]


class NKIObject:
    """Base of a kernel author's own classes, which pass through a kernel as constants. Keywords become attributes."""

    def __init__(self, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            setattr(self, name, value)


class _TileSize:
    """Limits of the machine; those that differ between targets are known inside a kernel only (NKC009)."""

    pmax = 128
    psum_fmax = psum_bank_fmax = 512
    psum_bank_fmax_bytes = 2048
    psum_min_align = 4
    sbuf_min_align = 1
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512
    bn_stats_fmax = 512

    @property
    def psum_num_banks(self) -> int:
        """Banks of PSUM: one less from trn2 on where dma_transpose is made of PE transposes, which need it."""
        if os.environ.get("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "").lower() not in ("1", "true"):
            return 8
        return 7 if current("nl.tile_size.psum_num_banks").target.arch >= 30 else 8

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


def __dir__() -> list[str]:
    return __all__
