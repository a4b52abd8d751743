"""The importance of each feature over the last runs of a job: lines, and a slider over the runs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.analysis.importance_history import ImportanceHistory, history_of
from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.core.printing import label
from dshap.core.records import FloatArray
from dshap.cube.current import has_nights
from dshap.report.pages.figures import SHOWN
from dshap.report.pages.page_numbers import percent
from dshap.report.pages.page_texts import PageTexts
from dshap.report.pages.row_tables import json_text

LAST_RUNS = 30
"""The most runs that a page shows."""


@dataclass(frozen=True)
class HistoryLine:
    """The share of one feature in all movement, run by run."""

    feature: str
    path: str
    """A line in a box of 1000 × 100, which reaches from 0 to the largest share of all lines."""
    bar: float
    """The share in the last run, in percent of the largest of all lines."""
    text: str
    """The share in the last run, in words."""


@dataclass(frozen=True)
class HistoryFigure:
    """The last runs of one explanation, for one output."""

    heading: str
    sentence: str
    runs: tuple[str, ...]
    """A name for each run, the oldest first, with its rows."""
    lines: tuple[HistoryLine, ...]
    shares: tuple[tuple[float, ...], ...]
    """(t, d): the share of each line in each run."""
    n_others: int

    @property
    def json(self) -> Any:
        """Everything that the page's script needs for the slider, as JSON in HTML."""
        from markupsafe import Markup

        shares = [[round(share, 5) for share in each] for each in self.shares]
        largest = max(map(max, shares), default=0.0) or 1.0
        return Markup(json_text({"runs": self.runs, "shares": shares, "largest": largest}))


def histories_of(
    cubes: Mapping[str, Place], output: str, texts: PageTexts
) -> tuple[HistoryFigure, ...]:
    """The last runs of each explanation that has a cube for each; a single run has no history."""
    figures = []
    for name, path in cubes.items():
        if not has_nights(path.parent):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # runs that are not finished have no place here
            try:
                found = history_of(name, path.parent, output, last=LAST_RUNS, until=path.name)
            except InputError:  # an earlier run has no such output
                continue
        if len(found.runs) > 1:
            figures.append(_figure(label(name) * (len(cubes) > 1), found, texts))
    return tuple(figures)


def _figure(heading: str, found: ImportanceHistory, texts: PageTexts) -> HistoryFigure:
    sizes = np.nan_to_num(found.magnitude)
    totals = sizes.sum(axis=1, keepdims=True)
    shares = np.divide(sizes, totals, out=np.zeros_like(sizes), where=totals > 0)
    order = np.argsort(-shares[-1], kind="stable")[:SHOWN]
    shown = shares[:, order]
    names = [texts.name(found.features[place]) for place in order.tolist()]
    largest = float(shown.max(initial=0.0)) or 1.0
    lines = tuple(
        HistoryLine(
            name,
            _path(shown[:, place] / largest),
            round(100.0 * float(shown[-1, place]) / largest, 2),
            percent(float(shown[-1, place])),
        )
        for place, name in enumerate(names)
    )
    days = [
        f"{name}, {rows:,} rows"
        for name, rows in zip(found.names, found.rows.tolist(), strict=True)
    ]
    return HistoryFigure(
        heading,
        _sentence(found.names, names, shown),
        tuple(map(label, days)),
        lines,
        tuple(map(tuple, shown.tolist())),
        len(found.features) - len(names),
    )


def _path(heights: FloatArray) -> str:
    """A line through shares of the largest (t,), from left to right."""
    x = np.linspace(0.0, 1000.0, len(heights))
    points = "L".join(
        f"{a:.0f} {100.0 - 96.0 * b:.1f}" for a, b in zip(x.tolist(), heights.tolist(), strict=True)
    )
    return f"M{points}"


def _sentence(runs: Sequence[str], names: Sequence[str], shares: FloatArray) -> str:
    """The feature whose share changed most between the first and the last run."""
    change = shares[-1] - shares[0]
    most = int(np.abs(change).argmax())
    before, now = (percent(float(each[most]), 1) for each in (shares[0], shares[-1]))
    said = f"Over {len(runs)} runs, from {label(runs[0])} to {label(runs[-1])}, "
    if before == now:
        return f"{said}no share changed by a tenth of a percent."
    return f"{said}the share of “{names[most]}” changed most: {before} then, {now} now."
