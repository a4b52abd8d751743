"""Outputs that a model names before a row is read, and the mistakes that `dshap check` finds by them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.jobfile.reading import parse_job
from dshap.jobinput.job_model import model_of_job
from tests.jobs.test_reason_jobs import JOB as OF_FUNCTION
from tests.jobs.test_reason_jobs import folder  # noqa: F401 (a fixture)

lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")

NAMES = ["income", "debt", "näive_Größe"]
JOB = """
[job]
name = "loans"
store = "build/loans"
[source]
kind = "parquet"
path = "rows.parquet"
key = ["id"]
features = ["income", "debt", "näive_Größe"]
[model]
kind = "lightgbm"
path = "model.txt"
classes = ["repays", "defaults"]
[[explain]]
name = "reasons"
value = "trees"
[[sink]]
uri = "duckdb:///shop.duckdb"
table = "notices"
shape = "reasons"
codes = "codes.csv"
against = "higher"
outputs = ["defaults"]
[columns.income]
label = "Monthly income"
"""
CODES = "code,players,text_en\nR1,income,Income\nR2,debt; näive_Größe,Debt\n"


@pytest.fixture
def loans(tmp_path, monkeypatch):
    """A file of LightGBM with two classes, and its rows."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(60, 3)), columns=NAMES)
    model = lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1, min_child_samples=2)
    model.fit(rows, (rows.income - rows.debt > 0).astype(int)).booster_.save_model("model.txt")
    rows.assign(id=range(60)).to_parquet("rows.parquet")
    Path("codes.csv").write_text(CODES, encoding="utf-8")
    return tmp_path


def command(name: str, text: str):
    Path("job.toml").write_text(text, encoding="utf-8")
    return CliRunner().invoke(cli, [name, "job.toml"])


def test_a_sink_chooses_a_class_of_trees(loans):
    """Its output is "log-odds of defaults", and both names choose it."""
    import duckdb

    assert command("check", JOB).exit_code == 0
    result = command("run", JOB)
    assert result.exit_code == 0, result.output
    assert "explanation reasons: 60 rows" in result.output
    assert "coalitions" not in result.output  # trees list none
    with duckdb.connect("shop.duckdb", read_only=True) as connection:
        found = connection.execute("SELECT DISTINCT class FROM notices").fetchall()
    assert found == [("log-odds of defaults",)]
    whole = JOB.replace('outputs = ["defaults"]', 'outputs = ["log-odds of defaults"]')
    assert command("check", whole).exit_code == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ('outputs = ["defaults"]', 'outputs = ["lapses"]'),
            "unknown output 'lapses'. Allowed: log-odds of defaults",
        ),
        (("[columns.income]", "[columns.incmoe]"), "unknown column 'incmoe'; did you mean"),
        (("[columns.income]", "[columns.shoes]"), "[columns]: unknown column 'shoes'"),
        (
            ('features = ["income"', 'features = ["incmoe"'),
            "[source] features names a column that the model of [model] path",
        ),
    ],
)
def test_the_check_refuses_what_a_run_would_refuse(loans, change, said):
    text = JOB.replace(*change)
    for name in ("check", "run"):
        result = command(name, text)
        assert result.exit_code == 2, result.output
        assert said in result.output.replace(str(loans), "")
    assert not Path("build/loans/reasons").exists()


def test_the_check_knows_the_classes_of_a_function(folder):  # noqa: F811
    assert command("check", OF_FUNCTION).exit_code == 0
    for change, said in [
        (('outputs = ["defaults"]', 'outputs = ["lapses"]'), "unknown output 'lapses'"),
        (("[card]", "[columns.x00]\nlabel = 'a'\n[card]"), "unknown column 'x00'"),
    ]:
        result = command("check", OF_FUNCTION.replace(*change))
        assert result.exit_code == 2, result.output
        assert said in result.output


def test_outputs_that_rows_alone_show(folder):  # noqa: F811
    """A function without classes, and a model that the run fits."""
    import tomllib

    given = tomllib.loads(OF_FUNCTION)
    del given["model"]["classes"]
    del given["sink"]
    fitted = {
        **given,
        "model": {"kind": "kernel_ridge"},
        "explain": [{"name": "k", "value": "kernel_interventional"}],
    }
    fitted["source"] = {**given["source"], "target": "debt_ratio"}
    for each in (parse_job(given), parse_job(fitted)):
        assert model_of_job(each).outputs(each.explain[0]) is None


def test_a_job_that_is_refused_names_no_reason_to_explain_all_rows(loans):
    """A night that goes on from another is refused by [columns] alone."""
    nightly = JOB.replace("[[sink]]", '[incremental]\nstrategy = "digest"\n[[sink]]')
    assert command("run", nightly).exit_code == 0
    result = command("run", nightly.replace("[columns.income]", "[columns.incmoe]"))
    assert result.exit_code == 2, result.output
    assert "unknown column 'incmoe'" in result.output
    assert "all rows are explained" not in result.output
