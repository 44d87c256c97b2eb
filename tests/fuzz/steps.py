"""What a random program is made of: steps that know how to build themselves and what they compute.

A program is a list of steps over named tensors. Tensors in HBM are shared by the cores of a rank and held as (ranks,
*shape) in the reference; tiles in SBUF are each core's own: (ranks, cores, *shape). After a step that one core has done
for its rank, or each core a part of, the cores meet at a barrier.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from hypothesis import strategies as st
from msgspec import Struct

from nkicc.builder import NeuronCodegen
from nkicc.builder.processing_rank import collective_permute_implicit_current_processing_rank_id as processing_rank
from nkicc.ir.access import AccessPattern, Register
from nkicc.ir.isa import InstActivation, InstDMACopy, InstTensorTensor
from nkicc.ir.types import ActFn, AluOp, World

__all__ = ["STEPS", "Draw", "Kind", "Place", "Step", "Tensors"]

Array = np.ndarray
Draw = Callable[[st.SearchStrategy], object]
Groups = list[list[int]]
Values = dict[str, Array]


class Kind(Struct, frozen=True):
    """A tensor of the program: its shape, and whether it is a tile of each core."""

    shape: tuple[int, ...]
    tile: bool = False


Tensors = dict[str, Kind]


class Place(Struct, frozen=True):
    """Where a program runs: the world, and the sets of ranks that run programs of their own."""

    world: World
    sets: tuple[tuple[int, ...], ...]
    dtype: str

    @property
    def ranks(self) -> int:
        return self.world.ranks

    @property
    def lnc(self) -> int:
        return self.world.lnc


def pick(draw: Draw, values: object) -> object:
    return draw(st.sampled_from(list(values)))  # type: ignore[call-overload]


def groups_of(draw: Draw, ranks: int, *, equal: bool = True) -> Groups:
    """An ordered partition of the ranks."""
    order = list(draw(st.permutations(range(ranks))))  # type: ignore[call-overload]
    if not equal:
        cut = draw(st.integers(0, ranks - 1))
        return [group for group in (order[:cut], order[cut:]) if group]
    size = int(pick(draw, [n for n in range(1, ranks + 1) if ranks % n == 0]))  # type: ignore[call-overload]
    return [order[i : i + size] for i in range(0, ranks, size)]


def group_of(groups: Groups, rank: int) -> list[int]:
    return next(group for group in groups if rank in group)


def fold(parts: list[Array], op: str) -> Array:
    """In list order, in float32, cast once."""
    total = parts[0].astype(np.float32)
    for part in parts[1:]:
        total = {"add": np.add, "max": np.maximum, "min": np.minimum}[op](total, part.astype(np.float32))
    return total.astype(parts[0].dtype)


class Step(Struct, frozen=True, tag=True, kw_only=True):
    """`src` and `dst` are tensors; `alone` says that core 0 issues it for its rank (HBM under LNC=2)."""

    src: str
    dst: str
    alone: bool = False

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        """Write the step into one core's stream."""
        raise NotImplementedError

    def compute(self, values: Values, place: Place) -> Array:
        """What dst holds afterwards."""
        raise NotImplementedError


OPS = ("add", "max", "min")


def shared(cg: NeuronCodegen, name: str) -> bool:
    return cg.tensors[name].memory.is_hbm


def meet(cg: NeuronCodegen, name: str) -> None:
    """The cores wait until `name` is written."""
    if cg.scope.world.lnc == 2 and shared(cg, name):
        cg.core_barrier(cg.tensors[name], (0, 1))


class Collective(Step, frozen=True, kw_only=True):
    """A collective on one tensor."""

    groups: tuple[tuple[int, ...], ...] = ()
    op: str = "add"
    dim: int = 0

    def issue(self, cg: NeuronCodegen, src: object, dst: object) -> None:
        raise NotImplementedError

    def result(self, parts: list[Array], position: int, before: Array | None) -> Array:
        """What the member at a position gets of the members' parts; `before` is what its dst held."""
        raise NotImplementedError

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        if not self.alone or cg.core == 0:
            self.issue(cg, cg.tensors[self.src], cg.tensors[self.dst])
        if self.alone:
            meet(cg, self.dst)

    def compute(self, values: Values, place: Place) -> Array:
        value, before = values[self.src], values.get(self.dst)
        lanes = value.ndim > 2 and self.is_tile(values, place)
        rows = []
        for rank in range(place.ranks):
            group = group_of([list(g) for g in self.groups], rank)
            at = group.index(rank)
            old = None if before is None else before[rank]
            if lanes:
                rows.append(
                    np.stack(
                        [
                            self.result([value[q, c] for q in group], at, None if old is None else old[c])
                            for c in range(place.lnc)
                        ]
                    )
                )
            else:
                rows.append(self.result([value[q] for q in group], at, old))
        return np.stack(rows)

    def is_tile(self, values: Values, place: Place) -> bool:
        return values[self.src].ndim == 4


