"""The identity of a run in two parts: the method, which tomorrow's rows share, and the rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap import designs
from dshap.cube import read_run
from dshap.kernels import RBF, Nystrom
from dshap.values import ConditionalRegression, Gaussian, Marginal

pytestmark = pytest.mark.usefixtures("in_this_process")

D = 6
X = np.random.default_rng(0).normal(size=(60, D))
NAMES = [f"c{j}" for j in range(D)]


def product(x):
    return x[:, 0] * x[:, 1] + x[:, 2]


def quotient(x):
    return x[:, 0] / (1.0 + x[:, 1] ** 2) + x[:, 2]


def marginal(predict=product, background=X[:10]):
    return Marginal(predict, background, feature_names=NAMES)


def learned(data=X[:40]):
    return ConditionalRegression(product, data, RBF(2.0), Nystrom(10), 1e-3, feature_names=NAMES)


def sampled(seed=0, n_coalitions=40):
    return designs.kernelshap(D, n_coalitions, seed=seed)


def run_of(store, value, rows=X[40:], design=None, **options):
    """What a store says of its run."""
    design = sampled() if design is None else design
    dshap.explain(value, rows, design=design, store=store, progress=False, **options)
    return read_run(store)


@pytest.mark.slow
@pytest.mark.parametrize("make", [marginal, learned])
@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (X[20:30], {}),
        (X[40:] + 1e-9, {}),
        (pd.DataFrame(X, columns=NAMES).assign(id=range(60)), {"key": "id"}),
        (X[40:41], {"units": "kg"}),
    ],
    ids=["other rows", "rows that differ little", "more rows, with a key", "one row, with units"],
)
def test_other_rows_have_the_same_method(make, rows, options, tmp_path):
    today = run_of(tmp_path / "a", make())
    tomorrow = run_of(tmp_path / "b", make(), rows, **options)
    assert today["method"] == tomorrow["method"]
    assert today["digest"] != tomorrow["digest"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "design", "options"),
    [
        (marginal(quotient), None, {}),
        (marginal(background=X[:11]), None, {}),
        (Gaussian(product, X[:10], feature_names=NAMES), None, {}),
        (marginal(), sampled(seed=1), {}),
        (marginal(), sampled(n_coalitions=44), {}),
        (marginal(), designs.exact(D), {}),
        (marginal(), None, {"dtype": "float32"}),
        (marginal(), None, {"keep_rows": True}),
        (Marginal(product, X[:10], feature_names=NAMES[::-1]), None, {}),
    ],
    ids=["model", "background", "value function", "seed", "coalitions", "design", "dtype", "keep_rows", "names"],
)  # fmt: skip
def test_another_method_has_another_digest(value, design, options, tmp_path):
    before = run_of(tmp_path / "a", marginal())
    assert run_of(tmp_path / "b", value, design=design, **options)["method"] != before["method"]


@pytest.mark.slow
def test_other_data_to_learn_from_are_another_method(tmp_path):
    first = run_of(tmp_path / "a", learned())
    other = run_of(tmp_path / "b", learned(X[:41]))
    assert first["method"] != other["method"]
    prepared = dshap.prepare(learned(), store=tmp_path / "states", design=sampled())
    nights = [run_of(tmp_path / f"{n}", prepared, X[n:], "auto") for n in (20, 50)]
    assert nights[0]["method"] == nights[1]["method"] != other["method"]


def test_an_open_cube_says_its_method(tmp_path):
    run = run_of(tmp_path / "a", marginal())
    assert json.loads(dshap.open_cube(tmp_path / "a").attrs["dshap_run"])["method"] == run["method"]
