"""The null-player axiom for every value function: an unused column, independent of the rest, gets
0.

Where the value function has no noise, 0 to rounding.  Where a distribution is fitted to rows and
drawn from, 0 on the average: over `TABLES` fresh tables, with fresh draws, the mean of φ is within
3 standard errors of 0, the standard error being the deviation of φ from table to table over
√TABLES.  Twelve cells (two columns, six rows), t with 19 degrees of freedom: false alarms of 0.7 %
a cell in other seeds; the seeds are fixed.  The penalised regressions and embeddings have a bias
too, which their penalty trades against noise: |mean of φ| is at most 3 standard errors of *one*
table, its deviation from table to table (measured: 1.1 of them; 2.3 with 40 landmarks and ten times
the penalty).
"""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

import dshap
from dshap import values
from dshap.core.errors import PredictError
from dshap.kernels import RBF, Nystrom, Product
from dshap.models import KernelRidge
from dshap.values.base import TableValue

pytestmark = pytest.mark.usefixtures("in_this_process")

USED, NULL = 3, 2
N_ROWS, TABLES = 400, 20


def table(n, seed):
    """(n, 5): three dependent, skewed columns that no normal distribution fits, and two independent
    of all."""
    rng = np.random.default_rng([7, seed])
    z = rng.multivariate_normal(np.zeros(USED), [[1, 0.6, -0.3], [0.6, 1, 0.2], [-0.3, 0.2, 1]], n)
    used = [np.exp(0.8 * z[:, 0]), z[:, 1] + 0.5 * z[:, 0] ** 2, np.exp(z[:, 2])]
    return np.column_stack([*used, rng.normal(size=n), np.exp(rng.normal(size=n))])


ROWS = table(6, 1_000)


def predict(x):
    """Of the first three columns: a product, a cube, a kink, so that no normal distribution has the
    data's mean."""
    return x[:, 0] * x[:, 1] + x[:, 0] ** 3 / 10 + np.abs(x[:, 2] - 1)


def bounded(x):
    return np.tanh(predict(x) / 4)


def kernel_model():
    """A product model that is constant in the last two columns: their factors are exp(−(x −
    z)²/2e24) = 1."""
    x = table(300, 2_000)
    kernel = Product([RBF(2.0)] * USED + [RBF(1e12)] * NULL)
    return KernelRidge(kernel, Nystrom(40), penalty=1e-4).fit(x, bounded(x))


def trees():
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    x = table(400, 3_000) * ([1.0] * USED + [0.0] * NULL)  # constant columns: never split
    return xgboost.XGBRegressor(n_estimators=20, max_depth=4, n_jobs=1).fit(x, predict(x))


MODEL = kernel_model()
EXACT = {
    values.Marginal: lambda: values.Marginal(predict, table(60, 0)),
    values.Trees: lambda: values.Trees(trees()),
    values.KernelInterventional: lambda: values.KernelInterventional(MODEL, table(60, 0)),
}
NOISY = {
    values.Gaussian: lambda data, seed: values.Gaussian(predict, data, n_samples=60, seed=seed),
    values.Copula: lambda data, seed: values.Copula(predict, data, n_samples=60, seed=seed),
    values.LinearGaussian: lambda data, seed: values.LinearGaussian(
        [1.0, 2.0, -1.0, 0.0, 0.0], 0.5, data=data
    ),
}
PENALISED = {
    values.ConditionalRegression: lambda data, seed: values.ConditionalRegression(
        bounded, data, RBF("median"), Nystrom(120), 1e-4
    ),
    values.KernelObservational: lambda data, seed: values.KernelObservational(
        MODEL, data, Nystrom(120), 1e-4, kernel=RBF("median")
    ),
}


OF_TEXTS = values.Tokens
"""Its rows are no table: a test of its own."""


def test_every_value_function_is_here():
    every = {
        each
        for each in vars(values).values()
        if inspect.isclass(each) and issubclass(each, TableValue)
    }
    assert every == EXACT.keys() | NOISY.keys() | PENALISED.keys() | {OF_TEXTS}


def test_tokens_that_the_model_does_not_use_get_nothing():
    """Of the first three tokens: texts of 3 to 6, and others to take absent tokens from."""

    def of_three(ids):
        x = np.pad(ids, ((0, 0), (0, 3)))[:, :USED].astype(float)
        return x[:, 0] * x[:, 1] + x[:, 0] ** 3 / 10 + np.abs(x[:, 2] - 4)

    rng = np.random.default_rng(11)
    texts = [rng.integers(1, 9, length) for length in (3, 4, 6, 5, 6)]
    value = OF_TEXTS(of_three, 9, background=[rng.integers(1, 9, 6) for _ in range(7)])
    phi = dshap.explain(value, texts).attribution.values[..., 0]
    unused = phi[:, USED:]
    assert np.isfinite(unused).sum() == 1 + 3 + 2 + 3
    assert np.nanmax(np.abs(unused)) <= 1e-12 * np.nanmax(np.abs(phi))
    assert np.abs(phi[:, :USED]).max(axis=0).min() > 0.1


