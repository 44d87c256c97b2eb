"""The tracer: what a kernel's calls act on while it runs as plain Python, once per physical core of a rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from nkicc.builder import NeuronCodegen
from nkicc.builder.source import here, refuse
from nkicc.ir.access import Tensor
from nkicc.ir.errors import fail
from nkicc.ir.types import DType, Loc, Memory, Target

__all__ = ["Tracer", "current", "is_tracing", "tracing"]


class Tracer:
    """One core's trace. `grid` is the number of programs the kernel was launched on, or None for a launch without a
    grid."""

    __slots__ = ("_arguments", "_loops", "_unnamed", "codegen", "grid", "ordered")

    def __init__(self, codegen: NeuronCodegen, grid: int | None) -> None:
        self.codegen = codegen
        self.grid = grid
        #: Whether a `no_reorder` block is open.
        self.ordered = False
        self._arguments: set[str] = set()
        self._loops: list[tuple[str, object, Loc | None]] = []
        self._unnamed = dict.fromkeys(Memory, 0)

    @property
    def core(self) -> int:
        return self.codegen.core

    @property
    def lnc(self) -> int:
        return self.codegen.parallel_state.world.lnc

    @property
    def target(self) -> Target:
        return self.codegen.target

    def argument(self, name: str, shape: tuple[int, ...], dtype: DType, loc: Loc | None) -> Tensor:
        """The tensor of a kernel argument, in shared HBM; `loc` is the kernel's own line."""
        self._arguments.add(name)
        return self.codegen.allocate(name, shape, dtype, Memory.shared_hbm, loc=loc)

    def allocate(self, name: str, shape: tuple[int, ...], dtype: DType, memory: Memory) -> Tensor:
        """A tensor of the kernel's own. Without a name it gets one that counts per memory, so that both cores of a rank
        call the same shared tensor the same. Arguments are not in the kernel's name space: a tensor called like one is
        renamed."""
        if not name:
            number = self._unnamed[memory]
            self._unnamed[memory] = number + 1
            return self.codegen.allocate(f"{memory.value}.{number}", shape, dtype, memory, named=False)
        if name in self._arguments:
            name += ".local"
        return self.codegen.allocate(name, shape, dtype, memory)

    def enter(self, what: str, loop: object) -> None:
        """A loop of the device begins that the kernel's own `for` statement ends."""
        self._loops.append((what, loop, here()))

    def leave(self, loop: object) -> None:
        """The innermost such loop ends. NKC111 if one inside of it has been left open."""
        what, innermost, loc = self._loops.pop()
        if innermost is not loop:
            fail("NKC111", loop=what, loc=loc)

    def finish(self) -> None:
        """NKC111 if a loop has been left open."""
        if self._loops:
            what, _, loc = self._loops[-1]
            fail("NKC111", loop=what, loc=loc)


_CURRENT: ContextVar[Tracer | None] = ContextVar("tracer", default=None)


def current(what: str) -> Tracer:
    """The tracer of the running kernel; NKC009 outside of one."""
    tracer = _CURRENT.get()
    if tracer is None:
        refuse("NKC009", what=what)
    return tracer


def is_tracing() -> bool:
    """Whether a kernel is being traced."""
    return _CURRENT.get() is not None


@contextmanager
def tracing(tracer: Tracer) -> Iterator[None]:
    """Make `tracer` the current one."""
    token = _CURRENT.set(tracer)
    try:
        yield
    finally:
        _CURRENT.reset(token)
