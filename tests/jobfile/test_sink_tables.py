# ruff: noqa: F811
"""The tables [[sink]] of a job: what they are read as, and what is refused while planning."""

from __future__ import annotations

import pickle
from datetime import date
from pathlib import Path

import duckdb
import pytest

from dshap.core.errors import InputError
from dshap.engine import SilentProgress
from dshap.jobfile.reading import read_job_file
from dshap.jobfile.sink_tables import SINKS, SinkTable, look_at_sink
from dshap.jobs import Command, parse_job, plan_from_source, run_recorded
from dshap.steps.plans import plan_job
from tests.jobs.job_files import changed, small_table, write_job
from tests.steps.test_nightly_cubes import model, shop  # noqa: F401 (fixtures)

SINK = {"explain": "observational", "uri": "duckdb:///shop.duckdb", "table": "mart.reasons"}


def job_of(*sinks, **changes):
    return parse_job(changed(("sink", list(sinks)), *changes.items()))


def test_what_is_left_out(tmp_path):
    (table,) = job_of(SINK).sink
    sink = table.sink()
    assert (sink.schema, sink.table, sink.label) == ("mart", "reasons", "mart.reasons")
    assert (sink.rows, sink.write, sink.deletes, sink.form) == (
        "changed",
        "delete_insert",
        "remove",
        "wide",
    )
    assert pickle.loads(pickle.dumps(sink)) == sink
    replaced = job_of(SINK | {"write": "replace", "shape": "top_k", "k": 5}).sink[0].sink()
    assert replaced.rows == "all"
    assert replaced.form == "top_5"
    folder = job_of({"explain": "observational", "path": str(tmp_path / "out")}).sink[0].sink()
    assert (folder.path, folder.write, folder.rows) == (tmp_path / "out", "replace", "all")


def test_the_only_explanation_is_meant():
    job = parse_job(
        changed(
            ("explain", [{"name": "reasons", "value": "kernel_interventional"}]),
            ("sink", [{key: SINK[key] for key in ("uri", "table")}]),
        )
    )
    assert job.sink[0].sink("reasons").explain == "reasons"


def test_paths_are_relative_to_the_job_file_and_secrets_come_from_the_environment(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("SINK_WORD", "s3cr3t")
    sinks = [
        SINK,
        {"explain": "observational", "path": "out"},
        SINK | {"uri": "postgresql://me:{{ env_var(SINK_WORD) }}@host/db"},
    ]
    path = write_job(tmp_path, changed(("sink", sinks)))
    job = read_job_file(path)
    assert job.sink[0].sink().database.path == tmp_path / "shop.duckdb"
    assert job.sink[1].sink().path == tmp_path / "out"
    assert "s3cr3t" not in repr(job)
    assert "s3cr3t" in job.sink[2].sink().database.uri
    assert "s3cr3t" not in repr(job.sink[2].sink())
    monkeypatch.delenv("SINK_WORD")
    with pytest.raises(InputError, match="variable SINK_WORD is not set"):
        read_job_file(path)


def test_a_sink_is_named_for_settings(tmp_path):
    path = write_job(tmp_path, changed(("sink", [SINK | {"name": "mart"}])))
    job = read_job_file(path, ["sink.mart.shape=long"])
    assert job.sink[0].shape == "long"
    with pytest.raises(InputError, match="unknown sink 'other'"):
        read_job_file(path, ["sink.other.shape=long"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"explain": "observation"}, "unknown explanation 'observation'; did you mean"),
        ({"explain": ""}, "2 explanations: give explain, one of interventional, observational"),
        ({"table": ""}, "give table"),
        ({"tabel": "t"}, "unknown key 'tabel'; did you mean 'table'"),
        ({"path": "out"}, "not both"),
        ({"uri": None}, "uri or by connection"),
        ({"uri": "oracle://host/db"}, "uri begins with oracle://"),
        ({"write": "upsert"}, "unknown write 'upsert'. Allowed: append, delete_insert, replace"),
        ({"write": "replace", "rows": "changed"}, "would drop the rows that did not change"),
        ({"write": "replace", "deletes": "mark"}, "keeps no earlier line"),
        ({"k": 0, "shape": "top_k"}, "k = 0: give at least 1"),
        ({"k": 5}, 'k belongs to shape = "top_k"'),
        ({"uri": None, "path": "out", "table": "", "write": "append"}, "needs a database"),
    ],
    ids=str,
)
def test_what_is_refused(change, said):
    sink = {key: value for key, value in {**SINK, **change}.items() if value is not None}
    with pytest.raises(InputError, match=said) as told:
        job_of(sink)
    assert str(told.value).count("[[sink]]") == 1


def test_cubes_keep_the_columns_that_a_sink_has_the_values_of():
    off = {"run.keep_rows": False}
    assert job_of(SINK | {"shape": "long"}, **off).options().keep_rows
    assert not job_of(SINK, **off).options().keep_rows


def test_deletes_follow_the_nights():
    plain = job_of(SINK).sink[0]
    assert plain.sink(deletes="mark").deletes == "mark"
    assert job_of(SINK | {"deletes": "keep"}).sink[0].sink(deletes="mark").deletes == "keep"
    replaced = job_of(SINK | {"write": "replace"}).sink[0]
    assert replaced.sink(deletes="mark").deletes == "remove"


PAST = "postgresql://me@host/db"


