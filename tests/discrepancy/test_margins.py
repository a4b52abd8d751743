"""Marginal tests against SciPy's, and PSI by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2_contingency, fisher_exact, ks_2samp

from dshap.discrepancy.margins import bin_counts, margin


def test_the_p_values_of_columns_without_missing_values():
    old, new = np.random.default_rng(0).normal([[0.0], [0.3]], 1.0, (2, 80)).round(1)
    expected = ks_2samp(old, new, method="asymp").pvalue
    assert margin(old, new, False).p_value == pytest.approx(expected, rel=1e-12)
    counts = np.stack([np.bincount((each > 0).astype(int)) for each in (old, new)], axis=1)
    expected = chi2_contingency(counts, correction=False).pvalue
    assert margin((old > 0.0) * 1.0, (new > 0.0) * 1.0, True).p_value == pytest.approx(
        expected, rel=1e-12
    )
    assert margin(old * 0.0, new * 0.0, True).p_value == 1.0


def test_psi_by_hand():
    """Half a row more in each of the bins 0, 1, missing."""
    old = np.array([0.0, 0, 0, 1])
    new = np.array([0.0, 1, 1, 1, np.nan])
    p = np.array([3.5, 1.5, 0.5]) / 5.5
    q = np.array([1.5, 3.5, 1.5]) / 6.5
    assert margin(old, new, True).psi == pytest.approx(np.sum((q - p) * np.log(q / p)), rel=1e-12)


def test_numbers_are_binned_by_deciles_of_the_old_values():
    counts = bin_counts(np.arange(100.0), np.array([-5.0, 3, 1_000, np.nan]), False)
    assert counts[:, 0].sum() == 100
    assert counts[:, 1].tolist() == [2, *[0] * 8, 1, 1]
    assert (counts[:-1, 0] == 10).all()


def test_a_column_without_values():
    nothing = np.full(3, np.nan)
    found = margin(nothing, np.array([1.0, 2.0]), False)
    assert found.p_value == pytest.approx(0.1)  # 1 of C(5, 3)
    assert found.psi > 1.0
    assert margin(nothing, nothing, False).p_value == 1.0


def test_missing_values_of_a_column_count_by_themselves():
    """50 of 60 values are missing in one sample, and those that are left are alike."""
    old, new = np.random.default_rng(0).normal(size=(2, 60))
    alike = margin(old, new, False).p_value
    new[10:] = np.nan
    found = margin(old, new, False).p_value
    of_missing = fisher_exact([[0, 50], [60, 10]]).pvalue
    assert alike > 0.05
    assert found == pytest.approx(2 * of_missing)
    assert found < 1e-9
