"""Columns of two samples compared one by one, as marginal tests see them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, kolmogorov

from dshap.core.records import FloatArray

BINS = 10
"""The number of bins of a population stability index: deciles of the old values, as is usual."""


class Margin(NamedTuple):
    """One column of two samples, compared by itself."""

    p_value: float
    """P-value of the Kolmogorov–Smirnov test, or of the χ² test where the column has categories."""
    psi: float
    """Population stability index: Σ (q − p) ln(q / p) over deciles of the old values, or
    categories; missing values are a bin of their own, and each bin has half a row more."""


def margin(old: FloatArray, new: FloatArray, is_categorical: bool) -> Margin:
    """Compare one column of two samples, (m,) and (n,); NaN is a missing value."""
    counts = bin_counts(old, new, is_categorical)
    if is_categorical:
        p_value = chi_square(counts)
    else:
        p_value = kolmogorov_smirnov(old[~np.isnan(old)], new[~np.isnan(new)])
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


def kolmogorov_smirnov(old: FloatArray, new: FloatArray) -> float:
    """The asymptotic p-value of the two-sample test; NaN where a sample has no values."""
    if not (len(old) and len(new)):
        return math.nan
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
