"""Two explanations of the same rows beside each other, as numbers: the record behind `compare`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.column_values import Columns, as_numbers, as_texts, columns_of, has_order
from dshap.analysis.measures import scale_of_cube, scales_differ, units_of_cube, without_scale
from dshap.analysis.rankings import Ranking
from dshap.analysis.shades import DEPTH, Shades, grid_of, limits_of
from dshap.analysis.shown_features import Selection, shown_features
from dshap.analysis.swarms import Swarm
from dshap.analysis.tallies import FEW_ROWS
from dshap.analysis.view import View, view_of
from dshap.core.duck_typing import has_member
from dshap.core.errors import InputError
from dshap.core.histograms import histogram_of
from dshap.core.printing import label
from dshap.core.records import FloatArray, Moments, Record, TreeSum, tree_sum
from dshap.core.rules import as_place
from dshap.cube import named_cubes
from dshap.cube.datasets import row_slices, rows_of

ROUNDING = 1e-20
"""The variance, beside the square of the mean, up to which attributions are constant."""
SAME_PREDICTION = 1e-6
"""The largest difference of two predictions that are the same, as a part of them."""
SAME_TOTALS = 1e-9
"""The largest difference of sums of the same numbers in two orders, as a part of them."""
LISTED = 4
"""The most names of features that a message lists."""


@dataclass(frozen=True)
class SideBySide:
    """The attributions of two explanations of the same rows, for one output.

    Pairs are in the order of `names`; arrays are over `features`.
    """

    names: tuple[str, str]
    """The names of the explanations."""
    features: tuple[str, ...]
    """Those shown, by the mean |attribution| of the first explanation, largest first."""
    n_others: int
    """The number of features that are not shown."""
    swarms: tuple[tuple[Swarm, ...], tuple[Swarm, ...]]
    """The attributions of each line, over the rows that both explain, without colours: of the
    features shown, and of the sum of all others."""
    rankings: tuple[Ranking, Ranking]
    """The importance of each feature, as `bar` has it."""
    correlation: FloatArray
    """(lines,): Pearson's correlation of both attributions over the rows; NaN if one is
    constant."""
    same_largest: float
    """The share of rows, 0 to 1, in which the same feature has the largest |attribution|."""
    rows: int
    """The number of rows that both explain."""
    limits: tuple[float, float]
    """The ends of an axis that includes all attributions shown, and 0."""
    output: str
    words: str
    """The words of the axis."""
    magnitudes: tuple[FloatArray, FloatArray]
    """(lines,) of both: mean |attribution| of the features shown; of the sum of others the mean of
    its |attribution| over the rows that both explain."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The features from the top down, and the words for the sum of the others."""
        return tuple(each.feature for each in self.swarms[0])

    def heights(self, place: int, steps: int) -> tuple[FloatArray, FloatArray]:
        """The square roots of the densities (steps,) of both, for the feature at a place.

        The largest of both is 1, so that they compare.
        """
        first, second = self.shades(place, steps)
        peak = max(first.rows.max(), second.rows.max(), 1e-300)
        return (first.rows / peak) ** DEPTH, (second.rows / peak) ** DEPTH

    def shades(self, place: int, steps: int) -> tuple[Shades, Shades]:
        """The densities (steps,) of both, for the feature at a place."""
        grid = grid_of(self.limits, steps)
        first, second = (each[place].shades(grid) for each in self.swarms)
        return first, second


def side_by_side(
    cubes: Any, output: str | int | None = None, selection: Selection | None = None
) -> SideBySide:
    """The attributions of two explanations of the same rows, and how far they agree.

    Parameters
    ----------
    cubes, output : as in `compare`
    selection : the features to show; None: the 20 largest

    Raises
    ------
    InputError
        As `compare`.
    """
    named = _two_of(cubes)
    first, second = (str(name) for name in named)
    views = [view_of(each, output) for each in named.values()]
    _refuse_others((first, second), views)
    rankings = (views[0].ranking(first), views[1].ranking(second))
    chosen = shown_features(views[0], selection or Selection())
    groups: dict[str, tuple[int, ...]] = {name: (views[0].position(name),) for name in chosen.shown}
    if chosen.others:
        groups[chosen.words_of_others] = tuple(map(views[0].position, chosen.others))
    names = views[0].features
    centres = np.array(
        [
            [sum(each.mean[names[place]] for place in places) for places in groups.values()]
            for each in rankings
        ]
    )
    histograms, agreement = _histograms(views, groups, centres)
    rows = int(agreement["rows"])
    swarms = [
        tuple(Swarm(name, each[name], None, points.get(name)) for name in groups)
        for each, points in zip(histograms, _points(views, groups), strict=True)
    ]
    magnitudes = [
        np.array(
            [
                ranking.magnitude.get(name, float(found[name]["magnitudes"].sum()) / max(rows, 1))
                for name in groups
            ]
        )
        for ranking, found in zip(rankings, histograms, strict=True)
    ]
    return SideBySide(
        names=(first, second),
        features=chosen.shown,
        n_others=len(chosen.others),
        swarms=(swarms[0], swarms[1]),
        rankings=rankings,
        correlation=_correlation(agreement, centres),
        same_largest=float(agreement["same"]) / max(rows, 1),
        rows=rows,
        limits=limits_of([each for one in histograms for each in one.values()]),
        output=views[0].output_name,
        words=replace(views[0], rows=rows).words("attribution"),
        magnitudes=(magnitudes[0], magnitudes[1]),
    )


