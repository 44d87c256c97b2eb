"""The tensor engine."""

from __future__ import annotations

from collections.abc import Sequence

from nkicc.builder.source import refuse
from nkicc.ir.isa import InstMatmul, InstTranspose
from nkicc.nki.tensor import ndarray

from .arguments import access, engine_of, insert
from .constants import engine, matmul_perf_mode

__all__ = ["nc_matmul", "nc_transpose"]


def nc_matmul(
    dst: ndarray,
    stationary: ndarray,
    moving: ndarray,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: Sequence[int] = (),
    tile_size: Sequence[int] = (),
    perf_mode: matmul_perf_mode = matmul_perf_mode.none,
    name: str | None = None,
) -> None:
    """dst[m, n] (+)= Σ_k stationary[k, m] · moving[k, n] in float32. `accumulate` None: the first matmul into a PSUM
    location overwrites it, later ones add. Tiling, double rows and transposition are not implemented (NKC008)."""
    for option, used in (
        ("is_transpose", is_transpose),
        ("tile_position", len(tile_position) > 0),
        ("tile_size", len(tile_size) > 0),
        ("perf_mode", perf_mode is not matmul_perf_mode.none),
    ):
        if used:
            refuse("NKC008", what=f"{option} of nki.isa.nc_matmul", instead="Leave it out.", operand=option)
    insert(
        InstMatmul(
            name=name or "",
            dst=access(dst, "dst"),
            stationary=access(stationary, "stationary"),
            moving=access(moving, "moving"),
            accumulate=accumulate,
        )
    )


def nc_transpose(dst: ndarray, data: ndarray, engine: engine = engine.unknown, name: str | None = None) -> None:
    """dst[f, p] = data[p, f], free dimensions flattened."""
    insert(InstTranspose(name=name or "", dst=access(dst, "dst"), data=access(data, "data"), engine=engine_of(engine)))
