"""How far two histograms of attributions lie apart: the stability index, and Wasserstein's distance."""

from __future__ import annotations

import numpy as np

from dshap.core.histograms import CodeArray, bin_ends
from dshap.core.records import Moments

STABILITY_BINS = 10
"""Number of bins of a population stability index, where attributions are spread: as is usual."""
ONE_NUMBER = 0.01
"""The largest distance of attributions that are one number, as a part of it."""


def stability_counts(old: Moments, new: Moments, n_bins: int = STABILITY_BINS) -> CodeArray:
    """(b, 2): rows of two histograms of attributions in coarser bins, old and new.

    The coarser bins hold about equally many old rows, `n_bins` of them where attributions are
    spread; a bin of attributions that holds as much as one of these by itself stands alone.  Bins
    without a row are left out.
    """
    codes, counts = _on_same_codes(old, new)
    upto = np.cumsum(counts[:, 0])
    wanted = upto[-1] * np.arange(1, n_bins) / n_bins
    behind = 1 + np.searchsorted(upto, wanted)  # a cut is the place of the first bin behind it
    heavy = np.flatnonzero(counts[:, 0] * n_bins >= upto[-1])
    cuts = np.unique(np.concatenate([[0], behind, heavy, heavy + 1]))
    merged = np.add.reduceat(counts, cuts[cuts < len(codes)], axis=0)
    return np.asarray(merged[merged.sum(axis=1) > 0])


def population_stability(old: Moments, new: Moments) -> float:
    """The population stability index of two histograms of attributions.

    PSI = Σ_b (q_b − p_b) ln(q_b / p_b) over the bins of `stability_counts`, p of the old rows and q
    of the new ones, with half a row added to each bin of both: p_b = (c_b + 1/2) / (n + B/2).  It is
    0 where both are the same.  Of two samples of n and m rows of one population it is
    (B − 1)(1/n + 1/m) on average.  It is 0 too where all rows lie in two bins, beside the number
    between these, nearer than a hundredth of it: one number, to within rounding or noise.
    """
    if _is_one_number(old, new):
        return 0.0
    counts = stability_counts(old, new) + 0.5
    shares = counts / counts.sum(axis=0)
    return float(np.sum((shares[:, 1] - shares[:, 0]) * np.log(shares[:, 1] / shares[:, 0])))


def _is_one_number(old: Moments, new: Moments) -> bool:
    """Whether all attributions lie beside one end of a bin, and are about the same in both."""
    codes, _ = _on_same_codes(old, new)
    if len(codes) != 2 or codes[1] - codes[0] != 1:
        return False
    end = bin_ends(codes)[0][1]
    return wasserstein(old, new)[0] <= ONE_NUMBER * abs(end)


def wasserstein(old: Moments, new: Moments) -> tuple[float, float]:
    """The Wasserstein-1 distance of two histograms of attributions, and its largest error.

    W = ∫ |F_old(x) − F_new(x)| dx in units of the attributions: how far a row's attribution moves on
    average, at least.  It is exact for rows that are spread evenly over their bins, and no less than
    the difference of the means, which are exact, nor more than this and both standard deviations.
    Rows elsewhere in their bins change it by at most half the mean width of the bins of both.  It is
    NaN where one of them has no row.
    """
    codes, counts = _on_same_codes(old, new)
    if not counts.any(axis=0).all():
        return np.nan, np.nan
    lower, upper = bin_ends(codes)
    shares = counts / counts.sum(axis=0)
    after = np.cumsum(shares[:, 0] - shares[:, 1])  # F_old − F_new at the upper end of each bin
    before = np.concatenate([[0.0], after[:-1]])
    size = np.abs(before) + np.abs(after)
    # the mean of |a straight line| from before to after
    crossed = np.divide(before**2 + after**2, 2 * size, out=np.zeros_like(size), where=size > 0)
    inside = np.where(before * after < 0, crossed, size / 2)
    width = upper - lower
    gaps = np.abs(after[:-1]) * (lower[1:] - upper[:-1])
    means = [float(each["sums"].sum() / each["counts"].sum()) for each in (old, new)]
    shift = abs(means[1] - means[0])
    most = shift + _deviation(old) + _deviation(new)
    distance = max(min(float(inside @ width + gaps.sum()), most), shift)
    return distance, float(shares.sum(axis=1) @ width) / 2


def _deviation(histogram: Moments) -> float:
    """The standard deviation of attributions; infinity where their squares are not known."""
    n_rows = histogram["counts"].sum()
    square = float(histogram["squares"].sum() / n_rows)
    if not np.isfinite(square) or 0.0 < square < np.finfo(np.float64).tiny:
        return np.inf
    mean = float(histogram["sums"].sum() / n_rows)
    return float(np.sqrt(max(square - mean**2, 0.0)))


def _on_same_codes(old: Moments, new: Moments) -> tuple[CodeArray, CodeArray]:
    """The bins (c,) that either histogram has, rising, and the rows (c, 2) in each, old and new.

    −0 is in the bin of 0.
    """
    sides = [np.where(each["codes"] == -1, 0, each["codes"]) for each in (old, new)]
    codes = np.union1d(*sides)
    counts = np.zeros((len(codes), 2), np.int64)
    for side, each in enumerate((old, new)):
        places = np.searchsorted(codes, sides[side])
        np.add.at(counts[:, side], places, each["counts"].sum(axis=1))
    return codes, counts
