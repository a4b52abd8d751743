# ruff: noqa: F811
"""A run for an earlier date: refused, or a backfill, which leaves what is read as it is."""

from __future__ import annotations

import json
from datetime import date

import duckdb
import pytest
from click.testing import CliRunner

import dshap
from dshap.cli import cli
from dshap.cube import current_of
from dshap.history.backfills import last_day
from dshap.history.run_record import read_records
from dshap.jobs.runs_in_words import runs_summary
from dshap.jobs.verification import repair_job_store, verify_job_store
from tests.jobs.job_files import changed, small_table, to_toml, write_job
from tests.steps.test_nightly_cubes import Killed, loaded, model, shop  # noqa: F401 (fixtures)

EARLY, LATE = date(2026, 11, 1), date(2026, 11, 20)


@pytest.fixture
def days(shop):
    """A shop with 100 customers of an early day and 50 of a later one, and the night of the later."""
    shop.table["since"] = [EARLY] * 100 + [LATE] * 50
    shop.put()
    write(shop)
    run(shop, "--as-of", "2026-11-20")
    return shop


def write(shop, **changed):
    """The job: a table that holds the last night, and one that holds its history."""
    uri = f"duckdb:///{shop.folder}/shop.duckdb"
    sinks = [
        {"uri": uri, "table": "reasons"},
        {"uri": uri, "table": "history", "write": "append", "deletes": "mark"},
    ]
    tables = shop.tables(sink=sinks, **changed)
    tables["source"].pop("table")
    tables["source"]["query"] = "select * from customers where since <= {as_of}"
    (shop.folder / "job.toml").write_text(to_toml(tables))


def run(shop, *options, status=0):
    ended = CliRunner().invoke(cli, ["run", str(shop.folder / "job.toml"), *options])
    assert ended.exit_code == status, ended.output
    return ended


def asked(shop, query):
    with duckdb.connect(str(shop.folder / "shop.duckdb"), read_only=True) as connection:
        return connection.sql(query).fetchall()


def backfill(shop, *options, day="2026-11-10", status=0):
    return run(shop, "--as-of", day, "--backfill", *options, status=status)


def test_an_earlier_date_is_refused(days):
    """It deleted the customers of the later day from the live table, with exit status 0."""
    store = days.folder / "store"
    first = current_of(store / "reasons")
    told = run(days, "--as-of", "2026-11-10", status=2).stderr
    for said in ("2026-11-10", "2026-11-20", first, "--backfill"):
        assert said in told
    run(days, "--as-of", "2026-11-10", "--only", "learn", status=2)
    assert len(loaded(days)) == 150
    assert len(read_records(store)) == 1
    run(days, "--as-of", "2026-11-20")  # one day again
    run(days, "--as-of", "2026-11-21")
    assert last_day(store).as_of == date(2026, 11, 21)


def test_a_backfill(days):
    store = days.folder / "store"
    first = current_of(store / "reasons")
    done = backfill(days)
    assert "sink reasons: skipped: a backfill loads only sinks" in done.stdout
    record = read_records(store)[-1]
    assert (record.as_of, record.is_backfill, record.run_id != first) == (
        date(2026, 11, 10), True, True,
    )  # fmt: skip
    assert current_of(store / "reasons") == first
    assert len(loaded(days)) == 150
    cube = dshap.open_cube(store / "reasons" / record.run_id)
    assert sorted(cube["id"].values) == list(range(100))
    lines = dict(asked(days, "select run_id, count(*) from history group by all"))
    assert lines == {first: 150, record.run_id: 100}
    assert set(asked(days, "select distinct status from history")) == {("ok",)}
    loads = asked(days, "select as_of, n_rows from _dshap_runs where table_name = 'history'")
    assert sorted(loads) == [("2026-11-10", 100), ("2026-11-20", 150)]
    line = runs_summary(store)[0][-1]
    assert "2026-11-10" in line
    assert "backfill" in line


