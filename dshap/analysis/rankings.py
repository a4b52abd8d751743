"""The importance of each feature, with its errors, and how far rankings agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.agreement import ndcg, spearman
from dshap.core.places import Place
from dshap.core.records import FloatArray
from dshap.cube import Importance, stored_importance
from dshap.cube.datasets import names_along

MANY_FEATURES = 300
"""The number of features above which mean |φ| from sampled coalitions is marked as too small: by 21
to 92 %, in games of known values."""
INTERVAL = 1.96
"""Standard errors on each side of a mean in an interval that covers 95 %."""


@dataclass(frozen=True)
class Ranking:
    """The importance of each feature in one explanation, for one output."""

    label: str
    """The name of the explanation, with the output where there are several."""
    rows: int
    """The number of finished rows that are counted."""
    magnitude: Mapping[str, float]
    """Feature -> mean |attribution|."""
    mean: Mapping[str, float]
    """Feature -> mean attribution."""
    magnitude_error: Mapping[str, float] = field(default_factory=dict)
    """Feature -> standard error of mean |attribution| from sampled coalitions; 0 where all
    coalitions count."""
    mean_error: Mapping[str, float] = field(default_factory=dict)
    """Feature -> standard error of the mean attribution."""
    scale: str = ""
    """The scale of the attributions; empty where the cube states none."""

    @property
    def has_errors(self) -> bool:
        """Whether the means have standard errors."""
        return any(error != 0.0 for error in self.magnitude_error.values())

    @property
    def is_too_small(self) -> bool:
        """Whether mean |φ| is biased towards 0: few coalitions were sampled for many features."""
        return self.has_errors and len(self.magnitude) > MANY_FEATURES


def rankings(cubes: Mapping[str, Place]) -> list[Ranking]:
    """Rank the features of each explanation (name -> cube) and output over its finished blocks.

    It takes milliseconds.  An explanation without a finished row has no ranking.
    """
    return [
        ranking for name, path in cubes.items() for ranking in _of_cube(name, path) if ranking.rows
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
    return Ranking(
        label,
        found.rows,
        named(magnitude.value),
        named(mean.value),
        named(magnitude.std_error),
        named(mean.std_error),
        found.scale,
    )


def label_of(name: str, output: str, n_outputs: int) -> str:
    """The name of an explanation, with the output where there are several."""
    if n_outputs == 1:
        return name
    return f"{name}, {output}"


def output_ranking(name: str, table: Any, output: int) -> Ranking:
    """The ranking of one output, from the table of `feature_ranking` or `global_means`."""
    features = names_along(table, "feature")

    def of(statistic: str) -> dict[str, float]:
        values = table[statistic].isel(output=output).values.tolist()
        return dict(zip(features, values, strict=True))

    return Ranking(
        name,
        table.attrs["rows"],
        of("mean_magnitude"),
        of("mean"),
        of("mean_magnitude_std_error"),
        of("mean_std_error"),
        table.attrs.get("scale", ""),
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
