"""One row broken down: its attributions in one or several explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dshap.analysis.measures import scale_of_cube
from dshap.core.blocks import Status
from dshap.core.places import Place
from dshap.cube import find_row, kept_row, open_cube, row_key


@dataclass(frozen=True)
class RowExplanation:
    """One explanation of a row, for one output: base_value + Σ attribution = prediction."""

    label: str
    base_value: float
    attribution: Mapping[str, float]
    """Feature -> attribution; NaN where the row has none."""
    prediction: float
    status: str
    scale: str = ""
    """The scale of these numbers; empty where the cube states none."""


@dataclass(frozen=True)
class Breakdown:
    """One row under one or several explanations."""

    position: int
    key: Mapping[str, str]
    values: Mapping[str, Any]
    """Column -> value of the row, where the cube keeps them."""
    parts: tuple[RowExplanation, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def breakdown(cubes: Mapping[str, Place], instance: Sequence[str | int] | None = None) -> Breakdown:
    """Break down one row, by its key, in every cube (name -> path); None: the first row.

    It reads one chunk of each cube.
    """
    first = next(iter(cubes.values()))
    if instance is None:
        position = 0
    else:
        position = find_row(first, instance)
    parts = tuple(part for name, path in cubes.items() for part in _parts(name, path, position))
    written = [path for name, path in cubes.items() if _status_of(parts, name) in ("ok", "skipped")]
    values = next((kept for path in written if (kept := kept_row(path, position))), {})
    return Breakdown(position, row_key(written[0], position) if written else {}, values, parts)


def _status_of(parts: Sequence[RowExplanation], name: str) -> str:
    return next(
        part.status for part in parts if part.label == name or part.label.startswith(f"{name}, ")
    )


def _parts(name: str, path: Place, position: int) -> list[RowExplanation]:
    row = open_cube(path).isel(instance=position).load()
    outputs = [str(output) for output in row["output"].values]
    features = row_features(row)
    return [
        RowExplanation(
            name if len(outputs) == 1 else f"{name}, {output}",
            float(row["base_value"].values[j]),
            dict(
                zip(features, row["attribution"].values[: len(features), j].tolist(), strict=True)
            ),
            float(row["prediction"].values[j]),
            Status.MEANINGS[int(row["status"])],
            scale_of_cube(row),
        )
        for j, output in enumerate(outputs)
    ]


def row_features(row: Any) -> list[str]:
    """Names of the players of one row; for a text its tokens, each after its position."""
    names = [str(feature) for feature in row["feature"].values]
    if not {"length", "token"} <= set(row.data_vars):
        return names
    return [
        f"{name} {token}"
        for name, token in zip(names[: int(row["length"])], row["token"].values, strict=False)
    ]
