"""The table of a first job: its kind from an address or a path, its columns, and the key to propose."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dshap.core.addresses import is_of_bucket, scheme_of
from dshap.core.environment import with_environment
from dshap.core.errors import InputError, unknown_name
from dshap.jobfile.paths import query_of
from dshap.jobfile.schema import SOURCES
from dshap.jobinput.table_versions import files_of
from dshap.tables.columns import key_dtype
from dshap.warehouse.column_types import is_number_type
from dshap.warehouse.csv_files import ENDS as CSV_ENDS
from dshap.warehouse.database_rows import DatabaseRows
from dshap.warehouse.databases import IN_FILES, Database, file_of, secrets_of
from dshap.warehouse.reading_once import SpoolRules
from dshap.warehouse.tables_in import tables_in

DATABASES = ("duckdb", "sqlite", "postgresql", "postgres")
"""The schemes of addresses of databases."""
MARKS = ((b"SQLite format 3\x00", 0, "sqlite"), (b"DUCK", 8, "duckdb"), (b"PAR1", 0, "parquet"))
"""(bytes, their position, kind) by which a file is known."""
KNOWN = (
    "give an address (duckdb:///shop.duckdb, sqlite:///shop.sqlite, postgresql://user@host/database), "
    "or the path of a database file, or of Parquet or CSV files"
)
MARKED_BYTES = 16


@dataclass(frozen=True)
class FirstSource:
    """The source of the rows of a first job."""

    kind: str
    """"sql", "parquet", "csv" or "delta"."""
    given: str
    """The address or path as it was given, absolute if it is of this machine."""

    @classmethod
    def of(cls, text: str) -> FirstSource:
        """Find the kind of a source from an address or a path.

        Raises
        ------
        InputError
            Nothing is there, or it is of no kind that a job file knows.
        """
        scheme = scheme_of(text)
        if scheme in IN_FILES:
            path = os.path.abspath(file_of(with_environment(text)))
            if not os.path.isfile(path):
                raise InputError(f"source {scheme}:///{path}: there is no such file")
            return cls("sql", f"{scheme}:///{path}")
        if scheme in DATABASES:
            return cls("sql", text)
        if is_of_bucket(text):
            return cls("parquet", text)
        if scheme and scheme != "file":
            raise InputError(f"source begins with {scheme}://: {KNOWN}")
        path = os.path.abspath(os.path.expanduser(text.removeprefix("file://")))
        return cls._of_path(path)

    @classmethod
    def _of_path(cls, path: str) -> FirstSource:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                head = file.read(MARKED_BYTES)
            for mark, start, kind in MARKS:
                if head[start:].startswith(mark):
                    if kind == "parquet":
                        return cls("parquet", path)
                    return cls("sql", f"{kind}:///{path}")
        if path.endswith(CSV_ENDS):
            return cls("csv", path)
        if path.endswith(".parquet"):  # of a glob too
            return cls("parquet", path)
        if os.path.isdir(path):
            if os.path.isdir(os.path.join(path, "_delta_log")):
                return cls("delta", path)
            inside = [each.name for each in Path(path).rglob("*")]
            if any(name.endswith(".parquet") for name in inside):
                return cls("parquet", path)
            if any(name.endswith(CSV_ENDS) for name in inside):
                return cls("csv", path)
            raise InputError(f"source {path} contains no Parquet and no CSV file: {KNOWN}")
        if not os.path.exists(path):
            raise InputError(f"source {path}: there is no such file or folder: {KNOWN}")
        raise InputError(f"source {path} is of no known kind: {KNOWN}")

    @property
    def is_database(self) -> bool:
        return self.kind == "sql"

    @property
    def has_secret(self) -> bool:
        """Whether the address contains a password, which no job file may contain."""
        return self.is_database and bool(secrets_of(_without_variables(self.given)))

    @property
    def database(self) -> Database:
        """The database, with the values of the environment."""
        return Database(with_environment(self.given))

    def describe(self) -> str:
        """The address without secrets, or the path."""
        if self.is_database:
            return self.database.describe()
        return self.given

    def tables(self) -> list[str]:
        """The tables and views of the database; none of files."""
        if not self.is_database:
            return []
        return tables_in(self.database)

    def checked_table(self, name: str, tables: Sequence[str]) -> str:
        """The name of a table, or of the only one if none is given.

        Raises
        ------
        InputError
            No such table, no name if there are several, or a database without tables.
        """
        if not tables:
            raise InputError(f"{self.describe()} has no table or view that can be read")
        if name in tables:
            return name
        if not name and len(tables) == 1:
            return tables[0]
        if not name:
            raise InputError(
                f"{self.describe()} has {len(tables)} tables: give --table, one of {', '.join(tables)}"
            )
        raise InputError(f"{self.describe()}: {unknown_name('table', name, tables)}")

    def written(self, folder: Path, table: str, query: str) -> dict[str, str]:
        """The keys of [source] that name the rows, for a job file in a folder."""
        if not self.is_database:
            return {"kind": self.kind, "path": as_written(self.given, folder)}
        keys = {"kind": self.kind, "uri": address_written(self.given, folder)}
        if query:
            return {**keys, "query": query}
        return {**keys, "table": table}

    def columns(self, table: str, query: str) -> dict[str, Any]:
        """Column -> its Arrow type.

        Raises
        ------
        InputError
            The rows cannot be read.
        """
        today = datetime.now(UTC).date()
        if self.is_database:
            rows = DatabaseRows(self.database, query_of(query or None, table or None))
            schema = rows.columns(today, SpoolRules())
        else:
            source = SOURCES({"kind": self.kind, "path": self.given})
            files = files_of(source)
            if files is None:
                schema = source.reader().columns(today, SpoolRules())
            else:
                schema = files.schema
        return {each.name: each.type for each in schema}


def _without_variables(uri: str) -> str:
    """An address without its {{ env_var(NAME) }}, which are no secrets."""
    return re.sub(r"\{\{.*?\}\}", "", uri)


def as_written(path: str, folder: Path) -> str:
    """A path as a job file in a folder names it: relative to the folder, a bucket's as it is."""
    if is_of_bucket(path):
        return path
    relative = Path(os.path.relpath(path, folder)).as_posix()
    if relative.startswith("../../.."):
        return path
    return relative


