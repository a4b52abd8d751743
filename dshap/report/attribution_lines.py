"""The importance of each feature, and one row broken down, as tables of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dshap.analysis.column_texts import NO_TEXTS, ColumnTexts
from dshap.analysis.measures import measure_in_brackets, scale_sentence
from dshap.analysis.numbers_as_text import decimals_of, number, with_error_text
from dshap.analysis.rankings import MANY_FEATURES, Ranking, features_of
from dshap.analysis.single_rows import Breakdown
from dshap.core.printing import counted, label
from dshap.core.scales import unit_words


def ranking_lines(
    given: Sequence[Ranking], units: str = "", texts: ColumnTexts = NO_TEXTS
) -> list[str]:
    """Format the importance of each feature as a table: mean |attribution| and mean attribution.

    Each explanation has two columns, and the features are sorted by mean |attribution| of the
    first explanation.  Half the width of the 95 % interval follows each mean, unless there are
    fewer than ten rows.

    Parameters
    ----------
    given : sequence of Ranking
        One ranking for each explanation, as `dshap.report.rankings` returns them.
    units : str
        The units of the attributions, such as "EUR", for the first line; "" for none.
    texts : ColumnTexts
        The dictionary of columns, whose labels replace the names of features; empty by default.

    Returns
    -------
    list of str
        The lines of the table, and below them notes on scales and on means that are too small.

    Examples
    --------
    >>> from dshap.report import Ranking, ranking_lines
    >>> magnitude, mean = {"rooms": 3.0, "age": 1.0}, {"rooms": 0.5, "age": -0.25}
    >>> for line in ranking_lines([Ranking("prices", rows=5, magnitude=magnitude, mean=mean)]):
    ...     print(line)
    attributions, over 5 rows (prices, too few for intervals)
                             prices
    feature    mean |φ|      mean φ
    rooms         3.000      +0.500
    age           1.000      -0.250
    """
    features = features_of(given)
    decimals = decimals_of(value for ranking in given for value in ranking.magnitude.values())
    names = [texts.label_of(feature) for feature in features]
    labels = [label(ranking.label) for ranking in given]
    width = max(len("feature"), *map(len, names))
    said = ["mean |φ|", "mean φ"]
    half = 12
    if any(ranking.has_intervals for ranking in given):
        said = [f"{each} ± 95 %" for each in said]
        half = 24
    column = max(2 * half, *(len(each) + 2 for each in labels))
    heads = "".join(f"{said[0]:>{column - half}}{said[1]:>{half}}" for _ in given)
    scales = list(dict.fromkeys(ranking.scale for ranking in given))
    of_each = [f", {ranking.scale}" * (len(scales) > 1) for ranking in given]
    lines = [
        f"attributions{measure_in_brackets(units, scales)}, over "
        + ", ".join(
            f"{counted(ranking.rows, 'row')} ({each}{scale}{_too_few(ranking)})"
            for ranking, each, scale in zip(given, labels, of_each, strict=True)
        ),
        " " * width + "".join(f"{each:>{column}}" for each in labels),
        f"{'feature':<{width}}{heads}",
    ]
    for feature, name in zip(features, names, strict=True):
        cells = "".join(
            f"{_magnitude(ranking, feature, decimals):>{column - half}}"
            f"{_mean(ranking, feature, decimals):>{half}}"
            for ranking in given
        )
        lines.append(f"{name:<{width}}{cells}")
    lines += [_too_small_line(ranking) for ranking in given if ranking.is_too_small]
    return [*lines, *filter(None, map(scale_sentence, scales))]


def _too_small_line(ranking: Ranking) -> str:
    """The warning about mean |φ| of many features from sampled coalitions."""
    return (
        f"{label(ranking.label)}: with more than {MANY_FEATURES} features and sampled coalitions, mean "
        "|φ| is too small, in tests by 21 to 92 %: rank features by it, do not add it up "
        f"(here {len(ranking.magnitude):,} features)"
    )


def _too_few(ranking: Ranking) -> str:
    """The words about a ranking of so few rows that no mean has an interval."""
    if ranking.has_too_few_rows:
        return ", too few for intervals"
    return ""


def _magnitude(ranking: Ranking, feature: str, decimals: int) -> str:
    """Mean |attribution| with half the width of its interval."""
    value = ranking.magnitude.get(feature)
    if not ranking.has_intervals:
        return number(value, decimals)
    return _with_error(value, ranking.half_width(feature), decimals)


def _mean(ranking: Ranking, feature: str, decimals: int) -> str:
    """The mean attribution with half the width of its interval."""
    value = ranking.mean.get(feature)
    if not ranking.has_intervals:
        return number(value, decimals, sign=True)
    return _with_error(value, ranking.mean_half_width(feature), decimals, sign=True)


def _with_error(value: float | None, half: float, decimals: int, sign: bool = False) -> str:
    """Format a value: 12.34 ± 0.05 in the digits of its error, "± —" if that is not known."""
    if value is not None and math.isnan(half):
        return f"{number(value, decimals, sign=sign)} ± —"
    return with_error_text(value, half, sign)


def breakdown_lines(row: Breakdown, units: str = "", texts: ColumnTexts = NO_TEXTS) -> list[str]:
    """Format one row as a table: base value + attributions = prediction, for each explanation.

    Features are sorted by |attribution| of the first explanation.

    Parameters
    ----------
    row : Breakdown
        The row, as `dshap.report.breakdown` returns it.
    units : str
        The units of the attributions, such as "EUR"; "" for none.
    texts : ColumnTexts
        The dictionary of columns: the labels of features, and the formats of their values.

    Returns
    -------
    list of str
        The lines of the table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame({"rooms": [1.0, 3.0], "age": [10.0, 20.0]})
    >>> value = dshap.values.Marginal(lambda x: 50 * x[:, 0] - x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Path(folder, "cube")
    ...     cube = dshap.explain(value, rows, store=store, progress=False)
    ...     row = dshap.report.breakdown({"prices": store})
    >>> for line in dshap.report.breakdown_lines(row):
    ...     print(line)
    one row (row 0)
                        prices
    base value           85.00
    rooms               -50.00
    age                  +5.00
    prediction           40.00
    """
    features = list(dict.fromkeys(feature for part in row.parts for feature in part.attribution))
    features.sort(key=lambda name: -np.nan_to_num(abs(row.parts[0].attribution.get(name, 0.0))))
    numbers = [
        value
        for part in row.parts
        for value in (part.base_value, part.prediction, *part.attribution.values())
    ]
    decimals = decimals_of(numbers)
    names = {name: texts.label_of(name) for name in features}
    width = max(len("base value"), *map(len, names.values()))
    shown = {
        name: texts.value_text(name, row.values[name], with_unit=True)
        for name in features
        if name in row.values
    }
    value_width = max([2, *(len(text) + 2 for text in shown.values())])
    labels = [label(part.label) for part in row.parts]
    column = max(14, *(len(each) + 2 for each in [*labels, *(part.scale for part in row.parts)]))

    def line(name: str, value: str, cells: Sequence[str]) -> str:
        return f"{name:<{width}}{value:>{value_width}}" + "".join(
            f"{cell:>{column}}" for cell in cells
        )

    named = (
        ", ".join(f"{texts.label_of(name)} = {label(value)}" for name, value in row.key.items())
        or f"row {row.position}"
    )
    scales = list(dict.fromkeys(part.scale for part in row.parts))
    measure = units
    if len(scales) == 1:
        measure = unit_words(units, scales[0])
    of_each = [line("scale", "", [part.scale for part in row.parts])] * (len(scales) > 1)
    return [
        f"one row ({named})"
        + (f", {label(measure)}" if measure not in ("", "1") else "")
        + _states(row),
        line("", "", labels),
        *of_each,
        line("base value", "", [number(part.base_value, decimals) for part in row.parts]),
        *(
            line(
                names[name],
                shown.get(name, ""),
                [number(part.attribution.get(name), decimals, sign=True) for part in row.parts],
            )
            for name in features
        ),
        line("prediction", "", [number(part.prediction, decimals) for part in row.parts]),
    ]


def _states(row: Breakdown) -> str:
    """The statuses that explain missing numbers; empty if all are ok."""
    states = [f"{label(part.label)}: {part.status}" for part in row.parts if part.status != "ok"]
    if states:
        return f" ({'; '.join(states)})"
    return ""
