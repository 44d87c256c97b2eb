"""A kernel's own instructions, one module per family. They are the same at the penguin and the bir level.

Semantics are those of the public nki.isa pages. Compute engines work in float32 and cast the result to the type of
`dst`; DMA casts element by element in row-major order of both views. Limits stand in each instruction's `verify`.
"""

from __future__ import annotations

from .accumulate import Accumulate, ReduceCmd
from .debug import InstDevicePrint
from .dropout import InstDropout
from .gather import InstLocalGather, InstNGather, InstNonzeroWithCount, InstSequenceBounds
from .index import InstIota
from .matrix import InstMatmul, InstTranspose
from .movement import (
    DgeMode,
    DmaMode,
    InstDMACopy,
    InstDMATranspose,
    InstMemset,
    InstStreamShuffle,
    InstTensorCopy,
    InstTensorCopyPredicated,
)
from .random import InstRand2, InstRandGetState, InstRandSetState, InstRng, InstSetRngSeed
from .reduce import InstTensorPartitionReduce, InstTensorReduce, InstTensorScalarReduce
from .registers import InstRegisterAlu, InstRegisterLoad, InstRegisterMove, InstRegisterStore
from .scalar import InstActivate2, InstActivation
from .scan import InstTensorScalarCumulative, InstTensorTensorScan
from .search import InstFindIndex8, InstMatchReplace8, InstMax8, InstTopk
from .select import InstAffineSelect, InstRangeSelect, InstSelectReduce
from .statistics import InstBnAggr, InstBnStats
from .vector import InstExponential, InstReciprocal, InstScalarTensorTensor, InstTensorScalar, InstTensorTensor

__all__ = [
    "ISA",
    "Accumulate",
    "DgeMode",
    "DmaMode",
    "InstActivate2",
    "InstActivation",
    "InstAffineSelect",
    "InstBnAggr",
    "InstBnStats",
    "InstDMACopy",
    "InstDMATranspose",
    "InstDevicePrint",
    "InstDropout",
    "InstExponential",
    "InstFindIndex8",
    "InstIota",
    "InstLocalGather",
    "InstMatchReplace8",
    "InstMatmul",
    "InstMax8",
    "InstMemset",
    "InstNGather",
    "InstNonzeroWithCount",
    "InstRand2",
    "InstRandGetState",
    "InstRandSetState",
    "InstRangeSelect",
    "InstReciprocal",
    "InstRegisterAlu",
    "InstRegisterLoad",
    "InstRegisterMove",
    "InstRegisterStore",
    "InstRng",
    "InstScalarTensorTensor",
    "InstSelectReduce",
    "InstSequenceBounds",
    "InstSetRngSeed",
    "InstStreamShuffle",
    "InstTensorCopy",
    "InstTensorCopyPredicated",
    "InstTensorPartitionReduce",
    "InstTensorReduce",
    "InstTensorScalar",
    "InstTensorScalarCumulative",
    "InstTensorScalarReduce",
    "InstTensorTensor",
    "InstTensorTensorScan",
    "InstTopk",
    "InstTranspose",
    "ReduceCmd",
]

#: Every instruction of a kernel but the loop, which holds others (`ir.program`).
ISA = (
    InstActivate2
    | InstActivation
    | InstAffineSelect
    | InstBnAggr
    | InstBnStats
    | InstDMACopy
    | InstDMATranspose
    | InstDevicePrint
    | InstDropout
    | InstExponential
    | InstFindIndex8
    | InstIota
    | InstLocalGather
    | InstMatchReplace8
    | InstMatmul
    | InstMax8
    | InstMemset
    | InstNGather
    | InstNonzeroWithCount
    | InstRand2
    | InstRandGetState
    | InstRandSetState
    | InstRangeSelect
    | InstReciprocal
    | InstRegisterAlu
    | InstRegisterLoad
    | InstRegisterMove
    | InstRegisterStore
    | InstRng
    | InstScalarTensorTensor
    | InstSelectReduce
    | InstSequenceBounds
    | InstSetRngSeed
    | InstStreamShuffle
    | InstTensorCopy
    | InstTensorCopyPredicated
    | InstTensorPartitionReduce
    | InstTensorReduce
    | InstTensorScalar
    | InstTensorScalarCumulative
    | InstTensorScalarReduce
    | InstTensorTensor
    | InstTensorTensorScan
    | InstTopk
    | InstTranspose
)
