"""What objects show of themselves: one short line, never an array."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap import designs
from dshap.engine import Plan, SilentProgress
from dshap.jobs import load_job, plan_job, run_job
from dshap.kernels import RBF, Categorical, Fourier, Matern, Nystrom, Product
from dshap.models import KernelExpansion, KernelLogistic, KernelRidge
from dshap.values import ConditionalRegression, KernelInterventional, Marginal

X = np.random.default_rng(0).normal(size=(300, 9))


def first(x):
    return x[:, 0]


RIDGE = KernelRidge(RBF([1.0] * 9), Nystrom(landmarks=X), 1e-3).fit(X, X[:, 0])
SHOWN = [
    (RBF([1.0, 2.0]), "RBF(lengthscale=(1.0, 2.0))"),
    (Matern(2.5, {"a": 1.0}), "Matern(nu=2.5, lengthscale={'a': 1.0})"),
    (
        Product([RBF(), Categorical(0.2)]),
        "Product(kernels=(RBF(lengthscale='median'), Categorical(rho=0.2)))",
    ),
    (Nystrom(landmarks=X), "Nystrom(n_landmarks=300, selection='given', seed=0)"),
    (Fourier(6), "Fourier(n_features=6, seed=0, orthogonal=True)"),
    (
        KernelRidge(),
        "KernelRidge(kernel=RBF(lengthscale='median'), embedding=Nystrom(n_landmarks=500, ",
    ),
    (RIDGE, ", fitted"),
    (RIDGE.expansion_, "KernelExpansion(300 landmarks, 9 columns, 1 outputs)"),
    (KernelRidge(RBF(1.0), Fourier(6)).fit(X, X[:, 0]).expansion_, "FourierExpansion("),
    (Marginal(first, X[:5]), "Marginal(9 players: x0, x1, x2, x3, x4, x5, …; outputs: output)"),
    (
        Marginal(first, X[:5, :2], output_names=["price"]),
        "Marginal(2 players: x0, x1; outputs: price)",
    ),
    (
        ConditionalRegression(first, X, RBF(1.0), Nystrom(9)),
        "ConditionalRegression(9 players: x0, ",
    ),
    (KernelInterventional(RIDGE, X), "KernelInterventional(9 players: "),
    (designs.kriging(6, 30), "KrigingDesign(n_players=6, "),
]


@pytest.mark.parametrize(("thing", "words"), SHOWN, ids=lambda own: type(own).__name__)
def test_it_is_one_line_that_says_what_it_is(thing, words):
    assert words in repr(thing)
    assert "\n" not in repr(thing)
    assert len(repr(thing)) < 400


def test_a_prepared_value_function_and_its_quality(tmp_path):
    value = ConditionalRegression(first, X[:, :3], RBF(1.0), Nystrom(9), 1e-2)
    prepared = dshap.prepare(value, store=tmp_path / "states")
    assert repr(prepared).startswith("Prepared(conditional_regression on 300 rows, 8 coalitions, ")
    shown = cells_of(prepared)
    assert shown[:4] == ["value function", "conditional_regression", "players", "3: x0, x1, x2"]
    quality = dshap.mse_v(prepared, X[:20, :3])
    shown = cells_of(quality)
    assert shown[:5] == ["output", "MSE_v", "of the variance", "1 present", "2 present"]
    assert shown[6] == f"{quality.mse[0]:.6g}"


def cells_of(thing) -> list[str]:
    """The texts in the cells of the tables that a notebook shows of a thing."""
    return re.findall(r"<t[hd] .*?>(.*?)</t[hd]>", thing._repr_html_())


def test_a_plan_shows_its_first_line(tmp_path):
    """Its text is a table of stages."""
    dshap.explain(Marginal(first, X[:5, :3]), X[:40, :3], store=tmp_path / "cube")
    plan = Plan.from_json((tmp_path / "cube" / "state" / "plan.json").read_bytes())
    assert repr(plan).startswith("Plan(40 rows × 3 players × 1 output, 8 coalitions, ")
    assert repr(plan).endswith(" a worker beyond its idle size)")
    assert "\n" not in repr(plan)
    assert len(repr(plan)) < 200
    assert len(str(plan).splitlines()) > 5
    assert repr(plan)[5:-1] == str(plan).splitlines()[0]
    heads, *stages = np.array_split(cells_of(plan), 1 + len(plan.stages))
    assert heads.tolist()[::3] == ["stage", "tasks"]
    assert [stage[0] for stage in stages] == [stage.name for stage in plan.stages]


def test_a_job_its_plan_and_its_result(tmp_path, monkeypatch):
    """Secrets are masked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PASSWORD", "hunter2")
    frame = pd.DataFrame(X[:30, :3], columns=["a", "b", "c"]).assign(y=X[:30, 0], id=range(30))
    frame.to_parquet("t.parquet")
    text = """
        job = {name = "sales", store = "out"}
        source = {kind = "parquet", path = "t.parquet", target = "y", key = ["id"]}
        model = {kind = "kernel_ridge", landmarks = 9, lengthscale = 1.0, penalty = 1e-3}
        explain = [{name = "all", value = "kernel_interventional", background = "all"}]
        sink = [{explain = "all", uri = "postgresql://me:{{ env_var(PASSWORD) }}@host/db", table = "t"}]
    """
    (tmp_path / "loads.toml").write_text(text)
    shown = cells_of(load_job("loads.toml"))
    assert shown[3:6] == ["[job]", "name", "&quot;sales&quot;"]
    assert "hunter2" not in str(shown)
    assert "host/db" in str(shown)
    (tmp_path / "job.toml").write_text(text.replace("sink =", "# sink ="))
    job = load_job("job.toml")
    assert {"explanation", "all"} <= set(cells_of(run_job(job, SilentProgress())))
    shown = plan_job(job)._repr_html_()
    assert "explanation all: 30 rows" in shown
    assert "model: fitted on the table" in shown


def test_a_binary_classifier_names_the_class_that_its_log_odds_are_of():
    """It was "output"."""
    labels = np.where(X[:, 0] > 0, "yes", "no")
    model = KernelLogistic(RBF(1.0), Nystrom(9)).fit(X, labels)
    assert model.expansion_.output_names == ("yes",)
    assert isinstance(model.expansion_, KernelExpansion)
    cube = dshap.explain(KernelInterventional(model, X[:, :]), X[:4])
    assert cube.output.values.tolist() == ["log-odds of yes"]
    assert (cube.attribution[:, 0, 0].values > 0).tolist() == (X[:4, 0] > X[:, 0].mean()).tolist()
