"""Every exit status of a run is provoked here, alone and several at once, as docs/schedules.md lists
them; and what the same command does afterwards."""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from dshap import errors
from dshap.cli import cli
from dshap.history.run_record import read_records
from dshap.storage.running import alone
from tests.jobs.job_files import nightly_job

N_ROWS = 60
MODEL = """
import os

def predict(x):
    if os.environ.get("HOT") and (x[:, 0] > 5.5).any():
        raise RuntimeError("sensor out of range")
    if os.environ.get("STOP"):
        raise KeyboardInterrupt
    return x[:, 0] * x[:, 1] + x[:, 2]
"""
JOB = nightly_job("my_status_model:predict", "duckdb:///shop.duckdb", "duckdb:///mart.duckdb")
STALE = 'freshness = { column = "loaded_at", error_after = "24h" }\n[model]'
LATE = f'[[check]]\nkind = "row_count"\nerror = {N_ROWS + 1}\n'
FEW_FAILED = '[[check]]\nkind = "failed_rows"\nerror = 1_000\n'
DRIFT = '[[check]]\nkind = "drift"\nmetric = "{}"\nerror = {}\n'
NO_FAILED = '[[check]]\nkind = "failed_rows"\nerror = 0\n'


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_status_model.py").write_text(MODEL)
    rows = ", ".join(f"({i}, {i % 7}, {i % 5}.25, {i % 3}.5)" for i in range(N_ROWS))
    loaded = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=3)
    with duckdb.connect("shop.duckdb") as shop:
        shop.execute(
            "create table customers as select *, timestamptz "
            f"'{loaded.isoformat()}' as loaded_at from (values {rows}) as given(id, a, b, c)"
        )
    yield tmp_path
    sys.modules.pop("my_status_model", None)


def run(text: str = JOB, *options: str) -> Result:
    Path("job.toml").write_text(text)
    return CliRunner().invoke(cli, ["run", "job.toml", *options])


def last_error(result: Result) -> str:
    return result.stderr.splitlines()[-1]


def take_away_the_sink() -> None:
    """A folder stands where the database of the sink was."""
    Path("mart.duckdb").mkdir()


def loaded_lines() -> int:
    with duckdb.connect("mart.duckdb", read_only=True) as mart:
        return mart.execute("select count(*) from reasons").fetchall()[0][0]


def status_of_records() -> list[int]:
    return [each.about["exit_status"] for each in read_records(Path("build/shop")) if each.is_over]


def test_0_done_and_nothing_to_do(folder):
    assert run().exit_code == 0
    assert loaded_lines() == N_ROWS
    assert run().exit_code == 0
    assert status_of_records() == [0, 0]


def test_the_record_of_a_night(folder):
    """The third: rows that changed and a key that is gone, read, explained, loaded and told."""
    parser = pytest.importorskip("dbt_artifacts_parser.parser")
    for _ in range(2):
        assert run().exit_code == 0
    with duckdb.connect("shop.duckdb") as shop:
        shop.execute("update customers set a = 3.5 where id in (5, 6)")
        shop.execute("delete from customers where id = 7")
    shown = run().stdout.splitlines()
    stages = [line for line in shown if line.startswith(("rows read", "sink reasons "))]
    assert [line.split()[2] for line in stages] == ["59", "2"]
    assert shown[-2].startswith(
        "reasons: 59 rows, 0 new, 2 changed, 57 as before, 1 deleted, 57 carried and 2 explained, "
        "0 failed, "
    )
    third = read_records(Path("build/shop"))[-1]
    assert len(parser.parse_run_results_v6(dict(third.content)).results) == 2
    response = third.explanation("reasons")["adapter_response"]
    assert response["keys"] == {
        "new": 0, "changed": 2, "unchanged": 57, "deleted": 1, "failed": 0, "damaged": 0,
    }  # fmt: skip
    assert response["source"]["kind"] == "duckdb"
    assert response["source"]["rows"] == 59
    assert response["prepared"]["reused"]
    assert response["prepared"]["reason"] is None
    (sink,) = third.named("sink")
    assert sink["relation_name"] == f"duckdb:///{folder}/mart.duckdb, reasons"
    assert sink["adapter_response"]["deleted"] == 1
    assert sink["timing"]


def test_99_nothing_to_do_with_a_code_of_ones_own(folder):
    assert run(JOB, "--skip-code", "99").exit_code == 0
    assert run(JOB, "--skip-code", "99").exit_code == 99
    assert status_of_records() == [0, 0]


