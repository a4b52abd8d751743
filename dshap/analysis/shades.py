"""Densities of attributions on a grid, and the place of each between low and high values.

They are numbers: pictures on axes and as SVG get their heights and colours here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy

from dshap.core.histograms import filled_ends, number_of_bins
from dshap.core.records import FloatArray, Moments, Record

SMOOTHING = 0.004
"""The standard deviation of the smoothing of a density, as a part of the axis."""
OWN_SMOOTHING = 0.05
"""The most of it, as a part of the way from the smallest to the largest attribution."""
LEAST_SMOOTHING = 1e-3
"""The least of it, in steps of the grid, where a smoothing changes nothing."""
REACH = 3.0
"""The standard deviations beyond which the smoothing moves no row."""
DEPTH = 0.5
"""The power of a density that is drawn, so that tails stay visible beside a peak."""
POINT = 1e-6
"""The width of a bin, as a part of a step, below which its rows are at one place, such as at 0."""
LEAST_HEIGHT = 0.05
"""The least height of a density where any row is, as a part of the largest."""
MARGIN = 0.03
"""The room beyond the outermost attributions, as a part of the axis."""


@dataclass(frozen=True)
class Shades:
    """Numbers of rows in steps of an axis of attributions, and the places of column values."""

    rows: FloatArray
    """(steps, …): rows in each step; not whole, as the rows of a bin are spread over it."""
    place: FloatArray
    """(steps, …): the mean place of their values between low, 0, and high, 1."""
    unordered: FloatArray
    """(steps, …): the share, 0 to 1, of the rows whose values have no place: missing ones, and
    those of categories."""
    low: FloatArray
    """(…): the end below which no step has rows; of a density of all rows the smallest attribution,
    of one bin of a column the lower end of the bin of its smallest."""
    high: FloatArray
    """(…): the end above, of the largest attribution in the same way; NaN, as `low`, without a row."""

    @property
    def heights(self) -> FloatArray:
        """(steps, …): `depth`, at least so much that a step with any row can be seen."""
        return np.where(self.depth > 0, np.maximum(self.depth, LEAST_HEIGHT), 0.0)

    @property
    def depth(self) -> FloatArray:
        """(steps, …): the square root of the share of the largest step, 0 to 1."""
        peak = np.maximum(self.rows.max(axis=0), 1e-300)
        return np.asarray(np.clip(self.rows / peak, 0.0, 1.0) ** DEPTH)


def grid_of(limits: tuple[float, float], steps: int) -> FloatArray:
    """The ends (steps + 1,) of equal steps along an axis."""
    return np.linspace(*limits, steps + 1)


def shades_of(histogram: Moments, places: FloatArray, grid: FloatArray) -> Shades:
    """The density of a histogram on a grid (g + 1,), coloured by the places of its value bins.

    `places (…, v)` are those of the last axis of the value bins, NaN without order; the axes before
    it, such as the bins of another column, stay.  Returns steps (g, …), which contain no rows
    beyond the smallest and the largest attribution.
    """
    ordered = np.nan_to_num(places)
    has_no_place = np.isnan(places).astype(np.float64)
    counts = histogram["counts"].reshape(len(histogram["codes"]), -1, len(places))
    weights = np.stack([np.ones_like(ordered), ordered, has_no_place], axis=1)
    low, high = _own_ends(histogram, counts.sum(axis=-1))
    is_own = (grid[:-1, None] <= high) & (grid[1:, None] > low)  # (g, …)
    mass = _on_grid(histogram, counts @ weights, grid)
    rows, total, missing = np.moveaxis(_smoothed(histogram, mass, grid) * is_own[..., None], -1, 0)
    n_rows = mass[..., 0].sum(axis=0)
    # Rows that the smoothing moved beyond the outermost bins are given back to the others.
    lost = n_rows / np.maximum(rows.sum(axis=0), 1e-300)
    rows, total, missing = (lost * each for each in (rows, total, missing))
    known = np.maximum(rows - missing, 0.0)
    place = np.divide(total, known, out=np.full_like(rows, 0.5), where=known > 0)
    share = np.divide(missing, rows, out=np.ones_like(rows), where=rows > 0)
    return Shades(rows, np.clip(place, 0.0, 1.0), np.clip(share, 0.0, 1.0), low, high)


def _own_ends(histogram: Moments, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ends (f,) of the outermost bins of attributions that have any of the counts (c, f)."""
    lower, upper = filled_ends(histogram)
    has_rows = counts > 0
    low = np.min(np.where(has_rows, lower[:, None], np.inf), axis=0, initial=np.inf)
    high = np.max(np.where(has_rows, upper[:, None], -np.inf), axis=0, initial=-np.inf)
    is_empty = ~has_rows.any(axis=0)
    low[is_empty] = np.nan
    high[is_empty] = np.nan
    return low, high


