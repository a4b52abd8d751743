"""Comparing the table of a sink with the lines that its last load left there.

In a database the lines are staged in a temporary table, and the database names those that one of
both lacks; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from dshap.cube.blocks import CubeArrays
from dshap.sinks.dialects import LoadSession, dialect_of
from dshap.sinks.ledger import Ledger
from dshap.sinks.loading import STAGING, CountedStream, TableLoad
from dshap.sinks.records import LastLoad, RowHistory, RunDay, Sink
from dshap.sinks.table_columns import RUN_ID
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

    Lines of keys that are gone, and of earlier runs in a history, are of no row of the cube: they
    are ignored, where the sink leaves such lines.

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
        Where it wrote changed rows alone, lines of earlier loads have their old date and the
        version of their model: both are compared of lines of all rows only.
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
        yield from _lost(load, names)
        keeps_others = sink.write == "append" or sink.deletes != "remove"
        if not keeps_others:
            yield from _added(load, names, n_staged)


def _names(load: TableLoad) -> set[str]:
    """The columns of the table, as the schema names them."""
    there = {load.dialect.as_name(name) for name in load.found}
    return {name for name in load.schema.names if load.dialect.as_name(name) in there}


def _lost(load: TableLoad, names: Sequence[str]) -> Iterator[str]:
    """Lines of the cube that are not in the table as they were loaded."""
    for key in _keys_without(load, _staged_lines(load, names), _table_lines(load, names)):
        yield f"{key}: its line is not there as it was loaded"


def _added(load: TableLoad, names: Sequence[str], n_staged: int) -> Iterator[str]:
    """Lines of the table that are none of the cube, and lines that are there twice."""
    for key in _keys_without(load, _table_lines(load, names), _staged_lines(load, names)):
        yield f"{key}: it has a line that was not loaded"
    run = load.dialect.quoted(RUN_ID)
    ((n_lines,),) = load.session.rows(f"SELECT COUNT({run}) FROM {load.table}")
    if int(n_lines) != n_staged:
        yield f"it has {int(n_lines):,} lines of dshap, and the load left {n_staged:,}"


def _keys_without(load: TableLoad, lines: str, others: str) -> Iterator[str]:
    """The keys of the first lines of one query that another lacks, in words."""
    found = load.session.rows(f"{lines} EXCEPT {others} LIMIT {SHOWN}")
    for line in found:
        pairs = zip(load.keys, line, strict=False)
        yield ", ".join(f"{name} {value}" for name, value in pairs)


def _staged_lines(load: TableLoad, names: Sequence[str]) -> str:
    chosen = ", ".join(map(load.staged, names))
    return f"SELECT {chosen} FROM {load.dialect.quoted(STAGING)} AS s"


def _table_lines(load: TableLoad, names: Sequence[str]) -> str:
    run = load.dialect.quoted(RUN_ID)
    return f"SELECT {load.dialect.listed(names)} FROM {load.table} WHERE {run} IS NOT NULL"
