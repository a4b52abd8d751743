"""The ranking of the features as a figure: shares of all movement, intervals, and directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dshap.analysis.numbers_as_text import decimals_of
from dshap.analysis.rankings import Ranking, features_of
from dshap.core.printing import label
from dshap.report.pages.page_numbers import percent, shown_number
from dshap.report.pages.page_texts import NAME, PageTexts

BAR_PERCENT = 98.0
"""The length of the longest bar with its interval."""
LEAST_HALF = 5e-4
"""The least half width of an interval, as a share, that is written beside a bar (0.05 %)."""
LEAST = 1e-4
"""The least share of a column whose direction is described."""
SHARE_DECIMALS = 9
"""The decimals to which shares are rounded, so that rounding errors become 0."""
SHOWN = 8
"""The features that are always visible; a reader can unfold all others."""


@dataclass(frozen=True)
class Cell:
    """A number of a table: its text, and the number itself for programs."""

    text: str
    value: float
    level: int = -1
    """The strength of its colour from 0 to 8; −1 for none."""


@dataclass(frozen=True)
class Bar:
    """A mean |attribution| with its 95 % interval."""

    length: float
    low: float
    high: float
    text: str


def bar_scale(sizes: Iterable[float]) -> float:
    """Percent of the width for a bar of length 1, so that the largest of these bars fits."""
    largest = max(map(abs, sizes), default=0.0)
    return BAR_PERCENT / (largest or 1.0)


def paired_bars(
    sizes: Sequence[float], scale: float, decimals: int, sign: bool = False
) -> tuple[Bar, ...]:
    """A bar without an interval for each number, such as an old and a new one."""
    lengths = [round(scale * abs(size), 2) for size in sizes]
    return tuple(
        Bar(length, length, length, shown_number(size, decimals, sign))
        for length, size in zip(lengths, sizes, strict=True)
    )


@dataclass(frozen=True)
class BarLine:
    """A feature with a bar for each explanation."""

    feature: str
    bars: tuple[Bar, ...]
    place: int = -1
    """The position of the feature in the cube; −1 for a line without a link."""
    direction: str = ""
    """How its values move the prediction, in words; empty if it is not known."""


@dataclass(frozen=True)
class BarFigure:
    """The global ranking for one output."""

    output: str
    """Empty if there is one output only."""
    explanations: tuple[str, ...]
    lines: tuple[BarLine, ...]
    """The features of the figure, the largest on top."""
    heads: tuple[str, ...]
    """Headings of the columns of the table, without the column of names."""
    table: tuple[tuple[str, tuple[Cell, ...]], ...]
    """Every feature with mean |φ|, its error and mean φ of each explanation."""

    @property
    def shown(self) -> tuple[BarLine, ...]:
        """The lines that are always visible."""
        return self.lines[:SHOWN]

    @property
    def has_errors(self) -> bool:
        """Whether any mean has an interval."""
        return any(bar.high > bar.low for line in self.lines for bar in line.bars)

    @property
    def has_directions(self) -> bool:
        """Whether the direction of any feature is known."""
        return any(line.direction for line in self.lines)


def bar_figure(
    output: str,
    given: Sequence[Ranking],
    texts: PageTexts,
    directions: Mapping[str, str],
    units: str,
) -> BarFigure:
    """The ranking of every feature by mean |φ|, for one output, explanations side by side.

    Parameters
    ----------
    output : the name of the output; "" if there is one only
    given : the ranking of each explanation
    texts : the names of the features
    directions : feature -> how its values move the prediction, in words
    units : the units of attributions, in brackets after a blank
    """
    first = given[0]
    names = features_of(given)
    shown = names[:SHOWN]
    decimals = decimals_of(value for ranking in given for value in ranking.magnitude.values())
    ends = [
        ranking.magnitude.get(name, 0.0) + _half_width(ranking, name)
        for ranking in given
        for name in shown
    ]
    scale = bar_scale(ends)
    return BarFigure(
        label(output),
        tuple(label(ranking.label, NAME) for ranking in given),
        tuple(
            BarLine(
                texts.name(name),
                tuple(_bar(each, name, scale) for each in given),
                texts.features.index(name),
                directions.get(name, "")
                * (first.magnitude.get(name, 0.0) > LEAST * total_of(first)),
            )
            for name in shown
        ),
        _heads(given, units),
        tuple((texts.name(name), _cells(given, name, decimals)) for name in names),
    )


def total_of(ranking: Ranking) -> float:
    """The sum of mean |φ| of all features: all movement of the predictions; 1 if there is none."""
    return sum(ranking.magnitude.values()) or 1.0


def _half_width(ranking: Ranking, feature: str) -> float:
    """Half the width of the 95 % interval of mean |φ|; 0 if it is not known."""
    return float(np.nan_to_num(ranking.half_width(feature)))


def _bar(ranking: Ranking, feature: str, scale: float) -> Bar:
    mean = ranking.magnitude.get(feature, 0.0)
    half = _half_width(ranking, feature)
    total = total_of(ranking)
    text = percent(round(mean / total, SHARE_DECIMALS))
    if half >= LEAST_HALF * total:
        text = f"{text} ± {percent(half / total, 1).removesuffix(' %')}"
    return Bar(
        round(scale * mean, 2),
        round(scale * max(mean - half, 0.0), 2),
        round(scale * (mean + half), 2),
        text,
    )


def _heads(given: Sequence[Ranking], units: str) -> tuple[str, ...]:
    words = ("share", f"mean |φ|{units}", "± 95 %", "mean φ")
    if len(given) == 1:
        return words
    return tuple(f"{word}, {label(each.label, NAME)}" for each in given for word in words)


def _cells(given: Sequence[Ranking], feature: str, decimals: int) -> tuple[Cell, ...]:
    """The share of all movement, mean |φ|, half its 95 % interval, and mean φ, of each explanation."""
    cells = []
    for ranking in given:
        size = ranking.magnitude.get(feature, np.nan)
        share = size / total_of(ranking)
        numbers = (size, _half_width(ranking, feature), ranking.mean.get(feature, np.nan))
        cells.append(Cell(percent(share, 1), share))
        cells += [Cell(shown_number(value, decimals), value) for value in numbers]
    return tuple(cells)
