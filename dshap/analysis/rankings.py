"""The importance of each feature, with its errors, and how far rankings agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.agreement import ndcg, spearman
from dshap.core.annotations import CubesLike
from dshap.core.places import Place
from dshap.core.records import FloatArray
from dshap.cube import Importance, stored_importance
from dshap.cube.datasets import names_along
from dshap.cube.given_cubes import given_cubes

MANY_FEATURES = 300
"""The number of features above which mean |φ| from sampled coalitions is marked as too small: by 21
to 92 %, in games of known values."""
CONFIDENCE = 0.95
LEAST_ROWS = 10
"""The fewest rows whose means have an interval: of fewer, the spread is hardly known."""
INTERVAL = 1.96
"""Standard errors on each side of a mean in an interval that covers 95 %."""


@dataclass(frozen=True)
class Ranking:
    """The importance of each feature in one explanation, for one output.

    Examples
    --------
    >>> from dshap.report import Ranking
    >>> ranking = Ranking("prices", rows=5, magnitude={"rooms": 3.0}, mean={"rooms": -1.0})
    >>> ranking.has_too_few_rows, ranking.has_errors  # no interval of fewer than ten rows
    (True, False)
    """

    label: str
    """The name of the explanation, with the output if there are several."""
    rows: int
    """The number of finished rows that are counted."""
    magnitude: Mapping[str, float]
    """Feature -> mean |attribution|."""
    mean: Mapping[str, float]
    """Feature -> mean attribution."""
    magnitude_error: Mapping[str, float] = field(default_factory=dict)
    """Feature -> standard error of mean |attribution| from sampled coalitions; 0 if all
    coalitions count."""
    mean_error: Mapping[str, float] = field(default_factory=dict)
    """Feature -> standard error of the mean attribution."""
    scale: str = ""
    """The scale of the attributions; empty if the cube states none."""
    magnitude_spread: Mapping[str, float] = field(default_factory=dict)
    """Feature -> standard error of mean |attribution| over rows, as a sample of more rows like them."""
    mean_spread: Mapping[str, float] = field(default_factory=dict)
    """Feature -> standard error of the mean attribution over rows, as in `magnitude_spread`."""

    @property
    def has_too_few_rows(self) -> bool:
        """Whether there are too few rows for an interval."""
        return self.rows < LEAST_ROWS

    @property
    def has_intervals(self) -> bool:
        """Whether a mean |attribution| has an interval that is wider than 0, or not known."""
        if self.has_too_few_rows:
            return False
        return any(self.half_width(feature) != 0 for feature in self.magnitude)

    def half_width(self, feature: str) -> float:
        """Half the width of the 95 % interval of mean |attribution|; NaN if it is not known.

        It is √((t s/√n)² + (1.96 e)²).  s/√n is the standard error over the n rows, which count as a
        sample of more rows like them, and t the quantile of Student's distribution with n − 1 degrees
        of freedom.  e is the standard error from sampled coalitions and draws.  With fewer than ten
        rows the interval is not known.
        """
        return self._half_width(feature, self.magnitude_error, self.magnitude_spread)

    def mean_half_width(self, feature: str) -> float:
        """Half the width of the 95 % interval of the mean attribution, as `half_width`."""
        return self._half_width(feature, self.mean_error, self.mean_spread)

    def interval(self, feature: str) -> tuple[float, float]:
        """The 95 % interval (low, high) of mean |attribution|; `low` is at least 0."""
        mean = self.magnitude[feature]
        half = self.half_width(feature)
        return max(mean - half, 0.0), mean + half

    def _half_width(
        self, feature: str, errors: Mapping[str, float], spreads: Mapping[str, float]
    ) -> float:
        if self.has_too_few_rows:
            return math.nan
        of_rows = student_reach(self.rows - 1) * spreads.get(feature, 0.0)
        return math.hypot(of_rows, INTERVAL * errors.get(feature, 0.0))

    @property
    def has_errors(self) -> bool:
        """Whether the means have standard errors."""
        return any(error != 0.0 for error in self.magnitude_error.values())

    @property
    def is_too_small(self) -> bool:
        """Whether mean |φ| is biased towards 0: few coalitions were sampled for many features."""
        return self.has_errors and len(self.magnitude) > MANY_FEATURES


def student_reach(degrees: int) -> float:
    """The quantile of Student's distribution within which 95 % are, of at least 9 degrees of freedom.

    The expansion about the normal quantile (Abramowitz and Stegun, 26.7.5) is right to 5 digits there;
    scipy has it exactly, and takes longer to import than a ranking takes.
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return sum(term / degrees**power for power, term in enumerate(terms))


