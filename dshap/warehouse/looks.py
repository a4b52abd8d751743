"""Looks at a source before its rows are read: whether it opens, its columns, its age, its contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date

import pyarrow as pa

from dshap.tables.columns import kind_of_key
from dshap.tables.parquet import ParquetFiles
from dshap.warehouse.csv_files import CsvFiles
from dshap.warehouse.databases import Database
from dshap.warehouse.queries import Query, columns_of_query
from dshap.warehouse.reading_once import SpoolRules, kept_columns, look_at_files


@dataclass(frozen=True)
class SourceLook:
    """The columns of a source that opens."""

    schema: pa.Schema
    types: Mapping[str, str]
    """Column -> its type, as the contract compares it with that of another run."""
    key_kinds: Mapping[str, str]
    """Key column -> "int64", "string" or "datetime64[ns]"."""


def look_at_database(
    database: Database, query: Query, as_of: date, rules: SpoolRules
) -> SourceLook:
    """Look at a query or a table of a database; its age is judged."""
    with query.hiding_values():
        schema = columns_of_query(database, query, as_of, rules.keys, rules.age)
    return _look(schema, database.kind, rules)


def look_at_csv(files: CsvFiles, rules: SpoolRules) -> SourceLook:
    """Look at CSV files, whose columns have the types of all values; their age is not judged."""
    with files.open() as stream:
        return _look(stream.schema, "csv", rules)


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
