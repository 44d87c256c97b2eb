"""Lowering: from the penguin level to the bir level, and bir passes."""

from nkicc.ir.program import Module

from .pipeline import DEFAULT, FULL, PASSES, Pass, parse_pipeline, run_pipeline

__all__ = ["DEFAULT", "FULL", "PASSES", "Pass", "lower", "parse_pipeline", "run_pipeline"]


def lower(module: Module, *, path: str = "loop", passes: str = DEFAULT) -> Module:
    """The module at the bir level: codegen on `path` (`loop` or `klr`) and the passes that a run needs.

    Raises NKC090 and NKC091 for what the klr path refuses, NKC013 for a wrong pipeline or path.
    """
    return run_pipeline(module, passes, path)
