"""Swarms and dependences of a page as paths of SVG, from their records.

A path is in a box of 1000 x 100 that the page stretches to its own width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.dependences import Dependence
from dshap.analysis.numbers_as_text import decimals_of
from dshap.analysis.shades import grid_of
from dshap.analysis.swarms import Swarm, Swarms
from dshap.core.histograms import histogram_quantiles, number_of_bins
from dshap.core.printing import label
from dshap.core.records import FloatArray, Moments
from dshap.report.pages.directions import axis_value_text, value_text
from dshap.report.pages.figures import SHOWN, Cell
from dshap.report.pages.page_numbers import shown_number
from dshap.report.pages.page_texts import PageTexts
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
TABLE_LINES = 8
"""The most lines of the table behind a dependence."""
MOST_TICKS = 4
"""The most numbers that are named below a dependence."""
BEFORE_STRIP = 60.0
"""The percentage of the axis up to which numbers are named beside a strip of missing values."""
MAX_NAMES = 6
"""The most categories that are named below a dependence."""
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The quantiles of attributions in the table behind a swarm."""

CUT = (0.0005, 0.9995)
"""The quantiles of each feature that an axis of swarms includes at least."""
LEAST_CUT = 1.5
"""How many times as long an axis of all rows must be before it is cut."""
BEYOND_ENDS = "At most one row in two thousand of a feature is beyond either end of the axis."


@dataclass(frozen=True)
class Tick:
    """A name on an axis, at a percentage of its length."""

    percent: float
    name: str

    @property
    def anchor(self) -> str:
        """The side of the name that is at its position, so that no name leaves the figure."""
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

    @property
    def shown(self) -> tuple[SwarmLine, ...]:
        """The lines that are always visible."""
        return self.lines[:SHOWN]

    @property
    def folded(self) -> tuple[SwarmLine, ...]:
        """The lines that a reader can unfold."""
        return self.lines[SHOWN:]


@dataclass(frozen=True)
class Curve:
    """The mean attribution by the values of a column under one explanation, with its quartiles."""

    band: str
    mean: str


@dataclass(frozen=True)
class Card:
    """The dependence of one feature, with all explanations in one figure."""

    feature: str
    place: int
    """The position of the feature in the cube."""
    sentence: str
    curves: tuple[Curve, ...]
    zero: float
    """The height of zero, in percent from the top."""
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    table: tuple[tuple[str, tuple[Cell, ...]], ...]
    note: str
    """A sentence about numbers that the table leaves out; empty if it has all."""


def swarm_figure(heading: str, swarms: Swarms, texts: PageTexts) -> SwarmFigure:
    """Draw the swarms of one output under one explanation."""
    limits = _cut(swarms)
    quantiles = [_quantiles(swarm) for swarm in swarms.features]
    widest = max(
        range(len(quantiles)), key=lambda place: quantiles[place][-1] - quantiles[place][0]
    )
    decimals = decimals_of(np.concatenate(quantiles))
    low, high = (shown_number(quantiles[widest][end], decimals, sign=True) for end in (0, -1))
    name = texts.quoted(swarms.features[widest].feature)
    beyond = f"  {BEYOND_ENDS}" * (limits != swarms.limits)
    return SwarmFigure(
        heading,
        f"{name} spreads most: nine in ten rows lie between {low} and {high}.{beyond}",
        tuple(_swarm_line(swarm, texts, swarms.rows, limits) for swarm in swarms.features),
        _percent(0.0, limits),
        _ticks(limits),
        tuple(
            (
                texts.name(swarm.feature),
                tuple(Cell(shown_number(value, decimals), value) for value in each.tolist()),
            )
            for swarm, each in zip(swarms.features, quantiles, strict=True)
        ),
        swarms.n_others,
    )


def _cut(swarms: Swarms) -> tuple[float, float]:
    """The ends of an axis without the few extreme rows that would squeeze all others."""
    ends = np.array([_quantiles(swarm, CUT) for swarm in swarms.features])
    low = min(float(ends.min()), 0.0)
    high = max(float(ends.max()), 0.0)
    margin = 0.03 * (high - low)
    whole = swarms.limits[1] - swarms.limits[0]
    is_nothing = high - low < np.finfo(np.float64).tiny  # the quantiles of zeros are subnormal
    if is_nothing or whole < LEAST_CUT * (high - low):
        return swarms.limits
    return low - margin, high + margin


def _quantiles(swarm: Swarm, shares: Sequence[float] = SHARES) -> FloatArray:
    """Quantiles of the attributions of a feature over all rows."""
    histogram = swarm.histogram
    sums = {name: histogram[name].sum(keepdims=True) for name in ("sums", "squares")}
    counts = histogram["counts"].sum(axis=1, keepdims=True)
    whole = Moments({"codes": histogram["codes"], "counts": counts, **sums})
    return histogram_quantiles(whole, shares)[0]


