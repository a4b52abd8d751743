"""Rows that are read once: databases, queries and CSV files, under promises, into parts with a record."""
