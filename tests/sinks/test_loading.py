"""A sink's table is the cube, line by line, after every night, whatever happened before.

The oracle is a plain dictionary of rows a night (`tests/sinks/nights.py`); the tables are read by
SQL, on DuckDB, SQLite and PostgreSQL.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
from dataclasses import replace
from functools import partialmethod
from pathlib import Path

import numpy as np
import pytest

from dshap.core.errors import DatabaseError, InputError, LockedError
from dshap.sinks import CubeFacts, SingleRun, Sink, check_sink, load_sink
from dshap.sinks import loading as steps
from dshap.sinks.dialects import Dialect, LoadSession, Place, dialect_of, family_of
from dshap.sinks.line_forms import LineForm
from dshap.sinks.shapes import batches_of
from dshap.sinks.table_columns import table_schema
from dshap.warehouse.databases import Database
from tests.cube.cubes import KEYS, make_cube
from tests.lanes import every_pair, left_to_systems
from tests.processes import forked
from tests.sinks.killed import killed_load
from tests.sinks.nights import FEATURES, Line, Night, lines_of, ordered, random_nights

FACTS = CubeFacts({"id": "int64", "shop": "string"}, FEATURES, ("y",))
JOB = "shop"
SHAPES = ("wide", "long", "top_k")
LOADS = [
    *itertools.product(("delete_insert", "append"), ("changed", "all"), ("remove", "mark", "keep")),
    ("replace", "all", "remove"),
]
DATABASES = ("duckdb", "sqlite", "postgresql")


@pytest.fixture(
    params=["duckdb", *(pytest.param(kind, marks=pytest.mark.slow) for kind in DATABASES[1:])]
)
def database(request, tmp_path) -> Database:
    """An empty database."""
    return empty_database(request.param, request, tmp_path)


def empty_database(kind: str, request: pytest.FixtureRequest, folder: Path) -> Database:
    if kind != "postgresql":
        return Database(f"{kind}:///{folder}/warehouse.{kind}")
    found: Database = request.getfixturevalue("postgresql").database
    (name,) = run(found, "SELECT 'night_' || count(*) FROM pg_namespace")[0]
    run(found, f'CREATE SCHEMA "{name}"')
    return Database(f"{found.uri}?options=-csearch_path%3D{name}")


@pytest.fixture(scope="module")
def nights(tmp_path_factory) -> dict[int, list[Night]]:
    """Number of outputs -> seven nights."""
    folder = tmp_path_factory.mktemp("nights")
    return {
        1: random_nights(folder, 1, 7, ("y",)),
        2: random_nights(folder, 2, 7, ("no", "yes")),
    }


def run(database: Database, *statements: str) -> list[Line]:
    """Execute statements in one transaction; gives the rows of the last."""
    found: list[Line] = []
    with database.connect() as connection:
        for statement in statements:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                found = cursor.fetchall() if cursor.description else []
        connection.commit()
    return found


def lines_in(sink: Sink, where: str = "status <> 'deleted'") -> list[Line]:
    assert sink.database is not None
    return run(sink.database, f'SELECT * FROM "{sink.table}" WHERE {where}')


def latest(sink: Sink) -> list[Line]:
    """The last lines of each key, as a history has them."""
    table = f'"{sink.table}"'
    return lines_in(
        sink,
        f"status <> 'deleted' AND run_id = (SELECT MAX(run_id) FROM {table} AS m "
        f"WHERE m.id = {table}.id AND m.shop = {table}.shop)",
    )


def keys_of(lines: list[Line]) -> set[Line]:
    return {line[:2] for line in lines}


def expected_with_kept(sink: Sink, done: list[Night]) -> list[Line]:
    """The lines of a table that keeps keys which are gone: their last lines that were loaded."""
    by_key: dict[Line, list[Line]] = {}
    for night in done:
        lines = lines_of(sink, night)
        by_key |= {key: [line for line in lines if line[:2] == key] for key in keys_of(lines)}
    return [line for lines in by_key.values() for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize(("load", "shape", "kind"), every_pair(LOADS, SHAPES, DATABASES), ids=str)
def test_the_table_is_the_cube_after_every_night(
    request, tmp_path, monkeypatch, nights, load, shape, kind
):
    """Random nights, some of which the sink is down; read by SQL, against a plain dictionary.

    Lines are appended by the driver in some nights, and staged and converted in others.
    """
    database = empty_database(kind, request, tmp_path)
    appends = type(dialect_of(kind)).appends
    write, rows, deletes = load
    rng = np.random.default_rng([SHAPES.index(shape), LOADS.index(load)])
    of_outputs = nights[1 + int(rng.integers(2))]
    sink = Sink(
        "reasons", database, table="the o'hara table", shape=shape, k=2,
        rows=rows, write=write, deletes=deletes,
    )  # fmt: skip
    done: list[Night] = []
    for night in of_outputs:
        if rng.random() < 0.3:
            continue
        is_allowed = bool(rng.integers(2))
        asked = appends if is_allowed else Dialect.appends
        monkeypatch.setattr(type(dialect_of(kind)), "appends", asked)
        result = load_sink(sink, night.path, night, JOB)
        done.append(night)
        assert not result.already
        there = latest(sink) if write == "append" else lines_in(sink)
        if deletes == "keep":
            assert ordered(there) == ordered(expected_with_kept(sink, done))
        else:
            assert ordered(there) == ordered(lines_of(sink, night))
        assert load_sink(sink, night.path, night, JOB).already
    gone = {key for night in done for key in night.rows} - done[-1].rows.keys()
    marked = keys_of(lines_in(sink, "status = 'deleted'"))
    if deletes == "mark" and write != "append":
        assert marked == gone
    elif deletes != "mark":
        assert marked == set()
    lines = run(database, "SELECT run_id, n_lines FROM _dshap_runs ORDER BY run_id")
    assert [line[0] for line in lines] == [night.run_id for night in done]


def test_marked_lines_keep_their_values_and_name_the_run_that_marked_them(database, nights):
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t", deletes="mark")
    load_sink(sink, first.path, first, JOB)
    load_sink(sink, second.path, second, JOB)
    before = {line[:2]: line for line in lines_of(sink, first)}
    marked = lines_in(sink, "status = 'deleted'")
    assert keys_of(marked) == first.rows.keys() - second.rows.keys() != set()
    for line in ordered(marked):
        was = before[line[:2]]
        assert line == ordered([(*was[:-5], "deleted", *was[-4:-1], second.run_id)])[0]


def test_a_history_has_each_version_of_a_row_once(database, nights):
    sink = Sink("reasons", database, table="t", write="append", rows="all", deletes="keep")
    for night in nights[1]:
        load_sink(sink, night.path, night, JOB)
    versions = {(*key, row.run_id) for night in nights[1] for key, row in night.rows.items()}
    there = run(database, "SELECT id, shop, run_id FROM t")
    assert len(there) == len(versions)
    assert set(there) == versions


def test_a_history_that_is_loaded_again_keeps_its_marks(database, nights):
    """Its own marks counted as there, and then went with the other lines of the run."""
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t", write="append", deletes="mark")
    for night in (first, second):
        load_sink(sink, night.path, night, JOB)
    before = ordered(lines_in(sink, "1 = 1"))
    assert keys_of(lines_in(sink, "status = 'deleted'")) == first.rows.keys() - second.rows.keys()
    own = f"run_id = '{second.run_id}' AND status <> 'deleted'"
    run(database, f"DELETE FROM t WHERE {own}")
    assert not load_sink(sink, second.path, second, JOB).already
    assert ordered(lines_in(sink, "1 = 1")) == before
    assert load_sink(sink, second.path, second, JOB).already


FIRST = ("make_target", "finish_table")
STEPS = (*FIRST, "stage", "note_gone", "delete_lines", "insert_lines", "commit")


@pytest.mark.parametrize("step", STEPS)
def test_a_load_that_fails_changes_nothing_and_is_finished_by_the_same_call(
    database, nights, monkeypatch, step
):
    sink = Sink("reasons", database, table="t", shape="top_k")
    first, second, *_ = nights[1]
    for before, night in ((None, first), (first, second)):
        with monkeypatch.context() as patch:
            patch.setattr(steps, step, _failing_after(getattr(steps, step)))
            if step == "commit" or (step in FIRST) == (before is None):
                with pytest.raises(OSError, match="stopped"):
                    load_sink(sink, night.path, night, JOB)
        if step == "commit":  # the load was done, and the answer was lost
            assert load_sink(sink, night.path, night, JOB).already
        elif before is not None:
            assert ordered(lines_in(sink)) == ordered(lines_of(sink, before))
        load_sink(sink, night.path, night, JOB)
        assert ordered(lines_in(sink)) == ordered(lines_of(sink, night))


def _failing_after(step):
    def failing(*given):
        step(*given)
        raise OSError("stopped")

    return failing


def test_values_are_converted_to_the_types_of_a_table_that_is_there(database, nights):
    """Whole numbers into doubles; an append of bits would read 1.5e-323 for 3."""
    kinds = "id DOUBLE PRECISION, shop VARCHAR(20), mine INTEGER DEFAULT 7"
    rest = (
        "feature VARCHAR(40), value TEXT, value_number REAL, attribution NUMERIC(12, 6), "
        "std_error DOUBLE PRECISION, rank DOUBLE PRECISION, prediction DOUBLE PRECISION, "
        "base_value DOUBLE PRECISION, scale VARCHAR(40), status VARCHAR(8), "
        f"model_version TEXT, computed_at {MOMENTS[database.kind]}, as_of DATE, "
        'run_id VARCHAR(16), "class" TEXT'
    )
    run(database, f"CREATE TABLE t ({kinds}, {rest})")
    sink = Sink("reasons", database, table="t", shape="top_k", k=1)
    for night in nights[1][:2]:
        load_sink(sink, night.path, night, JOB)
        there = run(database, "SELECT id, shop, rank, attribution + 0.0, mine FROM t")
        wanted = [(line[0], line[1], line[3], line[7]) for line in lines_of(sink, night)]
        assert sorted((line[0], line[1], line[2]) for line in there if line[2]) == sorted(
            (float(line[0]), line[1], float(line[2])) for line in wanted if line[2]
        )
        found = sorted(float(line[3]) for line in there if line[3] is not None)
        assert found == pytest.approx(sorted(line[3] for line in wanted if line[3] is not None))
        assert {line[4] for line in there} == {7}


MOMENTS = {
    "duckdb": "TIMESTAMP WITH TIME ZONE",
    "sqlite": "TEXT",
    "postgresql": "TIMESTAMP WITH TIME ZONE",
}
"""Kind of database -> the type of its times with a zone."""
NEARLY_ALIKE = {
    "of the user's order": "CREATE TABLE t AS SELECT shop, id, {rest} FROM made",
    "with a column more": "CREATE TABLE t AS SELECT *, 7 AS mine FROM made",
    "with whole numbers as doubles": "CREATE TABLE t AS SELECT CAST(id AS DOUBLE PRECISION) AS id, "
    "shop, {rest} FROM made",
}
"""A target that differs a little from the table that a first load makes -> the SQL that makes it."""
APPENDED = {
    "duckdb": [],
    "sqlite": ["of the user's order", "with a column more", "with whole numbers as doubles"],
    "postgresql": ["of the user's order", "with a column more"],
}
"""Kind of database -> those of `NEARLY_ALIKE` that its driver appends to: by name, not position."""


@pytest.mark.parametrize("what", NEARLY_ALIKE)
def test_the_driver_appends_only_where_it_does_as_insert_would(database, nights, monkeypatch, what):
    """Drivers append bits by position or name: int64 3 in a column of doubles reads 1.5e-323."""
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t", rows="all")
    load_sink(replace(sink, table="made"), first.path, first, JOB)
    names = list(_columns_of(database, "made"))
    rest = ", ".join(f'"{name}"' for name in names[2:])
    run(database, NEARLY_ALIKE[what].format(rest=rest), "DROP TABLE _dshap_runs")
    appended = []
    append = LoadSession.append

    def counted(session, place, batches):
        appended.append(place.table)
        return append(session, place, batches)

    monkeypatch.setattr(LoadSession, "append", counted)
    load_sink(sink, second.path, second, JOB)
    assert bool(appended) == (what in APPENDED[database.kind])
    chosen = ", ".join(f'"{name}"' for name in names)
    there = run(database, f"SELECT {chosen} FROM t")
    assert ordered([(int(line[0]), *line[1:]) for line in there]) == ordered(lines_of(sink, second))


def test_a_table_of_another_shape_is_refused_with_the_sql_that_mends_it(database, nights):
    night = nights[1][0]
    wide = Sink("reasons", database, table="t")
    load_sink(wide, night.path, night, JOB)
    there = ordered(lines_in(wide))
    long = replace(wide, shape="long")
    with pytest.raises(InputError, match=r"ALTER TABLE .t. ADD COLUMN .feature. .*DROP COLUMN"):
        load_sink(long, night.path, replace(night, run_id="20261201T000000Z"), JOB)
    assert ordered(lines_in(wide)) == there
    run(database, "DROP TABLE t", "CREATE TABLE t (id INTEGER, shop VARCHAR(9), phi_age BOOLEAN)")
    with pytest.raises(InputError, match=r"(?i)'phi_age' is bool\w*, not ") as told:
        load_sink(wide, night.path, replace(night, run_id="20261201T000000Z"), JOB)
    assert "it lacks 'phi_the plan'" in str(told.value)


def test_a_view_is_not_loaded_into(database, nights):
    first = nights[1][0]
    sink = Sink("reasons", database, table="t")
    load_sink(replace(sink, table="made"), first.path, first, JOB)
    run(database, "CREATE VIEW t AS SELECT * FROM made")
    assert "this is a view" in _refusal(sink, first, JOB)


def test_a_table_that_no_load_knows_is_not_altered(database, nights):
    """The statements to mend a table were offered for the user's own, and emptied its rows."""
    night = nights[1][0]
    run(database, "CREATE TABLE mine (id INTEGER, shop VARCHAR(9), phi_age BOOLEAN, rank TEXT)")
    with pytest.raises(InputError, match=r"No line of _dshap_runs names it") as told:
        load_sink(Sink("reasons", database, table="mine"), night.path, night, JOB)
    assert "ALTER" not in str(told.value)