def rankings(cubes: CubesLike) -> list[Ranking]:
    """Rank the features of each explanation and output over its finished blocks.

    This takes milliseconds, because it reads the summaries of the blocks instead of attributions.

    Parameters
    ----------
    cubes : mapping, path or xarray.Dataset
        Name -> path of a cube or an opened cube; or the path of a store, with all of its cubes; or
        one opened cube.

    Returns
    -------
    list of Ranking
        One for each explanation and output; an explanation without a finished row has none.

    Raises
    ------
    InputError
        `cubes` is none of these, there is no such store, or the attributions of a Dataset are not
        exactly those of its store.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dshap
    >>> rows = np.random.default_rng(0).normal(size=(50, 2))
    >>> value = dshap.values.Marginal(lambda x: 3 * x[:, 0] - x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Path(folder, "cube")
    ...     cube = dshap.explain(value, rows, store=store, progress=False)
    ...     (ranking,) = dshap.report.rankings({"prices": store})
    >>> ranking.rows, max(ranking.magnitude, key=ranking.magnitude.get)
    (50, 'x0')
    """
    return [
        ranking
        for name, path in given_cubes(cubes).items()
        for ranking in _of_cube(name, path)
        if ranking.rows
    ]


def _of_cube(name: str, path: Place) -> list[Ranking]:
    found = stored_importance(path)
    return [
        _ranking(label_of(name, output, len(found.outputs)), found, j)
        for j, output in enumerate(found.outputs)
    ]


def _ranking(label: str, found: Importance, output: int) -> Ranking:
    """The ranking of one output."""

    def named(values: FloatArray) -> dict[str, float]:
        return dict(zip(found.features, values[:, output].tolist(), strict=True))

    magnitude = found.means["mean_magnitude"]
    mean = found.means["mean"]
    square = found.means["mean_square"].value
    return Ranking(
        label,
        found.rows,
        named(magnitude.value),
        named(mean.value),
        named(magnitude.std_error),
        named(mean.std_error),
        found.scale,
        named(spread_of(magnitude.value, square, found.rows)),
        named(spread_of(mean.value, square, found.rows)),
    )


def spread_of(mean: FloatArray, square: FloatArray, rows: int) -> FloatArray:
    """The standard error over rows of means with these mean squares: √((E x² − (E x)²)/(n − 1)).

    0 if there is one row.
    """
    return np.sqrt(np.maximum(square - np.square(mean), 0.0) / max(rows - 1, 1))


def label_of(name: str, output: str, n_outputs: int) -> str:
    """The name of an explanation, with the output if there are several."""
    if n_outputs == 1:
        return name
    return f"{name}, {output}"


def output_ranking(name: str, table: Any, output: int) -> Ranking:
    """The ranking of one output, from the table of `feature_ranking` or `global_means`."""
    features = names_along(table, "feature")

    def values(statistic: str) -> FloatArray:
        return np.asarray(table[statistic].isel(output=output).values, np.float64)

    def named(found: FloatArray) -> dict[str, float]:
        return dict(zip(features, found.tolist(), strict=True))

    rows = int(table.attrs["rows"])
    magnitude = values("mean_magnitude")
    mean = values("mean")
    square = values("mean_square")
    return Ranking(
        name,
        rows,
        named(magnitude),
        named(mean),
        named(values("mean_magnitude_std_error")),
        named(values("mean_std_error")),
        table.attrs.get("scale", ""),
        named(spread_of(magnitude, square, rows)),
        named(spread_of(mean, square, rows)),
    )


def features_of(given: Sequence[Ranking]) -> list[str]:
    """Every feature, sorted by the first ranking, largest first."""
    names = list(dict.fromkeys(feature for ranking in given for feature in ranking.magnitude))
    return sorted(names, key=lambda name: -given[0].magnitude.get(name, 0.0))


def places_of(mean: FloatArray) -> NDArray[np.int64]:
    """(d,): the place of each feature by mean |φ|, from 1; of equal ones the first comes first."""
    places = np.empty(len(mean), np.int64)
    places[np.argsort(-mean, kind="stable")] = np.arange(1, len(mean) + 1)
    return places


@dataclass(frozen=True)
class RankingAgreement:
    """The rankings of e explanations over the same d features; a feature without a value has 0."""

    features: tuple[str, ...]
    """By mean |attribution| of the first explanation, largest first."""
    worths: FloatArray
    """(e, d): mean |attribution|."""
    places: NDArray[np.int64]
    """(e, d): the place of each feature, from 1."""
    ndcg: tuple[float, ...]
    """(e,): nDCG with the mean |attributions| of the first explanation as worths."""
    spearman: tuple[float, ...]
    """(e,): Spearman's correlation with the ranking of the first explanation."""


def ranking_agreement(given: Sequence[Ranking]) -> RankingAgreement:
    """Compare each of these rankings with the first."""
    names = features_of(given)
    worths = np.array([[each.magnitude.get(name, 0.0) for name in names] for each in given])
    return RankingAgreement(
        features=tuple(names),
        worths=worths,
        places=np.array([places_of(each) for each in worths]),
        ndcg=tuple(ndcg(worths[0], each) for each in worths),
        spearman=tuple(spearman(worths[0], each) for each in worths),
    )
