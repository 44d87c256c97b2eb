"""The tensor engine: matrix multiplication and transposition."""

from __future__ import annotations

from ..access import AccessPattern
from ..base import Inst, Scope, in_memory, same_dtype, verify_operands
from ..errors import fail
from ..types import DType, Engine, Memory
from .common import Operands, check_arch, check_dtype, check_engine, check_tile, on_chip, per_partition, refuse_option

__all__ = ["InstMatmul", "InstTranspose"]

_FP8 = frozenset({DType.float8e4, DType.float8e5})
_FLOATS = _FP8 | {DType.bfloat16, DType.float16, DType.float32}
#: Types of the operands by (double_row, from trn3).
_OPERANDS = {
    (False, False): _FLOATS,
    (False, True): _FLOATS | {DType.float8_e4m3fn},
    (True, False): _FP8,
    (True, True): _FP8 | {DType.float8_e4m3fn},
}
_FLOAT32 = frozenset({DType.float32})
_SUMS_TRN3 = _FLOAT32 | {DType.bfloat16}
#: The two meanings of e4m3, which one matmul does not mix.
_FP8_KINDS = {DType.float8e4, DType.float8_e4m3fn}
#: The array of processing elements: rows are the contraction, columns the rows of the result.
_ARRAY = (128, 128)
_PSUM_BANK_BYTES = 2048


class InstMatmul(Inst, frozen=True, kw_only=True):
    """dst[m, n] (+)= Σ_k stationary[k, m] · moving[k, n] in float32; k runs over the partitions, m and n over the
    flattened free dimensions.

    `accumulate` False overwrites, True adds to what PSUM holds; None means that the first matmul that writes a PSUM
    location overwrites it and later ones add. With `double_row` the first free dimension of both operands, of extent
    2, is contracted as well. `is_transpose` moves bits: every column of `moving` selects one partition of
    `stationary`. `tile_position` and `tile_size`, (rows, columns) of the array, bound K and M and change no result.

    Limits (NKI documentation, nki.isa.nc_matmul): K <= rows and M <= columns of the tile; N <= 512, from trn3 4096 for
    float32 and 8192 for bfloat16; before trn3 dst stays in one PSUM bank. Operands are float8, bfloat16, float16, or
    both float32; float8_e4m3fn needs trn3 and does not mix with float8_e4m3. dst is float32, from trn3 also bfloat16,
    in transpose mode also the type of `stationary`. Transpose mode and `double_row` (float8 only) need trn2.
    """

    dst: AccessPattern
    stationary: AccessPattern
    moving: AccessPattern
    accumulate: bool | None = None
    is_transpose: bool = False
    double_row: bool = False
    tile_position: tuple[int, int] = (0, 0)
    tile_size: tuple[int, int] = _ARRAY

    def reads(self) -> Operands:
        return (self.stationary, self.moving)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        in_memory(self, scope, self.dst, "dst", Memory.psum)
        in_memory(self, scope, self.stationary, "stationary", Memory.sbuf)
        in_memory(self, scope, self.moving, "moving", Memory.sbuf)
        self._verify_shapes(scope)
        self._verify_dtypes(scope)
        if self.tile_size != _ARRAY or self.tile_position != (0, 0):
            self._verify_tile(scope)
        if self.dst.is_dynamic:
            if self.accumulate is None:
                fail(
                    "NKC008",
                    what="accumulate=None of nki.isa.nc_matmul into an offset that is known only at run time",
                    instead="Pass accumulate=True or False.",
                    operand="dst",
                    loc=self.loc,
                )
        elif scope.target.arch < 40:
            self._verify_bank(scope)

    def _verify_shapes(self, scope: Scope) -> None:
        k, m, n = self.stationary.shape[0], per_partition(self.stationary), per_partition(self.moving)
        if self.double_row:
            for what, ap in (("stationary", self.stationary), ("moving", self.moving)):
                if len(ap.shape) < 3 or ap.shape[1] != 2:
                    self._bad_shape(what, ap, "(K, 2, …)", "(double_row contracts a first free dimension of 2)")
            m, n = m // 2, n // 2
        if self.moving.shape[0] != k:
            self._bad_shape("moving", self.moving, (k, n), "(equal partition counts)")
        limit = 512
        if scope.target.arch >= 40:
            limit = 4096 if scope.dtype(self.dst) is DType.float32 else 8192
        rows, columns = self.tile_size
        if k > rows or m > columns or n > limit:
            refuse_option(self, "tile (K, M, N)", (k, m, n), f"K <= {rows}, M <= {columns}, N <= {limit}")
        check_tile(self, "dst", self.dst, m, n)

    def _bad_shape(self, what: str, ap: AccessPattern, expected: object, why: str) -> None:
        fail(
            "NKC033",
            inst=self.label,
            what=what,
            found=ap.shape,
            expected=expected,
            why=why,
            operand=what,
            loc=self.loc,
        )

    def _verify_dtypes(self, scope: Scope) -> None:
        trn3 = scope.target.arch >= 40
        if self.double_row or self.is_transpose:
            check_arch(self, scope, 30)
        if self.double_row and self.is_transpose:
            refuse_option(self, "perf_mode", "double_row", "none with is_transpose")
        left, right = scope.dtype(self.stationary), scope.dtype(self.moving)
        operands = _OPERANDS[self.double_row, trn3]
        check_dtype(self, scope, self.stationary, "stationary", operands)
        check_dtype(self, scope, self.moving, "moving", operands)
        if left is not right and (DType.float32 in (left, right) or {left, right} == _FP8_KINDS):
            same_dtype(self, scope, self.stationary, self.moving)
        results = _SUMS_TRN3 if trn3 else _FLOAT32
        if self.is_transpose:
            results = results | {left}
        check_dtype(self, scope, self.dst, "dst", results)

    def _verify_tile(self, scope: Scope) -> None:
        sizes = (64, 128) if scope.target.arch < 30 else (32, 64, 128)
        for axis, size, start in zip(("row", "column"), self.tile_size, self.tile_position, strict=True):
            if size not in sizes:
                refuse_option(self, "tile_size", self.tile_size, f"{axis} size {', '.join(map(str, sizes))}")
            if start % size or not 0 <= start < 128:
                refuse_option(self, "tile_position", self.tile_position, f"{axis} start a multiple of {size} below 128")
        if self.double_row and self.tile_size[1] != 128:
            refuse_option(self, "tile_size", self.tile_size, "128 columns with double_row")

    def _verify_bank(self, scope: Scope) -> None:
        dst = self.dst
        item = scope.dtype(dst).size
        first = dst.offset * item % scope.tensor(dst).partition_bytes
        low, last = first, first + item - 1
        for stride, count in dst.pattern[1:]:
            reach = stride * (count - 1) * item
            if reach > 0:
                last += reach
            else:
                low += reach
        if low // _PSUM_BANK_BYTES != last // _PSUM_BANK_BYTES:
            refuse_option(
                self, "dst, in bytes of a partition,", (low, last), f"one PSUM bank of {_PSUM_BANK_BYTES} bytes"
            )


