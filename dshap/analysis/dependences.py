"""The attributions of a feature by the values of its column: the record behind `dependence`.

Those of many features are made in one pass over the cube.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.axis_scales import AxisScale, axis_scale_of
from dshap.analysis.column_extents import Extent, extents_of
from dshap.analysis.column_texts import texts_of
from dshap.analysis.column_values import (
    Columns,
    Samples,
    as_numbers,
    binned,
    bins_of_sample,
    columns_of,
    is_flag,
    require_column,
    samples_of,
)
from dshap.analysis.partners import COLOUR_BINS, strongest_partners
from dshap.analysis.row_names import names_of_rows
from dshap.analysis.shades import Shades, grid_of, limits_of, ordered_places, shades_of
from dshap.analysis.tallies import (
    FEW_ROWS,
    BinnedColumn,
    Tally,
    tallied,
    tallied_together,
    without_last,
)
from dshap.analysis.value_texts import texts_of_values
from dshap.analysis.view import View, view_of
from dshap.core.histograms import (
    MAX_VALUE_BINS,
    OTHERS,
    finite_bins,
    histogram_quantiles,
    number_bins,
    number_of_bins,
    value_bins,
)
from dshap.core.records import FloatArray, Moments, Record

ROWS_PER_BIN = 100
"""The rows that are wanted for a bin of a small cube."""
EVEN_BINS = 24
"""The number of even parts of the axis, of which a bin of a density is at most as wide as one."""
LEAST_BINS = 8
"""The least bins of about equally many rows of a density."""
GAP = 0.06
"""The width of the strip of missing values, and the gap before it, as parts of the axis."""
INSET = 0.1
"""The room on each side of a category, as a part of its width."""


@dataclass(frozen=True)
class Dependence:
    """The attributions of one feature by the values of its column, for `dependence`.

    In arrays over value bins (v,) the bin of missing values is last.
    """

    feature: str
    bins: Record
    """The value bins, as `number_bins` or `category_bins`."""
    ends: FloatArray
    """(v,): the ends of the bins on the axis, without that of missing values; a category has one
    unit."""
    middles: FloatArray
    """(v − 1,): the mean of the values in each bin, or the middle of a category."""
    histogram: Moments
    """As `dshap.core.histograms.histogram_of`, by the value bins."""
    partner: str
    """The second column, whose values are the colour; "" without one."""
    partner_bins: Record | None
    shading: Moments
    """The histogram by the value bins of the feature × the value bins of the partner."""
    points: Record | None
    """`values (n,)` on the axis, `attributions (n,)`, the `places (n,)` of the partner's values
    between low, 0, and high, 1, and the values of the column as `texts (n,)`; None from 2,000 rows
    on."""
    rows: int
    """The number of rows that are explained."""
    scale: AxisScale
    """The places of values on the axis, which includes all finite ones."""
    n_infinite: int
    """The number of infinite values, which count in the bin of missing ones."""
    output: str
    words: str
    """The words of the axis of attributions."""
    row_names: tuple[str, ...] = ()
    """(n,): the keys of the rows as text, or their positions; empty from 2,000 rows on."""

    @property
    def is_time(self) -> bool:
        """Whether the values are times, as microseconds since 1970."""
        return self.scale.is_time

    @property
    def has_categories(self) -> bool:
        """Whether the bins are categories, in no order."""
        return "categories" in self.bins.arrays

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(v,): the rows in each bin."""
        return np.asarray(self.histogram["counts"].sum(axis=0))

    @property
    def means(self) -> FloatArray:
        """(v,): the mean attribution in each bin; NaN if it is empty."""
        means = np.full(len(self.counts), np.nan)
        return np.divide(self.histogram["sums"], self.counts, out=means, where=self.counts > 0)

    def quantiles(self, shares: Sequence[float]) -> FloatArray:
        """(v, q): quantiles of the attributions in each bin, right to within 12.5 %."""
        return histogram_quantiles(self.histogram, shares)

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of an axis that includes all attributions, and 0."""
        return limits_of([self.histogram])

    def grid(self, steps: int) -> FloatArray:
        """The ends (steps + 1,) of equal steps along the axis of attributions."""
        return grid_of(self.limits, steps)

    def shades(self, grid: FloatArray) -> Shades:
        """The density in each step of a grid (g + 1,) of attributions, for each bin: (g, v)."""
        return shades_of(self.shading, ordered_places(self.partner_bins), grid)

    @property
    def strip(self) -> tuple[float, float]:
        """The ends of the strip of missing values on the axis, right of the others."""
        low, high = self.scale.place(self.ends[[0, -1]])
        width = GAP * (high - low)
        first, last = self.scale.value(np.array([high + width, high + 2 * width]))
        return float(first), float(last)

    @property
    def strip_middle(self) -> float:
        """The value at the middle of the strip of missing values, as it is drawn."""
        middle = self.scale.place(np.array(self.strip)).mean(keepdims=True)
        return float(self.scale.value(middle)[0])

    @property
    def strip_words(self) -> list[str]:
        """Words for the values in the strip: ["12 missing", "3 infinite"]."""
        return [f"{count:,} {name}" for name, count in self._strip_counts.items()]

    @property
    def strip_name(self) -> str:
        """The values in the strip in words: "missing", "infinite", or "missing or infinite"."""
        return " or ".join(self._strip_counts) or "missing"

    @property
    def _strip_counts(self) -> dict[str, int]:
        """Kind of values in the strip -> the number of rows that have them, of those that occur."""
        n_missing = max(int(self.counts[-1]) - self.n_infinite, 0)
        parts = {"missing": n_missing, "infinite": self.n_infinite}
        return {name: count for name, count in parts.items() if count}

    @property
    def names_of_bins(self) -> list[str]:
        """The names of the bins of categories."""
        return [str(name) for name in self.bins["categories"]]

    @property
    def densities(self) -> FloatArray:
        """(v,): the rows of each bin by its width on the axis; the largest is 1."""
        left, right = self.placed_sides
        found = self.counts / np.maximum(right - left, 1e-300)
        return np.asarray(found / max(found.max(), 1e-300))

    @property
    def has_grey(self) -> bool:
        """Whether some values of the partner are missing, so that they have no colour."""
        if self.partner_bins is None:
            return False
        by_partner = self.shading["counts"].reshape(-1, number_of_bins(self.partner_bins) + 1)
        return bool(by_partner[:, -1].any())

    @property
    def sides(self) -> tuple[FloatArray, FloatArray]:
        """The left and the right side (v,) of each bin as it is drawn."""
        inset = INSET * self.has_categories
        low, high = self.strip
        return np.append(self.ends[:-1] + inset, low), np.append(self.ends[1:] - inset, high)

    @property
    def placed_sides(self) -> tuple[FloatArray, FloatArray]:
        """The places (v,) of both sides of each bin on the axis, as `scale` has them."""
        left, right = self.sides
        return self.scale.place(left), self.scale.place(right)

    @property
    def is_line(self) -> bool:
        """Whether means are a line: of several bins of numbers."""
        return not self.has_categories and number_of_bins(self.bins) > 1

    @property
    def names_of_colours(self) -> list[str]:
        """The names of colours from low to high: the partner's categories, if it has some."""
        if self.partner_bins is None or "categories" not in self.partner_bins.arrays:
            return ["low", "high"]
        return [str(name) for name in self.partner_bins["categories"][:-1]]


