"""The tables [source] whose rows are first read into Parquet parts: databases and CSV files."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from dshap.core.errors import InputError
from dshap.jobfile.fields import Names, NotEmpty, QueryText, options_of, unchanged
from dshap.jobfile.kinds import KindTable, Table, record_of
from dshap.jobfile.night_tables import duration_of
from dshap.jobfile.paths import (
    ConnectionProfile,
    DatabaseAddress,
    TablePath,
    database_of,
    query_of,
)
from dshap.sinks import SourceQuery
from dshap.tables.columns import as_names
from dshap.tables.parquet import ParquetSource
from dshap.warehouse.contract import Contract
from dshap.warehouse.csv_files import CsvFiles
from dshap.warehouse.database_rows import DatabaseRows
from dshap.warehouse.databases import Database
from dshap.warehouse.freshness import Freshness
from dshap.warehouse.queries import Query
from dshap.warehouse.reading_once import RowsReadOnce

Period = Annotated[str, AfterValidator(unchanged(duration_of))]
"""The type of a period that is shown as it is written, like "24h"."""


class FreshnessTable(Table):
    """The key `freshness` of [source], with the meaning that it has in dbt."""

    column: NotEmpty
    """The column with the time at which a row was loaded."""
    warn_after: Period | None = None
    error_after: Period | None = None

    @model_validator(mode="after")
    def _check(self) -> FreshnessTable:
        if self.warn_after is None and self.error_after is None:
            raise ValueError("freshness needs warn_after or error_after, or both")
        return self

    def made(self) -> Freshness:
        return Freshness(
            self.column,
            self.warn_after,
            self.error_after,
            _seconds_or_none(self.warn_after),
            _seconds_or_none(self.error_after),
        )


def _seconds_or_none(period: str | None) -> float | None:
    if period is None:
        return None
    return duration_of(period).total_seconds()


def _built(given: str) -> str:
    if given.startswith("discard"):
        raise ValueError(f'"{given}" is not available: available are "freeze" and "evolve"')
    if given not in ("freeze", "evolve"):
        raise ValueError(f'{given!r} is unknown: give "freeze" or "evolve"')
    return given


def _unique(given: str) -> str:
    if given != "unique":
        raise ValueError(f'keys = "{given}": a key identifies a row, so it must be "unique"')
    return given


_Change = Annotated[
    str,
    AfterValidator(_built),
    Field(json_schema_extra={"enum": ["freeze", "evolve"]}),
]


class ContractTable(Table):
    """The key `contract` of [source], with the words of dlt."""

    columns: _Change = "freeze"
    """Whether used columns may appear or disappear between two runs: "freeze" (no) or "evolve"."""
    types: _Change = "freeze"
    """Whether used columns may change their types: "freeze" (no) or "evolve"."""
    keys: Annotated[str, AfterValidator(_unique)] = "unique"
    """The rule for keys: "unique", one row for each key, and no key missing."""

    def made(self) -> Contract:
        return Contract(self.columns, self.types, self.keys)


class HeldTable(KindTable):
    """The keys of every source with checks of its age and contract: files and databases."""

    freshness: FreshnessTable | None = None
    """The limits of the source's age: { column, warn_after, error_after }."""
    contract: ContractTable = ContractTable()
    """The rules for changes of the source between two runs: { columns, types, keys }."""

    def age_limits(self) -> Freshness | None:
        """The limits of freshness, None if there are none."""
        if self.freshness is None:
            return None
        return self.freshness.made()

    @property
    def promises(self) -> bool:
        """Whether the job file has limits of the age, or a contract."""
        return bool({"freshness", "contract"} & self.model_fields_set)


_ROLES: Any = record_of(
    "_ROLES",
    (HeldTable,),
    options_of(ParquetSource, without=("path", "categories", "times")),
)


class SpooledTable(_ROLES):  # type: ignore[misc]
    """The keys of every source that is read into parts; its columns have the roles of Parquet's."""

    def made(self, rest: Any = None) -> Any:
        raise InputError(
            f'[source] kind = "{self.kind}" is read into parts first, which `dshap run` does'
        )

    def reader(self) -> RowsReadOnce:
        """The rows that are read into parts."""
        made: RowsReadOnce = super().made()
        return made

    def query_for(self, as_of: date) -> SourceQuery | None:
        """The query whose tables no sink may load; None if the source is no database."""
        return None


class SqlTable(SpooledTable):
    """A query or a table of a database."""

    uri: DatabaseAddress | None = None
    """The address: duckdb:///file.duckdb, sqlite:///file.sqlite or postgresql://user@host/db."""
    connection: ConnectionProfile | None = None
    """The name of an ADBC connection profile, or the path of its file."""
    query: QueryText | None = None
    """A query; {as_of} in it is replaced by the date of the run, a DATE."""
    table: NotEmpty | None = None
    """A table or view, or "schema.name"."""

    @model_validator(mode="after")
    def _check(self) -> SqlTable:
        self.rows()
        if (self.uri is None) == (self.connection is None):
            raise ValueError("a database is named by uri or by connection: give one of them")
        return self

    def database(self) -> Database:
        """The database, with the secrets of the environment."""
        return database_of(self.uri, self.connection)

    def rows(self) -> Query:
        """The query or table, with the values of the environment."""
        return query_of(self.query, self.table)

    def reader(self) -> DatabaseRows:
        return DatabaseRows(self.database(), self.rows())

    def query_for(self, as_of: date) -> SourceQuery:
        database = self.database()
        return SourceQuery(database, self.rows().literal(database.kind, as_of), self.table or "")


class CsvTable(SpooledTable):
    """CSV files with a line of names each: a file, a folder or a glob."""

    path: TablePath
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    text: Names | None = None
    """Columns that stay text, such as codes that begin with 0."""
    null_values: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """The texts that are missing values; by default "", "NA", "NULL", "NaN" and similar ones."""

    def reader(self) -> CsvFiles:
        return CsvFiles(self.path, self.delimiter, self.null_values, as_names(self.text))
