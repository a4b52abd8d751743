"""Swarms and dependences of a page as paths of SVG, from their records.

A path lies in a box of 1000 x 100 that the page stretches to its own width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.column_values import value_name
from dshap.analysis.dependences import Dependence
from dshap.analysis.numbers_as_text import decimals_of, number
from dshap.analysis.shades import grid_of
from dshap.analysis.swarms import Swarm, Swarms
from dshap.core.histograms import histogram_quantiles, number_of_bins
from dshap.core.printing import label
from dshap.core.records import FloatArray, Moments
from dshap.report.pages.figures import NAME, Cell
from dshap.report.panels import BLUE, colour_at, rgb_of, spread

WIDTH = 1000.0
HEIGHT = 100.0
STEPS = 120
"""Steps of an axis in which the outline of a swarm is drawn."""
STOPS = 40
"""Colours along a swarm."""
FEW_POINTS = 500
"""The number of rows from which a swarm of a page is its outline; fewer are points."""
THIN = 0.01
"""The height, as a part of the largest, below which an outline is a line."""
TABLE_LINES = 12
"""The most lines of the table behind a dependence."""
MAX_NAMES = 6
"""The most categories that are named below a dependence."""
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The quantiles of attributions in the table behind a swarm."""

CUT = (0.0005, 0.9995)
"""The quantiles of each feature that an axis of swarms holds at least."""
LEAST_CUT = 1.5
"""How many times as long an axis of all rows must be before it is cut."""
BEYOND_ENDS = "  At most one row in two thousand of a feature lies beyond either end."


@dataclass(frozen=True)
class Tick:
    """A name on an axis, at a percentage of its length."""

    percent: float
    name: str

    @property
    def anchor(self) -> str:
        """The side of the name that stands at the place, so that none leaves the figure."""
        if self.percent < 8:
            return "start"
        if self.percent > 92:
            return "end"
        return "middle"


@dataclass(frozen=True)
class SwarmLine:
    """The swarm of one feature: an outline with colours along it, or points."""

    feature: str
    outline: str
    points: str
    stops: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class SwarmFigure:
    """The attributions of every feature of one output under one explanation."""

    heading: str
    sentence: str
    lines: tuple[SwarmLine, ...]
    zero: float
    ticks: tuple[Tick, ...]
    table: tuple[tuple[str, tuple[Cell, ...]], ...]
    n_others: int


@dataclass(frozen=True)
class Curve:
    """The mean attribution by the values of a column under one explanation, with its quartiles."""

    band: str
    mean: str


@dataclass(frozen=True)
class Card:
    """The dependence of one feature, explanations over each other."""

    feature: str
    sentence: str
    curves: tuple[Curve, ...]
    zero: float
    """The height of zero, in percent from the top."""
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    table: tuple[tuple[str, tuple[Cell, ...]], ...]


def swarm_figure(heading: str, swarms: Swarms) -> SwarmFigure:
    """Draw the swarms of one output under one explanation."""
    limits = _cut(swarms)
    quantiles = [_quantiles(swarm) for swarm in swarms.features]
    widest = max(
        range(len(quantiles)), key=lambda place: quantiles[place][-1] - quantiles[place][0]
    )
    decimals = decimals_of(np.concatenate(quantiles))
    low, high = (number(quantiles[widest][end], decimals, sign=True) for end in (0, -1))
    name = label(swarms.features[widest].feature, NAME)
    return SwarmFigure(
        heading,
        f"Every row of every feature by its {swarms.words}: a shape is wide where many rows are; red "
        "are high values of the column, blue low ones, grey those without order.  "
        f"{name} spreads most: nine in ten rows lie between {low} and {high}."
        + BEYOND_ENDS
        * (limits != swarms.limits),
        tuple(_swarm_line(swarm, swarms.rows, limits) for swarm in swarms.features),
        _percent(0.0, limits),
        _ticks(limits),
        tuple(
            (
                label(swarm.feature),
                tuple(Cell(number(value, decimals), value) for value in each.tolist()),
            )
            for swarm, each in zip(swarms.features, quantiles, strict=True)
        ),
        swarms.n_others,
    )


def _cut(swarms: Swarms) -> tuple[float, float]:
    """The ends of an axis without the few rows that would press all others together."""
    ends = np.array([_quantiles(swarm, CUT) for swarm in swarms.features])
    low = min(float(ends.min()), 0.0)
    high = max(float(ends.max()), 0.0)
    margin = 0.03 * (high - low)
    whole = swarms.limits[1] - swarms.limits[0]
    if margin == 0.0 or whole < LEAST_CUT * (high - low):
        return swarms.limits
    return low - margin, high + margin


