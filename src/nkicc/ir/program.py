"""Programs and modules: what a run executes, and its JSON form.

A module is a world, a target and one program per set of ranks. A program is one instruction list per core of a rank; a
loop holds its body. Both levels share this shape; `Module.level` says which instructions it holds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Union, get_args

import msgspec
from msgspec import Struct

from . import bir, isa, penguin
from .access import AccessPattern, Tensor
from .base import Inst, Scope, show_ranks
from .errors import fail
from .types import Loc, RegisterName, Target, World

__all__ = [
    "BIR",
    "LOOPS",
    "PENGUIN",
    "Constant",
    "Core",
    "InstLoop",
    "InstWhile",
    "Instruction",
    "Level",
    "Module",
    "Program",
    "walk",
]

VERSION = 1


class Level(str, Enum):
    penguin = "penguin"
    bir = "bir"


class InstLoop(Inst, frozen=True, kw_only=True):
    """for register in range(start, stop, step): body. A bound may be a register, read once at entry."""

    register: RegisterName
    start: int | RegisterName
    stop: int | RegisterName
    step: int = 1
    body: tuple[Instruction, ...]

    def verify(self, scope: Scope) -> None:
        """NKC035 for a step of 0, a bound that no register holds, or a mask, which loops do not have."""
        check_unmasked(self)
        for what, value, permitted in (
            ("start", self.start, "a register or 32 bits"),
            ("stop", self.stop, "a register or 32 bits"),
            ("step", self.step, "32 bits other than 0"),
        ):
            if isinstance(value, int) and (not -(2**31) <= value < 2**32 or (what == "step" and value == 0)):
                fail(
                    "NKC035",
                    inst=self.label,
                    what=what,
                    found=value,
                    permitted=permitted,
                    operand=what,
                    loc=self.loc,
                )


class InstWhile(Inst, frozen=True, kw_only=True):
    """while condition: body. The register is read before every pass (zero ends the loop); the body recomputes it."""

    condition: RegisterName
    body: tuple[Instruction, ...]

    def verify(self, scope: Scope) -> None:
        """NKC035 for a mask, which loops do not have."""
        check_unmasked(self)


#: The instructions that hold others in `body`.
LOOPS = (InstLoop, InstWhile)


PENGUIN = (
    penguin.AllGatherOp | penguin.AllGatherVOp | penguin.AllReduceOp | penguin.AlltoAllOp | penguin.AlltoAllVOp
    | penguin.Barrier | penguin.BroadcastOp | penguin.CollectivePermuteOp | penguin.CollectivePermuteReduceOp
    | penguin.CoreBarrierOp | penguin.CurrentProcessingRankId | penguin.GetGlobalRankId | penguin.RecvOp
    | penguin.ReduceScatterOp | penguin.SendOp | penguin.SendRecvCCEOp | penguin.SendRecvOp | penguin.ShardOp
    | penguin.TiledAllReduceOp | penguin.TiledCollectivePermuteOp | penguin.TiledCollectivePermuteReduceOp
)  # fmt: skip
BIR = (
    bir.InstCollectiveCompute | bir.InstCollectiveRecv | bir.InstCollectiveSend | bir.InstCoreBarrier
    | bir.InstGPSIMDSB2SB | bir.InstGetCurProcessingRankID | bir.InstGetGlobalRankId
)  # fmt: skip
Instruction = Union[isa.ISA, InstLoop, InstWhile, PENGUIN, BIR]  # noqa: UP007

_LEVEL_OF: dict[type, Level] = dict.fromkeys(get_args(PENGUIN), Level.penguin) | dict.fromkeys(get_args(BIR), Level.bir)


class Core(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One physical core's part: the tensors that only it sees and its instructions in program order."""

    tensors: tuple[Tensor, ...] = ()
    body: tuple[Instruction, ...] = ()


class Constant(Struct, frozen=True, forbid_unknown_fields=True):
    """What shared tensor `tensor` holds before the program starts, on every rank: its elements in row-major order
    (base64 in JSON)."""

    tensor: str
    data: bytes


