"""Erasure: the rows of persons leave all files of a store, and the tables that were loaded from it."""