def dependence_of(
    cube: Any,
    feature: str,
    colour: str | None = None,
    rows: Any = None,
    output: str | int | None = None,
) -> Dependence:
    """The attributions of one feature by the values of its column.

    Parameters
    ----------
    cube, feature, colour, rows, output : as in `dependence`

    Raises
    ------
    InputError
        As `dependence`.
    """
    colours = {}
    if colour is not None:
        colours[feature] = colour
    return dependences_of(cube, [feature], colours, rows, output)[0]


def dependences_of(
    cube: Any,
    features: Sequence[str],
    colours: Mapping[str, str] | None = None,
    rows: Any = None,
    output: str | int | None = None,
) -> list[Dependence]:
    """The attributions of these features by the values of their columns, in one pass over the cube.

    Parameters
    ----------
    cube, rows, output : as in `beeswarm`
    features : names of features, each of which must be a column
    colours : feature -> name of the second column, "" for none; it is chosen for the others

    Raises
    ------
    InputError
        As `dependence`.
    """
    view = view_of(cube, output)
    columns = columns_of(view.cube, rows)
    for feature in features:
        view.position(feature)
        require_column(columns, feature)
    for partner in filter(None, (colours or {}).values()):
        require_column(columns, partner)
    partners = dict(colours or {})
    without = [name for name in features if name not in partners]
    needed = {*features, *partners.values()} - {""}
    if without:
        needed = set(columns)
    samples = samples_of(view.cube, columns, needed)
    if without:
        partners |= strongest_partners(view, without, samples)
    extents = extents_of([view], [columns], samples, features)
    wanted = {
        name: _tally(view, samples, columns.orders, name, partners[name], extents)
        for name in features
    }
    found = tallied(view, columns, wanted)
    return [
        _dependence(view, columns, samples[name], wanted[name], found[name], extents.get(name))
        for name in features
    ]


