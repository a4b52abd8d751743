"""The Banana data of RKHS-SHAP (2022), section 5.1: kernel values against the integrated truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

import dshap
from dshap.kernels import RBF, Nystrom
from dshap.values import ConditionalRegression, KernelInterventional, KernelObservational
from tests.values.oracles import shapley
from workflows.rkhs_shap.banana import fitted
from workflows.rkhs_shap.truth import (
    BENDS,
    banana,
    bend,
    conditional_bend,
    f,
    interventional_truth,
    observational_truth,
    printed_form,
    r2,
)

PENALTY = 1e-4
"""Of the embeddings, on `LANDMARKS`."""
LANDMARKS = Nystrom(256)
VALUES = {
    "interventional": (interventional_truth, KernelInterventional),
    "observational": (
        observational_truth,
        lambda model, x: KernelObservational(model, x, LANDMARKS, PENALTY, centred=False),
    ),
    "regression": (
        observational_truth,
        lambda model, x: ConditionalRegression(model.predict, x, RBF("median"), LANDMARKS, PENALTY),
    ),
}
"""Name -> the truth, and the value function of a model and rows that has to reach it."""


@pytest.mark.slow
@pytest.mark.parametrize("q", [1.0, 0.05])
def test_kernel_values_reach_the_truth(q):
    """2,000 rows, one seed.  R² seen: 0.9897 and more (interventional at q = 1), 0.9976 and more
    elsewhere."""
    x = banana(2_000, q, seed=0)
    model = fitted(x, q)
    assert model.score(x, f(x, q)) > 0.999
    for name, (truth, value) in VALUES.items():
        cube = dshap.explain(value(model, x), x, progress=False)
        assert r2(truth(x, q), cube.attribution.values[:, :, 0]) > 0.98, name


@pytest.mark.slow
@pytest.mark.parametrize("q", BENDS.values(), ids=BENDS)
def test_conditional_means_are_those_of_draws(q):
    """Sums over 12 bins of the other column, against 40,000 draws: the 120 comparisons of all q at
    4.5 standard errors have a false-alarm rate of 1e-3."""
    x = banana(40_000, q, seed=1)
    pairs = [
        (x[:, 1], bend(x[:, 0], q), conditional_bend(x[:, 1], q)),  # E[q(Z1² − v) | X2]
        (x[:, 0], f(x, q), 2.0 * bend(x[:, 0], q)),  # E[f | X1]
    ]
    for given, drawn, expected in pairs:
        bins = np.searchsorted(np.quantile(given, np.arange(1, 12) / 12), given)
        for own in range(12):
            difference = (drawn - expected)[bins == own]
            assert abs(difference.mean()) < 4.5 * difference.std() / np.sqrt(len(difference))


def test_conditional_mean_is_the_integral_by_another_rule():
    """Adaptive quadrature of the same density, even in z, from below the bend (q = 1: X2 < −10) to
    far tails."""
    for q, x2 in [(1.0, -12.0), (1.0, 0.0), (1.0, 150.0), (0.05, -3.0), (0.05, 6.0), (0.01, 1.0)]:

        def density(z, q=q, x2=x2):
            return np.exp(-(z**2) / 20.0 - (x2 - q * (z**2 - 10.0)) ** 2 / 2.0)

        def moment(z, q=q, density=density):
            return density(z) * q * (z**2 - 10.0)

        options = {
            "points": [np.sqrt(max(x2 / q + 10.0, 0.0))],
            "epsabs": 0.0,
            "epsrel": 1e-10,
            "limit": 500,
        }
        expected = quad(moment, 0.0, 28.0, **options)[0] / quad(density, 0.0, 28.0, **options)[0]
        assert_allclose(conditional_bend(np.array([x2]), q), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("truth", [interventional_truth, observational_truth])
def test_truths_are_shapley_values(truth):
    """From the definition, with the games of both kinds; and efficient."""
    q = 0.1
    x = banana(50, q, seed=2)
    first, second = bend(x[:, 0], q), x[:, 1]
    games = {
        interventional_truth: [np.zeros(50), first, second, f(x, q)],
        observational_truth: [
            np.zeros(50),
            2.0 * first,
            second + conditional_bend(second, q),
            f(x, q),
        ],
    }
    worth = dict(zip([(), (0,), (1,), (0, 1)], games[truth], strict=True))
    assert_allclose(truth(x, q), shapley(lambda s: worth[tuple(sorted(s))], 2).T, atol=1e-12)
    assert_allclose(truth(x, q).sum(axis=1), f(x, q), atol=1e-12)


def test_the_printed_form_is_an_approximation():
    """DESIGN's numbers, from 3,000 rows: mean over the two columns, and pooled.  Their standard
    deviation over such samples is 0.0026, 0.006, 0.033, 0.13 for the mean and below 0.005 for the
    pooled R²: tolerances are 3 of these."""
    of_columns = {
        "1": (1.00, 0.006),
        "1/10": (0.95, 0.01),
        "1/20": (0.83, 0.02),
        "1/50": (0.21, 0.1),
        "1/100": (-1.91, 0.4),
    }
    pooled = {"1": 1.00, "1/10": 0.95, "1/20": 0.85, "1/50": 0.63, "1/100": 0.54}
    for name, q in BENDS.items():
        x = banana(10_000, q, seed=3)
        truth, printed = observational_truth(x, q), printed_form(x, q)
        expected, tolerance = of_columns[name]
        mean = np.mean([r2(truth[:, [j]], printed[:, [j]]) for j in range(2)])
        assert abs(mean - expected) < tolerance
        assert abs(r2(truth, printed) - pooled[name]) < 0.015
