"""One rule per instruction of a kernel's own: from the instruction to a closure that executes it for all ranks.

A rule binds its operands once; the closure it returns takes no arguments and does one or a few NumPy calls whatever the
number of ranks. Values carry ranks as the leading axis, with extent 1 where all ranks agree. The modules here register
their rules when they are imported, one module per family of `nkicc.ir.isa`.
"""

from . import (
    accumulate,
    debug,
    dropout,
    gather,
    index,
    matrix,
    movement,
    random,
    reduce,
    registers,
    scalar,
    scan,
    search,
    select,
    statistics,
    vector,
)
from .common import RULES, Context, Step, reducer

__all__ = [
    "RULES",
    "Context",
    "Step",
    "accumulate",
    "debug",
    "dropout",
    "gather",
    "index",
    "matrix",
    "movement",
    "random",
    "reduce",
    "reducer",
    "registers",
    "scalar",
    "scan",
    "search",
    "select",
    "statistics",
    "vector",
]
