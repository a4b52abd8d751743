"""Attributions for people: the importance of each feature, and one row broken down.

Both are tables of text; rankings are pictures too.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dshap.core.blocks import Status
from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.core.printing import label
from dshap.core.rules import as_path
from dshap.core.scales import unit_words
from dshap.cube import feature_importance, find_row, kept_row, open_cube, row_key
from dshap.report.measures import bracketed, scale_of_cube, scale_sentence

SIGNIFICANT = 4
"""The significant digits of the largest number of a column."""
SMALLEST = 1e-4
LONGEST = 1e15
"""The |values| of columns from which, and below which, they are written without an exponent."""
MANY_FEATURES = 300
"""The number of features above which mean |φ| from sampled coalitions is marked as too small: by 21
to 92 %, in games of known values."""
MAX_FEATURES = 30
"""The most bars that are drawn; further features are counted in a note."""
TITLE = 64
LEGEND = 32
"""The most characters of a title above the bars, and of a name in the legend."""
DOTS = 150
LARGEST = 2**16
"""The pixels per inch of a picture, and the side in pixels from which matplotlib refuses it."""
AS_WRITTEN: dict[str, Any] = {"parse_math": False, "usetex": False}
"""Properties of a matplotlib text that is no formula, even if it holds dollar signs."""
INTERVAL = 1.96
"""Standard errors on each side of a mean in an interval that covers 95 %."""
LABELS = "#777777"
"""The colour of numbers beside bars, legible on white and on black."""
COLOURS = ("#33658a", "#f26419", "#86bbd8", "#f6ae2d", "#758e4f", "#7d5ba6")


@dataclass(frozen=True)
class Ranking:
    """The importance of each feature in one explanation, for one output."""

    label: str
    """The name of the explanation, with the output where there are several."""
    rows: int
    """The number of finished rows that are counted."""
    magnitude: Mapping[str, float]
    """Feature -> mean |attribution|."""
    mean: Mapping[str, float]
    """Feature -> mean attribution."""
    magnitude_error: Mapping[str, float] = field(default_factory=dict)
    """Feature -> standard error of mean |attribution| from sampled coalitions; 0 where all
    coalitions count."""
    mean_error: Mapping[str, float] = field(default_factory=dict)
    """Feature -> standard error of the mean attribution."""
    scale: str = ""
    """The scale of the attributions; empty where the cube states none."""

    @property
    def has_errors(self) -> bool:
        """Whether the means have standard errors."""
        return any(error != 0.0 for error in self.magnitude_error.values())

    @property
    def is_too_small(self) -> bool:
        """Whether mean |φ| is biased towards 0: few coalitions were sampled for many features."""
        return self.has_errors and len(self.magnitude) > MANY_FEATURES


def rankings(cubes: Mapping[str, Place]) -> list[Ranking]:
    """Rank the features of each explanation (name -> cube) and output over its finished blocks.

    It takes milliseconds.  An explanation without a finished row has no ranking.
    """
    return [
        ranking for name, path in cubes.items() for ranking in _of_cube(name, path) if ranking.rows
    ]


def _of_cube(name: str, path: Place) -> list[Ranking]:
    table = feature_importance(path)
    outputs = [str(output) for output in table["output"].values]
    return [
        output_ranking(name if len(outputs) == 1 else f"{name}, {output}", table, j)
        for j, output in enumerate(outputs)
    ]


def output_ranking(name: str, table: Any, output: int) -> Ranking:
    """The ranking of one output, from the table of `feature_ranking` or `global_means`."""
    features = [str(feature) for feature in table["feature"].values]

    def of(statistic: str) -> dict[str, float]:
        values = table[statistic].isel(output=output).values.tolist()
        return dict(zip(features, values, strict=True))

    return Ranking(
        name,
        table.attrs["rows"],
        of("mean_magnitude"),
        of("mean"),
        of("mean_magnitude_std_error"),
        of("mean_std_error"),
        table.attrs.get("scale", ""),
    )


def features_of(given: Sequence[Ranking]) -> list[str]:
    """Every feature, sorted by the first ranking, largest first."""
    names = list(dict.fromkeys(feature for ranking in given for feature in ranking.magnitude))
    return sorted(names, key=lambda name: -given[0].magnitude.get(name, 0.0))


def ranking_lines(given: Sequence[Ranking], units: str = "") -> list[str]:
    """A table of mean |attribution| and mean of each feature, for each explanation.

    It is sorted by the first explanation.  Standard errors follow where the cube has them.
    """
    features = features_of(given)
    decimals = decimals_of(value for ranking in given for value in ranking.magnitude.values())
    names = [label(feature) for feature in features]
    labels = [label(ranking.label) for ranking in given]
    width = max(len("feature"), *map(len, names))
    if any(ranking.has_errors for ranking in given):
        half = 24
    else:
        half = 12
    column = max(2 * half, *(len(each) + 2 for each in labels))
    heads = "".join(f"{'mean |φ|':>{column - half}}{'mean φ':>{half}}" for _ in given)
    scales = list(dict.fromkeys(ranking.scale for ranking in given))
    of_each = [f", {ranking.scale}" * (len(scales) > 1) for ranking in given]
    lines = [
        f"attributions{_in_brackets(units, scales)}, over "
        + ", ".join(
            f"{ranking.rows:,} rows ({each}{scale})"
            for ranking, each, scale in zip(given, labels, of_each, strict=True)
        ),
        " " * width + "".join(f"{each:>{column}}" for each in labels),
        f"{'feature':<{width}}{heads}",
    ]
    for feature, name in zip(features, names, strict=True):
        cells = "".join(
            f"{_with_error(ranking, ranking.magnitude, ranking.magnitude_error, feature, decimals):>{column - half}}"
            f"{_with_error(ranking, ranking.mean, ranking.mean_error, feature, decimals, sign=True):>{half}}"
            for ranking in given
        )
        lines.append(f"{name:<{width}}{cells}")
    lines += [_too_small_line(ranking) for ranking in given if ranking.is_too_small]
    return [*lines, *filter(None, map(scale_sentence, scales))]


def _too_small_line(ranking: Ranking) -> str:
    """The warning about mean |φ| of many features from sampled coalitions."""
    return (
        f"{label(ranking.label)}: mean |φ| of more than {MANY_FEATURES} features by sampled "
        "coalitions is too small, "
        "in tests by 21 to 92 %: rank features by it, do not add it up "
        f"({len(ranking.magnitude):,} here)"
    )


def _in_brackets(units: str, scales: Sequence[str]) -> str:
    """The units, and the scale where there is only one, in brackets after a blank."""
    if len(scales) == 1:
        return bracketed(units, scales[0])
    return bracketed(units, "")


def _with_error(
    ranking: Ranking,
    values: Mapping[str, float],
    errors: Mapping[str, float],
    feature: str,
    decimals: int,
    sign: bool = False,
) -> str:
    """Format a value: 12.34, or 12.34 ± 0.05 where it has a standard error."""
    text = number(values.get(feature), decimals, sign=sign)
    if ranking.has_errors:
        return f"{text} ± {number(errors.get(feature), decimals)}"
    return text


def require_matplotlib() -> None:
    """Raise an `InputError` where matplotlib is not installed; imports nothing.

    The message names the extra to install.
    """
    if find_spec("matplotlib") is None:
        raise InputError('pictures need matplotlib: pip install "dshap[report]"')


def ranking_picture(
    given: Sequence[Ranking], path: str | Path, title: str, units: str = ""
) -> Path:
    """Write a PNG of mean |attribution| of each feature, explanations side by side.

    Features are sorted by the first explanation.

    Raises
    ------
    InputError
        matplotlib is not installed, or the picture cannot be written.
    """
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    scales = list(dict.fromkeys(ranking.scale for ranking in given))
    if len(scales) > 1:
        given = [replace(each, label=f"{each.label} ({each.scale})") for each in given]
    features = features_of(given)
    shown = features[:MAX_FEATURES]
    # room for the names on both sides of five inches of bars
    longest = max(len(label(ranking.label, LEGEND)) for ranking in given)
    width = 1.0 + 0.09 * max(longest, len("explanation"))
    width += max(8.0, 6.0 + 0.1 * max(len(label(feature)) for feature in shown))
    figure = Figure(
        figsize=(width, 1.4 + 0.16 * len(shown) * (len(given) + 0.8)), layout="constrained"
    )
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    draw_bars(axes, given, shown)
    n_rows = max(ranking.rows for ranking in given)
    axes.set_xlabel(
        f"mean |attribution|{_in_brackets(units, scales)}, over {n_rows:,} rows", **AS_WRITTEN
    )
    axes.set_title(
        label(title, TITLE), loc="left", fontsize=12, fontweight="bold", pad=12, **AS_WRITTEN
    )
    if len(features) > len(shown):
        axes.annotate(
            f"{len(features) - len(shown)} more features are smaller",
            (1, 0),
            (-4, 6),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="right",
            fontsize=8,
        )
    return saved(figure, as_path("picture", path, "picture"))


def draw_bars(
    axes: Any, given: Sequence[Ranking], features: Sequence[str], title: str = "explanation"
) -> None:
    """Draw bars with their numbers: the largest feature, and the first explanation, on top.

    Lines are the 95 % intervals of the means, where they have errors; `title` says what the
    rankings are of.
    """
    height = 0.8 / len(given)
    values = [ranking.magnitude.get(feature, 0.0) for ranking in given for feature in features]
    decimals = decimals_of(values)
    errors = [
        [
            INTERVAL * np.nan_to_num(ranking.magnitude_error.get(feature, 0.0))
            for feature in features
        ]
        for ranking in given
    ]
    drawn = []
    for index, ranking in enumerate(given):
        offset = height * (index - (len(given) - 1) / 2)
        lengths = [ranking.magnitude.get(feature, 0.0) for feature in features]
        colour = COLOURS[index % len(COLOURS)]
        bars = axes.barh(
            [y + offset for y in range(len(features))],
            lengths,
            height * 0.92,
            color=colour,
            xerr=errors[index],
            error_kw={"ecolor": LABELS, "elinewidth": 1.0},
        )
        drawn.append(bars)
        axes.bar_label(
            bars,
            [number(length, decimals) for length in lengths],
            padding=3,
            fontsize=7.5,
            color=LABELS,
        )
    axes.set_yticks(range(len(features)), [label(feature) for feature in features], **AS_WRITTEN)
    axes.set_ylim(len(features) - 0.5, -0.5)
    axes.set_xlim(0, 1.09 * max(np.add(values, np.ravel(errors)), default=0.0) or 1.0)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.xaxis.grid(True, color=LABELS, alpha=0.3, linewidth=0.7)
    axes.set_axisbelow(True)
    _add_legend(axes, drawn, [label(ranking.label, LEGEND) for ranking in given], title)


def _add_legend(axes: Any, drawn: Sequence[Any], names: Sequence[str], title: str) -> None:
    """Add a legend that names the explanations, or segments, right of the axes: none hides a bar.

    matplotlib drops names that begin with an underscore, so they are set afterwards.
    """
    legend = axes.legend(
        drawn,
        [str(index) for index in range(len(names))],
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        alignment="left",
        title="explanation",
        title_fontsize=9,
        fontsize=9,
    )
    texts = [legend.get_title(), *legend.get_texts()]
    for text, name in zip(texts, [label(title, LEGEND), *names], strict=True):
        text.set(text=name, **AS_WRITTEN)


def saved(figure: Any, path: Path) -> Path:
    """Write a matplotlib figure as PNG; an `InputError` where it is too large or not writable."""
    picture = png(figure)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture)
    except OSError as error:
        raise InputError(f"picture {path} cannot be written: {error.strerror or error}") from error
    return path.absolute()


def png(figure: Any) -> bytes:
    """Render a matplotlib figure as the bytes of a PNG.

    Raises
    ------
    InputError
        The picture is larger than matplotlib can draw.
    """
    width, height = (round(DOTS * inches) for inches in figure.get_size_inches())
    if max(width, height) >= LARGEST:
        raise InputError(
            f"the picture would have {width:,} x {height:,} pixels, and at most {LARGEST - 1:,} a "
            "side are drawn: "
            "show fewer instances in one"
        )
    held = io.BytesIO()
    with warnings.catch_warnings():
        # the font draws a box for a missing letter
        warnings.filterwarnings("ignore", "Glyph")
        figure.savefig(held, format="png", dpi=DOTS)
    return held.getvalue()


@dataclass(frozen=True)
class RowExplanation:
    """One explanation of a row, for one output: base_value + Σ attribution = prediction."""

    label: str
    base_value: float
    attribution: Mapping[str, float]
    """Feature -> attribution; NaN where the row has none."""
    prediction: float
    status: str
    scale: str = ""
    """The scale of these numbers; empty where the cube states none."""


@dataclass(frozen=True)
class Breakdown:
    """One row under one or several explanations."""

    position: int
    key: Mapping[str, str]
    values: Mapping[str, Any]
    """Column -> value of the row, where the cube keeps them."""
    parts: tuple[RowExplanation, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def breakdown(cubes: Mapping[str, Place], instance: Sequence[str | int] | None = None) -> Breakdown:
    """Break down one row, by its key, in every cube (name -> path); None: the first row.

    It reads one chunk of each cube.
    """
    first = next(iter(cubes.values()))
    if instance is None:
        position = 0
    else:
        position = find_row(first, instance)
    parts = tuple(part for name, path in cubes.items() for part in _parts(name, path, position))
    written = [path for name, path in cubes.items() if _status_of(parts, name) in ("ok", "skipped")]
    values = next((kept for path in written if (kept := kept_row(path, position))), {})
    return Breakdown(position, row_key(written[0], position) if written else {}, values, parts)


def _status_of(parts: Sequence[RowExplanation], name: str) -> str:
    return next(
        part.status for part in parts if part.label == name or part.label.startswith(f"{name}, ")
    )


def _parts(name: str, path: Place, position: int) -> list[RowExplanation]:
    row = open_cube(path).isel(instance=position).load()
    outputs = [str(output) for output in row["output"].values]
    features = row_features(row)
    return [
        RowExplanation(
            name if len(outputs) == 1 else f"{name}, {output}",
            float(row["base_value"].values[j]),
            dict(
                zip(features, row["attribution"].values[: len(features), j].tolist(), strict=True)
            ),
            float(row["prediction"].values[j]),
            Status.MEANINGS[int(row["status"])],
            scale_of_cube(row),
        )
        for j, output in enumerate(outputs)
    ]


def row_features(row: Any) -> list[str]:
    """Names of the players of one row; for a text its tokens, each after its position."""
    names = [str(feature) for feature in row["feature"].values]
    if not {"length", "token"} <= set(row.data_vars):
        return names
    return [
        f"{name} {token}"
        for name, token in zip(names[: int(row["length"])], row["token"].values, strict=False)
    ]


def breakdown_lines(row: Breakdown, units: str = "") -> list[str]:
    """A table of one row: base value, attributions, prediction; each column adds up.

    Features are sorted by magnitude under the first explanation.
    """
    features = list(dict.fromkeys(feature for part in row.parts for feature in part.attribution))
    features.sort(key=lambda name: -np.nan_to_num(abs(row.parts[0].attribution.get(name, 0.0))))
    numbers = [
        value
        for part in row.parts
        for value in (part.base_value, part.prediction, *part.attribution.values())
    ]
    decimals = decimals_of(numbers)
    width = max(len("base value"), *(len(label(name)) for name in features))
    shown = {name: shown_value(row.values[name]) for name in features if name in row.values}
    value_width = max([2, *(len(text) + 2 for text in shown.values())])
    labels = [label(part.label) for part in row.parts]
    column = max(14, *(len(each) + 2 for each in [*labels, *(part.scale for part in row.parts)]))

    def line(name: str, value: str, cells: Sequence[str]) -> str:
        return f"{name:<{width}}{value:>{value_width}}" + "".join(
            f"{cell:>{column}}" for cell in cells
        )

    named = (
        ", ".join(f"{label(name)} = {label(value)}" for name, value in row.key.items())
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
                label(name),
                shown.get(name, ""),
                [number(part.attribution.get(name), decimals, sign=True) for part in row.parts],
            )
            for name in features
        ),
        line("prediction", "", [number(part.prediction, decimals) for part in row.parts]),
    ]


def _states(row: Breakdown) -> str:
    """The statuses that explain missing numbers; empty where all are ok."""
    states = [f"{label(part.label)}: {part.status}" for part in row.parts if part.status != "ok"]
    if states:
        return f" ({'; '.join(states)})"
    return ""


def shown_value(value: Any) -> str:
    """A value of a column as text, numbers with four digits; "missing" where there is none."""
    if value is None or value != value:  # NaN is no number equal to itself
        return "missing"
    if isinstance(value, (float, np.floating)):
        return _four_digits(float(value))
    return label(value)


def _four_digits(value: float) -> str:
    """A number in four digits, whole from a thousand on: 21,023; tiny and vast ones as 1.5e-07."""
    if SMALLEST <= abs(value) < LONGEST:
        decimals = max(0, SIGNIFICANT - 1 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{decimals}f}"
        if "." in text:
            text = text.rstrip("0").rstrip(".")
        return text
    return f"{value:.{SIGNIFICANT}g}"


def decimals_of(values: Iterable[float]) -> int:
    """The number of decimals that gives the largest value four significant digits, at most 12."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if not largest:
        return 0
    return min(12, max(0, SIGNIFICANT - 1 - math.floor(math.log10(largest))))


def number(value: float | None, decimals: int, sign: bool = False) -> str:
    """Format a number with fixed decimals and thousands marked.

    A missing number is a dash; there is no minus before what is rounded to 0.
    """
    if value is None or not math.isfinite(value):
        return "—"
    return f"{round(value, decimals) + 0.0:{'+' if sign else ''},.{decimals}f}"
