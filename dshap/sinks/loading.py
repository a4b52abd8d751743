"""Loading a cube into a table of a database: staging, then delete and insert, in one transaction.

If the driver appends to the table as INSERT would (`Dialect.appends`), only the keys are staged,
and the lines are appended to the table directly: they are written once, in half the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial

from dshap.core.errors import DatabaseError, LockedError
from dshap.core.late import pa
from dshap.core.records import BoolArray
from dshap.cube.blocks import CubeArrays
from dshap.sinks.checks import refuse_other_columns
from dshap.sinks.cube_words import column_comments
from dshap.sinks.dialects import Dialect, LoadSession, Place, dialect_of
from dshap.sinks.earlier_tables import TableUpgrade, sql_types
from dshap.sinks.ledger import (
    OWN_NAMES,
    Ledger,
    LoadLine,
    is_loaded,
    refuse_later_run,
)
from dshap.sinks.making import comment, comment_view, finish_table, make_table, make_view
from dshap.sinks.nul import NulTexts, without_nul
from dshap.sinks.records import (
    WITHOUT_DAY,
    CubeFacts,
    RowHistory,
    RunDay,
    Sink,
    SinkResult,
    all_rows_in_words,
)
from dshap.sinks.shapes import batches_of, key_batches_of
from dshap.sinks.table_columns import DELETED, RUN_ID, key_columns, key_schema, table_schema
from dshap.sinks.targets import refuse_view
from dshap.warehouse.databases import Database, masking

STAGING = f"{OWN_NAMES}staging"
GONE_KEYS = f"{OWN_NAMES}gone_keys"
GONE = f"{OWN_NAMES}gone"
"""The temporary tables of a load: tonight's lines or their keys alone, keys that are in the cube
no more by the history, and those of them that the target has."""


@dataclass(frozen=True)
class LoadChoice:
    """Which rows of the cube a load writes, and which keys are no longer in the cube."""

    chosen: BoolArray | None = None
    """The rows (n,); all if None."""
    gone: Iterator[pa.RecordBatch] | None = None
    """The keys that are no longer in the cube, which can be read once; None: all keys of the target
    that are not in the cube."""
    since: str = ""
    """The run since which the chosen rows changed."""
    reason: str = ""
    """Why all rows are written although only changed rows were asked for."""


def rows_to_load(
    sink: Sink, history: RowHistory, last: LoadLine | None, is_empty: bool, alteration: str = ""
) -> LoadChoice:
    """Choose the rows that changed since the sink's last load if this is known, else all rows.

    `alteration` describes how the table differs from the result of the last load; empty if it
    does not.
    """
    if sink.rows == "all":
        return LoadChoice(reason=alteration)
    # from here on: reasons why lines of the last load are missing, unknown or out of date
    if last is None:
        return LoadChoice(reason="_dshap_runs lists no earlier load of this job")
    if is_empty:
        return LoadChoice(reason="the table is empty")
    if alteration:
        return LoadChoice(reason=alteration)
    if last.method != history.method:
        return LoadChoice(reason=f"run {last.run_id} was loaded with another method")
    if last.model_version not in (None, sink.model_version):
        return LoadChoice(
            reason=f"run {last.run_id} was loaded with version {last.model_version!r} of the model"
        )
    if last.form != sink.form:
        return LoadChoice(reason=f"run {last.run_id} was loaded in the form {last.form}")
    chosen = history.changed_since(last.run_id, last.method)
    gone = history.deleted_since(last.run_id, last.method)
    if chosen is None or gone is None:
        return LoadChoice(reason=f"what changed since run {last.run_id} is not known any more")
    if chosen.all():  # None takes the faster way of a load of all rows in `delete_lines`
        chosen = None
    return LoadChoice(chosen, gone, last.run_id)


def _no_line(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of these columns without lines."""
    return pa.record_batch([pa.array([], each.type) for each in schema], schema=schema)


