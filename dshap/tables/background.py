"""Backgrounds: few rows with weights that represent a whole table, chosen by one of four methods.

The candidates are a sample of the rows; the means that they should match are summed over all rows,
or over many that are spread over the table, in passes over its spans.  The result states how far it
is from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.core import rules as checks
from dshap.core.blocks import RowBlock
from dshap.core.errors import InputError, shown
from dshap.core.records import FloatArray, Moments, Stacked
from dshap.core.rows import Positions, chosen_rows, sample_positions
from dshap.core.spread import SpreadOrder
from dshap.core.types import RowReader
from dshap.kernels import RBF, Fourier, Nystrom
from dshap.predictors.times import times_of
from dshap.tables.site import Learn
from dshap.values.background import Background, herd

CANDIDATES = 10_000
"""Number of sampled rows among which a background is chosen."""
SUMMED_ROWS = 131_072
"""The most rows that represent the table in sums; longer tables are read in the `SpreadOrder`.

Their discrepancy from the table is at most that of random rows, 0.003; a hundred chosen rows have
0.02 or more.
"""
FREQUENCIES = 256
FRESH_FREQUENCIES = 512
"""Numbers of random Fourier features: `FREQUENCIES` to choose rows by, and others to measure by.

In the features that rows were chosen by, the discrepancy is up to 2.8 times too small.
"""
FRESH_SEED = 1
SOBOL_COLUMNS = 100
SUM_ROWS = 4_096
SAMPLE_ROUNDS = 30
TABLE_ROUNDS = 3
"""Iterations of Lloyd's algorithm: first on the candidates, then on all rows."""

Features = Callable[[FloatArray], NDArray[np.complex128]]
"""A function from rows (n, columns) to features (n, q)."""


@dataclass(frozen=True)
class _Candidates:
    """The pass that collects the candidates, a sample of the rows."""

    positions: Positions
    """Positions of the candidates in the table, sorted."""
    wants = ()

    def partial(self, block: RowBlock) -> Stacked:
        return chosen_rows(block, self.positions)

    def finish(self, total: Stacked) -> FloatArray:
        """The candidates (c, columns)."""
        return total["x"]


@dataclass(frozen=True)
class _Sums:
    """The pass that sums a function of rows (n, columns) over some rows of the table."""

    function: Callable[[FloatArray], Moments]
    positions: Positions
    """Positions of the rows in the table, sorted."""
    wants = ()

    def partial(self, block: RowBlock) -> Moments:
        return self.function(np.asarray(chosen_rows(block, self.positions).arrays["x"]))

    def finish(self, total: Moments) -> Moments:
        return total


def background_of(reader: RowReader, learn: Learn, size: int, method: str, seed: int) -> Background:
    """Choose `size` rows of an open table that represent all its rows, with weights.

    Sums over the rows of a table of more than `SUMMED_ROWS` rows are over so many in the
    `SpreadOrder`; the number of its rows is then estimated if bad rows are left out.  There are
    fewer if rows repeat; see `dshap.choose_background`.

    Raises
    ------
    InputError
        The method is unknown, or there are fewer candidates than `size`.

    Notes
    -----
    "thinning": greedy herding towards the mean, over all rows, of 256 random Fourier features;
    equal weights (Chen, Welling & Smola, Super-samples from kernel herding, 2010).  "kmeans":
    Lloyd's algorithm from k-means++ seeds, on the candidates and then on all rows, with columns
    scaled; chooses the candidate nearest to each centre, with the share of all rows nearest to it.
    "stratified": cells of equal numbers of candidates, by halving along the widest column; draws
    one candidate of each, with the share of all rows in its cell.  "random": equal weights.
    """
    method = checks.Choice(tuple(METHODS))("method", method)
    (seed,) = checks.checked(seed=seed)
    sample: FloatArray = learn(
        _Candidates(sample_positions(reader.n_rows, CANDIDATES, seed)), reader
    )
    if isinstance(size, bool) or not isinstance(size, int | np.integer):
        raise InputError(f"n_background is {shown(size)}: give a whole number of at least 1")
    if not 0 < size <= len(sample):
        raise InputError(
            f"n_background is {size}: give 1 to {len(sample):,}, the number of rows to choose from"
        )
    n_summed = min(reader.n_rows, SUMMED_ROWS)
    summed = np.sort(SpreadOrder(reader.n_rows).positions(0, n_summed))
    towards, fresh = (partial(_features, frequencies) for frequencies in _frequencies(sample, seed))
    total = learn(_Sums(partial(_feature_sums, towards, fresh), summed), reader)
    n_good = float(total["count"])
    goal, mean = (np.asarray(total[name] / n_good, dtype=complex) for name in ("towards", "fresh"))
    chosen, shares = METHODS[method](
        _Task(sample, lambda each: learn(_Sums(each, summed), reader), towards, goal, size, seed)
    )
    merged, place = np.unique(chosen, return_inverse=True)
    weights = np.asarray(np.bincount(place, shares / shares.sum()), dtype=float)
    gap = weights @ fresh(sample[merged]) - mean
    return Background(
        rows=sample[merged],
        weights=weights,
        feature_names=tuple(reader.feature_names),
        method=method,
        n_rows=round(n_good * reader.n_rows / n_summed),
        discrepancy=float(np.linalg.norm(gap)),
        discrepancy_of_random=float(
            # the mean of b random rows is off by (1 − ‖mean‖²)/b in its expected square, because
            # each vector of features has length 1
            np.sqrt(max(1.0 - float(np.linalg.norm(mean)) ** 2, 0.0) / len(merged))
        ),
        times=times_of(reader),
    )


