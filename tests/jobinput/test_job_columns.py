"""Errors about columns are in the words of the job file: which key, of which table, what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
import xgboost
from click.testing import CliRunner

from dshap.cli import cli
from tests.jobs.job_files import changed, small_table, write_job

NAMES = ["hr", "temp", "hum"]
PARQUET = {"kind": "parquet", "path": "table.parquet", "key": ["id"]}
CSV = {"kind": "csv", "path": "table.csv", "key": ["id"]}
QUERY = {"kind": "sql", "uri": "duckdb:///shop.duckdb", "query": "SELECT * FROM lifts", "key": "id"}
TABLE = {"kind": "sql", "uri": "duckdb:///shop.duckdb", "table": "lifts", "key": ["id"]}
TREES = ("explain", [{"name": "a", "value": "trees"}])
MARGINAL = ("explain", [{"name": "a", "value": "marginal", "background": 5}])
MODEL = ("model", {"kind": "xgboost", "path": "model.json"})
KERNEL = ("explain", [{"name": "a", "value": "kernel_interventional"}])


def save_model(rows: pd.DataFrame, target: pd.Series) -> None:
    xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(rows, target).save_model("model.json")


@pytest.fixture
def table(tmp_path, monkeypatch) -> pd.DataFrame:
    """A table as Parquet, as CSV and in a database, and a model of its numbers."""
    monkeypatch.chdir(tmp_path)
    rows = small_table(50).assign(temp=pd.Timestamp("2026-01-01").date())
    put(rows)
    save_model(small_table(50)[NAMES], rows["y"])
    return rows


def put(rows: pd.DataFrame) -> None:
    rows.to_parquet("table.parquet")
    rows.to_csv("table.csv", index=False)
    with duckdb.connect("shop.duckdb") as shop:
        shop.execute("CREATE OR REPLACE TABLE lifts AS SELECT * FROM 'table.parquet'")


def refusal(command: str, *changes: tuple[str, Any]) -> str:
    """The one line of a command that is refused, and leaves nothing behind."""
    path = write_job(Path(), changed(*changes))
    result = CliRunner().invoke(cli, [command, str(path), "-q"])
    assert result.exit_code == 2, result.output
    assert not Path("out.zarr").exists()
    (line,) = result.stderr.splitlines()
    return line


IN_FILE = (
    'in the file, or by [source] kind = "sql" on DuckDB with query = "SELECT * REPLACE (EXTRACT(EPOCH '
    "FROM temp) AS temp) FROM read_{kind}('{path}')"
)
IN_QUERY = "as in EXTRACT(EPOCH FROM temp) AS temp in [source] query"
A_QUERY = "as in EXTRACT(EPOCH FROM temp) AS temp in a [source] query in the place of table"


@pytest.mark.parametrize(
    ("command", "explain", "source", "remedy"),
    [
        ("plan", TREES, PARQUET, IN_FILE),
        ("run", MARGINAL, PARQUET, IN_FILE),
        ("plan", MARGINAL, CSV, IN_FILE),
        ("run", TREES, CSV, IN_FILE),
        ("run", TREES, QUERY, IN_QUERY),
        ("plan", TREES, TABLE, A_QUERY),
    ],
)
def test_dates_are_refused_for_trees_before_anything_is_computed(
    table, command, explain, source, remedy
):
    said = refusal(command, ("source", source), MODEL, explain)
    place = source.get("path", "shop.duckdb")
    assert f"column 'temp' of {source['kind']} " in said or "column 'temp' of duckdb" in said
    assert place in said
    assert "contains dates (date32[day]), and the model of [model] path" in said
    path = Path.cwd() / source.get("path", "")
    assert remedy.format(kind=source["kind"], path=path) in said
    assert "features" not in said  # the model needs the column


def test_times_of_a_value_function_of_numbers_are_refused_by_the_plan(table):
    """A model of no tree takes times by `marginal` alone."""
    Path("linear.py").write_text(
        "import numpy as np\n\n\nclass Model:\n    coef_ = np.array([1.0, 2.0])\n"
        "    intercept_ = 0.0\n\n    def predict(self, rows):\n        return rows @ self.coef_\n\n\n"
        "model = Model()\n"
    )
    given = ("model", {"kind": "import", "function": "linear:model"})
    linear = ("explain", [{"name": "a", "value": "linear_gaussian"}])
    said = refusal("plan", ("source", {**PARQUET, "features": ["hr", "temp"]}), given, linear)
    assert "column 'temp' of parquet" in said
    assert "contains dates (date)" in said
    assert 'the model of [model] function = "linear:model" takes numbers there' in said
    assert said.endswith("or take it out of [source] features")


def test_a_model_that_the_job_fits_takes_no_dates(table):
    source = ("source", {**CSV, "target": "y", "features": ["hr", "temp"]})
    said = refusal("plan", source, KERNEL, ("model.lengthscale", [1.0, 1.0]))
    assert '[model] kind = "kernel_ridge" takes numbers there: give it as a number, ' in said
    assert said.endswith("or take it out of [source] features")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({**PARQUET, "key": ["idd"]}, "[source] key names a column that parquet {path} lacks: "),
        ({**CSV, "key": ["idd"]}, "[source] key names a column that csv {path} lacks: "),
        ({**QUERY, "key": "idd"}, "[source] key names a column that {database}, query SELECT"),
        ({**TABLE, "key": "idd"}, "[source] key names a column that {database}, table lifts lacks"),
        ({**CSV, "target": "idd"}, "[source] target names a column that csv {path} lacks: "),
        ({**PARQUET, "target": "idd"}, "[source] target names a column that parquet {path} lacks"),
        (
            {**QUERY, "query": "SELECT id, hr, hum, temp AS idd FROM lifts", "key": "id"},
            'the model of [model] path = "{folder}/model.json" was fitted on a column that {database}',
        ),
    ],
)
def test_an_unknown_column_is_told_with_its_key_and_its_table(table, source, said):
    folder = Path.cwd()
    database = f"duckdb:///{folder}/shop.duckdb"
    path = folder / source.get("path", "")
    line = refusal("plan", ("source", source), MODEL, TREES)
    assert said.format(folder=folder, database=database, path=path) in line
    if "idd" in said or "key" in said or "target" in said:
        assert "unknown column 'idd'; did you mean 'id'? Allowed: hr, hum, id, " in line


def test_features_that_the_model_does_not_know_are_named_with_near_ones(table):
    source = ("source", {**CSV, "features": ["hr", "tmp", "hum"]})
    said = refusal("plan", source, MODEL, TREES)
    assert "[source] features names a column that the model of [model] path = " in said
    assert "unknown column 'tmp'; did you mean 'temp'? Allowed: hr, hum, temp. " in said
    said = refusal("plan", ("source", {**CSV, "features": ["hr", "hum"]}), MODEL, TREES)
    assert "[source] features lacks column 'temp', which the model of [model] path = " in said


def test_features_of_a_job_that_fits_its_model(table):
    source = ("source", {**CSV, "target": "y", "features": ["hr", "hmu"]})
    said = refusal("plan", source, KERNEL, ("model.lengthscale", [1.0, 1.0]))
    assert f"[source] features names a column that csv {Path.cwd()}/table.csv lacks: " in said
    assert "unknown column 'hmu'; did you mean 'hum'?" in said
