"""Inspection of a source before its rows are read: does it open, its columns, age and contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date

from dshap.core.late import pa
from dshap.tables.columns import kind_of_key
from dshap.tables.parquet import ParquetFiles
from dshap.warehouse.reading_once import RowsReadOnce, SpoolRules, kept_columns, look_at_files


@dataclass(frozen=True)
class SourceLook:
    """The columns of a source that was opened."""

    schema: pa.Schema
    types: Mapping[str, str]
    """Column -> its type, as the contract compares it with that of another run."""
    key_kinds: Mapping[str, str]
    """Key column -> "int64", "string" or "datetime64[ns]"."""


def look_at_rows(rows: RowsReadOnce, as_of: date, rules: SpoolRules) -> SourceLook:
    """Look at rows that are read once; the age of those in a database is judged."""
    return _look(rows.columns(as_of, rules), rows.kind, rules)


def look_at_parquet(
    files: ParquetFiles, as_of: date, rules: SpoolRules, say: Callable[[str], None]
) -> SourceLook:
    """Look at Parquet files, or at those of a table of a lakehouse; their age is judged."""
    look_at_files(files, as_of, replace(rules, previous=None), say)
    return _look(files.schema, files.kind, rules)


def _look(schema: pa.Schema, kind: str, rules: SpoolRules) -> SourceLook:
    columns = kept_columns(schema, kind, rules)
    kinds = {name: kind_of_key(columns.schema, name) for name in rules.keys}
    return SourceLook(columns.schema, columns.types, kinds)