def _on_grid(histogram: Moments, counts: FloatArray, grid: FloatArray) -> FloatArray:
    """Counts (c, …) of the bins of attributions in each step of a grid (g, …).

    The rows of a bin are spread evenly over it.
    """
    lower, upper = filled_ends(histogram)
    flat = counts.reshape(len(lower), -1)
    is_point = upper - lower < POINT * (grid[1] - grid[0])
    ends = np.stack([lower, upper], axis=1).ravel()
    upto = np.cumsum(np.where(is_point[:, None], 0.0, flat), axis=0)
    before = np.vstack([np.zeros((1, upto.shape[1])), upto[:-1]])
    steps = np.stack([before, upto], axis=1).reshape(len(ends), -1)
    mass = np.stack([np.diff(np.interp(grid, ends, each)) for each in steps.T], axis=1)
    at = np.searchsorted(grid, lower[is_point], side="right") - 1
    np.add.at(mass, np.clip(at, 0, len(mass) - 1), flat[is_point])
    return np.asarray(mass.reshape(len(grid) - 1, *counts.shape[1:]))


def _smoothed(histogram: Moments, mass: FloatArray, grid: FloatArray) -> FloatArray:
    """The rows (g, …) of the steps of a grid, smoothed by less than an eye sees of their shape."""
    lower, upper = filled_ends(histogram)
    own_width = float(np.max(upper, initial=-np.inf) - np.min(lower, initial=np.inf))
    width = max(own_width, 0.0) / (grid[-1] - grid[0])
    deviation = len(grid) * min(SMOOTHING, OWN_SMOOTHING * width)
    smooth = scipy.ndimage.gaussian_filter1d(
        mass, max(deviation, LEAST_SMOOTHING), axis=0, mode="constant", truncate=REACH
    )
    return np.asarray(smooth)


def limits_of(histograms: Iterable[Moments]) -> tuple[float, float]:
    """The ends of an axis that includes all attributions, and 0."""
    with_rows = [each for each in histograms if len(each["codes"])]
    lower = min((float(each["least"][0]) for each in with_rows), default=0.0)
    upper = max((float(each["largest"][0]) for each in with_rows), default=0.0)
    span = max(upper, 0.0) - min(lower, 0.0)
    margin = MARGIN * span
    if span < np.finfo(np.float64).tiny:
        margin = 1.0  # all are 0, or one of the smallest numbers there are
    return min(lower, 0.0) - margin, max(upper, 0.0) + margin


def value_places(bins: Record | None) -> FloatArray:
    """The place of each value bin between low, 0, and high, 1; NaN of categories and missing values.

    Without bins there is one, of all rows.
    """
    places = ordered_places(bins)
    if bins is not None and "categories" in bins.arrays:
        places[:] = np.nan
    return places


def ordered_places(bins: Record | None) -> FloatArray:
    """The places of `value_places`, with named categories in the order of their names."""
    if bins is None:
        return np.full(1, np.nan)
    n_bins = number_of_bins(bins)
    n_named = n_bins - ("categories" in bins.arrays)
    places = np.full(n_bins + 1, np.nan)
    places[:n_named] = np.linspace(0.0, 1.0, n_named)
    if n_named == 1:
        places[0] = 0.5  # one value is neither low nor high
    return places