def test_the_sql_that_is_named_does_mend_it(database, nights):
    """An explanation with a feature more: the statements are taken from the message."""
    night = nights[1][0]
    sink = Sink("reasons", database, table="t")
    load_sink(sink, night.path, night, JOB)
    drop = 'ALTER TABLE "t" DROP COLUMN "phi_age"'
    run(database, drop, 'ALTER TABLE "t" ADD COLUMN "phi_old" REAL')
    later = nights[1][1]
    with pytest.raises(InputError) as told:
        load_sink(sink, later.path, later, JOB)
    run(database, *str(told.value).partition("change it: ")[2].split("; "))
    load_sink(replace(sink, rows="all"), later.path, later, JOB)
    names = ["id", "shop", "class", *(f"phi_{each}" for each in FEATURES)]
    chosen = ", ".join(f'"{name}"' for name in names)
    wanted = [line[: len(names)] for line in lines_of(sink, later)]
    assert ordered(run(database, f"SELECT {chosen} FROM t")) == ordered(wanted)


@pytest.mark.parametrize("wrong", ["BOOLEAN", "TEXT", "TIMESTAMP"])
def test_the_sql_that_is_named_gives_columns_the_right_types(database, nights, wrong):
    """Lines of the user stand in the table, with values that a number cannot hold."""
    first, night, *_ = nights[1]
    sink = Sink("reasons", database, table="the o'hara table", rows="all", deletes="keep")
    load_sink(sink, first.path, first, JOB)
    table = '"the o\'hara table"'
    value = {"BOOLEAN": "true", "TEXT": "'0.5'", "TIMESTAMP": "'2024-02-29 10:00:00'"}[wrong]
    run(
        database,
        f"DROP TABLE {table}",
        f'CREATE TABLE {table} (id BIGINT, shop TEXT, phi_age {wrong}, "phi_the plan" {wrong})',
        f"INSERT INTO {table} VALUES (-1, 'mine', {value}, NULL)",
    )
    message = _refusal(sink, night, JOB)
    run(database, *message.partition("change it: ")[2].split("; "))
    load_sink(sink, night.path, night, JOB)
    chosen = ", ".join(f'"phi_{name}"' for name in FEATURES)
    there = run(database, f"SELECT id, shop, {chosen} FROM {table} WHERE shop <> 'mine'")
    assert ordered(there) == ordered([(*line[:2], *line[3:6]) for line in lines_of(sink, night)])
    assert run(database, f"SELECT id FROM {table} WHERE shop = 'mine'") == [(-1,)]