class AllReduce(Collective, frozen=True, kw_only=True):
    def issue(self, cg: NeuronCodegen, src: object, dst: object) -> None:
        cg.all_reduce_cc_raw(self.op, [src], [dst], self.groups)  # type: ignore[list-item]

    def result(self, parts: list[Array], position: int, before: Array | None) -> Array:
        return fold(parts, self.op)


class AllGather(Collective, frozen=True, kw_only=True):
    def issue(self, cg: NeuronCodegen, src: object, dst: object) -> None:
        cg.all_gather_cc_raw(None, [src], [dst], self.groups, self.dim)  # type: ignore[list-item]

    def result(self, parts: list[Array], position: int, before: Array | None) -> Array:
        return np.concatenate(parts, axis=self.dim)


class ReduceScatter(Collective, frozen=True, kw_only=True):
    def issue(self, cg: NeuronCodegen, src: object, dst: object) -> None:
        cg.reduce_scatter_cc_raw(self.op, [src], [dst], self.groups, self.dim)  # type: ignore[list-item]

    def result(self, parts: list[Array], position: int, before: Array | None) -> Array:
        return np.split(fold(parts, self.op), len(parts), axis=self.dim)[position]


class AllToAll(Collective, frozen=True, kw_only=True):
    join: int = 0

    def issue(self, cg: NeuronCodegen, src: object, dst: object) -> None:
        cg.all_to_all_cc_raw(None, [src], [dst], self.groups, self.dim, self.join)  # type: ignore[list-item]

    def result(self, parts: list[Array], position: int, before: Array | None) -> Array:
        chunks = [np.split(part, len(parts), axis=self.dim)[position] for part in parts]
        return np.concatenate(chunks, axis=self.join)


class Broadcast(Collective, frozen=True, kw_only=True):
    sizes: tuple[int, ...]

    def issue(self, cg: NeuronCodegen, src: object, dst: object) -> None:
        cg.broadcast_cc_raw(None, [src], [dst], self.groups, self.sizes)  # type: ignore[list-item]

    def result(self, parts: list[Array], position: int, before: Array | None) -> Array:
        return np.concatenate([part[:size] for part, size in zip(parts, self.sizes, strict=True)])


class RingStep(Collective, frozen=True, kw_only=True):
    """One step of the ring in the order of the list; on whole tensors or as tiles."""

    tiled: bool = False

    def issue(self, cg: NeuronCodegen, src: object, dst: object) -> None:
        if self.tiled or not shared(cg, self.dst):
            cg.tiled_collective_permute_implicit_cc_raw(src, dst, self.groups, 0, 1)  # type: ignore[arg-type]
        else:
            cg.collective_permute_cc_raw(None, [src], [dst], self.groups)  # type: ignore[list-item]

    def result(self, parts: list[Array], position: int, before: Array | None) -> Array:
        return parts[position - 1]


class RingReduce(Collective, frozen=True, kw_only=True):
    """One step of the ring that adds up two sources, here twice the same."""

    def issue(self, cg: NeuronCodegen, src: object, dst: object) -> None:
        cg.tiled_collective_permute_reduce_implicit_cc_raw(self.op, (src, src), dst, self.groups, 0, 1)  # type: ignore[arg-type]

    def result(self, parts: list[Array], position: int, before: Array | None) -> Array:
        return fold([parts[position - 1]] * 2, self.op)


class Permute(Collective, frozen=True, kw_only=True):
    """Explicit pairs. Ranks that no pair targets keep what dst held."""

    pairs: tuple[tuple[int, int], ...]

    def issue(self, cg: NeuronCodegen, src: object, dst: object) -> None:
        cg.tiled_collective_permute_cc_raw(src, dst, self.pairs)  # type: ignore[arg-type]

    def compute(self, values: Values, place: Place) -> Array:
        out = values[self.dst].copy()
        for source, target in self.pairs:
            out[target] = values[self.src][source]
        return out