@dataclass
class TableLoad:
    """One load into a table of a database, step by step."""

    sink: Sink
    cube: CubeArrays
    history: RowHistory
    session: LoadSession
    day: RunDay = WITHOUT_DAY
    found: dict[str, str] = field(default_factory=dict)
    """Column -> type of the target, empty until it is there."""
    before: LoadLine | None = None
    """The line of the load that was made last when this one began; None before the first."""
    remark: str = ""
    """A remark on the view of texts, for people; empty for none."""

    @cached_property
    def nul(self) -> NulTexts:
        """The lines whose texts contain a NUL character."""
        return NulTexts(self.sink, self.keys)

    @cached_property
    def facts(self) -> CubeFacts:
        return CubeFacts.of_cube(self.cube)

    @property
    def dialect(self) -> Dialect:
        return self.session.dialect

    @property
    def target(self) -> Place:
        return Place(self.sink.schema, self.sink.table)

    @property
    def table(self) -> str:
        """The target as SQL writes it."""
        return self.dialect.place(self.target)

    @cached_property
    def schema(self) -> pa.Schema:
        """The names and Arrow types of the columns that are written."""
        return table_schema(self.sink.lines, self.facts)

    @cached_property
    def is_appended(self) -> bool:
        """Whether the driver appends the lines straight to the target, which is there."""
        return self.dialect.appends(self.session, self.target, self.schema, self.found)

    @cached_property
    def keys(self) -> list[str]:
        """The key columns of the target."""
        return list(key_columns(self.sink.lines, self.facts).values())

    def staged(self, name: str) -> str:
        """A column of the staging table `s`, as a value of the target's type."""
        types = {self.dialect.as_name(each): sql_type for each, sql_type in self.found.items()}
        return self.dialect.converted(name, types[self.dialect.as_name(name)])

    def among(self, names: Sequence[str], staging: str, *, is_typed: bool) -> str:
        """The condition that columns of the target are among those of a temporary table `s`.

        `is_typed`: the temporary table was made from the target.
        """
        columns = self.dialect.listed(names)
        if len(names) > 1:
            columns = f"({columns})"
        if is_typed:
            chosen = self.dialect.listed(names)
        else:
            chosen = ", ".join(map(self.staged, names))
        return f"{columns} IN (SELECT {chosen} FROM {self.dialect.quoted(staging)} AS s)"


def load_table(
    sink: Sink,
    database: Database,
    cube: CubeArrays,
    history: RowHistory,
    job: str,
    say: Callable[[str], None],
    day: RunDay = WITHOUT_DAY,
) -> SinkResult:
    """Load a cube into a table, in one transaction with its line in `_dshap_runs`.

    Raises
    ------
    InputError
        The table has another shape, or another job loads it.
    DatabaseError
        The database refuses; nothing of the load is in it.
    """
    with masking(database), database.connect() as connection:
        session = LoadSession(connection, dialect_of(database.kind))
        # first, so that all that is read of the table below is of one transaction
        session.dialect.begin(session)
        load = TableLoad(sink, cube, history, session, day)
        load.found = session.columns(load.target)
        ledger = Ledger(session, load.target)
        last = ledger.last(sink, job)
        line = last
        if day.is_backfill:
            line = ledger.of_run(sink, job, history.run_id)
        else:
            refuse_later_run(sink, last, history.run_id)
        refuse_view(sink, session)
        refuse_shape(load, is_known=last is not None)
        load.before = ledger.newest(sink, job)
        upgraded = upgrade(load)
        if upgraded:
            say(f"{sink}: {upgraded}")
        # an upgrade alters the table too: then all rows are written, whichever changed
        alteration = upgraded or alteration_of(load, load.before)
        is_whole = not (is_empty(load) or alteration)
        is_same = line is not None and line.model_version in (None, sink.model_version)
        if is_loaded(line, day.form(sink), history) and is_same and is_whole:
            return SinkResult(reason="this run was loaded before", already=True)
        choice = rows_to_load(sink, history, last, is_empty(load), alteration)
        say(f"{sink}: loading into {database.describe()}: {_what(choice)}")
        result = _written(load, ledger, choice, job)
        commit(load)
        for remark in filter(None, (result.escaped, load.remark)):
            say(f"warning: {sink}: {remark}")
        return result


def _what(choice: LoadChoice) -> str:
    if choice.since:
        return f"the rows that changed since run {choice.since}"
    return all_rows_in_words(choice.reason)