def _refusal(sink: Sink, night: Night, job: str) -> str:
    """The one line that says why a load is refused."""
    with pytest.raises(InputError) as told:
        load_sink(sink, night.path, night, job)
    message = str(told.value)
    assert "\n" not in message
    return message


def test_lines_of_the_user_stay_unless_their_key_is_loaded(database, nights):
    """A table that was there before, with a primary key and lines that no run has written."""
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t")
    load_sink(sink, first.path, first, JOB)
    names = ", ".join(f'"{name}" {kind}' for name, kind in _columns_of(database, "t").items())
    made = f"CREATE TABLE t ({names}, PRIMARY KEY (id, shop))"
    run(database, "DROP TABLE t", "DROP TABLE _dshap_runs", made)
    key = next(iter(second.rows))
    for each in (key, (-5, "mine")):
        run(database, f"INSERT INTO t (id, shop) VALUES ({each[0]}, '{_sql(each[1])}')")
    for night in (first, second, nights[1][3]):
        load_sink(replace(sink, rows="all"), night.path, night, JOB)
        there = [line for line in run(database, "SELECT * FROM t") if line[1] != "mine"]
        assert ordered(there) == ordered(lines_of(sink, night))
        assert len(run(database, "SELECT 1 FROM t WHERE shop = 'mine'")) == 1


