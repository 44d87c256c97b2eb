"""renumber-core-barriers: dense ids, and one name per barrier on all cores.

The k-th barrier of a core in program order gets id k. Where the cores of a program have equally many barriers, the k-th
of each are one rendezvous, and the device's verifier wants one name for it: names that agree stay, any other (and every
empty one) becomes `cb_<id>`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from nkicc.ir.bir import InstCoreBarrier
from nkicc.ir.program import LOOPS, Module, Program, walk

from .streams import Body, map_cores

__all__ = ["renumber_core_barriers"]


def renumber_core_barriers(module: Module, options: object = None) -> Module:
    """Number and name the core barriers of each program."""
    return map_cores(module, _program)


def _program(program: Program, bodies: list[Body]) -> list[Body]:
    barriers = [[inst for inst in walk(body) if type(inst) is InstCoreBarrier] for body in bodies]
    if not any(barriers):
        return bodies
    names = _names(bodies, barriers)
    done = all(
        barrier.id == k and barrier.name == names[core][k]
        for core, found in enumerate(barriers)
        for k, barrier in enumerate(found)
    )
    if done:
        return bodies
    out: list[Body] = []
    for core, body in enumerate(bodies):
        renamed = {
            old.name: new for old, new in zip(barriers[core], names[core], strict=True) if old.name and old.name != new
        }
        out.append(_rewrite(body, iter(enumerate(names[core])), renamed))
    return out


def _names(bodies: list[Body], barriers: list[list[InstCoreBarrier]]) -> list[list[str]]:
    """The name of each core's k-th barrier."""
    paired = len({len(found) for found in barriers}) == 1
    taken = {inst.name for body in bodies for inst in walk(body)}
    names: list[list[str]] = [[] for _ in barriers]
    for k in range(max(map(len, barriers))):
        rename = paired and len({found[k].name for found in barriers}) > 1
        fresh = f"cb_{k}"
        while fresh in taken:
            fresh += "_"
        for core, found in enumerate(barriers):
            if k < len(found):
                names[core].append(fresh if rename or not found[k].name else found[k].name)
    return names


def _rewrite(body: Body, numbered: Iterator[tuple[int, str]], renamed: dict[str, str]) -> Body:
    out: list[Any] = []
    for inst in body:
        changes: dict[str, Any] = {}
        if type(inst) is InstCoreBarrier:
            changes["id"], changes["name"] = next(numbered)
        elif isinstance(inst, LOOPS):
            changes["body"] = tuple(_rewrite(inst.body, numbered, renamed))
        if renamed and inst.deps:
            changes["deps"] = tuple([renamed.get(d, d) for d in inst.deps])
        out.append(replace(inst, **changes) if changes else inst)
    return out
