"""`nki.isa`: one instruction per call, inserted where the kernel calls it.

`dst` comes first, except in `sendrecv` and `core_barrier`. Semantics and limits are those of the public pages; each
instruction checks itself when it is inserted (`nkicc.ir.isa`). `name` labels the instruction. `priority`, `dge_mode`
and the choice of a DMA engine do not change results and are not kept.
"""

from __future__ import annotations

from nkicc.nki.missing import refuse_unknown

from . import constants
from .constants import dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd
from .cores import core_barrier, sendrecv
from .index import iota
from .matrix import nc_matmul, nc_transpose
from .movement import dma_compute, dma_copy, dma_transpose, memset, tensor_copy
from .registers import get_nc_version, register_alloc, register_load, register_move, register_store
from .scalar import activation
from .vector import tensor_reduce, tensor_scalar, tensor_tensor

__all__ = [
    "activation",
    "constants",
    "core_barrier",
    "dge_mode",
    "dma_compute",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "engine",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "matmul_perf_mode",
    "memset",
    "nc_matmul",
    "nc_transpose",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "scalar_engine",
    "sendrecv",
    "tensor_copy",
    "tensor_engine",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_tensor",
    "unknown_engine",
    "vector_engine",
]

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown

__getattr__ = refuse_unknown("nki.isa")
