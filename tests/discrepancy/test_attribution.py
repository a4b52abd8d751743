"""Who is named: a correlation that turns, a shift, columns that have not changed."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.discrepancy.attribution import discrepancy
from dshap.discrepancy.margins import margin
from dshap.discrepancy.samples import compared_rows
from tests.discrepancy.made_up import samples_of, turned, two_samples


def test_a_correlation_that_turns_is_found_where_no_margin_changes():
    samples = samples_of(turned(600, 0.6, 5, seed=1), turned(500, -0.6, 5, seed=2))
    found = discrepancy(compared_rows(samples), 199)
    by_itself = [margin(samples.old[:, j], samples.new[:, j], False) for j in range(5)]
    assert min(each.p_value for each in by_itself) > 0.05
    assert max(each.psi for each in by_itself) < 0.1
    assert found.null.p_values[-1] == 1 / 200
    assert (found.null.adjusted <= 0.05).tolist() == [True, True, False, False, False]
    assert found.attributions[:2].sum() > 0.85 * found.mmd2


@pytest.mark.parametrize("d", [2, 6, 20])
def test_a_shift_belongs_to_its_column(d):
    old = np.random.default_rng(0).normal(size=(700, d))
    new = np.random.default_rng(1).normal(size=(700, d))
    new[:, 1] += 0.5
    found = discrepancy(compared_rows(samples_of(old, new)), 199)
    beyond = found.attributions - found.null.expected[:-1]
    assert beyond.argmax() == 1
    assert beyond[1] > 0.85 * beyond.sum()
    assert found.null.adjusted[1] == 1 / 200
    assert np.delete(found.null.adjusted, 1).min() > 0.05


def test_columns_without_a_change_get_less_than_nothing_where_absent_ones_are_omitted():
    """An independent factor makes the discrepancy smaller, which pooled base factors undo."""
    rng = np.random.default_rng(2)
    old, new = rng.normal(size=(800, 4)), rng.normal(size=(800, 4))
    new[:, 0] += 1.0
    pooled, omitted = (
        discrepancy(compared_rows(samples_of(old, new), absent=absent), 19)
        for absent in ("pooled", "omitted")
    )
    assert pooled.mmd2 == pytest.approx(omitted.mmd2, rel=1e-12)
    assert (np.abs(pooled.attributions[1:]) < 0.02 * pooled.mmd2).all()
    assert (omitted.attributions[1:] < -0.05 * omitted.mmd2).all()


def test_a_constant_column_has_nothing():
    samples = two_samples(30, 30, 3, 1.0)
    samples.old[:, 2] = samples.new[:, 2] = 4.0
    found = discrepancy(compared_rows(samples), 19)
    assert found.attributions[2] == 0.0
    assert found.null.adjusted[2] == 1.0
    assert (found.sums.attributions[:, 2] == 0.0).all()


def test_the_same_rows_have_no_discrepancy():
    samples = two_samples(30, 30, 3)
    found = discrepancy(compared_rows(samples_of(samples.old, samples.old)), 99)
    assert abs(found.mmd2) < 1e-15
    assert np.abs(found.attributions).max() < 1e-15
    assert found.null.p_values[-1] == 1.0


def test_carried_parts_sum_to_mmd2():
    found = discrepancy(compared_rows(two_samples(30, 40, 3, 1.0)), 19)
    assert found.carried.sum() == pytest.approx(found.mmd2, rel=1e-12)
    assert found.attributions.sum() == pytest.approx(found.mmd2, rel=1e-12)


def samples_with_a_shift(seed):
    rng = np.random.default_rng(seed)
    old, new = rng.normal(size=(60, 2)), rng.normal(size=(50, 2))
    new[:, 0] += 1.0
    return samples_of(old, new)


def test_standard_errors_are_those_of_repeated_samples():
    """200 pairs of samples with a shift: their standard deviation is known to 5 %."""
    runs = [discrepancy(compared_rows(samples_with_a_shift(seed)), 1) for seed in range(200)]
    spread = np.std([run.mmd2 for run in runs], ddof=1)
    assert np.mean([run.std_errors[-1] for run in runs]) == pytest.approx(spread, rel=0.2)
