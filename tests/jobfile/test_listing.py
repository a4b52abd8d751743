"""`dshap job` shows what a job is read as; and every public option has a place in a job file."""

from __future__ import annotations

import inspect
import json
import tomllib

import pytest
from click.testing import CliRunner

import dshap
from dshap.cli import cli
from dshap.core.options import RunOptions
from dshap.jobfile.listing import as_toml, keys_of, shown_setting
from dshap.jobfile.schema import DESIGNS, MODELS, TABLES, VALUES, Run
from dshap.jobs import parse_job
from dshap.steps.under_way import Command
from tests.jobs.job_files import JOB, changed, write_job


def test_what_a_job_says_and_what_it_leaves_out(tmp_path):
    keys = list(keys_of(parse_job(JOB)))
    by_place = {(key.table, key.index, key.name): (key.value, key.origin) for key in keys}
    assert by_place["[model]", 0, "landmarks"] == (30, "job file")
    assert by_place["[model]", 0, "holdout"] == (0.1, "default")
    assert by_place["[[explain]]", 1, "landmarks"] == (20, "job file")
    assert by_place["[run]", 0, "micro_rows"] == (None, "default")
    assert by_place["[design]", 0, "kind"] == ("auto", "default")
    assert by_place["[cluster]", 0, "kind"] == ("none", "default")


def test_the_kind_of_a_table_that_names_none_is_a_default():
    given = changed(("design", {"max_coalitions": 50}), ("cluster", {"kind": "none"}))
    origins = {(key.table, key.name): key.origin for key in keys_of(parse_job(given))}
    assert origins["[design]", "kind"] == "default"
    assert origins["[design]", "max_coalitions"] == "job file"
    assert origins["[cluster]", "kind"] == "job file"


def test_the_listing_is_a_job_file(tmp_path):
    """It is the same job when it is read again."""
    job = parse_job(JOB)
    assert parse_job(tomllib.loads(as_toml(list(keys_of(job)), with_defaults=False))) == job


def test_a_listing_with_replaced_values_is_a_job_file():
    """--target and --set change no heading of a table."""
    replaced = {"report.page": "prod.html", "explain.observational.landmarks": 9}
    given = {**JOB, "targets": {"prod": replaced}}
    target = ("report.page", "explain.observational.landmarks")
    job = parse_job(given, target="prod")
    keys = list(keys_of(job, ["run.instance_tile=100"], target))
    assert {key.table for key in keys} == {key.table for key in keys_of(parse_job(JOB))}
    assert parse_job(tomllib.loads(as_toml(keys, with_defaults=False))) == job
    origins = {(key.table, key.name): key.origin for key in keys}
    assert origins["[report]", "page"] == "--target"
    assert origins["[run]", "instance_tile"] == "--set"


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("PLACE", "here")
    path = write_job(tmp_path, changed(("source.path", "{{ env_var(PLACE) }}/a.parquet")))
    setting = ("--set", "explain.observational.landmarks=7")
    shown = CliRunner().invoke(cli, ["job", str(path), *setting, "--defaults"])
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.output.splitlines()]
    assert ["landmarks", "=", "7", "#", "--set"] in lines
    assert ["holdout", "=", "0.1", "#", "default"] in lines
    assert ["path", "=", f'"{tmp_path}/here/a.parquet"', "#", "job", "file"] in lines
    plain = CliRunner().invoke(cli, ["job", str(path)])
    assert "holdout" not in plain.output
    assert "landmarks = 20" in plain.output
    as_json = CliRunner().invoke(cli, ["job", str(path), "--json"])
    assert {
        "table": "[job]",
        "index": 0,
        "name": "name",
        "value": "small",
        "origin": "job file",
    } in (json.loads(as_json.output)["keys"])
    refused = CliRunner().invoke(cli, ["job", str(tmp_path / "none.toml")])
    assert refused.exit_code == 2


def test_no_secret_of_a_worker_is_shown(tmp_path):
    """Neither as TOML, nor as JSON, in a notebook, or in the record of a run; other values are."""
    environment = {"AWS_SECRET_ACCESS_KEY": "hunter2", "LC_ALL": "here"}
    given = changed(("cluster", {"kind": "local"}), ("worker", {"environment": environment}))
    path = write_job(tmp_path, given)
    setting = 'worker.environment={ TOKEN = "hunter2", LC_ALL = "here" }'
    for words in ([], ["--json"], ["--set", setting], ["--set", setting, "--json"]):
        shown = CliRunner().invoke(cli, ["job", str(path), *words])
        assert shown.exit_code == 0, shown.output
        assert "hunter2" not in shown.output
        assert "here" in shown.output
    page = parse_job(given)._repr_html_()
    assert "hunter2" not in page
    assert "here" in page
    (told,) = Command(str(path), (setting,)).arguments["set"]
    assert "hunter2" not in told
    assert "here" in told


NO_PLACE = {
    "marginal": {"weights"},  # of rows that a job does not list: selection = "thinning" weighs them
    "tokens": {"tokenizer", "column"},  # keys of [source]
    "trees": {"output_names", "weights"},  # [model] classes; of rows that a job does not list
    "linear_gaussian": {"intercept", "mean", "covariance", "transform"},  # the model's; the table's
    "kernel_ridge": {"intercept"},  # the mean of the target
}
"""Kind -> parameters of its constructor that a job file has no key for, as it fills them in."""


@pytest.mark.parametrize(
    ("kinds", "kind"),
    [(kinds, kind) for kinds in (VALUES, DESIGNS, MODELS) for kind in kinds.known],
    ids=lambda given: given if isinstance(given, str) else given.tag,
)
def test_every_parameter_has_a_key(kinds, kind):
    record = kinds.records[kind]
    if not hasattr(record, "making"):
        return
    left = inspect.signature(record.making).parameters.keys() - {*record.options, *record.parts}
    assert left == NO_PLACE.get(kind, set())


def test_every_value_function_and_option_of_explain_has_a_place():
    """A new one without a key fails here."""
    made = {record.making for record in VALUES.records.values()}
    public = {
        each
        for each in vars(dshap.values).values()
        if inspect.isclass(each)
        and issubclass(each, dshap.ValueFunction)
        and not inspect.isabstract(each)
    }
    assert public - made == set()
    elsewhere = {"missing", "max_coalitions", "dtype", "tol", "wait", "codes", "undo_codes"}
    assert set(inspect.signature(RunOptions).parameters) - set(Run.model_fields) == elsewhere
    places = {
        "value": "explain", "rows": "source", "design": "design", "store": "job",
        "client": "cluster", "key": "source", "tol": "design", "max_coalitions": "design",
        "quality": "explain", "classes": "model", "columns": "columns", "card": "card",
        "what_if": "report", "keep_rows": "run",
    }  # fmt: skip
    not_in_files = {"compute", "progress", "options"}
    assert set(inspect.signature(dshap.explain).parameters) == places.keys() | not_in_files
    assert set(places.values()) <= TABLES.keys()


@pytest.mark.parametrize("setting", ["source.options.password=hush", "sink.WRONG.auth_token=hush"])
def test_a_setting_of_a_secret_is_masked_by_its_name(setting):
    assert shown_setting(setting) == f"{setting.partition('=')[0]}=***"