def _swarm_line(
    swarm: Swarm, texts: PageTexts, rows: int, limits: tuple[float, float]
) -> SwarmLine:
    name = texts.name(swarm.feature)
    grid = grid_of(limits, STEPS)
    shades = swarm.shades(grid)
    middles = (grid[1:] + grid[:-1]) / 2
    x = _scaled(middles, limits, WIDTH)
    there = np.flatnonzero(shades.depth > THIN)
    places = there[np.unique(np.linspace(0, len(there) - 1, STOPS).round().astype(int))]
    unordered = shades.unordered
    if texts.has_named_values(swarm.feature):  # codes of categories have no order
        unordered = np.ones_like(unordered)
    colours = colour_at(shades.place, unordered)
    if swarm.bins is None:
        colours[:] = rgb_of(BLUE)
    stops = tuple((round(x[place] / WIDTH, 3), _hex(colours[place])) for place in places)
    if swarm.points is not None and rows < FEW_POINTS:
        phi = swarm.points["attributions"]
        phi = phi[~np.isnan(phi)]
        y = HEIGHT / 2 + HEIGHT * spread(phi, *limits)
        points = "".join(
            # a line without length, which its round ends make a point
            f"M{at:.0f} {height:.0f}h0"
            for at, height in zip(_scaled(phi, limits, WIDTH), y, strict=True)
        )
        return SwarmLine(name, "", points, stops)
    return SwarmLine(name, _outline(x, shades.depth), "", stops)


def _outline(x: FloatArray, depth: FloatArray) -> str:
    """The outline of a swarm: along its upper side, and back along the lower."""
    there = np.flatnonzero(depth > THIN)
    # one thin step beyond each end: the outline comes to a point there instead of ending in an
    # upright edge
    span = slice(max(there[0] - 1, 0), there[-1] + 2)
    half = np.where(depth > THIN, depth, THIN)[span] * (HEIGHT / 2 - 2)
    upper = _points(x[span], HEIGHT / 2 - half)
    lower = _points(x[span][::-1], (HEIGHT / 2 + half)[::-1])
    return f"M{upper}L{lower}Z"


def dependence_card(given: Sequence[Dependence], texts: PageTexts) -> Card:
    """Draw the dependence of one feature, from its record under each explanation."""
    first = given[0]
    quartiles = [each.quantiles((0.25, 0.75)) for each in given]
    span = _y_span([*quartiles, *(each.means[:, None] for each in given)])
    decimals = decimals_of(span)
    is_line = first.is_line and not texts.has_named_values(first.feature)
    curves = tuple(
        _curve(each, both, span, is_line) for each, both in zip(given, quartiles, strict=True)
    )
    names = [value_text(first, place, texts) for place in range(len(first.counts))]
    listed = _listed_bins(first)
    n_bins = int(np.count_nonzero(first.counts))
    note = f"{len(listed)} of {n_bins} groups of values are listed." * (len(listed) < n_bins)
    return Card(
        texts.axis(first.feature),
        texts.features.index(first.feature),
        _card_sentence(first, names, decimals),
        curves,
        100.0 - _percent(0.0, span),
        _x_ticks(first, names, texts),
        (Tick(0.0, shown_number(span[1], decimals)), Tick(100.0, shown_number(span[0], decimals))),
        tuple(_card_table(given, quartiles, names, listed, decimals)),
        note,
    )


def _y_span(given: Sequence[FloatArray]) -> tuple[float, float]:
    """The ends of an axis that includes these numbers, and 0."""
    both = np.concatenate([each.ravel() for each in given])
    low = float(np.nanmin(both, initial=0.0))
    high = float(np.nanmax(both, initial=0.0))
    # attributions that are all 0 need an axis of some length
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _curve(
    given: Dependence, quartiles: FloatArray, span: tuple[float, float], is_line: bool
) -> Curve:
    """The paths of one explanation: a line through bins of numbers, a step for each category."""
    n_bins = number_of_bins(given.bins)
    ends = _ends_of(given)
    means = HEIGHT - _scaled(given.means, span, HEIGHT)
    lower, upper = HEIGHT - _scaled(quartiles.T, span, HEIGHT)
    is_step = given.counts > 0
    band = ""
    mean = ""
    is_there = is_step[:n_bins].copy()
    if is_line and is_there.sum() > 1:  # a line of one point would not be seen
        x = _scaled(given.scale.place(given.middles[is_there]), ends, WIDTH)
        mean = f"M{_points(x, means[:n_bins][is_there])}"
        above = _points(x, upper[:n_bins][is_there])
        below = _points(x[::-1], lower[:n_bins][is_there][::-1])
        band = f"M{above}L{below}Z"
        is_step[:n_bins] = False
    left, right = (_scaled(each, ends, WIDTH) for each in given.placed_sides)
    for place in np.flatnonzero(is_step):
        sides = f"H{right[place]:.0f}"
        mean += f"M{left[place]:.0f} {means[place]:.1f}{sides}"
        band += (
            f"M{left[place]:.0f} {upper[place]:.1f}{sides}V{lower[place]:.1f}H{left[place]:.0f}Z"
        )
    return Curve(band, mean)