@dataclass(frozen=True)
class _Task:
    """The input of each method."""

    sample: FloatArray
    total: Callable[[Callable[[FloatArray], Moments]], Moments]
    """The sum of a function of rows (n, columns) over the rows that represent the table."""
    features: Features
    mean: NDArray[np.complex128]
    """(q,): the mean of the features over all rows."""
    size: int
    seed: int

    @property
    def scaling(self) -> _Scaling:
        """The scaling by means and standard deviations of the candidates."""
        is_constant = np.ptp(self.sample, axis=0) == 0.0
        deviation = self.sample.std(axis=0)
        return _Scaling(
            self.sample.mean(axis=0), np.where(is_constant | (deviation == 0.0), 1.0, deviation)
        )


class _Scaling(NamedTuple):
    """Centres columns and scales them to one unit; centring preserves the digits of distances."""

    mean: FloatArray
    deviation: FloatArray
    """(columns,): standard deviations, and 1 for a column that does not vary."""

    def of(self, rows: FloatArray) -> FloatArray:
        return (rows - self.mean) / self.deviation


Choice = tuple[NDArray[np.intp], FloatArray]
"""Positions among the candidates (b,), and their weights (b,)."""


def _thinning(task: _Task) -> Choice:
    return herd(task.features(task.sample), task.mean, task.size), np.ones(task.size)


def _random(task: _Task) -> Choice:
    return np.random.default_rng(task.seed).choice(
        len(task.sample), task.size, replace=False
    ), np.ones(task.size)


def _kmeans(task: _Task) -> Choice:
    scaling = task.scaling
    scaled = scaling.of(task.sample)
    n_different = len(np.unique(scaled, axis=0))
    centres = Nystrom(min(task.size, n_different), "kmeans++", task.seed).select(scaled)
    for _ in range(SAMPLE_ROUNDS):
        before = centres
        centres = _moved(centres, _cell_sums(centres, scaling, task.sample))
        if np.array_equal(before, centres):
            break
    for _ in range(TABLE_ROUNDS):
        centres = _moved(centres, task.total(partial(_cell_sums, centres, scaling)))
    # a centre is a mean, but a background consists of rows of the table: the nearest candidate
    chosen = np.array([np.argmin(np.square(scaled - centre).sum(axis=1)) for centre in centres])
    # two centres may have the same nearest candidate
    chosen = np.unique(chosen)
    return chosen, task.total(partial(_cell_sums, scaled[chosen], scaling))["count"]


def _stratified(task: _Task) -> Choice:
    scaling = task.scaling
    rng = np.random.default_rng(task.seed)
    scaled = scaling.of(task.sample)
    cells = [np.arange(len(scaled))]
    # (cell that is halved, column, bound); the upper half becomes the last cell
    splits: list[tuple[int, int, float]] = []
    while len(cells) < task.size:
        sizes = [len(inside) if np.ptp(scaled[inside], axis=0).any() else 0 for inside in cells]
        if not any(sizes):
            break  # fewer different rows than cells
        cell = int(np.argmax(sizes))
        inside = cells[cell]
        column = int(np.argmax(np.ptp(scaled[inside], axis=0)))
        values = scaled[inside, column]
        bound = float(np.median(values))
        # the median is the largest value, so that no row is above it: cut below that value
        if not (values > bound).any():
            bound = float(values[values < bound].max())
        splits.append((cell, column, bound))
        is_above = values > bound
        cells[cell] = inside[~is_above]
        cells.append(inside[is_above])
    chosen = np.array([rng.choice(inside) for inside in cells])
    return chosen, task.total(partial(_cell_counts, splits, scaling))["count"]


