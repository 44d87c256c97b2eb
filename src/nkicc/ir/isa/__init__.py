"""A kernel's own instructions, one module per family. They are the same at the penguin and the bir level.

Semantics are those of the public nki.isa pages. Compute engines work in float32 and cast the result to the type of
`dst`; DMA casts element by element in row-major order of both views. Limits stand in each instruction's `verify`.
"""

from __future__ import annotations

from .index import InstIota
from .matrix import InstMatmul, InstTranspose
from .movement import DmaMode, InstDMACopy, InstDMATranspose, InstMemset, InstTensorCopy
from .registers import InstRegisterLoad, InstRegisterMove, InstRegisterStore
from .scalar import InstActivation
from .vector import InstTensorReduce, InstTensorScalar, InstTensorTensor

__all__ = [
    "ISA",
    "DmaMode",
    "InstActivation",
    "InstDMACopy",
    "InstDMATranspose",
    "InstIota",
    "InstMatmul",
    "InstMemset",
    "InstRegisterLoad",
    "InstRegisterMove",
    "InstRegisterStore",
    "InstTensorCopy",
    "InstTensorReduce",
    "InstTensorScalar",
    "InstTensorTensor",
    "InstTranspose",
]

#: Every instruction of a kernel but the loop, which holds others (`ir.program`).
ISA = (
    InstActivation
    | InstDMACopy
    | InstDMATranspose
    | InstIota
    | InstMatmul
    | InstMemset
    | InstRegisterLoad
    | InstRegisterMove
    | InstRegisterStore
    | InstTensorCopy
    | InstTensorReduce
    | InstTensorScalar
    | InstTensorTensor
    | InstTranspose
)
