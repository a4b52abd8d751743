"""Marginal tests against SciPy's, and PSI by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2_contingency, ks_2samp
from scipy.stats import fisher_exact as scipy_fisher

from dshap.discrepancy.margins import (
    bin_counts,
    chi_square,
    fisher_exact,
    kolmogorov_smirnov,
    margin,
)


@pytest.mark.parametrize(("m", "n"), [(50, 80), (400, 30)])
def test_kolmogorov_smirnov_is_that_of_scipy(m, n):
    """The distance is SciPy's; its asymptotic p-value has a correction for small samples."""
    rng = np.random.default_rng(m)
    old, new = rng.normal(size=m).round(1), rng.normal(0.3, 1, size=n).round(1)
    found = ks_2samp(old, new, method="asymp")
    expected = math.sqrt(m * n / (m + n)) * found.statistic
    from scipy.special import kolmogorov

    assert kolmogorov_smirnov(old, new) == pytest.approx(kolmogorov(expected), rel=1e-10)


def test_chi_square_is_that_of_scipy():
    counts = np.array([[20.0, 30], [15, 5], [7, 9]])
    expected = chi2_contingency(counts, correction=False).pvalue
    assert chi_square(counts) == pytest.approx(expected, rel=1e-12)
    assert chi_square(counts[:1]) == 1.0


def test_psi_by_hand():
    """Half a row more in each of the bins 0, 1, missing."""
    old = np.array([0.0, 0, 0, 1])
    new = np.array([0.0, 1, 1, 1, np.nan])
    p = np.array([3.5, 1.5, 0.5]) / 5.5
    q = np.array([1.5, 3.5, 1.5]) / 6.5
    assert margin(old, new, True).psi == pytest.approx(np.sum((q - p) * np.log(q / p)), rel=1e-12)


def test_numbers_are_binned_by_deciles_of_the_old_values():
    counts = bin_counts(np.arange(100.0), np.array([-5.0, 3, 1_000, np.nan]), False)
    assert counts[:, 0].sum() == 100 and counts[:, 1].tolist() == [2, *[0] * 8, 1, 1]
    assert (counts[:-1, 0] == 10).all()


def test_a_column_without_values():
    nothing = np.full(3, np.nan)
    found = margin(nothing, np.array([1.0, 2.0]), False)
    assert found.p_value == pytest.approx(0.1) and found.psi > 1.0  # 1 of C(5, 3)
    assert margin(nothing, nothing, False).p_value == 1.0


@pytest.mark.parametrize("counts", [(3, 40, 9, 50), (0, 60, 50, 60), (0, 7, 1, 900), (5, 5, 5, 5)])
def test_fisher_exact_is_that_of_scipy(counts):
    k, n, other_k, other_n = counts
    expected = scipy_fisher([[k, n - k], [other_k, other_n - other_k]]).pvalue
    assert fisher_exact(*counts) == pytest.approx(expected, rel=1e-9)


def test_missing_values_of_a_column_count_by_themselves():
    """50 of 60 values are missing in one sample, and those that are left are alike."""
    old, new = np.random.default_rng(0).normal(size=(2, 60))
    alike = margin(old, new, False).p_value
    new[10:] = np.nan
    found = margin(old, new, False).p_value
    assert alike > 0.05 and found == pytest.approx(2 * fisher_exact(0, 60, 50, 60)) and found < 1e-9
