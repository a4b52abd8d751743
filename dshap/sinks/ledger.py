"""The table `_dshap_runs` in the schema of a sink's table: one line for each load.

The line is written in the transaction of the load, so that it exists exactly if the load does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime

from dshap.core.errors import InputError
from dshap.core.late import pa
from dshap.sinks.dialects import LoadSession, Place
from dshap.sinks.making import VIEW, write_comments
from dshap.sinks.records import BACKFILL, RowHistory, Sink
from dshap.sinks.table_columns import MOMENT

OWN_NAMES = "_dshap_"
"""The first letters of the names of dshap's own tables, which no sink may use."""
LEDGER = f"{OWN_NAMES}runs"
TYPES: Mapping[str, pa.DataType] = {
    "int": pa.int64(),
    "int | None": pa.int64(),
    "str": pa.string(),
    "str | None": pa.string(),
    "datetime": MOMENT,
}
"""Type of a field of `LoadLine` -> the Arrow type of its column."""


@dataclass(frozen=True)
class LoadLine:
    """A line of `_dshap_runs`: one finished load."""

    job: str
    explain: str
    table_name: str
    run_id: str
    method: str
    form: str
    """The form of the lines: `Sink.form`."""
    n_rows: int
    n_lines: int
    n_deleted: int
    loaded_at: datetime
    """The time of the load; in a table of an earlier version in UTC, without a zone."""
    scale: str | None = None
    """The scale of the attributions, such as "log-odds"; None in a line of an earlier version."""
    as_of: str | None = None
    """The date of the run, as in 2026-11-27; None in a line of an earlier version."""
    n_table_lines: int | None = None
    """The lines of dshap in the whole table after the load; None in a line of an earlier version."""
    model: str | None = None
    """The model in words; None, as each field below, in a line of an earlier version."""
    model_version: str | None = None
    """The version of the model, or else the digest of the method."""
    library: str | None = None
    """The versions of dshap and of the library of the model."""
    checks: str | None = None
    """The checks of the run before the load, and how they ended."""


ABOUT = "dshap: one line for each load of a run into a table of this schema"
"""The comment on the table."""
COMMENTS: Mapping[str, str] = {
    "job": "the name of the job",
    "explain": "the explanation of the job that was loaded",
    "table_name": "the table that was loaded",
    "run_id": "the run, as in the column run_id of that table",
    "method": "the digest of the method that explained the rows",
    "form": "the options of the sink that define the lines of the table",
    "n_rows": "the explained rows that this load wrote",
    "n_lines": "the lines that this load wrote",
    "n_deleted": "the keys whose lines this load removed, or marked as deleted",
    "loaded_at": "the time of the load",
    "scale": "the scale of the attributions",
    "as_of": "the date of the run",
    "n_table_lines": "the lines of dshap in the table after this load",
    "model": "the model in words",
    "model_version": "the version of the model, or else the digest of the method",
    "library": "the versions of dshap and of the library of the model",
    "checks": "the checks before this load, and their results",
}
"""Column -> the comment on it."""
COLUMNS = tuple(each.name for each in fields(LoadLine))
ADDED = (
    "scale",
    "as_of",
    "n_table_lines",
    "model",
    "model_version",
    "library",
    "checks",
)
"""The columns that a table of an earlier version lacks; the next load adds them."""


