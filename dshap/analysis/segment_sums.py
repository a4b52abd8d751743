"""Sums of attributions over groups of the rows, many groups in one pass over the cubes.

A sum over the rows of every group is one product with a sparse matrix (groups, rows) of ones: a row
is in one group of each column.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.analysis.column_values import Columns, binned
from dshap.analysis.segment_groups import RowGroups
from dshap.analysis.tallies import kept_or_made
from dshap.analysis.view import View
from dshap.core.histograms import CodeArray
from dshap.core.records import FloatArray, Moments, TreeSum
from dshap.cube.datasets import row_slices
from dshap.cube.summary import STATISTICS, bounded_sums


def sums_by_group(
    views: Sequence[View], columns: Sequence[Columns], groups: Sequence[RowGroups]
) -> list[list[Moments]]:
    """For each explanation, the sums over the rows of each of these groups.

    They are `counts (s,)`, the explained rows, and `sums (1 + R, statistics, s, d)`, as those of a
    block's summary, with upper bounds of the errors of sampling.  Those that are stored beside a
    finished cube are read; the others are made in one pass over all explanations, and stored there.

    Parameters
    ----------
    views, columns, groups : as in `segments_together`
    """
    wanted = {str(place): each for place, each in enumerate(groups)}

    def made(names: Sequence[str]) -> list[dict[str, Moments]]:
        missing = {name: wanted[name] for name in names}
        found = summed_anew(views, columns[0], [*missing.values()])
        return [dict(zip(missing, each, strict=True)) for each in found]

    digests = [{name: _digest(view, each) for name, each in wanted.items()} for view in views]
    return [[*each.values()] for each in kept_or_made(views, columns, digests, made)]


def _digest(view: View, groups: RowGroups) -> str:
    """The digest of the summed values."""
    said = [*STATISTICS, "by group", view.output, groups.column.name, groups.column.bins.digest()]
    return hashlib.blake2b(json.dumps(said).encode(), digest_size=12).hexdigest()


def summed_anew(
    views: Sequence[View], columns: Columns, groups: Sequence[RowGroups]
) -> list[list[Moments]]:
    """The sums of `sums_by_group`, in one pass over the cubes."""
    totals = [TreeSum[Moments]() for _ in views]
    names = {each.column.name for each in groups}
    for rows in row_slices(views[0].cube):
        values = {name: columns[name](rows) for name in names}
        codes = [binned(each.column.bins, values[each.column.name]) for each in groups]
        places = _places(groups, codes)  # (n, columns)
        for view, total in zip(views, totals, strict=True):
            total.add(_sums(view, rows, places, _number_of(groups)))
    return [[*_parted(groups, total.total())] for total in totals]


def _number_of(groups: Sequence[RowGroups]) -> int:
    """The number of all groups together."""
    return sum(each.column.n_bins for each in groups)


def _places(groups: Sequence[RowGroups], codes: Sequence[CodeArray]) -> NDArray[np.int64]:
    """The places (n, columns) of the groups that each row is in, among all groups together."""
    first = np.cumsum([0, *(each.column.n_bins for each in groups)])[:-1]
    return np.stack(codes, axis=1) + first


def _sums(view: View, rows: slice, places: NDArray[np.int64], n_groups: int) -> Moments:
    """The sums of these rows over all groups together; rows without attributions are left out."""
    phi = view.attributions(rows)
    errors = None
    if "std_error" in view.cube:
        errors = view.std_errors(rows)
    # A text may lack its last tokens, but not its first: few rows are searched whole.
    is_there = ~np.isnan(phi[:, 0])
    is_there[~is_there] = ~np.isnan(phi[~is_there]).all(axis=1)
    if not is_there.all():
        phi = phi[is_there]
        places = places[is_there]
        if errors is not None:
            errors = errors[is_there]
    n, n_columns = places.shape
    ends = np.arange(0, n * n_columns + 1, n_columns)
    # a column for each row of the cube, with a one in each of its groups
    members = scipy.sparse.csc_array(
        (np.ones(places.size), places.ravel(), ends), shape=(n_groups, n)
    )

    def by_group(values: FloatArray) -> FloatArray:
        """Sums over the rows (n, d) of each group: (s, d)."""
        return np.asarray(members @ values)

    share = view.coalition_share
    sums = bounded_sums(np.where(np.isnan(phi), 0.0, phi), errors, 2, by_group, share)
    counts = np.bincount(places.ravel(), minlength=n_groups)
    return Moments({"counts": counts, "sums": sums})


def _parted(groups: Sequence[RowGroups], total: Moments) -> Iterator[Moments]:
    """The sums of the groups of each column, separately."""
    start = 0
    for each in groups:
        own = slice(start, start + each.column.n_bins)
        yield Moments({"counts": total["counts"][own], "sums": total["sums"][:, :, own]})
        start = own.stop
