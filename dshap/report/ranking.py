"""Global rankings: mean |attribution| of each feature, from the block summaries of the cubes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dshap.cube import feature_ranking
from dshap.report.numbers import decimals_of, number

__all__ = ["Ranking", "ranking_lines", "rankings"]


@dataclass(frozen=True)
class Ranking:
    """How much each feature matters in one explanation, for one output."""

    label: str
    """The explanation, and the output where there are several."""
    rows: int
    """Rows that are finished and counted."""
    magnitude: Mapping[str, float]
    """feature -> mean |attribution|."""
    mean: Mapping[str, float]
    """feature -> mean attribution."""
    magnitude_error: Mapping[str, float] = field(default_factory=dict)
    """feature -> standard error of mean |attribution| from sampling coalitions; 0 where every coalition counts."""
    mean_error: Mapping[str, float] = field(default_factory=dict)
    """feature -> standard error of the mean attribution."""

    @property
    def has_errors(self) -> bool:
        """True where coalitions were sampled."""
        return any(error != 0.0 for error in self.magnitude_error.values())


def rankings(cubes: Mapping[str, Path]) -> list[Ranking]:
    """The ranking of each explanation (name -> cube) and output over the blocks that are finished, in milliseconds."""
    return [ranking for name, path in cubes.items() for ranking in _of_cube(name, path)]


def _of_cube(name: str, path: Path) -> list[Ranking]:
    table = feature_ranking(path)
    outputs = [str(output) for output in table["output"].values]
    features = [str(feature) for feature in table["feature"].values]
    names = ("mean_magnitude", "mean", "mean_magnitude_std_error", "mean_std_error")
    return [
        Ranking(
            name if len(outputs) == 1 else f"{name}, {output}",
            table.attrs["rows"],
            *(dict(zip(features, table[own].isel(output=j).values.tolist(), strict=True)) for own in names),
        )
        for j, output in enumerate(outputs)
    ]


def features_of(given: Sequence[Ranking]) -> list[str]:
    """Every feature, the largest of the first ranking first."""
    names = list(dict.fromkeys(feature for ranking in given for feature in ranking.magnitude))
    return sorted(names, key=lambda name: -given[0].magnitude.get(name, 0.0))


def ranking_lines(given: Sequence[Ranking], units: str = "") -> list[str]:
    """A table: features down, for each explanation mean |attribution| and mean; sorted by the first.

    Where coalitions were sampled, the standard error stands behind each.
    """
    features = features_of(given)
    decimals = decimals_of(value for ranking in given for value in ranking.magnitude.values())
    width = max(len("feature"), *map(len, features))
    half = 24 if any(ranking.has_errors for ranking in given) else 12
    column = max(2 * half, *(len(ranking.label) + 2 for ranking in given))
    heads = "".join(f"{'mean |φ|':>{column - half}}{'mean φ':>{half}}" for _ in given)
    lines = [
        "attributions" + (f" ({units})" if units not in ("", "1") else "") + ", over "
        + ", ".join(f"{ranking.rows:,} rows ({ranking.label})" for ranking in given),
        " " * width + "".join(f"{ranking.label:>{column}}" for ranking in given),
        f"{'feature':<{width}}{heads}",
    ]  # fmt: skip
    for feature in features:
        cells = "".join(
            f"{_with_error(ranking, ranking.magnitude, ranking.magnitude_error, feature, decimals):>{column - half}}"
            f"{_with_error(ranking, ranking.mean, ranking.mean_error, feature, decimals, sign=True):>{half}}"
            for ranking in given
        )
        lines.append(f"{feature:<{width}}{cells}")
    return lines


def _with_error(
    ranking: Ranking,
    values: Mapping[str, float],
    errors: Mapping[str, float],
    feature: str,
    decimals: int,
    sign: bool = False,
) -> str:
    """12.34, or 12.34 ± 0.05 where coalitions were sampled."""
    text = number(values.get(feature), decimals, sign=sign)
    return f"{text} ± {number(errors.get(feature), decimals)}" if ranking.has_errors else text