@pytest.mark.parametrize("kind", EXACT, ids=lambda kind: kind.__name__)
def test_columns_that_the_model_does_not_use_get_nothing(kind):
    phi = dshap.explain(EXACT[kind](), ROWS).attribution.values[..., 0]
    assert np.abs(phi[:, USED:]).max() <= 1e-12 * np.abs(phi).max()


def test_quadrature_gives_them_nothing_either():
    value = values.KernelInterventional(MODEL, table(60, 0))
    phi = dshap.explain(value, ROWS, design="quadrature").attribution.values[..., 0]
    assert np.abs(phi[:, USED:]).max() <= 1e-12 * np.abs(phi).max()


def test_columns_without_a_coefficient_get_nothing_where_columns_are_given():
    value = values.LinearGaussian([1.0, 0.0], 0.5, np.zeros(2), np.diag([1.0, 4.0]))
    assert np.abs(dshap.explain(value, ROWS[:, :2]).attribution.values[:, 1]).max() == 0.0


def attributions(make):
    """φ (tables, rows, players) of fresh tables; each adds up to the prediction."""
    cubes = [dshap.explain(make(table(N_ROWS, seed), seed), ROWS) for seed in range(TABLES)]
    for cube in cubes:
        gap = cube.attribution.sum("feature") + cube.base_value - cube.prediction
        assert float(abs(gap).max()) < 1e-10 * float(abs(cube.prediction).max())
    return np.array([cube.attribution.values[..., 0] for cube in cubes])


@pytest.mark.slow
@pytest.mark.parametrize("kind", NOISY, ids=lambda kind: kind.__name__)
def test_columns_that_the_model_does_not_use_get_nothing_on_the_average(kind):
    phi = attributions(NOISY[kind])
    error = phi.std(axis=0, ddof=1) / np.sqrt(TABLES)
    assert (np.abs(phi.mean(axis=0)) <= 3 * error)[:, USED:].all()
    # the error is small enough to tell
    assert (error[:, USED:] < 0.1 * np.abs(phi[..., :USED]).mean()).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", PENALISED, ids=lambda kind: kind.__name__)
def test_what_a_penalty_gives_to_unused_columns_is_below_its_noise(kind):
    phi = attributions(PENALISED[kind])
    error = phi.std(axis=0, ddof=1)
    assert (np.abs(phi.mean(axis=0)) <= 3 * error)[:, USED:].all()
    assert np.sqrt(np.mean(phi[..., USED:] ** 2)) < 0.25 * np.abs(phi[..., :USED]).mean()


@pytest.mark.parametrize("kind", [values.Gaussian, values.Copula], ids=lambda kind: kind.__name__)
def test_the_mean_over_the_data_stands_beside_the_base_value(kind):
    """v(∅) is the mean over the draws; the columns are no normal ones, so that the two differ by
    more than noise."""
    data = table(N_ROWS, 0)
    cube = dshap.explain(kind(predict, data, n_samples=400), ROWS)
    note = json.loads(cube.attrs["base_value"])
    assert note["mean_over_draws"] == cube.base_value.values.tolist()
    assert note["draws"] == 400
    assert note["mean_over_data"] == pytest.approx([predict(data).mean()], rel=1e-12)
    spread = np.std(
        [base_of(kind(predict, data, n_samples=400, seed=seed), data) for seed in range(1, 51)],
        ddof=1,
    )
    # of 50 seeds: 10 % either way, 1 % by tails of f
    assert 0.6 < note["std_error_of_draws"][0] / spread < 1.6


def base_of(value, data):
    value = value.chosen(value.choose(data))
    mask = np.array([[True] + [False] * 4])
    return value.base(value.prepare(mask, value.moments(mask, data)))[0]


def test_infinite_predictions_of_draws_are_told():
    def wild(x):
        return np.where(x[:, 0] < 0, np.inf, x[:, 0])  # no row of the data is below 0

    with pytest.raises(
        PredictError, match=r"NaN or infinity for \d+ of 1,000 gaussian draws.*or use Marginal"
    ):
        dshap.explain(values.Gaussian(wild, table(N_ROWS, 0)), ROWS)
