"""Sums over the rows of two cubes that are compared, and the rows that changed most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.analysis.agreement import Worths
from dshap.analysis.difference.row_pairs import Rows
from dshap.core.histograms import histogram_of
from dshap.core.records import FloatArray, Moments, TreeSum

N_GROUPS = 256
"""The number of groups of rows that intervals are drawn from."""
SAME = 1e-6
"""The part of a row's |attributions|, of both cubes, up to which their change is rounding."""


class SideSums:
    """Adds up sums over the explained rows of one cube; at least one row is needed."""

    def __init__(self, n_features: int, n_outputs: int) -> None:
        self._shape = (n_features, n_outputs)
        self._sums = TreeSum[Moments]()
        self._histograms = [
            [TreeSum[Moments]() for _ in range(n_outputs)] for _ in range(n_features)
        ]
        self.n_finished = 0
        """The number of rows that are not pending and could be read."""
        self.n_rows = 0
        """The number of rows with attributions."""

    def add(self, rows: Rows) -> None:
        """Add some rows of the cube."""
        self.n_finished += len(rows)
        is_there = rows.is_there
        if not is_there.any():
            return
        good = rows
        if not is_there.all():
            good = rows[is_there]
        self.n_rows += len(good)
        self._sums.add(_sums_of(good))
        everything = np.zeros(len(good), np.int64)
        for feature, of_outputs in enumerate(self._histograms):
            for output, total in enumerate(of_outputs):
                phi = np.ascontiguousarray(good.phi[:, feature, output])
                total.add(histogram_of(phi, everything, 1))

    def done(self) -> Totals:
        """The sums over all rows that were added."""
        histograms = [[each.total() for each in of_outputs] for of_outputs in self._histograms]
        return Totals(self._sums.total(), histograms)


@dataclass(frozen=True)
class Totals:
    """Sums over all explained rows of a cube."""

    sums: Moments
    histograms: Sequence[Sequence[Moments]]
    """The histogram of each feature, for each output, with one bin of column values."""

    @property
    def n_rows(self) -> int:
        return int(self.sums["rows"].sum())

    @property
    def mean_prediction(self) -> FloatArray:
        """The mean prediction (k,) of the rows."""
        return np.asarray(self.sums["predicted"] / self.n_rows)

    @property
    def mean_base(self) -> FloatArray:
        """The mean base value (k,) of the rows."""
        return np.asarray(self.sums["base"] / self.n_rows)

    def worths(self, output: int, mean: FloatArray, deviations: FloatArray) -> Worths:
        """Mean |φ| (d,) of one output, with the known parts of its errors.

        `deviations` (R, d) are the changes of `mean` by errors of sampled coalitions.
        """
        return Worths(mean, self.sums["magnitudes"][:, :, output], self.sums["rows"], deviations)


def _sums_of(rows: Rows) -> Moments:
    """Sums of |φ| (g, d, k) and of rows (g,) in groups by key; of predictions and bases (k,)."""
    n_rows = len(rows)
    group = (rows.hashes[:, 0] % np.uint64(N_GROUPS)).astype(np.int64)
    chosen = scipy.sparse.csr_array(
        (np.ones(n_rows), (group, np.arange(n_rows))), shape=(N_GROUPS, n_rows)
    )
    magnitudes = chosen @ np.abs(np.nan_to_num(rows.phi)).reshape(n_rows, -1)
    return Moments(
        {
            "magnitudes": magnitudes.reshape(N_GROUPS, *rows.phi.shape[1:]),
            "rows": np.bincount(group, minlength=N_GROUPS),
            "predicted": rows.predicted.sum(axis=0),
            "base": rows.base.sum(axis=0),
        }
    )


@dataclass(frozen=True)
class Largest:
    """The rows of one output that changed most, largest change first."""

    n_shown: int
    old: Rows
    new: Rows
    size: FloatArray
    """(n,): Σ |Δφ| of each row."""

    def with_rows(self, old: Rows, new: Rows, size: FloatArray) -> Largest:
        """Add rows, and return the `n_shown` largest; of equal sizes the first in the new cube."""
        if len(size) > self.n_shown:
            # no sort of all rows: those below the n-th largest of these cannot be among the largest
            # of all
            least = np.partition(size, -self.n_shown)[-self.n_shown]
            chosen = size >= least
            old = old[chosen]
            new = new[chosen]
            size = size[chosen]
        sizes = np.concatenate([self.size, size])
        both = [self.old.joined(old), self.new.joined(new)]
        order = np.lexsort((both[1].positions, -sizes))[: self.n_shown]
        return Largest(self.n_shown, both[0][order], both[1][order], sizes[order])


class Changes:
    """Changes of the rows that both cubes explain."""

    def __init__(self, n_shown: int, empty: Rows) -> None:
        n_features, n_outputs = empty.phi.shape[1:]
        self.n_both = 0
        """The number of rows that both cubes explain."""
        self.n_old_alone = 0
        """The number of rows that are in both cubes and that only the old cube explains."""
        self.n_new_alone = 0
        self.n_met = 0
        """The number of rows whose keys are in both cubes."""
        self.n_changed: NDArray[np.int64] = np.zeros(n_outputs, np.int64)
        """(k,): the rows whose attributions changed by more than rounding."""
        self.sizes = np.zeros((n_features, n_outputs))
        """(d, k): sums of |Δφ| over these rows."""
        self.largest = [Largest(n_shown, empty, empty, np.zeros(0)) for _ in range(n_outputs)]

    def add(self, old: Rows, new: Rows) -> None:
        """Add the same rows of both cubes."""
        self.n_met += len(old)
        is_old = old.is_there
        is_new = new.is_there
        self.n_old_alone += int(np.count_nonzero(is_old & ~is_new))
        self.n_new_alone += int(np.count_nonzero(is_new & ~is_old))
        is_both = is_old & is_new
        if not is_both.all():
            old = old[is_both]
            new = new[is_both]
        self.n_both += len(old)
        # a text has no attributions beyond its end, which change nothing
        before = np.nan_to_num(old.phi)
        now = np.nan_to_num(new.phi)
        change = np.abs(now - before)  # (n, d, k)
        size = change.sum(axis=1)
        magnitude = np.abs(before).sum(axis=1) + np.abs(now).sum(axis=1)
        is_changed = size > SAME * magnitude
        self.n_changed += np.count_nonzero(is_changed, axis=0)
        self.sizes += change.sum(axis=0)
        for output, largest in enumerate(self.largest):
            chosen = np.flatnonzero(is_changed[:, output])
            if len(chosen):
                self.largest[output] = largest.with_rows(
                    old[chosen], new[chosen], size[chosen, output]
                )
