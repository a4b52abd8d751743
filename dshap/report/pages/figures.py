"""The figures of a page as records: where things stand, in percent of the width, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dshap.analysis.numbers_as_text import decimals_of, number
from dshap.analysis.rankings import INTERVAL, Ranking, features_of
from dshap.analysis.view import MAX_SHOWN
from dshap.core.printing import label

BAR_PERCENT = 98.0
"""The length of the longest bar with its interval."""
NAME = 40
"""The most characters of a name in a figure."""


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


@dataclass(frozen=True)
class BarLine:
    """A feature with a bar for each explanation."""

    feature: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class BarFigure:
    """The global ranking for one output."""

    output: str
    """Empty where there is one output only."""
    sentence: str
    explanations: tuple[str, ...]
    lines: tuple[BarLine, ...]
    """The first features, the largest on top."""
    table: tuple[tuple[str, tuple[Cell, ...]], ...]
    """Every feature with mean |φ|, its error and mean φ of each explanation."""
    n_others: int

    @property
    def has_errors(self) -> bool:
        """Whether any mean has an interval."""
        return any(bar.high > bar.low for line in self.lines for bar in line.bars)

    @property
    def heads(self) -> list[str]:
        """Headings of the columns of the table, that of the names left aside."""
        words = ("mean |φ|", "± 95 %", "mean φ")
        if len(self.explanations) == 1:
            return list(words)
        return [f"{word}, {name}" for name in self.explanations for word in words]


def bar_figure(output: str, given: Sequence[Ranking], units: str) -> BarFigure:
    """The ranking of every feature by mean |φ|, for one output, explanations side by side."""
    names = features_of(given)
    shown = names[:MAX_SHOWN]
    decimals = decimals_of(value for ranking in given for value in ranking.magnitude.values())
    ends = [
        ranking.magnitude.get(name, 0.0) + INTERVAL * _error(ranking, name)
        for ranking in given
        for name in shown
    ]
    scale = BAR_PERCENT / (max(ends, default=0.0) or 1.0)
    first = given[0]
    largest = [
        f"{label(name, NAME)} ({number(first.magnitude.get(name), decimals)})" for name in names[:3]
    ]
    return BarFigure(
        label(output),
        f"Mean |attribution|{units} over {first.rows:,} rows: the largest "
        f"{_those(largest)} {_and(largest)}{_of(given)}.",
        tuple(label(ranking.label, NAME) for ranking in given),
        tuple(
            BarLine(label(name, NAME), tuple(_bar(each, name, scale, decimals) for each in given))
            for name in shown
        ),
        tuple((label(name), _cells(given, name, decimals)) for name in names),
        len(names) - len(shown),
    )


def _error(ranking: Ranking, feature: str) -> float:
    """The standard error of mean |φ|, 0 where there is none."""
    return float(np.nan_to_num(ranking.magnitude_error.get(feature, 0.0)))


def _bar(ranking: Ranking, feature: str, scale: float, decimals: int) -> Bar:
    mean = ranking.magnitude.get(feature, 0.0)
    half = INTERVAL * _error(ranking, feature)
    text = number(ranking.magnitude.get(feature), decimals)
    if half:
        text = f"{text} ± {number(half, decimals)}"
    return Bar(
        round(scale * mean, 2),
        round(scale * max(mean - half, 0.0), 2),
        round(scale * (mean + half), 2),
        text,
    )


def _cells(given: Sequence[Ranking], feature: str, decimals: int) -> tuple[Cell, ...]:
    """Mean |φ|, half its 95 % interval, and mean φ, under each explanation."""
    cells = []
    for ranking in given:
        numbers = (
            ranking.magnitude.get(feature, np.nan),
            INTERVAL * _error(ranking, feature),
            ranking.mean.get(feature, np.nan),
        )
        cells += [Cell(number(value, decimals), value) for value in numbers]
    return tuple(cells)


def _those(names: Sequence[str]) -> str:
    """The beginning of a list of features."""
    if len(names) == 1:
        return "is that of"
    return "are those of"


def _and(names: Sequence[str]) -> str:
    """Names in a sentence."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _of(given: Sequence[Ranking]) -> str:
    """The explanation that a sentence is about, where there are several."""
    if len(given) < 2:
        return ""
    return f", by {label(given[0].label, NAME)}"
