"""The tensor engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

from nkicc.builder.source import refuse
from nkicc.ir.isa import InstMatmul, InstTranspose
from nkicc.nki.tensor import ndarray
from nkicc.nki.trace import current

from .arguments import access, engine_of, insert, refuse_argument
from .constants import engine, matmul_perf_mode

__all__ = ["nc_matmul", "nc_matmul_mx", "nc_transpose", "quantize_mx"]

_WHOLE_ARRAY = ((0, 0), (128, 128))


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
    perf_mode: matmul_perf_mode | str = matmul_perf_mode.none,
    name: str | None = None,
) -> None:
    """dst[m, n] (+)= Σ_k stationary[k, m] · moving[k, n] in float32, K <= 128, M <= 128, N <= 512 (more on trn3).

    `accumulate` None: the first matmul into a PSUM location overwrites it, later ones add. `is_transpose` moves bits
    through an identity matrix in `moving`; on trn1 it is a label. `perf_mode` double_row contracts a first free
    dimension of 2, too. Tile position and size are checked; they and the onezero hints change no result.
    """
    position, size = _tile(tile_position, tile_size)
    insert(
        InstMatmul(
            name=name or "",
            dst=access(dst, "dst"),
            stationary=access(stationary, "stationary"),
            moving=access(moving, "moving"),
            accumulate=None if accumulate is None else bool(accumulate),
            is_transpose=bool(is_transpose) and current("nki.isa.nc_matmul").target.nc_version >= 3,
            double_row=_perf_mode(perf_mode) is matmul_perf_mode.double_row,
            tile_position=position,
            tile_size=size,
        )
    )


def _tile(position: Sequence[int], size: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Position and size of the tile of processing elements; both are given, or neither."""
    found: list[tuple[int, int]] = []
    for what, given, whole in zip(("tile_position", "tile_size"), (position, size), _WHOLE_ARRAY, strict=True):
        try:
            row, column = given or whole
            found.append((int(row), int(column)))
        except (TypeError, ValueError):
            refuse_argument("nc_matmul", what, given, "(row, column)")
    if bool(position) is not bool(size) and tuple(found) != _WHOLE_ARRAY:
        refuse_argument("nc_matmul", "tile_position and tile_size", (position, size), "both, or neither of them")
    return found[0], found[1]


def _perf_mode(mode: matmul_perf_mode | str) -> matmul_perf_mode:
    try:
        return matmul_perf_mode(mode)
    except ValueError:
        refuse_argument("nc_matmul", "perf_mode", mode, ", ".join(m.value for m in matmul_perf_mode))


def nc_transpose(dst: ndarray, data: ndarray, engine: engine = engine.unknown, name: str | None = None) -> None:
    """dst[f, p] = data[p, f], free dimensions flattened: on the tensor engine up to 128 x 128, from SBUF into PSUM, on
    the vector engine up to 32 x 32."""
    insert(InstTranspose(name=name or "", dst=access(dst, "dst"), data=access(data, "data"), engine=engine_of(engine)))


def nc_matmul_mx(
    dst: ndarray,
    stationary: ndarray,
    moving: ndarray,
    stationary_scale: ndarray,
    moving_scale: ndarray,
    tile_position: Any = None,
    tile_size: Any = None,
    accumulate: bool | None = None,
    name: str | None = None,
) -> Never:
    """Not implemented (NKC008): the machine here has no packed MX types."""
    refuse("NKC008", what="nki.isa.nc_matmul_mx", instead="Use nki.isa.nc_matmul on float8 or bfloat16.")


def quantize_mx(dst: ndarray, src: ndarray, dst_scale: ndarray, name: str | None = None) -> Never:
    """Not implemented (NKC008): the machine here has no packed MX types."""
    refuse("NKC008", what="nki.isa.quantize_mx", instead="Cast to float8 with nki.isa.tensor_copy.")
