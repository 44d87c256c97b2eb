"""Data types of the machine under their NKI names. Each is a NumPy dtype: hashable, comparable, printable, and what a
host array of that type already carries."""

from __future__ import annotations

import numpy as np

from nkicc.ir.types import DType

from .missing import refuse_unknown

__all__ = [
    "NoStorage",
    "bfloat16",
    "bool_",
    "float4_e2m1fn_x4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fn_x4",
    "float8_e5m2",
    "float8_e5m2_x4",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "int8",
    "int16",
    "int32",
    "int64",
    "tfloat32",
    "uint8",
    "uint16",
    "uint32",
]


class NoStorage:
    """A data type that tables and annotations of kernels name, and that no tensor here can have (NKC008)."""

    __slots__ = ("itemsize", "name")

    def __init__(self, name: str, itemsize: int) -> None:
        self.name = name
        self.itemsize = itemsize

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"nl.{self.name}"


#: A truth value is stored as a byte.
bool_: np.dtype = np.dtype(bool)
int8: np.dtype = DType.int8.numpy
int16: np.dtype = DType.int16.numpy
int32: np.dtype = DType.int32.numpy
int64: np.dtype = DType.int64.numpy
uint8: np.dtype = DType.uint8.numpy
uint16: np.dtype = DType.uint16.numpy
uint32: np.dtype = DType.uint32.numpy
float16: np.dtype = DType.float16.numpy
bfloat16: np.dtype = DType.bfloat16.numpy
float32: np.dtype = DType.float32.numpy
float8_e4m3: np.dtype = DType.float8e4.numpy
float8_e4m3fn: np.dtype = DType.float8_e4m3fn.numpy
float8_e5m2: np.dtype = DType.float8e5.numpy
float8_e8m0fnu: np.dtype = DType.float8_e8m0fnu.numpy

float8_e5m2_x4 = NoStorage("float8_e5m2_x4", 4)
float8_e4m3fn_x4 = NoStorage("float8_e4m3fn_x4", 4)
float4_e2m1fn_x4 = NoStorage("float4_e2m1fn_x4", 2)
tfloat32 = NoStorage("tfloat32", 4)

__getattr__ = refuse_unknown("nki.dtype")
