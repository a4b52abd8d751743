"""The importance of each feature: mean |attribution| and mean, with their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.places import Place
from dshap.core.records import FloatArray
from dshap.cube import feature_importance

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
    table = feature_importance(path)
    outputs = [str(output) for output in table["output"].values]
    return [
        output_ranking(name if len(outputs) == 1 else f"{name}, {output}", table, j)
        for j, output in enumerate(outputs)
    ]


def output_ranking(name: str, table: Any, output: int) -> Ranking:
    """The ranking of one output, from the table of `feature_ranking` or `global_means`."""
    features = [str(feature) for feature in table["feature"].values]

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
