"""Data types of the machine under their NKI names. Each is a NumPy dtype: hashable, comparable, printable, and what a
host array of that type already carries."""

from __future__ import annotations

import numpy as np

from nkicc.ir.types import DType

from .missing import refuse_unknown

__all__ = [
    "bfloat16",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
]

int8: np.dtype = DType.int8.numpy
int16: np.dtype = DType.int16.numpy
int32: np.dtype = DType.int32.numpy
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

__getattr__ = refuse_unknown("nki.dtype")