def dependences_together(
    cubes: Sequence[Any], features: Sequence[str], output: str
) -> list[list[Dependence]]:
    """The dependences, without second columns, under several explanations of the same rows.

    All are made in one pass, in which each column is read once.

    Parameters
    ----------
    cubes : explanations of the same rows in the same order, by the same features
    features : names of features, each of which must be a column
    output : name of the output
    """
    views = [view_of(cube, output) for cube in cubes]
    columns = [columns_of(view.cube) for view in views]
    samples = samples_of(views[0].cube, columns[0], features)
    orders = columns[0].orders
    extents = extents_of(views, columns, samples, features)
    wanted = {name: _tally(views[0], samples, orders, name, "", extents) for name in features}
    return [
        [
            _dependence(
                view, columns[0], samples[name], wanted[name], found[name], extents.get(name)
            )
            for name in features
        ]
        for view, found in zip(views, tallied_together(views, columns, wanted), strict=True)
    ]


def _tally(
    view: View,
    samples: Samples,
    orders: Mapping[str, Sequence[str]],
    feature: str,
    partner: str,
    extents: Mapping[str, Extent],
) -> Tally:
    """The histogram that is wanted: by the feature's column, then by the partner's."""
    most = min(MAX_VALUE_BINS, 4 + view.rows // ROWS_PER_BIN)
    own = _named_bins(samples[feature], most, orders.get(feature, ()))
    if feature in extents and "edges" in own.arrays:
        own = _bins_of_numbers(view, samples[feature], extents[feature], most)
    by = [BinnedColumn(feature, own)]
    if partner:
        n_bins = COLOUR_BINS
        if view.rows < FEW_ROWS:
            n_bins = MAX_VALUE_BINS  # points have finer places than densities
        bins = _named_bins(samples[partner], n_bins, orders.get(partner, ()))
        by.append(BinnedColumn(partner, bins))
    return Tally(view.position(feature), tuple(by))


def _bins_of_numbers(view: View, sample: NDArray[Any], extent: Extent, most: int) -> Record:
    """Bins of about equally many rows; of a density none is wider than a part of the axis.

    A density would shade all of a wide bin, where few rows are far from each other.
    """
    numbers = as_numbers(sample)
    bins_of = finite_bins if extent.n_infinite else number_bins
    if view.rows < FEW_ROWS:
        return bins_of(numbers, most)
    scale = axis_scale_of(numbers, extent.low, extent.high, sample.dtype.kind == "M")
    # Even edges come on top of these bins: if they were too many, there are fewer bins.
    for n_bins in (most, max(most - EVEN_BINS, LEAST_BINS)):
        bins = bins_of(numbers, n_bins)
        edges = scale.even_edges(bins["edges"], extent.low, extent.high, EVEN_BINS)
        if len(edges) < most:
            break
    return Record({**bins.arrays, "edges": edges})


def _named_bins(sample: NDArray[Any], n_bins: int, order: Sequence[str]) -> Record:
    """Bins of a column, in which False and True are categories with names."""
    if is_flag(sample):
        return Record({"categories": np.array(["False", "True", OTHERS])})
    return bins_of_sample(sample, n_bins, order)


def _dependence(
    view: View,
    columns: Columns,
    sample: NDArray[Any],
    tally: Tally,
    shading: Moments,
    extent: Extent | None,
) -> Dependence:
    """The record of one feature, from the sample of its column and its histogram."""
    own, *others = tally.by
    histogram = shading
    for partner in others:
        histogram = without_last(shading, partner.n_bins)
    ends, middles = _ends(sample, own.bins, extent)
    scale = AxisScale()
    n_infinite = 0
    if extent is not None and "categories" not in own.bins.arrays:
        is_time = sample.dtype.kind == "M"
        scale = axis_scale_of(as_numbers(sample), extent.low, extent.high, is_time)
        n_infinite = extent.n_infinite
    found = Dependence(
        feature=own.name,
        bins=own.bins,
        ends=ends,
        middles=middles,
        histogram=histogram,
        partner="".join(partner.name for partner in others),
        partner_bins=next((partner.bins for partner in others), None),
        shading=shading,
        points=None,
        rows=view.rows,
        scale=scale,
        n_infinite=n_infinite,
        output=view.output_name,
        words=view.words("attribution"),
    )
    if view.rows < FEW_ROWS:
        points = _points(view, columns, found)
        return replace(found, points=points, row_names=names_of_rows(view))
    return found


def _ends(
    sample: NDArray[Any], bins: Record, extent: Extent | None
) -> tuple[FloatArray, FloatArray]:
    """The ends of the bins on the axis (bins + 1,), and the mean of the values in each (bins,)."""
    n_bins = number_of_bins(bins)
    if "categories" in bins.arrays:
        return np.arange(n_bins + 1.0) - 0.5, np.arange(float(n_bins))
    numbers = as_numbers(sample)
    numbers = numbers[np.isfinite(numbers)]
    if n_bins == 1:
        alone: FloatArray = np.append(numbers, 0.0)[:1]
        return alone + np.array([-0.5, 0.5]), alone
    low = float(numbers.min())
    high = float(numbers.max())
    if extent is not None:
        low = min(low, extent.low)
        high = max(high, extent.high)
    first = bins["edges"][0]
    last = bins["edges"][-1]
    if len(np.unique(numbers)) == n_bins:  # each number in the middle of its bin
        low = min(low, 2 * numbers.min() - first)
        high = max(high, 2 * numbers.max() - last)
    ends = np.array([min(low, first), *bins["edges"], max(high, last)], np.float64)
    codes = value_bins(bins, numbers)
    counts = np.bincount(codes, minlength=n_bins)
    middles = (ends[1:] + ends[:-1]) / 2  # of bins without a value in the sample
    np.divide(np.bincount(codes, numbers, n_bins), counts, out=middles, where=counts > 0)
    return ends, np.asarray(np.clip(middles, ends[:-1], ends[1:]), np.float64)


def _points(view: View, columns: Columns, found: Dependence) -> Record:
    """The points of all rows: spread over the width of a category, or the strip of missing ones."""
    whole = slice(0, view.cube.sizes["instance"])
    values = columns[found.feature](whole)
    codes = binned(found.bins, values)
    # seeded: the same rows produce the same picture
    jitter = np.random.default_rng(0).uniform(-0.3, 0.3, len(codes))
    x = codes + jitter
    if not found.has_categories:
        x = as_numbers(values)
    low, high = found.scale.place(np.array(found.strip))
    is_missing = codes == number_of_bins(found.bins)
    x[is_missing] = found.scale.value((low + high) / 2 + jitter[is_missing] * (high - low))
    places = np.full(len(codes), np.nan)
    if found.partner_bins is not None:
        second = binned(found.partner_bins, columns[found.partner](whole))
        places = ordered_places(found.partner_bins)[second]
    phi = view.attributions(whole)[:, view.position(found.feature)]
    texts = texts_of_values(texts_of(view.cube), found.feature, values)
    return Record({"values": x, "attributions": phi, "places": places, "texts": texts})
