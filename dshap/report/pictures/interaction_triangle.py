"""The interactions of every two features as a triangle of colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dshap.analysis.pair_effects import PairEffects, pair_effects
from dshap.analysis.shown_features import Selection, words_of_sum
from dshap.core.annotations import CubeLike
from dshap.core.fixed_words import ChartLibrary
from dshap.report.charts.cell_charts import interactions_chart
from dshap.report.labels import labels_of
from dshap.report.looks import Looks, words_of_columns
from dshap.report.panels import add_title, name_rows, new_axes, row_labels
from dshap.report.pictures.heatmaps import CELL_INCHES, draw_cells, name_columns

if TYPE_CHECKING:
    from altair import LayerChart
    from matplotlib.axes import Axes

COLUMN_WIDTH = 18
"""The characters of a line of a name below its column."""


def interactions(
    cube: CubeLike,
    *,
    output: str | int | None = None,
    max_display: float | None = None,
    order: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
    chart: ChartLibrary = "matplotlib",
) -> Axes | LayerChart:
    """Draw mean |interaction| of every two features, and mean |main effect| of each.

    Each pair of features appears once and shows its whole interaction, as in shapviz.  The diagonal
    shows main effects: what remains of a feature's attribution after its share of all interactions
    is taken out.  Features are sorted by mean |attribution|, and at most 20 are shown.

    The last line has numbers without colours: for each feature the sum of mean |interaction| with
    all features that are not shown.  The number at its end is the sum of mean |main effect| and
    mean |interaction| among the features that are not shown.  All numbers of the triangle thus add
    up to the same sum as without a limit on features.

    Parameters
    ----------
    cube : xarray.Dataset, str or Path
        A cube, or the path of its store, with interactions: ``explain(..., interactions=True)``.
    output, max_display, order, features, title, ax, chart : as in `beeswarm`

    Returns
    -------
    matplotlib.axes.Axes or altair.LayerChart
        The axes with the picture, or the chart.

    Raises
    ------
    InputError
        The cube has no interactions; or one of the causes listed at `beeswarm`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1], rows)
    >>> axes = dshap.report.interactions(dshap.explain(value, rows, interactions=True))
    >>> sorted(label.get_text() for label in axes.get_yticklabels())
    ['age', 'rooms']
    """
    looks = Looks(ax, title, chart, words_of_columns(cube))
    found = pair_effects(cube, output, Selection(max_display, order, features))
    return looks.draw(found, matplotlib=_drawn, altair=interactions_chart)


def _drawn(found: PairEffects, looks: Looks) -> Any:
    n_shown = len(found.features)
    n_lines = n_shown + (found.others is not None)
    axes = new_axes(looks.ax, 3.6 + CELL_INCHES * n_lines, 2.2 + 0.42 * n_lines)
    is_above = np.triu(np.ones((n_shown, n_shown), bool), 1)
    values = np.where(is_above, np.nan, found.magnitude)
    if found.others is not None:
        values = np.pad(values, ((0, 0), (0, 1)), constant_values=np.nan)
    others = [words_of_sum(found.n_others)] * (found.others is not None)
    name_rows(axes, row_labels(axes, found.features, others, looks.labels))
    draw_cells(axes, values, True, found.words, found.others)
    names = labels_of([*found.features, *others], COLUMN_WIDTH, given=looks.labels)
    name_columns(axes, names)
    axes.spines["bottom"].set_visible(False)
    add_title(axes, looks.title)
    return axes
