# ruff: noqa: F811
"""`dshap check`: all that a run needs, each thing in a line, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from urllib.parse import quote

import duckdb
import pytest
from click.testing import CliRunner, Result

from dshap.cli import cli
from dshap.storage.folder import Folder
from tests.buckets import BUCKET
from tests.jobs.job_files import changed, small_table, to_toml
from tests.sinks.test_loading import run
from tests.sinks.test_rights import SECRET, mart  # noqa: F401 (a fixture)
from tests.steps.test_nightly_cubes import model, shop  # noqa: F401 (fixtures)


def write(shop, **changes):
    """The job file of a shop, with a sink in a database and one in a folder."""
    folder = shop.folder
    sinks = [
        {"uri": f"duckdb:///{folder}/mart.duckdb", "table": "reasons"},
        {"path": f"{folder}/out für alle", "name": "lake"},
    ]
    (folder / "job.toml").write_text(to_toml(shop.tables(**{"sink": sinks, **changes})))
    return folder / "job.toml"


def check(path, *options, status=0) -> Result:
    """The check, which leaves nothing behind."""
    before = files_below(path.parent)
    ended = CliRunner().invoke(cli, ["check", str(path), *options])
    assert ended.exit_code == status, ended.output
    assert files_below(path.parent) == before
    return ended


def files_below(folder):
    return {each: each.stat().st_mtime_ns for each in folder.rglob("*") if each.is_file()}


def checks_of(ended):
    return json.loads(ended.stdout)["checks"]


def statuses(ended):
    return {each["thing"]: each["status"] for each in checks_of(ended)}


def test_a_job_that_is_ready(shop):
    """Before the first night, after it, and twice."""
    path = write(shop)
    lines = check(path).stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        [thing, "ok"] for thing in ("model", "source", "contract", "store", "sink", "sink")
    ]
    assert "no earlier run has columns" in lines[2]
    assert "bytes are free" in lines[3]
    assert "mart.duckdb, reasons: the first load makes the file" in lines[4]
    assert CliRunner().invoke(cli, ["run", str(path), "-q"]).exit_code == 0
    for _ in range(2):
        lines = check(path).stdout.splitlines()
        assert "the 5 columns of the previous run" in lines[2]
        assert lines[4].endswith("reasons: it can be loaded")
    assert check(path, "-q").stdout == ""
    found = json.loads(check(path, "--json").stdout)
    assert found["is_ready"]
    assert found["job"] == "churn"
    assert len(found["checks"]) == 6
    assert {each["exit_status"] for each in found["checks"]} == {0}


def test_all_failures_are_told_and_the_first_decides_the_status(shop):
    path = write(shop)
    assert CliRunner().invoke(cli, ["run", str(path), "-q"]).exit_code == 0
    shop.model.unlink()
    with duckdb.connect(str(shop.folder / "shop.duckdb")) as connection:
        connection.execute("alter table customers add column neu integer")
    with duckdb.connect(str(shop.folder / "mart.duckdb")) as connection:
        connection.execute("alter table reasons drop column status")
    (shop.folder / "out für alle" / "current").unlink()
    (shop.folder / "out für alle" / "mine").mkdir()
    ended = check(path, "--json", status=2)
    failed = [each["thing"] for each in checks_of(ended) if each["status"] == "failed"]
    assert failed == ["model", "contract", "sink", "sink"]
    assert "4 of 6 checks failed: model, contract, sink, sink" in ended.stderr.splitlines()[-1]
    said = {each["thing"]: each["message"] for each in checks_of(ended)}
    assert "model.json" in said["model"]
    assert "'neu'" in said["contract"]
    assert "it lacks 'status'" in checks_of(ended)[4]["message"]
    assert "contains other files" in said["sink"]


@pytest.mark.parametrize(
    ("change", "thing", "status", "said"),
    [
        ({"table": "no_such_table"}, "source", 2, "no_such_table"),
        ({"features": ["a", "nirgends"]}, "model", 2, "nirgends"),
        ({"key": ["nirgends"]}, "source", 2, "nirgends"),
        ({"freshness": {"column": "loaded", "error_after": "1h"}}, "source", 9, "freshness"),
        ({"uri": "duckdb:///none.duckdb"}, "source", 2, "there is no file"),
    ],
)
def test_a_source_that_a_run_would_refuse(shop, monkeypatch, change, thing, status, said):
    """A run ends with the same status."""
    monkeypatch.chdir(shop.folder)
    shop.table["loaded"] = "2026-01-01 00:00:00"
    shop.put()
    path = write(shop, source={**shop.tables()["source"], **change})
    ended = check(path, "--json", status=status)
    (failed,) = [each for each in checks_of(ended) if each["status"] == "failed"]
    assert failed["thing"] == thing
    assert said in failed["message"]
    assert failed["exit_status"] == status
    assert CliRunner().invoke(cli, ["run", str(path), "-q"]).exit_code == status


def test_a_contract_needs_columns(shop):
    path = write(shop, source={**shop.tables()["source"], "table": "none"})
    assert statuses(check(path, "--json", status=2))["contract"] == "not checked"
    assert "not checked, because the columns" in check(path, status=2).stdout


def test_a_date_before_the_last_run(shop):
    """`check` and `plan` refuse it as `run` does."""
    path = write(shop)
    run = ["run", str(path), "-q", "--as-of", "2026-11-20"]
    assert CliRunner().invoke(cli, run).exit_code == 0
    for command in ("check", "plan", "run"):
        ended = CliRunner().invoke(cli, [command, str(path), "--as-of", "2026-11-10"])
        assert ended.exit_code == 2, ended.output
        assert "is for 2026-11-20" in ended.output, ended.output
        ended = CliRunner().invoke(cli, [command, str(path), "--as-of", "2026-11-20"])
        assert ended.exit_code == 0, ended.output


def test_a_store_of_something_else(shop):
    path = write(shop)
    (shop.folder / "store").mkdir()
    (shop.folder / "store" / "mine.txt").write_text("")
    ended = check(path, "--json", status=4)
    assert statuses(ended)["store"] == "failed"


def test_a_sink_that_cannot_be_reached_fails(shop):
    """A run would go on, and load the sink at its end where it is there again."""
    path = write(shop)
    os.mkdir(shop.folder / "mart.duckdb")
    ended = check(path, "--json", status=2)
    assert [each["status"] for each in checks_of(ended)][-2:] == ["failed", "ok"]


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    small_table().to_parquet(tmp_path / "table.parquet")
    return tmp_path / "job.toml"


def test_a_table_in_its_place_and_a_model_that_the_run_fits(small):
    sinks = [{"explain": "interventional", "uri": "sqlite:///m.sqlite", "table": "t"}]
    small.write_text(to_toml(changed(("sink", sinks))))
    lines = check(small).stdout.splitlines()
    assert "the run fits it" in lines[0]
    assert "it opens" in lines[1]
    small.write_text(to_toml(changed(("source.path", "none.parquet"))))
    assert "none.parquet" in check(small, status=2).stdout


def test_csv_files(small):
    small_table().to_csv(small.parent / "table.csv", index=False)
    source = {**changed()["source"], "kind": "csv", "path": "table.csv"}
    small.write_text(to_toml(changed(("source", source))))
    assert "it opens" in check(small).stdout.splitlines()[1]


def test_made_up_rows(small):
    source = {"kind": "synthetic", "name": "powerlifting", "rows": 300}
    given = {"kind": "import", "function": "made_up_model:predict"}
    (small.parent / "made_up_model.py").write_text("def predict(x):\n    return x[:, 0]\n")
    explain = [{"name": "r", "value": "marginal", "background": 5}]
    small.write_text(to_toml(changed(("source", source), ("model", given), ("explain", explain))))
    found = CliRunner().invoke(cli, ["check", str(small), "--json"])
    assert found.exit_code == 0
    assert statuses(found)["contract"] == "not checked"


def test_a_model_whose_module_raises(small):
    given = {"kind": "import", "function": "broken_check_model:predict"}
    (small.parent / "broken_check_model.py").write_text("raise RuntimeError('kaputt')\n")
    explain = [{"name": "r", "value": "marginal", "background": 5}]
    small.write_text(
        to_toml(changed(("model", given), ("explain", explain), ("source.target", None)))
    )
    found = CliRunner().invoke(cli, ["check", str(small), "--json"])
    assert found.exit_code == 2
    assert statuses(found) == {
        "model": "failed",
        "source": "ok",
        "contract": "ok",
        "store": "ok",
    }
    assert "kaputt" in checks_of(found)[0]["message"]


def test_a_store_in_a_bucket(small, s3):
    """A probe object is put, and deleted."""
    small.write_text(to_toml(changed(("job.store", f"s3://{BUCKET}/checked/out"))))
    lines = check(small).stdout.splitlines()
    assert lines[3].endswith("checked/out: it can be written")
    assert "checked" not in Folder(f"s3://{BUCKET}").list()
    small.write_text(to_toml(changed(("job.store", "s3://none-such/out"))))
    assert "there is no bucket 'none-such'" in check(small, status=2).stdout


@pytest.mark.slow
def test_a_role_of_postgresql(shop, mart, monkeypatch):
    """What check and run refuse before a row is read, until it is granted as the messages say."""
    monkeypatch.setenv("MART_PASSWORD", SECRET)
    uri = mart.loader.uri.replace(quote(SECRET, safe=""), "{{ env_var(MART_PASSWORD) }}")
    path = write(shop, sink=[{"uri": uri, "table": f"{mart.schema}.reasons"}])
    for rights in (["USAGE"], ["TEMPORARY", "CREATE"]):
        (line,) = [each for each in check(path, status=2).stdout.splitlines() if "failed" in each]
        assert re.findall(r"lacks (\w+) on", line) == rights
        assert SECRET not in line
        ran = CliRunner().invoke(cli, ["run", str(path), "-q"])
        assert ran.exit_code == 2
        assert f"GRANT {rights[-1]} ON" in ran.stderr
        assert not (shop.folder / "store").exists()
        run(mart.owner, *re.findall(r'GRANT .*? TO "[^"]*"', line))
    for _ in range(2):
        check(path)
        assert CliRunner().invoke(cli, ["run", str(path), "-q"]).exit_code == 0
    monkeypatch.setenv("MART_PASSWORD", "something else")
    for command in ("check", "plan", "run"):
        ended = CliRunner().invoke(cli, [command, str(path)])
        assert ended.exit_code == 2
        assert "password authentication failed" in ended.output
        assert "something" not in ended.output


def test_a_mistake_in_the_command(small):
    small.write_text(to_toml(changed()))
    assert "unknown command 'chek'; did you mean" in CliRunner().invoke(cli, ["chek"]).stderr
    told = CliRunner().invoke(cli, ["check", str(small), "--as-off", "2026-11-20"])
    assert told.exit_code == 2
    assert "--as-of" in told.stderr
