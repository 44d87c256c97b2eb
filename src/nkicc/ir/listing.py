"""The listing of a module: one line per instruction with the kernel's source line, for people and golden tests."""

from __future__ import annotations

import os
from enum import Enum

import msgspec

from .access import AccessPattern, Register, Tensor, is_dense
from .base import Inst
from .penguin import HbmTensor
from .program import LOOPS, Module, Program

__all__ = ["listing"]

_HIDDEN = frozenset({"name", "loc", "body"})


def listing(module: Module) -> str:
    """The whole module as text."""
    world = module.world
    lines = [f"module {module.level.value}  target={module.target.value}  ranks={world.ranks}  lnc={world.lnc}"]
    for program in module.programs:
        lines += _program(program)
    return "\n".join(lines) + "\n"


def _program(program: Program) -> list[str]:
    ranks = f"  ranks={list(program.ranks)}" if program.ranks else ""
    flag = "  has_collectives" if program.has_collectives else ""
    lines = [f"program {program.name}{ranks}{flag}"]
    outputs = {view.tensor for view in program.outputs}
    roles = {
        **dict.fromkeys([constant.tensor for constant in program.constants], "constant "),
        **dict.fromkeys(outputs, "output "),
        **dict.fromkeys(program.inputs, "input "),
    }
    for tensor in program.tensors:
        role = roles.get(tensor.name, "")
        lines.append(f"  {role}{_tensor(tensor)}")
    for index, core in enumerate(program.cores):
        lines.append(f"  core {index}")
        tensors = {t.name: t for t in (*program.tensors, *core.tensors)}
        lines += [f"    {_tensor(t)}" for t in core.tensors]
        _body(core.body, tensors, 4, lines)
    if program.outputs:
        lines.append("  return " + ", ".join(f"{v.tensor}{list(v.shape)}" for v in program.outputs))
    return lines


def _tensor(tensor: Tensor) -> str:
    alias = f" = core {tensor.remote.core}'s {tensor.remote.tensor}" if tensor.remote else ""
    return f"tensor {tensor.name}: {tensor.dtype.value}{list(tensor.shape)} {tensor.memory.value}{alias}"


def _body(body: tuple[Inst, ...], tensors: dict[str, Tensor], indent: int, lines: list[str]) -> None:
    pad = " " * indent
    for inst in body:
        text = f"{pad}{_instruction(inst, tensors)}"
        if inst.loc is not None:
            text = f"{text:<100}  ; {os.path.basename(inst.loc.file)}:{inst.loc.line}"
        lines.append(text)
        if isinstance(inst, LOOPS):
            _body(inst.body, tensors, indent + 2, lines)


def _instruction(inst: Inst, tensors: dict[str, Tensor]) -> str:
    parts = [f"{inst.name}: {type(inst).__name__}" if inst.name else type(inst).__name__]
    for field in msgspec.structs.fields(inst):
        value = getattr(inst, field.name)
        if field.name in _HIDDEN or (not field.required and value == field.default):
            continue
        parts.append(f"{field.name}={_value(value, tensors)}")
    return " ".join(parts)


def _value(value: object, tensors: dict[str, Tensor]) -> str:
    match value:
        case AccessPattern():
            return _access(value, tensors)
        case HbmTensor():
            return value.tensor
        case Register():
            return f"%{value.name}"
        case Enum():
            return str(value.value)
        case tuple():
            return f"[{', '.join(_value(v, tensors) for v in value)}]"
        case msgspec.Struct():
            fields = msgspec.structs.fields(value)
            inner = " ".join(
                f"{f.name}={_value(getattr(value, f.name), tensors)}"
                for f in fields
                if f.required or getattr(value, f.name) != f.default
            )
            return f"({inner})"
    return str(value)


def _access(ap: AccessPattern, tensors: dict[str, Tensor]) -> str:
    tensor = tensors.get(ap.tensor)
    if tensor is not None and ap.is_full(tensor) and ap.shape == tensor.shape:
        return ap.tensor
    shape = "x".join(map(str, ap.shape))
    text = f"{ap.tensor}<{shape}"
    if not is_dense(ap.pattern):
        text += f" strides {','.join(str(s) for s, _ in ap.pattern)}"
    if ap.offset:
        text += f" @{ap.offset}"
    if ap.dtype is not None:
        text += f" as {ap.dtype.value}"
    if ap.scalar_offset is not None:
        source = ap.scalar_offset
        text += f" +%{source}" if isinstance(source, str) else f" +[{_access(source, tensors)}]"
        text += f"*{ap.indirect_stride}"
    if ap.vector_offset is not None:
        text += f" rows[{_access(ap.vector_offset, tensors)}]*{ap.indirect_stride}"
    if ap.skip_oob:
        text += " skip-oob"
    return text + ">"
