"""The rows of a query or a table of a database, which are read once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

from dshap.core.late import pa
from dshap.tables.streams import RowStream
from dshap.warehouse.databases import Database
from dshap.warehouse.queries import Query, columns_of_query, open_query
from dshap.warehouse.reading_once import RowsReadOnce, SpoolRules


@dataclass(frozen=True)
class DatabaseRows(RowsReadOnce):
    """A query or a table of a database; its age is judged before its rows are read."""

    database: Database
    query: Query

    @property
    def kind(self) -> str:
        """The kind of the database."""
        return self.database.kind

    def describe(self) -> str:
        return f"{self.database.describe()}, {self.query.describe()}"

    @contextmanager
    def open(self, as_of: date, rules: SpoolRules) -> Iterator[RowStream]:
        opened = open_query(self.database, self.query, as_of, rules.read, rules.keys, rules.age)
        with self.query.hiding_values(), opened as stream:
            yield stream

    def columns(self, as_of: date, rules: SpoolRules) -> pa.Schema:
        with self.query.hiding_values():
            return columns_of_query(self.database, self.query, as_of, rules.keys, rules.age)
