"""Drift of rows between two tables, attributed to columns: the comparison, its record, its words."""