def _columns_of(database: Database, table: str) -> dict[str, str]:
    with database.connect() as connection:
        return LoadSession(connection, dialect_of(database.kind)).columns(Place("", table))


def _sql(text: str) -> str:
    return text.replace("'", "''")


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_connection_profile_in_place_of_an_address(tmp_path, nights, kind):
    """The same sink by ADBC's own profile."""
    options = {"duckdb": "path", "sqlite": "uri"}
    profile = tmp_path / "warehouse.toml"
    profile.write_text(
        f'profile_version = 1\ndriver = "{kind}"\n[Options]\n{options[kind]} = "{tmp_path}/w"\n'
    )
    sink = Sink("reasons", Database(connection=str(profile)), table="t", shape="long")
    for night in nights[1][:2]:
        load_sink(sink, night.path, night, JOB)
        assert ordered(lines_in(sink)) == ordered(lines_of(sink, night))


def test_two_jobs_with_one_table_are_refused(database, nights):
    night = nights[1][0]
    sink = Sink("reasons", database, table="t")
    load_sink(sink, night.path, night, JOB)
    with pytest.raises(InputError, match="job 'shop' loads explanation 'reasons' into this table"):
        load_sink(sink, night.path, night, "other")
    with pytest.raises(InputError, match="job 'shop' would load 'others'"):
        load_sink(replace(sink, explain="others"), night.path, night, JOB)
    load_sink(replace(sink, table="u"), night.path, night, "other")


