"""The state of a run: per program, the memory and registers of the cores of its ranks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nkicc.engines import Options
from nkicc.ir.access import AccessPattern, Tensor
from nkicc.ir.base import Inst
from nkicc.ir.errors import fail
from nkicc.ir.program import Core, Module, Program, walk
from nkicc.ir.types import Engine, Memory

from .history import History
from .memory import AnyView, Buffer, Lanes, Offsets, Pool, bind
from .nonfinite import Nonfinite
from .rings import Rings
from .watch import Watch

__all__ = ["CoreState", "RankSet"]

Array = np.ndarray


class RankSet:
    """The ranks that run one program, batched along the rank axis."""

    def __init__(
        self, module: Module, program: Program, inputs: Mapping[str, Array], options: Options, pool: Pool
    ) -> None:
        self.program = program
        ranks = program.ranks or tuple(range(module.world.ranks))
        self.ranks: Array = np.array(ranks, np.int64)
        self.printed: list[str] = []
        widen = options.low_precision_as_float32 and not _reinterprets(program)
        self.pool = pool
        self.rings = Rings(options.ring_order)
        self.uninitialised = options.uninitialised
        self.shared = {t.name: Buffer(t, self.ranks, self.pool, widen=widen) for t in program.tensors}
        self.cores = [CoreState(self, index, core, widen) for index, core in enumerate(program.cores)]
        self.nonfinite = Nonfinite() if options.non_finite else None
        self.watch = Watch() if options.races and len(self.cores) > 1 else None
        for constant in program.constants:
            tensor = self.shared[constant.tensor].tensor
            content = np.frombuffer(constant.data, tensor.dtype.numpy)
            self.shared[constant.tensor].adopt(content.reshape(1, *tensor.shape))
        for name in program.inputs:
            self._load(name, inputs)

    def _load(self, name: str, inputs: Mapping[str, Array]) -> None:
        buffer = self.shared[name]
        value = inputs.get(name)
        if value is None:
            fail("NKC007", name=name, why="the program needs it and it was not given")
        expected = buffer.tensor.shape
        if (
            value.dtype != buffer.tensor.dtype.numpy
            or value.shape[1:] != expected
            or (value.shape[0] not in (1, len(self.ranks)))
        ):
            fail(
                "NKC007",
                name=name,
                why=f"expected {buffer.tensor.dtype.value}{list(expected)} per rank for "
                f"{len(self.ranks)} rank(s), got {value.dtype.name}{list(value.shape[1:])} for {value.shape[0]}",
            )
        buffer.adopt(value)

    def cores_meet(self) -> None:
        """The cores of the ranks have met: what they did before is ordered with what they do next."""
        if self.watch is not None:
            self.watch.meet()

    def describe(self) -> str:
        """`rank 3` or `ranks 0-3`, for messages."""
        first, last = int(self.ranks[0]), int(self.ranks[-1])
        return f"rank {first}" if len(self.ranks) == 1 else f"ranks {first}-{last}"


class Registers(dict[str, Array]):
    """Register values: int64 of shape (1,) or (ranks,). Assignment changes the ranks that execute."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__()
        self._lanes = lanes

    def __setitem__(self, name: str, value: Array) -> None:
        active = self._lanes.active
        if active is not None:
            value = np.where(active, value, self.get(name, _ZERO))
        super().__setitem__(name, value)


_ZERO = np.zeros(1, np.int64)


class CoreState:
    """One physical core of every rank of a set."""

    def __init__(self, ranks: RankSet, index: int, core: Core, widen: bool) -> None:
        self.set = ranks
        self.index = index
        self.body = core.body
        self.ranks = ranks.ranks
        self.printed = ranks.printed
        self.lanes = Lanes()
        self.history = History()
        self.rings = ranks.rings
        self.registers = Registers(self.lanes)
        #: Random generators per engine, see rules.random.
        self.generators: dict[Engine, Array] = {}
        #: Accumulators per engine, see rules.accumulate.
        self.accumulators: dict[Engine, Array] = {}
        self._own: dict[str, Tensor] = {t.name: t for t in core.tensors}
        self._buffers = {
            t.name: Buffer(t, ranks.ranks, ranks.pool, widen=widen) for t in core.tensors if t.remote is None
        }
        self._views: dict[AccessPattern, AnyView] = {}

    def buffer(self, name: str) -> Buffer:
        """The storage that a tensor name stands for on this core; an alias leads to the other core's."""
        found = self._buffers.get(name) or self.set.shared.get(name)
        if found is None:
            tensor = self._own.get(name)
            if tensor is None or tensor.remote is None:
                fail("NKC023", name=name, core=self.index)
            found = self.set.cores[tensor.remote.core].buffer(tensor.remote.tensor)
        return found

    def own_buffers(self) -> dict[str, Buffer]:
        """The storage of the tensors that only this core sees, by name."""
        return self._buffers

    def memory(self, ap: AccessPattern) -> Memory:
        return self.buffer(ap.tensor).tensor.memory

    def view(self, ap: AccessPattern, inst: Inst) -> AnyView:
        """The access pattern bound to its storage; static views are shared between instructions."""
        if not ap.is_dynamic:
            view = self._views.get(ap)
            if view is None:
                view = self._views[ap] = bind(self.buffer(ap.tensor), ap, self.lanes, None, inst.label, inst.loc)
            return view
        return bind(self.buffer(ap.tensor), ap, self.lanes, self._offsets(ap, inst), inst.label, inst.loc)

    def register(self, name: str, inst: Inst) -> Array:
        """The value of a register; NKC027 if nothing has written it."""
        value = self.registers.get(name)
        if value is None:
            fail("NKC027", name=name, core=self.index, loc=inst.loc)
        return value

    def _offsets(self, ap: AccessPattern, inst: Inst) -> Offsets:
        source = ap.scalar_offset
        if isinstance(source, str):
            return lambda: self.register(source, inst)
        if source is not None:
            scalar = self.view(source, inst)
            return lambda: scalar.read().reshape(-1).astype(np.int64)
        assert ap.vector_offset is not None
        vector, rows = self.view(ap.vector_offset, inst), ap.shape[0]

        def read() -> Array:
            value = vector.read()
            columns = value.reshape(*value.shape[:2], -1).swapaxes(1, 2)
            return columns.reshape(value.shape[0], -1)[:, :rows].astype(np.int64)

        return read


def _reinterprets(program: Program) -> bool:
    """Whether any operand views a tensor as another type, which needs the true storage types."""
    return any(
        ap.dtype is not None
        for core in program.cores
        for inst in walk(core.body)
        for ap in (*inst.reads(), *inst.writes())
    )
