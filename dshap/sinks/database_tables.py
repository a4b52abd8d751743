"""The sink that is a table of a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from dshap.core.errors import DatabaseError, InputError
from dshap.cube.blocks import CubeArrays
from dshap.sinks.checks import check_names, refuse_other_columns
from dshap.sinks.dialects import Dialect, Place, dialect_of
from dshap.sinks.line_removal import forget_in_table, keys_in_table
from dshap.sinks.loading import load_table
from dshap.sinks.records import (
    CubeFacts,
    LastLoad,
    RowHistory,
    RunDay,
    Sink,
    SinkResult,
    SourceQuery,
    Target,
)
from dshap.sinks.table_comparison import differences_in_table
from dshap.sinks.targets import is_read_by, look_at_table
from dshap.warehouse.databases import Database


@dataclass(frozen=True)
class DatabaseSink(Sink):
    """A table of a database: the keys of changed rows are deleted and inserted in one transaction."""

    keys = ("uri", "connection", "database")
    address = "uri or connection of a database"
    noun = "a database"

    database: Database

    def __post_init__(self) -> None:
        if not self.table:
            raise InputError("give table, the name of the table in the database")
        if self.has_view and self.has_known_rules and not self._dialect.has_views:
            raise InputError(
                "text = true makes a view in DuckDB, SQLite and PostgreSQL, not in "
                f"{self.database.kind}: leave it out"
            )
        super().__post_init__()

    @property
    def label(self) -> str:
        """The table with its schema."""
        return ".".join(filter(None, (self.schema, self.table)))

    def describe(self) -> str:
        """The masked address of the database with the table."""
        return f"{self.database.describe()}, {self.label}"

    def identity(self) -> str:
        if not self.has_known_rules:
            return self.label
        return ".".join(filter(None, self._dialect.identity(self._place)))

    @property
    def has_known_rules(self) -> bool:
        return not self.database.connection

    def as_name(self, name: str) -> str:
        return self._dialect.as_name(name)

    def check_names(self, columns: Sequence[str]) -> None:
        check_names(self, self.database.kind, columns)

    def look(self, job: str, source: SourceQuery | None = None) -> Target:
        try:
            found = look_at_table(self, self.database, job)
        except DatabaseError as error:
            said = f"{self}: {error}"
            if error.is_refusal:
                return Target(self, faults=(said,))
            return Target(self, unreachable=said)
        if source is None or not is_read_by(source, self.database, found):
            return found.target
        fault = (
            f"{self}: [source] reads its rows from this table, and a load would replace them: give "
            "the sink another table"
        )
        return replace(found.target, faults=(*found.target.faults, fault))

    def refuse_other_shape(self, target: Target, facts: CubeFacts) -> None:
        if target.columns:
            dialect = self._dialect
            table = dialect.place(self._place)
            refuse_other_columns(self, facts, target.columns, dialect, table, target.is_known)

    def load(
        self,
        cube: CubeArrays,
        history: RowHistory,
        job: str,
        say: Callable[[str], None],
        day: RunDay,
    ) -> SinkResult:
        return load_table(self, self.database, cube, history, job, say, day)

    def differences(
        self, cube: CubeArrays, history: RowHistory, job: str, load: LastLoad
    ) -> Iterator[str]:
        return differences_in_table(self, self.database, cube, history, job, load)

    def forget(self, keys: Mapping[str, NDArray[Any]], job: str) -> int:
        return forget_in_table(self, self.database, keys, job)

    def find_keys(self, keys: Mapping[str, NDArray[Any]], job: str) -> set[int]:
        return keys_in_table(self, self.database, keys)

    @property
    def _dialect(self) -> Dialect:
        return dialect_of(self.database.kind)

    @property
    def _place(self) -> Place:
        return Place(self.schema, self.table)
