"""The rows of a page: the largest |φ| of each feature, extreme predictions, and an even sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import FloatArray
from dshap.report.pages.codes import WIDTH, place_width
from dshap.report.pages.row_tables import RowTable, has_numbers, row_texts

MAX_ROWS = 5_000
"""The most rows of a page."""
MAX_ROW_BYTES = 1_200_000
"""About the most bytes of rows of a page."""
N_EXTREME = 10
"""The rows with the highest predictions of each output, and as many with the lowest."""
N_LARGEST = 20
"""The number of rows that are listed for each feature: the rows with its largest |φ|."""
MOST_LARGEST = 3_000
"""About the most rows of a page for these lists."""
MAX_LISTED = 40
"""The most features of which rows are listed."""
SAMPLED_PREDICTIONS = 200_000
"""About the most rows from which the predictions are summarised."""


@dataclass(frozen=True)
class PageRows:
    """The rows of a page, in the order of the cube."""

    texts: list[str]
    """The JSON of each row."""
    largest: Mapping[int, Mapping[int, list[int]]]
    """Part -> feature -> positions among these rows, the largest |φ| of the feature first."""
    predictions: FloatArray
    """(s, p): predictions of rows sampled evenly from all."""
    n_explained: int
    """The number of rows of the store that have attributions."""

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Survey:
    """A first pass over all rows of a table."""

    counts: Mapping[int, int]
    """Start of a slice -> its rows with attributions."""
    extreme: NDArray[np.int64]
    """(e, 2 p): the rows with the highest and the lowest predictions of each part, −1 for none."""
    largest: NDArray[np.int64]
    """(n, p, f): the rows with the largest |φ| of each part and listed feature, −1 for none."""
    predictions: FloatArray
    """(s, p): predictions of rows sampled evenly from all."""


class _Largest:
    """The positions of the rows in which each of several numbers is largest, so far."""

    def __init__(self, n_rows: int, n_numbers: int) -> None:
        self._sizes = np.full((n_rows, n_numbers), -np.inf)
        self.positions = np.full((n_rows, n_numbers), -1)

    def add(self, start: int, sizes: FloatArray, is_good: NDArray[np.bool_]) -> None:
        """Add the sizes (n, numbers) of rows from `start` on; rows without numbers do not count."""
        # if numbers are missing, no comparison is true
        near = np.flatnonzero((sizes > self._sizes[-1]).any(axis=1) & is_good)
        here = np.broadcast_to((start + near)[:, None], (len(near), sizes.shape[1]))
        joined = np.concatenate([self._sizes, sizes[near]])
        order = np.argsort(-joined, axis=0, kind="stable")[: len(self._sizes)]
        self._sizes = np.take_along_axis(joined, order, axis=0)
        positions = np.concatenate([self.positions, here])
        self.positions = np.take_along_axis(positions, order, axis=0)


def page_rows(table: RowTable, listed: Sequence[str]) -> PageRows:
    """Choose about `MAX_ROWS` rows: the largest of each listed feature, and others evenly.

    Parameters
    ----------
    table : the rows of the explanations
    listed : features whose `N_LARGEST` rows of largest |φ| are in the page, of which the first
        `MAX_LISTED` count
    """
    features = [table.first.features.index(name) for name in listed[:MAX_LISTED]]
    survey = _surveyed(table, features)
    total = sum(survey.counts.values())
    extreme = np.unique(np.append(survey.extreme, survey.largest))
    extreme = extreme[extreme >= 0]
    n_even = max(_row_limit(table) - len(extreme), 1)
    # ranks among the rows with attributions, so that rows without them leave no gaps
    ranks = np.unique(np.linspace(0, max(total - 1, 0), n_even).astype(np.int64))
    texts: list[str] = []
    positions: list[NDArray[np.int64]] = []
    before = 0
    for rows in table.slices():
        n_rows = survey.counts.get(rows.start, 0)
        even = ranks[(ranks >= before) & (ranks < before + n_rows)] - before
        wanted = extreme[(extreme >= rows.start) & (extreme < rows.stop)] - rows.start
        before += n_rows
        if len(even) + len(wanted) == 0:
            continue
        batch = table.batch(rows)
        if batch is not None:
            good = np.flatnonzero(has_numbers(batch.prediction, batch.phi))
            chosen = np.union1d(good[even], wanted)
            texts += row_texts(table, batch.taken(chosen))
            positions.append(rows.start + chosen)
    places = _places(survey, features, np.concatenate([np.zeros(0, np.int64), *positions]))
    return PageRows(texts, places, survey.predictions, total)


def _places(
    survey: Survey, features: Sequence[int], positions: NDArray[np.int64]
) -> dict[int, dict[int, list[int]]]:
    """Part -> feature -> the places of its largest rows among those at these positions."""
    found: dict[int, dict[int, list[int]]] = {}
    for part in range(survey.largest.shape[1]):
        of_part = found.setdefault(part, {})
        for place, feature in enumerate(features):
            rows = survey.largest[:, part, place]
            rows = rows[np.isin(rows, positions)]
            of_part[feature] = np.searchsorted(positions, rows).tolist()
    return found


def _row_limit(table: RowTable) -> int:
    """The number of rows with about `MAX_ROW_BYTES`."""
    n_parts = len(table.parts)
    number = place_width(len(table.first.features)) + WIDTH
    row_bytes = 32 + n_parts * (20 + (table.top + 1) * number) + table.values_shown * number
    return min(MAX_ROWS, MAX_ROW_BYTES // row_bytes)


def _surveyed(table: RowTable, features: Sequence[int]) -> Survey:
    """One pass over the predictions and attributions of all rows."""
    n_parts = len(table.parts)
    n_lists = n_parts * max(len(features), 1)
    # many outputs and features have shorter lists, so that all lists together fit on the page
    n_each = int(np.clip(MOST_LARGEST // n_lists, 1, N_LARGEST))
    largest = _Largest(n_each, n_parts * len(features))
    extreme = _Largest(N_EXTREME, 2 * n_parts)
    counts = {}
    sampled: list[Any] = [np.zeros((0, n_parts))]
    step = max(1, table.first.n_rows // SAMPLED_PREDICTIONS)
    for rows in table.slices():
        found = table.attributions(rows)
        if found is None:
            continue
        predictions, phi = found
        is_good = has_numbers(predictions, phi)
        counts[rows.start] = int(np.count_nonzero(is_good))
        sampled.append(predictions[is_good][::step])
        # the largest of -prediction are the lowest predictions
        extreme.add(rows.start, np.concatenate([predictions, -predictions], axis=1), is_good)
        sizes = np.abs(phi[:, :, features]).reshape(len(phi), -1)
        largest.add(rows.start, sizes, is_good)
    return Survey(
        counts,
        extreme.positions,
        largest.positions.reshape(n_each, n_parts, len(features)),
        np.concatenate(sampled),
    )
