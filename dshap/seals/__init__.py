"""Sealed runs: what a run has computed, from what, as a statement that can be signed and checked."""
