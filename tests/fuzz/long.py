"""The long form: python -m tests.fuzz.long --programs 10000 --seed 1

Every legal program is checked, run on both pipelines, and run again in a random schedule and ring order; then once more
with one fault in it. Prints what became of them; exit code 1 if anything is not as it should be.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from nkicc.lowering import DEFAULT

from .faults import KINDS, mutate
from .programs import Plan, plans
from .trial import FULL_PIPELINE, Hang, found, limited, wrong

__all__ = ["Summary", "legal", "main", "single_fault"]


class Summary:
    """What became of the programs. `failures` are those that should not be: (what, how to see it)."""

    def __init__(self) -> None:
        self.legal = 0
        self.steps: Counter[str] = Counter()
        self.worlds: Counter[str] = Counter()
        self.faults: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.codes: Counter[str] = Counter()
        self.failures: list[tuple[str, str]] = []

    def attempt(self, what: str, plan: Plan, function: Callable[[], str]) -> None:
        """Run a trial; what it returns, if not empty, is a failure, and so are exceptions and hangs."""
        try:
            with limited():
                problem = function()
        except Hang:
            problem = "it hangs"
        except Exception:
            problem = traceback.format_exc()
        if problem:
            self.failures.append((f"{what}: {problem}", repr(plan)))

    def __str__(self) -> str:
        lines = [f"{self.legal} legal programs, {sum(sum(c.values()) for c in self.faults.values())} with one fault"]
        lines.append("worlds: " + ", ".join(f"{name} {count}" for name, count in sorted(self.worlds.items())))
        lines.append("steps:  " + ", ".join(f"{name} {count}" for name, count in self.steps.most_common()))
        lines.append("codes:  " + ", ".join(f"{code} {count}" for code, count in self.codes.most_common()))
        columns = ("named", "golden", "harmless", "missed")
        lines.append(f"{'fault':46}" + "".join(f"{name:>10}" for name in columns))
        for kind, counts in self.faults.items():
            lines.append(f"{kind:46}" + "".join(f"{counts[name]:>10}" for name in columns))
        lines.append(f"{len(self.failures)} failure(s)")
        lines += [f"- {what}\n  {plan}" for what, plan in self.failures[:20]]
        return "\n".join(lines)


def legal(plan: Plan, number: int) -> str:
    """A legal program must be accepted and right, however it is lowered and scheduled."""
    module, want = plan.module(), plan.results()
    order = {"ring_order": number} if plan.any_order else {}
    for passes, options in ((DEFAULT, {}), (FULL_PIPELINE, {}), (DEFAULT, {"schedule": number, **order})):
        code, results = found(module, plan, passes=passes, **options)
        if code:
            return f"a legal program is refused with {code} ({passes}, {options})"
        different = wrong(results, want)
        if different:
            return f"{different} ({passes}, {options})"
    return ""


def single_fault(plan: Plan, kind: str, number: int) -> tuple[str, str]:
    """What became of a program with one fault: `named` by a code; `golden`, if only the comparison with the reference
    shows it; `harmless`, if no schedule gives another result; `missed`, if one does and nothing was found before."""
    module = mutate(plan.module(), kind, number)
    if module is None:
        return "", ""
    want = plan.results()
    code, results = found(module, plan)
    if code:
        return "named", code
    if wrong(results, want):
        return "golden", ""
    for schedule in range(3):
        code, results = found(module, plan, schedule=schedule)
        if code == "NKC120":
            # Which of two accesses comes first decides whether a race of equal values is seen; it changes nothing.
            code, results = found(module, plan, schedule=schedule, races=False)
        if code or wrong(results, want):
            return "missed", code
    return "harmless", ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.long")
    parser.add_argument("--programs", type=int, default=10_000, help="legal programs; each comes with a faulty one")
    parser.add_argument("--seed", type=int, default=1)
    given_ = parser.parse_args(arguments)
    summary = Summary()
    start = time.monotonic()

    @seed(given_.seed)
    @settings(
        max_examples=given_.programs,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(plans(), st.sampled_from(list(KINDS)), st.integers(0, 1 << 30))
    def trial(plan: Plan, kind: str, number: int) -> None:
        summary.legal += 1
        programs = "several programs" if len(plan.place.sets) > 1 else "one program"
        summary.worlds[f"LNC {plan.place.lnc}, {programs}"] += 1
        summary.steps.update(type(step).__name__ for step in plan.steps)
        summary.attempt("legal", plan, lambda: legal(plan, number))

        def faulty() -> str:
            outcome, code = single_fault(plan, kind, number)
            if outcome:
                summary.faults[kind][outcome] += 1
            if outcome == "named":
                summary.codes[code] += 1
            return f"{kind}, place {number}: another schedule shows it ({code})" if outcome == "missed" else ""

        summary.attempt("fault", plan, faulty)

    trial()
    print(summary)
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main())