def _quantiles(swarm: Swarm, shares: Sequence[float] = SHARES) -> FloatArray:
    """Quantiles of the attributions of a feature over all rows."""
    histogram = swarm.histogram
    sums = {name: histogram[name].sum(keepdims=True) for name in ("sums", "squares")}
    counts = histogram["counts"].sum(axis=1, keepdims=True)
    whole = Moments({"codes": histogram["codes"], "counts": counts, **sums})
    return histogram_quantiles(whole, shares)[0]


def _swarm_line(swarm: Swarm, rows: int, limits: tuple[float, float]) -> SwarmLine:
    grid = grid_of(limits, STEPS)
    shades = swarm.shades(grid)
    middles = (grid[1:] + grid[:-1]) / 2
    x = _scaled(middles, limits, WIDTH)
    there = np.flatnonzero(shades.depth > THIN)
    places = there[np.unique(np.linspace(0, len(there) - 1, STOPS).round().astype(int))]
    colours = colour_at(shades.place, shades.unordered)
    if swarm.bins is None:
        colours[:] = rgb_of(BLUE)
    stops = tuple((round(x[place] / WIDTH, 3), _hex(colours[place])) for place in places)
    if swarm.points is not None and rows < FEW_POINTS:
        phi = swarm.points["attributions"]
        phi = phi[~np.isnan(phi)]
        y = HEIGHT / 2 + HEIGHT * spread(phi, *limits)
        points = "".join(
            f"M{at:.0f} {height:.0f}h0"
            for at, height in zip(_scaled(phi, limits, WIDTH), y, strict=True)
        )
        return SwarmLine(label(swarm.feature, NAME), "", points, stops)
    return SwarmLine(label(swarm.feature, NAME), _outline(x, shades.depth), "", stops)


def _outline(x: FloatArray, depth: FloatArray) -> str:
    """The outline of a swarm: along its upper side, and back along the lower."""
    there = np.flatnonzero(depth > THIN)
    span = slice(max(there[0] - 1, 0), there[-1] + 2)
    half = np.where(depth > THIN, depth, THIN)[span] * (HEIGHT / 2 - 2)
    upper = _points(x[span], HEIGHT / 2 - half)
    lower = _points(x[span][::-1], (HEIGHT / 2 + half)[::-1])
    return f"M{upper}L{lower}Z"


def dependence_card(given: Sequence[Dependence]) -> Card:
    """Draw the dependence of one feature, whose records under each explanation these are."""
    first = given[0]
    quartiles = [each.quantiles((0.25, 0.75)) for each in given]
    span = _y_span([*quartiles, *(each.means[:, None] for each in given)])
    decimals = decimals_of(span)
    curves = tuple(_curve(each, both, span) for each, both in zip(given, quartiles, strict=True))
    return Card(
        label(first.feature, NAME),
        _card_sentence(first, decimals),
        curves,
        100.0 - _percent(0.0, span),
        _x_ticks(first),
        (Tick(0.0, number(span[1], decimals)), Tick(100.0, number(span[0], decimals))),
        tuple(_card_table(given, quartiles, decimals)),
    )


def _y_span(given: Sequence[FloatArray]) -> tuple[float, float]:
    """The ends of an axis that holds these numbers, and 0."""
    both = np.concatenate([each.ravel() for each in given])
    low = float(np.nanmin(both, initial=0.0))
    high = float(np.nanmax(both, initial=0.0))
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _curve(given: Dependence, quartiles: FloatArray, span: tuple[float, float]) -> Curve:
    """The paths of one explanation: a line through bins of numbers, a step for each category."""
    n_bins = number_of_bins(given.bins)
    ends = _ends_of(given)
    means = HEIGHT - _scaled(given.means, span, HEIGHT)
    lower, upper = HEIGHT - _scaled(quartiles.T, span, HEIGHT)
    is_step = given.counts > 0
    band = ""
    mean = ""
    if given.is_line:
        is_there = is_step[:n_bins]
        x = _scaled(given.middles[is_there], ends, WIDTH)
        mean = f"M{_points(x, means[:n_bins][is_there])}"
        above = _points(x, upper[:n_bins][is_there])
        below = _points(x[::-1], lower[:n_bins][is_there][::-1])
        band = f"M{above}L{below}Z"
        is_step[:n_bins] = False
    left, right = (_scaled(each, ends, WIDTH) for each in given.sides)
    for place in np.flatnonzero(is_step):
        sides = f"H{right[place]:.0f}"
        mean += f"M{left[place]:.0f} {means[place]:.1f}{sides}"
        band += (
            f"M{left[place]:.0f} {upper[place]:.1f}{sides}V{lower[place]:.1f}H{left[place]:.0f}Z"
        )
    return Curve(band, mean)