class Variable(Collective, frozen=True, kw_only=True):
    """An all-to-all of variable counts; the counts of rank r stand in the argument "plan", member by member."""

    counts: tuple[tuple[int, ...], ...]

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        table = cg.allocate(f"{self.dst}.table", (3, len(self.groups[0])), "uint32", "shared_hbm")
        plan = cg.allocate(f"arg.{self.dst}.plan", table.shape, "uint32", "shared_hbm")
        if cg.core == 0:
            cg.insert(InstDMACopy(dst=table.full(), srcs=(plan.full(),)))
        meet(cg, table.name)
        if not self.alone or cg.core == 0:
            cg.all_to_all_v_cc_raw([flat(cg, self.src)], [flat(cg, self.dst)], self.groups, table)
        if self.alone:
            meet(cg, self.dst)

    def plan(self, rank: int) -> Array:
        """The metadata of a rank."""
        count = np.array(self.counts[rank], np.uint32)
        return np.stack([count, np.cumsum(count) - count, np.zeros_like(count)]).astype(np.uint32)

    def compute(self, values: Values, place: Place) -> Array:
        out = values[self.dst].copy()
        flat = out.reshape(place.ranks, -1)
        source = values[self.src].reshape(place.ranks, -1)
        for group in self.groups:
            slot = flat.shape[1] // len(group)
            for s, sender in enumerate(group):
                start = 0
                for r, receiver in enumerate(group):
                    count = self.counts[sender][r]
                    flat[receiver, s * slot : s * slot + count] = source[sender, start : start + count]
                    start += count
        return out


def flat(cg: NeuronCodegen, name: str) -> AccessPattern:
    return AccessPattern(name, ((1, cg.tensors[name].size),))


class RingGather(Collective, frozen=True, kw_only=True):
    """An all-gather made of ring steps on one or two channels, each block stored where its owner belongs: right for any
    order of the ring. Tiles only; dst has a leading extent of all ranks."""

    channels: int = 1

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        rows, columns = cg.tensors[self.src].shape
        width, block = columns // self.channels, rows * columns
        size = len(self.groups[0])
        lanes = [
            [cg.allocate(cg.fresh_name("ring"), (rows, width), place.dtype, "sbuf") for _ in range(2)]
            for _ in range(self.channels)
        ]
        part = ((columns, rows), (1, width))
        for c, buffers in enumerate(lanes):
            # A tile's rows may be apart in a copy, not in a collective.
            source = AccessPattern(self.src, part, c * width)
            cg.insert(InstDMACopy(dst=buffers[0].full(), srcs=(source,)))
        for step in range(size):
            for c, buffers in enumerate(lanes):
                owner = processing_rank(cg, step, c, self.channels, self.groups)
                target = AccessPattern(self.dst, part, c * width, scalar_offset=owner.name, indirect_stride=block)
                if cg.core == 0:
                    cg.insert(InstDMACopy(dst=target, srcs=(buffers[step % 2].full(),)))
            if step + 1 < size:
                for c, buffers in enumerate(lanes):
                    held, free = buffers[step % 2], buffers[(step + 1) % 2]
                    cg.tiled_collective_permute_implicit_cc_raw(held, free, self.groups, c, self.channels)
        meet(cg, self.dst)

    def compute(self, values: Values, place: Place) -> Array:
        out = values[self.dst].copy()
        for rank in range(place.ranks):
            for member in group_of([list(g) for g in self.groups], rank):
                out[rank].reshape(place.ranks, -1, out.shape[-1])[member] = values[self.src][member, 0]
        return out


class Swap(Step, frozen=True, kw_only=True):
    """The two cores swap a tile."""

    pipe: int = 0

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        other = 1 - cg.core
        cg.sendrecv(cg.tensors[self.dst], cg.tensors[self.src], other, other, self.pipe)

    def compute(self, values: Values, place: Place) -> Array:
        return values[self.src][:, ::-1]


class Copy(Step, frozen=True, kw_only=True):
    """A copy within HBM or to tiles: each core takes its share of the rows, or all of them into its own tile."""

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        src, dst = cg.tensors[self.src], cg.tensors[self.dst]
        if not shared(cg, self.dst) or place.lnc == 1:
            cg.insert(InstDMACopy(dst=dst.full(), srcs=(src.full(),)))
        else:
            rows, columns = src.shape
            start, stop = rows * cg.core // 2, rows * (cg.core + 1) // 2
            if stop > start:
                pattern = ((columns, stop - start), (1, columns))
                cg.insert(
                    InstDMACopy(
                        dst=AccessPattern(dst.name, pattern, start * columns),
                        srcs=(AccessPattern(src.name, pattern, start * columns),),
                    )
                )
        meet(cg, self.dst if shared(cg, self.dst) else self.src)

    def compute(self, values: Values, place: Place) -> Array:
        return values[self.src]


class Load(Copy, frozen=True, kw_only=True):
    """A copy from HBM into each core's tile."""

    def compute(self, values: Values, place: Place) -> Array:
        return np.stack([values[self.src]] * place.lnc, axis=1)


class Store(Step, frozen=True, kw_only=True):
    """A copy of one core's tile to HBM."""

    core: int = 0

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        if cg.core == self.core:
            cg.insert(InstDMACopy(dst=cg.tensors[self.dst].full(), srcs=(cg.tensors[self.src].full(),)))
        meet(cg, self.dst)

    def compute(self, values: Values, place: Place) -> Array:
        return values[self.src][:, self.core]


