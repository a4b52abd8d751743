"""{{ env_var(NAME) }} in a job file: filled in every text, or refused."""

from __future__ import annotations

import pytest

from dshap.core.errors import InputError
from dshap.jobfile.filling import with_values_of_environment
from dshap.jobs import load_job, parse_job
from tests.jobs.job_files import JOB, changed, write_job

SHOP = {"kind": "sql", "uri": "duckdb:///shop.duckdb", "key": ["id"], "target": "y"}


@pytest.fixture(autouse=True)
def variables(monkeypatch):
    monkeypatch.setenv("SCHEMA", "mart")
    monkeypatch.setenv("TOKEN", "hush-hush")
    monkeypatch.delenv("NOWHERE", raising=False)


def test_texts_are_filled_in_every_table():
    given = changed(
        ("job.name", "{{ env_var(SCHEMA) }} of tonight"),
        ("source.key", ["{{ env_var(SCHEMA) }}_id"]),
        ("explain.0.players", {"place": ["{{ env_var('SCHEMA') }}_x", "hum"]}),
        ("sink", [{"uri": "duckdb:///a.db", "table": "{{ env_var(SCHEMA) }}.reasons"}]),
        ("report", {"segments": ['{{ env_var(NOWHERE, "hr") }}']}),
    )
    filled = with_values_of_environment(given)
    assert filled["job"]["name"] == "mart of tonight"
    assert filled["source"]["key"] == ["mart_id"]
    assert filled["explain"][0]["players"] == {"place": ["mart_x", "hum"]}
    assert filled["report"]["segments"] == ["hr"]
    assert filled["sink"][0]["table"] == "mart.reasons"
    assert given["job"]["name"].startswith("{{")  # the given tables stay as they are
    assert with_values_of_environment(JOB) == JOB


def test_the_table_of_a_source_and_of_a_sink(tmp_path):
    """It was the literal text that became the table's name."""
    sink = {
        "uri": "duckdb:///a.db",
        "table": "{{ env_var(SCHEMA) }}.reasons",
        "explain": "observational",
    }
    tables = changed(
        ("source", {**SHOP, "table": "{{ env_var(SCHEMA) }}.customers"}), ("sink", [sink])
    )
    job = load_job(write_job(tmp_path, tables), ["job.name={{ env_var(SCHEMA) }}"])
    assert job.source.table == "mart.customers"
    assert job.job.name == "mart"
    assert job.sink[0].table == "mart.reasons"
    assert job.sink[0].sink().schema == "mart"


def test_a_query_keeps_the_names_of_its_variables():
    """Its values are filled in when it is used, and stand nowhere else."""
    written = "select * from {{ env_var(SCHEMA) }}.t where key = '{{ env_var(TOKEN) }}'"
    job = parse_job(changed(("source", {**SHOP, "query": written})))
    assert job.source.query == written
    rows = job.source.rows()
    assert rows.query == "select * from mart.t where key = 'hush-hush'"
    assert rows.describe() == f"query {written}"
    assert "hush" not in repr(job)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("sink", [{"uri": "duckdb:///a.db", "table": "{{ env_var(NOWHERE) }}"}]),
            r'\[\[sink\]\] number 1 table = "\{\{ env_var\(NOWHERE\) \}\}": the environment '
            "variable NOWHERE is not set",
        ),
        (
            ("source", {**SHOP, "table": "t_{{ ds }}"}),
            r'\[source\] table = "t_\{\{ ds \}\}": \{\{ ds \}\} is not known: write .*; templates '
            "of Airflow and dbt are not filled in here",
        ),
        (
            ("source", {**SHOP, "query": "select * from t where day = '{{ ds }}'"}),
            r"\[source\] query: \{\{ ds \}\} is not known: .*\{as_of\} is the date of the run, "
            "which --as-of sets",
        ),
        (
            ("source", {**SHOP, "query": "select {{ env_var(NOWHERE) }}"}),
            "query: the environment variable NOWHERE is not set",
        ),
        (
            ("explain.0.players", {"place": ["{{ place }}"]}),
            r"players.place = \"\{\{ place \}\}\": \{\{ place \}\} is not known",
        ),
    ],
)
def test_what_is_refused(change, said):
    with pytest.raises(InputError, match=said):
        parse_job(changed(change))


def test_the_environment_of_workers_takes_no_values_of_this_one(tmp_path):
    worker = {"environment": {"KEY": "{{ env_var(TOKEN) }}"}}
    tables = changed(("worker", worker), ("cluster", {"kind": "local", "workers": 1}))
    with pytest.raises(
        InputError, match=r'environment.KEY = ".*": env_var is not filled in here'
    ) as caught:
        load_job(write_job(tmp_path, tables))
    assert "hush" not in str(caught.value)
