"""Values as quadratic forms, folded to few landmarks."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.values import KernelObservational, forms
from dshap.values.forms import FOLD_ERROR, FormMaker

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
    assert len(folded["weights"]) == (folded["size"] * folded["rank"]).sum()


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
