"""Data movement: DMA, fills and copies between memories."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta

from ..access import AccessPattern, is_dense
from ..base import Inst, Scope, in_memory, same_dtype, verify_operands
from ..errors import fail
from ..types import AluOp, DType, Engine, Memory
from .common import (
    LONG,
    AnyNumber,
    Operands,
    check_counts,
    check_dtype,
    check_engine,
    check_integer,
    check_tiles,
    not_both_in_psum,
    on_chip,
    refuse_option,
)

__all__ = [
    "KEEP",
    "QUADRANT",
    "DgeMode",
    "DmaMode",
    "InstDMACopy",
    "InstDMATranspose",
    "InstMemset",
    "InstStreamShuffle",
    "InstTensorCopy",
    "InstTensorCopyPredicated",
]

#: Most sources of a folding DMA.
MAX_SOURCES = 16
#: What a DMA transpose can do, by number of dimensions.
TRANSPOSES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
#: Partitions of a quadrant, inside which a stream shuffle moves data.
QUADRANT = 32
#: The entry of a shuffle mask that leaves its partition alone.
KEEP = 255
PREDICATES = frozenset({DType.uint8, DType.uint16, DType.uint32})
#: Where a tile of up to so many partitions may start.
STARTS = {32: (0, 32, 64, 96), 64: (0, 64), 96: (0,), 128: (0,)}


class DmaMode(str, Enum):
    """`copy` moves one source; `cce` folds several sources in float32 on the way."""

    copy = "copy"
    cce = "cce"


class DgeMode(str, Enum):
    """Who makes the descriptors of a DMA: nobody at run time (`none`), GpSimd (`swdge`), a hardware block (`hwdge`).
    No effect on results, but on what is legal."""

    unknown = "unknown"
    swdge = "swdge"
    hwdge = "hwdge"
    none = "none"


class InstDMACopy(Inst, frozen=True, kw_only=True):
    """flat(dst)[i] = cast(flat(src)[i]), through float32; in mode `cce` the float32 fold of all sources with `op`.

    Element counts are equal (NKC039). A source may be an alias of another core's tensor, which is how local collectives
    pull. A `vector_offset` gathers rows of a source or scatters to rows of `dst`; `skip_oob` on either leaves the rows
    of `dst` whose index is out of bounds as they were. A fold with a vector_offset reads and writes `dst`: it adds a
    tile to scattered rows, or gathered rows to a tile. Source: nki.isa.dma_copy, nki.isa.dma_compute, "DGE Reference".
    """

    dst: AccessPattern
    srcs: Operands
    mode: DmaMode = DmaMode.copy
    op: AluOp = AluOp.bypass
    dge: DgeMode = DgeMode.unknown
    engine: Engine = Engine.unassigned
    dma_qos: Annotated[int, Meta(ge=0, le=16)] | None = None

    def reads(self) -> Operands:
        return self.srcs

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        operands = (*self.srcs, self.dst)
        for ap in operands:
            in_memory(self, scope, ap, "a DMA operand", Memory.sbuf, Memory.shared_hbm, Memory.private_hbm)
        limit = 1 if self.mode is DmaMode.copy else MAX_SOURCES
        if not 1 <= len(self.srcs) <= limit:
            expected = "one" if limit == 1 else f"1 to {limit}"
            fail("NKC034", inst=self.label, expected=expected, what="source(s)", found=len(self.srcs), loc=self.loc)
        for src in self.srcs:
            check_counts(self, src, self.dst)
        vectors = [ap for ap in operands if ap.vector_offset is not None]
        if vectors and self.mode is DmaMode.cce:
            self._verify_read_modify_write(scope)
        for ap in vectors:
            self._verify_indices(scope, ap)
        if self.dge is not DgeMode.unknown or self.engine is not Engine.unassigned:
            self._verify_descriptors(scope, gathers=bool(vectors))

    def _verify_descriptors(self, scope: Scope, *, gathers: bool) -> None:
        """The engine triggers hwdge only; hwdge neither casts nor gathers and needs NeuronCore-v3."""
        if self.engine is not Engine.unassigned:
            if self.dge is not DgeMode.hwdge:
                refuse_option(self, "engine", self.engine.value, "none given, unless dge_mode is hwdge")
            check_engine(self, scope, self.engine, Engine.sp, Engine.activation)
        if gathers and self.dge in (DgeMode.hwdge, DgeMode.none):
            refuse_option(self, "dge_mode", self.dge.value, "unknown or swdge with a vector_offset")
        if self.dge is DgeMode.hwdge:
            check_hwdge_arch(self, scope)
            for src in self.srcs:
                same_dtype(self, scope, src, self.dst)

    def _verify_indices(self, scope: Scope, ap: AccessPattern) -> None:
        """One index per row. A tile of several columns is for gathers only, and has 128 rows; the data is contiguous
        and keeps its type."""
        indices = ap.vector_offset
        assert indices is not None
        rows = ap.shape[0]
        if indices.size != rows:
            fail("NKC025", name=ap.tensor, why=f"vector_offset holds {indices.size} indices for {rows} rows",
                 operand="vector_offset", loc=self.loc)  # fmt: skip
        if indices.shape[0] == indices.size:
            return
        if ap is self.dst or self.mode is DmaMode.cce or indices.shape[0] != 128:
            refuse_option(
                self, "vector_offset", list(indices.shape), "(P, 1), and (128, M) on the source of a copy"
            )  # fmt: skip
        same_dtype(self, scope, ap, self.dst)
        if not (is_dense(ap.pattern[1:]) and is_dense(self.dst.pattern)):
            refuse_option(self, "vector_offset", list(indices.shape), "(P, 1) unless src and dst are contiguous")

    def _verify_read_modify_write(self, scope: Scope) -> None:
        """Two sources: `dst` itself, and the tile to add to its rows or the rows to add to it."""
        if len(self.srcs) != 2:
            fail("NKC034", inst=self.label, expected="exactly 2", what="sources with a vector_offset",
                 found=len(self.srcs), operand="srcs", loc=self.loc)  # fmt: skip
        if self.dst not in self.srcs:
            refuse_option(self, "srcs", [src.tensor for src in self.srcs], "dst itself and one other operand")
        other = self.srcs[self.srcs[0] == self.dst]
        tile = other if self.dst.vector_offset is not None else self.dst
        in_memory(self, scope, tile, "the operand without a vector_offset", Memory.sbuf)


class InstDMATranspose(Inst, frozen=True, kw_only=True):
    """dst[i…] = src[axes…]: `dst.shape[i] = src.shape[axes[i]]`, exactly. Equal dtypes; dst in SBUF.

    A `vector_offset` on src gathers its rows first: one index per row, more are ignored. Hardware descriptors and
    gathers have limits of their own; that src's last extent is at most 128 follows from dst. Source:
    nki.isa.dma_transpose.
    """

    dst: AccessPattern
    src: AccessPattern
    axes: tuple[int, ...]
    dge: DgeMode = DgeMode.unknown

    def reads(self) -> Operands:
        return (self.src,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        in_memory(self, scope, self.dst, "dst", Memory.sbuf)
        in_memory(self, scope, self.src, "src", Memory.sbuf, Memory.shared_hbm, Memory.private_hbm)
        if TRANSPOSES.get(len(self.src.pattern)) != self.axes:
            permitted = ", ".join(f"{axes} for {rank}-D" for rank, axes in TRANSPOSES.items())
            refuse_option(self, "axes", self.axes, permitted)
        expected = tuple([self.src.shape[a] for a in self.axes])
        if self.dst.shape != expected:
            fail(
                "NKC033",
                inst=self.label,
                what="dst",
                found=self.dst.shape,
                expected=expected,
                why=f"(src transposed by {self.axes})",
                operand="dst",
                loc=self.loc,
            )
        same_dtype(self, scope, self.src, self.dst)
        if self.src.vector_offset is not None:
            self._verify_gather(scope, self.src.vector_offset)
        elif self.dge is DgeMode.swdge:
            refuse_option(self, "dge_mode", "swdge", "unknown, hwdge or none without a vector_offset")
        elif self.dge is DgeMode.hwdge:
            self._verify_hwdge(scope)

    def _verify_hwdge(self, scope: Scope) -> None:
        check_hwdge_arch(self, scope)
        shape = self.src.shape
        if len(shape) == 2:
            first, permitted = shape[0] == 16, "first extent 16"
        else:
            first = shape[0] in (1, 2, 4, 8, 16) and shape[0] * shape[-2] % 16 == 0
            permitted = "first extent 1, 2, 4, 8 or 16, times the last but one a multiple of 16"
        self._require("src with dge_mode hwdge", first, permitted)
        self._require_16_bit(scope, "src with dge_mode hwdge")

    def _verify_gather(self, scope: Scope, indices: AccessPattern) -> None:
        if scope.target.arch < 30:
            fail("BIR530", opcode="gathering DMATranspose", arch=scope.target.arch, min_arch=30, loc=self.loc)
        if self.dge in (DgeMode.hwdge, DgeMode.none):
            refuse_option(self, "dge_mode", self.dge.value, "unknown or swdge with a vector_offset")
        shape = self.src.shape
        self._require(
            "src with a vector_offset",
            shape[0] % 16 == 0 and (len(shape) < 4 or 1 in shape[1:3]),
            "first extent a multiple of 16, one of the middle two of four 1",
        )
        self._require_16_bit(scope, "src with a vector_offset")
        rows = indices.shape[0]
        if not 16 <= rows <= 128 or rows % 16 or (indices.size > rows != 128):
            refuse_option(
                self, "vector_offset", list(indices.shape), "16 to 128 rows in steps of 16; 128 for several columns"
            )
        check_dtype(self, scope, indices, "vector_offset", frozenset({DType.uint32}))

    def _require(self, what: str, good: bool, permitted: str) -> None:
        if not good:
            refuse_option(self, what, list(self.src.shape), permitted)

    def _require_16_bit(self, scope: Scope, what: str) -> None:
        dtype = scope.dtype(self.src)
        if dtype.size != 2:
            refuse_option(self, what, dtype.value, "types of 2 bytes")


class InstMemset(Inst, frozen=True, kw_only=True):
    """dst[*] = value. A float value into an integer tile is refused (NKC032). Vector or GpSimd, the latter not in PSUM;
    on chip at most 5 dimensions. Source: nki.isa.memset."""

    dst: AccessPattern
    value: AnyNumber
    engine: Engine = Engine.unassigned

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        check_engine(self, scope, self.engine, Engine.dve, Engine.pool, operands=(self.dst,))
        if len(self.dst.pattern) > 5 and not scope.tensor(self.dst).memory.is_hbm:
            refuse_option(self, "dimensions of dst", len(self.dst.pattern), "at most 5")
        dtype = scope.dtype(self.dst)
        if type(self.value) is not int and not dtype.is_float:
            fail(
                "NKC032",
                inst=self.label,
                left="value",
                left_dtype="float",
                right=repr(self.dst.tensor),
                right_dtype=dtype.value,
                operand="value",
                loc=self.loc,
            )
        check_integer(self, self.value, "value", fill_limits(dtype))


class InstTensorCopy(Inst, frozen=True, kw_only=True):
    """dst[p, f] = cast(src[p, f]) between SBUF and PSUM: bits for equal dtypes, through float32 otherwise. Vector,
    GpSimd (not with PSUM) or, from NeuronCore-v3, Scalar. Source: nki.isa.tensor_copy."""

    dst: AccessPattern
    src: AccessPattern
    engine: Engine = Engine.unassigned

    def reads(self) -> Operands:
        return (self.src,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        check_tiles(self, scope, self.dst, self.src)
        valid = (Engine.dve, Engine.pool) if scope.target.arch < 30 else (Engine.dve, Engine.pool, Engine.activation)
        check_engine(self, scope, self.engine, *valid, operands=(self.dst, self.src))


class InstTensorCopyPredicated(Inst, frozen=True, kw_only=True):
    """dst[p, f] = src[p, f] where predicate[p, f] != 0 (== 0 if reversed); the rest of dst stays. `src` is a tile of
    dst's dtype or a number of its kind. At most 4 dimensions, and not both inputs in PSUM. Source:
    nki.isa.tensor_copy_predicated."""

    dst: AccessPattern
    src: AccessPattern | AnyNumber
    predicate: AccessPattern
    reverse: bool = False

    def reads(self) -> Operands:
        # What the predicate leaves alone is read, too.
        src = (self.src,) if isinstance(self.src, AccessPattern) else ()
        return (*src, self.predicate, self.dst)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        tiles = [self.predicate]
        dtype = scope.dtype(self.dst)
        if isinstance(self.src, AccessPattern):
            tiles.append(self.src)
            same_dtype(self, scope, self.src, self.dst)
        elif (type(self.src) is not int) is not dtype.is_float:
            fail(
                "NKC032",
                inst=self.label,
                left="src",
                left_dtype="int" if type(self.src) is int else "float",
                right=repr(self.dst.tensor),
                right_dtype=dtype.value,
                operand="src",
                loc=self.loc,
            )
        check_integer(self, self.src, "src", fill_limits(dtype))
        check_tiles(self, scope, self.dst, *tiles)
        check_dtype(self, scope, self.predicate, "predicate", PREDICATES)
        for tile in (self.dst, *tiles):
            if len(tile.pattern) > 4:
                refuse_option(self, f"dimensions of {tile.tensor!r}", len(tile.pattern), "at most 4")
        if isinstance(self.src, AccessPattern):
            not_both_in_psum(self, scope, self.src, self.predicate)


class InstStreamShuffle(Inst, frozen=True, kw_only=True):
    """In every quadrant q of 32 partitions: dst[32 q + i] = src[32 q + shuffle_mask[i]].

    An entry of 255 leaves its partition as it was. The quadrants count from where each tile starts. Partitions that the
    source does not have come out undefined. Equal dtypes and elements per partition; where both may start depends on
    the larger partition count, rounded up to quadrants. Source: nki.isa.nc_stream_shuffle.
    """

    dst: AccessPattern
    src: AccessPattern
    shuffle_mask: tuple[int, ...]

    def reads(self) -> Operands:
        return (self.src, self.dst) if KEEP in self.shuffle_mask else (self.src,)

    def writes(self) -> Operands:
        return (self.dst,)

    def verify(self, scope: Scope) -> None:
        verify_operands(self, scope)
        on_chip(self, scope, self.dst, self.src)
        same_dtype(self, scope, self.src, self.dst)
        width = self.dst.size // self.dst.shape[0]
        if self.src.size // self.src.shape[0] != width:
            fail(
                "NKC033",
                inst=self.label,
                what=repr(self.src.tensor),
                found=self.src.shape,
                expected=(self.src.shape[0], width),
                why="(elements per partition of dst)",
                operand="src",
                loc=self.loc,
            )
        if len(self.shuffle_mask) != QUADRANT or not all(
            0 <= entry < QUADRANT or entry == KEEP for entry in self.shuffle_mask
        ):
            refuse_option(self, "shuffle_mask", list(self.shuffle_mask), f"{QUADRANT} integers, each 0 to 31 or {KEEP}")
        active = -(-max(self.src.shape[0], self.dst.shape[0]) // QUADRANT) * QUADRANT
        for ap in (self.dst, self.src):
            pitch = scope.tensor(ap).partition_bytes // scope.dtype(ap).size
            start = ap.offset // pitch
            if start not in STARTS[active]:
                where = ", ".join(map(str, STARTS[active]))
                refuse_option(
                    self, f"first partition of {ap.tensor!r}", start, f"{where} for {active} active partitions"
                )


def fill_limits(dtype: DType) -> tuple[int, int]:
    """The integers that a tile of a type can be filled with: 64 bits, which the cast to the type saturates."""
    return (LONG[0], (1 << 64) - 1) if dtype is DType.uint64 else LONG


def check_hwdge_arch(inst: Inst, scope: Scope) -> None:
    """Hardware descriptor generation exists from NeuronCore-v3 (BIR530)."""
    if scope.target.arch < 30:
        fail("BIR530", opcode="dge_mode hwdge", arch=scope.target.arch, min_arch=30, operand="dge_mode", loc=inst.loc)
