"""The attributions of one feature against the values of its column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError, unknown_name
from dshap.core.histograms import (
    MAX_VALUE_BINS,
    histogram_of,
    histogram_quantiles,
    number_bins,
    number_of_bins,
    value_bins,
)
from dshap.core.printing import label
from dshap.core.records import FloatArray, Moments, Record, TreeSum
from dshap.cube.datasets import as_cube, attribution_of, row_slices
from dshap.report.attributions import AS_WRITTEN
from dshap.report.columns import (
    Columns,
    as_numbers,
    binned,
    bins_of_column,
    columns_of,
    require_column,
    sample_of_column,
    sampled_slices,
)
from dshap.report.densities import DEPTH, FEW_ROWS, GRID, limits, on_grid, shades, value_places
from dshap.report.panels import (
    BLUE,
    attribution_words,
    by_place,
    colour_bar,
    counted_rows,
    new_axes,
    output_of,
    text_colour,
    zero_line,
)

COLOUR_BINS = 8
"""Bins of the column that colours a picture, and of both columns where one is chosen."""
LEAST_SHARE = 0.01
"""The least part of the variance beside its own column that a column must account for to be the
colour."""
ROWS_PER_BIN = 100
"""The rows that are wanted for a bin of a small cube."""
BEYOND = 0.25
"""The percentage of rows on each side that lie beyond the axis, in its outermost bins."""
QUARTILES = (0.25, 0.75)
LINE_LENGTH = 60
"""The most characters of names that stand side by side below the axis; longer ones are turned."""
GAP = 0.06
"""The width of the strip of missing values, and the gap before it, as parts of the axis."""


def dependence(
    cube: Any,
    feature: str,
    colour: str | None = None,
    *,
    rows: Any = None,
    output: str | int | None = None,
    ax: Any = None,
) -> Any:
    """Draw the attribution of a feature against its column, with the mean and the quartiles.

    Numbers lie in at most 64 bins of about equally many rows, categories each in its own; the axis
    ends where 0.25 % of the rows lie beyond, which count in the outermost bins.  A dark line is the
    mean attribution of each bin, thin lines are the quartiles (right to within 12.5 %).  From 2,000
    rows on the shade of a place is the square root of its share of the rows of its bin.

    The colour is the mean place, from low to high, of the values of a second column.  It is the one
    given, else the column that accounts for most of what the feature's own column leaves of the
    variance: the means of 8 x 8 bins of both columns in half a sample of the rows predict the other
    half.  No column is chosen where that is below 1 %.

    Parameters
    ----------
    cube, rows, output, ax : as in `beeswarm`
    feature : name of the feature, which must be a column
    colour : name of the second column; None: chosen; "": none

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        As `beeswarm`, an unknown feature, or a column whose values were not kept.
    """
    cube = as_cube(cube)
    place = output_of(cube, output)
    names = [str(name) for name in cube["feature"].values]
    if feature not in names:
        raise InputError(unknown_name("feature", str(feature), names))
    columns = columns_of(cube, rows)
    require_column(columns, feature)
    n_rows = counted_rows(cube)
    position = names.index(feature)
    partner = colour
    if colour is None:
        partner = strongest_partner(cube, place, position, columns)
    if partner:
        require_column(columns, partner)
    axes = new_axes(ax, 7.0, 4.6)
    n_bins = min(MAX_VALUE_BINS, 4 + n_rows // ROWS_PER_BIN)
    bins = bins_of_column(cube, columns[feature], n_bins)
    found, shading = _histograms(cube, place, position, columns, bins, partner)
    beyond = BEYOND * (n_rows >= FEW_ROWS)
    ends, middle = _bin_ends(sample_of_column(cube, columns[feature]), bins, beyond)
    if n_rows < FEW_ROWS:
        _draw_points(axes, cube, place, position, columns, bins, ends, partner)
    else:
        _draw_density(axes, shading, bins, ends, partner)
    _draw_means(axes, found, bins, ends, middle)
    zero_line(axes.axhline)
    _name_values(axes, columns[feature], found, bins, ends)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(label(feature), **AS_WRITTEN)
    axes.set_ylabel(attribution_words("attribution", cube, place, n_rows), **AS_WRITTEN)
    if partner:
        colour_bar(axes, partner)
    return axes


def strongest_partner(cube: Any, output: int, position: int, columns: Columns) -> str:
    """The column by which the attributions of a feature differ most at the same value; "" if none.

    See `dependence` for the rule.
    """
    name = str(cube["feature"].values[position])
    phi = np.concatenate(
        [attribution_of(cube, rows, output)[:, position] for rows in sampled_slices(cube)]
    )
    is_there = ~np.isnan(phi)
    phi = phi[is_there]
    own = _coarse(cube, columns, name)[is_there]
    left = phi - _cell_means(phi, own)
    shares = {}
    for other in columns:
        if other != name and left.any():
            cells = own * (COLOUR_BINS + 1) + _coarse(cube, columns, other)[is_there]
            shares[other] = _predicted_share(left, cells)
    best = max(shares, key=lambda name: shares[name], default="")
    if best and shares[best] >= LEAST_SHARE:
        return best
    return ""


def _predicted_share(values: FloatArray, cells: Any) -> float:
    """The part of the squares of every second value that the means of the others' cells predict."""
    counts = np.bincount(cells[::2], minlength=cells.max() + 1)
    means = np.bincount(cells[::2], values[::2], len(counts)) / np.maximum(counts, 1)
    total = np.square(values[1::2]).sum()
    missed = np.square(values[1::2] - means[cells[1::2]]).sum()
    return float(1.0 - missed / max(total, 1e-300))