def address_written(uri: str, folder: Path) -> str:
    """The address of a database as a job file in a folder has it: without a password."""
    scheme = scheme_of(uri)
    if scheme in IN_FILES:
        return f"{scheme}:///{as_written(file_of(uri), folder)}"
    if secrets_of(_without_variables(uri)):
        without_query = re.sub(r"([?&])(?:ssl)?password=[^&]*&?", r"\1", uri).rstrip("?&")
        return re.sub(r"(://[^:@/]*):.*@", r"\1@", without_query)
    return uri


def proposed_key(columns: Mapping[str, Any], features: Collection[str], table: str) -> str:
    """The column to propose as key: it is no feature, and its name looks like a key.

    Empty if there is none.

    Parameters
    ----------
    columns : column -> its Arrow type
    features : the columns of the model
    table : the name of the table
    """
    free = [
        name
        for name, kind in columns.items()
        if name not in features and key_dtype(kind) is not None
    ]
    noun = table.rpartition(".")[2].lower()
    exact = ("id", f"{noun}_id", f"{noun.removesuffix('s')}_id", f"{noun}id", "key", "uuid")
    ends = ("_id", "_key", "_uuid", "id")
    by_name = {name.lower(): name for name in reversed(free)}
    for wanted in exact:
        if wanted in by_name:
            return by_name[wanted]
    return next((name for end in ends for name in free if name.lower().endswith(end)), "")


def number_columns(columns: Mapping[str, Any]) -> list[str]:
    """The columns of numbers, which are features if a model does not name its own."""
    return [name for name, kind in columns.items() if is_number_type(str(kind))]
