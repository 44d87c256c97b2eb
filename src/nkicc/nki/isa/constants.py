"""The enumerations of `nki.isa` (NKI documentation, nki.isa)."""

from __future__ import annotations

from enum import Enum, IntEnum

from nkicc.nki.missing import refuse_unknown

__all__ = ["dependency", "dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd"]


class engine(Enum):
    """Which engine executes an instruction; `unknown` leaves the choice."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


class dependency(Enum):
    """What `NkiInstruction.depends_on` asks for. Instructions run in program order, so both are met."""

    runtime = "runtime"
    schedule = "schedule"


class dge_mode(Enum):
    """Who makes the descriptors of a DMA. No effect on results."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(Enum):
    """What a dynamic offset out of bounds does: `error` stops the run, `skip` leaves the row alone."""

    error = 0
    skip = 1


class reduce_cmd(Enum):
    """What an activation does with its accumulator."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dma_engine(Enum):
    """Who moves a sendrecv."""

    dma = 1
    gpsimd_dma = 2


class matmul_perf_mode(Enum):
    """Performance modes of a matmul."""

    none = "none"
    double_row = "double_row"


class nc_version(IntEnum):
    """NeuronCore generations; they compare as numbers."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


__getattr__ = refuse_unknown("nki.isa.constants")
