"""Histograms of attributions whose bins are the same in every cube, and bins of column values.

An attribution's bin is its sign, its binary exponent and the eighth of it: the first 15 bits of
its float64.  A bin is at most 12.5 % wide, in any units, so that histograms of any two blocks,
nights or explanations add up.  Only bins that are not empty are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import FloatArray, Moments, Record

CodeArray = NDArray[np.int64]

DROPPED_BITS = 49
"""Number of low bits of a float64 that its bin does not look at: all but sign, exponent, eighth."""
SIGN_BINS = 1 << 14
"""Number of bins of one sign."""
MAX_VALUE_BINS = 64
"""The most bins of the values of a column, without the bin of missing values."""
CELLS = 8_192
"""Number of even cells by which values are put into bins; 2^12 and 2^14 were slower."""
FINITE = "finite"
"""The name of the mark of bins that are of finite numbers only."""
OTHERS = "others"
"""The name of the bin of all categories without a separate bin."""


def attribution_bins(values: FloatArray) -> CodeArray:
    """The bin of each value, which rises with it: +0 is in bin 0, and −0 in bin −1.

    NaN has no bin: leave it out before.
    """
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    size = (bits >> DROPPED_BITS) & (SIGN_BINS - 1)
    return np.asarray(np.where(bits < 0, -1 - size, size))


def bin_ends(codes: CodeArray) -> tuple[FloatArray, FloatArray]:
    """The lowest and the highest number of each bin."""
    size = np.maximum(codes, -1 - codes)
    near = (size << DROPPED_BITS).view(np.float64)
    far = (((size + 1) << DROPPED_BITS) - 1).view(np.float64)
    is_negative = codes < 0
    return np.where(is_negative, -far, near), np.where(is_negative, -near, far)


def filled_ends(histogram: Moments) -> tuple[FloatArray, FloatArray]:
    """The lowest and the highest number of each bin that rows can have.

    The outermost bins of a histogram end at its smallest and its largest attribution.
    """
    lower, upper = bin_ends(histogram["codes"])
    return np.maximum(lower, histogram["least"]), np.minimum(upper, histogram["largest"])


def number_bins(sample: FloatArray, n_bins: int = MAX_VALUE_BINS) -> Record:
    """Bins of about equally many numbers of a sample, at most `n_bins`.

    Returns `edges (bins − 1,)`: a number from an edge on is in the bin above it.  Each number is
    alone if there are few.
    """
    values, counts = np.unique(sample[~np.isnan(sample)], return_counts=True)
    upto = np.cumsum(counts)
    chosen = np.arange(1, len(values))
    if len(values) > n_bins:
        wanted = upto[-1] * np.arange(1, n_bins) / n_bins
        chosen = np.unique(np.searchsorted(upto, wanted, side="right"))
        chosen = chosen[chosen > 0]
    lower = values[chosen - 1]
    upper = values[chosen]
    with np.errstate(invalid="ignore"):  # -inf has no middle to a number
        # halves first, as upper − lower may overflow
        middle = lower + (upper / 2 - lower / 2)
    # no number is between two neighbouring floats: then the edge is the upper one
    return Record({"edges": np.where(middle > lower, middle, upper)})


def finite_bins(sample: FloatArray, n_bins: int = MAX_VALUE_BINS) -> Record:
    """Bins as `number_bins` of the finite numbers of a sample; infinite ones have none of them."""
    bins = number_bins(sample[np.isfinite(sample)], n_bins)
    return Record({**bins.arrays, FINITE: np.ones(1)})


def category_bins(
    sample: NDArray[Any], n_bins: int = MAX_VALUE_BINS, order: Sequence[str] = ()
) -> Record:
    """A bin for each frequent category of a sample, and one for all others; None is missing.

    Returns `categories (bins,)`, the frequent ones in their `order`, else by name, and `OTHERS`.
    """
    names, counts = np.unique(
        [value for value in sample.tolist() if value is not None], return_counts=True
    )
    # stable, so that equally frequent categories are chosen by name
    frequent = names[np.argsort(-counts, kind="stable")[: n_bins - 1]]
    places = {name: place for place, name in enumerate(order)}
    ordered = sorted(map(str, frequent), key=lambda name: (places.get(name, len(places)), name))
    return Record({"categories": np.array([*ordered, OTHERS])})


def number_of_bins(bins: Record) -> int:
    """The number of bins of column values, without the bin of missing values."""
    if "categories" in bins.arrays:
        return len(bins["categories"])
    return len(bins["edges"]) + 1


def value_bins(bins: Record, values: NDArray[Any]) -> CodeArray:
    """The bin of each value (n,) of a column; that behind the others if it is NaN or None.

    Infinite numbers are there too, if the bins are those of `finite_bins`.
    """
    n_bins = number_of_bins(bins)
    if "categories" not in bins.arrays:
        found = _places(bins["edges"], np.asarray(values, np.float64))
        if FINITE in bins.arrays:
            return np.where(np.isfinite(values), found, n_bins)
        return np.where(np.isnan(values), n_bins, found)
    places: dict[Any, int] = {name: place for place, name in enumerate(bins["categories"].tolist())}
    places[None] = n_bins
    return np.array([places.get(value, n_bins - 1) for value in values.tolist()], np.int64)


def _places(edges: FloatArray, values: FloatArray) -> CodeArray:
    """The number of edges that are at most each value, as `np.searchsorted` counts them.

    Values fall into even cells between the outermost edges, which rise with them; those in a cell
    without an edge have the place of their cell, and only the others are searched for.
    """
    if len(edges) < 2 or len(values) < CELLS:
        return np.searchsorted(edges, values, side="right")
    with np.errstate(over="ignore"):
        scale = CELLS / (edges[-1] - edges[0])
    if not np.isfinite(scale) or scale == 0.0:
        return np.searchsorted(edges, values, side="right")
    counts = np.bincount(_cells(edges, edges[0], scale), minlength=CELLS)
    places = np.where(counts > 0, -1, np.cumsum(counts))
    found = places[_cells(values, edges[0], scale)]
    unknown = np.flatnonzero(found < 0)
    found[unknown] = np.searchsorted(edges, values[unknown], side="right")
    return found


def _cells(values: FloatArray, first: np.float64, scale: np.float64) -> CodeArray:
    """The cell of each value, from 0 to `CELLS` − 1; it never falls as the value rises."""
    with np.errstate(over="ignore"):
        cells = (values - first) * scale
    np.fmin(np.fmax(cells, 0.0, out=cells), CELLS - 1.0, out=cells)
    return cells.astype(np.int64)


def histogram_of(phi: FloatArray, bins: CodeArray, n_bins: int) -> Moments:
    """The histogram of attributions (n,), NaN left out, whose column values are in `bins` (n,).

    Returns `codes (c,)`, the bins of attributions, rising; `counts (c, v)`, the rows in each bin of
    attributions and each of the `n_bins` of column values, that of missing ones among them; and
    `sums (v,)`, `magnitudes (v,)` and `squares (v,)`, those of φ, |φ| and φ² added up; and `least (1,)`
    and `largest (1,)`, the ends of all φ, ∞ and −∞ without a row.  Histograms of the same value bins
    add up.
    """
    is_there = ~np.isnan(phi)
    if not is_there.all():
        phi = phi[is_there]
        bins = bins[is_there]
    if n_bins == 1:
        return _of_one_bin(phi)
    codes, place = _compact(phi)
    counts = np.bincount(place * n_bins + bins, minlength=len(codes) * n_bins)
    return Moments(
        {
            "codes": codes,
            "counts": counts.reshape(len(codes), n_bins),
            "sums": np.bincount(bins, phi, n_bins),
            "magnitudes": np.bincount(bins, np.abs(phi), n_bins),
            "squares": np.bincount(bins, np.square(phi), n_bins),
            **_extremes(phi),
        }
    )


def _of_one_bin(phi: FloatArray) -> Moments:
    """The histogram of attributions, without NaN, whose column values are in one bin."""
    counts = np.bincount(_raw_bins(phi), minlength=2 * SIGN_BINS)
    # bins of negative numbers fall as their bits rise
    counts = np.concatenate([counts[: SIGN_BINS - 1 : -1], counts[:SIGN_BINS]])
    occurring = np.flatnonzero(counts)
    return Moments(
        {
            "codes": occurring - SIGN_BINS,
            "counts": counts[occurring, None],
            "sums": np.array([phi.sum()]),
            "magnitudes": np.array([np.abs(phi).sum()]),
            "squares": np.array([np.square(phi).sum()]),
            **_extremes(phi),
        }
    )


def _extremes(phi: FloatArray) -> dict[str, FloatArray]:
    """The smallest and the largest attribution, by the names under which moments combine them."""
    return {
        "least": phi.min(initial=np.inf, keepdims=True),
        "largest": phi.max(initial=-np.inf, keepdims=True),
    }


def _raw_bins(phi: FloatArray) -> CodeArray:
    """The bits of sign, exponent and eighth of each attribution as a number: negative ones behind."""
    bits = np.ascontiguousarray(phi, np.float64).view(np.uint64)
    return (bits >> np.uint64(DROPPED_BITS)).view(np.int64)


def _compact(phi: FloatArray) -> tuple[CodeArray, CodeArray]:
    """The bins that occur, rising, and the place of each attribution's among them, without a sort."""
    raw = _raw_bins(phi)
    is_there = np.zeros(2 * SIGN_BINS, dtype=bool)
    is_there[raw] = True
    occurring = np.flatnonzero(is_there)
    codes = np.where(occurring < SIGN_BINS, occurring, SIGN_BINS - 1 - occurring)
    order = np.argsort(codes)
    places = np.zeros(2 * SIGN_BINS, np.int64)
    places[occurring[order]] = np.arange(len(order))
    return codes[order], places[raw]