def test_1_a_bug(folder, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("not foreseen")

    monkeypatch.setattr("dshap.jobs.run_recorded", broken)
    assert "this is a bug" in last_error(run())
    assert run().exit_code == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[model]", "[modle]"),
        ("from customers", "from no_such_table"),
        ('"duckdb:///shop.duckdb"', '"duckdb:///none.duckdb"'),
        ('key = ["id"]', 'key = ["b"]'),  # its values are repeated
    ],
)
def test_2_bad_input(folder, old, new):
    assert run(JOB.replace(old, new, 1)).exit_code == 2
    assert status_of_records() == []
    assert not list(folder.glob("build/shop/parts/*"))


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (
            'uri = "duckdb:///mart.duckdb"\ntable = "_dshap_runs"',
            "names that begin with _dshap_ belong to tables",
        ),
        (f'uri = "postgresql://me@127.0.0.1:1/db"\ntable = "{"r" * 64}"', "63"),
    ],
)
def test_2_a_sink_that_cannot_be_loaded_is_refused_before_rows_are_explained(folder, sink, said):
    text = JOB.replace('uri = "duckdb:///mart.duckdb"\ntable = "reasons"', sink)
    assert text != JOB
    refused = run(text)
    assert refused.exit_code == 2, refused.output
    assert said in last_error(refused), refused.output
    assert not list(folder.glob("build/shop/reasons/*"))
    assert status_of_records() == []


def test_3_does_not_fit(folder):
    result = run(JOB + '[run]\nmemory_limit = "100MB"\n')
    assert result.exit_code == 3
    assert "memory_limit" in last_error(result)


def test_4_the_store_holds_something_else(folder):
    Path("build/shop").mkdir(parents=True)
    Path("build/shop/mine.txt").write_text("precious")
    assert run().exit_code == 4
    assert [path.name for path in Path("build/shop").iterdir()] == ["mine.txt"]


def test_5_failed_rows_and_the_same_command_again(folder, monkeypatch):
    monkeypatch.setenv("HOT", "1")
    failed = run()
    assert failed.exit_code == 5
    assert "rows have no attribution" in last_error(failed)
    monkeypatch.delenv("HOT")
    assert run().exit_code == 0
    assert status_of_records()[-1] == 0


def test_6_locked(folder):
    with alone(Path("build/shop"), "a run"):
        assert run().exit_code == 6
    assert status_of_records() == []


def test_7_damaged(folder):
    run()
    (cube,) = folder.glob("build/shop/reasons/2*")
    (cube / "zarr.json").write_text("{")
    damaged = run()
    assert damaged.exit_code == 7
    assert "--repair" in last_error(damaged)


def test_8_a_check(folder):
    late = run(JOB + LATE)
    assert late.exit_code == 8
    assert "check row_count: the table has 60 rows" in last_error(late)
    assert loaded_lines() == N_ROWS  # written, then judged
    assert status_of_records() == [8]


def test_8_a_check_before_the_sinks(folder):
    late = run(JOB + LATE + "blocks_sinks = true\n")
    assert late.exit_code == 8
    assert not Path("mart.duckdb").exists()
    (record,) = read_records(Path("build/shop"))
    assert [each["status"] for each in record.named("sink")] == ["skipped"]
    assert run().exit_code == 0
    assert loaded_lines() == N_ROWS


def test_8_the_attributions_of_a_column_have_drifted(folder):
    job = (
        JOB
        + DRIFT.format("psi", 0.25)
        + DRIFT.format("wasserstein", 100).replace("kind", 'name = "distance"\nkind')
    )
    first = run(job)
    assert first.exit_code == 0
    assert "check drift: skipped: there is no" in first.stdout
    with duckdb.connect("shop.duckdb") as shop:
        shop.execute("update customers set c = c + 6")
    night = run(job)
    assert night.exit_code == 8
    assert status_of_records() == [0, 8]
    (said,) = re.findall(r"check drift: (PSI of c is .*)", last_error(night))
    psi = float(said.split()[4])
    assert "; error = 0.25 allows at most 0.25" in said
    assert "check distance: pass: the Wasserstein" in night.stdout
    # the same numbers by hand
    diff = CliRunner().invoke(cli, ["diff", "build/shop", "--fail-above", "psi=0.25", "--json"])
    (output,) = json.loads(diff.stdout)["outputs"]
    assert diff.exit_code == 8
    assert last_error(diff).endswith(f"psi is above 0.25: c {psi:.4g}")
    assert (output["features"][0]["feature"], output["n_changed"]) == ("c", 60)
    assert output["features"][0]["psi"] == pytest.approx(psi, rel=1e-3)
    assert output["rows"][0]["key"].keys() == {"id"}
    shown = CliRunner().invoke(cli, ["diff", "build/shop", "--fail-above", "psi=99", "--rows", "2"])
    assert shown.exit_code == 0
    assert "\nc moved most: Wasserstein " in shown.stdout
    assert CliRunner().invoke(cli, ["diff", "build/shop", "-q"]).stdout == ""
    # the third night has no other rows: it is compared with the first, until the second is accepted
    assert run(job).exit_code == 8
    second = read_records(Path("build/shop"))[1].run_id
    assert run(job, "--accept", second).exit_code == 0
    assert run(job).exit_code == 0


