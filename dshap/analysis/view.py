"""One output of a cube: the beginning of every picture."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.measures import measure_of_cube
from dshap.analysis.rankings import Ranking, features_of, output_ranking
from dshap.core.blocks import Status
from dshap.core.errors import InputError, shown, unknown_name
from dshap.core.late import xr
from dshap.core.printing import label
from dshap.core.records import FloatArray
from dshap.cube.datasets import (
    as_cube,
    attribution_of,
    coalition_share,
    global_means,
    names_along,
    row_slices,
    rows_of,
    status_of,
    store_of,
    variable_of,
)

MAX_SHOWN = 20
"""The most features of a picture; the others are counted in a line."""


@dataclass(frozen=True)
class View:
    """One output of a cube, its features, and the number of rows that are explained."""

    cube: xr.Dataset
    output: int
    """The position of the output."""
    features: tuple[str, ...]
    rows: int

    def words(self, text: str) -> str:
        """Words for an axis: what it is, of which output, its units, over how many rows."""
        return attribution_words(text, self.cube, self.output, self.rows)

    @property
    def output_name(self) -> str:
        """The name of the output."""
        return str(self.cube["output"].values[self.output])

    def position(self, feature: str) -> int:
        """The position of a feature.

        Raises
        ------
        InputError
            There is none of this name; the message lists those that are near.
        """
        if feature not in self.features:
            raise InputError(unknown_name("feature", str(feature), list(self.features)))
        return self.features.index(feature)

    def attributions(self, rows: slice) -> FloatArray:
        """The attributions (n, d) of these rows; NaN if a row has none."""
        return attribution_of(self.cube, rows, self.output)

    def std_errors(self, rows: slice) -> FloatArray:
        """The standard errors (n, d) of these attributions, in a cube that has them."""
        return variable_of(self.cube, "std_error", rows, self.output)

    @cached_property
    def coalition_share(self) -> FloatArray:
        """(d,): the share of the sampled coalitions in the variance of the standard errors."""
        return coalition_share(self.cube)[:, self.output]

    def ranking(self, name: str = "") -> Ranking:
        """The importance of each feature, under this name."""
        return output_ranking(name, global_means(self.cube), self.output)

    def ranked(self) -> list[str]:
        """The features, by mean |attribution|, largest first."""
        return features_of([self.ranking()])


def refuse_infinities(which: str, cube: xr.Dataset) -> None:
    """Raise an `InputError` if a Dataset has infinite attributions, which no store has.

    `which` is the name of the argument.
    """
    if store_of(cube) is not None:
        return
    is_infinite = np.zeros(cube.sizes["feature"], bool)
    for rows in row_slices(cube):
        is_infinite |= np.isinf(rows_of(cube, "attribution", rows)).any(axis=(0, 2))
    if is_infinite.any():
        name = label(cube["feature"].values[is_infinite.argmax()])
        raise InputError(
            f"{which} has infinite attributions, of {name} first: leave these rows out, "
            'cube.isel(instance=~np.isinf(cube.attribution).any(["feature", "output"]).values)'
        )


def view_of(cube: Any, output: str | int | None = None) -> View:
    """The view of one output of a cube, which is given itself or by the path of its store.

    Raises
    ------
    InputError
        It is no cube, no row is explained, an attribution is infinite, or there is no such output.
    """
    cube = as_cube(cube)
    refuse_infinities("cube", cube)
    place = output_of(cube, output)
    features = tuple(names_along(cube, "feature"))
    return View(cube, place, features, counted_rows(cube))


def output_of(cube: Any, output: str | int | None) -> int:
    """The position of the output that a picture shows, by its name or position.

    Raises
    ------
    InputError
        There are several and none is chosen, or there is none of this name; both list them.
    """
    names = names_along(cube, "output")
    if output is None and len(names) == 1:
        return 0
    if output is None:
        raise InputError(f"the cube has {len(names)} outputs: give output=, one of {names}")
    if np.ndim(output):
        raise InputError(unknown_name("output", shown(output), names))
    if output in range(len(names)):
        return int(output)
    if output not in names:
        raise InputError(unknown_name("output", str(output), names))
    return names.index(str(output))


def counted_rows(cube: Any) -> int:
    """The number of rows that are explained; a warning names those that are missing.

    Raises
    ------
    InputError
        No row is explained.
    """
    if "status" not in cube:
        return int(cube.sizes["instance"])
    counts, first = status_counts(
        partial(status_of, cube), row_slices(cube), (Status.PENDING, Status.FAILED)
    )
    n_missing = int(counts[Status.PENDING] + counts[Status.FAILED])
    said = (
        f"{counts[Status.PENDING]:,} rows of the cube are pending and {counts[Status.FAILED]:,} "
        f"failed, the first is row {first:,}"
    )
    if not counts.any():
        raise InputError("no row of the cube is explained: it has no rows")
    if not counts[Status.OK]:
        raise InputError(f"no row of the cube is explained: {said}")
    if n_missing:
        warnings.warn(f"{said}: the picture shows the others", stacklevel=5)
    return int(counts[Status.OK])


def status_counts(
    status: Callable[[slice], NDArray[np.int8]], slices: Iterable[slice], missing: Collection[int]
) -> tuple[NDArray[np.int64], int]:
    """The number of rows of each status, and the first row of a status in `missing`; else -1."""
    counts = np.zeros(len(Status.MEANINGS), np.int64)
    first = -1
    for rows in slices:
        found = status(rows)
        counts += np.bincount(found, minlength=len(counts))
        places = np.flatnonzero(np.isin(found, list(missing)))
        if first < 0 and len(places):
            first = rows.start + int(places[0])
    return counts, first


def attribution_words(text: str, cube: Any, output: int, n_rows: int = 0) -> str:
    """Words for an axis of attributions: what it is, of which output, its units, over which rows."""
    name = ""
    if cube.sizes["output"] > 1:
        name = str(cube["output"].values[output])
    said = [text]
    if name:
        said.append(f" for {label(name, 24)}")
    measure = measure_of_cube(cube, name)
    if measure:
        said.append(f" ({label(measure, 40)})")
    if n_rows:
        said.append(f", over {n_rows:,} row{'s' * (n_rows > 1)}")
    return "".join(said)
