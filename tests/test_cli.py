"""The command line as a user meets it: exit statuses, one line for each refusal, nothing written or
lost."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import dshap
from dshap.cli import cli
from dshap.core.errors import WalltimeError
from dshap.storage.running import alone
from tests.jobs.job_files import JOB, changed, small_table, write_job

MARGINAL = [{"name": "marginal", "value": "marginal", "background": 5}]
FUNCTIONS = """
import time
import numpy as np

def linear(x):
    return x @ np.arange(1.0, x.shape[1] + 1)

def two_outputs(x):
    return np.column_stack([linear(x), -linear(x)])

def wrong_shape(x):
    return linear(x)[:-1]

def fails_when_hot(x):
    if (x[:, 1] > 90).any():
        raise RuntimeError("sensor out of range")
    return linear(x)

n_calls = 0

def fails_later(x):
    global n_calls
    n_calls += 1
    if n_calls > 13:
        raise OSError(28, "No space left on device")
    return linear(x)

def slow(x):
    time.sleep(0.02)
    return linear(x)

def takes_nan(x):
    return np.nan_to_num(x, posinf=0.0).sum(axis=1)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working directory with a table and a module of predict functions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    small_table().to_parquet(tmp_path / "table.parquet")
    (tmp_path / "my_models.py").write_text(FUNCTIONS)
    yield tmp_path
    sys.modules.pop("my_models", None)


