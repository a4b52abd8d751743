"""One row in a picture: from the base value to its prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.core.errors import InputError
from dshap.core.printing import label
from dshap.core.records import FloatArray
from dshap.cube.datasets import as_cube, row_position
from dshap.report.attributions import AS_WRITTEN, decimals_of, number, row_features, shown_value
from dshap.report.columns import columns_of
from dshap.report.panels import (
    BLUE,
    GREY,
    RED,
    attribution_words,
    name_rows,
    new_axes,
    output_of,
)

MAX_STEPS = 12
"""The most bars of a row; smaller attributions are one bar together."""


def waterfall(
    cube: Any, key: Any, *, rows: Any = None, output: str | int | None = None, ax: Any = None
) -> Any:
    """Draw how the attributions of one row lead from the base value to its prediction.

    Red bars raise the prediction, blue ones lower it, the largest on top; the eleven largest are
    shown, the others are one bar.

    Parameters
    ----------
    cube, output, ax : as in `beeswarm`
    key : the key of the row, a tuple where it has several columns; its position in a cube without
        keys
    rows : as in `beeswarm`: values are written beside the names of their columns

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        No row has this key (the message names its neighbours), or the row is not explained.
    """
    row = single_row(cube, key, rows, output)
    steps, sizes = _steps(row)
    axes = new_axes(ax, 8.0, 1.5 + 0.36 * len(steps))
    _draw_steps(axes, sizes, row.base_value)
    name_rows(axes, steps)
    name_ends(axes, row)
    axes.set_xlabel(row.words, **AS_WRITTEN)
    return axes


@dataclass(frozen=True)
class SingleRow:
    """One row and one output: base value + Σ attributions = prediction."""

    features: tuple[str, ...]
    """The features with the values of their columns, where these are known: "age = 31"."""
    attributions: FloatArray
    """(d,)"""
    base_value: float
    prediction: float
    words: str
    """The words of the axis."""


def single_row(cube: Any, key: Any, rows: Any = None, output: str | int | None = None) -> SingleRow:
    """The row with this key, for one output.

    Parameters
    ----------
    cube, key, rows, output : as in `waterfall`

    Raises
    ------
    InputError
        As `waterfall`.
    """
    cube = as_cube(cube)
    place = output_of(cube, output)
    position = row_position(cube, key)
    row = cube.isel(instance=position, output=place).load()
    names = row_features(row)
    phi = np.asarray(row["attribution"].values[: len(names)], np.float64)
    if np.isnan(phi).any():
        raise InputError(f"row {key} has no attribution: it was skipped, failed, or is pending")
    if np.isinf(phi).any():
        raise InputError(f"row {key} has an infinite attribution: give another row")
    columns = columns_of(cube, rows)
    where = slice(position, position + 1)
    values = {name: f" = {shown_value(columns[name](where)[0])}" for name in columns}
    return SingleRow(
        tuple(label(name, 24) + values.get(name, "") for name in names),
        phi,
        float(row["base_value"].values),
        float(row["prediction"].values),
        attribution_words("prediction", cube, place),
    )


def _steps(row: SingleRow) -> tuple[list[str], FloatArray]:
    """The bars from the top down: their words and sizes, small ones together."""
    words = row.features
    phi = row.attributions
    order = np.argsort(-np.abs(phi), kind="stable")
    if len(order) <= MAX_STEPS:
        return [words[place] for place in order], phi[order]
    large = order[: MAX_STEPS - 1]
    small = order[MAX_STEPS - 1 :]
    return [*(words[place] for place in large), f"{len(small)} others"], np.append(
        phi[large], phi[small].sum()
    )


def _draw_steps(axes: Any, sizes: FloatArray, base: float) -> None:
    """Draw a bar for each step; the lowest begins at the base value, the first ends at the top."""
    ends = base + np.cumsum(sizes[::-1])[::-1]
    colours = np.where(sizes >= 0, RED, BLUE)
    bars = axes.barh(range(len(sizes)), sizes, 0.72, left=ends - sizes, color=colours, zorder=2)
    decimals = decimals_of(sizes)
    axes.bar_label(
        bars, [number(size, decimals, sign=True) for size in sizes], padding=4, fontsize="small"
    )
    axes.vlines(
        (ends - sizes)[:-1], np.arange(len(sizes) - 1), np.arange(1, len(sizes)), color=GREY, lw=0.8
    )
    sides = [*ends, *(ends - sizes)]
    margin = 0.14 * (max(sides) - min(sides)) or 1.0
    axes.set_xlim(min(sides) - margin, max(sides) + margin)


def name_ends(axes: Any, row: SingleRow, ymin: float = 0.0) -> None:
    """Mark the base value and the prediction by lines, and name them above the axes.

    The lines begin at `ymin`, a part of the height of the axes.
    """
    decimals = decimals_of([row.base_value, row.prediction])
    for value, name in ((row.base_value, "base value"), (row.prediction, "prediction")):
        axes.axvline(value, ymin, color=GREY, linestyle=":", linewidth=1.0, zorder=0)
        axes.annotate(
            f"{name} {number(value, decimals)}",
            (value, 1.0),
            (0, 4 + 13 * (name == "base value")),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            ha="center",
            fontsize="small",
            annotation_clip=False,
        )