def _ends_of(given: Dependence) -> tuple[float, float]:
    """The ends of the axis of values, with the strip of missing ones if there are any.

    They are places on it, as `given.scale` has them.
    """
    high = float(given.ends[-1])
    if given.has_categories and not given.counts[-2] and len(given.ends) > 2:
        high = float(given.ends[-2])  # no other category is there
    if given.counts[-1]:
        high = given.strip[1]
    first, last = given.scale.place(np.array([given.ends[0], high]))
    return float(first), float(last)


def _x_ticks(given: Dependence, names: Sequence[str], texts: PageTexts) -> tuple[Tick, ...]:
    """Round values on the axis of numbers, or its categories if they are few."""
    ends = _ends_of(given)
    left, right = given.placed_sides
    ticks = []
    if given.has_categories:
        there = np.flatnonzero(given.counts[:-1])
        if len(there) <= MAX_NAMES:
            ticks = [
                Tick(_percent((left[place] + right[place]) / 2, ends), label(names[place], 12))
                for place in there.tolist()
            ]
    else:
        first, last = given.ends[[0, -1]].tolist()
        ticks = [
            Tick(
                _percent(given.scale.place(np.array(value)), ends),
                axis_value_text(given, value, texts, with_unit=False),
            )
            for value in given.scale.ticks(first, last, MOST_TICKS)
        ]
    if given.counts[-1]:
        before = [each for each in ticks if each.percent < BEFORE_STRIP]
        ticks = [*before, Tick(100.0, ", ".join(given.strip_words))]
    return tuple(ticks)


def _card_sentence(given: Dependence, names: Sequence[str], decimals: int) -> str:
    """A sentence on where the mean attribution is lowest and highest."""
    means = np.where(given.counts > 0, given.means, np.nan)
    if np.isnan(means).all():
        return "No row has an attribution."
    low = int(np.nanargmin(means))
    high = int(np.nanargmax(means))
    return (
        f"{shown_number(means[low], decimals, sign=True)} at {names[low]}, "
        f"{shown_number(means[high], decimals, sign=True)} at {names[high]}."
        f"{_axis_note(given)}"
    )


def _axis_note(given: Dependence) -> str:
    """A sentence about an axis that is not linear; empty for one that is."""
    if not given.scale.words:
        return ""
    return f"  {given.scale.words.capitalize()}."


def _listed_bins(given: Dependence) -> list[int]:
    """The places of the value bins that the table lists: `TABLE_LINES` of those with rows, evenly."""
    there = np.flatnonzero(given.counts)
    chosen = np.unique(np.linspace(0, len(there) - 1, TABLE_LINES).round().astype(int))
    found: list[int] = there[chosen].tolist()
    return found


def _card_table(
    given: Sequence[Dependence],
    quartiles: Sequence[FloatArray],
    names: Sequence[str],
    listed: Sequence[int],
    decimals: int,
) -> list[tuple[str, tuple[Cell, ...]]]:
    """Some of the value bins: rows, and mean and quartiles under each explanation."""
    lines = []
    for place in listed:
        count = int(given[0].counts[place])
        cells = [Cell(f"{count:,}", count)]
        for each, both in zip(given, quartiles, strict=True):
            values = [each.means[place], *both[place]]
            cells += [Cell(shown_number(value, decimals), float(value)) for value in values]
        lines.append((names[place], tuple(cells)))
    return lines


def _scaled(values: NDArray[np.float64], ends: tuple[float, float], size: float) -> FloatArray:
    """Places of numbers on an axis of this size; numbers beyond its ends are on them."""
    low, high = ends
    return np.asarray(np.clip((values - low) / ((high - low) or 1.0), 0.0, 1.0) * size)


def _percent(value: float | FloatArray, ends: tuple[float, float]) -> float:
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
    return tuple(
        Tick(_percent(value, ends), shown_number(value, decimals)) for value in values.tolist()
    )