@dataclass(frozen=True)
class Ledger:
    """The table `_dshap_runs` in the schema of a sink's table."""

    session: LoadSession
    target: Place

    @property
    def place(self) -> Place:
        return self.target.beside(LEDGER)

    @property
    def table(self) -> str:
        """The table as SQL writes it."""
        return self.session.dialect.place(self.place)

    def exists(self) -> bool:
        """Whether the table is there.

        Raises
        ------
        InputError
            A table of this name has other columns.
        """
        found = set(self.session.columns(self.place))
        if found and not set(COLUMNS) - set(ADDED) <= found <= set(COLUMNS):
            raise InputError(
                f"the table {self.table} has the columns {', '.join(sorted(found))}, and dshap keeps its "
                f"loads in a table of this name with {', '.join(COLUMNS)}: rename it"
            )
        return bool(found)

    def make(self) -> None:
        """Make the table if there is none, and the columns that an older one lacks."""
        dialect = self.session.dialect
        types = {
            each.name: f"{each.name} {dialect.types[TYPES[str(each.type)]]}"
            for each in fields(LoadLine)
        }
        if not self.exists():  # PostgreSQL asks for the right to make it even if it is there
            columns = ", ".join(types.values())
            self.session.run(f"CREATE TABLE IF NOT EXISTS {self.table} ({columns})")
        for name in self.lacking():
            self.session.run(f"ALTER TABLE {self.table} ADD COLUMN {types[name]}")

    def comment(self) -> None:
        """Write the comments on the table and its columns, where this role may write them."""
        write_comments(self.session, self.place, ABOUT, COMMENTS)

    def lacking(self) -> list[str]:
        """The columns that a table of an earlier version lacks."""
        found = self.session.columns(self.place)
        return [name for name in COLUMNS if name not in found]

    def last(self, sink: Sink, job: str) -> LoadLine | None:
        """The line of the latest run that was loaded into the sink's table; None before the first.

        Backfills count as earlier than all other runs.

        Raises
        ------
        InputError
            Another job, or another explanation, was loaded into this table.
        """
        return max(self._lines(sink, job), key=_place_of, default=None)

    def newest(self, sink: Sink, job: str) -> LoadLine | None:
        """The line of the load that was made last, of a backfill or not; None before the first."""
        return max(self._lines(sink, job), key=lambda line: line.loaded_at, default=None)

    def of_run(self, sink: Sink, job: str, run_id: str) -> LoadLine | None:
        """The line of a run that was loaded into the sink's table; None if it was not.

        Raises
        ------
        InputError
            Another job, or another explanation, was loaded into this table.
        """
        found = [line for line in self._lines(sink, job) if line.run_id == run_id]
        return max(found, key=_place_of, default=None)

    def _lines(self, sink: Sink, job: str) -> list[LoadLine]:
        """The lines of all loads into the sink's table; none if there is no ledger."""
        if not self.exists():
            return []
        dialect = self.session.dialect
        (mark,) = dialect.parameters(1)
        lacking = self.lacking()
        columns = [f"NULL AS {name}" if name in lacking else name for name in COLUMNS]
        query = (
            f"SELECT {', '.join(columns)} FROM {self.table} WHERE lower(table_name) = lower({mark})"
        )
        lines = [
            line
            for line in (LoadLine(*each) for each in self.session.rows(query, sink.table))
            # again, by the rules of the dialect, as some names differ only in capital letters
            if dialect.as_name(line.table_name) == dialect.as_name(sink.table)
        ]
        for line in lines:
            if (line.job, line.explain) != (job, sink.explain):
                raise InputError(
                    f"{sink}: job {line.job!r} loads explanation {line.explain!r} into this table, "
                    f"and job {job!r} would load {sink.explain!r}: give another table; or, if that "
                    f"load is not used any more, free the table: {self._freeing(line)}"
                )
        return lines

    def _freeing(self, line: LoadLine) -> str:
        """The statements after which another job may load the table of a line."""
        dialect = self.session.dialect
        name = line.table_name.replace("'", "''")
        place = dialect.place(self.target)
        view = self.target.beside(f"{line.table_name}{VIEW}")
        found = dialect.relation(self.session, view)
        statements = f"DROP TABLE {place}; DELETE FROM {self.table} WHERE table_name = '{name}'"
        if found is not None and found.is_view:
            statements = f"DROP VIEW {dialect.place(view)}; {statements}"
        return statements

    def add(self, line: LoadLine) -> None:
        """Write the line of a load."""
        marks = ", ".join(self.session.dialect.parameters(len(COLUMNS)))
        given = [self.session.dialect.given(getattr(line, name)) for name in COLUMNS]
        self.session.run(
            f"INSERT INTO {self.table} ({', '.join(COLUMNS)}) VALUES ({marks})", *given
        )

    def set_lines(self, line: LoadLine, n_table_lines: int) -> None:
        """Change the number of the table's lines in the line of an earlier load."""
        n, table, run, loaded = self.session.dialect.parameters(4)
        self.session.run(
            f"UPDATE {self.table} SET n_table_lines = {n} WHERE table_name = {table} AND run_id = {run} "
            f"AND loaded_at = {loaded}",
            n_table_lines,
            line.table_name,
            line.run_id,
            line.loaded_at,
        )


def _place_of(line: LoadLine) -> tuple[bool, str, datetime]:
    """The place of a load among others, in the order of time; backfills come first."""
    return not line.form.endswith(BACKFILL), line.run_id, line.loaded_at


def refuse_later_run(sink: Sink, last: LoadLine | None, run_id: str) -> None:
    """Refuse a load of a run that is older than the last one that was loaded.

    Raises
    ------
    InputError
        A later run was loaded, which is none of this store's.
    """
    if last is not None and last.run_id > run_id:
        raise InputError(
            f"{sink}: run {last.run_id} was loaded, and this one, {run_id}, is earlier: another "
            f"store of job {last.job!r} loads here too, or a clock was wrong; give another place, "
            f"or, if that load is not used any more, delete the line of run_id {last.run_id} in {LEDGER}"
        )


def is_loaded(line: LoadLine | None, form: str, history: RowHistory) -> bool:
    """Whether a load was of this run, in the form that its lines have now."""
    return (
        line is not None
        and (line.run_id, line.method) == (history.run_id, history.method)
        and line.form == form
    )
