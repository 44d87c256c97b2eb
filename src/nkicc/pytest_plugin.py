"""The pytest plugin: `@pytest.mark.nkicc(ranks=…, lnc=…, target=…)` and the fixture `nkicc_run`.

It is loaded in every pytest run of the environment, so it imports nkicc only when a test uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .session import Inputs, Result
    from .testing import Golden

__all__ = ["Runner", "nkicc_run"]

World = tuple[int, int, str]
FIXTURE = "nkicc_run"
MARKER = "nkicc"
_NAMES = {"ranks", "lnc", "target"}


class Runner:
    """What `nkicc_run` gives a test: the world of this case, and a call that runs a kernel in it."""

    def __init__(self, ranks: int, lnc: int, target: str) -> None:
        self.ranks = ranks
        self.lnc = lnc
        self.target = target

    def __call__(
        self, kernel: Any, *, inputs: Inputs, golden: Golden, rtol: float = 0.0, atol: float = 0.0, seeds: int = 0,
        **options: Any,
    ) -> Result:  # fmt: skip
        """Run `kernel` as `nkicc.run` does and compare what it returns on every rank with `golden`, an array or a
        tuple of arrays, or a function from the rank to it: exactly, unless there is a tolerance. Then do the same
        `seeds` times more, with the ring order, the schedule and the fresh memory of the seeds 1, 2, ...; a failure
        there has a note with its seed.

        Returns the first result. Raises AssertionError with the differences, NkiccError with what was refused.
        """
        __tracebackhide__ = True
        import nkicc
        from nkicc.session import execute, trace
        from nkicc.testing import assert_ranks

        def once(**seeds: int) -> Result:
            __tracebackhide__ = True
            try:
                result = execute(traced, **{**seeds, **options})
                assert_ranks(result.outputs, golden, rtol=rtol, atol=atol)
            except (nkicc.NkiccError, AssertionError) as error:
                if seeds:
                    error.add_note("This run had " + ", ".join(f"{name}={seed}" for name, seed in seeds.items()))
                raise
            return result

        try:
            traced = trace(kernel, ranks=self.ranks, lnc=self.lnc, target=self.target, inputs=inputs)
            result = once()
            for seed in range(1, seeds + 1):
                once(ring_order=seed, schedule=seed, poison=seed)
        except nkicc.NkiccError as error:
            # The message holds the kernel's line; nkicc's own frames only bury it.
            raise error.with_traceback(None)  # noqa: B904
        return result


@pytest.fixture
def nkicc_run(request: pytest.FixtureRequest) -> Runner:
    """Runs a kernel in the world of this test case and checks every rank; see the marker `nkicc`."""
    return Runner(*request.param)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "nkicc(ranks=4, lnc=1, target='trn2'): run the test once per combination of these values or lists of values, "
        f"which its fixture {FIXTURE} runs kernels with.",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker(MARKER)
    if FIXTURE not in metafunc.fixturenames:
        if marker is not None:
            pytest.fail(f"the marker {MARKER} is for tests that use the fixture {FIXTURE}", pytrace=False)
        return
    given = marker.kwargs if marker else {}
    unknown = [repr(value) for value in marker.args] + sorted(given.keys() - _NAMES) if marker else []
    if unknown:
        pytest.fail(f"marker {MARKER}: takes ranks=, lnc= and target=, not {', '.join(unknown)}", pytrace=False)
    worlds = list(_worlds(**given))
    metafunc.parametrize(
        FIXTURE, worlds, indirect=True, ids=[f"{ranks}ranks-lnc{lnc}-{target}" for ranks, lnc, target in worlds]
    )


def _worlds(
    *, ranks: int | Sequence[int] = 4, lnc: int | Sequence[int] = 1, target: str | Sequence[str] = "trn2"
) -> Iterator[World]:
    """Every combination of the marker's values."""
    targets = [target] if isinstance(target, str) else target
    return product(_listed(ranks), _listed(lnc), targets)


def _listed(values: int | Sequence[int]) -> Sequence[int]:
    return [values] if isinstance(values, int) else values
