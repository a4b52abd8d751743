"""Comparing two cubes: their rankings, the distributions of their attributions, their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dshap.analysis.agreement import Worths, agreement, ndcgs, spearmans
from dshap.analysis.column_values import Columns
from dshap.analysis.difference.compared_cubes import comparable, cube_at_path, sides_of
from dshap.analysis.difference.difference_record import (
    SHOWN_PARTS,
    ChangedPart,
    ChangedRow,
    Difference,
    FeatureDifference,
    OutputDifference,
    SideRows,
)
from dshap.analysis.difference.row_changes import SAME, Changes, Largest, SideSums, Totals
from dshap.analysis.difference.row_pairs import (
    CubeRows,
    Pair,
    Seen,
    have_same_order,
    no_pairs,
    pairs_by_key,
    pairs_in_order,
)
from dshap.analysis.distances import population_stability, wasserstein
from dshap.analysis.measures import stated_scale, units_of_cube
from dshap.analysis.rankings import places_of
from dshap.analysis.tallies import Tally, tallied
from dshap.analysis.view import View, status_counts
from dshap.core.annotations import CubeLike
from dshap.core.blocks import Status
from dshap.core.column_dictionary import ColumnDictionary
from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.core.printing import label
from dshap.core.records import Moments
from dshap.core.rules import Whole, of_kind
from dshap.cube.datasets import global_means, magnitude_errors, names_along

N_ROWS = 10
"""The number of rows that are listed, those that changed most."""


def diff(
    old: CubeLike,
    new: CubeLike | None = None,
    *,
    explain: str = "",
    old_run: str = "",
    new_run: str = "",
    output: str | None = None,
    n_rows: int = N_ROWS,
) -> Difference:
    """Compare two cubes: two models, two nights, or two explanations of one job.

    Three things are compared:

    - the rankings of features by mean |φ|, by nDCG and Spearman's correlation, with 95 % intervals;
    - the attributions of each feature, by their population stability index and Wasserstein-1
      distance, from histograms whose bins are the same in every cube;
    - the rows with the same key; those whose attributions changed most come first.

    Both cubes are read once, slice by slice, so that two slices must fit in memory.  If their rows
    are in different orders, they are joined in a temporary folder, which needs as much disk as both.

    Parameters
    ----------
    old, new : xarray.Dataset or path
        The cubes, as `dshap.explain` or `dshap.open_cube` returns them, or the paths of their
        stores.  Without `new`, `old` is a store with a cube for each run: its current cube is
        compared with the cube of the run before.
    explain : str
        The name of the explanation, in a store of several, such as "reasons".
    old_run, new_run : str
        Ids of runs, such as "20250301T020000Z", in a store with a cube for each run.  By default
        the current run; without `new`, `old_run` is the run before it.
    output : str, optional
        The name of the output to compare; by default all outputs.
    n_rows : int
        The most rows that are listed for each output.

    Returns
    -------
    Difference
        Prints as a screen of text, shows as tables in a notebook; `to_dict` has plain values.

    Raises
    ------
    InputError
        The cubes differ in features, outputs, units, links or scales; there is no such store, run,
        explanation or output; no row is explained; or a key is in one cube twice.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> old = dshap.values.Marginal(lambda x: 2 * x[:, 0] + x[:, 1], rows)
    >>> new = dshap.values.Marginal(lambda x: x[:, 0] + 3 * x[:, 1], rows)
    >>> found = dshap.diff(dshap.explain(old, rows), dshap.explain(new, rows))
    >>> (output,) = found.outputs
    >>> sorted((each.feature, each.place_old, each.place_new) for each in output.features)
    [('age', 2, 1), ('rooms', 1, 2)]
    """
    n_shown = Whole(1)("n_rows", n_rows)
    for name, given in (("explain", explain), ("old_run", old_run), ("new_run", new_run)):
        of_kind(name, given, str, "a name")
    if output is not None:
        of_kind("output", output, str, "the name of an output")
    sides = sides_of(old, new, explain, old_run, new_run)
    return _difference(*comparable(*sides, output), n_shown)


@dataclass(frozen=True)
class Shift:
    """The feature whose attributions shifted most between two cubes, and by how much.

    Examples
    --------
    >>> from dshap.report import Shift
    >>> shift = Shift(feature="age", output="price", value=0.3)
    >>> shift.feature, shift.value
    ('age', 0.3)
    """

    feature: str
    output: str
    value: float
    """The distance between the attributions in both cubes, in the metric that was asked for."""


def largest_shift(old: str | Place, new: str | Place, metric: str) -> Shift:
    """Find the feature and output whose attributions differ most between two stored cubes.

    Parameters
    ----------
    old, new : str or Path
        The paths of the cubes.
    metric : {"psi", "wasserstein"}
        The distance of two distributions, as in `diff`: the population stability index, or the
        Wasserstein-1 distance in units of the attributions.

    Returns
    -------
    Shift
        The feature, the output and the distance.

    Raises
    ------
    InputError
        The cubes cannot be compared, or no row of one is explained.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> old = dshap.values.Marginal(lambda x: x[:, 0] - x[:, 1], rows)
    >>> new = dshap.values.Marginal(lambda x: x[:, 0] - 3 * x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stores = Path(folder, "old"), Path(folder, "new")
    ...     for value, store in zip((old, new), stores, strict=True):
    ...         cube = dshap.explain(value, rows, store=store, progress=False)
    ...     shift = dshap.report.largest_shift(*stores, "wasserstein")
    >>> shift.feature
    'age'
    """
    before, now = comparable(cube_at_path(old), cube_at_path(new), None)
    measure = DISTANCES[metric]
    shifts = []
    for output in before.output_names:
        first = feature_histograms(before, output)
        second = feature_histograms(now, output)
        scale = max(map(_mean_magnitude, [*first.values(), *second.values()]))
        shifts += [
            Shift(feature, output, measure(first[feature], second[feature], scale))
            for feature in first
        ]
    return max(shifts, key=lambda shift: shift.value)


def feature_histograms(rows: CubeRows, output: str) -> dict[str, Moments]:
    """The histogram of the attributions of each feature for one output; stored ones are read.

    Raises
    ------
    InputError
        No row is explained.
    """
    names = tuple(names_along(rows.cube, "feature"))
    place = list(rows.cube["output"].values).index(output)
    view = View(rows.cube, place, names, rows.n_rows)
    found = tallied(view, Columns({}), {name: Tally(view.position(name)) for name in names})
    if not all(each["counts"].any() for each in found.values()):
        raise InputError(f"no row of {rows.name} is explained")
    return found


def _mean_magnitude(histogram: Moments) -> float:
    """Mean |φ| of a histogram."""
    return float(histogram["magnitudes"].sum() / histogram["counts"].sum())


def _stability(old: Moments, new: Moments, scale: float) -> float:
    """The population stability index of a feature; 0 if its attributions moved by rounding.

    Those of a feature without influence may be a little above 0 in one run, a little below in
    another, which are two populations.  `scale` is the largest mean |φ| of any feature.
    """
    if wasserstein(old, new)[0] <= SAME * scale:
        return 0.0
    return population_stability(old, new)


DISTANCES: Mapping[str, Callable[[Moments, Moments, float], float]] = {
    "psi": _stability,
    "wasserstein": lambda old, new, _: wasserstein(old, new)[0],
}
"""Metric -> the function of the histograms of a feature in the old and the new cube, and of the
largest mean |φ|."""


def _difference(old: CubeRows, new: CubeRows, n_shown: int) -> Difference:
    """The difference of two cubes that can be compared, in one pass over both."""
    sums = [SideSums(len(each.features), len(each.outputs)) for each in (old, new)]
    changes = Changes(n_shown, old.empty)
    matched, find_pairs = _matching(old, new)
    for before, now in find_pairs(old, new, [each.add for each in sums]):
        changes.add(before, now)
    for rows, found in zip((old, new), sums, strict=True):
        refuse_unexplained(rows, found)
    has_rows = find_pairs is not no_pairs
    if has_rows and not changes.n_met:
        has_rows = False
        matched = f"no key of the old one, such as {old.first_key}, is in the new one"
    totals = [each.done() for each in sums]
    alone = (changes.n_old_alone, changes.n_new_alone)
    first, second = (
        SideRows(
            rows.name,
            found.n_rows,
            found.n_rows - changes.n_both - n_alone,
            n_alone,
            missing_rows(rows, found),
        )
        for rows, found, n_alone in zip((old, new), sums, alone, strict=True)
    )
    worths = [_worths(rows, each) for rows, each in zip((old, new), totals, strict=True)]
    return Difference(
        first,
        second,
        units_of_cube(old.cube),
        changes.n_both,
        matched,
        has_rows,
        tuple(
            _of_output(place, old, new, totals, changes, [each[place] for each in worths])
            for place in range(len(old.outputs))
        ),
        stated_scale([new.cube, old.cube]),
    )


def refuse_unexplained(rows: CubeRows, found: SideSums) -> None:
    """Raise an `InputError` if no row of a cube has attributions."""
    if not found.n_rows:
        said = missing_rows(rows, found) or "it has no rows"
        raise InputError(f"no row of {rows.name} is explained: {said}")


def _matching(
    old: CubeRows, new: CubeRows
) -> tuple[str, Callable[[CubeRows, CubeRows, Seen], Iterator[Pair]]]:
    """How rows are matched, in words, and the function that yields the pairs."""
    if old.key_kinds != new.key_kinds:
        kinds = [
            ", ".join(f"{label(name)} ({kind})" for name, kind in each.key_kinds.items()) or "none"
            for each in (old, new)
        ]
        return f"the key is {kinds[0]} of the old one, {kinds[1]} of the new one", no_pairs
    if have_same_order(old, new):
        return "in the same order", pairs_in_order
    if not old.key_kinds:
        said = f"without a key, {old.n_rows:,} rows cannot be matched with {new.n_rows:,}"
        return said, no_pairs
    return "by key", pairs_by_key


def _worths(rows: CubeRows, totals: Totals) -> list[Worths]:
    """Mean |φ| with its errors, of each output."""
    means = global_means(rows.cube)["mean_magnitude"].values[np.ix_(rows.features, rows.outputs)]
    errors = magnitude_errors(rows.cube)[:, rows.features][:, :, rows.outputs]
    return [
        totals.worths(place, means[:, place], errors[:, :, place])
        for place in range(len(rows.outputs))
    ]


def _of_output(
    place: int,
    old: CubeRows,
    new: CubeRows,
    totals: Sequence[Totals],
    changes: Changes,
    worths: Sequence[Worths],
) -> OutputDifference:
    names = old.feature_names
    before, now = totals
    features = _features(place, names, totals, changes, worths)
    scale = max(max(each.magnitude_old, each.magnitude_new) for each in features)
    features.sort(key=lambda each: _rank_of_shift(each, scale))
    largest = changes.largest[place]
    dictionary = ColumnDictionary.of_attributes(new.cube.attrs)
    return OutputDifference(
        old.output_names[place],
        agreement(ndcgs, worths[0], worths[1]),
        agreement(spearmans, worths[0], worths[1]),
        float(before.mean_base[place]),
        float(now.mean_base[place]),
        float(before.mean_prediction[place]),
        float(now.mean_prediction[place]),
        tuple(features),
        int(changes.n_changed[place]),
        tuple(_changed_rows(place, names, new, largest)),
        {name: dictionary.label_of(name) for name in names if name in dictionary},
    )


def _features(
    place: int,
    names: Sequence[str],
    totals: Sequence[Totals],
    changes: Changes,
    worths: Sequence[Worths],
) -> list[FeatureDifference]:
    places = [places_of(each.mean) for each in worths]
    mean_change = np.full(len(names), np.nan)
    if changes.n_both:
        mean_change = changes.sizes[:, place] / changes.n_both
    scale = float(max(each.mean.max() for each in worths))
    found = []
    for j, name in enumerate(names):
        before, now = (each.histograms[j][place] for each in totals)
        found.append(
            FeatureDifference(
                name,
                _stability(before, now, scale),
                *wasserstein(before, now),
                float(mean_change[j]),
                float(worths[0].mean[j]),
                float(worths[1].mean[j]),
                int(places[0][j]),
                int(places[1][j]),
            )
        )
    return found


def _rank_of_shift(found: FeatureDifference, scale: float) -> tuple[float, float, int]:
    """The order of features: by Wasserstein distance beyond rounding, then PSI, then place.

    The distance is in units of the output; PSI has no size, and is large too if attributions
    that hardly count become others that hardly count.
    """
    shift = 0.0
    if found.wasserstein > SAME * scale:
        shift = found.wasserstein
    return -shift, -found.psi, found.place_old


def _changed_rows(
    place: int, names: Sequence[str], new: CubeRows, largest: Largest
) -> Iterator[ChangedRow]:
    before = largest.old
    now = largest.new
    change = np.nan_to_num(now.phi[:, :, place]) - np.nan_to_num(before.phi[:, :, place])
    most = np.abs(change).argmax(axis=1)  # (n,)
    for i, j in enumerate(most.tolist()):
        yield ChangedRow(
            new.key_of(int(now.positions[i])),
            float(largest.size[i]),
            names[j],
            float(before.phi[i, j, place]),
            float(now.phi[i, j, place]),
            float(before.predicted[i, place]),
            float(now.predicted[i, place]),
            tuple(
                ChangedPart(
                    names[part],
                    float(np.nan_to_num(before.phi[i, part, place])),
                    float(np.nan_to_num(now.phi[i, part, place])),
                )
                for part in np.argsort(-np.abs(change[i]), kind="stable")[:SHOWN_PARTS].tolist()
            ),
        )


def missing_rows(rows: CubeRows, found: SideSums) -> str:
    """Which rows of a cube have no attributions, in words; empty if all have some."""
    without = set(range(len(Status.MEANINGS))) - {Status.OK}
    counts, first = status_counts(rows.status, rows.slices(), without)
    n_damaged = int(counts[Status.OK]) - found.n_rows
    said = [
        f"{count:,} {word}"
        for word, count in zip(Status.MEANINGS, counts.tolist(), strict=True)
        if count and word != "ok"
    ]
    if said:
        said[-1] += f", the first is row {first:,}"
    if n_damaged:
        said.append(f"{n_damaged:,} damaged (dshap verify lists the damage)")
    return ", ".join(said)
