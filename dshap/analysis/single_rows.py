"""Single rows: one row in one or several explanations, and one row of a cube for a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dshap.analysis.column_texts import texts_of
from dshap.analysis.column_values import columns_of
from dshap.analysis.measures import scale_of_cube
from dshap.analysis.rankings import label_of
from dshap.analysis.shown_features import Selection, ShownFeatures, sorted_by
from dshap.analysis.value_texts import picture_value
from dshap.analysis.view import attribution_words, output_of
from dshap.core.annotations import CubesLike
from dshap.core.blocks import Status
from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.core.records import FloatArray
from dshap.cube import find_row, kept_row, open_cube, row_key
from dshap.cube.datasets import as_cube, names_along, row_position
from dshap.cube.given_cubes import given_cubes


@dataclass(frozen=True)
class RowExplanation:
    """One explanation of a row, for one output: base_value + Σ attribution = prediction."""

    label: str
    base_value: float
    attribution: Mapping[str, float]
    """Feature -> attribution; NaN if the row has none."""
    prediction: float
    status: str
    scale: str = ""
    """The scale of these numbers; empty if the cube states none."""


@dataclass(frozen=True)
class Breakdown:
    """One row under one or several explanations."""

    position: int
    key: Mapping[str, str]
    values: Mapping[str, Any]
    """Column -> value of the row, where the cube stores them."""
    parts: tuple[RowExplanation, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def breakdown(
    cubes: CubesLike,
    instance: Sequence[str | int] | None = None,
) -> Breakdown:
    """Break down the prediction of one row into its attributions, in one or several explanations.

    One chunk of each cube is read.

    Parameters
    ----------
    cubes : mapping, path or xarray.Dataset
        Name -> path of a cube or an opened cube; or the path of a store, with all of its cubes; or
        one opened cube.
    instance : sequence of str or int, optional
        The key of the row, a value for each key column, such as ``[17]``; in a cube without a key
        the position of the row.  By default the first row.

    Returns
    -------
    Breakdown
        The key and the values of the row, and a part for each explanation and output.

    Raises
    ------
    InputError
        `cubes` is none of these, there is no such store, there is no such row, or the attributions
        of a Dataset are not exactly those of its store.

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
    ...     (part,) = dshap.report.breakdown({"prices": store}).parts
    >>> part.base_value, dict(part.attribution), part.prediction
    (85.0, {'rooms': -50.0, 'age': 5.0}, 40.0)
    """
    paths = given_cubes(cubes)
    if not paths:
        raise InputError("cubes is empty: give the path of a store, or name -> path of a cube")
    first = next(iter(paths.values()))
    if instance is None:
        position = 0
    else:
        position = find_row(first, instance)
    parts = tuple(part for name, path in paths.items() for part in _parts(name, path, position))
    written = [path for name, path in paths.items() if _status_of(parts, name) in ("ok", "skipped")]
    values = next((kept for path in written if (kept := kept_row(path, position))), {})
    return Breakdown(position, row_key(written[0], position) if written else {}, values, parts)


def _status_of(parts: Sequence[RowExplanation], name: str) -> str:
    return next(
        part.status for part in parts if part.label == name or part.label.startswith(f"{name}, ")
    )


def _parts(name: str, path: Place, position: int) -> list[RowExplanation]:
    row = open_cube(path).isel(instance=position).load()
    outputs = names_along(row, "output")
    features = row_features(row)
    return [
        RowExplanation(
            label_of(name, output, len(outputs)),
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
    names = names_along(row, "feature")
    if not {"length", "token"} <= set(row.data_vars):
        return names
    return [
        f"{name} {token}"
        for name, token in zip(names[: int(row["length"])], row["token"].values, strict=False)
    ]


@dataclass(frozen=True)
class SingleRow:
    """One row and one output: base value + Σ attributions = prediction."""

    names: tuple[str, ...]
    """The names of the features."""
    values: tuple[str, ...]
    """The values of their columns as text; "" if they are not known."""
    attributions: FloatArray
    """(d,)"""
    base_value: float
    prediction: float
    words: str
    """The words of the axis."""

    def ranked(self) -> list[str]:
        """The names by |attribution|, the largest first."""
        return sorted_by(self.names, np.abs(self.attributions))

    def chosen(self, selection: Selection, most: int) -> ShownFeatures:
        """Choose the features that are shown separately.

        Raises
        ------
        InputError
            As `Selection.chosen`.
        """
        return selection.chosen(
            self.names,
            {
                "importance": self.ranked,
                "max": self.ranked,
                "name": lambda: sorted(self.names, key=str.casefold),
                "cube": lambda: self.names,
            },
            most,
        )


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
    if not cube.sizes["instance"]:
        raise InputError("no row of the cube is explained: it has no rows")
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
    texts = texts_of(cube, rows)
    values = {name: picture_value(texts, name, columns[name](where)[0]) for name in columns}
    return SingleRow(
        tuple(names),
        tuple(values.get(name, "") for name in names),
        phi,
        float(row["base_value"].values),
        float(row["prediction"].values),
        attribution_words("prediction", cube, place),
    )
