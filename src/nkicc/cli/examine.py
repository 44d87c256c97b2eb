"""The steps of `nkicc check`, each of which adds to the findings."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import combinations

import msgspec
from msgspec import Struct

from nkicc import session
from nkicc.engines import Options
from nkicc.environment import low_precision_as_float32
from nkicc.ir.base import show_ranks
from nkicc.ir.errors import NkiccError, Related
from nkicc.ir.findings import Finding, Severity, finding
from nkicc.ir.program import Module
from nkicc.ir.types import Loc, World
from nkicc.verify import check

from . import execution, job, outcome
from .job import Arguments, Stage
from .options import switches
from .source import KernelFile

__all__ = ["Examination", "Perturbation"]


class Perturbation(Struct, frozen=True):
    """A ring order, a schedule and a content of fresh memory by their seeds; None is the usual one."""

    ring_order: int | None = None
    schedule: int | None = None
    poison: int | None = None

    @property
    def seeds(self) -> dict[str, int | None]:
        return msgspec.structs.asdict(self)

    def parts(self) -> list[Perturbation]:
        """What a failure may be due to, the simplest first."""
        given = {name: seed for name, seed in self.seeds.items() if seed is not None}
        subsets = [subset for size in range(1, len(given) + 1) for subset in combinations(given.items(), size)]
        return [Perturbation(**dict(subset)) for subset in subsets]

    @property
    def arguments(self) -> list[str]:
        """The options of the command line that ask for it."""
        given = [(f"--{name.replace('_', '-')}", seed) for name, seed in self.seeds.items()]
        return [word for option, seed in given if seed is not None for word in (option, str(seed))]


class Examination:
    """A kernel under examination and what was found so far. NkiccErrors of a step are the caller's to add."""

    def __init__(self, without: Sequence[str] = (), non_finite: bool = False) -> None:
        self._without = list(without)
        self._non_finite = non_finite
        self.title = ""
        self.module: Module | None = None
        self.notes: list[str] = []
        #: What was done, for the last line of the report.
        self.done: list[str] = []
        #: The command that repeats the run that failed, if it was a perturbed one.
        self.repeat = ""
        self._findings: list[Finding] = []

    @property
    def failed(self) -> bool:
        return any(found.severity is Severity.error for found in self._findings)

    def add(self, found: Finding) -> None:
        self._findings.append(found)

    def findings(self, strict: bool) -> list[Finding]:
        """What was found, without repetitions, errors first; under `strict` everything is an error."""
        unique = {(found.code, found.message, found.loc): found for found in self._findings}.values()
        if strict:
            unique = [msgspec.structs.replace(found, severity=Severity.error) for found in unique]
        return sorted(unique, key=lambda found: found.severity is not Severity.error)

    def build(
        self, source: KernelFile | Module, name: str, world: World, target: str, inputs: Arguments, path: str | None,
        passes: str | None, seed: int,
    ) -> None:  # fmt: skip
        """Trace and lower."""
        self._source = source
        self.title = source.name if isinstance(source, KernelFile) else name
        if isinstance(source, KernelFile):
            traced = session.trace(source.kernel, ranks=world.ranks, lnc=world.lnc, target=target, inputs=inputs)
            self._stacks: execution.Stacks = traced.inputs
            self.module = job.lower(traced.module, path, passes)
        else:
            # Lowering and the arguments rely on a program that is sound by itself.
            source.verify()
            self.module = job.lower(source, path, passes)
            self._stacks, notes = execution.arguments(self.module, inputs, seed)
            self.notes += notes

    def check(self, sdk: str, allow_io: bool) -> None:
        """The static checks."""
        assert self.module is not None
        self._findings += check(self.module, sdk=sdk, allow_io=allow_io)
        self.done.append("static checks")

    def run(self) -> None:
        """One run as it is."""
        self.done.append("one run")
        self._outcome = self._simulate(Perturbation())
        self._findings += self._outcome.report.warnings

    def compare(self, inputs: Arguments, stage: Stage) -> None:
        """The outputs of the run with golden()."""
        source = self._source
        if not isinstance(source, KernelFile) or source.golden is None:
            return
        expected, notes = job.golden(source, len(self._outcome.outputs), inputs, stage)
        self.notes += notes
        if expected is None:
            return
        rows, _ = outcome.rows(self._outcome, expected)
        self.done.append("golden()")
        try:
            outcome.check_golden(rows)
        except NkiccError as error:
            self.add(Finding.of(error))

    def perturb(self, perturbations: Sequence[Perturbation], command: Sequence[str], stage: Stage) -> None:
        """More runs, up to the first that fails or gives other outputs. `command` is the command line that asked."""
        if any(found.code == "NKC122" for found in self._findings):
            # Other fresh memory would only say again that the result holds some, and hide what else there is.
            perturbations = [
                one if one == Perturbation(poison=one.poison) else msgspec.structs.replace(one, poison=None)
                for one in perturbations
            ]
        for count, whole in enumerate(perturbations, 1):
            stage(f"perturbed run {count} of {len(perturbations)}")
            if not self._faults(whole):
                continue
            # Which of them it takes is told by leaving the others out.
            part, faults = next((part, faults) for part in whole.parts() if (faults := self._faults(part)))
            self.repeat = _repeat(command, part)
            note = Related(f"without {' and '.join(part.arguments[::2])} this does not show; again: {self.repeat}")
            self._findings += [msgspec.structs.replace(fault, related=(*fault.related, note)) for fault in faults]
            self.done.append(_runs(count))
            return
        if perturbations:
            self.done.append(_runs(len(perturbations)))

    def _faults(self, perturbation: Perturbation) -> list[Finding]:
        try:
            return self._differences(self._simulate(perturbation), perturbation)
        except NkiccError as error:
            return [Finding.of(error)]

    def _simulate(self, perturbation: Perturbation) -> outcome.Outcome:
        assert self.module is not None
        given = switches(perturbation.seeds, self._without, self._non_finite)
        options = Options(low_precision_as_float32=low_precision_as_float32(), **given)  # type: ignore[arg-type]
        return execution.simulate(self.title, self.module, self._stacks, options)

    def _differences(self, other: outcome.Outcome, perturbation: Perturbation) -> list[Finding]:
        """Outputs that are not those of the plain run. The last bits of floats may differ: a kernel that sums around a
        ring sums in its order."""
        bad: dict[str, list[tuple[int, str]]] = {}
        for rank, (mine, theirs) in enumerate(zip(self._outcome.outputs, other.outputs, strict=True)):
            for index, (a, b) in enumerate(zip(mine, theirs, strict=True)):
                if a.array.tobytes() == b.array.tobytes():
                    continue
                difference = outcome.difference(b.array, a.array, index, "the plain run")
                if difference is not None and not difference.ok:
                    why = difference.why or f"relative error {difference.rel:.3g}"
                    bad.setdefault(a.name, []).append((rank, why))
        names = {"ring_order": "ring order", "schedule": "schedule", "poison": "content of fresh memory"}
        what = " and ".join(names[name] for name, seed in perturbation.seeds.items() if seed is not None)
        return [
            finding(
                "NKC180",
                operand=name,
                ranks=tuple([rank for rank, _ in found]),
                loc=self._declared(name),
                what=what,
                where=show_ranks([rank for rank, _ in found]),
                why=f"{found[0][1]} on rank {found[0][0]}",
            )
            for name, found in bad.items()
        ]

    def _declared(self, output: str) -> Loc | None:
        """The line that declares an output."""
        assert self.module is not None
        return next((t.loc for p in self.module.programs for t in p.tensors if t.name == output), None)


def _runs(count: int) -> str:
    return f"{count} perturbed run{'s' if count > 1 else ''}"


def _repeat(command: Sequence[str], perturbation: Perturbation) -> str:
    """The command line with one perturbation instead of those it asked for."""
    kept: list[str] = []
    words = iter(command)
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in ("--seeds", "--ring-order", "--schedule", "--poison", "--sarif"):
            kept.append(word)
        elif not equals:
            next(words, None)
    return shlex.join(["nkicc", *kept, *perturbation.arguments])
