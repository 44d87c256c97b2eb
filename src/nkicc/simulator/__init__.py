"""The simulator: executes a bir module on NumPy with the rank as a leading array axis."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from threadpoolctl import ThreadpoolController

from nkicc.engines import Execution, Options, Report
from nkicc.ir.base import show_ranks
from nkicc.ir.errors import fail
from nkicc.ir.findings import Finding, Severity, finding
from nkicc.ir.isa import InstMatmul
from nkicc.ir.program import Level, Module, walk

from .machine import RankSet
from .memory import Lanes, Pool, View, keep_freed_memory
from .scheduler import Scheduler
from .unwritten import first_of, flags_of

__all__ = ["simulate"]


def simulate(module: Module, inputs: Sequence[Mapping[str, np.ndarray]], options: Options | None = None) -> Execution:
    """Run a bir module (`nkicc.engines.Engine`).

    `inputs` holds per program the kernel's arguments by name: arrays of shape (1, *shape), the same on all ranks, or
    (ranks of the program, *shape). They are not modified. Results keep that form; they are views of the run's memory.

    Raises NkiccError: NKC012 for a penguin module, NKC007 for arguments that do not fit, NKC1xx for what goes wrong
    while running. Nothing is returned from a run that failed.
    """
    if module.level is not Level.bir:
        fail("NKC012", what="the module", level=module.level.value, expected="bir")
    options = options or Options()
    report = Report(
        ranks=module.world.ranks, lnc=module.world.lnc, target=module.target.value, programs=len(module.programs)
    )
    start = time.perf_counter()
    keep_freed_memory()
    pool = Pool(poison=options.poison)
    # The engines neither trap nor warn on overflow, division by zero or NaN.
    with np.errstate(all="ignore"), _one_blas_thread(module):
        sets = [RankSet(module, p, given, options, pool) for p, given in zip(module.programs, inputs, strict=True)]
        Scheduler(sets, report, options.schedule).run()
        for ranks in sets:
            ranks.cores_meet()
    report.warnings += [found for s in sets if s.nonfinite is not None for found in s.nonfinite.found]
    report.printed = [text for s in sets for text in s.printed]
    report.seconds = time.perf_counter() - start
    results = [[View(s.shared[view.tensor], view, Lanes()) for view in s.program.outputs] for s in sets]
    if options.uninitialised:
        report.warnings += [found for views in results for view in views for found in _never_written(view)]
    outputs = [tuple(view.read() for view in views) for views in results]
    left = [{name: s.shared[name].tensor_value() for name in s.program.inputs} for s in sets]
    return Execution(outputs=outputs, inputs=left, report=report)


def _never_written(view: View) -> Iterator[Finding]:
    """NKC122, a warning: the run stands, with fresh memory in its result."""
    flags = flags_of(view)
    if flags is not None:
        index, ranks = first_of(flags, view.buffer.ranks)
        tensor = view.buffer.tensor
        yield finding(
            "NKC122",
            Severity.warning,
            count=int(flags.reshape(len(flags), -1).sum(axis=1).max()),
            name=tensor.name,
            index=list(index),
            ranks_text=show_ranks(ranks),
            operand=tensor.name,
            ranks=tuple(ranks),
            loc=tensor.loc,
        )


def _one_blas_thread(module: Module) -> AbstractContextManager[object]:
    """Tiles of 128 x 512 are too small to share: several BLAS threads spend their time waiting for each other."""
    matmuls = (isinstance(i, InstMatmul) for p in module.programs for core in p.cores for i in walk(core.body))
    if not any(matmuls):
        return nullcontext()
    return _threadpools().limit(limits=1, user_api="blas")


@functools.cache
def _threadpools() -> ThreadpoolController:
    # To look for the libraries takes longer than a small run.
    return ThreadpoolController()
