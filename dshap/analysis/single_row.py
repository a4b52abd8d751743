"""One row of a cube, for one output: the record behind `waterfall` and `force`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.analysis.column_values import columns_of
from dshap.analysis.numbers_as_text import shown_value
from dshap.analysis.row_breakdown import row_features
from dshap.analysis.view import attribution_words, output_of
from dshap.core.errors import InputError
from dshap.core.printing import label
from dshap.core.records import FloatArray
from dshap.cube.datasets import as_cube, row_position


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