def dshap_(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def run_job(folder: Path, *changes, command: str = "run", options: tuple[str, ...] = ()) -> Result:
    return dshap_(command, write_job(folder, changed(*changes)), *options)


def imported(function: str) -> tuple:
    return ("model", {"kind": "import", "function": f"my_models:{function}"}), ("explain", MARGINAL)


def tree(path: Path) -> dict[str, str]:
    """file -> digest of everything below a folder, records of runs apart: each run leaves one."""
    files = (file for file in path.rglob("*") if file.is_file() and "runs" not in file.parts)
    return {
        str(file.relative_to(path)): hashlib.md5(file.read_bytes()).hexdigest() for file in files
    }


def strict_json(text: str) -> dict:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def untouched(folder: Path) -> None:
    """Nothing beside the job and its inputs."""
    names = sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")
    assert names == ["job.toml", "my_models.py", "table.parquet"]


def lines_of_dshap(errors: str) -> list[str]:
    """The lines of standard error that are not of the work: each begins with the time, as it is no
    terminal."""
    time = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d (dshap: .*)")
    return [found[1] for found in map(time.fullmatch, errors.splitlines()) if found]


def refused(result: Result, status: int, *said: str) -> None:
    """One line on standard error, after those of the work, that says all this, and the exit
    status."""
    assert result.exit_code == status, result.output
    lines = lines_of_dshap(result.stderr)
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr, result.stderr
    for part in said:
        assert part in lines[0]


def results_of(result: Result) -> list[str]:
    """What a run showed, the first line and the table of stages apart, which tell what it did."""
    lines = result.stdout.splitlines()
    (table,) = (i for i, line in enumerate(lines) if line.startswith("stage "))
    return lines[1:table]


@pytest.mark.slow
def test_run_show_status_verify_and_a_second_run(folder):
    first = run_job(
        folder, ("report", {"picture": "ranking.png", "instance": 1007}), options=("-v",)
    )
    assert first.exit_code == 0, first.output
    assert "held-out R²: 0." in first.stdout
    assert "one row (id = 1007), rentals" in first.stdout
    assert str(folder / "out.zarr" / "observational") in first.stdout
    assert "fit: " in first.stderr
    assert "evaluation: 300 rows" in first.stderr
    assert (folder / "ranking.png").stat().st_size > 10_000
    before = tree(folder)
    second = run_job(
        folder, ("report", {"picture": "ranking.png", "instance": 1007}), options=("-v",)
    )
    assert second.exit_code == 0
    assert second.stdout.startswith("nothing to do")
    assert results_of(second) == results_of(first)  # the same results are shown
    assert tree(folder) == before
    assert second.stderr == ""
    shown = dshap_("show", "out.zarr")
    assert shown.exit_code == 0
    assert "held-out R²" in shown.stdout
    assert "300 rows (interventional)" in shown.stdout
    status = dshap_("status", "out.zarr")
    assert status.exit_code == 0
    assert "3 of 3 blocks done" in status.stdout
    assert "no run is going on" in status.stdout
    verified = dshap_("verify", "out.zarr")
    assert verified.exit_code == 0
    assert "interventional: verified: 3 of 3 blocks finished" in verified.stdout
    assert dshap_("show", "out.zarr/interventional").exit_code == 0  # a cube alone


@pytest.mark.slow
def test_the_breakdown_adds_up_and_json_holds_the_same(folder):
    result = run_job(folder, options=("--json", "-q", "-v"))
    content = json.loads(result.stdout)
    assert content["held_out"]["r2"][0] > 0.5
    row = content["breakdown"]
    assert row["key"] == {"id": "1000"}
    assert row["values"]["hr"] == small_table().hr[0]
    for part in row["parts"]:
        total = part["base_value"] + sum(part["attribution"].values())
        assert total == pytest.approx(part["prediction"], abs=1e-9)
    cube = dshap.open_cube(folder / "out.zarr" / "interventional")
    magnitude = abs(cube.attribution).mean("instance").isel(output=0)
    assert content["ranking"]["interventional"] == pytest.approx(
        dict(zip(magnitude.feature.values, magnitude.values, strict=True))
    )
    for command in ("show", "status", "verify"):
        json.loads(dshap_(command, "out.zarr", "--json").stdout)


def test_plan_starts_nothing(folder):
    before = tree(folder)
    planned = run_job(folder, command="plan")
    assert planned.exit_code == 0
    assert "explanation observational" in planned.stdout
    assert "tune" in planned.stdout
    assert set(json.loads(run_job(folder, command="plan", options=("--json",)).stdout)["explanations"]) == {
        "interventional", "observational",
    }  # fmt: skip
    assert set(tree(folder)) == {*before, "job.toml"}


def test_a_plan_says_what_the_table_lacks(folder):
    """Nulls by the statistics of the file, of all rows; NaN, which these do not count, by a
    look."""
    assert (
        "nulls: none; NaN or infinity: none in all rows\n" in run_job(folder, command="plan").stdout
    )
    table = pa.Table.from_pandas(small_table())
    for name, values in (
        ("temp", [None] * 7),
        ("hum", [np.nan, np.inf]),
        ("y", [np.nan]),
        ("note", [None]),
    ):
        column = [*values, *table[name].to_pylist()[len(values) :]]
        table = table.set_column(
            table.schema.get_field_index(name), name, pa.array(column, from_pandas=False)
        )
    pq.write_table(table, folder / "table.parquet")
    said = (
        "nulls: temp 7; NaN or infinity in other columns: hum 2, y 1 in all rows; "
        'missing = "refuse": a run refuses such rows\n'
    )
    assert said in run_job(folder, command="plan").stdout
    content = strict_json(run_job(folder, command="plan", options=("--json",)).stdout)["missing"]
    assert content == {
        "nulls": {"temp": 7}, "nulls_not_counted": [], "not_finite": {"hum": 2, "y": 1}, "rows_looked_at": 300,
    }  # fmt: skip


@pytest.mark.slow
def test_the_table_of_stages(folder):
    """At the end of what is shown, and the same numbers in JSON."""
    changes = ("explain.0.quality_rows", 20), ("model.holdout", 0.3)
    result = run_job(folder, *changes)
    lines = result.stdout.splitlines()
    names = ["census", "fit"] + [
        f"interventional: {step}" for step in ("base value", "learn", "evaluation", "quality")
    ]
    names += [f"observational: {step}" for step in ("base value", "learn", "evaluation")]
    assert lines[-13].split()[:4] == ["stage", "rows", "seconds", "rows/s"]
    assert [line[:28].rstrip().rstrip("0123456789.,").rstrip() for line in lines[-12:-3]] == names
    assert [line.partition(":")[0] for line in lines[-3:]] == [
        "",
        "interventional",
        "observational",
    ]
    assert "MSE_v" in result.stdout
    assert (
        "6 coalitions and 20 rows held out of the fit; the values were learnt from these rows too"
        in result.stdout
    )
    again = strict_json(run_job(folder, *changes, options=("--json", "-q")).stdout)
    assert [stage["stage"] for stage in again["stages"]] == names
    assert {stage["kept"] for stage in again["stages"]} == {"done by an earlier run"}
    assert again["quality"]["interventional"]["rows"] == 20
    assert again["quality"]["interventional"]["held_out_of_the_fit"] is True
    fresh = strict_json(
        run_job(folder, *changes, ("job.store", "b.zarr"), options=("--json", "-q")).stdout
    )
    for stage in fresh["stages"]:
        assert stage["rows_per_second"] == pytest.approx(stage["rows"] / stage["seconds"])
        assert stage["rows"] == (20 if "quality" in stage["stage"] else 300)
        assert stage["kept"] == ""
    assert fresh["quality"] == again["quality"]
    more = run_job(
        folder, ("explain.0.quality_rows", 10), changes[1], ("explain.0.background", "all")
    )
    assert more.stdout.startswith("done: interventional")
    assert "coalitions and 10 rows held out" in more.stdout


@pytest.mark.slow
def test_settings(folder):
    """--set changes the job as if the file said so; the file stays."""
    path = write_job(folder, JOB)
    settings = (
        "--set",
        "job.store=b.zarr",
        "--set",
        "explain.observational.landmarks=15",
        "--set",
        "report.instance=1007",
    )
    assert dshap_("run", path, "-q", *settings).exit_code == 0
    assert (folder / "b.zarr").exists()
    assert not (folder / "out.zarr").exists()
    refused(
        dshap_("run", path, "-q", "--set", "job.store=b.zarr"),
        4,
        "embedding.n_landmarks was 15, now 20",
    )
    planned = dshap_("plan", path, *settings, "--set", "model.landmarks=301")
    refused(planned, 2, "landmarks = 301", "300 rows")
    refused(dshap_("plan", path, "--set", "source.path=none.parquet"), 2, "none.parquet")
    refused(
        dshap_("plan", path, "--set", "model.landmark=3"),
        2,
        "job.toml with --set: [model] unknown key 'landmark'",
    )
    refused(
        dshap_("run", path, "--set", "explain.landmarks=3"), 2, "name one: explain.NAME.landmarks="
    )
    refused(
        dshap_("run", path, "--set", "landmarks"), 2, "--set landmarks: write --set TABLE.KEY=VALUE"
    )
    assert dshap_("status", "b.zarr", "--set", "a.b=1").exit_code == 2  # a job's option


def test_the_synthetic_workflow_is_planned(folder):
    workflow = Path(__file__).parents[1] / "workflows" / "million_rows_synthetic.toml"
    planned = dshap_("plan", workflow)
    assert planned.exit_code == 0, planned.output
    assert planned.stdout.startswith(
        "synthetic powerlifting (seed 0): 100,000 rows, 8 features, key lift_id, target"
    )
    assert "explanation regression" in planned.stdout
    assert "256 coalitions" in planned.stdout
    small = dshap_("plan", workflow, "--set", "source.rows=1_000", "--json")
    assert strict_json(small.stdout)["source"].startswith(
        "synthetic powerlifting (seed 0): 1,000 rows"
    )
    untouched_names = sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")
    assert untouched_names == ["my_models.py", "table.parquet"]


@pytest.mark.slow
def test_a_classifier_and_any_function_by_regression(folder):
    table = small_table()
    table["y"] = (table.y > 50.0).astype(int)
    table.to_parquet(folder / "table.parquet")
    regression = [{"name": "regression", "value": "conditional_regression", "landmarks": 20}]
    logistic = {
        "kind": "kernel_logistic",
        "landmarks": 40,
        "lengthscale": [4.0, 2.0, 2.0],
        "holdout": 0.3,
    }
    shown = run_job(folder, ("model", logistic), ("explain", regression))
    assert shown.exit_code == 0, shown.output
    assert "held-out accuracy: 0." in shown.stdout
    assert "held-out log-loss: 0." in shown.stdout
    assert "held-out accuracy: 0." in dshap_("show", "out.zarr").stdout
    content = strict_json(
        run_job(folder, ("model", logistic), ("explain", regression), options=("--json",)).stdout
    )
    assert set(content["held_out"]) == {"accuracy", "log_loss"}
    imported_model = imported("two_outputs")[0], ("explain", regression), ("source.target", None)
    several = run_job(folder, *imported_model, ("job.store", "b.zarr"))
    assert several.exit_code == 0
    assert "regression, output1" in several.stdout


def test_quality_has_no_place_in_a_closed_form(folder):
    """Thirteen players: more coalitions than a table of subsets holds."""
    table = small_table()
    features = [f"f{j}" for j in range(13)]
    table[features] = np.random.default_rng(0).normal(size=(len(table), 13))
    table.to_parquet(folder / "table.parquet")
    wide = ("source.features", features), ("model.lengthscale", 3.0)
    explain = ("explain", [{"name": "a", "value": "kernel_interventional", "quality_rows": 9}])
    refused(
        run_job(folder, *wide, explain),
        2,
        "[[explain]] a quality_rows: MSE_v is over coalitions",
        "kernelshap",
    )


def test_a_sample_for_quality_that_is_too_large(folder, monkeypatch):
    monkeypatch.setattr("dshap.jobinput.quality_of_job.MAX_SAMPLE_BYTES", 8 * 3 * 100)
    assert run_job(folder, ("explain.0.quality_rows", 100), command="plan").exit_code == 0
    refused(
        run_job(folder, ("explain.0.quality_rows", 101)),
        2,
        "[[explain]] interventional quality_rows = 101: these",
    )
    untouched(folder)


@pytest.mark.slow
def test_explanations_can_be_added_to_a_store(folder):
    assert run_job(folder).exit_code == 0
    before = tree(folder / "out.zarr")
    more = [*JOB["explain"], {"name": "sampled", "value": "marginal", "background": 7}]
    again = run_job(folder, ("explain", more), options=())
    assert again.exit_code == 0
    assert "explanation sampled" in again.stderr
    assert "fit" not in again.stderr
    after = tree(folder / "out.zarr")
    before.pop("state/finished.json"), after.pop("state/finished.json")  # names the explanations
    assert before.items() <= after.items()
    added = [name for name in after.keys() - before.keys() if not name.startswith("sampled/")]
    # the rows that its background was chosen from, and the 7 rows
    assert sorted(name.partition("-")[0] for name in added) == ["state/background", "state/sample"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("source.features", ["hr", "tmp"])], ["unknown column 'tmp'", "'temp'"]),
        ([("source.features", ["hr", "note"])], ["'note' contains text", "numbers are needed"]),
        ([("source.target", "z")], ["unknown column 'z'"]),
        ([("source.key", "nokey")], ["unknown column 'nokey'"]),
        ([("source.path", "none.parquet")], ["none.parquet"]),
        ([("model.landmark", 3)], ["unknown key 'landmark'", "'landmarks'"]),
        ([("model.landmarks", 301)], ["landmarks = 301", "300 rows"]),
        ([("model.lengthscale", [1.0, 2.0])], ["2 values for 3 columns"]),
        ([("design", {"kind": "kernelshap", "n_coalitions": 4})], ["n_coalitions=4 for 3 players"]),
        ([("explain.0.players", {"a": ["temp", "tmp"]})], ["unknown column 'tmp'", "'temp'"]),
        ([("job.store", "table.parquet/out.zarr")], ["cannot write", "table.parquet", "another store"]),
        ([*imported("nothing")], ["has no 'nothing'"]),
        ([("model", {"kind": "import", "function": "no_such:f"}), ("explain", MARGINAL)], ["no_such", "PYTHONPATH"]),
        ([*imported("wrong_shape")], ["wrong_shape gave shape (4,) for 5 rows", "(5,) or (5, k)"]),
        ([("cluster", {"kind": "python", "file": "none.py", "memory_limit": "2GiB"})], ["none.py", "no such file"]),
        ([("cluster", {"kind": "python", "file": "my_models.py", "memory_limit": "2GiB"})], ["define client(workers"]),
    ],
)  # fmt: skip
def test_bad_input(folder, changes, said):
    refused(run_job(folder, *changes), 2, *said)
    untouched(folder)


