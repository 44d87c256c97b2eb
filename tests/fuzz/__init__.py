"""Random legal programs with reference results, and the same with one fault."""
