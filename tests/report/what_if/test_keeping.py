"""The record of a what-if in a store: what is kept, reasons where nothing is, plans and jobs."""

from __future__ import annotations

import html
import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dshap
from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.engine import SilentProgress
from dshap.jobs import Command, job_summary, parse_job, plan_job, run_recorded
from dshap.report.what_if.keeping import FORMAT, has_what_if, stored_what_if
from dshap.report.what_if.model_record import MAX_BYTES
from dshap.report.what_if.packing import packed_bytes
from tests.jobs.job_files import changed, small_table
from tests.report.what_if.models import N, forest_of_classes, kernel_quadrature, numbers

pytest.importorskip("jinja2", reason="jinja2 is not installed")


def kernel_of(rows: pd.DataFrame, n_landmarks: int, **options):
    rng = np.random.default_rng(0)
    model = dshap.models.KernelExpansion(
        dshap.kernels.RBF([1.0] * rows.shape[1]),
        rng.normal(size=(n_landmarks, rows.shape[1])),
        rng.normal(size=(n_landmarks, 1)),
        np.zeros(1),
        feature_names=tuple(rows.columns),
    )
    return dshap.values.KernelInterventional(model, rows, **options)


def wide(n_rows: int, n_columns: int) -> pd.DataFrame:
    return numbers(n_rows, 0, [f"c{j}" for j in range(n_columns)])


def of_function(rows):
    return dshap.values.Marginal(lambda x: x[:, 0], rows.to_numpy()[:5])


def forest(n_trees: int, **options):
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    rows = numbers(200, 0)
    model = ensemble.RandomForestRegressor(n_trees, random_state=0)
    return dshap.values.Trees(model.fit(rows, rows["age"] * rows["income"]), **options)


REASONS = {
    "black box": (lambda: (of_function(numbers(N, 0)), numbers(N, 0)), {}, "is Marginal, and only"),
    "landmarks": (
        lambda: (kernel_of(wide(20, 3), 501), wide(20, 3)),
        {},
        "501 landmarks are more than 500",
    ),
    "columns": (
        lambda: (kernel_of(wide(20, 21), 5), wide(20, 21)),
        {"design": "quadrature"},
        "21 columns are more than 20",
    ),
    "background": (
        lambda: (kernel_of(wide(101, 4), 5), wide(101, 4)),
        {"design": "quadrature"},
        "500 background rows are more than 100: give the value function n_background = 100",
    ),
    "subsets": (
        lambda: (kernel_of(wide(101, 11), 2), wide(101, 11)),
        {"design": "exact"},
        "11 players of a table of subsets are more than 10",
    ),
    "bytes": (
        lambda: (kernel_of(wide(101, 10), 23), wide(101, 10)),
        {"design": "exact"},
        "means of 23 landmarks for 1,024 coalitions take 254 kB on the page, and at most 240 kB are allowed",
    ),
    "sampled": (
        lambda: (kernel_of(wide(20, 6), 5), wide(20, 6)),
        {"design": "permutation", "max_coalitions": 30},
        "coalitions were sampled",
    ),
    "nodes": (lambda: (forest(60), numbers(N, 0)), {}, "nodes of 60 trees are more than 5,000"),
    "background of trees": (
        lambda: (forest(2, background=numbers(30, 1)), numbers(N, 0)),
        {},
        "the values are interventional",
    ),
}


@pytest.mark.filterwarnings("ignore:std_error is NaN")
@pytest.mark.parametrize("kind", REASONS)
def test_one_sentence_says_why_there_is_no_what_if(kind, tmp_path, capsys):
    make, options, sentence = REASONS[kind]
    value, rows = make()
    store = tmp_path / "s"
    dshap.explain(value, rows, store=store, keep_rows=True, what_if=True, progress=True, **options)
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "no what-if: " in each]
    assert sentence in line
    assert sentence in stored_what_if(store)["why_not"]
    page = dshap.report.page(store, tmp_path / "page.html", what_if=True)
    text = html.unescape(page.read_text(encoding="utf-8"))
    assert f"s: there is no what-if: {stored_what_if(store)['why_not']}." in text
    assert 'id="what-if"' not in text
    assert "what-if-data" not in text


def test_the_largest_sizes_are_kept(tmp_path):
    value, rows = kernel_of(wide(100, 20), 500, n_background=100), wide(100, 20)
    options = {"keep_rows": True, "what_if": True, "progress": False, "design": "quadrature"}
    dshap.explain(value, rows.iloc[:2], store=tmp_path / "s", **options)
    kept = stored_what_if(tmp_path / "s")
    assert kept["kind"] == "kernel"
    assert packed_bytes(kept) < MAX_BYTES
    value, rows = kernel_of(wide(101, 10), 20), wide(101, 10)
    dshap.explain(value, rows, store=tmp_path / "t", **{**options, "design": "exact"})
    assert "means" in stored_what_if(tmp_path / "t")["arrays"]


