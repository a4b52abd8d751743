"""Comparing the table of a sink with the lines that its last load left there.

In a database the lines are staged in a temporary table, and the database names those that one of
both lacks; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dshap.cube.blocks import CubeArrays
from dshap.sinks.dialects import LoadSession, dialect_of
from dshap.sinks.ledger import Ledger
from dshap.sinks.loading import STAGING, CountedStream, TableLoad
from dshap.sinks.records import RowHistory, Sink
from dshap.sinks.shapes import RUN_ID
from dshap.warehouse.databases import Database, masking

SHOWN = 3
"""The most lines that a message names."""


def differences_in_table(
    sink: Sink, database: Database, cube: CubeArrays, history: RowHistory, job: str
) -> Iterator[str]:
    """Describe how a table of a database differs from the lines of a cube.

    Lines of keys that are gone, and of earlier runs in a history, are of no row of the cube: they are
    let alone, where the sink keeps such lines.

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
    """
    with masking(database), database.connect() as connection:
        session = LoadSession(connection, dialect_of(database.kind))
        session.dialect.begin(session)
        load = TableLoad(sink, cube, history, session)
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
        yield from _lost(load)
        keeps_others = sink.write == "append" or sink.deletes != "remove"
        if not keeps_others:
            yield from _added(load, n_staged)


def _names(load: TableLoad) -> set[str]:
    """The columns of the table, as the schema names them."""
    there = {load.dialect.as_name(name) for name in load.found}
    return {name for name in load.schema.names if load.dialect.as_name(name) in there}


def _lost(load: TableLoad) -> Iterator[str]:
    """Lines of the cube that are not in the table as they were loaded."""
    for key in _keys_without(load, _staged_lines(load), _table_lines(load)):
        yield f"{key}: its line is not there as it was loaded"


def _added(load: TableLoad, n_staged: int) -> Iterator[str]:
    """Lines of the table that are none of the cube, and lines that are there twice."""
    for key in _keys_without(load, _table_lines(load), _staged_lines(load)):
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


def _staged_lines(load: TableLoad) -> str:
    chosen = ", ".join(map(load.staged, load.schema.names))
    return f"SELECT {chosen} FROM {load.dialect.quoted(STAGING)} AS s"


def _table_lines(load: TableLoad) -> str:
    run = load.dialect.quoted(RUN_ID)
    names = load.dialect.listed(load.schema.names)
    return f"SELECT {names} FROM {load.table} WHERE {run} IS NOT NULL"