def _written(load: TableLoad, ledger: Ledger, choice: LoadChoice, job: str) -> SinkResult:
    """Put the chosen rows into the target, with the line of the load in its ledger; no commit."""
    n_deleted = 0
    if load.found:
        # before the lock: reading the cube takes longest, and other loads need not wait for it
        n_staged = stage(load, choice)
        take_turn(load, ledger, job)
        # before the gone keys are noted: marks of this run, from an earlier attempt, must not
        # count as known
        delete_own_lines(load)
        n_deleted = note_gone(load, choice)
        delete_lines(load, choice)
        n_lines = insert_lines(load, choice, n_staged)
    else:
        n_lines = make_target(load)
        take_turn(load, ledger, job)
        finish_table(load.session, load.target, load.sink, load.facts)
    labels = column_comments(load.cube.path)
    comment(load.session, load.target, load.sink, load.facts, labels)
    ledger.comment()
    if load.sink.has_view:
        load.remark = make_view(load.session, load.target, load.sink, load.facts)
        if not load.remark:
            comment_view(load.session, load.target, load.sink, load.facts, labels)
    n_rows = load.cube.n_rows
    if choice.chosen is not None:
        n_rows = int(choice.chosen.sum())
    ledger.add(
        LoadLine(
            job,
            load.sink.explain,
            load.sink.table,
            load.history.run_id,
            load.history.method,
            load.day.form(load.sink),
            n_rows,
            n_lines,
            n_deleted,
            datetime.now(UTC),
            load.cube.scale,
            load.day.written,
            count_lines(load),
            **load.day.about.columns(load.sink.model_version),
        )
    )
    return SinkResult(
        n_rows,
        n_lines,
        n_deleted,
        since=choice.since,
        reason=choice.reason,
        escaped=load.nul.escaped,
    )


def take_turn(load: TableLoad, ledger: Ledger, job: str) -> None:
    """Wait for other loads to end, and raise an error if one has changed the table meanwhile.

    Raises
    ------
    InputError
        A different job has loaded this table.
    LockedError
        A different process has loaded it for this job, for example while this one was stopped: the
        chosen rows may be older than those in the table.
    """
    ledger.make()
    load.dialect.lock(load.session, ledger.place)
    now = ledger.newest(load.sink, job)
    if now is not None and now != load.before:
        raise LockedError(
            f"{load.sink}: run {now.run_id} was loaded by another process while run "
            f"{load.history.run_id} was being loaded: run the same command again"
        )


def refuse_shape(load: TableLoad, *, is_known: bool) -> None:
    """Raise an `InputError` if the target is there with columns that do not fit."""
    if load.found:
        refuse_other_columns(load.sink, load.facts, load.found, load.dialect, load.table, is_known)


def upgrade(load: TableLoad) -> str:
    """Bring a table of an earlier version up to date; return the changes in words, or ""."""
    types = sql_types(load.schema, load.dialect)
    found = TableUpgrade.of(load.found, load.schema, load.dialect)
    found.carry_out(load.session, load.table, types)
    load.found = found.columns(load.found, types)
    return str(found)


def is_empty(load: TableLoad) -> bool:
    """Whether the target has no line, or is not there."""
    return not load.found or not load.session.rows(f"SELECT 1 FROM {load.table} LIMIT 1")


def count_lines(load: TableLoad) -> int:
    """The number of lines of dshap in the target; lines without a run were written by the user."""
    run = load.dialect.quoted(RUN_ID)
    # COUNT of a column leaves out null, and lines of the user have no run
    ((n_lines,),) = load.session.rows(f"SELECT COUNT({run}) FROM {load.table}")
    return int(n_lines)


def alteration_of(load: TableLoad, last: LoadLine | None) -> str:
    """Compare the number of lines with that of the last load; return a difference in words, or "".

    Loads of earlier versions did not count the lines.
    """
    if last is None or last.n_table_lines is None or not load.found:
        return ""
    n_lines = count_lines(load)
    if n_lines == last.n_table_lines:
        return ""
    return (
        f"the table has {n_lines:,} lines of dshap, and run {last.run_id} left "
        f"{last.n_table_lines:,}"
    )