METHODS: Mapping[str, Callable[[_Task], Choice]] = {
    "thinning": _thinning,
    "kmeans": _kmeans,
    "stratified": _stratified,
    "random": _random,
}
"""Name of a method -> its function."""


def _frequencies(sample: FloatArray, seed: int) -> tuple[FloatArray, FloatArray]:
    """Frequencies (q, columns) of random Fourier features of an RBF kernel, two sets of them.

    Rows are chosen by the first set and measured by the second, which fills the space of the first
    columns evenly (scrambled Sobol points).  The length-scales are medians.
    """
    from scipy.stats import qmc  # takes half a second, and no worker needs it

    kernel = RBF("median").bind(sample.shape[1], sample)
    columns = sample.shape[1]
    rng = np.random.default_rng((FRESH_SEED, seed))
    points = rng.random((FRESH_FREQUENCIES, columns))
    few = min(columns, SOBOL_COLUMNS)
    points[:, :few] = qmc.Sobol(few, seed=rng).random(FRESH_FREQUENCIES)
    # normal quantiles make normal frequencies, those of an RBF kernel, of even points; they are
    # infinite at 0 and 1
    fresh = scipy.special.ndtri(np.clip(points, 1e-12, 1.0 - 1e-12)) / kernel.parameters
    return Fourier(2 * FREQUENCIES, seed).anchors(sample, kernel), fresh


def _features(frequencies: FloatArray, rows: FloatArray) -> NDArray[np.complex128]:
    """The features e^{iω·x}/√q (n, q).

    The real parts of their products are cos ω·(x − z), whose mean is the kernel.
    """
    angle = rows @ frequencies.T
    return (np.cos(angle) + 1j * np.sin(angle)) / np.sqrt(len(frequencies))


def _feature_sums(towards: Features, fresh: Features, rows: FloatArray) -> Moments:
    """Sums of both kinds of features over these rows, and the number of rows."""
    parts = [
        [
            np.sum(features(rows[start : start + SUM_ROWS]), axis=0)
            for start in range(0, len(rows), SUM_ROWS)
        ]
        for features in (towards, fresh)
    ]
    near, other = (
        sum(part, np.zeros(n, complex))
        for part, n in zip(parts, (FREQUENCIES, FRESH_FREQUENCIES), strict=True)
    )
    return Moments({"towards": near, "fresh": other, "count": np.array(float(len(rows)))})


def _cell_sums(centres: FloatArray, scaling: _Scaling, rows: FloatArray) -> Moments:
    """Number and sum of the scaled rows nearest to each of the centres (b, columns)."""
    count = np.zeros(len(centres))
    total = np.zeros(centres.shape)
    lengths = np.square(centres).sum(axis=1)
    for start in range(0, len(rows), SUM_ROWS):
        part = scaling.of(rows[start : start + SUM_ROWS])
        # squared distances but for the square of the row, which is the same for all centres
        nearest = np.argmin(lengths - 2.0 * part @ centres.T, axis=1)
        count += np.bincount(nearest, minlength=len(centres))
        np.add.at(total, nearest, part)
    return Moments({"count": count, "sum": total})


def _moved(centres: FloatArray, sums: Moments) -> FloatArray:
    """The means of the cells (b, columns); a centre without rows stays where it is."""
    count = sums["count"][:, None]
    return np.asarray(np.divide(sums["sum"], count, out=centres.copy(), where=count > 0))


def _cell_counts(
    splits: list[tuple[int, int, float]], scaling: _Scaling, rows: FloatArray
) -> Moments:
    """The number of rows in each cell: each split moves rows above its bound to a new cell."""
    cell = np.zeros(len(rows), dtype=np.intp)
    scaled = scaling.of(rows)
    for new, (old, column, bound) in enumerate(splits, start=1):
        cell[(cell == old) & (scaled[:, column] > bound)] = new
    return Moments({"count": np.bincount(cell, minlength=len(splits) + 1).astype(float)})
