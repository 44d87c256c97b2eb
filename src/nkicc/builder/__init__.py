"""The builders of collectives: NeuronCodegen writes one core's instruction stream, `link` makes a module of cores."""

from .codegen import NeuronCodegen
from .grid import CompositeSPMDDim, ProgramAxis, ProgramBarrier
from .link import link, link_programs
from .operands import View
from .parallel_state import ParallelState
from .processing_rank import collective_permute_implicit_current_processing_rank_id
from .source import here, refuse

__all__ = [
    "CompositeSPMDDim",
    "NeuronCodegen",
    "ParallelState",
    "ProgramAxis",
    "ProgramBarrier",
    "View",
    "collective_permute_implicit_current_processing_rank_id",
    "here",
    "link",
    "link_programs",
    "refuse",
]