def _ends_of(given: Dependence) -> tuple[float, float]:
    """The ends of the axis of values, with the strip of missing ones where there are any."""
    low = float(given.ends[0])
    if given.counts[-1]:
        return low, given.strip[1]
    if given.has_categories and not given.counts[-2] and len(given.ends) > 2:
        return low, float(given.ends[-2])  # no other category is there
    return low, float(given.ends[-1])


def _names(given: Dependence) -> list[str]:
    """The name of each value bin, that of missing values last."""
    if given.has_categories:
        names = [label(name, 24) for name in given.bins["categories"].tolist()]
    else:
        names = _value_names(given, given.middles.tolist())
    return [*names, "missing"]


def _value_names(given: Dependence, values: Sequence[float]) -> list[str]:
    """Numbers of a column in four digits of its largest, or the days of times."""
    if given.is_time:
        return [value_name(value, is_time=True) for value in values]
    decimals = decimals_of([*values, given.ends[0], given.ends[-1]])
    return [number(value, decimals) for value in values]


def _x_ticks(given: Dependence) -> tuple[Tick, ...]:
    """The ends of the axis of numbers, or its categories where they are few."""
    ends = _ends_of(given)
    left, right = given.sides
    ticks = []
    if given.has_categories:
        there = np.flatnonzero(given.counts[:-1])
        if len(there) <= MAX_NAMES:
            names = _names(given)
            ticks = [
                Tick(_percent((left[place] + right[place]) / 2, ends), label(names[place], 12))
                for place in there.tolist()
            ]
    else:
        outer = [float(given.ends[0]), float(given.ends[-1])]
        names = _value_names(given, outer)
        ticks = [
            Tick(_percent(value, ends), name) for value, name in zip(outer, names, strict=True)
        ]
    if given.counts[-1]:
        ticks = [*ticks[:1], Tick(100.0, "missing")]
    return tuple(ticks)


def _card_sentence(given: Dependence, decimals: int) -> str:
    """A sentence that says where the mean attribution is lowest and highest."""
    means = np.where(given.counts > 0, given.means, np.nan)
    if np.isnan(means).all():
        return "No row has an attribution."
    names = _names(given)
    low = int(np.nanargmin(means))
    high = int(np.nanargmax(means))
    return (
        f"The mean attribution is lowest, {number(means[low], decimals, sign=True)}, at {names[low]}, "
        f"and highest, {number(means[high], decimals, sign=True)}, at {names[high]}."
    )


def _card_table(
    given: Sequence[Dependence], quartiles: Sequence[FloatArray], decimals: int
) -> list[tuple[str, tuple[Cell, ...]]]:
    """Some of the value bins: rows, and mean and quartiles under each explanation."""
    first = given[0]
    names = _names(first)
    there = np.flatnonzero(first.counts)
    chosen = there[np.unique(np.linspace(0, len(there) - 1, TABLE_LINES).round().astype(int))]
    lines = []
    for place in chosen.tolist():
        count = int(first.counts[place])
        cells = [Cell(f"{count:,}", count)]
        for each, both in zip(given, quartiles, strict=True):
            values = [each.means[place], *both[place]]
            cells += [Cell(number(value, decimals), float(value)) for value in values]
        lines.append((names[place], tuple(cells)))
    return lines


def _scaled(values: NDArray[np.float64], ends: tuple[float, float], size: float) -> FloatArray:
    """Places of numbers on an axis of this size; numbers beyond its ends lie on them."""
    low, high = ends
    return np.asarray(np.clip((values - low) / ((high - low) or 1.0), 0.0, 1.0) * size)


def _percent(value: float, ends: tuple[float, float]) -> float:
    return round(float(_scaled(np.array([value]), ends, 100.0)[0]), 2)


def _points(x: FloatArray, y: FloatArray) -> str:
    """Points of a path, each as two short numbers."""
    return "L".join(f"{a:.0f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _hex(colour: FloatArray) -> str:
    """A colour such as "#008bfb" from red, green and blue, 0 to 1."""
    return "#" + "".join(f"{round(255 * each):02x}" for each in colour.tolist())


def _ticks(ends: tuple[float, float]) -> tuple[Tick, ...]:
    """About five round numbers on an axis."""
    low, high = ends
    rough = (high - low) / 5
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(each for each in (1, 2, 5, 10) if each * power >= rough)
    values = step * np.arange(np.ceil(low / step), np.floor(high / step) + 1)
    decimals = max(0, -int(np.floor(np.log10(step))))
    return tuple(Tick(_percent(value, ends), number(value, decimals)) for value in values.tolist())
