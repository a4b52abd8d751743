"""Every `dshap run` leaves a record: its facts, its checks, its exit status, and its lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import dshap
from dshap.cli import cli
from dshap.core.places import place_of
from dshap.history.run_record import read_records
from dshap.storage.folder import Folder
from tests.buckets import BUCKET
from tests.jobs.job_files import changed, small_table, write_job

FAILING = """
import numpy as np

def fails_when_hot(x):
    if (x[:, 1] > 90).any():
        raise RuntimeError("sensor out of range")
    return x @ np.arange(1.0, x.shape[1] + 1)
"""
BLACK_BOX = (
    ("model", {"kind": "import", "function": "my_hot_models:fails_when_hot"}),
    ("source.target", None),
    ("explain", [{"name": "reasons", "value": "marginal", "background": 5}]),
)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    small_table().to_parquet(tmp_path / "table.parquet")
    (tmp_path / "my_hot_models.py").write_text(FAILING)
    yield tmp_path
    sys.modules.pop("my_hot_models", None)


def hot(folder: Path, n: int) -> None:
    """Let the model fail for the first n rows."""
    table = small_table()
    table.loc[: n - 1, "temp"] = 99.0
    table.to_parquet(folder / "table.parquet")


def run(folder: Path, *changes, options: tuple[str, ...] = ()) -> Result:
    path = write_job(folder, changed(*changes))
    return CliRunner().invoke(cli, ["run", str(path), *options])


@pytest.mark.slow
def test_the_record_of_a_job(folder):
    assert run(folder, *BLACK_BOX, options=("--as-of", "2026-11-27")).exit_code == 0
    (record,) = read_records(folder / "out.zarr")
    result = record.explanation("reasons")
    response = result["adapter_response"]
    assert result["status"] == "success"
    assert result["execution_time"] > 0
    assert result["relation_name"] == str(folder / "out.zarr" / "reasons")
    assert response["source"]["kind"] == "parquet"
    assert response["source"]["rows"] == 300
    unknown = dict.fromkeys(("sha256", "library", "version", "rounds"))
    assert response["model"] == {"kind": "import", **unknown}
    assert response["value"] == "marginal"
    assert response["design"]["design"] == "exact"
    assert response["cost"]["planned"]["coalitions"] == 8
    assert response["accuracy"]["residual"][0] < 1e-9
    assert response["cluster"]["kind"] == "none"
    assert response["previous_run"] is None
    assert record.about["as_of"] == "2026-11-27"
    assert record.about["exit_status"] == 0
    cube = dshap.open_cube(folder / "out.zarr" / "reasons")
    magnitudes = np.abs(cube.attribution.isel(output=0)).mean("instance")
    ranking = dict(zip(cube.feature.values.tolist(), magnitudes.values, strict=True))
    assert record.ranking("reasons") == {"output": pytest.approx(ranking)}
    parser = pytest.importorskip("dbt_artifacts_parser.parser")
    assert len(parser.parse_run_results_v6(dict(record.content)).results) == 1


@pytest.mark.slow
def test_a_second_run_knows_the_first_and_has_nothing_to_do(folder):
    run(folder, *BLACK_BOX)
    again = run(folder, *BLACK_BOX, options=("--skip-code", "99", "--json"))
    first, second = read_records(folder / "out.zarr")
    assert again.exit_code == 99
    assert second.about["previous_run"] == first.run_id
    assert not second.about["has_work"]
    assert second.explanation("reasons")["status"] == "no-op"
    about = json.loads(again.stdout)["run"]
    assert about["run_id"] == second.run_id
    assert about["has_work"] is False
    assert Path(about["record"]).is_file()
    assert "; the ranking is the same as in run" in run(folder, *BLACK_BOX).stdout.splitlines()[-1]


def test_work_is_not_skipped(folder):
    assert run(folder, *BLACK_BOX, options=("--skip-code", "99")).exit_code == 0


@pytest.mark.parametrize("code", ["5", "130", "256", "-1"])
def test_a_code_that_means_something_else_is_refused(folder, code):
    refused = run(folder, *BLACK_BOX, options=("--skip-code", code))
    assert refused.exit_code == 2
    assert f"--skip-code {code}: give a number" in refused.stderr


def test_a_day_that_is_none(folder):
    for command in ("run", "plan"):
        path = write_job(folder, changed(*BLACK_BOX))
        refused = CliRunner().invoke(cli, [command, str(path), "--as-of", "2026-02-30"])
        assert refused.exit_code == 2
        assert "'2026-02-30' is not a date" in refused.stderr


@pytest.mark.slow
def test_a_parquet_table_in_its_place_is_held_to_its_age_and_contract(folder):
    table = small_table()
    table["loaded_at"] = pd.Timestamp("2020-01-01 02:00:00+01:00")
    table.to_parquet(folder / "table.parquet")
    limits = {"column": "loaded_at", "error_after": "48h"}
    stale = run(folder, *BLACK_BOX, ("source.freshness", limits))
    assert stale.exit_code == 9
    assert "2020-01-01T01:00:00Z" in stale.stderr
    assert not (folder / "out.zarr" / "reasons").exists()
    planned = CliRunner().invoke(cli, ["plan", str(folder / "job.toml")])
    assert planned.exit_code == 9
    assert "error_after is 48h" in planned.stderr
    for column, message in (("id", '"id" is int64: name a column of times'), ("at", 'column "at"')):
        refused = run(folder, *BLACK_BOX, ("source.freshness", {**limits, "column": column}))
        assert refused.exit_code == 2
        assert message in refused.stderr
    late = ("source.freshness", {"column": "loaded_at", "warn_after": "48h"})
    done = run(folder, *BLACK_BOX, late, ("source.contract", {}))
    assert done.exit_code == 0
    assert "warning: [source] freshness" in done.stderr
    source = read_records(folder / "out.zarr")[-1].explanation("reasons")["adapter_response"][
        "source"
    ]
    assert source["freshness"]["status"] == "warn"
    assert source["rows"] == 300
    assert source["digest"]
    assert source["freshness"]["max_loaded_at"] == "2020-01-01T01:00:00Z"
    table.assign(more=1).to_parquet(folder / "table.parquet")
    promises = ("source.contract", {"columns": "freeze"})
    more = run(folder, *BLACK_BOX, promises)
    assert more.exit_code == 0
    assert "does not use differ from the run before, new: 'more'" in more.stderr
    source = read_records(folder / "out.zarr")[-1].explanation("reasons")["adapter_response"][
        "source"
    ]
    assert source["snapshot"]["changes"] == {"new": ["more"]}
    again = run(folder, *BLACK_BOX, promises)
    assert again.exit_code == 0
    assert "contract" not in again.stderr
    table.drop(columns="hum").assign(more=1).to_parquet(folder / "table.parquet")
    changed_columns = run(folder, *BLACK_BOX, promises)
    assert changed_columns.exit_code == 2
    assert "run before, gone: 'hum'" in changed_columns.stderr
    table.astype({"hum": str}).assign(more=1).to_parquet(folder / "table.parquet")
    changed_type = run(folder, *BLACK_BOX, promises)
    assert changed_type.exit_code == 2
    assert "contract: other types" in changed_type.stderr
    table.assign(more=1).to_parquet(folder / "table.parquet")
    assert run(folder, *BLACK_BOX).exit_code == 0  # a job without promises is not held to any


def checks(*tables: dict) -> tuple:
    return ("check", list(tables))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "status", "said"),
    [
        ({"error": 3}, 0, "pass"),
        ({"warn": 2, "error": 3}, 0, "warn"),
        ({"error": 2}, 8, "fail"),
    ],
)
def test_a_check_of_failed_rows_decides_in_the_place_of_their_exit_status(
    folder, bounds, status, said
):
    hot(folder, 3)
    result = run(folder, *BLACK_BOX, checks({"kind": "failed_rows", **bounds}))
    (record,) = read_records(folder / "out.zarr")
    assert result.exit_code == status == record.about["exit_status"], result.output
    (judged,) = record.named("check")
    assert judged["status"] == said
    assert judged["adapter_response"]["value"] == 3.0
    assert record.explanation("reasons")["status"] == "partial success"
    if status == 8:
        assert "dshap: check failed_rows: 3 of 300 rows failed; error = 2 allows at most 2" in (
            result.stderr
        )
    assert ("warning: check failed_rows" in result.stderr) == (said == "warn")


@pytest.mark.slow
def test_failed_rows_without_a_check_and_a_check_beside_them(folder):
    hot(folder, 3)
    assert run(folder, *BLACK_BOX).exit_code == 5
    both = run(folder, *BLACK_BOX, checks({"kind": "row_count", "error": 1_000}))
    assert both.exit_code == 5
    assert "reasons: 3 of 300 rows have no attribution" in both.stderr
    assert "; check row_count: the table has 300 rows; error = 1000" in both.stderr
    assert run(folder, *BLACK_BOX, options=("-q",)).exit_code == 5


def test_a_check_alone(folder):
    late = run(folder, *BLACK_BOX, checks({"kind": "row_count", "error": 1_000}))
    assert late.exit_code == 8
    assert "check row_count: error: the table has 300" in late.stdout
    named = checks({"kind": "drift", "error": 0.9, "against": "20260101T000000Z"})
    assert run(folder, *BLACK_BOX, named).exit_code == 2


def test_a_table_without_rows_makes_no_store_and_no_record(folder):
    small_table().iloc[:0].to_parquet(folder / "table.parquet")
    result = run(folder, *BLACK_BOX, options=("--skip-code", "99"))
    assert result.exit_code == 99
    assert not (folder / "out.zarr").exists()


def test_a_refused_run_leaves_nothing(folder):
    assert run(folder, *BLACK_BOX, ("source.features", ["hr", "none"])).exit_code == 2
    assert not (folder / "out.zarr").exists()


def test_lines_for_machines(folder):
    hot(folder, 3)
    result = run(folder, *BLACK_BOX, options=("--log", "json"))
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert all("time" in line for line in lines)
    by_event = {line["event"]: line for line in lines}
    started = lines[0]
    assert started["event"] == "started"
    assert started["explanations"] == ["reasons"]
    assert (started["part"], started["shard"], started["cluster"]) == ("run", None, "none")
    begun = [line for line in lines if line["event"] == "stage_started"]
    assert {"stage": "evaluation", "explanation": "reasons", "total": 300}.items() <= (
        begun[-1].items()
    )
    failed = by_event["failed_rows"]
    assert (failed["explanation"], failed["rows"]) == ("reasons", 3)
    assert failed["blocks"] == [[0, 0]]
    assert "sensor" in failed["reason"]
    ends = [line for line in lines if line["event"] == "stage"]
    assert [(line["explanation"], line["stage"]) for line in ends] == [
        ("", "census"),
        ("reasons", "base value"),
        ("reasons", "evaluation"),
    ]
    assert {(line["explanation"], line["stage"]) for line in ends} <= {
        (line["explanation"], line["stage"]) for line in begun
    }
    stages = {line["stage"]: line for line in ends}
    assert stages["census"]["rows"] == stages["evaluation"]["rows"] == 300
    assert all(line["seconds"] > 0 and line["kept"] == "" for line in stages.values())
    assert "300 rows, 8 coalitions" in by_event["message"]["message"]
    assert by_event["run"]["exit_status"] == 5
    assert by_event["run"]["failed"] == {"reasons": 3}
    assert by_event["error"]["exit_status"] == 5
    assert lines[-1]["event"] == "error"
    bad = run(folder, *BLACK_BOX, ("model.function", "none_such:f"), options=("--log", "json"))
    first, line = map(json.loads, bad.stderr.splitlines())
    assert (first["event"], line["event"], line["exit_status"]) == ("started", "error", 2)


def test_a_model_in_a_file_is_named_by_its_content(folder):
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    table = small_table()
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=2)
    model.fit(table[["hr", "temp", "hum"]], table["y"]).save_model(folder / "model.json")
    changes = (
        ("model", {"kind": "xgboost", "path": "model.json"}),
        ("source.target", None),
        ("explain", [{"name": "reasons", "value": "trees"}]),
    )
    assert run(folder, *changes).exit_code == 0
    (record,) = read_records(folder / "out.zarr")
    model = record.explanation("reasons")["adapter_response"]["model"]
    assert (model["kind"], model["library"]) == ("xgboost", "xgboost")
    assert model["version"] == xgboost.__version__
    assert len(model["sha256"]) == 64


BUCKET_STORE = f"s3://{BUCKET}/jobs/small"


def files_of(store: str | Path) -> dict[str, bytes | None]:
    """name -> content of the files of the cubes of a store."""
    folder = Folder(store)
    cubes = ("interventional/", "observational/")
    return {name: folder.get(name) for name in folder.tree() if name.startswith(cubes)}


@pytest.mark.slow
def test_a_job_in_a_bucket_leaves_what_it_leaves_in_a_folder(folder, s3):
    there = ("job.store", BUCKET_STORE)
    rows = ("source.path", f"s3://{BUCKET}/rows/table.parquet")
    Folder(f"s3://{BUCKET}/rows").replace("table.parquet", Path("table.parquet").read_bytes())
    assert run(folder).exit_code == 0
    assert run(folder, there, rows).exit_code == 0
    assert files_of(BUCKET_STORE) == files_of(folder / "out.zarr")
    again = run(folder, there, rows, options=("--json",))
    assert again.exit_code == 0
    assert '"has_work": false' in again.output
    assert [record.about["exit_status"] for record in read_records(place_of(BUCKET_STORE))] == [
        0,
        0,
    ]
    for command in ("status", "show", "verify", "runs"):
        assert CliRunner().invoke(cli, [command, BUCKET_STORE]).exit_code == 0
    inside = run(folder, ("job.store", f"{BUCKET_STORE}/inside"))
    assert inside.exit_code == 4
    assert "would be inside it" in inside.output


@pytest.mark.slow
def test_shards_of_a_job_in_a_bucket(folder, s3):
    store = f"s3://{BUCKET}/jobs/shards"
    there = ("job.store", store)
    assert run(folder).exit_code == 0
    parts = (("--only", "learn"), ("--shard", "1/2"), ("--shard", "2/2"), ("--only", "finish"))
    for part in parts:
        assert run(folder, there, options=part).exit_code == 0
    assert files_of(store) == files_of(folder / "out.zarr")


@pytest.mark.slow
def test_nights_of_a_fitted_model_in_a_bucket(folder, s3):
    """Rows come from the bucket too; the model is fitted on those of the first night, and kept."""
    nights = ("incremental", {"strategy": "digest"})
    store = f"s3://{BUCKET}/jobs/nights"
    rows = ("source.path", f"s3://{BUCKET}/rows/table.parquet")
    Folder(f"s3://{BUCKET}/rows").replace("table.parquet", Path("table.parquet").read_bytes())
    assert run(folder, nights).exit_code == 0
    assert run(folder, nights, rows, ("job.store", store)).exit_code == 0
    for name in ("interventional", "observational"):
        here = dshap.open_cube(folder / "out.zarr" / name)["attribution"].values
        np.testing.assert_array_equal(
            dshap.open_cube(f"{store}/{name}")["attribution"].values, here
        )
    again = run(folder, nights, rows, ("job.store", store), options=("--json",))
    assert again.exit_code == 0
    assert '"has_work": false' in again.output
