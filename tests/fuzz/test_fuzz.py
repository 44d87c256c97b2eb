"""The short form: what the fuzzer shows on about a hundred programs."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nkicc.ir.program import Module

from .faults import KINDS, mutate
from .programs import Plan, plans
from .trial import FULL_PIPELINE, found, limited, wrong

short = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@short
@given(plans(), st.integers(1, 1000))
def test_legal_programs_are_accepted_and_right(plan: Plan, seed: int) -> None:
    module = plan.module()
    assert Module.from_json(module.to_json()) == module
    want = plan.results()
    order = {"ring_order": seed} if plan.any_order else {}
    with limited():
        for passes, options in (
            ("codegen,sync-before-global-cc", {}),
            (FULL_PIPELINE, {}),
            ("codegen", {"schedule": seed, **order}),
        ):
            code, results = found(module, plan, passes=passes, **options)
            assert not code, f"a legal program is refused: {code}"
            assert not wrong(results, want)


@short
@given(plans(), st.sampled_from(list(KINDS)), st.integers(0, 1 << 30))
def test_faults_are_found_or_change_nothing_in_any_schedule(plan: Plan, kind: str, seed: int) -> None:
    module = mutate(plan.module(), kind, seed)
    if module is None:
        return
    want = plan.results()
    with limited():
        code, results = found(module, plan)
        if code or wrong(results, want):
            return
        for schedule in range(3):
            code, results = found(module, plan, schedule=schedule)
            assert code or not wrong(results, want), "what a run did not find, another schedule makes wrong"


def test_every_kind_of_fault_is_made() -> None:
    missing = set(KINDS)

    @settings(short, max_examples=400)
    @given(plans())
    def look(plan: Plan) -> None:
        if missing:
            module = plan.module()
            missing.difference_update([kind for kind in missing if mutate(module, kind, 0) is not None])

    look()
    assert not missing