class Program(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a set of ranks runs. `tensors` are those that all cores of a rank see (shared HBM, kernel arguments);
    `inputs` names the arguments among them in order, `outputs` are views of what the kernel returned. `ranks` empty
    means all ranks of the world. `constants` are shared tensors that come filled. `has_collectives` is the builder's
    flag."""

    name: str
    cores: tuple[Core, ...]
    tensors: tuple[Tensor, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[AccessPattern, ...] = ()
    constants: tuple[Constant, ...] = ()
    ranks: tuple[int, ...] = ()
    has_collectives: bool = False

    def scope(self, module: Module, core: int) -> Scope:
        """The scope that core's instructions verify themselves in."""
        tensors = {t.name: t for t in (*self.tensors, *self.cores[core].tensors)}
        return Scope(module.world, module.target, tensors, core, self.ranks or None)


class Module(Struct, frozen=True, omit_defaults=False, forbid_unknown_fields=True):
    """A whole job at one level: world, target, one program per set of ranks. `version` is the schema's."""

    level: Level
    world: World
    target: Target
    programs: tuple[Program, ...]
    version: int = VERSION

    def verify(self) -> None:
        """Structure and every instruction by itself; raises NkiccError."""
        if not self.world.is_possible:
            fail("NKC014", lnc=self.world.lnc, ranks=self.world.ranks)
        for program in self.programs:
            verify_program(self, program)
        check_ranks(self.programs, self.world)

    def to_json(self, *, indent: int = 2) -> str:
        """The module as JSON; `from_json` reads it back to an equal module."""
        return msgspec.json.format(msgspec.json.encode(self), indent=indent).decode()

    @staticmethod
    def from_json(text: str | bytes, *, file: str = "the text") -> Module:
        """Read what `to_json` wrote. NKC002 with the place of the fault on anything else."""
        try:
            module = _DECODER.decode(text)
            # Of two equal keys msgspec would take the last, and nobody would know.
            json.loads(text, object_pairs_hook=_unique)
            # Half a character (a lone surrogate) can be decoded, but never be printed.
            if "\\u" in text if isinstance(text, str) else b"\\u" in text:
                msgspec.json.encode(module)
        except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
            fail("NKC002", file=file, why=str(error), cause=error)
        if module.version != VERSION:
            fail("NKC002", file=file, why=f"schema version {module.version}, this nkicc reads {VERSION}")
        return module


_DECODER = msgspec.json.Decoder(Module)


def _unique(pairs: list[tuple[str, object]]) -> None:
    """Refuse a JSON object that has a key twice."""
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError(f"an object has the key {next(n for n in names if names.count(n) > 1)!r} twice")


def walk(body: Iterable[Instruction]) -> Iterator[Instruction]:
    """Every instruction in program order, loops before their bodies."""
    for inst in body:
        yield inst
        if isinstance(inst, LOOPS):
            yield from walk(inst.body)


def check_unmasked(loop: InstLoop | InstWhile) -> None:
    if loop.mask is not None:
        permitted = "none on a loop; mask what is inside"
        fail("NKC035", inst=loop.label, what="mask", found=loop.mask, permitted=permitted, operand="mask", loc=loop.loc)


def check_unique(what: str, names: Iterable[str]) -> None:
    """NKC029 for a name that stands twice."""
    for name, count in Counter(names).items():
        if count > 1:
            fail("NKC029", what=what, name=name, operand=name)


def check_name(inst: Inst, named: set[str], core: int) -> None:
    """NKC029 for the name of an instruction before, NKC089 for a dependency on none of them; adds the name to them."""
    for name in inst.deps:
        if name not in named:
            fail("NKC089", inst=inst.label, name=name, operand="deps", core=core, loc=inst.loc)
    if inst.name in named:
        fail("NKC029", what="instruction", name=inst.name, operand="name", core=core, loc=inst.loc)
    if inst.name:
        named.add(inst.name)


def check_ranks(programs: Sequence[Program], world: World, loc: Loc | None = None) -> None:
    """NKC049 unless every rank of the world runs exactly one program."""
    if len(programs) == 1 and not programs[0].ranks:
        return
    runs = Counter(rank for program in programs for rank in program.ranks or range(world.ranks))
    for count in (0, *sorted(set(runs.values()) - {1})):
        ranks = [rank for rank in range(world.ranks) if runs[rank] == count]
        if ranks:
            fail("NKC049", ranks=show_ranks(ranks), count=count, loc=loc)


def check_alias(tensors: Sequence[Mapping[str, Tensor]], core: int, tensor: Tensor) -> None:
    """An alias stands for an equal tensor (NKC022) of a core of the rank (NKC070) that is no alias itself (NKC023);
    `tensors` are those of each core."""
    if tensor.remote is None:
        return
    owner = tensor.remote.core
    if not 0 <= owner < len(tensors):
        name = f"tensor {tensor.name!r}"
        fail("NKC070", inst=name, what="remote.core", found=owner, operand="remote", core=core, loc=tensor.loc)
    target = tensors[owner].get(tensor.remote.tensor)
    if target is None or target.remote is not None:
        fail("NKC023", name=tensor.remote.tensor, operand="remote", core=owner, loc=tensor.loc)
    if (target.shape, target.dtype, target.memory) != (tensor.shape, tensor.dtype, tensor.memory):
        both = [f"{t.dtype.value}{list(t.shape)} in {t.memory.value}" for t in (target, tensor)]
        fail("NKC022", name=tensor.name, first=both[0], second=both[1], operand="remote", core=core, loc=tensor.loc)


def verify_program(module: Module, program: Program) -> None:
    """One program of a module: cores, tensors, levels, instructions."""
    if len(program.cores) != module.world.lnc:
        fail("NKC011", grid=len(program.cores), lnc=module.world.lnc)
    shared = {tensor.name: tensor for tensor in program.tensors}
    for name in (*program.inputs, *[view.tensor for view in program.outputs]):
        if name not in shared:
            fail("NKC023", name=name, hint="Inputs and outputs are tensors of the program, not of a core.")
    check_unique("argument", (*program.inputs, *[constant.tensor for constant in program.constants]))
    for view in program.outputs:
        view.verify(shared[view.tensor], operand="output")
    for constant in program.constants:
        tensor = shared.get(constant.tensor)
        if tensor is None:
            fail("NKC023", name=constant.tensor, hint="A constant is a tensor of the program, not of a core.")
        if len(constant.data) != tensor.size * tensor.dtype.size:
            fail(
                "NKC039",
                inst=f"constant {tensor.name!r}",
                left=len(constant.data) // tensor.dtype.size,
                right=tensor.size,
                operand="constants",
                loc=tensor.loc,
            )
    for rank in program.ranks:
        Scope(module.world, module.target, {}).check_rank(rank, "ranks", None)
    tensors = [{tensor.name: tensor for tensor in (*program.tensors, *part.tensors)} for part in program.cores]
    for core, part in enumerate(program.cores):
        seen: dict[str, Tensor] = {}
        for tensor in (*program.tensors, *part.tensors):
            tensor.verify()
            check_alias(tensors, core, tensor)
            if tensor.name in seen:
                fail(
                    "NKC022",
                    name=tensor.name,
                    first=seen[tensor.name].shape,
                    second=tensor.shape,
                    core=core,
                    loc=tensor.loc,
                )
            seen[tensor.name] = tensor
        scope = program.scope(module, core)
        named: set[str] = set()
        for inst in walk(part.body):
            check_name(inst, named, core)
            level = _LEVEL_OF.get(type(inst), module.level)
            if level is not module.level:
                fail(
                    "NKC012",
                    what=type(inst).__name__,
                    level=level.value,
                    expected=module.level.value,
                    core=core,
                    loc=inst.loc,
                )
            inst.verify(scope)