@pytest.mark.parametrize("options", [{}, {"shape": "top_k", "text": True}], ids=str)
def test_the_sql_that_is_named_frees_the_table_of_a_job_that_is_given_up(database, nights, options):
    night = nights[1][0]
    sink = Sink("reasons", database, table="the o'hara table", **options)
    load_sink(sink, night.path, night, JOB)
    load_sink(replace(sink, table="u"), night.path, night, JOB)
    message = _refusal(sink, night, "other")
    assert "job 'shop' loads explanation 'reasons'" in message
    assert "job 'other'" in message
    run(database, *message.partition("free the table: ")[2].split("; "))
    assert not load_sink(sink, night.path, night, "other").already
    assert keys_of(lines_in(sink)) == keys_of(lines_of(sink, night))
    assert run(database, "SELECT job, table_name FROM _dshap_runs ORDER BY job") == [
        ("other", "the o'hara table"),
        (JOB, "u"),
    ]


def test_all_rows_are_written_where_the_last_load_says_too_little(database, nights):
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t")
    assert "no earlier load" in load_sink(sink, first.path, first, JOB).reason
    run(database, "DELETE FROM t")
    assert load_sink(sink, second.path, second, JOB).reason == "the table is empty"
    assert ordered(lines_in(sink)) == ordered(lines_of(sink, second))
    third = nights[1][3]
    run(database, "DROP TABLE t")
    load_sink(sink, third.path, third, JOB)
    assert ordered(lines_in(sink)) == ordered(lines_of(sink, third))
    forgotten = replace(nights[1][5], before=[])
    result = load_sink(replace(sink, table="u"), first.path, replace(first, method="m2"), JOB)
    result = load_sink(replace(sink, table="u"), forgotten.path, forgotten, JOB)
    assert "is not known any more" in result.reason
    assert result.n_rows == len(forgotten.rows)


def test_another_k_writes_all_rows(database, nights):
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t", shape="top_k", k=1)
    load_sink(sink, first.path, first, JOB)
    wider = replace(sink, k=3)
    assert "in the form top_1" in load_sink(wider, second.path, second, JOB).reason
    assert ordered(lines_in(wider)) == ordered(lines_of(wider, second))


def test_an_earlier_run_does_not_replace_a_later_one(database, nights):
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t")
    load_sink(sink, second.path, second, JOB)
    with pytest.raises(InputError, match=f"run {second.run_id} was loaded.*or a clock was wrong"):
        load_sink(sink, first.path, first, JOB)
    assert ordered(lines_in(sink)) == ordered(lines_of(sink, second))


def test_a_run_is_loaded_again_where_its_lines_are_gone_or_of_another_form(database, nights):
    night = nights[1][0]
    sink = Sink("reasons", database, table="t", shape="top_k", k=2)
    load_sink(sink, night.path, night, JOB)
    run(database, "DELETE FROM t")
    assert load_sink(sink, night.path, night, JOB).reason == "the table is empty"
    assert ordered(lines_in(sink)) == ordered(lines_of(sink, night))
    narrow = replace(sink, k=1)
    assert not load_sink(narrow, night.path, night, JOB).already
    assert ordered(lines_in(narrow)) == ordered(lines_of(narrow, night))
    assert load_sink(narrow, night.path, night, JOB).already


@pytest.mark.parametrize("before", ["keep", "mark"])
def test_lines_that_were_kept_go_once_deleted_keys_are_removed(database, nights, before):
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t", deletes=before)
    load_sink(sink, first.path, first, JOB)
    load_sink(sink, second.path, second, JOB)
    assert keys_of(lines_in(sink, "1 = 1")) > second.rows.keys()
    sink = replace(sink, deletes="remove")
    load_sink(sink, second.path, second, JOB)
    assert ordered(lines_in(sink, "1 = 1")) == ordered(lines_of(sink, second))


def test_a_table_is_one_whatever_the_case_of_its_name(database, nights):
    night = nights[1][0]
    load_sink(Sink("reasons", database, table="reasons"), night.path, night, JOB)
    other = Sink("reasons", database, table="Reasons")
    if database.kind == "postgresql":
        assert not load_sink(other, night.path, night, "other").already
        return
    assert load_sink(other, night.path, night, JOB).already
    with pytest.raises(InputError, match="job 'shop' loads explanation 'reasons' into this table"):
        load_sink(other, night.path, night, "other")


def test_a_schema_that_is_named(database, nights):
    if database.kind == "sqlite":
        pytest.skip("SQLite makes no schemas")
    run(database, 'CREATE SCHEMA "my mart"')
    sink = Sink("reasons", database, table="t", schema="my mart")
    for night in nights[1][:2]:
        load_sink(sink, night.path, night, JOB)
    there = run(database, "SELECT * FROM \"my mart\".t WHERE status <> 'deleted'")
    assert ordered(there) == ordered(lines_of(sink, nights[1][1]))
    assert len(run(database, 'SELECT * FROM "my mart"._dshap_runs')) == 2
    run(database, 'DROP TABLE "my mart".t', 'DROP TABLE "my mart"._dshap_runs')
    run(database, 'DROP SCHEMA "my mart"')


