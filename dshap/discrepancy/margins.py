"""Columns of two samples compared one by one, as marginal tests see them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, gammaln, kolmogorov

from dshap.core.records import FloatArray

BINS = 10
"""The number of bins of a population stability index: deciles of the old values, as is usual."""

EQUALLY_RARE = 1e-7
"""The difference of logarithms below which chances are equal, as in SciPy's test."""


class Margin(NamedTuple):
    """One column of two samples, compared by itself."""

    p_value: float
    """P-value of the column: of the χ² test where it has categories, missing being one; else of the
    Kolmogorov–Smirnov test of the values, with Fisher's of the missing ones where there are some:
    twice the smaller of both, and Fisher's alone where a sample has no value."""
    psi: float
    """Population stability index: Σ (q − p) ln(q / p) over deciles of the old values, or
    categories; missing values are a bin of their own, and each bin has half a row more."""


def margin(old: FloatArray, new: FloatArray, is_categorical: bool) -> Margin:
    """Compare one column of two samples, (m,) and (n,); NaN is a missing value."""
    counts = bin_counts(old, new, is_categorical)
    if is_categorical:
        p_value = chi_square(counts)
    else:
        p_value = of_numbers(old, new)
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


def of_numbers(old: FloatArray, new: FloatArray) -> float:
    """The p-value of values and missing ones together, by Bonferroni."""
    values = [each[~np.isnan(each)] for each in (old, new)]
    n_missing = [len(old) - len(values[0]), len(new) - len(values[1])]
    if not any(n_missing):
        return kolmogorov_smirnov(*values)
    of_missing = fisher_exact(n_missing[0], len(old), n_missing[1], len(new))
    if not (len(values[0]) and len(values[1])):
        return of_missing
    return min(1.0, 2.0 * min(of_missing, kolmogorov_smirnov(*values)))


def fisher_exact(k_old: int, n_old: int, k_new: int, n_new: int) -> float:
    """The two-sided p-value of Fisher's exact test: k of n in each of two samples."""
    k = k_old + k_new
    of_old = np.arange(max(0, k - n_new), min(k, n_old) + 1)
    logs = _log_choices(n_old, of_old) + _log_choices(n_new, k - of_old)
    chances = np.exp(logs - logs.max())
    as_rare = logs <= logs[k_old - of_old[0]] + EQUALLY_RARE
    return float(chances[as_rare].sum() / chances.sum())


def _log_choices(n: int, k: NDArray[np.intp]) -> FloatArray:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def kolmogorov_smirnov(old: FloatArray, new: FloatArray) -> float:
    """The asymptotic p-value of the two-sample test, of samples with values."""
    values = np.concatenate([old, new])
    below = [
        np.searchsorted(np.sort(each), values, side="right") / len(each) for each in (old, new)
    ]
    distance = np.abs(below[0] - below[1]).max()
    return float(kolmogorov(math.sqrt(len(old) * len(new) / len(values)) * distance))


def chi_square(counts: FloatArray) -> float:
    """The p-value of the χ² test of homogeneity of counts (bins, 2); 1 where there is one bin."""
    if len(counts) < 2:
        return 1.0
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    return float(chdtrc(len(counts) - 1, (np.square(counts - expected) / expected).sum()))