class Add(Step, frozen=True, kw_only=True):
    """dst = src + other, on tiles."""

    other: str

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        dst, a, b = (cg.tensors[name].full() for name in (self.dst, self.src, self.other))
        cg.insert(InstTensorTensor(dst=dst, data1=a, data2=b, op=AluOp.add))

    def compute(self, values: Values, place: Place) -> Array:
        return fold([values[self.src], values[self.other]], "add")


class Scale(Step, frozen=True, kw_only=True):
    """dst = src * factor, on tiles; the factor differs between programs and cores."""

    factors: tuple[float, ...]

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        mine = next(i for i, ranks in enumerate(place.sets) if cg.scope.ranks == ranks)
        src, dst = cg.tensors[self.src].full(), cg.tensors[self.dst].full()
        cg.insert(InstActivation(dst=dst, data=src, func=ActFn.copy, scale=self.factors[mine] + cg.core))

    def compute(self, values: Values, place: Place) -> Array:
        out = values[self.src].astype(np.float32)
        for ranks, factor in zip(place.sets, self.factors, strict=True):
            for core in range(place.lnc):
                out[list(ranks), core] *= np.float32(factor + core)
        return out.astype(values[self.src].dtype)


class Select(Step, frozen=True, kw_only=True):
    """dst = the block of src that the rank's number says."""

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        dst = cg.tensors[self.dst]
        rank = cg.rank_id()
        source = AccessPattern(self.src, dst.full().pattern, scalar_offset=rank.name, indirect_stride=dst.size)
        if not shared(cg, self.dst) or cg.core == 0:
            cg.insert(InstDMACopy(dst=dst.full(), srcs=(source,)))
        meet(cg, self.dst if shared(cg, self.dst) else self.src)

    def compute(self, values: Values, place: Place) -> Array:
        rows = values[self.src].shape[1] // place.ranks
        return np.stack([values[self.src][r, r * rows : (r + 1) * rows] for r in range(place.ranks)])


class Blocks(Step, frozen=True, kw_only=True):
    """A loop of the device that copies src to dst row by row, driven by the loop's register."""

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        rows, columns = cg.tensors[self.src].shape
        if cg.core == 0:
            with cg.loop(0, rows) as row:
                cg.insert(InstDMACopy(dst=self._row(self.dst, columns, row), srcs=(self._row(self.src, columns, row),)))
        meet(cg, self.dst)

    def _row(self, name: str, columns: int, row: Register) -> AccessPattern:
        return AccessPattern(name, ((columns, 1), (1, columns)), scalar_offset=row.name, indirect_stride=columns)

    def compute(self, values: Values, place: Place) -> Array:
        return values[self.src]


class Turns(Collective, frozen=True, kw_only=True):
    """A loop of the device around an all-reduce whose result is the next turn's source; src and dst end up equal."""

    turns: int = 2

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        src, dst = cg.tensors[self.src], cg.tensors[self.dst]
        with cg.loop(0, self.turns):
            if not self.alone or cg.core == 0:
                cg.all_reduce_cc_raw(self.op, [src], [dst], self.groups)
            if self.alone:
                meet(cg, self.dst)
            if not shared(cg, self.dst) or cg.core == 0:
                cg.insert(InstDMACopy(dst=src.full(), srcs=(dst.full(),)))
            meet(cg, self.src)

    def compute(self, values: Values, place: Place) -> Array:
        step = AllReduce(src=self.src, dst=self.dst, groups=self.groups, op=self.op)
        state = dict(values)
        for _ in range(self.turns):
            state[self.src] = step.compute(state, place)
        values[self.src] = state[self.src]
        return state[self.src]


class Send(Step, frozen=True, kw_only=True):
    """A raw send from one rank to another, each of which runs a program of its own."""

    source: int
    target: int

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        if cg.core == 0:
            if cg.scope.ranks == (self.source,):
                cg.send_cc_raw([cg.tensors[self.src]], None, self.target)
            if cg.scope.ranks == (self.target,):
                cg.recv_cc_raw([cg.tensors[self.dst]], None, self.source, [])
        meet(cg, self.dst)

    def compute(self, values: Values, place: Place) -> Array:
        out = values[self.dst].copy()
        out[self.target] = values[self.src][self.source]
        return out


STEPS: dict[str, type[Step]] = {
    step.__name__: step
    for step in (
        AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, RingStep, RingReduce, Permute, Variable, RingGather,
        Swap, Copy, Load, Store, Add, Scale, Select, Blocks, Turns, Send,
    )
}  # fmt: skip


def limit(shape: tuple[int, ...], tile: bool) -> bool:
    """Whether a tensor of that shape is small enough."""
    return prod(shape) <= 4096 and (not tile or shape[0] <= 128)
