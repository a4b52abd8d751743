"""One row broken down: base value, each feature's attribution, prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dshap.blocks import Status
from dshap.cube import find_row, kept_row, open_cube, row_key
from dshap.report.ranking import decimals_of, number

__all__ = ["Breakdown", "breakdown", "breakdown_lines"]


@dataclass(frozen=True)
class Part:
    """One explanation of the row, for one output: base_value + Σ attribution = prediction."""

    label: str
    base_value: float
    attribution: Mapping[str, float]
    """feature -> attribution; NaN where the row has none."""
    prediction: float
    status: str


@dataclass(frozen=True)
class Breakdown:
    """A row under one or several explanations."""

    position: int
    key: Mapping[str, str]
    values: Mapping[str, Any]
    """column -> value of the row, where the cube keeps them."""
    parts: tuple[Part, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def breakdown(cubes: Mapping[str, Path], instance: Sequence[str | int] | None = None) -> Breakdown:
    """The row with this key (the first row when None) in every cube (name -> path); reads one chunk of each."""
    first = next(iter(cubes.values()))
    position = 0 if instance is None else find_row(first, instance)
    parts = tuple(part for name, path in cubes.items() for part in _parts(name, path, position))
    written = [path for name, path in cubes.items() if _status_of(parts, name) in ("ok", "skipped")]
    values = next((kept for path in written if (kept := kept_row(path, position))), {})
    return Breakdown(position, row_key(written[0], position) if written else {}, values, parts)


def _status_of(parts: Sequence[Part], name: str) -> str:
    return next(part.status for part in parts if part.label == name or part.label.startswith(f"{name}, "))


def _parts(name: str, path: Path, position: int) -> list[Part]:
    row = open_cube(path).isel(instance=position).load()
    outputs = [str(output) for output in row["output"].values]
    features = _features(row)
    return [
        Part(
            name if len(outputs) == 1 else f"{name}, {output}",
            float(row["base_value"].values[j]),
            dict(zip(features, row["attribution"].values[: len(features), j].tolist(), strict=True)),
            float(row["prediction"].values[j]),
            Status.MEANINGS[int(row["status"])],
        )
        for j, output in enumerate(outputs)
    ]


def _features(row: Any) -> list[str]:
    """Names of the players of one row of a cube; of a text its tokens, after their position."""
    names = [str(feature) for feature in row["feature"].values]
    if not {"length", "token"} <= set(row.data_vars):
        return names
    return [f"{name} {token}" for name, token in zip(names[: int(row["length"])], row["token"].values, strict=False)]


def breakdown_lines(row: Breakdown, units: str = "") -> list[str]:
    """A table: base value, features by magnitude under the first explanation, prediction; the columns add up."""
    features = list(dict.fromkeys(feature for part in row.parts for feature in part.attribution))
    features.sort(key=lambda name: -np.nan_to_num(abs(row.parts[0].attribution.get(name, 0.0))))
    numbers = [value for part in row.parts for value in (part.base_value, part.prediction, *part.attribution.values())]
    decimals = decimals_of(numbers)
    width = max(len("base value"), *map(len, features))
    shown = {name: _shown(row.values[name]) for name in features if name in row.values}
    value_width = max([2, *(len(text) + 2 for text in shown.values())])
    column = max(14, *(len(part.label) + 2 for part in row.parts))

    def line(name: str, value: str, cells: Sequence[str]) -> str:
        return f"{name:<{width}}{value:>{value_width}}" + "".join(f"{cell:>{column}}" for cell in cells)

    named = ", ".join(f"{name} = {value}" for name, value in row.key.items()) or f"row {row.position}"
    return [
        f"one row ({named})" + (f", {units}" if units not in ("", "1") else "") + _states(row),
        line("", "", [part.label for part in row.parts]),
        line("base value", "", [number(part.base_value, decimals) for part in row.parts]),
        *(
            line(name, shown.get(name, ""),
                 [number(part.attribution.get(name), decimals, sign=True) for part in row.parts])
            for name in features
        ),
        line("prediction", "", [number(part.prediction, decimals) for part in row.parts]),
    ]  # fmt: skip


def _states(row: Breakdown) -> str:
    """Why there are no numbers, where there are none."""
    states = [f"{part.label}: {part.status}" for part in row.parts if part.status != "ok"]
    return f" ({'; '.join(states)})" if states else ""


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
