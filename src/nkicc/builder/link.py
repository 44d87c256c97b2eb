"""From instruction streams to a module: the cores of a rank become a program, programs become a module."""

from __future__ import annotations

from collections.abc import Sequence

from nkicc.ir.access import AccessPattern, Tensor
from nkicc.ir.base import show_ranks
from nkicc.ir.program import Constant, Level, Module, Program, check_ranks
from nkicc.ir.types import Memory

from .codegen import NeuronCodegen
from .operands import Operands, declaration, same_declaration
from .source import here, refuse

__all__ = ["link", "link_programs"]


def link(
    codegens: Sequence[NeuronCodegen],
    *,
    name: str = "kernel",
    inputs: Sequence[str] = (),
    outputs: Operands = (),
) -> Module:
    """The penguin module of one program: one NeuronCodegen per core of a rank, in any order.

    A shared-HBM tensor that several cores declare under one name is one tensor (NKC022 if they disagree). `inputs`
    names shared tensors in the order of the arguments, `outputs` are views of shared tensors (NKC023 otherwise). NKC011
    unless there is one stream per core, NKC035 if they differ in world, target or ranks.
    """
    cores = sorted(codegens, key=lambda codegen: codegen.core)
    lnc = cores[0].scope.world.lnc if cores else 1
    if [codegen.core for codegen in cores] != list(range(lnc)):
        refuse("NKC011", grid=len({codegen.core for codegen in cores}), lnc=lnc)
    first = cores[0]
    world, target, ranks = first.scope.world, first.target, first.scope.ranks
    for other in cores[1:]:
        if (other.scope.world, other.target, other.scope.ranks) != (world, target, ranks):
            refuse(
                "NKC035",
                inst="link",
                what=f"core {other.core}'s world, target and ranks",
                found=(other.scope.world, other.target.value, show_ranks(other.scope.ranks)),
                permitted=f"those of core 0: {(world, target.value, show_ranks(ranks))}",
            )
    shared = shared_tensors(cores)
    constants = shared_constants(cores)
    for argument in inputs:
        if argument not in shared:
            refuse("NKC023", name=argument, operand="inputs")
    views = first._map_to_nd_access(outputs, "outputs")
    for view in views:
        check_output(view, shared)
    program = Program(
        name=name,
        cores=tuple([codegen.core_part() for codegen in cores]),
        tensors=tuple(shared.values()),
        inputs=tuple(inputs),
        outputs=views,
        constants=tuple(constants.values()),
        ranks=() if len(ranks) == world.ranks else ranks,
        has_collectives=any(codegen.has_collectives for codegen in cores),
    )
    return Module(Level.penguin, world, target, (program,))


def link_programs(modules: Sequence[Module]) -> Module:
    """One module of programs that different sets of ranks run. NKC049 unless every rank of the world runs exactly one,
    NKC035 if the modules differ in level, world or target."""
    if not modules:
        refuse("NKC049", ranks="all", count=0)
    first = modules[0]
    for module in modules:
        if (module.level, module.world, module.target) != (first.level, first.world, first.target):
            refuse(
                "NKC035",
                inst="link_programs",
                what="level, world or target",
                found=(module.level.value, module.world, module.target.value),
                permitted="the same for all programs",
            )
    programs = tuple([program for module in modules for program in module.programs])
    check_ranks(programs, first.world, here())
    return Module(first.level, first.world, first.target, programs)


def shared_tensors(cores: Sequence[NeuronCodegen]) -> dict[str, Tensor]:
    """The tensors that all cores see, in order of declaration. No core may declare such a name otherwise (NKC022)."""
    shared: dict[str, Tensor] = {}
    for codegen in cores:
        for tensor in codegen.tensors.values():
            if tensor.memory is Memory.shared_hbm:
                shared.setdefault(tensor.name, tensor)
    for codegen in cores:
        for tensor in codegen.tensors.values():
            known = shared.get(tensor.name)
            if known is not None and not same_declaration(known, tensor):
                refuse("NKC022", name=tensor.name, first=declaration(known), second=declaration(tensor))
    return shared


def shared_constants(cores: Sequence[NeuronCodegen]) -> dict[str, Constant]:
    """The constants of all cores. Cores that declare one name must give it one content (NKC022)."""
    constants: dict[str, Constant] = {}
    for codegen in cores:
        for name, constant in codegen.constants.items():
            if constants.setdefault(name, constant) != constant:
                refuse("NKC022", name=name, first="one constant", second="another")
    return constants


def check_output(view: AccessPattern, shared: dict[str, Tensor]) -> None:
    """NKC023 unless a view is one of a shared tensor, NKC024 unless it is inside it."""
    tensor = shared.get(view.tensor)
    if tensor is None:
        refuse("NKC023", name=view.tensor, operand="outputs")
    view.verify(tensor, operand="outputs", loc=here())