def test_plain_sql_of_an_unknown_database(tmp_path, nights, monkeypatch):
    """The dialect of databases without one of their own, on DuckDB, whose SQL it is too."""
    monkeypatch.setattr(steps, "dialect_of", lambda kind: Dialect())
    sink = Sink("reasons", Database(f"duckdb:///{tmp_path}/w.duckdb"), table="t", shape="long")
    for night in nights[1]:
        load_sink(sink, night.path, night, JOB)
        assert ordered(lines_in(sink)) == ordered(lines_of(sink, night))


def test_a_database_that_is_not_there_says_so(tmp_path, nights):
    night = nights[1][0]
    sink = Sink("reasons", Database(f"duckdb:///{tmp_path}/none/w.duckdb"), table="t")
    with pytest.raises(DatabaseError, match="there is no folder"):
        load_sink(sink, night.path, night, JOB)


DUCK = Database("duckdb:///w.duckdb")


@pytest.mark.parametrize(
    ("facts", "change", "said"),
    [
        ({"keys": {}}, {}, "give \\[source\\] key"),
        ({"is_of_texts": True}, {}, "texts are not loaded"),
        ({"keeps_columns": False}, {"shape": "long"}, "keep_rows = true"),
        ({"features": ("x" * 70,)}, {}, "names of postgresql have at most 63 bytes"),
        ({}, {"table": "t" * 64}, "at most 63 bytes"),
        ({}, {"table": "_dshap_runs"}, "begin with _dshap_"),
        ({}, {"table": "_dshap_staging"}, "begin with _dshap_"),
        ({}, {"table": "_dshap_gone", "schema": "mart"}, "begin with _dshap_"),
        ({}, {"table": "_DSHAP_gone_keys", "database": DUCK}, "begin with _dshap_"),
        ({"keys": {"phi_age": "int64"}, "features": ("age",)}, {"shape": "long"}, ""),
    ],
)
def test_what_is_refused_before_anything_is_read(facts, change, said):
    given = {"table": "t", "database": Database("postgresql://user@nowhere/db"), **change}
    sink = Sink("reasons", **given)
    told = replace(FACTS, **facts)
    if not said:
        check_sink(sink, told)
        return
    with pytest.raises(InputError, match=said):
        check_sink(sink, told)


def test_names_that_differ_in_case_alone():
    facts = replace(FACTS, features=("Age", "age"))
    check_sink(Sink("reasons", Database("postgresql://user@nowhere/db"), table="t"), facts)
    with pytest.raises(InputError, match="'phi_Age', 'phi_age' have the same name"):
        check_sink(Sink("reasons", Database("duckdb:///w.duckdb"), table="t"), facts)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give uri or connection"),
        ({"path": Path("a"), "write": "delete_insert"}, "needs a database"),
        ({"path": Path("a"), "table": "t", "write": "replace"}, "leave table out"),
        ({"database": Database("duckdb:///w.duckdb")}, "give table"),
        ({"database": Database("duckdb:///w.duckdb"), "table": "t", "write": "replace"}, "changed"),
        (
            {"path": Path("a"), "write": "replace", "rows": "all", "deletes": "mark"},
            "leave deletes out",
        ),
    ],
)
def test_options_that_do_not_go_together(given, said):
    with pytest.raises(InputError, match=said):
        Sink("reasons", **given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "kind"),
    [
        *(("stage", kind) for kind in DATABASES),
        ("delete_lines", "sqlite"),
        ("insert_lines", "duckdb"),
        ("insert_lines", "postgresql"),
        *(("commit", kind) for kind in DATABASES),
        left_to_systems("delete_lines", "duckdb"),
        left_to_systems("delete_lines", "postgresql"),
        left_to_systems("insert_lines", "sqlite"),
    ],
)
def test_a_killed_load_changes_nothing_and_is_finished_by_the_same_call(
    request, tmp_path, nights, step, kind
):
    database = empty_database(kind, request, tmp_path)
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t", deletes="mark")
    load_sink(sink, first.path, first, JOB)
    before = ordered(lines_in(sink, "0 = 0"))
    with forked(killed_load, sink, second, step, JOB) as process:
        process.join()
    assert process.exitcode == -signal.SIGKILL
    assert ordered(lines_in(sink, "0 = 0")) == before
    assert not load_sink(sink, second.path, second, JOB).already
    assert ordered(lines_in(sink)) == ordered(lines_of(sink, second))
    assert len(run(database, "SELECT * FROM _dshap_runs")) == 2


