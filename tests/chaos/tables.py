"""The tables of a game in a database of any kind: the source of a night, a sink, and its ledger."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from dshap.warehouse.databases import Database

Lines = list[tuple[Any, ...]]
OWN = ("_dshap_staging", "_dshap_gone", "_dshap_gone_keys")
"""Tables that a load makes for itself, and that are gone at its end."""
LEDGER = "_dshap_runs"

OF_RUNS = ("run_id", "computed_at", "as_of")
"""Columns about the run that computed or wrote a line, which a fault may postpone."""


@dataclass(frozen=True)
class Tables:
    """The table of a sink, by the address of its database, its name and its key."""

    uri: str
    table: str
    key: str

    @contextlib.contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor, whose changes are kept at the end."""
        with Database(self.uri).connect() as connection, connection.cursor() as cursor:
            yield cursor
            connection.commit()

    def put(self, name: str, rows: pd.DataFrame) -> None:
        """Replace a table by these rows."""
        with self.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {name}")
            content = pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata()
            cursor.adbc_ingest(name, content, mode="create")

    def select(self, query: str) -> Lines:
        with self.cursor() as cursor:
            cursor.execute(query)
            return [tuple(line) for line in cursor.fetchall()]

    def has(self, name: str) -> bool:
        """Whether there is a table of this name."""
        try:
            self.select(f"SELECT 1 FROM {name} WHERE 1 = 0")
        except Exception:
            return False
        return True

    def has_sink(self) -> bool:
        return self.has(self.table)

    def alter(self, statement: str) -> None:
        """Alter the table of the sink, as by another person; half of its keys are {some}."""
        key = f'"{self.key}"'
        keys = sorted({line[0] for line in self.select(f"SELECT {key} FROM {self.table}")})
        some = ", ".join(repr(each) for each in keys[::2]) or "NULL"
        with self.cursor() as cursor:
            cursor.execute(statement.format(table=self.table, key=key, some=some))

    def lines(self, is_history: bool) -> Lines:
        """The sorted lines of keys that are there, without the runs that computed and wrote them.

        Of a history those of the newest version of each row, each once.
        """
        names, found = self.whole()
        run = names.index("run_id")
        status = names.index("status")
        key = names.index(self.key)
        if is_history:
            newest: dict[Any, str] = {}
            for line in found:
                newest[line[key]] = max(newest.get(line[key], ""), line[run])
            found = list({line for line in found if line[run] == newest[line[key]]})
        other = [place for place, name in enumerate(names) if name not in OF_RUNS]
        there = [
            tuple(line[place] for place in other) for line in found if line[status] != "deleted"
        ]
        return sorted(there, key=repr)

    def whole(self) -> tuple[list[str], Lines]:
        """The names of the columns of the sink, and all lines."""
        with self.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {self.table}")
            names = [each[0] for each in cursor.description]
            return names, [tuple(line) for line in cursor.fetchall()]

    def ledger(self) -> list[dict[str, Any]]:
        """The lines of `_dshap_runs` about the sink, by the time of the load."""
        with self.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {LEDGER} ORDER BY loaded_at")
            names = [each[0] for each in cursor.description]
            lines = [dict(zip(names, line, strict=True)) for line in cursor.fetchall()]
        return [line for line in lines if line["table_name"] == self.table]

    def own_tables(self) -> list[str]:
        """The tables that a load has left."""
        return [name for name in OWN if self.has(name)]
