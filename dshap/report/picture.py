"""The picture of a global ranking: horizontal bars, one a feature and explanation."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dshap.errors import InputError
from dshap.report.numbers import decimals_of, number
from dshap.report.ranking import Ranking, features_of

__all__ = ["ranking_picture", "require_matplotlib"]

MAX_FEATURES = 30
"""Bars that are drawn; more features are counted in a note."""
COLOURS = ("#33658a", "#f26419", "#86bbd8", "#f6ae2d", "#758e4f", "#7d5ba6")


def require_matplotlib() -> None:
    """Refuse pictures where matplotlib is not installed: an `InputError` that names the extra; imports nothing."""
    if find_spec("matplotlib") is None:
        raise InputError('pictures need matplotlib: pip install "dshap[report]"')


def ranking_picture(given: Sequence[Ranking], path: str | Path, title: str, units: str = "") -> Path:
    """Write a PNG of mean |attribution| of each feature, explanations side by side, sorted by the first.

    Raises
    ------
    InputError
        matplotlib is not installed, or the picture cannot be written.
    """
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    features = features_of(given)
    shown = features[:MAX_FEATURES]
    figure = Figure(figsize=(8.0, 1.4 + 0.16 * len(shown) * (len(given) + 0.8)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _bars(axes, given, shown)
    unit = f" ({units})" if units not in ("", "1") else ""
    axes.set_xlabel(f"mean |attribution|{unit}, over {max(ranking.rows for ranking in given):,} rows")
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", pad=12)
    if len(features) > len(shown):
        axes.annotate(f"{len(features) - len(shown)} more features are smaller", (1, 0), (-4, 6),
                      xycoords="axes fraction", textcoords="offset points", ha="right", fontsize=8)  # fmt: skip
    return _saved(figure, Path(path))


def _bars(axes: Any, given: Sequence[Ranking], features: Sequence[str]) -> None:
    """Bars with their numbers; the first explanation on top of each pair, the largest feature on top."""
    height = 0.8 / len(given)
    values = [ranking.magnitude.get(feature, 0.0) for ranking in given for feature in features]
    decimals = decimals_of(values)
    for index, ranking in enumerate(given):
        offset = height * (index - (len(given) - 1) / 2)
        lengths = [ranking.magnitude.get(feature, 0.0) for feature in features]
        colour = COLOURS[index % len(COLOURS)]
        bars = axes.barh([y + offset for y in range(len(features))], lengths, height * 0.92, color=colour,
                         label=ranking.label)  # fmt: skip
        axes.bar_label(bars, [number(length, decimals) for length in lengths], padding=3, fontsize=7.5, color="#444444")
    axes.set_yticks(range(len(features)), features)
    axes.set_ylim(len(features) - 0.5, -0.5)
    axes.set_xlim(0, 1.09 * max(values, default=0.0) or 1.0)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.xaxis.grid(True, color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend(loc="lower right", frameon=False, title="explanation", title_fontsize=9, fontsize=9)


def _saved(figure: Any, path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise InputError(f"picture {path} cannot be written: {error.strerror or error}") from error
    return path.absolute()