def test_a_pointer_that_was_lost_names_no_backfill(days):
    store = days.folder / "store"
    first = current_of(store / "reasons")
    backfill(days)
    backfilled = read_records(store)[-1].run_id
    for content in (None, f"{backfilled}\n"):
        (store / "reasons" / "current").unlink()
        if content is not None:
            (store / "reasons" / "current").write_text(content)
        repair_job_store(store)
        assert current_of(store / "reasons") == first
    (store / "reasons" / "current").unlink()
    run(days, "--as-of", "2026-11-20")
    assert current_of(store / "reasons") == first
    assert len(loaded(days)) == 150


def test_a_repair_of_the_explanation_alone_names_no_backfill(days):
    """`verify STORE/reasons --repair`: the newest finished cube was that of the backfill."""
    folder = days.folder / "store" / "reasons"
    first = current_of(folder)
    backfill(days)
    (folder / "current").write_text("20200101T000000Z\n")
    repair_job_store(folder)
    assert current_of(folder) == first


def test_a_backfill_says_nothing_about_learning(days):
    """It warned that a new method is learned, and learned nothing."""
    rows = next((days.folder / "store" / "prepared" / "rows").iterdir())
    rows.rename(days.folder / "kept")
    told = backfill(days, status=2).stderr
    assert "the rows that the method was learned from, were lost or removed" in told
    assert "run the job without --backfill first" in told
    assert "a new method is learned" not in told
    (days.folder / "kept").rename(rows)
    backfill(days)


def test_a_run_that_explained_nothing_has_no_day(days, monkeypatch):
    """A stale source, and a kill while rows are read: a run for a day before theirs is no backfill."""
    store = days.folder / "store"
    fresh = {"column": "since", "error_after": "24h"}
    write(days)
    job = days.folder / "job.toml"
    as_it_was = job.read_text()
    job.write_text(as_it_was.replace("[model]", f"freshness = {toml_of(fresh)}\n[model]"))
    run(days, "--as-of", "2027-01-05", status=9)
    assert last_day(store).as_of == date(2026, 11, 20)
    job.write_text(as_it_was)

    def dies(*_, **__):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("dshap.steps.row_sources.spool_job", dies)
        with pytest.raises(Killed):
            run(days, "--as-of", "2027-01-05")
    assert last_day(store).as_of == date(2026, 11, 20)
    with monkeypatch.context() as patched:
        patched.setattr("dshap.steps.nightly_cubes.digest_rows", dies)
        with pytest.raises(Killed):
            run(days, "--as-of", "2026-12-24")
    assert last_day(store).as_of == date(2026, 12, 24)  # its rows are read: it is finished first
    assert "is for 2026-12-24" in run(days, "--as-of", "2026-11-21", status=2).stderr


def toml_of(table):
    return "{" + ", ".join(f'{key} = "{value}"' for key, value in table.items()) + "}"


def test_the_nights_go_on_after_a_backfill(days):
    """The next night is compared with the night before, and loads what changed since that."""
    store = days.folder / "store"
    first = current_of(store / "reasons")
    backfill(days)
    assert not any(verify_job_store(store).values())
    backfilled = read_records(store)[-1].run_id
    assert json.loads(backfill(days, "--json").stdout)["run"]["has_work"] is False
    assert asked(days, "select count(*) from history") == [(250,)]
    days.table.loc[days.table["id"] == 3, "a"] = 9.0
    days.put()
    run(days, "--as-of", "2026-11-21")
    night = read_records(store)[-1]
    keys = night.explanation("reasons")["adapter_response"]["keys"]
    assert (keys["changed"], keys["unchanged"], keys["deleted"]) == (1, 149, 0)
    lines = dict(asked(days, "select run_id, count(*) from history group by all"))
    assert lines == {first: 150, backfilled: 100, night.run_id: 1}
    assert len(loaded(days)) == 150
    backfill(days)  # its rows have changed: explained anew, with what is known of the date
    lines = dict(asked(days, "select run_id, count(*) from history group by all"))
    assert sum(lines.values()) == 251 + 1  # a row was explained; the others are lines already


