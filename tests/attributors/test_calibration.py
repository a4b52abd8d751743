"""Weights of drawn rows, against the constrained least squares that define them."""

import numpy as np
import pytest

from dshap.attributors.calibration import MOST_STRETCH, PAIRS_FOR_COLUMNS, KnownMeans


def drawn(p, columns=3, k=2, seed=0):
    """Rows (p, columns) with correlated predictions (p, k), and means that they miss a little."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(p, columns))
    prediction = rows[:, :1] * np.arange(1, k + 1) + rng.normal(size=(p, k))
    return KnownMeans(rows, prediction, np.full(columns, 0.05), np.full(k, -0.1))


def all_and_without(p, groups):
    kept = np.ones((1 + groups, p), dtype=bool)
    for g in range(groups):
        kept[1 + g, g::groups] = False
    return kept


def nearest(gaps):
    """min Σ (w − 1/n)² with Σ w = 1 and Σ w gaps = 0, by its normal equations."""
    n = len(gaps)
    a = np.column_stack([np.ones(n), gaps]).T
    b = np.zeros(len(a))
    b[0] = 1.0
    return 1 / n + np.linalg.pinv(a) @ (b - a @ np.full(n, 1 / n))


@pytest.mark.parametrize(("p", "n_columns"), [(8, 3), (7, 0), (60, 3)])
def test_the_nearest_weights(p, n_columns):
    """The columns take part from two pairs for each variate on: 8 pairs of 3 columns, not 7."""
    known = drawn(p)
    assert (p >= PAIRS_FOR_COLUMNS * 4) == (n_columns > 0)
    found = known.calibration(np.ones((1, p), dtype=bool))
    for output in range(2):
        gaps = np.column_stack(
            [known.prediction[:, output] + 0.1, (known.rows - 0.05)[:, :n_columns]]
        )
        np.testing.assert_allclose(found.weights[output, 0], nearest(gaps), atol=1e-12)
    np.testing.assert_allclose(found.rest, 0, atol=1e-12)


def test_each_group_is_left_out():
    known = drawn(40)
    kept = all_and_without(40, 5)
    found = known.calibration(kept)
    assert found.weights.shape == (2, 6, 40)
    assert (found.weights[:, ~kept] == 0).all()
    np.testing.assert_allclose(found.weights.sum(axis=2), 1)
    np.testing.assert_allclose(found.weights[1] @ known.prediction[:, 1], -0.1)
    np.testing.assert_allclose(found.weights @ known.rows, 0.05)


def test_a_column_with_missing_values_takes_no_part():
    known = drawn(40)
    rows = np.column_stack([known.rows, np.full(40, np.nan)])
    mean = np.append(known.mean_row, np.nan)
    wider = KnownMeans(rows, known.prediction, mean, known.mean_prediction)
    kept = all_and_without(40, 4)
    np.testing.assert_allclose(
        wider.calibration(kept).weights, known.calibration(kept).weights, atol=1e-12
    )


def test_columns_that_repeat_or_do_not_vary():
    known = drawn(40)
    rows = np.column_stack([known.rows, known.rows[:, 0], np.full(40, 7.0)])
    mean = np.append(known.mean_row, [known.mean_row[0], 7.0])
    wider = KnownMeans(rows, known.prediction, mean, known.mean_prediction)
    kept = all_and_without(40, 4)
    np.testing.assert_allclose(
        wider.calibration(kept).weights, known.calibration(kept).weights, atol=1e-9
    )


def test_rare_rows_that_were_not_drawn_move_no_weight_far():
    """Predictions near 0 whose mean is 100: the weights go as far as one standard deviation."""
    p = 60
    rng = np.random.default_rng(0)
    prediction = rng.normal(size=(p, 1))
    known = KnownMeans(rng.normal(size=(p, 2)), prediction, np.zeros(2), np.array([100.0]))
    found = known.calibration(all_and_without(p, 3))
    assert (p * np.square(found.weights).sum(axis=2) < 1 + MOST_STRETCH).all()
    reached = found.weights[0] @ prediction[:, 0]
    np.testing.assert_allclose(found.rest[:, 0], reached - 100)
    np.testing.assert_allclose(reached[0], prediction.mean() + prediction.std())


def test_equal_predictions_leave_the_rest():
    known = KnownMeans(np.zeros((50, 2)), np.full((50, 1), 3.0), np.zeros(2), np.array([3.5]))
    found = known.calibration(all_and_without(50, 2))
    np.testing.assert_allclose(found.weights[0, 0], 1 / 50)
    np.testing.assert_allclose(found.rest, -0.5)


def variance(n, c):
    """That of the regression estimator of n pairs on c normal variates, for residuals of variance 1."""
    return (n - 2) / (n * (n - c - 2))


@pytest.mark.parametrize(("p", "columns"), [(60, 20), (60, 10), (100, 20), (400, 20)])
def test_the_jackknife_of_a_regression_is_too_large_by_theory_and_never_too_small(p, columns):
    """400 draws of 8 games: root mean squares are known to 2 %; the bound is four times that.

    φ_(g) − φ has the variance V(n − n/R) − V(n), as φ is the best linear estimator.
    """
    groups = 20
    rng = np.random.default_rng(p)
    kept = all_and_without(p, groups)
    errors, stated = [], []
    for _ in range(400):
        rows = rng.normal(size=(p, columns))
        prediction = rows.sum(axis=1, keepdims=True) + rng.normal(size=(p, 1))
        known = KnownMeans(rows, prediction, np.zeros(columns), np.zeros(1))
        means = known.calibration(kept).weights[0] @ (rows[:, :1] + rng.normal(size=(p, 8)))
        errors.append(means[0])
        stated.append(np.sqrt((1 - 1 / groups) * np.square(means[1:] - means[0]).sum(axis=0)))
    true = np.mean(np.square(errors))
    of_all = variance(p, columns + 1)
    of_jackknife = (groups - 1) * (variance(p - p // groups, columns + 1) - of_all)
    assert abs(np.sqrt(true / of_all) - 1) < 0.08
    assert abs(np.sqrt(np.mean(np.square(stated)) / of_jackknife) - 1) < 0.08
    assert of_jackknife > of_all
