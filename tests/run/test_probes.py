"""Predictions on two processors: alike within rounding, and every change of a model is one."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.run.probes import NOTICED, Probes, differ, rounding_of

RNG = np.random.default_rng(0)
LINEAR = RNG.normal(size=(64, 10)) @ RNG.normal(size=(10, 2))  # (n, k)
EPS32 = float(np.finfo(np.float32).eps)
EPS64 = float(np.finfo(np.float64).eps)


def in_float32(values):
    return values.astype(np.float32).astype(np.float64)


def moved(values, by):
    """The predictions with one of them changed: of row 3, in the last output."""
    values = values.copy()
    values[3, -1] += by
    return values


def is_same(before, now, noise=0.0) -> bool:
    """Whether both are predictions of one model."""
    data = np.empty((0, before.shape[1]))
    gap, bound = Probes(before, data, np.array([noise])).difference(
        Probes(now, data, np.array([noise]))
    )
    return gap <= bound


LEVELS = {"around 0": 0.0, "a level of 1,000": 1_000.0}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("as_made", "eps"), [(in_float32, EPS32), (np.asarray, EPS64)])
def test_the_bound_is_half_way_between_rounding_and_a_change(as_made, eps, level):
    """Both sides of it; one unit in the last place is inside, a thousandth of σ outside."""
    before = as_made(LINEAR + LEVELS[level])
    (_, bound) = rounding_of(before)
    size, spread = np.abs(before[:, 1]).max(), before[:, 1].std()
    assert bound == pytest.approx(np.sqrt(eps * size * NOTICED * spread))
    for share, same in ((0.9, True), (1.1, False)):
        assert is_same(before, moved(before, share * bound)) is same
        assert differ(before, moved(before, share * bound)).sum() == (not same)
    last_place = np.spacing(before[3, 1]) * (eps / EPS64)
    assert is_same(before, moved(before, last_place))
    assert not is_same(before, moved(before, NOTICED * spread))


@pytest.mark.parametrize("as_made", [in_float32, np.asarray])
def test_other_weights_are_another_model(as_made):
    """A thousandth of one weight of ten, and of all of them."""
    rng = np.random.default_rng(1)
    rows, weights = rng.normal(size=(64, 10)), rng.normal(size=(10, 1))
    before = as_made(rows @ weights)
    one = weights.copy()
    one[4] *= 1.001
    assert not is_same(before, as_made(rows @ one))
    assert not is_same(before, as_made(rows @ (1.001 * weights)))
    assert is_same(before, before)


def test_sums_in_float32_in_another_order_are_the_same_model():
    """300 trees, or the products of a layer, added from the other end."""
    leaves = np.random.default_rng(2).normal(size=(64, 300)).astype(np.float32)
    there = np.add.accumulate(leaves, axis=1)[:, -1:].astype(float)
    here = np.add.accumulate(leaves[:, ::-1], axis=1)[:, -1:].astype(float)
    assert 0 < np.abs(there - here).max() < 1e-4
    assert is_same(there, here)


def test_noise_of_the_model_widens_the_bound():
    """A kernel model whose weights are a million times its predictions loses six digits."""
    before = LINEAR[:, :1]
    now = before + 1e-8
    assert not is_same(before, now)
    assert is_same(before, now, noise=1e-9)


def test_constant_and_missing_predictions():
    constant = np.full((5, 1), 0.3)
    assert is_same(constant, constant + np.spacing(0.3))
    assert not is_same(constant, constant * 1.001)
    nothing = np.zeros((5, 1))
    assert is_same(nothing, nothing)
    assert not is_same(nothing, nothing + 1e-300)
    known = moved(LINEAR, np.nan)
    assert is_same(known, known)
    assert not is_same(known, LINEAR)
    assert not is_same(LINEAR, known)
    endless = moved(LINEAR, np.inf)
    assert is_same(endless, endless)
    assert not is_same(endless, moved(LINEAR, -np.inf))
    assert is_same(np.empty((0, 2)), np.empty((0, 2)))


def test_other_shapes_are_other_models():
    assert not is_same(LINEAR, LINEAR[:, :1])
    assert not is_same(LINEAR, LINEAR[:10])


def test_each_output_has_a_bound_of_its_own():
    """A change of a small output is not hidden by a large one."""
    before = np.hstack([1e6 * LINEAR[:, :1], 1e-6 * LINEAR[:, 1:]])
    assert not is_same(before, moved(before, 1e-9))


def test_the_predictions_for_the_background_count_too():
    before = Probes(LINEAR, LINEAR[:5], np.zeros(2))
    now = Probes(LINEAR, moved(LINEAR[:5], 0.1), np.zeros(2))
    gap, bound = before.difference(now)
    assert gap == pytest.approx(0.1)
    assert gap > bound
    again = Probes.of(before.record)
    assert before.difference(again)[0] == 0.0