def test_the_first_load_makes_the_types_that_the_dialect_has(database, nights):
    """The driver makes the table then; a time among the keys too."""
    night = nights[1][0]
    sink = Sink("reasons", database, table="t", shape="top_k")
    load_sink(sink, night.path, night, JOB)
    schema = table_schema(LineForm("top_k"), FACTS)
    dialect = dialect_of(database.kind)
    found = _columns_of(database, "t")
    assert list(found) == schema.names
    families = {name: family_of(sql_type) for name, sql_type in found.items()}
    assert families == {each.name: family_of(dialect.types[each.type]) for each in schema}
    indexes = {
        "duckdb": "SELECT 1 FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY' "
        "AND table_name = 't'",
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'index'",
        "postgresql": "SELECT indexname FROM pg_indexes WHERE tablename = 't' "
        "AND schemaname = current_schema()",
    }
    assert len(run(database, indexes[database.kind])) == 1


def test_keys_of_times_and_repeated_keys(database, tmp_path, monkeypatch):
    """A source with a key of times, one of them twice: both lines are there, and replaced."""
    sink = Sink("reasons", database, table="t", shape="top_k", k=1, primary_key=False)
    step = np.timedelta64(45, "m")
    for run_id, shift in (("r1", 0), ("r2", 3)):
        times = np.datetime64("2024-02-28T23:30:00.25", "ns") + (np.arange(9) + shift) * step
        times[3] = times[2]
        monkeypatch.setitem(KEYS, "datetime64[ns]", lambda n, times=times: times)
        change = {"keys": {"at": "datetime64[ns]"}, "columns": {"a": "float64"}}
        make_cube(tmp_path / run_id, outputs=("y",), n_rows=9, **change)
        load_sink(sink, tmp_path / run_id, SingleRun(run_id, "m"), JOB)
        found = run(database, 'SELECT "at" FROM t')
        shown = sorted(str(at)[:21].replace(" ", "T") for (at,) in found)
        assert shown == sorted(str(at)[:21] for at in times)


def test_keys_with_a_time_zone_are_found_whatever_the_zone_of_the_host(
    database, tmp_path, monkeypatch
):
    """Keys without a zone are UTC, so that each is one instant in every night."""
    if database.kind == "sqlite":
        pytest.skip("SQLite has no type of times with a zone")
    connect = Database.connect

    @contextlib.contextmanager
    def connected(self, zone, **options):
        with connect(self, **options) as connection:
            with connection.cursor() as cursor:
                cursor.execute(f"SET TimeZone = '{zone}'")
            yield connection

    times = np.datetime64("2024-06-01T00:00", "ns") + np.arange(9) * np.timedelta64(1, "D")
    monkeypatch.setitem(KEYS, "datetime64[ns]", lambda n: times)
    change = {"keys": {"at": "datetime64[ns]"}, "columns": {"a": "float64"}}
    sink = Sink("reasons", database, table="t", shape="top_k", k=1, primary_key=False)
    for run_id, zone in (("r1", "America/New_York"), ("r2", "Asia/Tokyo")):
        make_cube(tmp_path / run_id, outputs=("y",), n_rows=9, **change)
        with monkeypatch.context() as patch:
            patch.setattr(Database, "connect", partialmethod(connected, zone=zone))
            load_sink(sink, tmp_path / run_id, SingleRun(run_id, "m"), JOB)
        if run_id == "r1":
            run(
                database,
                'ALTER TABLE t ALTER COLUMN "at" TYPE TIMESTAMPTZ USING "at" AT TIME ZONE \'UTC\'',
            )
    assert run(database, 'SELECT COUNT(*), COUNT(DISTINCT "at") FROM t') == [(9, 9)]


@pytest.mark.parametrize("raised", [KeyboardInterrupt, MemoryError, ValueError])
@pytest.mark.parametrize("is_first", [True, False])
def test_an_interrupt_in_the_middle_of_the_stream_ends_the_load(
    database, nights, monkeypatch, raised, is_first
):
    """DuckDB's driver takes an error of the stream for its end, and has the lines before it."""
    before, night, *_ = nights[1]
    sink = Sink("reasons", database, table="t", rows="all")
    if not is_first:
        load_sink(sink, before.path, before, JOB)

    def failing(*given, **named):
        yield from itertools.islice(batches_of(*given, **named), 1)
        raise raised

    monkeypatch.setattr("dshap.sinks.shapes.BATCH_LINES", 4)
    with monkeypatch.context() as patch:
        patch.setattr(steps, "batches_of", failing)
        with pytest.raises(raised):
            load_sink(sink, night.path, night, JOB)
    if not is_first:
        assert ordered(lines_in(sink)) == ordered(lines_of(sink, before))
    assert not load_sink(sink, night.path, night, JOB).already
    assert ordered(lines_in(sink)) == ordered(lines_of(sink, night))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_cube_that_cannot_be_read_is_told_in_its_own_words(database, tmp_path, is_first):
    first, second = random_nights(tmp_path, 7, 2, ("y",))
    sink = Sink("reasons", database, table="t", rows="all")
    if not is_first:
        load_sink(sink, first.path, first, JOB)
    (second.path / "state" / "receipts" / "block-00000001.json").unlink()
    with pytest.raises(InputError, match="rows 8 to 15 are not finished") as told:
        load_sink(sink, second.path, second, JOB)
    assert "Traceback" not in str(told.value)
    if not is_first:
        assert ordered(lines_in(sink)) == ordered(lines_of(sink, first))