def test_a_backfill_in_parts(days):
    store = days.folder / "store"
    first = current_of(store / "reasons")
    backfill(days, "--only", "learn")
    told = run(days, "--shard", "1/2", "--as-of", "2026-11-11", status=2).stderr
    assert "was learned with --as-of 2026-11-10" in told
    run(days, "--shard", "1/2")
    backfill(days, "--shard", "2/2")
    record = read_records(store)[-1]
    if not record.is_over:
        run(days, "--only", "finish")
        record = read_records(store)[-1]
    assert record.is_backfill
    assert current_of(store / "reasons") == first
    assert asked(days, "select count(*) from history") == [(250,)]
    assert len(loaded(days)) == 150


def test_a_killed_backfill_is_finished_as_one(days, monkeypatch):
    store = days.folder / "store"
    first = current_of(store / "reasons")

    def dies(*_, **__):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("dshap.steps.endings.load_sink", dies)
        with pytest.raises(Killed):
            backfill(days)
    assert not read_records(store)[-1].is_over
    run(days, "--as-of", "2026-11-20")
    finished, night = read_records(store)[-2:]
    assert finished.is_backfill
    assert not night.is_backfill
    assert current_of(store / "reasons") == first
    assert len(loaded(days)) == 150
    assert asked(days, "select count(*) from history") == [(250,)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--backfill", "--as-of", "2026-11-20"), "which is no later"),
        (("--backfill",), "which is no later"),
    ],
)
def test_what_is_no_backfill(days, options, said):
    assert said in run(days, *options, status=2).stderr


def test_a_backfill_needs_nights_before_it(shop):
    write(shop)
    assert "no run came before it" in backfill(shop, status=2).stderr
    write(shop, incremental={"strategy": "none"})
    assert "one cube of each explanation" in backfill(shop, status=2).stderr


def test_a_backfill_learns_nothing(days):
    """Another model: what it learned from the earlier rows would be the method of later nights."""
    write(days, explain=[{"name": "reasons", "value": "marginal", "background": 5}])
    told = backfill(days, status=2).stderr
    assert "run the job without --backfill first" in told
    assert len(read_records(days.folder / "store")) == 1


def test_checks_of_a_backfill_compare_with_earlier_dates(days):
    """The baseline of a backfill is for no later date, and a backfill is the baseline of no run."""
    ratio = {"kind": "row_count", "metric": "ratio", "error": 0.9, "blocks_sinks": True}
    write(days, check=[ratio])
    backfill(days)
    backfilled = read_records(days.folder / "store")[-1]
    assert backfilled.check("row_count")["status"] == "skipped"
    run(days, "--as-of", "2026-11-22")
    night = read_records(days.folder / "store")[-1]
    assert night.about["baseline"] not in (None, backfilled.run_id)
    backfill(days, day="2026-11-21")
    late = read_records(days.folder / "store")[-1]
    assert late.check("row_count")["adapter_response"]["baseline"] == night.about["baseline"]


def test_a_table_that_is_read_in_its_place_has_no_days(tmp_path):
    """Its rows are those of no date: an earlier date changes nothing."""
    small_table().to_parquet(tmp_path / "table.parquet")
    path = write_job(tmp_path, changed(("explain", [changed()["explain"][0]])))
    for day in ("2026-11-20", "2026-11-10"):
        assert CliRunner().invoke(cli, ["run", str(path), "--as-of", day]).exit_code == 0


def test_a_source_with_the_same_rows_for_every_date_has_no_earlier_days(days):
    job = days.folder / "job.toml"
    job.write_text(job.read_text().replace(" where since <= {as_of}", ""))
    assert "the same rows for every date: give a query" in backfill(days, status=2).stderr