def _two_of(cubes: Any) -> Mapping[str, Any]:
    """Name -> cube of the two explanations that are given."""
    named = cubes
    if has_member(cubes, "data_vars"):
        raise InputError(
            "cubes is one cube: give two as a mapping, "
            '{"interventional": one, "observational": other}, or the path of a store of both'
        )
    if not has_member(cubes, "items"):
        named = named_cubes(as_place("cubes", cubes))
    if len(named) != 2:
        raise InputError(
            f"cubes are {len(named)} ({', '.join(map(str, named))}): give two as a mapping name -> "
            "cube"
        )
    return named


def _refuse_others(names: tuple[str, str], views: Sequence[View]) -> None:
    """Raise an `InputError` if the explanations differ in more than their attributions."""
    differing = [
        *differing_attributions(names, views),
        *_differing("rows", [f"{view.cube.sizes['instance']:,}" for view in views]),
        *_differing("output", [repr(view.output_name) for view in views]),
        *_differing("key columns", [", ".join(_key_columns(view)) or "none" for view in views]),
    ]
    if not differing and _key_columns(views[0]):
        differing = list(_other_key(*views))
    elif not differing:
        differing = list(_other_rows(*views))
    if differing:
        first, second = names
        advice = ""
        if any(each.startswith("output: ") for each in differing):
            advice = "; value functions of the same outputs take the same output_names"
        raise InputError(
            f"{first!r} and {second!r} do not explain the same rows: {'; '.join(differing)}{advice}"
        )
    warn_without_scale(dict(zip(names, views, strict=True)))


def warn_without_scale(views: Mapping[str, View]) -> None:
    """Warn if a cube has no scale, so that it is not compared with the others'."""
    if said := without_scale({name: view.cube for name, view in views.items()}):
        warnings.warn(said, RuntimeWarning, stacklevel=5)


def differing_attributions(names: tuple[str, str], views: Sequence[View]) -> Iterator[str]:
    """The features, units and scales in which two named cubes differ, in words."""
    yield from _only_in(names, [set(view.features) for view in views])
    yield from _differing("units", [repr(units_of_cube(view.cube)) for view in views])
    scales = [scale_of_cube(view.cube) for view in views]
    if scales_differ(scales):
        yield from _differing("scale", scales)


def _only_in(names: tuple[str, str], features: Sequence[set[str]]) -> Iterator[str]:
    """The features that only one of the explanations has, in words."""
    for name, alone in zip(
        names, (features[0] - features[1], features[1] - features[0]), strict=True
    ):
        if alone:
            listed = ", ".join(map(label, sorted(alone)[:LISTED]))
            yield f"only {name!r} has the features {listed}{', …' * (len(alone) > LISTED)}"


def _differing(what: str, values: Sequence[str]) -> Iterator[str]:
    """Words for a fact that is not the same in both."""
    first, second = values
    if first != second:
        yield f"{what}: {first} and {second}"


def _key_columns(view: View) -> list[str]:
    """The names of the key columns of a cube."""
    return [str(name) for name in view.cube.coords if view.cube[name].dims == ("instance",)]


def _other_key(first: View, second: View) -> Iterator[str]:
    """The first row whose key is not the same in both, in words."""
    for rows in row_slices(first.cube):
        for name in _key_columns(first):
            one, other = (
                np.asarray(view.cube[name].isel(instance=rows).values) for view in (first, second)
            )
            differs = np.flatnonzero(one != other)
            if len(differs):
                place = int(differs[0])
                yield (
                    f"row {rows.start + place:,} has the {name} {label(one[place])} and "
                    f"{label(other[place])}"
                )
                return


def _other_rows(first: View, second: View) -> Iterator[str]:
    """The first sign that rows without a key are not the same, or in another order, in words."""
    both = [view.cube for view in (first, second)]
    if all("prediction" in cube for cube in both):
        sums = tree_sum(_predictions_of(first, second, rows) for rows in row_slices(first.cube))
        if not sums["n_other"]:
            return
        totals = sums["totals"]  # (2, statistics)
        if np.allclose(totals[0], totals[1], rtol=SAME_TOTALS, atol=0.0):
            yield (
                "their predictions are the same numbers in a different order: give both in the "
                "same order"
            )
            return
    columns = [_columns_or_none(view) for view in (first, second)]
    for name in columns[0]:
        if name not in columns[1]:
            continue
        for rows in row_slices(first.cube):
            one, other = (each[name](rows) for each in columns)
            place = _first_other(one, other)
            if place is not None:
                yield (
                    f"row {rows.start + place:,} has the {label(name)} {label(one[place])} and "
                    f"{label(other[place])}"
                )
                return