def test_the_line_of_a_run_states_the_scale(database, tmp_path, nights):
    """In `_dshap_runs`; in a table of an earlier version the load adds the column."""
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t")
    load_sink(sink, first.path, first, JOB)
    assert run(database, "SELECT scale FROM _dshap_runs") == [("unit of the target",)]
    run(database, "ALTER TABLE _dshap_runs DROP COLUMN scale")
    assert load_sink(sink, first.path, first, JOB).already  # the older table is read as it is
    load_sink(sink, second.path, second, JOB)
    assert run(database, "SELECT scale FROM _dshap_runs ORDER BY run_id") == [
        (None,),
        ("unit of the target",),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("write", ["delete_insert", "append"])
@pytest.mark.parametrize("between", ["the same run", "the next run"])
def test_a_load_that_another_process_overtakes_changes_nothing(
    request, tmp_path, nights, monkeypatch, write, between
):
    """Its process slept while it staged its rows: older lines replaced newer ones, or came twice."""
    sink = Sink("reasons", empty_database("postgresql", request, tmp_path), table="t", write=write)
    first, second, third, *_ = nights[1]
    load_sink(sink, first.path, first, JOB)
    stage = steps.stage
    overtaking = second if between == "the same run" else third

    def overtaken(*given):
        staged = stage(*given)
        monkeypatch.setattr(steps, "stage", stage)
        load_sink(sink, overtaking.path, overtaking, JOB)
        return staged

    monkeypatch.setattr(steps, "stage", overtaken)
    said = f"run {overtaking.run_id} was loaded by another process .* run the same command again"
    with pytest.raises(LockedError, match=said):
        load_sink(sink, second.path, second, JOB)
    told = [line[0] for line in run(sink.database, "SELECT run_id FROM _dshap_runs")]
    assert sorted(told) == [first.run_id, overtaking.run_id]
    assert ordered(latest(sink)) == ordered(lines_of(sink, overtaking))
    load_sink(sink, third.path, third, JOB)
    assert ordered(latest(sink)) == ordered(lines_of(sink, third))


def test_a_table_that_somebody_altered_is_loaded_whole(database, nights):
    """Half of its lines are deleted: all rows of the same run, or of the next one, and it is said."""
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t", primary_key=False)
    load_sink(sink, first.path, first, JOB)
    n_lines = len(lines_in(sink))
    assert run(database, "SELECT n_table_lines FROM _dshap_runs") == [(n_lines,)]
    for night in (first, second):
        run(database, "DELETE FROM t WHERE id % 2 = 0")
        n_left = len(lines_in(sink))
        assert 0 < n_left < n_lines
        said: list[str] = []
        result = load_sink(sink, night.path, night, JOB, said.append)
        words = f"the table has {n_left:,} lines of dshap, and run {first.run_id} left {n_lines:,}"
        assert result.reason == words
        assert words in said[0]
        assert ordered(lines_in(sink)) == ordered(lines_of(sink, night))
        assert load_sink(sink, night.path, night, JOB).already
    run(database, "INSERT INTO t SELECT * FROM t WHERE id % 2 = 0")  # twice is altered too
    assert not load_sink(sink, second.path, second, JOB).already
    assert ordered(lines_in(sink)) == ordered(lines_of(sink, second))


@pytest.mark.parametrize("write", ["delete_insert", "append"])
@pytest.mark.parametrize("deletes", ["remove", "mark", "keep"])
def test_a_table_that_nobody_altered_is_not_loaded_whole(tmp_path, nights, write, deletes):
    """Lines of the user, without a run, are not counted."""
    database = Database(f"duckdb:///{tmp_path}/w.duckdb")
    sink = Sink("reasons", database, table="t", write=write, deletes=deletes, primary_key=False)
    for night in nights[1]:
        result = load_sink(sink, night.path, night, JOB)
        assert "lines of dshap" not in result.reason
        run(database, "INSERT INTO t (id, shop) VALUES (1, 'mine')")
        assert load_sink(sink, night.path, night, JOB).already


def test_a_load_of_an_earlier_version_counted_no_lines(database, nights):
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t")
    load_sink(sink, first.path, first, JOB)
    run(
        database,
        "ALTER TABLE _dshap_runs DROP COLUMN n_table_lines",
        "DELETE FROM t WHERE id % 2 = 0",
    )
    assert load_sink(sink, first.path, first, JOB).already
    load_sink(sink, second.path, second, JOB)
    counts = run(database, "SELECT n_table_lines FROM _dshap_runs ORDER BY run_id")
    assert counts == [(None,), (len(lines_in(sink)),)]
