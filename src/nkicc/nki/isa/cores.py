"""Between the cores of a rank."""

from __future__ import annotations

from collections.abc import Sequence

from nkicc.nki.tensor import ndarray
from nkicc.nki.trace import current

from . import constants
from .arguments import engine_of
from .constants import dma_engine, engine

__all__ = ["core_barrier", "sendrecv"]


def sendrecv(
    src: ndarray,
    dst: ndarray,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: dma_engine = dma_engine.dma,
    name: str | None = None,
) -> None:
    """Swap between the two cores of a rank: dst = src of core `recv_from_rank`. The "ranks" are cores, 0 and 1."""
    current("nki.isa.sendrecv").codegen.sendrecv(
        dst,
        src,
        send_to_rank,
        recv_from_rank,
        pipe_id,
        use_gpsimd_dma=dma_engine is constants.dma_engine.gpsimd_dma,
        name=name,
    )


def core_barrier(data: ndarray, cores: Sequence[int], engine: engine = engine.gpsimd, name: str | None = None) -> None:
    """The cores of a rank wait for each other; `data` is the whole shared-HBM tensor it is about. Nothing at LNC=1,
    since kernels call it whatever the LNC."""
    tracer = current("nki.isa.core_barrier")
    if tracer.lnc > 1:
        tracer.codegen.core_barrier(data, cores, engine=engine_of(engine), name=name)
