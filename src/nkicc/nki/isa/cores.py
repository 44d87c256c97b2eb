"""Between the cores of a rank."""

from __future__ import annotations

from collections.abc import Sequence

from nkicc.builder.source import refuse
from nkicc.nki.tensor import ndarray
from nkicc.nki.trace import current

from . import constants
from .arguments import engine_of, refuse_argument
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
    *,
    use_gpsimd_dma: bool | None = None,
) -> None:
    """Swap between the two cores of a rank: dst = src of core `recv_from_rank`. The "ranks" are cores, 0 and 1. What
    `dma_engine` says, `use_gpsimd_dma` said in 2.28, as the sixth argument too; the lowering decides what it is worth.
    """
    wish = dma_engine if use_gpsimd_dma is None else use_gpsimd_dma
    if not isinstance(wish, constants.dma_engine | bool):
        refuse_argument("sendrecv", "dma_engine", wish, "a member of nki.isa.dma_engine")
    current("nki.isa.sendrecv").codegen.sendrecv(
        dst,
        src,
        send_to_rank,
        recv_from_rank,
        pipe_id,
        use_gpsimd_dma=wish is True or wish is constants.dma_engine.gpsimd_dma,
        name=name,
    )


def core_barrier(data: ndarray, cores: Sequence[int], engine: engine = engine.gpsimd, name: str | None = None) -> None:
    """The cores of a rank wait for each other; `data` is the whole shared-HBM tensor it is about. `cores` are both
    (NKC085). Nothing at LNC=1, since kernels call it whatever the LNC."""
    tracer = current("nki.isa.core_barrier")
    if tracer.lnc > 1:
        if not isinstance(cores, Sequence) or set(cores) != {0, 1}:
            refuse("NKC085", found=cores, expected=(0, 1), operand="cores")
        tracer.codegen.core_barrier(data, cores, engine=engine_of(engine), name=name)