def test_a_finished_store_gets_its_model_later(tmp_path):
    case = kernel_quadrature()
    store = tmp_path / "s"
    options = {"store": store, "keep_rows": True, "progress": False, **case.options}
    before = dshap.explain(case.value, case.rows, **options)
    with pytest.raises(InputError, match="what_if=True"):
        dshap.report.page(store, tmp_path / "page.html", what_if=True)
    assert stored_what_if(store) is None
    after = dshap.explain(case.value, case.rows, what_if=True, **options)
    assert has_what_if(store)
    assert before.equals(after)
    name = next((store / "state").glob("what-if*"))
    written = name.stat().st_mtime_ns
    dshap.explain(case.value, case.rows, what_if=True, **options)
    assert name.stat().st_mtime_ns == written
    assert CliRunner().invoke(cli, ["verify", str(store)]).exit_code == 0
    dshap.report.page(store, tmp_path / "page.html", what_if=True)
    name.write_bytes(name.read_bytes()[:-30])
    assert CliRunner().invoke(cli, ["verify", str(store)]).exit_code == 7


def test_what_if_needs_a_store_and_columns(tmp_path):
    case = forest_of_classes()
    with pytest.raises(InputError, match="give store="):
        dshap.explain(case.value, case.rows, what_if=True, progress=False)
    with pytest.raises(InputError, match="what_if"):
        dshap.explain(case.value, case.rows, what_if="yes", store=tmp_path / "s")
    dshap.explain(case.value, case.rows, what_if=True, store=tmp_path / "s", progress=False)
    page = dshap.report.page(tmp_path / "s", tmp_path / "page.html", what_if=True)
    text = page.read_text(encoding="utf-8")
    assert "There is no what-if: the values of age were not kept" in text
    assert "what-if-data" not in text


def test_rows_that_are_prepared_have_a_what_if(tmp_path):
    case = kernel_quadrature()
    prepared = dshap.prepare(
        case.value, case.rows, store=tmp_path / "p", design="quadrature", progress=False
    )
    options = {"store": tmp_path / "s", "keep_rows": True, "what_if": True, "progress": False}
    dshap.explain(prepared, case.changed, **options)
    assert stored_what_if(tmp_path / "s")["kind"] == "kernel"


def job_with(*changes):
    return parse_job(changed(("report", {"page": "page.html", "what_if": True}), *changes))


def test_a_job_keeps_its_models_and_renews_its_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_table().to_parquet("table.parquet")
    lines = str(plan_job(job_with())).splitlines()
    assert (
        "what-if of interventional: on the page, if the arrays of the model have room there"
        in lines
    )
    (why_not,) = [each for each in lines if each.startswith("no what-if of observational: ")]
    assert "KernelObservational" in why_not
    assert not any("what-if" in each for each in str(plan_job(parse_job(changed()))).splitlines())

    def ran(job):
        ended = run_recorded(job, SilentProgress(), Command("job.toml"))
        return job_summary(job, ended.result)

    plain = parse_job(changed(("report", {"page": "page.html"})))
    ran(plain)
    assert (
        "what-if" not in (tmp_path / "page.html").read_text(encoding="utf-8").split("</style>")[1]
    )
    ran(job_with())
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "This page contains the model" in text
    assert "observational: there is no what-if: the value function is KernelObservational" in text
    data = json.loads(text.split('id="what-if-data">')[1].split("</script>")[0])
    assert [each["explanation"] for each in data["models"]] == ["interventional"]
    (tmp_path / "page.html").unlink()
    done = CliRunner().invoke(cli, ["report", "out.zarr", "-o", "page.html", "--what-if"])
    assert done.exit_code == 0, done.stderr
    page_line, reason_line = done.stdout.splitlines()
    assert page_line.startswith("report: ")
    assert reason_line.startswith("no what-if of observational: the value function is Kernel")
    assert "what-if-data" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert stored_what_if(tmp_path / "out.zarr" / "interventional")["format"] == FORMAT


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("run.keep_rows", False)], "keep_rows = true"),
        ([("report.what_if", "yes")], "what_if"),
    ],
)
def test_a_job_is_refused_before_it_runs(changes, said):
    with pytest.raises(InputError, match=said):
        job_with(*changes)