class InstTranspose(Inst, frozen=True, kw_only=True):
    """dst[f, p] = data[p, f], free dimensions flattened; bits move unchanged.

    The tensor engine turns up to 128 x 128 from SBUF into PSUM, the vector engine up to 32 x 32 anywhere on chip; an
    unassigned engine is the tensor engine where both memories fit it. Both dtypes are equal; on trn1 the tensor engine
    also writes float32 (NKI documentation, nki.isa.nc_transpose).
    """

    dst: AccessPattern
    data: AccessPattern
    engine: Engine = Engine.unassigned

    def reads(self) -> Operands:
        return (self.data,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        on_chip(self, scope, self.dst, self.data)
        check_engine(self, scope, self.engine, Engine.pe, Engine.dve)
        p, f = self.data.shape[0], per_partition(self.data)
        check_tile(self, "dst", self.dst, f, p)
        tensor = self.engine is Engine.pe
        if tensor:
            in_memory(self, scope, self.data, "data", Memory.sbuf)
            in_memory(self, scope, self.dst, "dst", Memory.psum)
        elif self.engine is Engine.unassigned:
            memories = scope.tensor(self.data).memory, scope.tensor(self.dst).memory
            tensor = memories == (Memory.sbuf, Memory.psum)
        limit = 128 if tensor else 32
        if max(p, f) > limit:
            engine = "tensor" if tensor else "vector"
            refuse_option(self, "tile (partitions, elements)", (p, f), f"{limit} x {limit} on the {engine} engine")
        if not (tensor and scope.target.arch < 30 and scope.dtype(self.dst) is DType.float32):
            same_dtype(self, scope, self.data, self.dst)
