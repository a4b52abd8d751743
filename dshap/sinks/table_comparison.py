"""Comparing the table of a sink with the lines that its last load left there.

In a database the lines are staged in a temporary table, and the database finds the lines that only
one of the two tables has; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dshap.cube.blocks import CubeArrays
from dshap.sinks.dialects import LoadSession, dialect_of
from dshap.sinks.ledger import Ledger
from dshap.sinks.loading import STAGING, CountedStream, TableLoad
from dshap.sinks.records import LastLoad, RowHistory, RunDay, Sink
from dshap.sinks.table_columns import RUN_ID, primary_key
from dshap.warehouse.databases import Database, masking

OF_LOADS = ("as_of", "model_version")
"""Columns with facts of the load that wrote a line, not of the run that computed its row."""
SHOWN = 3
"""The most lines that a message names."""


def differences_in_table(
    sink: Sink,
    database: Database,
    cube: CubeArrays,
    history: RowHistory,
    job: str,
    last: LastLoad,
) -> Iterator[str]:
    """Describe how a table of a database differs from the lines of a cube.

    Lines of keys that are gone, and those of earlier runs in a history, belong to no row of the
    cube; they are ignored if the sink keeps such lines.

    Parameters
    ----------
    sink : Sink
    database : Database
    cube : CubeArrays
        The cube that was loaded last.
    history : RowHistory
        The runs that computed its rows.
    job : str
        The name of the job.
    last : LastLoad
        If it wrote only changed rows, the lines of earlier loads have the date and model version of
        those loads: both are compared only after a load of all rows.
    """
    with masking(database), database.connect() as connection:
        session = LoadSession(connection, dialect_of(database.kind))
        session.dialect.begin(session)
        load = TableLoad(sink, cube, history, session, RunDay(last.as_of))
        load.found = session.columns(load.target)
        if not load.found:
            yield "it is missing"
            return
        line = Ledger(session, load.target).of_run(sink, job, history.run_id)
        if line is None:
            yield f"_dshap_runs has no line of run {history.run_id}"
        lacking = [name for name in load.schema.names if name not in _names(load)]
        if lacking:
            yield f"it has no column {', '.join(lacking)}"
            return
        n_staged = CountedStream.of_lines(load).into(partial(session.stage, STAGING))
        # A load of changed rows leaves the date and version of an earlier load in all other lines.
        names = [name for name in load.schema.names if not (last.since and name in OF_LOADS)]
        lines = _Lines(load, names)
        altered = lines.lost()
        yield from altered.values()
        keeps_others = sink.write == "append" or sink.deletes != "remove"
        if not keeps_others:
            yield from _added(lines, altered, n_staged)


def _names(load: TableLoad) -> set[str]:
    """The columns of the table, as the schema names them."""
    there = {load.dialect.as_name(name) for name in load.found}
    return {name for name in load.schema.names if load.dialect.as_name(name) in there}


@dataclass(frozen=True)
class _Lines:
    """The lines of a staged load, and the lines of the table, by the columns that name a line."""

    load: TableLoad
    names: Sequence[str]
    """The columns that are compared."""

    @property
    def key(self) -> list[str]:
        """The columns that name a line."""
        return primary_key(self.load.sink, self.load.facts)

    @property
    def staged(self) -> str:
        quoted = self.load.dialect.quoted
        chosen = ", ".join(f"{self.load.staged(name)} AS {quoted(name)}" for name in self.names)
        return f"SELECT {chosen} FROM {quoted(STAGING)} AS s"

    @property
    def in_table(self) -> str:
        load = self.load
        run = load.dialect.quoted(RUN_ID)
        return f"SELECT {load.dialect.listed(self.names)} FROM {load.table} WHERE {run} IS NOT NULL"

    def lost(self) -> dict[str, str]:
        """Describe up to three lines that the table lacks, or has with other values: line -> words."""
        quoted = self.load.dialect.quoted
        same = " AND ".join(f"t.{quoted(each)} = l.{quoted(each)}" for each in self.key)
        columns = [f"{side}.{quoted(name)}" for side in ("l", "t") for name in self.names]
        lost = f"({self.staged} EXCEPT {self.in_table} LIMIT {SHOWN})"
        found = self.load.session.rows(
            f"SELECT {', '.join(columns)} FROM {lost} AS l LEFT JOIN ({self.in_table}) AS t ON {same}"
        )
        altered: dict[str, str] = {}
        for line in found:
            loaded = line[: len(self.names)]
            words = self.in_words(loaded)
            alteration = self._alteration(loaded, line[len(self.names) :])
            altered.setdefault(words, f"{words}: {alteration}")
        return altered

    def added(self) -> Iterator[str]:
        """Lines of the table, in words, that are none of those that were loaded."""
        query = f"{self.in_table} EXCEPT {self.staged} LIMIT {SHOWN}"
        yield from map(self.in_words, self.load.session.rows(query))

    def in_words(self, line: Sequence[Any]) -> str:
        """The columns that name a line, with their values, but for the run."""
        values = dict(zip(self.names, line, strict=True))
        return ", ".join(f"{name} {values[name]}" for name in self.key if name != RUN_ID)

    def _alteration(self, loaded: Sequence[Any], now: Sequence[Any]) -> str:
        """The columns of a line whose values are others now; the values themselves are personal."""
        if dict(zip(self.names, now, strict=True))[RUN_ID] is None:
            return "the line is missing"
        each = zip(self.names, loaded, now, strict=True)
        other = [name for name, was, now in each if was != now]
        if len(other) == 1:
            return f"{other[0]} is not as it was loaded"
        if len(other) > SHOWN:
            other[SHOWN:] = [f"{len(other) - SHOWN} more"]
        return f"{', '.join(other[:-1])} and {''.join(other[-1:])} are not as they were loaded"


def _added(lines: _Lines, altered: Collection[str], n_staged: int) -> Iterator[str]:
    """Lines of the table that are none of the cube, and lines that are there twice."""
    load = lines.load
    for words in lines.added():
        if words not in altered:
            yield f"{words}: it has a line that was not loaded"
    run = load.dialect.quoted(RUN_ID)
    ((n_lines,),) = load.session.rows(f"SELECT COUNT({run}) FROM {load.table}")
    if int(n_lines) != n_staged:
        yield f"it has {int(n_lines):,} lines of dshap, and the load left {n_staged:,}"