def _coarse(cube: Any, columns: Columns, name: str) -> Any:
    """The bin, of a few, of a sample of values of a column."""
    values = sample_of_column(cube, columns[name])
    return binned(bins_of_column(cube, columns[name], COLOUR_BINS), values)


def _cell_means(values: FloatArray, cells: Any) -> FloatArray:
    """For each value the mean of those in its cell."""
    counts = np.bincount(cells)
    means: FloatArray = (np.bincount(cells, values) / np.maximum(counts, 1))[cells]
    return means


def _histograms(
    cube: Any, output: int, position: int, columns: Columns, bins: Record, partner: str | None
) -> tuple[Moments, Moments]:
    """The histogram by the feature's column, and by its bins x those of the partner."""
    name = str(cube["feature"].values[position])
    n_bins = number_of_bins(bins) + 1
    sums = TreeSum[Moments]()
    partner_bins = number_bins(np.zeros(1))
    if partner:
        partner_bins = bins_of_column(cube, columns[partner], COLOUR_BINS)
    n_shades = number_of_bins(partner_bins) + 1
    for rows in row_slices(cube):
        phi = np.ascontiguousarray(attribution_of(cube, rows, output)[:, position])
        own = binned(bins, columns[name](rows))
        second = np.zeros(len(own), np.int64)
        if partner:
            second = binned(partner_bins, columns[partner](rows))
        sums.add(histogram_of(phi, own * n_shades + second, n_bins * n_shades))
    shading = sums.total()
    return _without_shades(shading, n_bins), shading


def _without_shades(shading: Moments, n_bins: int) -> Moments:
    """The histogram by the feature's column alone: sums over the bins of the partner."""
    return Moments(
        {
            "codes": shading["codes"],
            "counts": shading["counts"].reshape(len(shading["codes"]), n_bins, -1).sum(axis=2),
            "sums": shading["sums"].reshape(n_bins, -1).sum(axis=1),
            "magnitudes": shading["magnitudes"].reshape(n_bins, -1).sum(axis=1),
        }
    )


def _bin_ends(sample: NDArray[Any], bins: Record, beyond: float) -> tuple[Any, Any]:
    """The ends of the bins on the axis (bins + 1,), and the mean of the values in each (bins,).

    Categories take one unit each; `beyond` is the percentage of numbers beyond either end.
    """
    if "categories" in bins.arrays:
        return np.arange(number_of_bins(bins) + 1) - 0.5, np.arange(float(number_of_bins(bins)))
    numbers = as_numbers(sample)
    numbers = numbers[~np.isnan(numbers)]
    if not (number_of_bins(bins) - 1):
        alone = np.append(numbers, 0.0)[:1]
        return alone + np.array([-0.5, 0.5]), alone
    low, high = np.percentile(numbers, [beyond, 100 - beyond])
    first = bins["edges"][0]
    last = bins["edges"][-1]
    if len(np.unique(numbers)) == number_of_bins(bins):  # each number in the middle of its bin
        low = min(low, 2 * numbers.min() - first)
        high = max(high, 2 * numbers.max() - last)
    ends = np.array([min(low, first), *bins["edges"], max(high, last)])
    codes = value_bins(bins, numbers)
    means = np.bincount(codes, numbers, number_of_bins(bins)) / np.bincount(
        codes, minlength=number_of_bins(bins)
    )
    return ends, np.clip(means, ends[:-1], ends[1:])


def _strip(ends: FloatArray) -> tuple[float, float]:
    """The ends of the strip of missing values, right of the others."""
    width = GAP * (ends[-1] - ends[0])
    return float(ends[-1] + width), float(ends[-1] + 2 * width)


