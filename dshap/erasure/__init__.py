"""Erasure of rows of persons from all files of a store, and from the tables loaded from it."""