def _predictions_of(first: View, second: View, rows: slice) -> Moments:
    """The number of these rows whose predictions differ, and sums (2, statistics) of both."""
    one, other = (
        rows_of(view.cube, "prediction", rows)[:, view.output].astype(np.float64)
        for view in (first, second)
    )
    differs = ~np.isclose(one, other, rtol=SAME_PREDICTION, atol=0.0, equal_nan=True)
    totals = [
        [np.nansum(each), np.nansum(np.abs(each)), np.nansum(np.square(each))]
        for each in (one, other)
    ]
    return Moments({"n_other": np.array(np.count_nonzero(differs)), "totals": np.array(totals)})


def _columns_or_none(view: View) -> Columns:
    """The columns of the rows of a cube; none if these are not known."""
    try:
        return columns_of(view.cube)
    except InputError:
        return Columns({})


def _first_other(one: NDArray[Any], other: NDArray[Any]) -> int | None:
    """The place of the first of two columns' values that are not the same; None without one."""
    if has_order(one) != has_order(other):
        return None
    if has_order(one):
        numbers = as_numbers(one)
        others = as_numbers(other)
        differs = ~((numbers == others) | (np.isnan(numbers) & np.isnan(others)))
    else:
        differs = as_texts(one) != as_texts(other)
    places = np.flatnonzero(differs)
    if not len(places):
        return None
    return int(places[0])


def _histograms(
    views: Sequence[View], groups: Mapping[str, tuple[int, ...]], centres: FloatArray
) -> tuple[list[dict[str, Moments]], Moments]:
    """The histograms of both over the rows that both explain, and sums of how far they agree.

    `groups` are the lines: name -> positions of the features whose attributions are added up.
    """
    first, second = views
    order = [second.position(name) for name in first.features]
    sums = [{name: TreeSum[Moments]() for name in groups} for _ in views]
    agreement = TreeSum[Moments]()
    for rows in row_slices(first.cube):
        both = np.stack([first.attributions(rows), second.attributions(rows)[:, order]])
        is_there = ~np.isnan(both).any(axis=(0, 2))
        if not is_there.all():
            both = both[:, is_there]  # (2, n, d)
        largest = np.abs(both).argmax(axis=2)
        both = np.stack(  # (2, lines, n)
            [both[..., list(places)].sum(axis=2) for places in groups.values()], axis=1
        )
        # less their means, so that squares and products lose no digits to cancellation
        agreement.add(_agreement_of(both - centres[..., None], largest))
        none = np.zeros(both.shape[2], np.int64)
        for each, phi in zip(sums, both, strict=True):
            for name, values in zip(groups, phi, strict=True):
                each[name].add(histogram_of(values, none, 1))
    found = [{name: total.total() for name, total in each.items()} for each in sums]
    return found, agreement.total()


def _agreement_of(both: FloatArray, largest: NDArray[np.int64]) -> Moments:
    """Sums over rows of attributions (2, d, n) and of their products, and numbers of rows.

    Rows are counted all, and those whose largest feature (2, n) is the same.
    """
    return Moments(
        {
            "rows": np.array(both.shape[2]),
            "same": np.array(np.count_nonzero(largest[0] == largest[1])),
            "sums": both.sum(axis=2),
            "squares": np.square(both).sum(axis=2),
            "products": (both[0] * both[1]).sum(axis=1),
        }
    )


def _correlation(agreement: Moments, centres: FloatArray) -> FloatArray:
    """Pearson's correlation (d,), from sums of attributions less `centres` (2, d)."""
    n_rows = max(int(agreement["rows"]), 1)
    means = agreement["sums"] / n_rows
    variances = agreement["squares"] / n_rows - np.square(means)
    covariance = agreement["products"] / n_rows - means.prod(axis=0)
    varies = (variances > ROUNDING * np.square(centres)).all(axis=0)
    scale = np.sqrt(np.maximum(variances, 0.0).prod(axis=0))
    return np.divide(covariance, scale, out=np.full(len(scale), np.nan), where=varies)


def _points(
    views: Sequence[View], groups: Mapping[str, tuple[int, ...]]
) -> list[dict[str, Record]]:
    """The points of both, by line; none if there are too many rows."""
    points: list[dict[str, Record]] = [{} for _ in views]
    if max(view.rows for view in views) >= FEW_ROWS:
        return points
    whole = slice(0, views[0].cube.sizes["instance"])
    names = views[0].features
    for view, each in zip(views, points, strict=True):
        phi = view.attributions(whole)
        for line, places in groups.items():
            own = phi[:, [view.position(names[place]) for place in places]].sum(axis=1)
            each[line] = Record({"attributions": own})
    return points
