"""Gaussian copulas: exact expectations of lognormal columns, margins of few values, agreement with
normal ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

import dshap
from dshap.core.errors import InputError
from dshap.values import Copula, Gaussian
from tests.values.oracles import shapley

pytestmark = pytest.mark.usefixtures("in_this_process")

D = 4
CORRELATION = np.array(
    [[1.0, 0.6, -0.2, 0.3], [0.6, 1.0, 0.1, 0.2], [-0.2, 0.1, 1.0, 0.4], [0.3, 0.2, 0.4, 1.0]]
)
SPREAD = np.array([1.0, 0.8, 0.6, 1.2])
POWERS = np.array(
    [
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
        [1, 1, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 1, 1],
    ]
)
WEIGHTS = np.array([1.0, -2.0, 1.5, 0.5, 0.8, -1.0, 0.7])
COVARIANCE = CORRELATION * np.outer(SPREAD, SPREAD)


def predict(x):
    """Sums of products of columns: of lognormal ones every conditional expectation is in closed
    form."""
    return np.exp(np.log(np.maximum(x, 1e-9)) @ POWERS.T) @ WEIGHTS


def truth(z):
    """Shapley values (d,) where log X ~ N(0, Σ): E exp(p·Z | z_S) = exp(p·m + p·C p / 2)."""

    def worth(inside):
        inside = sorted(inside)
        away = [j for j in range(D) if j not in inside]
        mean, spread = np.zeros(D), np.zeros((D, D))
        mean[inside] = z[inside]
        if inside and away:
            slope = np.linalg.solve(
                COVARIANCE[np.ix_(inside, inside)], COVARIANCE[np.ix_(inside, away)]
            ).T
            mean[away] = slope @ z[inside]
            spread[np.ix_(away, away)] = (
                COVARIANCE[np.ix_(away, away)] - slope @ COVARIANCE[np.ix_(inside, away)]
            )
        elif away:
            spread[np.ix_(away, away)] = COVARIANCE[np.ix_(away, away)]
        return np.array(
            np.exp(POWERS @ mean + 0.5 * np.einsum("pi,ij,pj->p", POWERS, spread, POWERS)) @ WEIGHTS
        )

    return shapley(worth, D)


@pytest.mark.slow
def test_lognormal_margins_against_exact_values():
    """The copula's error is less than a fifth of that of a normal distribution (measured: 0.077
    against 0.796)."""
    rng = np.random.default_rng(0)
    data = np.exp(rng.multivariate_normal(np.zeros(D), COVARIANCE, 20_000))
    z = rng.multivariate_normal(np.zeros(D), COVARIANCE, 60)
    wanted = np.array([truth(row) for row in z])
    off = {}
    for kind in (Copula, Gaussian):
        cube = dshap.explain(kind(predict, data, n_samples=2_000), np.exp(z))
        off[kind] = np.sqrt(np.mean((cube.attribution.values[..., 0] - wanted) ** 2))
    assert off[Copula] < off[Gaussian] / 5
    assert off[Copula] < 0.1 * wanted.std()


def test_columns_of_few_values_stay_among_them():
    rng = np.random.default_rng(2)
    z = rng.multivariate_normal(np.zeros(D), CORRELATION, 3_000)
    data = np.column_stack(
        [(z[:, 0] > 0.4).astype(float), np.round(z[:, 1]), z[:, 2], np.exp(z[:, 3])]
    )
    known = [set(column) for column in data.T]
    seen = []

    def watch(x):
        seen.append(x)
        return x.sum(axis=1)

    dshap.explain(Copula(watch, data, n_samples=40), data[:20])
    drawn = np.concatenate(seen)
    assert all(set(drawn[:, j]) <= known[j] for j in range(D))
    shares = [np.mean(drawn[:, 0]), np.mean(data[:, 0])]
    assert shares[0] == pytest.approx(shares[1], abs=0.1)


def test_normal_columns_agree_with_a_normal_distribution():
    """To the error of margins of 20,000 rows and of 2,000 draws."""
    rng = np.random.default_rng(3)
    data = rng.multivariate_normal(np.arange(D), COVARIANCE, 20_000)
    rows = rng.multivariate_normal(np.arange(D), COVARIANCE, 40)

    def smooth(x):
        return np.sin(x[:, 0]) * x[:, 1] + x[:, 2] * x[:, 3]

    one, two = (
        dshap.explain(kind(smooth, data, n_samples=2_000), rows).attribution[..., 0]
        for kind in (Copula, Gaussian)
    )
    assert float(np.abs(one - two).mean()) < 0.03 * float(two.std())


def test_scores_are_the_textbook_ones():
    """Five rows: Φ⁻¹ of the middle of each step; what lies between is interpolated, what lies
    beyond is the end's."""
    data = np.array([[1.0], [2.0], [2.0], [4.0], [9.0]])
    none, calls = np.zeros((1, 1), dtype=bool), []
    value = Copula(lambda x: calls.append(x) or x[:, 0], data)
    value = value.chosen(value.choose(data))
    found = [
        value.moments(none, np.array([[x]]))["sum"][0] for x in (1.0, 2.0, 3.0, 9.0, 99.0, -5.0)
    ]
    one, two, four, nine = ndtri([0.1, 0.4, 0.7, 0.9])
    np.testing.assert_allclose(found, [one, two, (two + four) / 2, nine, nine, one])
    state = value.prepare(none, value.moments(none, data))
    value.evaluate(state, data[:1])
    # scores of an absent column
    drawn = (state["mean"] + state["draws"] @ state["factor"][0].T)[:, 0]
    wanted = np.array([1.0, 2.0, 4.0, 9.0])[np.searchsorted(ndtri([0.2, 0.6, 0.8]), drawn)]
    np.testing.assert_array_equal(calls[-1][:, 0], wanted)


def test_data_wherever_they_lie_and_states_prepared(tmp_path):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        np.exp(rng.multivariate_normal(np.zeros(D), COVARIANCE, 2_000)), columns=list("abcd")
    )
    frame.to_parquet(tmp_path / "data.parquet", row_group_size=300)
    names = list("abcd")
    wanted = dshap.explain(
        Copula(predict, frame, n_samples=20, feature_names=names), frame[:30]
    ).attribution
    value = Copula(predict, tmp_path / "data.parquet", n_samples=20, feature_names=names)
    np.testing.assert_array_equal(dshap.explain(value, frame[:30]).attribution, wanted)
    prepared = dshap.prepare(value, store=tmp_path / "prepared")
    np.testing.assert_array_equal(dshap.explain(prepared, frame[:30]).attribution, wanted)


def test_present_columns_are_the_rows_own():
    """A value beyond the margins is clipped in what it says of others, never in the row itself."""
    data = np.exp(np.random.default_rng(1).normal(size=(500, 2)))
    far = np.array([[1e6, 1.0]])
    cube = dshap.explain(Copula(lambda x: x[:, 0], data, n_samples=10), far)
    assert float(cube.prediction[0, 0]) == 1e6
    assert float(cube.attribution[0, 0, 0]) == pytest.approx(1e6, rel=0.01)


def test_determined_columns_are_refused():
    column = np.exp(np.random.default_rng(1).normal(size=(500, 1)))
    data = np.hstack([column, column**2, np.random.default_rng(2).normal(size=(500, 1))])
    with pytest.raises(InputError, match=r"columns x0, x1 determine one another.*set ridge="):
        dshap.explain(Copula(lambda x: x[:, 0], data, n_samples=10), data[:5])