def histogram_quantiles(histogram: Moments, shares: Sequence[float]) -> FloatArray:
    """(v, q): quantiles of the attributions in each value bin, right to within their bin.

    So is the quantile of a share p, 0 < p < 1, within σ √((1 − p)/p) below and σ √(p/(1 − p))
    above the mean of the value bin, by Cantelli's inequality: attributions that are all the same
    have it as every quantile.  NaN if a value bin is empty.
    """
    lower, upper = bin_ends(histogram["codes"])
    counts = histogram["counts"]
    upto = np.cumsum(counts, axis=0)
    found = np.full((upto.shape[1], len(shares)), np.nan)
    for place in np.flatnonzero(upto[-1]):
        wanted = np.asarray(shares) * upto[-1, place]
        bins = np.searchsorted(upto[:, place], wanted)
        inside = 1.0 - (upto[bins, place] - wanted) / np.maximum(counts[bins, place], 1)
        found[place] = lower[bins] + np.clip(inside, 0, 1) * (upper[bins] - lower[bins])
    return np.clip(found, *_quantile_bounds(histogram, upto[-1], np.asarray(shares)))


def _quantile_bounds(
    histogram: Moments, counts: CodeArray, shares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The least and the largest (v, q) that quantiles can be, by the mean and the variance."""
    rows = np.maximum(counts, 1)[:, None]
    mean = histogram["sums"][:, None] / rows
    square = histogram["squares"][:, None] / rows
    # squares of vast and of tiny attributions are not known
    is_known = np.isfinite(square) & (square > np.finfo(np.float64).tiny)
    variance = np.where(is_known, square, 0.0) - np.where(is_known, mean, 0.0) ** 2
    spread = np.where(is_known, np.sqrt(np.maximum(variance, 0.0)), np.inf)
    odds = shares / (1.0 - shares)
    return mean - spread * np.sqrt(1.0 / odds), mean + spread * np.sqrt(odds)
