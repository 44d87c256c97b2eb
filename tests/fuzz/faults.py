"""One fault in a program: an instruction of the penguin level that is missing, or has one field changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from nkicc.ir import isa, penguin
from nkicc.ir.access import AccessPattern
from nkicc.ir.base import Inst
from nkicc.ir.program import InstLoop, Instruction, Module, Program
from nkicc.ir.types import AluOp

__all__ = ["KINDS", "Site", "mutate", "sites"]


class Site(Struct, frozen=True):
    """Where an instruction stands: program, core, and the indices through loop bodies."""

    program: int
    core: int
    path: tuple[int, ...]


def sites(module: Module) -> list[tuple[Site, Instruction]]:
    """Every instruction of a module."""

    def inside(body: tuple[Instruction, ...], path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Instruction]]:
        for index, inst in enumerate(body):
            yield (*path, index), inst
            if isinstance(inst, InstLoop):
                yield from inside(inst.body, (*path, index))

    return [
        (Site(p, c, path), inst)
        for p, program in enumerate(module.programs)
        for c, core in enumerate(program.cores)
        for path, inst in inside(core.body, ())
    ]


def _edit(body: tuple[Instruction, ...], path: tuple[int, ...], new: Instruction | None) -> tuple[Instruction, ...]:
    index, *rest = path
    inst = body[index]
    if rest:
        assert isinstance(inst, InstLoop)
        new = replace(inst, body=_edit(inst.body, tuple(rest), new))
    return (*body[:index], *(() if new is None else (new,)), *body[index + 1 :])


def put(module: Module, site: Site, new: Instruction | None) -> Module:
    """The module with another instruction at a place, or none."""
    program = module.programs[site.program]
    core = program.cores[site.core]
    cores = list(program.cores)
    cores[site.core] = replace(core, body=_edit(core.body, site.path, new))
    changed: list[Program] = list(module.programs)
    changed[site.program] = replace(program, cores=tuple(cores))
    return replace(module, programs=tuple(changed))


#: From an instruction and a source of chance to its faulty form; None if the fault does not apply, "drop" to drop it.
Fault = Callable[[Any, np.random.Generator], "Inst | str | None"]


def dropped(*kinds: type[Inst]) -> Fault:
    return lambda inst, random: "drop" if isinstance(inst, kinds) else None


def groups_changed(inst: Any, random: np.random.Generator) -> Inst | None:
    """A rank is left out, listed twice, does not exist, or changes places with another."""
    groups = [list(group) for group in getattr(inst, "replica_groups", ())]
    if not groups:
        return None
    ranks = [rank for group in groups for rank in group]
    group = groups[random.integers(len(groups))]
    index = int(random.integers(len(group)))
    match random.integers(4):
        case 0:
            del group[index]
        case 1:
            group[index] = int(random.choice(ranks))
        case 2:
            group[index] = max(ranks) + 1
        case _:
            group[index], group[0] = group[0], group[index]
    return replace(inst, replica_groups=tuple([tuple(group) for group in groups]))


def pairs_changed(inst: Any, random: np.random.Generator) -> Inst | None:
    pairs = list(getattr(inst, "src_tgt_pairs", ()))
    if not pairs:
        return None
    index = int(random.integers(len(pairs)))
    source, target = pairs[index]
    pairs[index] = (source, target + 1) if random.integers(2) else (target, source)
    return replace(inst, src_tgt_pairs=tuple(pairs))


def reducer_changed(inst: Any, random: np.random.Generator) -> Inst | None:
    op = getattr(inst, "op", None)
    if op not in (AluOp.add, AluOp.max, AluOp.min):
        return None
    others = [other for other in (AluOp.add, AluOp.max, AluOp.min, AluOp.subtract) if other is not op]
    return replace(inst, op=others[random.integers(len(others))])


def hop_changed(inst: Any, random: np.random.Generator) -> Inst | None:
    if not isinstance(inst, penguin.CurrentProcessingRankId):
        return None
    return replace(inst, iteration_id=inst.iteration_id + (-1 if inst.iteration_id and random.integers(2) else 1))


def operands_swapped(inst: Any, random: np.random.Generator) -> Inst | None:
    if isinstance(inst, isa.InstDMACopy) and len(inst.srcs) == 1:
        return replace(inst, dst=inst.srcs[0], srcs=(inst.dst,))
    if isinstance(inst, penguin.SendRecvOp):
        return replace(inst, dst=inst.src, src=inst.dst)
    if hasattr(inst, "srcs") and hasattr(inst, "dsts") and len(inst.srcs) == len(inst.dsts):
        return replace(inst, srcs=inst.dsts, dsts=inst.srcs)
    return None


def offset_changed(inst: Any, random: np.random.Generator) -> Inst | None:
    """An operand starts a row late, or at the first row."""
    for field in ("dst", "src", "srcs", "dsts"):
        value = getattr(inst, field, None)
        operand = value[0] if isinstance(value, tuple) and value else value
        if not isinstance(operand, AccessPattern) or random.integers(2):
            continue
        moved = replace(operand, offset=0 if operand.offset else operand.pattern[0][0])
        return replace(inst, **{field: (moved, *value[1:]) if isinstance(value, tuple) else moved})
    return None


def offset_stale(inst: Any, random: np.random.Generator) -> Inst | None:
    """The register that moves an operand is forgotten."""
    for field in ("dst", "srcs"):
        value = getattr(inst, field, None)
        operand = value[0] if isinstance(value, tuple) and value else value
        if isinstance(operand, AccessPattern) and operand.scalar_offset is not None:
            fixed = replace(operand, scalar_offset=None, indirect_stride=0)
            return replace(inst, **{field: (fixed, *value[1:]) if isinstance(value, tuple) else fixed})
    return None


def peer_changed(inst: Any, random: np.random.Generator) -> Inst | None:
    if isinstance(inst, penguin.SendOp | penguin.RecvOp):
        return replace(inst, peer_id=inst.peer_id + 1)
    if isinstance(inst, penguin.SendRecvOp):
        field = ("send_to_rank", "recv_from_rank")[random.integers(2)]
        return replace(inst, **{field: int(random.integers(3))})
    return None


def pipe_changed(inst: Any, random: np.random.Generator) -> Inst | None:
    return replace(inst, pipe_id=inst.pipe_id + 1) if isinstance(inst, penguin.SendRecvOp) else None


def channel_changed(inst: Any, random: np.random.Generator) -> Inst | None:
    channel = getattr(inst, "channel_id", None)
    return replace(inst, channel_id=channel + 1) if channel is not None else None


def dim_changed(inst: Any, random: np.random.Generator) -> Inst | None:
    for field in ("all_gather_dim", "reduce_scatter_dim", "split_dimension", "concat_dimension"):
        dim = getattr(inst, field, None)
        if dim is not None and random.integers(2):
            return replace(inst, **{field: 1 - dim})
    return None


def turns_changed(inst: Any, random: np.random.Generator) -> Inst | None:
    if not isinstance(inst, InstLoop) or not isinstance(inst.stop, int):
        return None
    return replace(inst, stop=inst.stop + (1 if random.integers(2) else -1))  # type: ignore[return-value]


COLLECTIVES = (penguin.CollectiveOp, penguin.SendRecvOp)
#: Kinds of faults by name; the second says on which cores and programs the change is made: at one place, or wherever
#: the same line of the program was built.
KINDS: dict[str, tuple[Fault, str]] = {
    "copy dropped": (dropped(isa.InstDMACopy), "one"),
    "compute dropped": (dropped(isa.InstTensorTensor, isa.InstActivation), "one"),
    "collective dropped": (dropped(*COLLECTIVES), "all"),
    "collective dropped on one core or program": (dropped(*COLLECTIVES), "one"),
    "barrier dropped": (dropped(penguin.CoreBarrierOp), "all"),
    "barrier dropped on one core": (dropped(penguin.CoreBarrierOp), "one"),
    "groups": (groups_changed, "all"),
    "groups on one core or program": (groups_changed, "one"),
    "pairs": (pairs_changed, "all"),
    "reduction": (reducer_changed, "all"),
    "reduction on one core or program": (reducer_changed, "one"),
    "hop": (hop_changed, "all"),
    "operands swapped": (operands_swapped, "all"),
    "offset": (offset_changed, "one"),
    "stale offset": (offset_stale, "one"),
    "peer": (peer_changed, "one"),
    "pipe on one core": (pipe_changed, "one"),
    "channel": (channel_changed, "all"),
    "dim": (dim_changed, "all"),
    "turns": (turns_changed, "all"),
    "turns on one core or program": (turns_changed, "one"),
}


def mutate(module: Module, kind: str, seed: int) -> Module | None:
    """The module with one fault of a kind at a random place; None if it has no place for one."""
    fault, where = KINDS[kind]
    random = np.random.default_rng(seed)
    everywhere = sites(module)
    for index in random.permutation(len(everywhere)):
        site, inst = everywhere[index]
        state = int(random.integers(1 << 31))
        new = fault(inst, np.random.default_rng(state))
        if new is None or new == inst:
            continue
        twins = [
            (other, twin)
            for other, twin in everywhere
            if type(twin) is type(inst) and (where == "all" or other == site) and _same_step(twin, inst)
        ]
        # From the end, so that places stay where they are.
        for other, twin in sorted(twins, key=lambda pair: pair[0].path, reverse=True):
            changed = fault(twin, np.random.default_rng(state))
            if changed is not None:
                module = put(module, other, None if isinstance(changed, str) else changed)  # type: ignore[arg-type]
        return module
    return None


def _same_step(a: Inst, b: Inst) -> bool:
    """Whether two cores or programs issue one step of the program."""
    plain = [replace(inst, name="", loc=None, deps=()) for inst in (a, b)]
    return plain[0] == plain[1]
