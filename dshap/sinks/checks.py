"""The checks of a sink: before anything is read, and against the table that is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dshap.core.code_groups import code_members
from dshap.core.errors import InputError
from dshap.core.late import pa
from dshap.sinks.dialects import Dialect, Place, dialect_of
from dshap.sinks.earlier_tables import TableUpgrade, sql_types
from dshap.sinks.ledger import LEDGER, OWN_NAMES
from dshap.sinks.line_forms import is_of_columns
from dshap.sinks.making import view_names
from dshap.sinks.records import CubeFacts, Sink
from dshap.sinks.table_columns import OF_FEATURES, TAIL, primary_key, table_schema

SHOWN = 3
"""The most names that a message shows."""


def check_sink(sink: Sink, facts: CubeFacts) -> None:
    """Check whether a cube can be loaded into a sink, without opening either.

    Parameters
    ----------
    sink : Sink
    facts : CubeFacts
        The facts about the cube, for example from `CubeFacts.of_cube`.

    Raises
    ------
    InputError
        The rows have no key, the cube does not store what the shape of the sink needs, a name is
        too long, or two columns would have the same name.

    Examples
    --------
    >>> from pathlib import Path
    >>> import dshap
    >>> from dshap.sinks import CubeFacts, Sink, check_sink
    >>> sink = Sink("price", path=Path("attributions"), rows="all", write="replace")
    >>> check_sink(sink, CubeFacts({"id": "int64"}, features=("rooms",), outputs=("price",)))
    >>> try:
    ...     check_sink(sink, CubeFacts({}, features=("rooms",), outputs=("price",)))
    ... except dshap.DshapError as error:
    ...     print(str(error).partition(":")[2])
     lines of a table are found by their key, and the rows have none: give [source] key
    """
    if facts.is_of_texts:
        raise InputError(
            f"{sink}: explanations of texts are not loaded into tables yet: leave the sink out"
        )
    if not facts.keys:
        raise InputError(
            f"{sink}: lines of a table are found by their key, and the rows have none: give "
            "[source] key"
        )
    if is_of_columns(sink.shape) and not facts.keeps_columns:
        raise InputError(
            f'{sink}: shape = "{sink.shape}" has the values of the columns, which the cube does '
            'not store: give [run] keep_rows = true, or shape = "wide"'
        )
    try:
        sink.lines.chosen_outputs(facts)
        _check_codes(sink, facts)
    except InputError as error:
        raise InputError(f"{sink}: {error}") from None
    check_order(sink, facts.why_no_order)
    columns = table_schema(sink.lines, facts).names
    sink.check_names(columns)
    _refuse_repeated(sink, columns)


def check_order(sink: Sink, why_no_order: str) -> None:
    """Check that a sink of reasons can state places.

    Parameters
    ----------
    sink : the sink
    why_no_order : see `CubeFacts`

    Raises
    ------
    InputError
        The sink states reasons, and the attributions are estimates without standard errors.
    """
    if sink.codes is not None and why_no_order:
        raise InputError(
            f"{sink}: no place of a reason of explanation {sink.explain!r} would be certain, as its "
            f"attributions are estimates without standard errors: {why_no_order}"
        )


def _check_codes(sink: Sink, facts: CubeFacts) -> None:
    """Check that a cube has the variables for lines of reasons."""
    if sink.codes is None or not facts.features:  # the features are not known yet
        return
    players = sink.codes.players
    code_members(players, facts.features, f"codes: {sink.codes.path}")
    if facts.has_errors and _plain(facts.codes) != _plain(players):
        raise InputError(
            "the cube must have the standard errors of these codes, and it has "
            f"{'others' if facts.codes else 'none'}: explain the rows with codes= (a job does so "
            "without a key), so that places are stated only where they are certain"
        )
    if sink.undo and _plain(facts.undone) != _plain(players):
        raise InputError(
            "undo = true needs the values without each code, which the cube does not have: "
            "explain the rows with codes= and undo_codes=True (a job does so without a key)"
        )


def _plain(codes: Mapping[str, Sequence[str]]) -> list[tuple[str, list[str]]]:
    return [(code, list(players)) for code, players in codes.items()]


def check_names(sink: Sink, kind: str, columns: Sequence[str]) -> None:
    """Check the names of a table, and of its columns, in a database of this kind.

    Raises
    ------
    InputError
        The table is one of dshap's own, or a name is too long.
    """
    dialect = dialect_of(kind)
    if dialect.as_name(sink.table).startswith(OWN_NAMES):
        raise InputError(
            f"{sink}: names that begin with {OWN_NAMES} belong to tables that dshap makes for its "
            "loads: give another table"
        )
    limit = dialect.name_bytes
    if limit is None:
        return
    names = (sink.schema, sink.table, *view_names([sink.table] * sink.has_view), *columns)
    long = [name for name in names if len(name.encode()) > limit]
    if long:
        raise InputError(
            f"{sink}: names of {kind} have at most {limit} bytes, and {_shown(long)} has more "
            f'({len(long[0].encode())}): rename the column, or give shape = "long"'
        )


def _refuse_repeated(sink: Sink, names: Sequence[str]) -> None:
    counts = Counter(map(sink.as_name, names))
    twice = [name for name in names if counts[sink.as_name(name)] > 1]
    if twice:
        raise InputError(
            f"{sink}: the columns {_shown(twice)} have the same name for this database: rename "
            "one, or "
            'give shape = "long"'
        )


class ColumnDifference(NamedTuple):
    """A column of a target that is not as the sink needs it."""

    what: str
    remedy: str
    """The statement that mends it."""
    retyped: str = ""
    """The column, where it has another type; else empty."""


def refuse_other_columns(
    sink: Sink,
    facts: CubeFacts,
    found: Mapping[str, str],
    dialect: Dialect,
    table: str,
    is_known: bool,
) -> None:
    """Check the columns of the target, name -> type, against the columns of the sink.

    `is_known`: the ledger has a load into the table.  Statements that mend a table are
    offered for such tables only: in another one they would alter the data of other users.

    Raises
    ------
    InputError
        The target lacks a column, has one of a type that would change the values, or one of an
        earlier form of the sink, which new lines would leave empty.
    """
    schema = table_schema(sink.lines, facts)
    if is_known:
        found = TableUpgrade.of(found, schema, dialect).columns(found, sql_types(schema, dialect))
    differences = list(_differences(schema, found, dialect, table))
    if differences:
        what = "; ".join(each.what for each in differences[:SHOWN])
        if len(differences) > SHOWN:
            what += f"; and {len(differences) - SHOWN} more"
        if not is_known:
            raise InputError(
                f"{sink}: the table exists with other columns: {what}. No line of {LEDGER} names "
                "it, so that dshap did not make it: give another table"
            )
        raise InputError(
            f"{sink}: the table exists with other columns: {what}. "
            f"{_remedy(sink, facts, differences, dialect, table)}"
        )


def _remedy(
    sink: Sink,
    facts: CubeFacts,
    differences: Sequence[ColumnDifference],
    dialect: Dialect,
    table: str,
) -> str:
    """The remedy for a table of this sink; columns of some primary keys cannot be altered."""
    keys = {dialect.as_name(name) for name in primary_key(sink, facts)}
    has_fixed_key = sink.primary_key and dialect.has_keys and not dialect.keys_come_last
    if has_fixed_key and any(dialect.as_name(each.retyped) in keys for each in differences):
        return (
            "Its primary key cannot be altered. Give another table, or drop it, and the next run "
            f"writes all rows: DROP TABLE {table}"
        )
    statements = dict.fromkeys(each.remedy for each in differences)
    if sink.has_view:  # PostgreSQL alters and drops no column that a view reads
        (view,) = view_names([sink.table])
        dropped = f"DROP VIEW IF EXISTS {dialect.place(Place(sink.schema, view))}"
        statements = {dropped: None, **statements}
    return f"Give another table, drop it, or change it: {'; '.join(statements)}"


def _differences(
    schema: pa.Schema, found: Mapping[str, str], dialect: Dialect, table: str
) -> Iterable[ColumnDifference]:
    there = {dialect.as_name(name): (name, sql_type) for name, sql_type in found.items()}
    for column in schema:
        name = column.name
        sql_type = dialect.types[column.type]
        stands = there.pop(dialect.as_name(name), None)
        if stands is None:
            remedy = f"ALTER TABLE {table} ADD COLUMN {dialect.quoted(name)} {sql_type}"
            yield ColumnDifference(f"it lacks {name!r}", remedy)
        elif not dialect.allows(column.type, stands[1]):
            remedy = dialect.retyped(table, *stands, sql_type)
            yield ColumnDifference(f"{name!r} is {stands[1]}, not {sql_type}", remedy, name)
    for name, _ in there.values():
        # Only columns with the names of dshap's own are refused: others may be somebody else's.
        if name.startswith(("phi_", "std_error_")) or name in (*OF_FEATURES, *TAIL, "rank"):
            remedy = f"ALTER TABLE {table} DROP COLUMN {dialect.quoted(name)}"
            yield ColumnDifference(f"its column {name!r} does not belong to this sink", remedy)


def _shown(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:SHOWN]))
    if len(names) > SHOWN:
        return f"{shown} and {len(names) - SHOWN} more"
    return shown
