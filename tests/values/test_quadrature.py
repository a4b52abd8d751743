"""Closed-form interventional values: against all coalitions, through the engine, with thinned backgrounds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dshap
from dshap import designs
from dshap.errors import InputError
from dshap.kernels import RBF, Laplacian, Matern, Nystrom, Product
from dshap.models import FourierExpansion, KernelExpansion
from dshap.values import ConditionalRegression, KernelInterventional, Marginal
from tests.values.oracles import shapley


def kernel_model(rng, d, k=1, r=25):
    kernel = Product([(RBF(1.5), Laplacian(2.0), Matern(2.5, 1.0))[j % 3] for j in range(d)]).bind(d)
    return KernelExpansion(kernel, rng.normal(size=(r, d)), rng.normal(size=(r, k)), rng.normal(size=k))


def fourier_model(rng, d, k=1, r=25):
    frequencies = rng.normal(size=(r, d)) / 2
    frequencies[1] = frequencies[0]  # a cosine and a sine
    return FourierExpansion(frequencies, rng.uniform(0, 6, r), rng.normal(size=(r, k)), rng.normal(size=k))


def mixed_model(rng, d, k=1):
    return kernel_model(rng, d, k) + fourier_model(rng, d, k)


MODELS = {"kernel": kernel_model, "fourier": fourier_model, "sum": mixed_model}


@pytest.mark.parametrize("name", MODELS)
def test_small_games_by_the_definition(name, rng):
    model, rows, background = MODELS[name](rng, 4, 2), rng.normal(size=(6, 4)), rng.normal(size=(9, 4))

    def worth(s):
        present = np.isin(np.arange(4), list(s))
        mixed = np.where(present, rows[:, None], background)
        return model.predict(mixed.reshape(-1, 4)).reshape(6, 9, 2).mean(axis=1)

    cube = dshap.explain(KernelInterventional(model, background), rows, design="quadrature")
    assert_allclose(cube.attribution, shapley(worth, 4).transpose(1, 0, 2), atol=1e-12)
    assert_allclose(cube.base_value, model.predict(background).mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_twelve_players_are_all_their_coalitions(name, rng):
    """Within 1e-10 of the standard deviation of the predictions, with the exact number of nodes."""
    model, rows, background = MODELS[name](rng, 12), rng.normal(size=(5, 12)), rng.normal(size=(40, 12))
    value = KernelInterventional(model, background, tolerance=1e-13)
    listed = dshap.explain(value, rows, design=designs.exact(12))
    cube = dshap.explain(value, rows, design="quadrature")
    unit = model.predict(background).std()
    assert np.abs(cube.attribution - listed.attribution).max() <= 1e-10 * unit
    assert json.loads(cube.attrs["closed_form"])["background_rows"] == 40


@pytest.mark.parametrize("name", MODELS)
def test_the_tolerance_is_kept_with_fewer_nodes(name, rng):
    model, rows, background = MODELS[name](rng, 24), rng.normal(size=(30, 24)), rng.normal(size=(60, 24))
    exact = dshap.explain(KernelInterventional(model, background, tolerance=1e-300), rows, design="quadrature")
    cube = dshap.explain(KernelInterventional(model, background, tolerance=1e-4), rows, design="quadrature")
    stated = json.loads(cube.attrs["closed_form"])
    assert max(stated["nodes"]) < 12 and max(json.loads(exact.attrs["closed_form"])["nodes"]) == 12
    unit = model.predict(background).std()
    assert 0 < stated["node_error_in_standard_deviations"] <= 1e-4
    assert np.abs(cube.attribution - exact.attribution).max() <= 10 * 1e-4 * unit  # a sample's worst is not all rows'
    total = cube.attribution.sum("feature") + cube.base_value
    assert_allclose(total, cube.prediction, atol=24 * 10 * 1e-4 * unit)


def test_a_background_is_thinned_towards_all_its_rows(rng):
    """The stated errors are those of the rows that were kept; herding comes nearer than the first rows do."""
    model, background = kernel_model(rng, 14), rng.normal(size=(3_000, 14)) ** 3 / 3
    value = KernelInterventional(model, background, n_background=50)
    cube = dshap.explain(value, background[:4])
    stated = json.loads(cube.attrs["closed_form"])
    every = model.predict(background).mean()
    assert stated["background_rows"] == 50
    assert_allclose(stated["base_value_error"], np.abs(cube.base_value - every), rtol=1e-6, atol=1e-12)
    random_errors = [abs(model.predict(rng.permutation(background)[:50]).mean() - every) for _ in range(50)]
    assert stated["base_value_error"][0] < np.median(random_errors)
    wide = dshap.explain(KernelInterventional(model, background, n_background=2_000), background[:4])
    name = "value_error_in_standard_deviations"
    assert json.loads(wide.attrs["closed_form"])[name] < stated[name]


@pytest.mark.parametrize("name", MODELS)
def test_the_stated_error_of_the_values_is_that_of_the_trials(name, rng):
    """v_S(x) of every trial by calls of the model, over the kept rows and over all, of which 150 are candidates.

    In standard deviations of the candidates' predictions, each output its own; rtol 1e-6 is rounding and more.
    """
    model, background = MODELS[name](rng, 6, 2), rng.normal(size=(200, 6))
    form = KernelInterventional(model, background, n_background=20).closed_form()
    form = form.chosen(form.choose(background[:150]))
    none = np.zeros((1, 6), dtype=bool)
    state = form.prepare(none, form.moments(none, background))
    columns, rows = form._trials()
    assert len(state["background"]) == 20 and columns.any(axis=1).sum() > 100

    def means(over):
        mixed = np.where(columns[:, None], rows[:, None], over).reshape(-1, 6)
        return model.predict(mixed).reshape(len(rows), len(over), 2).mean(axis=1)

    gap = (means(state["background"]) - means(background)) / model.predict(background[:150]).std(axis=0)
    stated = form.stated_error(state)
    assert_allclose(stated["value_error_in_standard_deviations"], np.sqrt(np.mean(gap**2)), rtol=1e-6)


def test_groups_and_constant_columns(rng):
    model, rows, background = kernel_model(rng, 5), rng.normal(size=(6, 5)), rng.normal(size=(9, 5))
    rows[:, 4] = background[:, 4] = 0.3
    value = KernelInterventional(model, background, players={"pair": [0, 2]})
    cube, listed = dshap.explain(value, rows, design="quadrature"), dshap.explain(value, rows, design="exact")
    assert_allclose(cube.attribution, listed.attribution, atol=1e-12)
    assert (cube.attribution.sel(feature="x4") == 0).all()


def test_auto_takes_a_table_up_to_twelve_players_and_says_why(rng, tmp_path):
    for d, wanted in ((12, "all 2^12 coalitions"), (13, "quadrature with 500 rows of the background")):
        model, rows = kernel_model(rng, d), rng.normal(size=(3, d))
        dshap.explain(KernelInterventional(model, rows), rows, store=tmp_path / f"{d}", compute=False)
        plan = json.loads((tmp_path / f"{d}" / "state" / "plan.json").read_text())
        assert wanted in dict(plan["reasons"])["design"]
    sampled = dshap.explain(KernelInterventional(model, rows), rows, max_coalitions=200)
    assert "closed_form" not in sampled.attrs


def test_prepared_closed_forms(rng, tmp_path):
    model, background, rows = kernel_model(rng, 14), rng.normal(size=(90, 14)), rng.normal(size=(7, 14))
    value = KernelInterventional(model, background, n_background=20)
    prepared = dshap.prepare(value, store=tmp_path / "p")
    cube = dshap.explain(prepared, rows)
    assert_array_equal(cube.attribution, dshap.explain(value, rows).attribution)
    again = dshap.open_prepared(tmp_path / "p", value)
    assert_array_equal(dshap.explain(again, rows).attribution, cube.attribution)


def test_who_has_no_closed_form_says_so(rng):
    rows = rng.normal(size=(30, 3))
    for value in (
        Marginal(lambda x: x[:, 0], rows),
        ConditionalRegression(lambda x: x[:, 0], rows, RBF(1.0), Nystrom(5)),
    ):
        with pytest.raises(InputError, match="is a closed form of KernelInterventional, and"):
            dshap.explain(value, rows, design="quadrature")
    with pytest.raises(InputError, match="n_background is 0"):
        KernelInterventional(kernel_model(rng, 3), rows, n_background=0)
    with pytest.raises(InputError, match="tolerance is 0"):
        KernelInterventional(kernel_model(rng, 3), rows, tolerance=0)
