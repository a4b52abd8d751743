"""Distances of two histograms of attributions: the stability index, and Wasserstein's distance."""

from __future__ import annotations

import numpy as np

from dshap.core.histograms import CodeArray, bin_ends
from dshap.core.records import FloatArray, Moments

STABILITY_BINS = 10
"""Number of bins of a population stability index, where attributions are spread: as is usual."""
ONE_NUMBER = 0.01
"""The largest distance of attributions that are one number, as a part of it."""


def stability_counts(old: Moments, new: Moments, n_bins: int = STABILITY_BINS) -> CodeArray:
    """(b, 2): rows of two histograms of attributions in coarser bins, old and new.

    The coarser bins contain about equally many old rows, `n_bins` of them if attributions are
    spread; a bin of attributions with as many rows as one of these is a separate bin.  Bins
    without a row are left out.
    """
    codes, counts = _on_same_codes(old, new)
    of_old = counts[:, 0]
    n_up_to = np.cumsum(of_old)
    n_old = n_up_to[-1]
    quantiles = n_old * np.arange(1, n_bins) / n_bins
    behind = 1 + np.searchsorted(n_up_to, quantiles)
    heavy = np.flatnonzero(of_old * n_bins >= n_old)
    # a cut is the place of the first bin behind it
    cuts = np.unique(np.concatenate([[0], behind, heavy, heavy + 1]))
    starts = cuts[cuts < len(codes)]
    merged = np.add.reduceat(counts, starts, axis=0)
    has_rows = merged.sum(axis=1) > 0
    return np.asarray(merged[has_rows])


def population_stability(old: Moments, new: Moments) -> float:
    """The population stability index of two histograms of attributions.

    PSI = Σ_b (q_b − p_b) ln(q_b / p_b) over the bins of `stability_counts`, p of the old rows and q
    of the new ones, with half a row added to each bin of both: p_b = (c_b + 1/2) / (n + B/2).  It is
    0 if both are the same.  Of two samples of n and m rows of one population it is
    (B − 1)(1/n + 1/m) on average.  It is 0 too if all rows are in two bins, beside the number
    between these, nearer than a hundredth of it: one number, to within rounding or noise.
    """
    if _is_one_number(old, new):
        return 0.0
    counts = stability_counts(old, new) + 0.5
    p, q = (counts / counts.sum(axis=0)).T
    return float(np.sum((q - p) * np.log(q / p)))


def _is_one_number(old: Moments, new: Moments) -> bool:
    """Whether all attributions are beside one end of a bin, and are about the same in both."""
    codes, _ = _on_same_codes(old, new)
    if len(codes) != 2:
        return False
    first, second = codes
    if second - first != 1:
        return False
    lower, _ = bin_ends(codes)
    between = lower[1]
    distance, _ = wasserstein(old, new)
    return distance <= ONE_NUMBER * abs(between)


def wasserstein(old: Moments, new: Moments) -> tuple[float, float]:
    """The Wasserstein-1 distance of two histograms of attributions, and its largest error.

    W = ∫ |F_old(x) − F_new(x)| dx in units of the attributions: how far a row's attribution moves on
    average, at least.  It is exact for rows that are spread evenly over their bins, and no less than
    the difference of the means, which are exact, nor more than this and both standard deviations.
    Rows elsewhere in their bins change it by at most half the mean width of the bins of both.  It is
    NaN if one of them has no row.
    """
    codes, counts = _on_same_codes(old, new)
    if not counts.any(axis=0).all():
        return np.nan, np.nan
    lower, upper = bin_ends(codes)
    width = upper - lower
    shares = counts / counts.sum(axis=0)
    of_old, of_new = shares.T
    after = np.cumsum(of_old - of_new)  # F_old − F_new at the upper end of each bin
    before = np.concatenate([[0.0], after[:-1]])
    within_bins = _mean_sizes(before, after) @ width
    between_bins = np.abs(after[:-1]) * (lower[1:] - upper[:-1])
    integral = float(within_bins + between_bins.sum())
    shift = abs(_mean(new) - _mean(old))
    most = shift + _deviation(old) + _deviation(new)
    distance = max(min(integral, most), shift)
    mean_widths = float(shares.sum(axis=1) @ width)
    return distance, mean_widths / 2


def _mean_sizes(before: FloatArray, after: FloatArray) -> FloatArray:
    """The mean absolute value of each straight line that goes from `before` to `after`."""
    size = np.abs(before) + np.abs(after)
    squares = before**2 + after**2
    through_zero = np.divide(squares, 2 * size, out=np.zeros_like(size), where=size > 0)
    return np.where(before * after < 0, through_zero, size / 2)


def _mean(histogram: Moments) -> float:
    """The mean of attributions."""
    n_rows = histogram["counts"].sum()
    return float(histogram["sums"].sum() / n_rows)


def _deviation(histogram: Moments) -> float:
    """The standard deviation of attributions; infinity if their squares are not known."""
    n_rows = histogram["counts"].sum()
    square = float(histogram["squares"].sum() / n_rows)
    is_lost = 0.0 < square < np.finfo(np.float64).tiny
    if is_lost or not np.isfinite(square):
        return np.inf
    variance = square - _mean(histogram) ** 2
    return float(np.sqrt(max(variance, 0.0)))


def _on_same_codes(old: Moments, new: Moments) -> tuple[CodeArray, CodeArray]:
    """The bins (c,) that either histogram has, rising, and the rows (c, 2) in each, old and new.

    −0 is in the bin of 0.
    """
    of_old = _codes_of(old)
    of_new = _codes_of(new)
    codes = np.union1d(of_old, of_new)
    counts = np.zeros((len(codes), 2), np.int64)
    for side, own, histogram in ((0, of_old, old), (1, of_new, new)):
        places = np.searchsorted(codes, own)
        n_rows = histogram["counts"].sum(axis=1)
        np.add.at(counts[:, side], places, n_rows)
    return codes, counts


def _codes_of(histogram: Moments) -> CodeArray:
    """The bins of a histogram, with −0 counted as 0."""
    codes = histogram["codes"]
    return np.where(codes == -1, 0, codes)
