"""The pytest plugin, in pytest runs of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "all_reduce.py"
RUN = """
    import kernels
    import pytest

    {marker}
    def test_kernel(nkicc_run):
        result = nkicc_run(
            kernels.all_reduce,
            inputs=lambda rank: kernels.inputs(rank, nkicc_run.ranks),
            golden=lambda rank: kernels.golden(rank, nkicc_run.ranks){wrong},
        )
        assert result.report.ranks == nkicc_run.ranks
        assert (result.report.lnc, result.report.target) == (nkicc_run.lnc, nkicc_run.target)
"""


@pytest.fixture
def inner(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with a kernel, as a user would have it."""
    pytester.makeconftest("import nkicc\n\nnkicc.activate()\n")
    pytester.makepyfile(kernels=EXAMPLE.read_text())
    return pytester


def test_the_marker_runs_every_combination(inner: pytest.Pytester) -> None:
    marker = "@pytest.mark.nkicc(ranks=[2, 3], lnc=[1, 2], target=['trn2', 'trn3'])"
    inner.makepyfile(RUN.format(marker=marker, wrong=""))
    result = inner.runpytest_subprocess("-v", "--strict-markers")
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["*test_kernel?2ranks-lnc1-trn2?*", "*test_kernel?3ranks-lnc2-trn3?*"])


def test_single_values_and_defaults(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        test_one=RUN.format(marker="@pytest.mark.nkicc(ranks=5)", wrong=""), test_none=RUN.format(marker="", wrong="")
    )
    result = inner.runpytest_subprocess("-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines_random(["*test_kernel?5ranks-lnc1-trn2?*", "*test_kernel?4ranks-lnc1-trn2?*"])


def test_a_wrong_result_fails_with_the_difference_and_without_frames_of_nkicc(inner: pytest.Pytester) -> None:
    inner.makepyfile(RUN.format(marker="", wrong=" + (rank == 2)"))
    result = inner.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*AssertionError: 1 of 4 ranks differ from the golden (exact comparison)",
            "E*rank 2: output 0, float32?128, 512?: 65536 of 65536 elements, all of ?0:128, 0:512?",
            "E*first at ?0, 0? on rank 2: got 6.0, expected 7.0",
            "E*largest error 1, relative*",
        ]
    )
    assert "testing.py" not in result.stdout.str()


def test_a_tolerance_lets_it_pass(inner: pytest.Pytester) -> None:
    inner.makepyfile(RUN.format(marker="", wrong=" + 0.001, atol=0.01"))
    inner.runpytest_subprocess().assert_outcomes(passed=1)


SHIFT = """
    import nki
    import nki.collectives as ncc
    import nki.isa as nisa
    import nki.language as nl
    import numpy as np

    @nki.jit
    def shift(x, pairs):
        sent, got, out = [
            nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name=name) for name in ("sent", "got", "out")
        ]
        nisa.dma_copy(dst=sent, src=x)
        nisa.dma_copy(dst=got, src=x)
        ncc.collective_permute(dsts=[got], srcs=[sent], source_target_pairs=pairs)
        nisa.dma_copy(dst=out, src=got)
        return out

    def data(rank):
        return np.full((4, 8), rank, np.float32)

    def test_shift(nkicc_run):
        pairs = [(0, 1), (1, 2), (2, 3){last}]
        nkicc_run(
            shift, inputs=lambda rank: dict(x=data(rank), pairs=pairs),
            golden=lambda rank: data({golden}), seeds={seeds},
        )
"""


def test_seeds_run_the_kernel_again(inner: pytest.Pytester) -> None:
    inner.makepyfile(SHIFT.format(last=", (3, 0)", golden="(rank - 1) % 4", seeds=3))
    inner.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_seed_that_fails_is_named(inner: pytest.Pytester) -> None:
    """Rank 0 is the target of no pair: only other fresh memory shows that it counts on what it had."""
    inner.makepyfile(SHIFT.format(last="", golden="max(rank - 1, 0)", seeds=0))
    inner.runpytest_subprocess().assert_outcomes(passed=1)
    inner.makepyfile(SHIFT.format(last="", golden="max(rank - 1, 0)", seeds=2))
    result = inner.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*1 of 4 ranks differ*", "*This run had ring_order=1, schedule=1, poison=1"])


def test_a_refused_kernel_shows_its_line_and_no_frames_of_nkicc(inner: pytest.Pytester) -> None:
    inner.makepyfile(
        """
        import kernels
        from nki.collectives import ReplicaGroup

        def test_kernel(nkicc_run):
            given = kernels.inputs(0, 4) | {"group": ReplicaGroup([[0, 1]])}
            nkicc_run(kernels.all_reduce, inputs=given, golden=None)
        """
    )
    result = inner.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*NkiccError: NKC043:*", "E*at kernels.py:*in all_reduce"])
    assert "session.py" not in result.stdout.str()


@pytest.mark.parametrize(
    ("test", "text"),
    [
        ("@pytest.mark.nkicc(cores=2)\ndef test_it(nkicc_run): pass", "*marker nkicc:*cores*"),
        ("@pytest.mark.nkicc(2)\ndef test_it(nkicc_run): pass", "*marker nkicc: takes *not 2*"),
        ("@pytest.mark.nkicc(ranks=2)\ndef test_it(): pass", "*the marker nkicc is for tests that use*nkicc_run*"),
    ],
)
def test_a_wrong_marker_is_an_error(inner: pytest.Pytester, test: str, text: str) -> None:
    inner.makepyfile(f"import pytest\n{test}")
    result = inner.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([text])


def test_the_marker_is_documented(inner: pytest.Pytester) -> None:
    inner.runpytest_subprocess("--markers").stdout.fnmatch_lines(
        ["@pytest.mark.nkicc(ranks=4, lnc=1, target='trn2'):*"]
    )


def test_the_tests_in_the_document_run(pytester: pytest.Pytester) -> None:
    conftest, test = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "testing.md").read_text(), re.S)[:2]
    pytester.makeconftest(conftest)
    pytester.makepyfile(my_kernels=EXAMPLE.read_text(), test_kernels=test)
    pytester.runpytest_subprocess().assert_outcomes(passed=6)
