"""States made once and used by many runs; and MSE_v, which says how good they are."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dshap
from dshap import designs
from dshap.core.errors import InputError, StoreMismatchError
from dshap.kernels import RBF, Fourier, Nystrom
from dshap.models import KernelRidge
from dshap.values import ConditionalRegression, KernelInterventional, KernelObservational, Marginal


def target(x):
    return x[:, 0] * x[:, 1] + np.sin(x[:, 2]) * x[:, 3]


def other(x):
    return target(x) + x[:, 0]


def table(seed, n):
    x = np.random.default_rng(seed).normal(size=(n, 4))
    x[:, 1] += x[:, 0]
    return x


@pytest.fixture(scope="module")
def data():
    return table(0, 600)


@pytest.fixture(scope="module")
def rows():
    return table(1, 90)


@pytest.fixture(scope="module")
def model(data):
    return KernelRidge(RBF(1.5), Nystrom(60), 1e-6).fit(data, target(data))


VALUES = {
    "interventional": lambda model, data: KernelInterventional(model, data),
    "observational": lambda model, data: KernelObservational(model, data, Nystrom(20), 1e-3),
    "centred": lambda model, data: KernelObservational(
        model, data, Nystrom(20), 1e-3, centred=True
    ),
    "fourier": lambda model, data: KernelObservational(model, data, Fourier(40), 1e-2),
    "regression": lambda model, data: ConditionalRegression(
        model.expansion_.predict, data, RBF(1.5), Nystrom(60), "validate"
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_new_rows_from_prepared_states_are_those_of_one_run(name, model, data, rows, tmp_path):
    value = VALUES[name](model, data)
    prepared = dshap.prepare(value, store=tmp_path / "prepared")
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "prepared").rglob("*.*")}
    cube = dshap.explain(prepared, rows, store=tmp_path / "cube.zarr")
    assert_array_equal(cube.attribution, dshap.explain(value, rows).attribution)
    made = {path.name.split("-")[0] for path in (tmp_path / "cube.zarr" / "state").glob("*.npz")}
    assert not made, "nothing is learnt again"
    again = dshap.open_prepared(tmp_path / "prepared", VALUES[name](model, data))
    assert_allclose(dshap.explain(again, rows[:7]).attribution, cube.attribution[:7], atol=1e-12)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "prepared").rglob("*.*")} == files


def test_the_data_are_not_needed_any_more(data, rows, tmp_path):
    path = tmp_path / "data.parquet"
    pd.DataFrame(data, columns=list("abcd")).to_parquet(path)
    value = ConditionalRegression(
        target, str(path), RBF(1.0), Nystrom(15), 1e-3, feature_names=list("abcd")
    )
    dshap.prepare(value, store=tmp_path / "prepared")
    os.remove(path)
    frame = pd.DataFrame(rows, columns=list("abcd"))[["d", "c", "b", "a"]]
    cube = dshap.explain(dshap.open_prepared(tmp_path / "prepared", value), frame)
    assert_allclose(cube.attribution.sum("feature") + cube.base_value, cube.prediction, atol=1e-12)


def test_a_second_prepare_computes_nothing(data, tmp_path):
    calls = []

    def counting(x):
        calls.append(len(x))
        return target(x)

    value = ConditionalRegression(counting, data, RBF(1.0), Nystrom(15), 1e-3)
    dshap.prepare(value, store=tmp_path / "p")
    assert sum(calls) >= len(data)
    calls.clear()
    dshap.prepare(value, store=tmp_path / "p")
    assert sum(calls) <= 64  # the probe


def test_a_column_that_is_constant_in_the_data_may_vary_in_new_rows(rows, tmp_path):
    data = table(0, 300)
    data[:, 3] = 1.0
    value = ConditionalRegression(target, data, RBF(1.0), Nystrom(15), 1e-2)
    cube = dshap.explain(dshap.prepare(value, store=tmp_path / "p"), rows)
    assert (np.abs(cube.attribution.sel(feature="x3")) > 1e-3).any()
    assert_allclose(cube.attribution.sum("feature") + cube.base_value, cube.prediction, atol=1e-12)


def test_what_was_prepared_otherwise_is_refused(model, data, rows, tmp_path):
    value = ConditionalRegression(target, data, RBF(1.0), Nystrom(15), 1e-3)
    store = tmp_path / "p"
    prepared = dshap.prepare(value, design=designs.exact(4), store=store)
    with pytest.raises(StoreMismatchError, match=r"differs in penalty"):
        dshap.open_prepared(store, ConditionalRegression(target, data, RBF(1.0), Nystrom(15), 1e-2))
    with pytest.raises(
        StoreMismatchError, match="its predictions for the first rows of the data differ"
    ):
        other.__qualname__ = target.__qualname__
        dshap.open_prepared(store, ConditionalRegression(other, data, RBF(1.0), Nystrom(15), 1e-3))
    with pytest.raises(InputError, match=r"prepared with another table \(data: "):
        dshap.prepare(value, data[:-1], store=store)
    with pytest.raises(InputError, match="by another design: leave design at"):
        dshap.explain(prepared, rows, design=designs.kernelshap(4, 12))
    with pytest.raises(InputError, match="holds no prepared value function"):
        dshap.open_prepared(tmp_path / "nowhere", value)
    with pytest.raises(InputError, match="prepare needs store="):
        dshap.prepare(value)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    with pytest.raises(StoreMismatchError, match="holds something else"):
        dshap.prepare(value, store=tmp_path / "full")


@pytest.mark.parametrize("name", ["observational", "regression"])
def test_a_gram_matrix_that_cannot_be_factored_leaves_nothing_behind(name, model, data, tmp_path):
    values = {
        "observational": KernelObservational(
            model, data[:50], Fourier(120), 1e-22, kernel=RBF(1.5)
        ),
        "regression": ConditionalRegression(
            model.predict, data[:50], RBF(1.5), Fourier(120), 1e-22
        ),
    }
    message = (
        r"too small for the Fourier features \(120 weights, rank \d+, smallest eigenvalue -?\d.*e-\d+\): "
        r"make it \de-\d+ or more"
    )
    for carry_out in (
        dshap.prepare,
        lambda value, store: dshap.explain(value, data[:5], store=store),
    ):
        with pytest.raises(InputError, match=message):
            carry_out(values[name], store=tmp_path / "new")
        assert not list(tmp_path.iterdir())


def test_mse_v_wants_coalitions(model, data, rows):
    with pytest.raises(InputError, match="a closed form has none"):
        dshap.mse_v(KernelInterventional(model, data), rows, design="quadrature")


@pytest.mark.cluster
def test_a_cluster_prepares_the_same_states(data, rows, tmp_path, client):
    value = ConditionalRegression(target, data, RBF(1.0), Nystrom(15), "validate")
    here = dshap.prepare(value, store=tmp_path / "here", row_span=100)
    there = dshap.prepare(value, store=tmp_path / "there", row_span=100, client=client)
    cube = dshap.explain(there, rows, client=client)
    assert here.follows_from == there.follows_from
    for path in (tmp_path / "here" / "state").glob("*.npz"):
        with np.load(path) as left, np.load(tmp_path / "there" / "state" / path.name) as right:
            for name in left.files:
                assert_array_equal(left[name], right[name])
    assert_array_equal(cube.attribution, dshap.explain(here, rows).attribution)


def test_mse_v_is_its_definition(model, data, rows):
    """Mean over rows and proper coalitions of (f − v_S)², coalition by coalition, by the value
    function alone."""
    value = KernelObservational(model, data, Nystrom(20), 1e-3)
    chosen = value.chosen(value.choose(data))
    quality = dshap.mse_v(value, rows, coalition_tile=4)
    masks = designs.exact(4).masks[2:]
    values = chosen.evaluate(chosen.prepare(masks, chosen.moments(masks, data)), rows)
    f = model.expansion_.predict(rows)
    expected = np.square(f[:, None] - values).mean(axis=0)
    assert_array_equal(quality.masks, masks)
    assert_allclose(quality.mse_of_coalitions, expected, rtol=1e-6)
    assert_allclose(quality.mse, expected.mean(axis=0), rtol=1e-6)
    assert_allclose(quality.variance, f.var(axis=0), rtol=1e-9)
    assert_allclose(
        quality.by_size[:, 0],
        [expected[masks.sum(axis=1) == size].mean() for size in (1, 2, 3)],
        rtol=1e-6,
    )
    assert f"{len(rows)} rows, 14 coalitions" in str(quality)


def test_mse_v_ranks_what_is_closer_to_the_conditional_expectation(model, data, rows):
    """Columns 0 and 1 go together: observational values beat interventional ones, and noise in them
    shows."""
    mse = {name: dshap.mse_v(make(model, data), rows).mse[0] for name, make in VALUES.items()}
    assert (
        max(mse["observational"], mse["regression"], mse["centred"], mse["fourier"])
        < 0.9 * mse["interventional"]
    )
    marginal = dshap.mse_v(Marginal(model.expansion_.predict, data), rows)
    assert_allclose(marginal.mse[0], mse["interventional"], rtol=1e-9)
