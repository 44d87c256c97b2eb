"""The simulator: executes a bir module on NumPy with the rank as a leading array axis."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from nkicc.engines import Execution, Options, Report
from nkicc.ir.errors import fail
from nkicc.ir.isa import InstMatmul
from nkicc.ir.program import Level, Module, walk

from .machine import RankSet
from .memory import Lanes, Pool, View
from .scheduler import Scheduler

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
    pool = Pool()
    # The engines neither trap nor warn on overflow, division by zero or NaN.
    with np.errstate(all="ignore"), _one_blas_thread(module):
        sets = [RankSet(module, p, given, options, pool) for p, given in zip(module.programs, inputs, strict=True)]
        Scheduler(sets, report, options.schedule).run()
    report.printed = [text for s in sets for text in s.printed]
    report.seconds = time.perf_counter() - start
    outputs = [tuple(View(s.shared[view.tensor], view, Lanes()).read() for view in s.program.outputs) for s in sets]
    left = [{name: s.shared[name].tensor_value() for name in s.program.inputs} for s in sets]
    return Execution(outputs=outputs, inputs=left, report=report)


def _one_blas_thread(module: Module) -> AbstractContextManager[object]:
    """Tiles of 128 x 512 are too small to share: several BLAS threads spend their time waiting for each other."""
    matmuls = (isinstance(i, InstMatmul) for p in module.programs for core in p.cores for i in walk(core.body))
    if not any(matmuls):
        return nullcontext()
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")
