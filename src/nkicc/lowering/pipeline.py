"""Passes as data, and pipelines of them as text: `codegen,lower-local-collectives{max-bpp=256},infer-stream-ids`.

A pass is a function from module to module with a frozen struct of options. Options stand in braces after the pass's
name, spelled with dashes and separated by spaces or commas.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import Struct

from nkicc.ir.errors import fail
from nkicc.ir.program import Level, Module

from .coalesce_multichannel_cc import coalesce_multichannel_cc
from .codegen import CodegenOptions, codegen
from .infer_stream_ids import infer_stream_ids
from .lower_local_collectives import LowerLocalOptions, lower_local_collectives
from .renumber_core_barriers import renumber_core_barriers
from .sync_before_global_cc import sync_before_global_cc

__all__ = ["DEFAULT", "FULL", "PASSES", "NoOptions", "Pass", "Step", "parse_pipeline", "run_pipeline"]


class NoOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Of a pass that has nothing to choose."""


class Pass(Struct, frozen=True):
    """A pass: what it is called, what it does, its function and the type of its options."""

    name: str
    summary: str
    run: Callable[[Module, Any], Module]
    options: type[Struct] = NoOptions


class Step(Struct, frozen=True):
    """A pass with its options chosen."""

    entry: Pass
    options: Struct

    def __call__(self, module: Module) -> Module:
        """Run it. NKC013 if the module is not at the bir level yet."""
        if module.level is not Level.bir and self.entry.run is not codegen:
            fail("NKC013", why=f"{self.entry.name!r} works on the bir level; put codegen before it")
        return self.entry.run(module, self.options)


PASSES: dict[str, Pass] = {
    entry.name: entry
    for entry in (
        Pass("codegen", "penguin ops to bir instructions", codegen, CodegenOptions),
        Pass(
            "sync-before-global-cc",
            "the cores of a rank meet before each collective that both issue",
            sync_before_global_cc,
        ),
        Pass(
            "lower-local-collectives",
            "transfers between the cores of a rank to swaps, DMA and barriers",
            lower_local_collectives,
            LowerLocalOptions,
        ),
        Pass("coalesce-multichannel-cc", "one instruction for all channels of a ring step", coalesce_multichannel_cc),
        Pass("renumber-core-barriers", "dense barrier ids, one name on all cores", renumber_core_barriers),
        Pass("infer-stream-ids", "a stream for every collective", infer_stream_ids),
    )
}

#: What a run needs.
DEFAULT = "codegen,renumber-core-barriers,infer-stream-ids"
#: Every pass, in the device compiler's order.
FULL = (
    "codegen,sync-before-global-cc,lower-local-collectives,coalesce-multichannel-cc,renumber-core-barriers,"
    "infer-stream-ids"
)


def run_pipeline(module: Module, text: str, path: str = "loop") -> Module:
    """The module after the passes of a textual pipeline; `path` is codegen's unless the text sets it. Raises NKC013 for
    an unknown pass or option, and whatever a pass refuses."""
    for step in parse_pipeline(text, path):
        module = step(module)
    return module


def parse_pipeline(text: str, path: str = "loop") -> list[Step]:
    """The steps of a textual pipeline, in order. Raises NKC013."""
    steps = [_step(item, path) for item in _items(text)]
    if sum(step.entry.run is codegen for step in steps) > 1:
        fail("NKC013", why="codegen is given twice, and a program can only once leave the penguin level")
    return steps


def _items(text: str) -> list[str]:
    """Split at the commas outside of braces."""
    items: list[str] = []
    depth, start = 0, 0
    for i, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if depth not in (0, 1):
            fail("NKC013", why=f"unbalanced braces in {text!r}")
        if char == "," and depth == 0:
            items.append(text[start:i].strip())
            start = i + 1
    if depth:
        fail("NKC013", why=f"unbalanced braces in {text!r}")
    items.append(text[start:].strip())
    return items


def _step(item: str, path: str) -> Step:
    name, brace, rest = item.partition("{")
    name = name.strip()
    entry = PASSES.get(name)
    if entry is None:
        fail("NKC013", why=f"there is no pass {name!r}; there are {', '.join(PASSES)}", notes=_misspelt(name))
    if brace and not rest.endswith("}"):
        fail("NKC013", why=f"text after the options of {name!r}: {item!r}")
    values = {"path": path} if entry.options is CodegenOptions else {}
    for assignment in rest.removesuffix("}").replace(",", " ").split():
        option, equals, value = assignment.partition("=")
        if not equals or option.replace("-", "_") not in entry.options.__struct_fields__:
            known = ", ".join(f.replace("_", "-") for f in entry.options.__struct_fields__) or "none"
            fail("NKC013", why=f"{name!r} has no option {assignment!r}; options (option=value): {known}")
        values[option.replace("-", "_")] = value
    try:
        return Step(entry, msgspec.convert(values, entry.options, strict=False))
    except msgspec.ValidationError as error:
        fail("NKC013", why=f"{name!r}: {_plainly(error)}", cause=error)


def _misspelt(name: str) -> tuple[str, ...]:
    """What was meant by something that is no pass: one followed by its options or by another pass."""
    known = next((known for known in sorted(PASSES, key=len, reverse=True) if name.startswith(known)), None)
    if known is None:
        close = get_close_matches(name, PASSES, 1)
        return (f"did you mean {close[0]!r}?",) if close else ()
    rest = name.removeprefix(known).strip(" :;()[]")
    if any(rest.startswith(other) for other in PASSES):
        return (f"passes are separated by commas: {known},{rest}",)
    return (f"options stand in braces: {known}{{{rest}}}",)


def _plainly(error: msgspec.ValidationError) -> str:
    """msgspec's text without its way of naming the place."""
    text, _, place = str(error).replace("`", "").partition(" - at $.")
    return f"{place.replace('_', '-')}: {text[:1].lower()}{text[1:]}" if place else text
