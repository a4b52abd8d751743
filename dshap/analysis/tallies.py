"""Histograms of attributions by the values of columns, many of them in one pass over a cube."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.column_values import Columns, binned
from dshap.analysis.view import View
from dshap.core.histograms import CodeArray, histogram_of, number_of_bins
from dshap.core.records import FloatArray, Moments, Record, TreeSum
from dshap.cube.datasets import row_slices, store_of
from dshap.cube.histograms import KeptHistograms

FEW_ROWS = 2_000
"""The number of rows from which a picture shows densities; fewer are points."""


@dataclass(frozen=True, eq=False)
class BinnedColumn:
    """A column by whose values attributions are counted."""

    name: str
    bins: Record

    @property
    def n_bins(self) -> int:
        """The number of bins, including the bin of missing values."""
        return number_of_bins(self.bins) + 1


@dataclass(frozen=True)
class Tally:
    """One histogram that is wanted: of a feature, by the bins of columns, the last one inmost."""

    position: int
    """The position of the feature."""
    by: tuple[BinnedColumn, ...] = ()
    added: tuple[int, ...] = ()
    """The positions of features whose attributions are added to its own, row by row."""

    @property
    def n_bins(self) -> int:
        """The number of value bins, of all columns together."""
        return int(np.prod([column.n_bins for column in self.by], initial=1))

    def digest(self, output: int) -> str:
        """The digest of the counted values, for this output."""
        said = [output, self.position, [(each.name, each.bins.digest()) for each in self.by]]
        if self.added:
            said.append(self.added)
        return hashlib.blake2b(json.dumps(said).encode(), digest_size=12).hexdigest()

    def of(self, phi: FloatArray) -> FloatArray:
        """Choose the attributions (n,) to count from the attributions of all features (n, d)."""
        if self.added:
            return np.asarray(phi[:, [self.position, *self.added]].sum(axis=1))
        return np.ascontiguousarray(phi[:, self.position])


def tallied(view: View, columns: Columns, wanted: Mapping[str, Tally]) -> dict[str, Moments]:
    """The histogram (`histogram_of`) of each of these tallies.

    Those that are stored beside a finished cube are read; the others are made in one pass over the
    cube, and stored there.
    """
    return tallied_together([view], [columns], wanted)[0]


def tallied_together(
    views: Sequence[View], columns: Sequence[Columns], wanted: Mapping[str, Tally]
) -> list[dict[str, Moments]]:
    """The histograms of `tallied` for several explanations of the same rows, in one pass.

    `columns` are those of each explanation: the same values, of which the first are read.
    """
    digests = [
        {name: tally.digest(view.output) for name, tally in wanted.items()} for view in views
    ]

    def made(names: Sequence[str]) -> list[dict[str, Moments]]:
        return counted_anew(views, columns[0], {name: wanted[name] for name in names})

    return kept_or_made(views, columns, digests, made)


def kept_or_made(
    views: Sequence[View],
    columns: Sequence[Columns],
    digests: Sequence[Mapping[str, str]],
    made: Callable[[Sequence[str]], list[dict[str, Moments]]],
) -> list[dict[str, Moments]]:
    """Sums over the rows of each explanation, by name: stored ones are read, others computed.

    Parameters
    ----------
    views, columns : as in `tallied_together`
    digests : for each explanation the names of its sums, with the digests of the summed values
    made : the sums of these names for every explanation, which `made` makes together
    """
    kept = [_kept_of(view, each) for view, each in zip(views, columns, strict=True)]
    found = [_found(store, wanted) for store, wanted in zip(kept, digests, strict=True)]
    # names that any explanation lacks: one pass counts them for all explanations
    missing = [name for name in digests[0] if any(name not in each for each in found)]
    made_anew: list[dict[str, Moments]] = [{} for _ in views]
    if missing:
        made_anew = made(missing)
    for store, wanted, known, sums in zip(kept, digests, found, made_anew, strict=True):
        new = {name: each for name, each in sums.items() if name not in known}
        known |= new
        if store is not None and new:
            store.put({wanted[name]: each for name, each in new.items()})
    return [{name: known[name] for name in digests[0]} for known in found]


def _found(kept: KeptHistograms | None, digests: Mapping[str, str]) -> dict[str, Moments]:
    """The stored histograms, by their names."""
    if kept is None:
        return {}
    found = {name: kept.get(digest) for name, digest in digests.items()}
    return {name: histogram for name, histogram in found.items() if histogram is not None}


def _kept_of(view: View, columns: Columns) -> KeptHistograms | None:
    """The stored histograms of a cube; None if it is not a store's, as it was stored."""
    path = store_of(view.cube)
    if path is None or (columns and columns.store != path):
        return None
    return KeptHistograms.of(path, view.cube.sizes["instance"])


def counted_anew(
    views: Sequence[View], columns: Columns, wanted: Mapping[str, Tally]
) -> list[dict[str, Moments]]:
    """The histogram of each of these tallies under each explanation, in one pass over their cubes."""
    sums = [{name: TreeSum[Moments]() for name in wanted} for _ in views]
    by = {column: None for tally in wanted.values() for column in tally.by}
    for rows in row_slices(views[0].cube):
        values = {name: columns[name](rows) for name in {column.name for column in by}}
        codes = {column: binned(column.bins, values[column.name]) for column in by}
        phis = [view.attributions(rows) for view in views]
        for name, tally in wanted.items():
            bins = _joint(tally, codes, len(phis[0]))
            for phi, into in zip(phis, sums, strict=True):
                into[name].add(histogram_of(tally.of(phi), bins, tally.n_bins))
    return [{name: each.total() for name, each in into.items()} for into in sums]


def _joint(tally: Tally, codes: Mapping[BinnedColumn, CodeArray], n_rows: int) -> NDArray[np.int64]:
    """The value bin (n,) of each row, of all columns of a tally together."""
    joint = np.zeros(n_rows, np.int64)
    for column in tally.by:
        joint = joint * column.n_bins + codes[column]
    return joint


def without_last(histogram: Moments, n_bins: int) -> Moments:
    """The histogram by all columns but the last, whose bins, `n_bins`, are added up."""
    counts = histogram["counts"]
    added = counts.reshape(len(counts), -1, n_bins).sum(axis=2)
    sums = {
        name: histogram[name].reshape(-1, n_bins).sum(axis=1)
        for name in ("sums", "magnitudes", "squares")
    }
    return Moments({**histogram.arrays, "counts": added, **sums})