def test_9_a_stale_source(folder):
    stale = run(JOB.replace("[model]", STALE))
    assert stale.exit_code == 9
    assert "loaded_at" in last_error(stale)
    assert stale.stdout == ""
    assert not list(folder.glob("build/shop/parts/*"))
    assert not list(folder.glob("build/shop/reasons/*"))
    assert run().exit_code == 0
    assert status_of_records()[-1] == 0


def test_10_a_sink_and_then_only_the_sink(folder):
    take_away_the_sink()
    down = run()
    assert down.exit_code == 10
    assert "[[sink]] reasons" in last_error(down)
    Path("mart.duckdb").rmdir()
    assert run().exit_code == 0
    assert loaded_lines() == N_ROWS
    assert status_of_records() == [10, 0]
    assert len(list(folder.glob("build/shop/reasons/2*"))) == 1  # nothing was explained anew


def test_130_interrupted_and_gone_on_with(folder, monkeypatch):
    monkeypatch.setenv("STOP", "1")
    assert run().exit_code == 130
    monkeypatch.delenv("STOP")
    assert run().exit_code == 0
    assert loaded_lines() == N_ROWS


# worst first: 7, 10, 5, 8; a declared check of failed rows decides in the place of 5
@pytest.mark.parametrize(
    ("is_hot", "is_down", "checks", "status"),
    [
        (True, True, LATE, 10),
        (False, True, LATE, 10),
        (True, True, "", 10),
        (True, False, LATE, 5),
        (True, False, FEW_FAILED, 0),
        (True, False, NO_FAILED, 8),
        (True, False, FEW_FAILED + LATE, 8),
        (True, True, NO_FAILED, 10),
    ],
)
def test_several_at_once(folder, monkeypatch, is_hot, is_down, checks, status):
    if is_hot:
        monkeypatch.setenv("HOT", "1")
    if is_down:
        take_away_the_sink()
    ended = run(JOB + checks)
    assert ended.exit_code == status, ended.output
    assert status_of_records() == [status]
    if checks == LATE:
        assert "; check row_count: the table has 60 rows" in last_error(ended)


def test_every_exit_status_of_an_error_is_here():
    known = {
        each.exit_status
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.DshapError)
    }
    tested = {
        int(name.split("_")[1])
        for name in globals()
        if name.startswith("test_") and name.split("_")[1].isdigit()
    }
    # 11 is of `dshap verify`: tests/test_cli.py
    assert known - {11} <= tested
    assert {0, 1, 99} <= tested


def test_8_rows_that_have_drifted(folder):
    """`dshap drift` over two tables, in words, as JSON, and with a level."""
    rng = np.random.default_rng(0)
    before = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    before["id"] = np.arange(300)
    now = before.assign(a=rng.permutation(before["a"]) + 1.0)
    before.to_parquet("before.parquet")
    now.to_csv("now.csv", index=False)
    words = ["drift", "before.parquet", "now.csv", "--key", "id", "--permutations", "99"]
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0
    assert "\nthe rows have drifted: MMD² " in shown.stdout
    assert "\na  " in shown.stdout
    assert "without drift; p = 0.01 by 99 permutations" in shown.stdout
    beyond = CliRunner().invoke(cli, [*words, "--level", "0.05", "--json"])
    found = json.loads(beyond.stdout)
    assert beyond.exit_code == 8
    assert "dshap: the rows have drifted: MMD²" in last_error(beyond)
    assert (found["columns"][0]["column"], found["p_value"]) == ("a", 0.01)
    assert len(found["rows"]) == 10
    assert found["rows"][0]["key"].keys() == {"id"}
    before[["b"]].assign(b=0.1, c=0.3).to_parquet("constant.parquet")
    same = ["drift", "constant.parquet", "constant.parquet", "--level", "0.05", "-q"]
    assert CliRunner().invoke(cli, same).exit_code == 0
    alone = [*words, "--column", "b", "--column", "c", "--level", "0.05", "-q"]
    quiet = CliRunner().invoke(cli, alone)
    assert quiet.exit_code == 0
    assert quiet.stdout == ""
