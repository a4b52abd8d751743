"""Sealed runs: the results and inputs of a run, as a statement that can be signed and checked."""