class CountedStream:
    """A stream of batches whose lines are counted as a database reads them."""

    def __init__(self, sink: Sink, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.n_lines = 0
        self._is_read = False
        self._failure: BaseException | None = None
        self._sink = sink
        self._schema = schema
        self._batches = batches

    @classmethod
    def of_lines(cls, load: TableLoad, chosen: BoolArray | None = None) -> CountedStream:
        """The lines of the chosen rows."""
        batches = batches_of(load.sink, load.cube.path, load.history, chosen, as_of=load.day.as_of)
        sent = map(load.dialect.sent, load.nul.cleaned(batches))
        return cls(load.sink, load.dialect.sent(_no_line(load.schema)).schema, sent)

    @classmethod
    def of_keys(cls, load: TableLoad, chosen: BoolArray | None) -> CountedStream:
        """The keys of the chosen rows."""
        batches = key_batches_of(load.sink, load.cube.path, load.history, chosen)
        escaped = NulTexts(load.sink, load.keys).cleaned(batches)
        return cls(load.sink, key_schema(load.sink, load.facts), escaped)

    @classmethod
    def of_gone(cls, load: TableLoad, gone: Iterator[pa.RecordBatch]) -> CountedStream:
        """The keys that are gone, under the names and types of the target."""
        names = key_columns(load.sink.lines, load.facts)
        schema = pa.schema([load.schema.field(name) for name in names.values()])

        def named(batch: pa.RecordBatch) -> pa.RecordBatch:
            columns = [without_nul(batch[name]) for name in names]
            return pa.record_batch(columns, names=schema.names).cast(schema)

        return cls(load.sink, schema, map(named, gone))

    def into(self, take: Callable[[pa.RecordBatchReader], int]) -> int:
        """Send the stream to a database, which returns how many lines it accepted; count them.

        Raises
        ------
        DatabaseError
            The database accepted fewer lines than were sent.
        BaseException
            An error while the cube was read, unchanged: some drivers replace its message, and the
            driver of DuckDB treats it as the end of the stream.
        """
        try:
            taken = take(pa.RecordBatchReader.from_batches(self._schema, self._counted()))
        finally:
            # the driver raises in its own words for a stream that failed: the error of the stream
            # says more
            if self._failure is not None:
                raise self._failure from None
        if not self._is_read:
            raise DatabaseError(f"{self._sink}: the database did not take all lines")
        if taken not in (-1, self.n_lines):  # −1: the driver does not count
            raise DatabaseError(
                f"{self._sink}: the database took {taken:,} of {self.n_lines:,} lines"
            )
        return self.n_lines

    def _counted(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches:
                self.n_lines += batch.num_rows
                yield batch
        except GeneratorExit:  # the driver wants no more
            raise
        except BaseException as error:  # an interrupt too
            self._failure = error
            raise
        self._is_read = True


def stage(load: TableLoad, choice: LoadChoice) -> int:
    """Stream the chosen rows, and the keys that are gone, into temporary tables; count the lines.

    If the lines are appended later, only the keys of the rows are staged.
    """
    if load.is_appended:
        stream = CountedStream.of_keys(load, choice.chosen)
    else:
        stream = CountedStream.of_lines(load, choice.chosen)
    n_lines = stream.into(partial(load.session.stage, STAGING))
    if choice.gone is not None:
        CountedStream.of_gone(load, choice.gone).into(partial(load.session.stage, GONE_KEYS))
    load.dialect.prepare_staging(load.session, STAGING, load.keys)
    return n_lines


def make_target(load: TableLoad) -> int:
    """Make the target, which is missing, with all rows; count the lines."""
    make_table(load.session, load.target, load.sink, load.facts)
    load.found = load.session.columns(load.target)
    if load.is_appended:
        return CountedStream.of_lines(load).into(partial(load.session.append, load.target))
    n_lines = CountedStream.of_lines(load).into(partial(load.session.stage, STAGING))
    _insert_staged(load)
    return n_lines


def delete_own_lines(load: TableLoad) -> None:
    """Delete the lines that an earlier load of the same run left in a history, marks of keys too.

    Keys that only this run has marked then count as not marked, and are marked again.
    """
    if load.sink.write == "append":
        own = f"{load.dialect.quoted(RUN_ID)} = {load.dialect.parameters(1)[0]}"
        load.session.run(f"DELETE FROM {load.table} WHERE {own}", load.history.run_id)


def note_gone(load: TableLoad, choice: LoadChoice) -> int:
    """Write the keys of the target that are no longer in the cube to a temporary table; count them.

    Lines without a run were written by the user, and stay.  With deletes = "mark", keys that are
    marked already are left out.
    """
    if load.sink.deletes == "keep":
        return 0
    session = load.session
    dialect = session.dialect
    keys = dialect.listed(load.keys)
    if choice.gone is None:
        equal = [f"{load.staged(name)} = t.{dialect.quoted(name)}" for name in load.keys]
        which = (
            f"NOT EXISTS (SELECT 1 FROM {dialect.quoted(STAGING)} AS s WHERE {' AND '.join(equal)})"
        )
    else:
        which = load.among(load.keys, GONE_KEYS, is_typed=False)
    run = dialect.quoted(RUN_ID)
    marked = f"MAX(CASE WHEN {dialect.quoted('status')} = '{DELETED}' THEN {run} END)"
    having = ""
    # in a history a marked key may have come back: then its newest run is later than the mark
    if load.sink.deletes == "mark":
        having = f" HAVING {marked} IS NULL OR {marked} < MAX({run})"
    session.run(
        f"CREATE TEMPORARY TABLE {dialect.quoted(GONE)} AS SELECT {keys}, MAX({run}) AS {run} "
        f"FROM {load.table} AS t WHERE {run} IS NOT NULL AND {which} GROUP BY {keys}{having}"
    )
    ((n_gone,),) = session.rows(f"SELECT COUNT(*) FROM {dialect.quoted(GONE)}")
    return int(n_gone)


def delete_lines(load: TableLoad, choice: LoadChoice) -> None:
    """Delete lines replaced by staged lines, and remove or mark the lines of keys that are gone."""
    keeps_none = choice.chosen is None and load.sink.deletes == "remove"
    is_renewed = keeps_none and load.sink.write == "delete_insert"
    if load.sink.write == "replace" or (is_renewed and not has_lines_of_user(load)):
        # SQLite frees whole pages if no condition is given: a quarter of the time of a load
        load.session.run(f"DELETE FROM {load.table}")
        return
    if is_renewed:
        run = load.dialect.quoted(RUN_ID)
        load.session.run(f"DELETE FROM {load.table} WHERE {run} IS NOT NULL")
    elif load.sink.deletes == "remove":
        gone = load.among(load.keys, GONE, is_typed=True)
        load.session.run(f"DELETE FROM {load.table} WHERE {gone}")
    names = load.keys
    if load.sink.write == "append":
        names = [*load.keys, RUN_ID]
    replaced = load.among(names, STAGING, is_typed=False)
    load.session.run(f"DELETE FROM {load.table} WHERE {replaced}")
    if load.sink.deletes == "mark":
        mark_gone(load)


def has_lines_of_user(load: TableLoad) -> bool:
    """Whether the target has lines that no run has written."""
    run = load.dialect.quoted(RUN_ID)
    return bool(load.session.rows(f"SELECT 1 FROM {load.table} WHERE {run} IS NULL LIMIT 1"))


def mark_gone(load: TableLoad) -> None:
    """Mark the keys that are gone: their lines, or in a history a copy of their last lines."""
    dialect = load.dialect
    status = dialect.quoted("status")
    run = dialect.quoted(RUN_ID)
    (mark,) = dialect.parameters(1)
    names = [*load.keys, RUN_ID]
    which = load.among(names, GONE, is_typed=True)
    if load.sink.write == "append":
        changed = {"status": f"'{DELETED}'", RUN_ID: mark}
        values = [changed.get(name, dialect.quoted(name)) for name in load.schema.names]
        load.session.run(
            f"INSERT INTO {load.table} ({dialect.listed(load.schema.names)}) SELECT "
            f"{', '.join(values)} FROM {load.table} WHERE {which}",
            load.history.run_id,
        )
    else:
        load.session.run(
            f"UPDATE {load.table} SET {status} = '{DELETED}', {run} = {mark} WHERE {which}",
            load.history.run_id,
        )


def insert_lines(load: TableLoad, choice: LoadChoice, n_staged: int) -> int:
    """Insert the lines of the chosen rows, from the cube or from the staging table; count them."""
    if load.is_appended:
        stream = CountedStream.of_lines(load, choice.chosen)
        return stream.into(partial(load.session.append, load.target))
    _insert_staged(load)
    return n_staged


def _insert_staged(load: TableLoad) -> None:
    """Insert the staged lines, converted to the target's types."""
    names = load.schema.names
    chosen = ", ".join(map(load.staged, names))
    load.session.run(
        f"INSERT INTO {load.table} ({load.dialect.listed(names)}) SELECT {chosen} FROM "
        f"{load.dialect.quoted(STAGING)} AS s"
    )


def commit(load: TableLoad) -> None:
    """End the transaction: the table and its line in `_dshap_runs` change at once."""
    load.session.connection.commit()
