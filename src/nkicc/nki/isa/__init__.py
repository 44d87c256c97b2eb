"""`nki.isa`: one instruction per call, inserted where the kernel calls it.

`dst` comes first, except in `sendrecv` and `core_barrier`. Semantics and limits are those of the public pages; each
instruction checks itself when it is inserted (`nkicc.ir.isa`). `name` labels the instruction. `priority`, `dge_mode`
and the choice of a DMA engine do not change results and are not kept.
"""

from __future__ import annotations

from nkicc.nki.instruction import NkiInstruction
from nkicc.nki.missing import refuse_unknown

from . import constants
from .constants import dependency, dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd
from .cores import core_barrier, sendrecv
from .dropout import dropout
from .gather import local_gather, nc_n_gather, nonzero_with_count, sequence_bounds
from .index import iota
from .matrix import nc_matmul, nc_matmul_mx, nc_transpose, quantize_mx
from .movement import (
    dma_compute,
    dma_copy,
    dma_transpose,
    memset,
    nc_stream_shuffle,
    tensor_copy,
    tensor_copy_predicated,
)
from .random import rand2, rand_get_state, rand_set_state, rng, set_rng_seed
from .reduce import tensor_partition_reduce, tensor_reduce, tensor_scalar_reduce
from .registers import (
    NkiScalar,
    VirtualRegister,
    get_nc_version,
    register_alloc,
    register_load,
    register_move,
    register_store,
    scalar_load,
    scalar_store,
)
from .scalar import activate2, activation, activation_reduce
from .scan import tensor_scalar_cumulative, tensor_tensor_scan
from .search import max8, nc_find_index8, nc_match_replace8, topk
from .select import affine_select, range_select, select_reduce
from .statistics import bn_aggr, bn_stats
from .vector import exponential, reciprocal, scalar_tensor_tensor, tensor_scalar, tensor_tensor

__all__ = [
    "NkiInstruction",
    "NkiScalar",
    "VirtualRegister",
    "activate2",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "constants",
    "core_barrier",
    "dependency",
    "dge_mode",
    "dma_compute",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "dropout",
    "engine",
    "exponential",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "local_gather",
    "matmul_perf_mode",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_matmul_mx",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "nonzero_with_count",
    "oob_mode",
    "quantize_mx",
    "rand2",
    "rand_get_state",
    "rand_set_state",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "rng",
    "scalar_engine",
    "scalar_load",
    "scalar_store",
    "scalar_tensor_tensor",
    "select_reduce",
    "sendrecv",
    "sequence_bounds",
    "set_rng_seed",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "topk",
    "unknown_engine",
    "vector_engine",
]

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown

__getattr__ = refuse_unknown("nki.isa")


def __dir__() -> list[str]:
    return __all__
