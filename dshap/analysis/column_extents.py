"""The smallest and the largest value of columns, and how many values are infinite."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.column_values import SAMPLED_ROWS, Columns, Samples, as_numbers, has_order
from dshap.analysis.tallies import kept_or_made
from dshap.analysis.view import View
from dshap.core.records import Moments
from dshap.cube.datasets import row_slices


@dataclass(frozen=True)
class Extent:
    """The ends of the finite values of a column; NaN if it has none."""

    low: float
    high: float
    n_infinite: int
    """The number of infinite values."""


def extents_of(
    views: Sequence[View],
    columns: Sequence[Columns],
    samples: Samples,
    names: Collection[str],
) -> dict[str, Extent]:
    """The extent of each of these columns, where its values have an order.

    Few rows are all in the sample; of more, all values are read once, and the result is stored
    with the histograms.
    """
    wanted = [name for name in names if has_order(samples[name])]
    if views[0].cube.sizes["instance"] <= SAMPLED_ROWS:
        return {name: _extent(_ends(samples[name])) for name in wanted}
    digests = [{name: _digest(name) for name in wanted} for _ in views]

    def made(missing: Sequence[str]) -> list[dict[str, Moments]]:
        found = {name: _read(views[0], columns[0], name) for name in missing}
        return [found for _ in views]

    known = kept_or_made(views, columns, digests, made)[0]
    return {name: _extent(ends) for name, ends in known.items()}


def _digest(name: str) -> str:
    said = json.dumps(["extent", name])
    return hashlib.blake2b(said.encode(), digest_size=12).hexdigest()


def _read(view: View, columns: Columns, name: str) -> Moments:
    """The ends of all values of a column."""
    parts = [_ends(columns[name](rows)) for rows in row_slices(view.cube)]
    return Moments(
        {
            "low": np.fmin.reduce([part["low"] for part in parts]),
            "high": np.fmax.reduce([part["high"] for part in parts]),
            "infinite": np.sum([part["infinite"] for part in parts], axis=0),
        }
    )


def _ends(values: NDArray[Any]) -> Moments:
    """The ends of some values, and the number of infinite ones, each as an array (1,)."""
    numbers = as_numbers(values)
    finite = numbers[np.isfinite(numbers)]
    low = np.fmin.reduce(finite, initial=np.inf)
    high = np.fmax.reduce(finite, initial=-np.inf)
    if not len(finite):
        low = high = np.float64(np.nan)
    n_infinite = np.count_nonzero(np.isinf(numbers))
    return Moments(
        {"low": np.array([low]), "high": np.array([high]), "infinite": np.array([n_infinite])}
    )


def _extent(ends: Moments) -> Extent:
    return Extent(float(ends["low"][0]), float(ends["high"][0]), int(ends["infinite"][0]))
