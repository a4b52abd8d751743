"""The attributions of all rows in one picture: a swarm for every feature, or one against its column.

Below `FEW_ROWS` rows are points; more rows are densities, made of histograms in one pass over the
cube, in the memory of one slice of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d

from dshap.core.histograms import (
    bin_ends,
    histogram_of,
    number_of_bins,
)
from dshap.core.records import FloatArray, Moments, Record, TreeSum
from dshap.cube.datasets import as_cube, attribution_of, global_means, row_slices
from dshap.report.attributions import AS_WRITTEN, features_of, output_ranking
from dshap.report.columns import (
    Columns,
    binned,
    bins_of_column,
    columns_of,
)
from dshap.report.panels import (
    BLUE,
    GREY,
    MAX_SHOWN,
    ROW_INCHES,
    attribution_words,
    by_place,
    colour_bar,
    colour_map,
    counted_rows,
    name_rows,
    new_axes,
    output_of,
    zero_line,
)

FEW_ROWS = 2_000
"""The number of rows from which a picture shows densities; fewer are points."""
GRID = 480
"""Places along an axis where a density is drawn."""
SMOOTHING = 0.006
"""The standard deviation of the smoothing of a density, as a part of the axis."""
HALF_HEIGHT = 0.42
"""The largest half height of a swarm, in rows of the picture."""
DEPTH = 0.5
"""The power of a density that is drawn, so that tails stay visible beside a peak."""


def beeswarm(
    cube: Any, *, rows: Any = None, output: str | int | None = None, ax: Any = None
) -> Any:
    """Draw the attributions of every feature, coloured from low to high values of its column.

    Features are sorted by mean |attribution|, at most 20 are shown.  From 2,000 rows on a swarm is
    a density: its height is the square root of the number of rows at an attribution, its colour
    the mean place of their values among all values of the column.  Missing values and categories,
    which have no order, are grey.

    Parameters
    ----------
    cube : xarray.Dataset of `dshap.explain` or `dshap.open_cube`, or the path of a store
    rows : data frame, table or array of the explained rows, in the order of the cube; None: those
        that the cube or its store keeps (without any, there are no colours)
    output : name or position of the output, where there are several
    ax : matplotlib axes; None: those of a new figure

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        No row is explained, an unknown output, or rows that are not those of the cube.
    """
    cube = as_cube(cube)
    place = output_of(cube, output)
    n_rows = counted_rows(cube)
    names = [str(name) for name in cube["feature"].values]
    ranked = features_of([output_ranking("", global_means(cube), place)])
    shown = ranked[:MAX_SHOWN]
    columns = columns_of(cube, rows)
    bins = {name: bins_of_column(cube, columns[name]) for name in shown if name in columns}
    axes = new_axes(ax, 8.0, 1.3 + ROW_INCHES * len(shown))
    positions = {name: names.index(name) for name in shown}
    if n_rows < FEW_ROWS:
        _draw_points(axes, cube, place, positions, columns, bins)
    else:
        found = histograms(cube, place, positions, columns, bins)
        _draw_swarms(axes, [found[name] for name in shown], [bins.get(name) for name in shown])
    zero_line(axes.axvline)
    name_rows(axes, shown, len(ranked) - len(shown))
    axes.set_xlabel(attribution_words("attribution", cube, place, n_rows), **AS_WRITTEN)
    if any("edges" in each.arrays for each in bins.values()):
        colour_bar(axes, "value of the column")
    return axes


def histograms(
    cube: Any,
    output: int,
    positions: Mapping[str, int],
    columns: Columns,
    bins: Mapping[str, Record],
) -> dict[str, Moments]:
    """The histogram of each of these features (name -> position), in one pass over the cube."""
    sums = {name: TreeSum[Moments]() for name in positions}
    for rows in row_slices(cube):
        phi = attribution_of(cube, rows, output)
        for name, position in positions.items():
            codes = np.zeros(len(phi), np.int64)
            n_bins = 1
            if name in bins:
                codes = binned(bins[name], columns[name](rows))
                n_bins = number_of_bins(bins[name]) + 1
            sums[name].add(histogram_of(np.ascontiguousarray(phi[:, position]), codes, n_bins))
    return {name: each.total() for name, each in sums.items()}


def value_places(bins: Record | None) -> FloatArray:
    """The place of each value bin between low, 0, and high, 1; NaN where there is no order."""
    if bins is None:
        return np.full(1, np.nan)
    n_bins = number_of_bins(bins)
    places = np.full(n_bins + 1, np.nan)
    if "categories" not in bins.arrays:
        places[:n_bins] = np.linspace(0.0, 1.0, n_bins)
        places[:n_bins] += 0.5 * (n_bins == 1)  # one value is neither low nor high
    return places


def on_grid(found: Moments, weights: FloatArray, grid: FloatArray) -> FloatArray:
    """Rows in each step of a grid (g − 1, w), smoothed; each value bin counts by `weights (v, w)`.

    Rows of a bin are spread evenly over it.
    """
    lower, upper = bin_ends(found["codes"])
    ends = np.stack([lower, upper], axis=1).ravel()
    upto = np.cumsum(found["counts"] @ weights, axis=0)
    before = np.vstack([np.zeros((1, upto.shape[1])), upto[:-1]])
    steps = np.stack([before, upto], axis=1).reshape(len(ends), -1)
    mass = np.stack([np.diff(np.interp(grid, ends, each)) for each in steps.T], axis=1)
    return np.asarray(gaussian_filter1d(mass, SMOOTHING * len(grid), axis=0, mode="constant"))


def shades(rows: FloatArray, places: FloatArray, missing: FloatArray) -> FloatArray:
    """Colours (…, 3) of numbers of rows whose places add up to `places`; `missing` have none."""
    known = np.maximum(rows - missing, 0.0)
    share = np.divide(missing, rows, out=np.ones_like(rows), where=rows > 0)
    mean = np.divide(places, known, out=np.full_like(rows, 0.5), where=known > 0)
    from matplotlib.colors import to_rgb

    coloured = colour_map()(np.clip(mean, 0.0, 1.0))[..., :3]
    return np.asarray(
        coloured + np.clip(share, 0, 1)[..., None] * (np.array(to_rgb(GREY)) - coloured)
    )


def limits(found: list[Moments]) -> tuple[float, float]:
    """The ends of an axis that holds all attributions, and 0."""
    ends = [bin_ends(each["codes"]) for each in found if len(each["codes"])]
    lower = min((float(low[0]) for low, _ in ends), default=0.0)
    upper = max((float(high[-1]) for _, high in ends), default=0.0)
    margin = 0.03 * (max(upper, 0.0) - min(lower, 0.0)) or 1.0
    return min(lower, 0.0) - margin, max(upper, 0.0) + margin


def _draw_swarms(axes: Any, found: list[Moments], bins: list[Record | None]) -> None:
    """Draw a density in each row, from the top down."""
    low, high = limits(found)
    grid = np.linspace(low, high, GRID + 1)
    middle = (grid[1:] + grid[:-1]) / 2
    axes.set_xlim(low, high)
    for y, (each, of_values) in enumerate(zip(found, bins, strict=True)):
        places = value_places(of_values)
        weights = np.stack([np.ones_like(places), np.nan_to_num(places), np.isnan(places)], axis=1)
        mass = on_grid(each, weights, grid)
        density = mass[:, 0] / max(mass[:, 0].max(), 1e-300)
        height = HALF_HEIGHT * np.maximum(density, 0.0) ** DEPTH
        outline = axes.fill_between(middle, y - height, y + height, color="none", linewidth=0)
        colours = shades(*mass.T)
        if of_values is None:
            from matplotlib.colors import to_rgb

            colours[:] = to_rgb(BLUE)
        picture = axes.imshow(
            colours[None],
            extent=(low, high, y + 0.5, y - 0.5),
            aspect="auto",
            interpolation="bilinear",
            zorder=2,
        )
        (path,) = outline.get_paths()
        picture.set_clip_path(path, axes.transData)


def _draw_points(
    axes: Any,
    cube: Any,
    output: int,
    positions: Mapping[str, int],
    columns: Columns,
    bins: Mapping[str, Record],
) -> None:
    """Draw a point for each attribution, spread out where they are many."""
    whole = slice(0, cube.sizes["instance"])
    phi = attribution_of(cube, whole, output)[:, list(positions.values())]
    low = float(np.nanmin(phi, initial=0.0))
    high = float(np.nanmax(phi, initial=0.0))
    for y, name in enumerate(positions):
        shading: dict[str, Any] = {"color": BLUE}
        if name in bins:
            places = value_places(bins[name])
            shading = by_place(places[binned(bins[name], columns[name](whole))])
        axes.scatter(
            phi[:, y],
            y + spread(phi[:, y], low, high),
            s=14,
            linewidths=0,
            zorder=2,
            **shading,
        )


def spread(values: FloatArray, low: float, high: float) -> FloatArray:
    """Offsets that keep points of about the same value apart, at most `HALF_HEIGHT`."""
    cells = np.nan_to_num((values - low) / max(high - low, 1e-300) * 100).astype(int)
    order = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[order], cells[order])
    offsets = np.empty(len(values))
    ranks = np.arange(len(values)) - starts
    offsets[order] = (ranks + 1) // 2 * np.where(ranks % 2, 1, -1)
    step = min(0.08, HALF_HEIGHT / max(np.abs(offsets).max(initial=0), 1))
    return offsets * step