@pytest.mark.slow
def test_a_picture_without_matplotlib_is_refused_before_the_fit(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused(run_job(folder, ("report", {"picture": "a.png"})), 2, 'pip install "dshap[report]"')
    untouched(folder)
    assert run_job(folder).exit_code == 0  # nothing else needs it


def warned(result: Result, status: int, *said: str) -> None:
    """The results, then the warning as the first line after those of the work, and the exit
    status."""
    assert result.exit_code == status, result.output
    lines = lines_of_dshap(result.stderr)
    assert lines[0].startswith("dshap: warning: "), result.stderr
    assert all(text in lines[0] for text in said), result.stderr
    assert len(lines) == 1 + (status != 0)
    assert "Traceback" not in result.stderr
    assert "cube: " in result.stdout
    assert "warning" not in result.stdout
    assert result.output.index("cube: ") < result.output.index("dshap: warning")


@pytest.mark.slow
def test_a_report_that_fails_hides_no_results(folder, monkeypatch):
    picture = str(folder / "a.png")
    for _ in range(2):  # the second time the job is finished
        missing = run_job(folder, ("report", {"instance": 5, "picture": "a.png"}))
        warned(missing, 0, "no row has the key 5", f"the picture {picture} was still written")
        assert "300 rows (interventional)" in missing.stdout
        assert "one row" not in missing.stdout
        assert f"picture: {picture}" in missing.stdout
        assert Path(picture).exists()
    as_json = run_job(folder, ("report", {"instance": 5}), options=("--json", "-q"))
    content = strict_json(as_json.stdout)
    assert as_json.exit_code == 0
    assert content["breakdown"] is None
    assert content["ranking"]["interventional"]
    unwritable = run_job(folder, ("report", {"picture": "table.parquet/a.png"}), options=("-v",))
    warned(unwritable, 0, "picture", "cannot be written")
    assert "one row (id = 1000)" in unwritable.stdout
    assert "still written" not in unwritable.stderr
    assert "picture" not in unwritable.stdout

    def broken(*_):
        raise RuntimeError("first\nsecond")

    monkeypatch.setattr("dshap.report.rankings", broken)
    warned(run_job(folder), 0, "this is a bug: RuntimeError: first second")


def test_a_failed_block_and_a_failed_report(folder):
    table = small_table()
    table.loc[150, "temp"] = 99.0
    table.to_parquet(folder / "table.parquet")
    result = run_job(
        folder, *imported("fails_when_hot"), ("source.target", None), ("report", {"instance": 5})
    )
    warned(result, 5, "no row has the key 5")
    assert "1 of 3 blocks" in result.stderr.splitlines()[-1]
    verified = dshap_("verify", "out.zarr")
    assert verified.exit_code == 0
    assert (
        verified.stdout
        == "marginal: verified: 3 of 3 blocks finished; the same run again computes 1 failed row\n"
    )


def test_json_has_no_nan_and_no_infinity(folder):
    table = small_table()
    table.loc[0, "temp"] = np.nan
    table.to_parquet(folder / "table.parquet")
    job = (*imported("linear"), ("source.target", None), ("source.missing", "skip"))
    planned = run_job(folder, *job, command="plan", options=("--json",))
    assert planned.exit_code == 0
    assert "null" in planned.stdout
    assert strict_json(planned.stdout)
    done = strict_json(run_job(folder, *job, options=("--json", "-v")).stdout)
    (part,) = done["breakdown"]["parts"]
    assert part["status"] == "skipped"
    assert set(part["attribution"].values()) == {None} == {part["prediction"]}
    for command in ("show", "status", "verify"):
        strict_json(dshap_(command, "out.zarr", "--json").stdout)


@pytest.mark.slow
def test_bad_rows(folder):
    table = small_table()
    table.loc[[3, 4, 9], "temp"], table.loc[9, "hum"] = np.nan, np.inf
    table.to_parquet(folder / "table.parquet")
    refused(run_job(folder), 2, "3 rows contain NaN or infinity: temp 3, hum 1", 'missing = "skip"')
    skipped = run_job(folder, ("source.missing", "skip"))
    assert skipped.exit_code == 0, skipped.output
    cube = dshap.open_cube(folder / "out.zarr" / "interventional")
    assert cube.sizes["instance"] == 300
    assert (cube.id.values == table.id).all()
    assert list(np.flatnonzero(np.isnan(cube.attribution.values).any((1, 2)))) == [3, 4, 9]
    assert "297 ok, 3 skipped" in dshap_("status", "out.zarr").stdout
    shown = run_job(
        folder, ("source.missing", "skip"), ("report", {"instance": 1003}), options=("-v",)
    )
    assert "interventional: skipped" in shown.stdout
    passed = run_job(
        folder, *imported("takes_nan"), ("source.missing", "pass"), ("job.store", "passed.zarr")
    )
    assert passed.exit_code == 0, passed.output


def test_bad_targets_repeated_keys_and_no_rows(folder):
    table = small_table()
    table.loc[[3, 4], "y"] = np.nan
    table.to_parquet(folder / "table.parquet")
    refused(run_job(folder), 2, "2 rows have no finite target")
    table = small_table()
    table.loc[[3, 4], "id"] = 1000
    table.to_parquet(folder / "table.parquet")
    refused(run_job(folder), 2, "2 rows repeat the key", "id=1000 (row 3)")
    small_table().iloc[:0].to_parquet(folder / "table.parquet")
    refused(run_job(folder), 2, "empty table")
    assert not (folder / "out.zarr").exists()


def test_no_new_rows_are_no_mistake(folder):
    """Where the model is there already; one that is to be fitted needs rows."""
    small_table().iloc[:0].to_parquet(folder / "table.parquet")
    result = run_job(folder, *imported("linear"), ("source.target", None), options=())
    assert result.exit_code == 0
    assert result.output.strip() == "nothing to do: the table has no rows"
    assert not (folder / "out.zarr").exists()


@pytest.mark.slow
def test_a_constant_column_has_attribution_zero(folder):
    table = small_table()
    table["hum"] = 4.0
    table.to_parquet(folder / "table.parquet")
    assert run_job(folder).exit_code == 0
    for name in ("interventional", "observational"):
        assert (
            dshap.open_cube(folder / "out.zarr" / name).attribution.sel(feature="hum") == 0
        ).all()


@pytest.mark.slow
def test_a_store_with_another_run_is_left_alone(folder):
    assert run_job(folder).exit_code == 0
    before = tree(folder / "out.zarr")
    refused(
        run_job(folder, ("model.penalty", 1e-3)),
        4,
        "model.penalty was 0.0001, now 0.001",
        "another store",
    )
    refused(run_job(folder, ("explain.1.landmarks", 25)), 4, "landmarks was 20, now 25")
    refused(
        run_job(folder, ("source.features", ["hr", "temp"]), ("model.lengthscale", 1.0)),
        4,
        "features",
    )
    table = small_table()
    table.loc[5, "hr"] += 1
    table.to_parquet(folder / "table.parquet")
    refused(run_job(folder), 4, "a different run: rows: ")
    assert tree(folder / "out.zarr") == before
    (folder / "other").mkdir()
    (folder / "other" / "precious.txt").write_text("mine")
    refused(run_job(folder, ("job.store", "other")), 4, "is not the store of a job")
    assert tree(folder / "other").keys() == {"precious.txt"}


def test_a_job_that_does_not_fit(folder):
    refused(
        run_job(folder, ("run.memory_limit", "100MB")),
        3,
        "95.4 MiB",
        "give workers at least ",
        "(memory_limit)",
    )
    limited = ("cluster", {"kind": "local", "workers": 1, "memory_limit": "200MB"})
    refused(run_job(folder, limited), 3, "workers have 190.7 MiB")
    planned = run_job(folder, limited, command="plan")
    # the plan is shown, then refused
    assert planned.exit_code == 3
    assert "evaluation" in planned.stdout
    assert re.search(
        r"^memory: a process of 1 thread needs \d\S+ MiB and has 190.7 MiB$",
        planned.stdout,
        re.MULTILINE,
    )
    unlimited = run_job(folder, command="plan").stdout
    needs = r"memory: a process of 1 thread needs (\d\S+) MiB; no limit is set\n$"
    assert 320.0 < float(re.search(needs, unlimited)[1]) < 1_000.0
    assert not (folder / "out.zarr").exists()


@pytest.mark.slow
def test_a_job_that_is_running(folder):
    with alone(folder / "out.zarr", "a run"):
        refused(run_job(folder), 6, "locked by a run (process")
    assert run_job(folder).exit_code == 0
    with alone(folder / "out.zarr", "a run"):
        assert "a run is going on" in dshap_("status", "out.zarr").stdout
        assert "a run is going on" in dshap_("status", "out.zarr/interventional").stdout
        assert dshap_("show", "out.zarr").exit_code == 0


@pytest.mark.slow
def test_a_failing_predict_function_names_block_and_key(folder):
    table = small_table()
    table.loc[150, "temp"] = 99.0
    table.to_parquet(folder / "table.parquet")
    result = run_job(folder, *imported("fails_when_hot"), ("source.target", None))
    refused(result, 5, "marginal: 1 of 300 rows has no attribution", "row 150 (id 1150)",
            "RuntimeError: sensor out of range", "run the same command again to retry")  # fmt: skip
    status = dshap_("status", "out.zarr").stdout
    assert "299 ok, 1 failed" in status
    assert "1 failed, first row 150 (id 1150): predict function" in status
    assert "299 rows (marginal)" in dshap_("show", "out.zarr").stdout
    source = (folder / "my_models.py").read_text().replace("> 90", "> 900")
    (folder / "my_models.py").write_text(source)
    sys.modules.pop("my_models")
    assert run_job(folder, *imported("fails_when_hot"), ("source.target", None)).exit_code == 0
    assert "300 ok, 0 pending" in dshap_("status", "out.zarr").stdout


def test_several_outputs_are_shown_side_by_side(folder):
    shown = run_job(folder, *imported("two_outputs"), ("source.target", None), options=())
    assert shown.exit_code == 0
    assert "marginal, output0" in shown.stdout
    assert "marginal, output1" in shown.stdout


@pytest.mark.slow
def test_changed_values_are_found(folder):
    assert run_job(folder).exit_code == 0
    (folder / "out.zarr" / "observational" / "prediction" / "c.0.0").unlink()
    found = dshap_("verify", "out.zarr")
    assert found.exit_code == 7
    assert (
        "observational: block 0 (rows 0 to 99): stored values changed (prediction)" in found.stdout
    )


@pytest.mark.slow
@pytest.mark.parametrize("with_job", [False, True])
def test_what_is_damaged_is_repaired_to_the_same_files(folder, with_job):
    """A value, a name, the model, a cube's metadata: named, status 7; then the same run, or --job,
    makes all again."""
    assert run_job(folder, ("explain.0.quality_rows", 20)).exit_code == 0
    store, before = folder / "out.zarr", tree(folder / "out.zarr")
    (store / "observational" / "prediction" / "c.0.0").unlink()
    (store / "observational" / "feature" / "c" / "0").write_bytes(b"none")
    next((store / "state").glob("model-*.npz")).write_bytes(b"none")
    (store / "interventional" / "state" / "notes" / "mse_v.json").unlink()
    (store / "interventional" / "zarr.json").write_text("{")
    found = dshap_("verify", "out.zarr")
    refused(found, 7, "as listed above; dshap verify --repair")
    for named in ("out.zarr: state model-", "observational: feature/c/0: it is not", "interventional: zarr.json: it is",
                  "interventional: note mse_v"):  # fmt: skip
        assert named in found.stdout
    refused(
        run_job(folder, ("explain.0.quality_rows", 20)),
        7,
        "zarr.json is not what was written",
        "--repair",
    )
    options = ("--repair", "--job", "job.toml", "-q") if with_job else ("--repair",)
    mended = dshap_("verify", "out.zarr", *options)
    assert (
        "observational: repaired: block 0 (rows 0 to 99): stored values changed (prediction)"
        in mended.stdout
    )
    if with_job:
        assert mended.exit_code == 0
        assert "interventional: verified: 3 of 3" in mended.stdout
    else:
        refused(mended, 7, "are removed: run the same command again")
        assert run_job(folder, ("explain.0.quality_rows", 20)).exit_code == 0
    assert tree(store) == before
    assert dshap_("verify", "out.zarr").exit_code == 0
    assert dshap_("verify", "out.zarr", "--repair").exit_code == 0
    assert tree(store) == before


@pytest.mark.slow
def test_a_repair_needs_the_job_of_the_store_and_its_lock(folder):
    assert run_job(folder, ("job.store", "other.zarr")).exit_code == 0
    assert run_job(folder, ("job.store", "out.zarr")).exit_code == 0
    refused(
        dshap_("verify", "other.zarr", "--repair", "--job", "job.toml"),
        2,
        "give the job that made this store",
    )
    refused(dshap_("verify", "out.zarr", "--job", "job.toml"), 2, "give both, or neither")
    with alone(folder / "out.zarr", "a run"):
        refused(dshap_("verify", "out.zarr", "--repair"), 6, "locked by a run (process")
        refused(
            dshap_("verify", "out.zarr/observational", "--repair"), 6, "locked by a run (process"
        )


@pytest.mark.slow
@pytest.mark.parametrize("command", ["status", "show", "verify"])
def test_a_store_of_another_hand(folder, command):
    assert run_job(folder).exit_code == 0
    cube = folder / "out.zarr" / "observational"
    shutil.rmtree(cube / "state" / "created")
    shutil.rmtree(cube / "attribution")
    result = dshap_(command, "out.zarr/observational")
    if command == "verify":
        refused(result, 7, "as listed above")
    else:
        refused(
            result,
            2,
            "observational is not an attribution cube of dshap: the array attribution is missing",
        )


@pytest.mark.parametrize("command", ["status", "show", "verify"])
def test_no_store(folder, command):
    refused(dshap_(command, "none.zarr"), 2, "none.zarr does not exist")
    refused(dshap_(command, folder), 2, "contains no attribution cube")


def test_usage_errors(folder):
    assert dshap_("rnu").exit_code == 2
    assert dshap_("run").exit_code == 2
    assert dshap_("run", "--no").exit_code == 2
    assert dshap_("--version").output == f"dshap {dshap.__version__}\n"
    assert dshap_("--help").exit_code == 0
    refused(dshap_("run", "none.toml"), 2, "job file none.toml: No such file or directory")


def test_bugs_and_verbose(folder, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("first\nsecond")

    monkeypatch.setattr("dshap.jobs.run_recorded", broken)
    refused(run_job(folder), 1, "this is a bug: RuntimeError: first second")
    assert "Traceback" in run_job(folder, options=("-v",)).stderr


def start(folder: Path, job: dict) -> subprocess.Popen:
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    code = "from dshap.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "run", str(write_job(folder, job))],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # a shell's background job ignores it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def interrupted(folder: Path, job: dict, polite: signal.Signals, n_before: int) -> int:
    """Start the job, stop it after another block; gives the blocks that are done."""
    process = start(folder, job)
    receipts = folder / "out.zarr" / "marginal" / "state" / "receipts"
    deadline = time.monotonic() + 180
    while not len(list(receipts.glob("*.json"))) > n_before and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(polite)
    output, errors = process.communicate(timeout=180)
    assert process.returncode == 130
    assert output == ""
    assert (
        lines_of_dshap(errors)[-1]
        == "dshap: interrupted; finished work is kept, and the same command continues"
    )
    assert "Traceback" not in errors
    assert not list(folder.glob(".out.zarr*"))
    return len(list(receipts.glob("*.json")))


@pytest.mark.slow
def test_an_interrupted_run_goes_on(folder):
    job = changed(
        *imported("slow"), ("run.instance_tile", 25), ("source.target", None), ("run.micro_rows", 1)
    )
    n_first = interrupted(folder, job, signal.SIGINT, 0)
    assert n_first < interrupted(folder, job, signal.SIGTERM, n_first) < 12
    receipts = folder / "out.zarr" / "marginal" / "state" / "receipts"
    kept = {file: file.stat().st_mtime_ns for file in receipts.glob("*.json")}
    (folder / "my_models.py").write_text(FUNCTIONS.replace("time.sleep(0.02)", "pass"))
    result = dshap_("run", write_job(folder, job))
    assert result.exit_code == 0
    assert "kept from before" in result.stderr
    assert {file: file.stat().st_mtime_ns for file in kept} == kept


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("kind", ["local", "python", "scheduler"])
def test_clusters(folder, kind, request, monkeypatch):
    """The same arrays on every kind of cluster as in this process; a second run starts none, and
    connects to none."""

    def connects(*_, **__):
        raise AssertionError("a run with nothing to do looks for a cluster")

    (folder / "own.py").write_text(
        "from dshap.engine import local_client\n"
        "def client(workers, memory_limit):\n"
        "    return local_client(workers, memory_limit, set_as_default=False)\n"
    )
    cluster = {"kind": kind, "workers": 1, "memory_limit": "2GiB"}
    if kind == "python":
        cluster["file"] = "own.py"
    if kind == "scheduler":
        cluster = {
            "kind": kind,
            "address": request.getfixturevalue("open_client").scheduler.address,
        }
    assert run_job(folder, ("job.store", "here.zarr")).exit_code == 0
    result = run_job(folder, ("cluster", cluster), options=("--json", "-q"))
    assert result.exit_code == 0, result.output
    peaks = {
        stage["stage"]: stage["worker_peak_bytes"] for stage in strict_json(result.stdout)["stages"]
    }
    assert list(peaks)[:3] == ["census", "start of the cluster", "fit"]
    assert peaks["census"] is None  # so few rows are counted in this process
    assert peaks["fit"] is None or peaks["fit"] > 50 << 20  # None on a system that does not tell
    for name in ("interventional", "observational"):
        here, there = (
            dshap.open_cube(folder / store / name) for store in ("here.zarr", "out.zarr")
        )
        assert here.identical(there) or (here.attribution.values == there.attribution.values).all()
    monkeypatch.setattr("distributed.Client.__init__", connects)
    again = run_job(folder, ("cluster", cluster))
    assert again.exit_code == 0
    assert again.stdout.startswith("nothing to do")


def test_export_writes_one_explanation_to_a_file(folder, tmp_path):
    store = folder / "out.zarr"
    frame = small_table().drop(columns="target", errors="ignore").select_dtypes("number")
    names = list(frame.columns[:3])
    value = dshap.values.Marginal(lambda x: x[names[0]] * x[names[1]], frame[names][:5])
    for name in ("first", "second"):
        dshap.explain(value, frame[names][:40], store=store / name, progress=False)
    path = tmp_path / "x.csv"
    unsaid = dshap_("export", store, "--to", path)
    assert unsaid.exit_code == 2
    assert "2 explanations: give --explain, one of first, second" in unsaid.stderr
    given = ("export", store, "--to", path, "--explain")
    unknown = dshap_(*given, "secnd")
    assert "did you mean 'second'?" in unknown.stderr
    assert not path.exists()
    done = dshap_(*given, "second", "--shape", "top_k", "--k", "2")
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{path}: 40 rows, 80 lines of ")
    again = dshap_(*given, "second")
    assert again.exit_code == 2
    assert "give another name, or --force to replace it" in again.stderr
    forced = dshap_(*given, "first", "--force", "--json")
    assert strict_json(forced.stdout)["n_lines"] == 40
    found = pd.read_csv(path)
    cube = dshap.open_cube(store / "first")
    np.testing.assert_allclose(found[f"phi_{names[1]}"], cube.attribution[:, 1, 0], rtol=1e-15)


@pytest.mark.parametrize("name", cli.commands)
def test_every_command_is_one_of_the_installed_program(name):
    """Other tests call it in their own process."""
    command = [Path(sys.executable).with_name("dshap"), name, "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done
    assert done.stdout.startswith(f"Usage: dshap {name} "), done


@pytest.mark.slow
@pytest.mark.cluster
def test_a_model_beside_the_job_is_found_from_anywhere_and_by_local_workers(tmp_path, monkeypatch):
    """With the installed command, which has neither the job's folder nor the working directory in
    its path."""
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    small_table().to_parquet(jobs / "table.parquet")
    (jobs / "beside_the_job.py").write_text(FUNCTIONS)
    job = changed(*imported("linear"), ("model.function", "beside_the_job:linear"),
                  ("cluster", {"kind": "local", "workers": 1, "memory_limit": "2GiB"}))  # fmt: skip
    done = subprocess.run(
        [Path(sys.executable).with_name("dshap"), "run", write_job(jobs, job)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["jobs"]
    assert (jobs / "out.zarr" / "marginal").is_dir()


@pytest.mark.cluster
def test_a_model_that_workers_of_others_lack_is_named(folder, request):
    address = request.getfixturevalue("open_client").scheduler.address
    jobs = folder / "jobs"
    jobs.mkdir()
    small_table().to_parquet(jobs / "table.parquet")
    (jobs / "not_on_workers.py").write_text(FUNCTIONS)
    job = changed(*imported("linear"), ("model.function", "not_on_workers:linear"),
                  ("cluster", {"kind": "scheduler", "address": address}))  # fmt: skip
    said = ("the workers cannot take the model or the rows: there is no module not_on_workers there",
            f"start them with PYTHONPATH={jobs}")  # fmt: skip
    refused(dshap_("run", write_job(jobs, job)), 2, *said)


@pytest.mark.slow
def test_rows_are_a_data_frame_away(folder):
    """The store opens as plain xarray, without this library."""
    import xarray as xr

    assert run_job(folder).exit_code == 0
    trees = xr.open_datatree(folder / "out.zarr", engine="zarr", consolidated=False)
    assert {"interventional", "observational"} <= set(trees.children)
    frame = trees["interventional"]["attribution"].to_series()
    assert isinstance(frame, pd.Series)
    assert len(frame) == 900


def test_quiet_is_silent(folder):
    """It printed the whole report, and warnings of the run."""
    done = run_job(folder, options=("-q",))
    assert done.exit_code == 0
    assert done.stdout == ""
    assert done.stderr == ""
    refused(
        run_job(folder, ("source.path", "nowhere.parquet"), options=("-q",)), 2, "nowhere.parquet"
    )


def test_where_nothing_is_explained_the_error_stands_alone(folder):
    """A model that fails at everything but the base value and the probe: no ranking of zeros, no
    picture."""
    picture = ("report", {"picture": "ranking.png"})
    failed = run_job(folder, *imported("fails_later"), picture)
    refused(
        failed,
        5,
        "300 of 300 rows have no attribution",
        "No space left on device: correct that, then run",
    )
    assert failed.stdout == ""
    assert not (folder / "ranking.png").exists()
    shown = dshap_("show", "out.zarr")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("no row is explained yet\n")
    shutil.rmtree("out.zarr")
    del sys.modules["my_models"]
    assert (
        json.loads(run_job(folder, *imported("fails_later"), options=("--json",)).stdout)["ranking"]
        == {}
    )


COMMANDS = "\\u001b[2J\\u0007\\u202e"
"""Of a terminal, as TOML writes them: clear it, ring its bell, turn the order of letters."""


@pytest.mark.slow
def test_no_name_of_anybody_moves_the_cursor(folder):
    """Columns, keys, categories, outputs, the job and its units."""
    odd = json.loads(f'"{COMMANDS}"')
    table = small_table().rename(columns={"hr": f"hr{odd}", "id": f"id{odd}"})
    table[f"id{odd}"] = [f"{key}{odd}\n" for key in table[f"id{odd}"]]
    table.to_parquet("table.parquet")
    changes = (
        ("source.features", [f"hr{COMMANDS}", "temp", "hum"]),
        ("source.key", [f"id{COMMANDS}"]),
        ("job.name", f"small{COMMANDS}"),
        ("run.units", f"rentals{COMMANDS}"),
        ("report", {"picture": "ranking.png"}),
    )
    results = [run_job(folder, *changes), run_job(folder, *changes, command="plan"), dshap_("show", "out.zarr"),
               run_job(folder, changes[2], ("source.key", [f"no{COMMANDS}"])),
               dshap_("status", f"no{odd}"), dshap_(f"no{odd}"),
               run_job(folder, *changes, options=("--set", f"no{odd}=1"))]  # fmt: skip
    assert [result.exit_code for result in results] == [0, 0, 0, 2, 2, 2, 2]
    for result in results:
        assert not set("\x1b\x07\u202e") & set(result.output)
    assert r"hr\x1b[2J\x07\u202e" in results[0].stdout
    assert (folder / "ranking.png").exists()


@pytest.mark.slow
def test_verify_of_a_store_without_its_state(folder):
    """There is nothing to check it against: exit status 11, where nothing was said and the status
    was 0."""
    assert run_job(folder).exit_code == 0
    shutil.rmtree(folder / "out.zarr" / "interventional" / "state")
    alone = dshap_("verify", "out.zarr/interventional")
    assert alone.exit_code == 11
    assert "has no folder state: there is nothing to check it against" in alone.stderr
    assert dshap_("verify", "out.zarr").exit_code == 11
    mended = dshap_("verify", "out.zarr", "--repair", "--job", folder / "job.toml")
    assert mended.exit_code == 0
    assert "interventional: verified: 3 of 3 blocks finished" in mended.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_a_library_turns_into_an_error_of_its_own_is_one(number, monkeypatch):
    """It was called a bug: pydantic makes a SchemaError of it, which has no context."""

    def interrupt(*given):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(number)
        raise ValueError("Error building a validator: KeyboardInterrupt:")

    monkeypatch.setattr("dshap.cube.named_cubes", interrupt)
    for _ in range(2):
        done = CliRunner().invoke(cli, ["status", "any"])
        assert done.exit_code == 130, done.output
        assert done.stderr.strip().endswith(
            "dshap: interrupted; the same command starts from the beginning"
        )
    monkeypatch.setattr("dshap.cube.named_cubes", lambda *_: [][0])
    assert "this is a bug: IndexError" in CliRunner().invoke(cli, ["status", "any"]).stderr


@pytest.mark.parametrize("name", ["show", "status"])
def test_a_command_other_than_run_begins_anew_after_an_interrupt(name, monkeypatch):
    def interrupt(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("dshap.cube.named_cubes", interrupt)
    done = CliRunner().invoke(cli, [name, "a"])
    assert done.exit_code == 130
    assert done.stderr.strip().endswith(
        "dshap: interrupted; the same command starts from the beginning"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_block_that_the_queue_interrupts_at_the_walltime_is_no_interrupt(number, monkeypatch):
    """Exit status 3, which no scheduler tries again."""

    def interrupt(*given):
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            raise WalltimeError("no part of block 0 has ended") from None

    monkeypatch.setattr("dshap.cube.named_cubes", interrupt)
    done = CliRunner().invoke(cli, ["status", "any"])
    assert done.exit_code == 3
    assert "no part of block 0 has ended" in done.stderr
