"""Tables that an earlier version of dshap made: the columns that a load brings up to date.

A load renames `_dshap_run_id` and `output`, adds the columns that the table lacks, and writes all rows
again, in its own transaction.  Earlier lines of a history have null in the new columns, and the
table gets no primary key, which earlier lines may contradict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dshap.core.late import pa
from dshap.sinks.dialects import Dialect, LoadSession
from dshap.sinks.table_columns import CLASS, OLD_RUN_ID, RENAMED, YIELDING

ADDED = (CLASS, *YIELDING)
"""Columns that tables of earlier versions lack."""


@dataclass(frozen=True)
class TableUpgrade:
    """The changes that bring a table of an earlier version up to date."""

    renamed: Mapping[str, str]
    """Name of a column -> its name now."""
    added: tuple[str, ...]

    @classmethod
    def of(cls, found: Mapping[str, str], schema: pa.Schema, dialect: Dialect) -> TableUpgrade:
        """The changes for a table with these columns, name -> type; none if it is up to date."""
        names = {dialect.as_name(name) for name in found}
        if dialect.as_name(OLD_RUN_ID) not in names:
            return cls({}, ())
        renamed = {
            old: new
            for old, new in RENAMED.items()
            if dialect.as_name(old) in names
            and dialect.as_name(new) not in names
            and old not in schema.names
        }
        there = names | {dialect.as_name(new) for new in renamed.values()}
        added = [
            name for name in ADDED if name in schema.names and dialect.as_name(name) not in there
        ]
        return cls(renamed, tuple(added))

    def __bool__(self) -> bool:
        return bool(self.renamed or self.added)

    def __str__(self) -> str:
        """The changes in words; empty for none."""
        if not self:
            return ""
        words = [f"{old!r} is now {new!r}" for old, new in self.renamed.items()]
        if self.added:
            words.append(f"{', '.join(map(repr, self.added))} {_are(self.added)} new")
        return f"an earlier version of dshap made the table: its column {', '.join(words)}"

    def columns(self, found: Mapping[str, str], types: Mapping[str, str]) -> dict[str, str]:
        """Column -> type, once the changes are made; `types` are those of the new columns."""
        columns = {self.renamed.get(name, name): sql_type for name, sql_type in found.items()}
        return columns | {name: types[name] for name in self.added}

    def carry_out(self, session: LoadSession, table: str, types: Mapping[str, str]) -> None:
        """Change the table, in the transaction of the session."""
        quoted = session.dialect.quoted
        for old, new in self.renamed.items():
            session.run(f"ALTER TABLE {table} RENAME COLUMN {quoted(old)} TO {quoted(new)}")
        for name in self.added:
            session.run(f"ALTER TABLE {table} ADD COLUMN {quoted(name)} {types[name]}")


def sql_types(schema: pa.Schema, dialect: Dialect) -> dict[str, str]:
    """Column -> its type in the dialect of a database."""
    return {each.name: dialect.types[each.type] for each in schema}


def _are(names: tuple[str, ...]) -> str:
    return "is" if len(names) == 1 else "are"
