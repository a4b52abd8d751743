"""Columns of two samples compared one by one, as marginal tests see them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dshap.core.records import FloatArray

BINS = 10
"""The number of bins of a population stability index: deciles of the old values, as is usual."""


class Margin(NamedTuple):
    """One column of two samples, compared by itself."""

    p_value: float
    """P-value of the column.  Categories: that of the χ² test, in which "missing" is a category.
    Numbers: that of the Kolmogorov–Smirnov test.  If numbers are missing, it is twice the smaller of
    this p-value and that of Fisher's test of the missing values, or that of Fisher's test alone if a
    sample has no value."""
    psi: float
    """Population stability index: Σ (q − p) ln(q / p) over deciles of the old values, or over
    categories.  Missing values have their own bin, and half a row is added to each bin."""


def margin(old: FloatArray, new: FloatArray, is_categorical: bool) -> Margin:
    """Compare one column of two samples, (m,) and (n,); NaN is a missing value."""
    counts = bin_counts(old, new, is_categorical)
    if is_categorical:
        p_value = of_categories(counts)
    else:
        p_value = of_numbers(old, new)
    # half a row more in each bin: a bin without rows of one sample would make the index infinite
    shares = (counts + 0.5) / (counts + 0.5).sum(axis=0)
    change = shares[:, 1] - shares[:, 0]
    return Margin(p_value, float(change @ np.log(shares[:, 1] / shares[:, 0])))


def bin_counts(old: FloatArray, new: FloatArray, is_categorical: bool) -> FloatArray:
    """(bins, 2): rows of both samples in each bin, without bins that have none."""
    present = old[~np.isnan(old)]
    if is_categorical or not len(present):
        edges = np.unique(np.concatenate([old, new]))
    else:
        edges = np.unique(np.quantile(present, np.arange(1, BINS) / BINS, method="lower"))
    edges = edges[~np.isnan(edges)]
    both = []
    for values in (old, new):
        place = np.searchsorted(edges, values, side="left")
        place[np.isnan(values)] = len(edges) + 1
        both.append(np.bincount(place, minlength=len(edges) + 2))
    counts = np.stack(both, axis=1).astype(float)
    return counts[counts.any(axis=1)]


def of_categories(counts: FloatArray) -> float:
    """The p-value of the χ² test of homogeneity of counts (bins, 2); 1 if there is one bin."""
    from scipy.stats import chi2_contingency  # takes half a second, which workers need not wait

    if len(counts) < 2:
        return 1.0
    return float(chi2_contingency(counts, correction=False).pvalue)


def of_numbers(old: FloatArray, new: FloatArray) -> float:
    """The p-value of values and missing ones together, by Bonferroni."""
    from scipy.stats import fisher_exact, ks_2samp

    old_values = old[~np.isnan(old)]
    new_values = new[~np.isnan(new)]
    present = [len(old_values), len(new_values)]
    missing = [len(old) - present[0], len(new) - present[1]]
    if not any(missing):
        return float(ks_2samp(old_values, new_values, method="asymp").pvalue)
    # Fisher's test and not χ²: it is exact if few values are missing, too
    of_missing = float(fisher_exact([missing, present]).pvalue)
    if not all(present):
        return of_missing
    of_values = float(ks_2samp(old_values, new_values, method="asymp").pvalue)
    return min(1.0, 2.0 * min(of_missing, of_values))
