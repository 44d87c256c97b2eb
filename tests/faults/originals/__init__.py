"""Correct kernels, one per file in the form of the examples, with RANKS and LNC to run them on. Faults are made from
their text."""
