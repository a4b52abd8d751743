"""Removal of the lines of some keys from a sink, of all runs, in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import DatabaseError, SinkError
from dshap.core.late import pa
from dshap.sinks.dialects import LoadSession, Place, dialect_of
from dshap.sinks.ledger import OWN_NAMES, Ledger
from dshap.sinks.nul import without_nul
from dshap.sinks.records import Sink
from dshap.sinks.table_columns import OLD_RUN_ID, RUN_ID
from dshap.storage.disk import whole_file
from dshap.tables.checksums import open_parquet, parquet_writer
from dshap.tables.keys.digests import DigestBatch
from dshap.tables.keys.wanted import NO_KEY, WantedKeys
from dshap.warehouse.databases import Database, masking

FORGOTTEN = f"{OWN_NAMES}forgotten"
"""The temporary table of the keys whose lines are removed."""
NUMBER = f"{OWN_NAMES}number"
"""The column of the number of each key there."""
KEY_PREFIX = "key_"
"""The beginning of the name of a key column whose own name the table has for something else."""


def key_names_in(columns: Sequence[str], keys: Sequence[str]) -> dict[str, str]:
    """Key column of a cube -> its column in a table with these columns."""
    names = {name: f"{KEY_PREFIX}{name}" for name in keys}
    return {
        name: other if other in columns and other not in keys else name
        for name, other in names.items()
    }


@dataclass
class KeysInTable:
    """Keys in a temporary table, to find their lines in the table of a sink."""

    session: LoadSession
    table: str
    """The table of the sink as SQL writes it."""
    run: str
    """Its column of runs: lines without a run are of the user."""
    listed: str
    """Its key columns."""
    staged: str
    """The staged keys `s`, as values of its types."""

    @classmethod
    def of(
        cls, sink: Sink, session: LoadSession, keys: Mapping[str, NDArray[Any]]
    ) -> KeysInTable | None:
        """Stage the keys; None if the table of the sink is not there.

        Raises
        ------
        SinkError
            The table has no such key column, or no column of runs.
        """
        dialect = session.dialect
        target = Place(sink.schema, sink.table)
        found = session.columns(target)
        if not found:
            return None
        types = {dialect.as_name(name): sql_type for name, sql_type in found.items()}
        names = key_names_in(list(found), list(keys))
        runs = [name for name in (RUN_ID, OLD_RUN_ID) if dialect.as_name(name) in types]
        missing = [name for name in names.values() if dialect.as_name(name) not in types]
        if missing or not runs:
            raise SinkError(f"{sink}: the table has no column {(missing or [RUN_ID])[0]!r}")
        columns = {names[name]: _as_sent(values) for name, values in keys.items()}
        numbers = pa.array(np.arange(len(next(iter(keys.values())))))
        batch = pa.record_batch({**columns, NUMBER: numbers})
        session.stage(FORGOTTEN, pa.RecordBatchReader.from_batches(batch.schema, [batch]))
        listed = dialect.listed(list(columns))
        staged = ", ".join(
            dialect.converted(name, types[dialect.as_name(name)]) for name in columns
        )
        if len(columns) > 1:
            listed = f"({listed})"
            staged = f"({staged})"
        return cls(session, dialect.place(target), dialect.quoted(runs[0]), listed, staged)

    @property
    def which(self) -> str:
        """The SQL condition that a line was written by dshap and has one of the keys."""
        chosen = self.staged.removeprefix("(").removesuffix(")") if self._is_tuple else self.staged
        return f"{self.run} IS NOT NULL AND {self.listed} IN (SELECT {chosen} FROM {self._keys})"

    @property
    def _is_tuple(self) -> bool:
        return self.listed.startswith("(")

    @property
    def _keys(self) -> str:
        return f"{self.session.dialect.quoted(FORGOTTEN)} AS s"

    def count(self) -> int:
        """The number of lines that have one of the keys."""
        ((n_lines,),) = self.session.rows(f"SELECT COUNT(*) FROM {self.table} WHERE {self.which}")
        return int(n_lines)

    def numbers(self) -> set[int]:
        """The numbers of the keys that lines have."""
        number = self.session.dialect.quoted(NUMBER)
        chosen = self.listed.removeprefix("(").removesuffix(")") if self._is_tuple else self.listed
        rows = self.session.rows(
            f"SELECT s.{number} FROM {self._keys} WHERE {self.staged} IN "
            f"(SELECT {chosen} FROM {self.table} WHERE {self.run} IS NOT NULL)"
        )
        return {int(each) for (each,) in rows}


def forget_in_table(
    sink: Sink, database: Database, keys: Mapping[str, NDArray[Any]], job: str
) -> int:
    """Remove the lines of these keys from a table of a database, in one transaction.

    Views of the table, such as that of reasons in words, then do not show them either.  The number
    of lines in `_dshap_runs` is changed too, so that the next load does not count the table as
    altered.  Lines without a run were written by the user, and stay.

    Raises
    ------
    SinkError
        The database cannot be reached, or refuses; nothing is removed.
    """
    with _opened(sink, database) as session:
        ledger = Ledger(session, Place(sink.schema, sink.table))
        newest = ledger.newest(sink, job)
        if newest is not None:
            # a load that runs now would write lines of the same keys, and count them
            session.dialect.lock(session, ledger.place)
        staged = KeysInTable.of(sink, session, keys)
        n_lines = 0 if staged is None else staged.count()
        if staged is None or not n_lines:
            return 0
        session.run(f"DELETE FROM {staged.table} WHERE {staged.which}")
        if newest is not None and newest.n_table_lines is not None:
            ((n_left,),) = session.rows(f"SELECT COUNT({staged.run}) FROM {staged.table}")
            ledger.set_lines(newest, int(n_left))
        session.connection.commit()
        return n_lines


def keys_in_table(sink: Sink, database: Database, keys: Mapping[str, NDArray[Any]]) -> set[int]:
    """The numbers of the keys that lines of a table have; nothing is changed.

    Raises
    ------
    SinkError
        The database cannot be reached, or refuses.
    """
    with _opened(sink, database) as session:
        staged = KeysInTable.of(sink, session, keys)
        return set() if staged is None else staged.numbers()


@contextmanager
def _opened(sink: Sink, database: Database) -> Iterator[LoadSession]:
    """A session with the database of a sink, whose errors name the sink."""
    try:
        with masking(database), database.connect() as connection:
            session = LoadSession(connection, dialect_of(database.kind))
            # before the transaction begins: a setting of the connection, by which freed pages are
            # overwritten
            session.dialect.wipe_deleted(session)
            session.dialect.begin(session)
            yield session
    except DatabaseError as error:
        raise SinkError(f"{sink}: {error}") from error


def _as_sent(values: NDArray[Any]) -> pa.Array:
    """The values of a key column as a load writes them."""
    if values.dtype.kind == "M":
        return pa.array(values.astype("datetime64[us]"))
    if values.dtype.kind == "T":
        return without_nul(pa.array(values.tolist(), pa.string()))
    return pa.array(values.astype(np.int64))


def forget_in_files(folder: Path, line: Path, keys: Mapping[str, NDArray[Any]]) -> int:
    """Remove the lines of these keys from the Parquet files of one load; returns their number.

    `line` is the record of the load, which counts its lines and follows last.
    """
    n_gone = 0
    n_left = 0
    for file in sorted(folder.glob("part-*.parquet")):
        gone, left = _forget_in_file(file, keys)
        n_gone += gone
        n_left += left
    content = json.loads(line.read_text())
    # after the files: a killed removal leaves a count that is too large, and the next one finishes
    # it
    if content["n_lines"] != n_left:
        with whole_file(line, synced=True) as private:
            private.write_text(json.dumps(content | {"n_lines": n_left}))
    return n_gone


def keys_in_files(folder: Path, keys: Mapping[str, NDArray[Any]]) -> set[int]:
    """The numbers of the keys that lines of the Parquet files of one load have."""
    found: set[int] = set()
    for file in sorted(folder.glob("part-*.parquet")):
        with open_parquet(file) as opened:
            names = key_names_in(opened.schema_arrow.names, list(keys))
            wanted = WantedKeys({names[name]: _in_file(values) for name, values in keys.items()})
            for batch in opened.iter_batches(columns=list(wanted.names)):
                numbers = wanted.numbers(DigestBatch(0, batch).keys)
                found |= set(numbers[numbers != NO_KEY].tolist())
    return found


def _forget_in_file(file: Path, keys: Mapping[str, NDArray[Any]]) -> tuple[int, int]:
    """(lines that went, lines that are left) of one file, which is written again if some go."""
    with open_parquet(file) as opened:
        names = key_names_in(opened.schema_arrow.names, list(keys))
        wanted = WantedKeys({names[name]: _in_file(values) for name, values in keys.items()})
        batches = list(opened.iter_batches())
        schema = opened.schema_arrow
    masks = [_is_gone(batch, wanted) for batch in batches]
    n_gone = int(sum(mask.sum() for mask in masks))
    n_lines = sum(batch.num_rows for batch in batches)
    if n_gone:
        with whole_file(file, synced=True) as private, parquet_writer(private, schema) as writer:
            for batch, mask in zip(batches, masks, strict=True):
                writer.write_batch(batch.filter(pa.array(~mask)))
    return n_gone, n_lines - n_gone


def _in_file(values: NDArray[Any]) -> NDArray[Any]:
    """The values of a key column as files have them: text without NUL."""
    if values.dtype.kind != "T":
        return values
    texts = without_nul(pa.array(values.tolist(), pa.string())).to_pylist()
    return np.array(texts, dtype=np.dtypes.StringDType())


def _is_gone(batch: pa.RecordBatch, wanted: WantedKeys) -> NDArray[np.bool_]:
    keys = DigestBatch(0, batch.select(list(wanted.names))).keys
    return wanted.numbers(keys) != NO_KEY
