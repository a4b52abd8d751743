"""Statements that make a table with its keys and comments, and the view of texts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from dshap.core.errors import InputError
from dshap.core.late import pa
from dshap.sinks.dialects import LoadSession, Place
from dshap.sinks.earlier_tables import sql_types
from dshap.sinks.line_forms import text_columns
from dshap.sinks.records import CubeFacts, Sink
from dshap.sinks.table_columns import (
    CLASS,
    REASON_TEXT,
    RUN_ID,
    comments_of,
    filled_columns,
    key_columns,
    primary_key,
    table_schema,
)

VIEW = "_text"
"""The end of the name of the view with the reasons of a row in one line."""


def make_table(session: LoadSession, place: Place, sink: Sink, facts: CubeFacts) -> None:
    """Make the table of a sink, without lines, and without a key that is made after the lines."""
    dialect = session.dialect
    schema = table_schema(sink.lines, facts)
    has_key = sink.primary_key and dialect.has_keys
    filled = filled_columns(sink, facts) if has_key else ()
    columns = [
        f"{dialect.quoted(name)} {sql_type}{' NOT NULL' * (name in filled)}"
        for name, sql_type in sql_types(schema, dialect).items()
    ]
    if has_key and not dialect.keys_come_last:
        columns.append(f"PRIMARY KEY ({dialect.listed(primary_key(sink, facts))})")
    session.run(f"CREATE TABLE {dialect.place(place)} ({', '.join(columns)})")


def finish_table(session: LoadSession, place: Place, sink: Sink, facts: CubeFacts) -> None:
    """Make the primary key of a table that was just filled, or an index if it gets no key."""
    dialect = session.dialect
    if not (sink.primary_key and dialect.has_keys):
        # A name made of the table's could be longer than the database allows.
        digest = hashlib.blake2b(dialect.place(place).encode(), digest_size=6).hexdigest()
        keys = list(key_columns(sink.lines, facts).values())
        dialect.make_index(session, place, f"_dshap_{digest}", keys)
    elif dialect.keys_come_last:
        keys = primary_key(sink, facts)
        session.run(f"ALTER TABLE {dialect.place(place)} ADD PRIMARY KEY ({dialect.listed(keys)})")


def comment(
    session: LoadSession, place: Place, sink: Sink, facts: CubeFacts, labels: Mapping[str, str]
) -> None:
    """Write the comments on the table and its columns, where this role may write comments.

    `labels` describe columns of the model.
    """
    about = f"dshap: explanation {sink.explain}, {sink.shape}; each load is a line of _dshap_runs"
    write_comments(session, place, about, comments_of(sink.lines, facts, labels))


def write_comments(
    session: LoadSession, place: Place, about: str, columns: Mapping[str, str]
) -> None:
    """Write comments on a table and its columns, where this role may write them."""
    dialect = session.dialect
    if dialect.may_comment(session, place):
        session.run(f"COMMENT ON TABLE {dialect.place(place)} IS {_literal(about)}")
        _comment_columns(session, place, columns)


def _comment_columns(session: LoadSession, place: Place, columns: Mapping[str, str]) -> None:
    dialect = session.dialect
    table = dialect.place(place)
    for name, text in columns.items():
        session.run(f"COMMENT ON COLUMN {table}.{dialect.quoted(name)} IS {_literal(text)}")


def comment_view(
    session: LoadSession, place: Place, sink: Sink, facts: CubeFacts, labels: Mapping[str, str]
) -> None:
    """Write the comments on the view of a table and its columns, where this role may write them."""
    dialect = session.dialect
    view = place.beside(f"{place.table}{VIEW}")
    if not dialect.may_comment(session, view):
        return
    about = f"dshap: the reasons of each row in one line, of explanation {sink.explain}"
    session.run(f"COMMENT ON VIEW {dialect.place(view)} IS {_literal(about)}")
    of_table = comments_of(sink.lines, facts, labels)
    columns = {name: of_table[name] for name in (*_row_columns(sink, facts), *_OF_ROW)}
    for name in _texts(sink, table_schema(sink.lines, facts)):
        columns[name] = "the reasons of the row, strongest first"
        if name in of_table:
            columns[name] = f"the texts of the row's codes ({name}), strongest first"
    _comment_columns(session, view, columns)


def make_view(session: LoadSession, place: Place, sink: Sink, facts: CubeFacts) -> str:
    """Make the view TABLE_text: a line for each key, with its reasons in the order of their ranks.

    A view that has the query already stays as it is, with the rights that readers have on it.

    Returns
    -------
    str
        A remark if this role may not replace a view of a different form; empty for none.

    Raises
    ------
    InputError
        The name belongs to a table that is no view.
    """
    dialect = session.dialect
    view = place.beside(f"{place.table}{VIEW}")
    there = dialect.relation(session, view)
    if there is not None and not there.is_view:
        raise InputError(
            f"{sink}: text = true makes the view {dialect.place(view)}, and a table has this name: "
            "rename it, or leave text out"
        )
    columns = [dialect.quoted(name) for name in _row_columns(sink, facts)]
    chosen = [f"t.{column}" for column in columns]
    chosen += [f"MAX(t.{dialect.quoted(each)}) AS {dialect.quoted(each)}" for each in _OF_ROW]
    schema = table_schema(sink.lines, facts)
    for name, line in _texts(sink, schema).items():
        # rank 0 is the line of a row without reasons
        numbered = f"CASE WHEN t.rank > 0 THEN CAST(t.rank AS {dialect.text}) || '. ' || {line} END"
        chosen.append(f"{dialect.joined(numbered, 't.rank')} AS {dialect.quoted(name)}")
    query = (
        f"SELECT {', '.join(chosen)} FROM {dialect.place(place)} AS t "
        f"GROUP BY {', '.join(f't.{column}' for column in columns)}"
    )
    if there is None:
        dialect.make_view(session, view, query, is_there=False)
    elif not dialect.is_view_of(session, view, query):
        if not dialect.may_replace(session, view):
            return (
                f"the view {dialect.place(view)} is not as this load would make it, and this role may "
                "not replace it: let its owner load once, or drop it, and the next load makes it: "
                f"DROP VIEW {dialect.place(view)}"
            )
        dialect.make_view(session, view, query, is_there=True)
    return ""


def _row_columns(sink: Sink, facts: CubeFacts) -> list[str]:
    """The columns that name one line of the view."""
    names = [*key_columns(sink.lines, facts).values(), CLASS]
    if sink.write == "append":
        names.append(RUN_ID)
    return names


_OF_ROW = ("prediction", "status")
"""Columns that all lines of a row have in common."""


def _texts(sink: Sink, schema: pa.Schema) -> dict[str, str]:
    """Column of the view -> the text of a line in SQL."""
    of_codes = list(text_columns(sink.lines))
    if of_codes:
        return {name: f"t.{name}" for name in of_codes}
    if REASON_TEXT in schema.names:
        return {"reasons": f"t.{REASON_TEXT}"}
    sign = "CASE WHEN t.attribution > 0 THEN ' (+)' ELSE ' (-)' END"
    return {"reasons": f"t.feature || ' = ' || COALESCE(t.value, 'missing') || {sign}"}


def _literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''").replace("\0", " ") + "'"


def view_names(names: Sequence[str]) -> list[str]:
    """The names of the views of tables of these names."""
    return [f"{name}{VIEW}" for name in names]
