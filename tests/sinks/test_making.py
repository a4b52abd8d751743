"""What a load makes beside the lines: keys, comments, a view, and tables of earlier versions."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dshap
from dshap.core.column_dictionary import ColumnDictionary
from dshap.core.errors import DatabaseError, InputError
from dshap.cube.described import Description, describe_cube
from dshap.sinks import CubeFacts, LoadAbout, SingleRun, Sink, load_sink
from dshap.sinks.line_forms import LineForm
from dshap.sinks.table_columns import COMMENTS, comments_of
from dshap.warehouse.databases import Database
from tests.sinks.nights import lines_of, ordered
from tests.sinks.test_loading import (  # noqa: F401 (fixtures)
    JOB,
    _columns_of,
    database,
    lines_in,
    nights,
    run,
)

PRIMARY_KEYS = {
    "duckdb": "SELECT unnest(constraint_column_names) FROM duckdb_constraints() "
    "WHERE constraint_type = 'PRIMARY KEY' AND table_name = 't'",
    "sqlite": "SELECT name FROM pragma_table_info('t') WHERE pk > 0 ORDER BY pk",
    "postgresql": "SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = "
    "i.indrelid AND a.attnum = ANY(i.indkey) WHERE i.indrelid = 't'::regclass AND i.indisprimary "
    "ORDER BY array_position(i.indkey::int[], a.attnum::int)",
}
"""Kind of database -> the columns of the primary key of the table t."""
KEY_OF = {"wide": [], "long": ["feature"], "top_k": ["rank"]}


@pytest.mark.parametrize("shape", KEY_OF)
@pytest.mark.parametrize("write", ["delete_insert", "append"])
def test_a_line_has_a_primary_key(database, nights, shape, write):  # noqa: F811
    sink = Sink("reasons", database, table="t", shape=shape, write=write)
    for night in nights[2][:2]:
        load_sink(sink, night.path, night, JOB)
    found = [name for (name,) in run(database, PRIMARY_KEYS[database.kind])]
    run_id = ["run_id"] * (write == "append")
    assert found == ["id", "shop", "class", *KEY_OF[shape], *run_id]
    with pytest.raises(DatabaseError):
        run(database, "INSERT INTO t SELECT * FROM t")
    with pytest.raises(DatabaseError):
        run(database, "INSERT INTO t (id, shop) VALUES (1, 'no class')")


def test_a_table_without_a_key_takes_lines_of_others(database, nights):  # noqa: F811
    sink = Sink("reasons", database, table="t", primary_key=False)
    night = nights[1][0]
    load_sink(sink, night.path, night, JOB)
    assert run(database, PRIMARY_KEYS[database.kind]) == []
    run(database, "INSERT INTO t (id, shop) VALUES (1, 'no class')")


def test_table_and_columns_have_comments(database, nights):  # noqa: F811
    """Those of the dictionary of columns, and the meaning of the others."""
    if database.kind == "sqlite":
        pytest.skip("SQLite has no comments")
    night = nights[1][0]
    entry = {"label": "Age", "unit": "years", "description": "Age of the customer's account"}
    describe_cube(night.path, Description(ColumnDictionary.of({"age": entry})))
    sink = Sink("reasons", database, table="t")
    load_sink(sink, night.path, night, JOB)
    query = {
        "duckdb": "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 't'",
        "postgresql": "SELECT attname::text, col_description(attrelid, attnum) FROM pg_attribute "
        "WHERE attrelid = 't'::regclass AND attnum > 0",
    }
    found = dict(run(database, query[database.kind]))
    assert found["phi_age"] == "attribution of Age (years); Age of the customer's account"
    assert found["phi_spend"] == "attribution of spend"
    assert found["id"] == "key of the row (id)"
    assert all(found[name] for name in found)
    table = {
        "duckdb": "SELECT comment FROM duckdb_tables() WHERE table_name = 't'",
        "postgresql": "SELECT obj_description('t'::regclass)",
    }
    ((about,),) = run(database, table[database.kind])
    assert "explanation reasons, wide" in about


def _comments(database, name, kind="table"):  # noqa: F811
    """Column of a table or view -> its comment; "" -> the comment on the table."""
    queries = {
        "duckdb": (
            f"SELECT column_name, comment FROM duckdb_columns() WHERE table_name = '{name}'",
            f"SELECT '', comment FROM duckdb_{kind}s() WHERE {kind}_name = '{name}'",
        ),
        "postgresql": (
            "SELECT attname::text, col_description(attrelid, attnum) FROM pg_attribute "
            f"WHERE attrelid = '{name}'::regclass AND attnum > 0 AND NOT attisdropped",
            f"SELECT '', obj_description('{name}'::regclass)",
        ),
    }
    return dict(line for query in queries[database.kind] for line in run(database, query))


def test_view_and_ledger_have_comments(database, nights):  # noqa: F811
    """People read the view, and a data team the ledger."""
    if database.kind == "sqlite":
        pytest.skip("SQLite has no comments")
    first, second, *_ = nights[1]
    entry = {"label": "Customer number"}
    describe_cube(first.path, Description(ColumnDictionary.of({"id": entry})))
    sink = Sink("reasons", database, table="t", shape="top_k", k=2, text=True)
    load_sink(sink, first.path, first, JOB)
    ledger = _comments(database, "_dshap_runs")
    assert all(ledger.values()), ledger
    assert "one line for each load" in ledger[""]
    view = _comments(database, "t_text", "view")
    assert "the reasons of each row in one line" in view[""]
    assert all(view.values()), view
    assert view["id"] == "Customer number"
    assert view["reasons"] == "the reasons of the row, strongest first"
    load_sink(sink, second.path, second, JOB)
    assert _comments(database, "t_text", "view") == {**view, "id": "key of the row (id)"}
    describe_cube(first.path, Description(ColumnDictionary.of({})))


def test_the_comment_on_a_reason_is_that_of_its_shape():
    facts = CubeFacts({"id": "int64"}, features=("a",), outputs=("y",))
    of_row = comments_of(LineForm("wide", in_words=True), facts)
    of_line = comments_of(LineForm("top_k", in_words=True), facts)
    assert of_row["reason_text"] == "the reasons of the row as a sentence"
    assert of_line["reason_text"] == "the reason of this line in words"
    assert COMMENTS["undone"].startswith("the prediction minus the prediction without")


def test_the_reasons_of_a_row_in_one_line(database, nights):  # noqa: F811
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t", shape="top_k", k=2, text=True)
    for night in (first, second):
        load_sink(sink, night.path, night, JOB)
    lines = run(database, "SELECT id, shop, rank, reason_text FROM t WHERE status <> 'deleted'")
    texts = dict.fromkeys(line[:2] for line in lines)
    for *key, rank, phrase in sorted(lines, key=lambda line: line[:3]):
        if rank:
            assert " raised it (+" in phrase or " lowered it (−" in phrase
            said = f"{rank}. {phrase}"
            texts[tuple(key)] = f"{texts[tuple(key)]}; {said}" if texts[tuple(key)] else said
    found = run(database, "SELECT id, shop, reasons FROM t_text WHERE status <> 'deleted'")
    assert {line[:2]: line[2] for line in found} == texts


def test_a_view_does_not_replace_a_table_of_its_name(database, nights):  # noqa: F811
    night = nights[1][0]
    run(database, "CREATE TABLE t_text (mine INTEGER)")
    sink = Sink("reasons", database, table="t", shape="top_k", text=True)
    with pytest.raises(InputError, match=r"text = true makes the view .*t_text.*, and a table"):
        load_sink(sink, night.path, night, JOB)
    assert run(database, "SELECT count(*) FROM t_text") == [(0,)]
    assert not _columns_of(database, "t")


def test_the_sql_that_mends_a_table_with_a_view(database, nights):  # noqa: F811
    """PostgreSQL alters no column that a view reads: the view goes first, and the load makes it."""
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t", shape="top_k", k=2, text=True, primary_key=False)
    load_sink(sink, first.path, first, JOB)
    run(
        database,
        "DROP VIEW t_text",
        "ALTER TABLE t DROP COLUMN status",
        "ALTER TABLE t ADD COLUMN status BOOLEAN",
        "CREATE VIEW t_text AS SELECT id, status FROM t",
    )
    with pytest.raises(InputError, match="change it: ") as told:
        load_sink(sink, second.path, second, JOB)
    run(database, *str(told.value).partition("change it: ")[2].split("; "))
    load_sink(replace(sink, rows="all"), second.path, second, JOB)
    keys = {line[:2] for line in lines_of(sink, second)}
    assert set(run(database, "SELECT id, shop FROM t_text")) == keys


def test_the_ledger_states_the_run(database, nights):  # noqa: F811
    night = nights[1][0]
    sink = Sink("reasons", database, table="t", model_version="2026.3")
    about = LoadAbout("xgboost model.json", "dshap 1.0, xgboost 3.1", "additivity: pass")
    load_sink(sink, night.path, night, JOB, about=about)
    names = "model, model_version, library, checks, method, n_rows, n_table_lines, scale"
    n = len(night.rows)
    assert run(database, f"SELECT {names} FROM _dshap_runs") == [
        ("xgboost model.json", "2026.3", "dshap 1.0, xgboost 3.1", "additivity: pass", "m1", n, n,
         "unit of the target")
    ]  # fmt: skip
    ((loaded_at,),) = run(database, "SELECT loaded_at FROM _dshap_runs")
    if database.kind == "sqlite":
        assert loaded_at.endswith("+00:00")
    else:
        assert loaded_at.tzinfo is not None


def test_another_version_of_the_model_is_written_into_all_lines(database, nights):  # noqa: F811
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t", model_version="1")
    load_sink(sink, first.path, first, JOB)
    later = replace(sink, model_version="2")
    result = load_sink(later, second.path, second, JOB)
    assert result.reason == f"run {first.run_id} was loaded with version '1' of the model"
    assert ordered(lines_in(sink)) == ordered(lines_of(later, second))
    assert load_sink(later, second.path, second, JOB).already


def as_of_an_earlier_version(database, several):  # noqa: F811
    """Give a table and its ledger the columns that dshap 0.3 made."""
    new = ["scale", "model_version", "computed_at", "as_of"]
    old = [f"ALTER TABLE t DROP COLUMN {name}" for name in new]
    old.append('ALTER TABLE t RENAME COLUMN run_id TO "_dshap_run_id"')
    if several:
        old.append('ALTER TABLE t RENAME COLUMN "class" TO output')
    else:
        old.append('ALTER TABLE t DROP COLUMN "class"')
    of_ledger = ["model", "model_version", "library", "checks"]
    old += [f"ALTER TABLE _dshap_runs DROP COLUMN {name}" for name in of_ledger]
    run(database, *old)


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("shape", KEY_OF)
def test_the_first_load_after_an_upgrade_brings_a_table_up_to_date(
    database,  # noqa: F811
    nights,  # noqa: F811
    shape,
    n_outputs,
):
    first, second, third, *_ = nights[n_outputs]
    sink = Sink("reasons", database, table="t", shape=shape, primary_key=False)
    load_sink(sink, first.path, first, JOB)
    as_of_an_earlier_version(database, n_outputs > 1)
    assert "run_id" not in _columns_of(database, "t")
    said: list[str] = []
    result = load_sink(sink, second.path, second, JOB, said.append)
    renamed = "'_dshap_run_id' is now 'run_id', "
    if n_outputs > 1:
        renamed += "'output' is now 'class', 'scale', "
    else:
        renamed += "'class', 'scale', "
    words = f"an earlier version of dshap made the table: its column {renamed}"
    assert result.reason.startswith(words)
    assert said[0].startswith("[[sink]] t: " + words)
    assert all("\n" not in line for line in said)
    names = _columns_of(database, "t")
    chosen = run(database, "SELECT count(*), count(scale), count(run_id) FROM t")
    assert len(set(chosen[0])) == 1
    assert {"class", "run_id", "computed_at"} <= set(names)
    quiet: list[str] = []
    again = load_sink(sink, third.path, third, JOB, quiet.append)
    assert again.since == second.run_id
    assert not any("earlier version" in line for line in quiet)


def test_a_history_of_an_earlier_version_keeps_its_lines(database, nights):  # noqa: F811
    first, second, *_ = nights[1]
    sink = Sink("reasons", database, table="t", write="append", deletes="keep", primary_key=False)
    load_sink(sink, first.path, first, JOB)
    as_of_an_earlier_version(database, several=False)
    before = run(database, 'SELECT id, shop, "_dshap_run_id" FROM t')
    load_sink(sink, second.path, second, JOB)
    found = run(database, "SELECT id, shop, run_id, scale FROM t")
    assert set(before) <= {line[:3] for line in found}
    now = [line for line in found if line[2] == second.run_id]
    assert now
    assert {line[3] for line in now} == {"unit of the target"}


def test_text_is_of_shapes_with_reasons():
    shop = Database("duckdb:///w.duckdb")
    with pytest.raises(InputError, match=r'text = true states reasons .*"top_k" and "reasons"'):
        Sink("reasons", shop, table="t", shape="long", text=True)


def test_the_version_of_the_card_is_that_of_the_lines(tmp_path, nights):  # noqa: F811
    night = nights[1][0]
    shop = Database(f"duckdb:///{tmp_path}/w.duckdb")
    describe_cube(night.path, Description(card={"version": "7.1"}))
    load_sink(Sink("reasons", shop, table="t"), night.path, night, JOB)
    assert run(shop, "SELECT DISTINCT model_version FROM t") == [("7.1",)]
    describe_cube(night.path, Description(card={}))


def test_values_are_shown_in_the_format_of_the_dictionary(tmp_path, in_this_process):
    import pandas as pd

    frame = pd.DataFrame(
        {
            "ratio": [0.123, 0.5, None],
            "season": [1, 2, 1],
            "when": pd.to_datetime(["2024-02-29", "2025-01-01", None]),
            "id": [1, 2, 3],
        }
    )
    names = ["ratio", "season", "when"]
    columns = {
        "ratio": {"format": ".0%"},
        "season": {"values": {"1": "spring", "2": "summer"}},
        "when": {"format": "%d.%m.%Y"},
    }
    value = dshap.values.Marginal(lambda x: x["ratio"].fillna(0).to_numpy(), frame[names][:2])
    path = tmp_path / "cube"
    dshap.explain(
        value, frame, key="id", store=path, keep_rows=True, missing="pass", columns=columns,
        progress=False,
    )  # fmt: skip
    shop = Database(f"duckdb:///{tmp_path}/w.duckdb")
    load_sink(Sink("e", shop, table="t", shape="long"), path, SingleRun("r", "m"), JOB)
    found = run(shop, "SELECT id, feature, value, value_number FROM t")
    texts = {line[:2]: line[2] for line in found}
    assert texts == {
        (1, "ratio"): "12%", (2, "ratio"): "50%", (3, "ratio"): None,
        (1, "season"): "spring", (2, "season"): "summer", (3, "season"): "spring",
        (1, "when"): "29.02.2024", (2, "when"): "01.01.2025", (3, "when"): None,
    }  # fmt: skip
    assert (1, "ratio", "12%", 0.123) in found