def test_names_that_the_database_does_not_take_are_refused_before_anything_is_read(tmp_path):
    with pytest.raises(InputError, match="names of postgresql have at most 63 bytes"):
        job_of(SINK | {"uri": PAST, "table": "t" * 64})
    with pytest.raises(InputError, match="at most 63 bytes, and 'phi_x"):
        job_of(SINK | {"uri": PAST}, **{"source.features": ["x" * 60, "y"]})
    job_of(SINK | {"uri": PAST, "shape": "long"}, **{"source.features": ["x" * 60, "y"]})
    with pytest.raises(InputError, match=r"give \[source\] key"):
        job_of(SINK, **{"source.key": None})


def test_names_that_the_table_alone_tells_are_refused_while_planning(tmp_path):
    """The features are left out: they are the columns of the table."""
    frame = small_table().rename(columns={"hum": "humidity " * 7})
    frame.to_parquet(tmp_path / "table.parquet")
    changes = [("source.features", None), ("source.path", str(tmp_path / "table.parquet"))]
    changes += [("model.lengthscale", 1.0)]
    job = parse_job(changed(("sink", [SINK | {"uri": PAST}]), *changes))
    with pytest.raises(InputError, match=r"\[\[sink\]\] mart.reasons: names of postgresql"):
        plan_job(job)
    plan_job(parse_job(changed(("sink", [SINK]), *changes)))


def test_two_sinks_of_one_table():
    with pytest.raises(InputError, match=r"two \[\[sink\]\] load into mart.reasons"):
        job_of(SINK, SINK | {"explain": "interventional"})
    job_of(SINK, SINK | {"table": "mart.others"})


@pytest.mark.parametrize("other", ["Reasons", "main.reasons", "MAIN.reasons"])
def test_two_ways_to_write_one_table_are_one_table(other):
    tables = [SINK | {"table": "reasons"}, SINK | {"table": other}]
    with pytest.raises(InputError, match=r"two \[\[sink\]\] load into main.reasons"):
        job_of(*tables)
    server = {"uri": "postgresql://me@host/db"}
    if other == "Reasons":  # another table there
        job_of(*(table | server for table in tables))


def test_the_defaults_of_the_page_are_those_of_a_sink():
    page = Path(__file__).parents[2] / "docs" / "job_files.md"
    table = page.read_text().partition("| key of `[[sink]]` |")[2].partition("\n\n")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines()[2:]]
    told = {key.strip(" `"): left_out.strip() for key, left_out, _ in rows}
    places = {"uri", "connection", "path", "table"}
    assert set(told) == set(SINKS.records[""].model_fields) - places
    database = SinkTable(uri="duckdb:///shop.duckdb", table="reasons")
    made = database.sink("a")
    replaced = database.model_copy(update={"write": "replace"}).sink("a")
    folder = SinkTable(path="build/reasons").sink("a")
    assert told["shape"] == f'`"{made.shape}"`'
    assert told["k"] == f"`{made.k}`"
    assert told["rows"] == f'`"{made.rows}"`; with `write = "replace"` `"{replaced.rows}"`'
    assert told["write"] == f'`"{made.write}"`; with `path` `"{folder.write}"`'
    assert told["deletes"] == f'`"{made.deletes}"`, or the value of `[incremental] deletes`'


@pytest.mark.parametrize(
    ("source", "table", "said"),
    [
        ({"table": "customers"}, "Customers", "reads its rows from this table"),
        ({"query": "select * from seen where {as_of} > DATE '2020-01-01'"}, "main.customers",
         "reads its rows from this table"),
        ({"table": "customers"}, "seen", "this is a view"),
    ],
)  # fmt: skip
def test_a_sink_that_is_the_source_is_refused_before_anything_is_read(shop, source, table, said):
    """The message told how to alter the source; done as told, every row of it was emptied."""
    with duckdb.connect(str(shop.folder / "shop.duckdb")) as connection:
        connection.execute("create view seen as select * from customers")
        before = connection.sql("select * from customers order by id").fetchall()
    tables = shop.tables(sink=[{"uri": f"duckdb:///{shop.folder}/shop.duckdb", "table": table}])
    tables["source"].pop("table")
    tables["source"] |= source
    job = parse_job(tables)
    with pytest.raises(InputError, match=said) as told:
        run_recorded(job, SilentProgress(), Command("job.toml"))
    assert "ALTER" not in str(told.value)
    assert not (shop.folder / "store").exists()
    with pytest.raises(InputError, match=said):
        plan_from_source(job)
    with duckdb.connect(str(shop.folder / "shop.duckdb")) as connection:
        assert connection.sql("select * from customers order by id").fetchall() == before


@pytest.mark.parametrize(
    ("sink", "is_refused"),
    [
        ("mart/Zeilen", True),
        ("mart/Zeilen/reasons", True),
        ("mart", True),
        ("mart/Zeilen-reasons", False),
        ("reasons", False),
    ],
)
def test_a_folder_of_the_source_is_no_sink(tmp_path, sink, is_refused):
    """A table explained into itself, into a folder inside of it, or into one that it lies in."""
    (tmp_path / "mart" / "Zeilen").mkdir(parents=True)
    small_table().to_parquet(tmp_path / "mart" / "Zeilen" / "part.parquet")
    job = parse_job(
        changed(
            ("source.path", str(tmp_path / "mart" / "Zeilen")),
            ("explain", [changed()["explain"][0]]),
            ("sink", [{"path": f"{tmp_path}/{sink}"}]),
        )
    )
    found = look_at_sink(job.sink[0].sink("interventional"), job.source, date(2026, 11, 29), "a")
    refused = ["[source] reads its rows from" in each for each in found.faults]
    assert any(refused) == is_refused