def _sides(bins: Record, ends: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The left and the right side of each bin as it is drawn, that of missing values last."""
    inset = 0.1 * ("categories" in bins.arrays)
    low, high = _strip(ends)
    return np.append(ends[:-1] + inset, low), np.append(ends[1:] - inset, high)


def _draw_density(
    axes: Any,
    found: Moments,
    bins: Record,
    ends: FloatArray,
    partner: str | None,
) -> None:
    """Shade each place by the share of its bin's rows, in the colour of the partner's values."""
    n_bins = number_of_bins(bins) + 1
    n_shades = found["counts"].shape[1] // n_bins
    low, high = limits([found])
    grid = np.linspace(low, high, GRID + 1)
    mass = on_grid(found, np.eye(n_bins * n_shades), grid).reshape(GRID, n_bins, n_shades)
    places = np.append(np.linspace(0, 1, max(n_shades - 1, 1)), 0.0)
    rows = mass.sum(axis=2)
    colours = np.ones((GRID, n_bins, 4))
    if partner:
        colours[..., :3] = shades(rows, mass @ places, mass[..., -1])
    else:
        from matplotlib.colors import to_rgb

        colours[..., :3] = to_rgb(BLUE)
    peak = np.maximum(rows.max(axis=0), 1e-300)
    colours[..., 3] = np.clip(rows / peak, 0, 1) ** DEPTH
    left, right = _sides(bins, ends)
    for place in np.flatnonzero(found["counts"].reshape(-1, n_bins, n_shades).sum(axis=(0, 2))):
        axes.pcolormesh(
            [left[place], right[place]],
            grid,
            colours[:, place : place + 1],
            rasterized=True,
            zorder=1,
            linewidth=0,
        )
    axes.set_ylim(low, high)


def _draw_points(
    axes: Any,
    cube: Any,
    output: int,
    position: int,
    columns: Columns,
    bins: Record,
    ends: FloatArray,
    partner: str | None,
) -> None:
    """Draw a point for each row; those of a category are spread over its width."""
    whole = slice(0, cube.sizes["instance"])
    name = str(cube["feature"].values[position])
    values = columns[name](whole)
    codes = binned(bins, values)
    jitter = np.random.default_rng(0).uniform(-0.3, 0.3, len(codes))
    x = codes + jitter
    if "edges" in bins.arrays:
        x = as_numbers(values)
    low, high = _strip(ends)
    is_missing = codes == number_of_bins(bins)
    x[is_missing] = (low + high) / 2 + jitter[is_missing] * (high - low)
    shading: dict[str, Any] = {"color": BLUE}
    if partner:
        second = bins_of_column(cube, columns[partner], MAX_VALUE_BINS)
        shading = by_place(value_places(second)[binned(second, columns[partner](whole))])
    axes.scatter(
        x,
        attribution_of(cube, whole, output)[:, position],
        s=14,
        linewidths=0,
        zorder=1,
        **shading,
    )


def _draw_means(
    axes: Any, found: Moments, bins: Record, ends: FloatArray, middle: FloatArray
) -> None:
    """Draw the mean attribution of each bin, and its quartiles."""
    counts = found["counts"].sum(axis=0)
    means = np.divide(found["sums"], counts, out=np.full(len(counts), np.nan), where=counts > 0)
    lower, upper = histogram_quantiles(found, QUARTILES).T
    dark = text_colour()
    is_line = "edges" in bins.arrays and number_of_bins(bins) > 1
    if is_line:
        axes.plot(middle, means[:-1], color=dark, linewidth=1.8, zorder=3)
        for each in (lower, upper):
            axes.plot(middle, each[:-1], color=dark, linewidth=0.8, linestyle="--", zorder=3)
    chosen = np.arange(is_line * number_of_bins(bins), number_of_bins(bins) + 1)
    chosen = chosen[counts[chosen] > 0]
    left, right = _sides(bins, ends)
    for each, width in ((means, 1.8), (lower, 0.8), (upper, 0.8)):
        axes.hlines(
            each[chosen], left[chosen], right[chosen], color=dark, linewidth=width, zorder=3
        )


def _name_values(axes: Any, read: Any, found: Moments, bins: Record, ends: FloatArray) -> None:
    """Name the numbers or times, or the categories, and the missing values on the axis."""
    counts = found["counts"].sum(axis=0)
    first = read(slice(0, 1))
    places = np.array([tick for tick in axes.get_xticks() if ends[0] <= tick <= ends[-1]])
    names = [_number_name(tick, first) for tick in places]
    if "categories" in bins.arrays:
        places = np.flatnonzero(counts[:-1])
        names = [label(bins["categories"][place], 24) for place in places]
    right = ends[-1]
    if "categories" in bins.arrays and not counts[-2]:
        right = ends[-2]  # no other category is there
    if counts[-1]:
        low, right = _strip(ends)
        places = np.append(places, (low + right) / 2)
        names.append("missing")
    axes.set_xticks(places, names, **AS_WRITTEN)
    if "categories" in bins.arrays and max(map(len, names), default=0) * len(names) > LINE_LENGTH:
        axes.tick_params(axis="x", labelrotation=40, labelsize="small")
        for text in axes.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")
    margin = 0.02 * (right - ends[0])
    axes.set_xlim(ends[0] - margin, right + margin)


def _number_name(value: float, first: Any) -> str:
    """A number of an axis, or the day of a time."""
    if first.dtype.kind == "M":
        return str(np.datetime64(int(value), "us").astype("datetime64[D]"))
    return f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")
