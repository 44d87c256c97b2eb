"""`nki.distributed`, as kernels of early releases import it: the builders over all workers."""

from __future__ import annotations

from .missing import refuse_unknown
from .nccl import builder

__all__ = ["all_gather", "all_reduce", "all_to_all", "broadcast", "collective_permute", "reduce_scatter"]

_MODULE = "nki.distributed"

all_reduce = builder("all_reduce", "all_reduce_cc", _MODULE)
all_gather = builder("all_gather", "all_gather_cc", _MODULE)
reduce_scatter = builder("reduce_scatter", "reduce_scatter_cc", _MODULE)
all_to_all = builder("all_to_all", "all_to_all_cc", _MODULE)
broadcast = builder("broadcast", "broadcast_cc", _MODULE)
collective_permute = builder("collective_permute", "collective_permute_cc", _MODULE)

__getattr__ = refuse_unknown(_MODULE)
