"""Values as quadratic forms, folded to few landmarks."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.values import KernelObservational, forms
from dshap.values.forms import FOLD_ERROR, FormMaker, Limits, in_squares

MASKS = np.array([[True, False, False], [True, True, False], [False, True, True]])


@pytest.fixture(scope="module")
def table():
    x = np.random.default_rng(0).normal(size=(32_000, 3))
    x[:, 1] += 0.6 * x[:, 0]
    return x


@pytest.fixture(scope="module")
def value(table):
    y = table[:, 0] * table[:, 1] + np.sin(table[:, 2])
    model = KernelRidge(RBF(2.0), Nystrom(60), penalty=1e-6).fit(table[:4_000], y[:4_000])
    landmarks = Nystrom(landmarks=model.expansion_.landmarks)
    return KernelObservational(model, table, landmarks, 1e-4, rank_tolerance=1e-4)


@pytest.fixture(scope="module")
def states(value, table):
    """The state without and with folds."""
    checked = value.chosen(value.choose(table[:5_000]))
    moments = value.moments(MASKS, table)
    return value.prepare(MASKS, moments), checked.prepare(MASKS, moments)


def test_a_fold_errs_little_on_rows_that_it_has_not_seen(value, states, table):
    whole, folded = states
    rows = table[10_000:14_000]
    gap = value.evaluate(folded, rows) - value.evaluate(whole, rows)
    deviation = value.model(rows).std()
    errors = np.sqrt(np.mean(gap**2, axis=(0, 2))) / deviation
    assert (errors < 3 * FOLD_ERROR).all()
    assert (folded["fold_error"] <= FOLD_ERROR).all()
    assert errors.max() > 0


def test_a_fold_needs_fewer_landmarks(states):
    whole, folded = states
    assert (whole["size"] == 60).all()
    assert (folded["size"] < 60).all()
    assert (folded["size"] >= folded["rank"]).all()
    assert len(folded["weights"]) == (folded["size"] * folded["width"]).sum()


def test_squares_are_fewer_than_columns(states):
    whole, folded = states
    assert not whole["squares"].any()
    has_squares = folded["squares"] > 0
    assert has_squares.sum() == 2
    assert (folded["squares"] % forms.COLUMNS == 0).all()
    assert (folded["squares"] < folded["rank"])[has_squares].all()
    np.testing.assert_array_equal(folded["width"][has_squares], folded["squares"][has_squares])
    assert len(folded["scales"]) == folded["squares"].sum()


def test_a_fold_that_errs_too_much_is_refused(value, table, monkeypatch):
    monkeypatch.setattr(forms, "FOLD_ERROR", 1e-13)
    checked = value.chosen(value.choose(table[:5_000]))
    moments = value.moments(MASKS, table)
    state = checked.prepare(MASKS, moments)
    np.testing.assert_array_equal(state["size"], 60)
    assert np.isnan(state["fold_error"]).all()
    np.testing.assert_array_equal(state["weights"], value.prepare(MASKS, moments)["weights"])


def test_few_rows_are_not_worth_a_fold(value, table):
    checked = value.chosen(value.choose(table[:5_000]))
    state = checked.prepare(MASKS, value.moments(MASKS, table[:5_000]))
    np.testing.assert_array_equal(state["size"], 60)


def test_joined_states_give_the_same_values(value, states, table):
    _, folded = states
    checked = value.chosen(value.choose(table[:5_000]))
    moments = [checked.moments(MASKS[:2], table), checked.moments(MASKS[2:], table)]
    parts = [
        checked.prepare(masks, own)
        for masks, own in zip((MASKS[:2], MASKS[2:]), moments, strict=True)
    ]
    rows = table[:300]
    np.testing.assert_allclose(
        value.evaluate(checked.join(parts), rows), value.evaluate(folded, rows), rtol=1e-9
    )


def test_the_form_is_the_sum_by_definition(value):
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(4, 60))
    kept = np.array([5, 0, 31, 7])
    basis = value.basis
    form = FormMaker(basis, value.expansion.coefficients, value.model, np.empty((0, 3))).form(
        MASKS[1], kept, weights
    )
    products = rng.normal(size=(9, 60))
    a = value.expansion.coefficients[:, 0]
    wanted = ((products * a) * (products[:, kept] @ weights)).sum(axis=1)
    assert not np.triu(form.matrix[:4], 1).any()
    of_rows = products[:, form.landmarks]
    found = (of_rows @ form.matrix * of_rows[:, :4]).sum(axis=1)
    np.testing.assert_allclose(found, wanted)
    assert form.error == 0.0


def test_squares_of_a_form_of_low_rank(rng):
    """A form of three squares is found as such, with those of the kernel's products."""
    products = rng.normal(size=(2_000, 20)) @ rng.normal(size=(20, 20))
    roots = rng.normal(size=(20, 3))
    values = ((products @ roots) ** 2 * [2.0, -1.0, 0.5]).sum(axis=1)
    matrix = np.tril(2.0 * (roots * [2.0, -1.0, 0.5]) @ roots.T)
    matrix[np.diag_indices(20)] /= 2.0
    limits = Limits(1e-9 * values.std(), 1e-8 * values.std())
    squares = in_squares(matrix, products.T, values, limits)
    assert squares is not None
    assert squares.weights.shape == (20, 4)
    other = rng.normal(size=(50, 20))
    wanted = np.einsum("ni,ij,nj->n", other, matrix, other)
    found = ((other @ squares.weights) ** 2 * squares.scales).sum(axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("changed", ["rms", "largest"])
def test_squares_within_neither_limit_are_refused(rng, changed):
    products = rng.normal(size=(500, 20))
    matrix = np.tril(rng.normal(size=(20, 20)))
    values = np.einsum("ni,ij,nj->n", products, matrix, products)
    limits = {"rms": np.inf, "largest": np.inf}
    assert in_squares(matrix, products.T, values, Limits(**limits)) is not None
    assert in_squares(matrix, products.T, values, Limits(**{**limits, changed: 1e-9})) is None


def test_squares_that_are_no_shorter_are_refused(rng):
    products = rng.normal(size=(500, 4))
    matrix = np.tril(rng.normal(size=(4, 4)))
    assert in_squares(matrix, products.T, np.zeros(500), Limits(np.inf, np.inf)) is None


def test_landmarks_that_are_alike_have_no_squares(rng):
    products = np.repeat(rng.normal(size=(500, 1)), 20, axis=1)
    products[:, 1:] = 0.0
    matrix = np.tril(rng.normal(size=(20, 20)))
    assert in_squares(matrix, products.T, np.zeros(500), Limits(np.inf, np.inf)) is None
