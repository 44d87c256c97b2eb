"""Pipelines as text, and what they refuse."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nkicc.ir.errors import NkiccError
from nkicc.ir.program import Level, Module
from nkicc.lowering import DEFAULT, FULL, PASSES, lower, parse_pipeline, run_pipeline
from nkicc.lowering.codegen import CodegenOptions
from nkicc.lowering.lower_local_collectives import LowerLocalOptions

from .modules import all_reduce_op, body, hbm, module

A, B = hbm("a", (8, 16)), hbm("b", (8, 16))


def built() -> Module:
    op = all_reduce_op(A, B)
    return module([op], [op], level=Level.penguin, shared=(A, B))


def test_passes_and_options_are_read_in_order() -> None:
    text = " codegen{path=klr} ,sync-before-global-cc,lower-local-collectives{max-bpp=256},infer-stream-ids{}"
    steps = parse_pipeline(text)
    assert [step.entry.name for step in steps] == [
        "codegen",
        "sync-before-global-cc",
        "lower-local-collectives",
        "infer-stream-ids",
    ]
    assert steps[0].options == CodegenOptions(path="klr")
    assert steps[2].options == LowerLocalOptions(max_bpp=256)


def test_the_path_argument_is_codegens_default() -> None:
    (step,) = parse_pipeline("codegen", "klr")
    assert step.options == CodegenOptions(path="klr")
    (step,) = parse_pipeline("codegen{path=loop}", "klr")
    assert step.options == CodegenOptions(path="loop")


def test_full_runs_every_pass_once() -> None:
    assert sorted(step.entry.name for step in parse_pipeline(FULL)) == sorted(PASSES)


def test_lower_runs_the_default_pipeline() -> None:
    lowered = lower(built())
    assert lowered == run_pipeline(built(), DEFAULT)
    assert lowered.level is Level.bir
    assert [inst.stream_id for inst in body(lower(built(), path="klr"))] == [0]
    assert [inst.stream_id for inst in body(lower(built(), path="klr", passes="codegen"))] == [-1]


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_runs_alone(name: str) -> None:
    lowered = run_pipeline(built(), "codegen")
    run_pipeline(lowered, name).verify()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("codgen", "there is no pass 'codgen'; there are codegen, sync-before-global-cc,"),
        ("", "there is no pass ''"),
        ("codegen,,infer-stream-ids", "there is no pass ''"),
        ("codegen{path=loop", "unbalanced braces in 'codegen{path=loop'"),
        ("codegen}", "unbalanced braces in 'codegen}'"),
        ("codegen{{path=loop}}", "unbalanced braces"),
        ("codegen{path=loop}x", "text after the options of 'codegen'"),
        ("codegen{max-bpp=3}", "'codegen' has no option 'max-bpp=3'; options (option=value): path"),
        ("codegen{path}", "'codegen' has no option 'path'"),
        ("infer-stream-ids{x=1}", "options (option=value): none"),
        ("codegen{path=hlo}", "'codegen': "),
        ("codegen,lower-local-collectives{max-bpp=many}", "'lower-local-collectives': "),
        ("codegen,lower-local-collectives{max-bpp=1025}", "'lower-local-collectives': "),
        ("codegen,lower-local-collectives{max-bpp=-1}", "'lower-local-collectives': "),
        ("infer-stream-ids", "'infer-stream-ids' works on the bir level; put codegen before it"),
        ("renumber-core-barriers,codegen", "'renumber-core-barriers' works on the bir level"),
    ],
)
def test_a_wrong_pipeline_is_refused(text: str, why: str) -> None:
    with pytest.raises(NkiccError) as caught:
        run_pipeline(built(), text)
    assert caught.value.code == "NKC013"
    assert why in caught.value.message


def test_an_unknown_path_is_refused() -> None:
    with pytest.raises(NkiccError) as caught:
        lower(built(), path="hlo")
    assert caught.value.code == "NKC013"


def test_nothing_changes_in_the_module_given() -> None:
    before = built()
    copy = replace(before)
    lower(before, passes=FULL)
    assert before == copy
