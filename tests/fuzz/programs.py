"""Random legal programs: which steps, on which tensors, in which world; how they are built and what they compute."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by it)
import numpy as np
from hypothesis import strategies as st
from msgspec import Struct

from nkicc.builder import NeuronCodegen, ParallelState, link, link_programs
from nkicc.ir.access import AccessPattern
from nkicc.ir.isa import InstDMACopy
from nkicc.ir.program import Module
from nkicc.ir.types import DType, World

from .steps import (
    OPS,
    Add,
    AllGather,
    AllReduce,
    AllToAll,
    Blocks,
    Broadcast,
    Copy,
    Kind,
    Load,
    Permute,
    Place,
    ReduceScatter,
    RingGather,
    RingReduce,
    RingStep,
    Scale,
    Select,
    Send,
    Step,
    Store,
    Swap,
    Tensors,
    Turns,
    Variable,
    groups_of,
    limit,
    meet,
    pick,
)

__all__ = ["Plan", "plans"]

Array = np.ndarray


class Plan(Struct, frozen=True):
    """A legal program. `arguments` are what it is given, in HBM; `tensors` are all of its own, `returned` those whose
    content it returns."""

    place: Place
    arguments: dict[str, Kind]
    tensors: dict[str, Kind]
    steps: tuple[Step, ...]
    returned: tuple[str, ...]
    #: Whether the order of implicit rings does not matter.
    any_order: bool

    def module(self) -> Module:
        """The program at the penguin level."""
        state = ParallelState(self.place.world)
        modules = []
        for ranks in self.place.sets:
            codegens = [
                NeuronCodegen(state, core=core, ranks=None if len(self.place.sets) == 1 else ranks)
                for core in range(self.place.lnc)
            ]
            outputs, *_ = [self._write(cg) for cg in codegens]
            modules.append(link(codegens, inputs=[f"arg.{name}" for name in self.inputs()], outputs=outputs))
        return modules[0] if len(modules) == 1 else link_programs(modules)

    def _write(self, cg: NeuronCodegen) -> list[Any]:
        """One core's stream: arguments in, steps, results out."""
        lnc = self.place.lnc
        for name, kind in self.arguments.items():
            argument = cg.allocate(f"arg.{name}", kind.shape, self.place.dtype, "shared_hbm")
            own = cg.allocate(name, kind.shape, self.place.dtype, "shared_hbm")
            if cg.core == 0:
                cg.insert(InstDMACopy(dst=own.full(), srcs=(argument.full(),)))
            meet(cg, name)
        for name, kind in self.tensors.items():
            cg.allocate(name, kind.shape, self.place.dtype, "sbuf" if kind.tile else "shared_hbm")
        for step in self.steps:
            step.build(cg, self.place)
        outputs = []
        for name in self.returned:
            kind = self.tensors.get(name) or self.arguments[name]
            tensor = cg.tensors[name]
            result = cg.allocate(
                f"result.{name}", (lnc, *kind.shape) if kind.tile else kind.shape, self.place.dtype, "shared_hbm"
            )
            if kind.tile:
                target = AccessPattern(result.name, tensor.full().pattern, cg.core * tensor.size)
                cg.insert(InstDMACopy(dst=target, srcs=(tensor.full(),)))
            elif cg.core == 0:
                cg.insert(InstDMACopy(dst=result.full(), srcs=(tensor.full(),)))
            outputs.append(result)
        return outputs

    def inputs(self) -> dict[str, Array]:
        """The arguments of all ranks, ranks leading: they differ in every element."""
        numpy = DType.of(self.place.dtype).numpy
        given: dict[str, Array] = {}
        for number, (name, kind) in enumerate(self.arguments.items()):
            random = np.random.default_rng([number, self.place.ranks])
            given[name] = random.integers(-99, 99, (self.place.ranks, *kind.shape)).astype(numpy)
        for step in self.steps:
            if isinstance(step, Variable):
                given[f"{step.dst}.plan"] = np.stack([step.plan(rank) for rank in range(self.place.ranks)])
        return given

    def results(self) -> list[Array]:
        """What is returned, ranks leading."""
        values = {name: value for name, value in self.inputs().items() if name in self.arguments}
        for step in self.steps:
            values[step.dst] = step.compute(values, self.place)
        return [values[name] for name in self.returned]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A legal program of a few steps on one to six ranks."""
    ranks = draw(st.integers(1, 6))
    lnc = draw(st.sampled_from([1, 2]))
    place = Place(World(ranks, lnc), _sets(draw, ranks), draw(st.sampled_from(["float32", "float32", "bfloat16"])))
    writer = _Writer(draw, place)
    for _ in range(draw(st.integers(1, 7))):
        writer.step()
    return writer.plan()


def _sets(draw: st.DrawFn, ranks: int) -> tuple[tuple[int, ...], ...]:
    """The ranks in one program, or in a few."""
    order = draw(st.permutations(range(ranks)))
    cuts = draw(st.sets(st.integers(1, ranks), max_size=2)) if draw(st.booleans()) else set()
    edges = sorted({0, *[cut for cut in cuts if cut < ranks], ranks})
    return tuple([tuple(sorted(order[a:b])) for a, b in pairwise(edges)])


class _Writer:
    """Adds steps to a program. A tensor is written before it is read."""

    def __init__(self, draw: st.DrawFn, place: Place) -> None:
        self.draw = draw
        self.place = place
        columns = draw(st.sampled_from([2, 4, 6]))
        rows = draw(st.sampled_from([1, 2, place.ranks, 2 * place.ranks]))
        self.arguments: Tensors = {"a": Kind((rows, columns)), "table": Kind((place.ranks * rows, columns))}
        self.tensors: Tensors = {}
        self.live: Tensors = dict(self.arguments)
        self.steps: list[Step] = []
        self.used: set[str] = set()
        self.any_order = True
        if draw(st.booleans()):
            self.write_load()
            self.write_scale()

    def plan(self) -> Plan:
        last = tuple([name for name in self.live if name not in self.used and name in self.tensors])
        return Plan(
            self.place, self.arguments, self.tensors, tuple(self.steps), last or tuple(self.live)[:1], self.any_order
        )

    def step(self) -> None:
        writers = [getattr(self, name) for name in dir(self) if name.startswith("write_")]
        pick(self.draw, writers)()  # type: ignore[operator]

    def source(self, *, tile: bool | None = None) -> str | None:
        """A tensor that has been written."""
        names = [name for name, kind in self.live.items() if tile is None or kind.tile == tile]
        return str(pick(self.draw, names)) if names else None

    def target(
        self, shape: tuple[int, ...], tile: bool, *, written: bool = False, but: tuple[str, ...] = ()
    ) -> str | None:
        """A tensor to write: one of that shape that exists, or a new one (which `written` excludes)."""
        known = [n for n, kind in self.live.items() if kind == Kind(shape, tile) and n not in but and n in self.tensors]
        if known and (written or self.draw(st.integers(0, 3)) == 0):
            return str(pick(self.draw, known))
        if written or not limit(shape, tile):
            return None
        name = f"t{len(self.tensors)}"
        self.tensors[name] = Kind(shape, tile)
        return name

    def add(self, step: Step) -> None:
        self.steps.append(step)
        self.used.discard(step.dst)
        self.used |= {step.src} - {step.dst}
        self.live[step.dst] = self.tensors[step.dst]

    def collective(
        self, kind: type[Any], shape: Any, *, tile: bool | None = None, equal: bool = True, **more: Any
    ) -> None:
        """A collective whose result has `shape(source shape, group size)`, None if it does not fit."""
        src = self.source(tile=tile)
        if src is None:
            return
        groups = groups_of(self.draw, self.place.ranks, equal=equal)
        found = shape(self.live[src].shape, len(groups[0]))
        if found is None:
            return
        on_tile = self.live[src].tile
        dst = self.target(found, on_tile, but=(src,))
        if dst is None:
            return
        alone = not on_tile and self.place.lnc == 2 and self.draw(st.booleans())
        groups_ = tuple([tuple(group) for group in groups])
        self.add(kind(src=src, dst=dst, alone=alone, groups=groups_, **{k: v(groups) for k, v in more.items()}))

    # One method per kind of step; what cannot be done with the tensors there are is left out.

    def write_all_reduce(self) -> None:
        self.collective(AllReduce, lambda s, n: s, equal=False, op=lambda g: pick(self.draw, OPS))

    def write_all_gather(self) -> None:
        dim = self.draw(st.integers(0, 1))
        self.collective(AllGather, lambda s, n: _scaled(s, dim, n), dim=lambda g: dim)

    def write_reduce_scatter(self) -> None:
        dim = self.draw(st.integers(0, 1))
        self.collective(
            ReduceScatter, lambda s, n: _cut(s, dim, n), dim=lambda g: dim, op=lambda g: pick(self.draw, OPS)
        )

    def write_all_to_all(self) -> None:
        cut, join = self.draw(st.integers(0, 1)), self.draw(st.integers(0, 1))

        def shape(s: tuple[int, ...], n: int) -> tuple[int, ...] | None:
            part = _cut(s, cut, n)
            return part and _scaled(part, join, n)

        self.collective(AllToAll, shape, tile=False, dim=lambda g: cut, join=lambda g: join)

    def write_broadcast(self) -> None:
        src = self.source(tile=False)
        assert src is not None
        rows, columns = self.live[src].shape
        groups = groups_of(self.draw, self.place.ranks)
        sizes = tuple([self.draw(st.integers(0, rows)) for _ in groups[0]])
        dst = self.target((sum(sizes), columns), tile=False, but=(src,)) if sum(sizes) else None
        if dst is not None:
            self.add(Broadcast(src=src, dst=dst, groups=tuple(map(tuple, groups)), sizes=sizes))

    def write_ring_step(self) -> None:
        self.any_order = False
        self.collective(RingStep, lambda s, n: s, equal=False, tiled=lambda g: self.draw(st.booleans()))

    def write_ring_reduce(self) -> None:
        self.any_order = False
        self.collective(RingReduce, lambda s, n: s, equal=False, op=lambda g: pick(self.draw, OPS))

    def write_ring_gather(self) -> None:
        src = self.source(tile=True)
        if src is None:
            return
        rows, columns = self.live[src].shape
        groups = groups_of(self.draw, self.place.ranks)
        channels = self.draw(st.sampled_from([1, 2]))
        shape = (self.place.ranks * rows, columns)
        dst = self.target(shape, tile=False, written=len(groups) > 1)
        if dst is not None and columns % channels == 0:
            if dst not in self.live:
                self.live[dst] = self.tensors[dst]
                # Every block is written, so that what it held before does not matter.
                self.steps.append(Blank(src=dst, dst=dst, shape=shape))
            self.add(RingGather(src=src, dst=dst, groups=tuple(map(tuple, groups)), channels=channels))

    def write_permute(self) -> None:
        src = self.source(tile=False)
        assert src is not None
        dst = self.target(self.live[src].shape, tile=False, written=True, but=(src,))
        if dst is not None:
            count = self.draw(st.integers(1, self.place.ranks))
            sources, targets = (self.draw(st.permutations(range(self.place.ranks)))[:count] for _ in range(2))
            alone = self.place.lnc == 2 and self.draw(st.booleans())
            self.add(Permute(src=src, dst=dst, alone=alone, pairs=tuple(zip(sources, targets, strict=True))))

    def write_variable(self) -> None:
        src = self.source(tile=False)
        assert src is not None
        dst = self.target(self.live[src].shape, tile=False, written=True, but=(src,))
        if dst is None or any(isinstance(step, Variable) and step.dst == dst for step in self.steps):
            return
        groups = groups_of(self.draw, self.place.ranks)
        elements = int(np.prod(self.live[src].shape))
        if elements % len(groups[0]):
            return
        room = elements // len(groups[0])
        counts = tuple([tuple([self.draw(st.integers(0, room)) for _ in groups[0]]) for _ in range(self.place.ranks)])
        alone = self.place.lnc == 2 and self.draw(st.booleans())
        self.add(Variable(src=src, dst=dst, alone=alone, groups=tuple(map(tuple, groups)), counts=counts))

    def write_swap(self) -> None:
        src = self.source(tile=True) if self.place.lnc == 2 else None
        dst = self.target(self.live[src].shape, tile=True, but=(src,)) if src else None
        if src and dst:
            self.add(Swap(src=src, dst=dst, pipe=self.draw(st.integers(0, 2))))

    def write_copy(self) -> None:
        src = self.source(tile=False)
        assert src is not None
        dst = self.target(self.live[src].shape, tile=False, but=(src,))
        if dst is not None:
            self.add(Copy(src=src, dst=dst))

    def write_load(self) -> None:
        src = self.source(tile=False)
        assert src is not None
        dst = self.target(self.live[src].shape, tile=True)
        if dst is not None:
            self.add(Load(src=src, dst=dst))

    def write_store(self) -> None:
        src = self.source(tile=True)
        dst = self.target(self.live[src].shape, tile=False) if src else None
        if src and dst:
            self.add(Store(src=src, dst=dst, core=self.draw(st.integers(0, self.place.lnc - 1))))

    def write_add(self) -> None:
        src = self.source(tile=True)
        if src is None:
            return
        shape = self.live[src].shape
        other = str(pick(self.draw, [n for n, kind in self.live.items() if kind == Kind(shape, True)]))
        dst = self.target(shape, tile=True)
        if dst is not None:
            self.add(Add(src=src, dst=dst, other=other))
            self.used |= {other} - {dst}

    def write_scale(self) -> None:
        src = self.source(tile=True)
        dst = self.target(self.live[src].shape, tile=True) if src else None
        if src and dst:
            factors = tuple([float(self.draw(st.integers(1, 3))) for _ in self.place.sets])
            self.add(Scale(src=src, dst=dst, factors=factors))

    def write_select(self) -> None:
        rows, columns = self.live["a"].shape
        dst = self.target((rows, columns), tile=False)
        if dst is not None:
            self.add(Select(src="table", dst=dst))

    def write_blocks(self) -> None:
        src = self.source(tile=False)
        assert src is not None
        dst = self.target(self.live[src].shape, tile=False, but=(src,))
        if dst is not None:
            self.add(Blocks(src=src, dst=dst))

    def write_turns(self) -> None:
        src = self.source()
        if src is None or src in self.arguments:
            return
        kind = self.live[src]
        dst = self.target(kind.shape, kind.tile, but=(src,))
        if dst is not None:
            alone = not kind.tile and self.place.lnc == 2 and self.draw(st.booleans())
            groups = tuple(map(tuple, groups_of(self.draw, self.place.ranks, equal=False)))
            self.add(
                Turns(
                    src=src, dst=dst, alone=alone, groups=groups, op=str(pick(self.draw, OPS)),
                    turns=self.draw(st.integers(1, 3)),
                )
            )  # fmt: skip

    def write_send(self) -> None:
        single = [ranks[0] for ranks in self.place.sets if len(ranks) == 1]
        src = self.source(tile=False)
        assert src is not None
        dst = self.target(self.live[src].shape, tile=False, written=True, but=(src,))
        if dst is not None and len(single) >= 2:
            source, target = self.draw(st.permutations(single))[:2]
            self.add(Send(src=src, dst=dst, source=source, target=target))


class Blank(Step, frozen=True, kw_only=True):
    """Nothing: the reference wants an array where a tensor is about to be filled block by block."""

    shape: tuple[int, ...]

    def build(self, cg: NeuronCodegen, place: Place) -> None:
        pass

    def compute(self, values: dict[str, Array], place: Place) -> Array:
        return np.zeros((place.ranks, *self.shape), DType.of(place.dtype).numpy)


def _scaled(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return tuple([extent * size if axis == dim else extent for axis, extent in enumerate(shape)])


def _cut(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...] | None:
    if shape[dim] % size:
        return None
    return tuple([extent // size if axis == dim else extent for axis, extent in enumerate(shape)])
