"""Paths of job files: "~", variables, addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from dshap.core.environment import with_environment
from dshap.core.errors import InputError
from dshap.jobfile.paths import database_of, path_key, path_of
from dshap.jobfile.schema import TABLES
from dshap.jobs import load_job, parse_job
from tests.jobs.job_files import JOB, changed, write_job


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ env_var(PLACE) }}/a", "there/a"),
        ("{{env_var('PLACE')}}/a", "there/a"),
        ('x/{{ env_var( "PLACE" ) }}/{{ env_var(PLACE) }}', "x/there/there"),
        ('{{ env_var(PLACE, "default") }}', "there"),
        ('{{ env_var("NO_SUCH_PLACE", "default") }}', "default"),
        ("{{ env_var(NO_SUCH_PLACE, '') }}a", "a"),
        ("a{b}", "a{b}"),
    ],
)
def test_variables(text, value, monkeypatch):
    monkeypatch.setenv("PLACE", "there")
    assert with_environment(text) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "{{ env_var(NO_SUCH_PLACE) }}",
            "the environment variable NO_SUCH_PLACE is not set: set it, or give a default",
        ),
        ("{{ PLACE }}", r"\{\{ PLACE \}\} is not known: write \{\{ env_var\(NAME\) \}\}, or"),
        ("{{ env_var(PLACE, default) }}", "is not known"),
        ("{{ env_var('PLACE\") }}", "is not known"),
    ],
)
def test_variables_that_are_refused(text, said):
    with pytest.raises(ValueError, match=said):
        with_environment(text)


def test_where_paths_lead(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("PLACE", "/data")
    folder = Path("/jobs")
    assert path_of("a/../b.zarr", "store", folder) == "/jobs/b.zarr"
    assert path_of("../b/*.parquet", "table", folder) == "/b/*.parquet"
    assert path_of("~/a", "store", folder) == "/home/me/a"
    assert path_of("{{ env_var(PLACE) }}/a", "store", folder) == "/data/a"
    assert path_of("file:///data/a", "store", folder) == "/data/a"
    assert path_of("a", "store") == str(tmp_path / "a")
    monkeypatch.setenv("PLACE", "")
    with pytest.raises(ValueError, match="the path is empty"):
        path_of("{{ env_var(PLACE) }}", "store", folder)


def test_every_path_of_the_schema_is_known():
    """A key that holds a path and has another type would be relative to something else."""
    known = {
        (table, key)
        for table, kinds in TABLES.items()
        for record in kinds.records.values()
        for key, field in record.model_fields.items()
        if path_key(field)
    }
    assert known == {
        ("job", "store"),
        ("source", "path"),
        ("source", "uri"),
        ("source", "connection"),
        ("model", "path"),
        ("cluster", "certificates"),
        ("cluster", "file"),
        ("cluster", "profile"),
        ("explain", "vocabulary"),
        ("report", "page"),
        ("report", "picture"),
        ("sink", "uri"),
        ("sink", "connection"),
        ("run", "scratch"),
        ("seal", "key"),
        ("sink", "codes"),
        ("sink", "path"),
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("job.store", "ftp://host/a.zarr"), "stores on ftp are not supported: give a folder"),
        (
            ("job.store", "hdfs://bucket/a.zarr"),
            "stores on hdfs are not supported: give a folder, or",
        ),
        (("job.store", "s3://id:SECRET@bucket/a.zarr"), "leave credentials and options out"),
        (
            ("job.store", "postgresql://user:SECRET@host/db"),
            r"store = \"postgresql://user:\*\*\*@host/db\": stores on p",
        ),
        (
            ("source.path", "postgresql://user:SECRET@host/db"),
            "tables on postgresql are not supported: read it first",
        ),
        (
            ("source.path", "mysql://user:SECRET" + "x" * 200 + "@host/db"),
            r"mysql://user:\*\*\*@host",
        ),
        (("source.url", "postgresql://user:SECRET@host/db"), "unknown key 'url'"),
        (
            ("source.key", ["a", "postgresql://user:SECRET@host/db", 1]),
            "column name, or a list of names",
        ),
        (
            ("report", {"picture": "https://h/a.png?sig=SECRET"}),
            r"picture = \"https://h/a.png\?sig=\*\*\*\": pictures",
        ),
        (
            ("cluster", {"kind": "python", "file": "ssh://me:SECRET@h/a.py"}),
            "files on ssh are not supported",
        ),
        (
            ("job.store", "{{ env_var(NO_SUCH_PLACE) }}/a"),
            "the environment variable NO_SUCH_PLACE is not set",
        ),
        (("job.store", r"a\u0000b"), "NUL character"),
    ],
)
@pytest.mark.parametrize("door", ["file", "mapping"])
def test_addresses_in_jobs(change, said, door, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place, value = change
    with pytest.raises(InputError, match=said) as caught:
        if door == "file":
            load_job(write_job(tmp_path, changed(change)))
        else:
            parse_job(
                changed(
                    (place, value.replace(r"\u0000", "\0") if isinstance(value, str) else value)
                )
            )
    assert "SECRET" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] in ([], ["job.toml"])


def test_an_address_of_a_scheduler_has_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("SCHEDULER", "tcp://10.0.0.5:8786")
    cluster = ("cluster", {"kind": "scheduler", "address": "{{ env_var(SCHEDULER) }}"})
    assert load_job(write_job(tmp_path, changed(cluster))).cluster.address == "tcp://10.0.0.5:8786"
    monkeypatch.delenv("SCHEDULER")
    with pytest.raises(
        InputError, match=r"\[cluster\] address = .*the environment variable SCHEDULER is not set"
    ):
        parse_job(changed(cluster))


def test_settings_have_variables_too(monkeypatch, tmp_path):
    monkeypatch.setenv("PLACE", "/data")
    job = load_job(write_job(tmp_path, JOB), ["job.store={{ env_var(PLACE) }}/a.zarr"])
    assert job.job.store == "/data/a.zarr"


def test_the_file_of_a_database_is_relative_to_the_job(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP", "shop.duckdb")
    absolute = f"duckdb:///{tmp_path}/build/shop.duckdb"
    assert absolute.startswith("duckdb:////")
    assert path_of("duckdb:///build/shop.duckdb", "database", tmp_path) == absolute
    assert path_of("duckdb:///build/{{ env_var(SHOP) }}", "database", tmp_path) == absolute
    assert path_of(absolute, "database", tmp_path / "other") == absolute
    assert path_of("sqlite:///a.db", "database", tmp_path) == f"sqlite:///{tmp_path}/a.db"
    assert path_of("profiles/night.toml", "profile", tmp_path) == f"{tmp_path}/profiles/night.toml"
    assert path_of("night", "profile", tmp_path) == "night"


def test_a_job_keeps_no_secret_of_a_database(monkeypatch):
    monkeypatch.setenv("PW", "hush hush")
    given = "postgresql://me:{{ env_var(PW) }}@host/db"
    assert path_of(given, "database") == given
    assert database_of(given, None).uri == "postgresql://me:hush%20hush@host/db"
    whole = "{{ env_var(WAREHOUSE) }}"
    monkeypatch.setenv("WAREHOUSE", "postgresql://me:hush@host/db")
    assert path_of(whole, "database") == whole
    monkeypatch.delenv("PW")
    with pytest.raises(ValueError, match="PW is not set"):
        path_of(given, "database")
    with pytest.raises(InputError, match="uri: the environment variable PW is not set"):
        database_of(given, None)
    with pytest.raises(InputError, match="give one of them"):
        database_of(None, None)


def test_a_password_in_the_job_file_itself_is_refused_and_not_shown():
    for uri in ("postgresql://me:hush@host/db", "postgresql://host/db?password=hush"):
        with pytest.raises(ValueError, match="the password is written in the job file") as raised:
            path_of(uri, "database")
        assert "hush" not in str(raised.value)
    with pytest.raises(ValueError, match=r"uri begins with mysql://"):
        path_of("mysql://me@host/db", "database")
