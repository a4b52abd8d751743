"""The part of a page that recomputes a row: models, rows with their exact values, and controls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.column_texts import ColumnTexts, texts_of
from dshap.core.errors import InputError
from dshap.core.printing import label
from dshap.core.records import FloatArray
from dshap.cube import feature_ranking, read_notes
from dshap.cube.blocks import CubeArrays
from dshap.cube.reader import key_texts
from dshap.report.what_if.keeping import reason_of_none, stored_what_if
from dshap.report.what_if.model_record import MAX_BYTES, MAX_MODEL_BYTES
from dshap.report.what_if.packing import packed, packed_bytes

TAIL = 0.005
"""The share of rows beyond each end of a slider, where the tails of a column are long."""
FORMAT = re.compile(r"(,?)(?:\.(\d\d?))?([f%])")
"""The formats of Python in which the script can write numbers."""
DECIMALS = 6
"""The decimals of a format without a number of decimals, as in Python."""
LONGEST_ABOUT = 300
"""The most characters of a description."""
MOST_NAMED = 50
"""The most named values of a number column for which the control is a list of names."""
LONG = 3.0
"""A tail is long if the range is so many times the range of all other rows."""
STEPS = 200
"""About the steps of a slider."""
SCRIPTS = ("games.js", "what_if.js")
"""The scripts beside this module, in their order."""


def what_if_scripts() -> list[str]:
    """The texts of the scripts that compute a row, and show the result."""
    files = resources.files(__package__)
    return [(files / name).read_text(encoding="utf-8") for name in SCRIPTS]


@dataclass(frozen=True)
class WhatIfPart:
    """The part of a page, in the form for its template; all empty if none was asked for."""

    content: Mapping[str, Any] = MappingProxyType({})
    """Plain values that the script reads; empty if no explanation has a model."""
    sentences: tuple[str, ...] = ()
    """Sentences for the page: the models that it contains, and reasons if there is none."""


@dataclass(frozen=True)
class PageColumn:
    """A column that a model reads, with its values in the rows of the page."""

    name: str
    kind: str
    """"number", "boolean" or "category"."""
    values: FloatArray
    """(n,): numbers, 0 and 1, or positions among the texts; NaN if missing."""
    texts: tuple[str, ...] = ()
    """The categories, as they are shown."""
    numbers: tuple[float, ...] = ()
    """The number that the model gets for each text; empty if it gets the text's position."""


def what_if_part(
    cubes: Mapping[str, CubeArrays],
    keys: Sequence[Sequence[str]],
    features: Sequence[str],
    part_of: Mapping[tuple[str, str], int],
    first_rows: Sequence[int] = (),
) -> WhatIfPart:
    """Make the part of a page.

    Parameters
    ----------
    cubes : explanation -> its arrays; all explain the same rows
    keys : the key of each row of the page, as texts
    features : the players, in the order of the page
    part_of : (explanation, output) -> the position of a waterfall on the page
    first_rows : rows of the page that are chosen if not all fit

    Raises
    ------
    InputError
        No cube has a record of a what-if.
    """
    stored = {name: stored_what_if(arrays.path) for name, arrays in cubes.items()}
    if not any(stored.values()):
        raise InputError(
            "what_if needs the model, which the store does not contain: the same explain(..., "
            "what_if=True) again adds it, or [report] what_if = true and dshap run"
        )
    without = {name: reason_of_none(content) for name, content in stored.items()}
    models = {name: content for name, content in stored.items() if content and not without[name]}
    for name, reason in _beside_others(models).items():
        without[name] = reason
        del models[name]
    reasons = [
        f"{label(name)}: there is no what-if: {reason}."
        for name, reason in without.items()
        if reason
    ]
    if not models:
        return WhatIfPart(sentences=tuple(reasons))
    first = cubes[next(iter(models))]
    columns = list(dict.fromkeys(each for one in models.values() for each in one["columns"]))
    missing = [name for name in columns if name not in first.columns]
    if missing:
        said = (
            f"There is no what-if: the values of {label(missing[0])} were not kept "
            "(keep_rows=True, or [run] keep_rows = true, keeps them)."
        )
        return WhatIfPart(sentences=(said, *reasons))
    return _with_models(cubes, models, columns, keys, features, part_of, first_rows, reasons)


def _beside_others(models: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Explanation -> reason, for each model that does not fit after the models before it."""
    used = 0
    refused = {}
    for name, model in models.items():
        n_bytes = packed_bytes(model["arrays"])
        if used + n_bytes > MAX_MODEL_BYTES:
            refused[name] = f"the models take more than {MAX_MODEL_BYTES // 1000} kB together"
        else:
            used += n_bytes
    return refused


def _with_models(
    cubes: Mapping[str, CubeArrays],
    models: Mapping[str, Mapping[str, Any]],
    columns: Sequence[str],
    keys: Sequence[Sequence[str]],
    features: Sequence[str],
    part_of: Mapping[tuple[str, str], int],
    first_rows: Sequence[int],
    reasons: Sequence[str],
) -> WhatIfPart:
    """The part with these models, and as many rows of the page as fit."""
    arrays = cubes[next(iter(models))]
    places = _places_of(arrays, keys)
    categories = {
        name: tuple(kept) for one in models.values() for name, kept in one["categories"].items()
    }
    words = texts_of(arrays.path)
    found = [
        _page_column(name, _read(arrays, name, places), categories.get(name), words)
        for name in columns
    ]
    content_of_models = [
        _model_content(cubes[name], name, one, columns, features, part_of)
        for name, one in models.items()
    ]
    used = packed_bytes(content_of_models)
    chosen = _rows_within(MAX_BYTES - used, found, len(keys), first_rows)
    order = _order(cubes, models, columns)
    content = {
        "features": [words.label_of(name) for name in features],
        "columns": [_control(each, _player_of(each.name, models), words) for each in found],
        "models": content_of_models,
        "order": order,
        "without": [words.label_of(name) for i, name in enumerate(columns) if i not in order],
        "keys": [list(keys[row]) for row in chosen],
        "values": [packed(each.values[chosen]) for each in found],
    }
    return WhatIfPart(
        content,
        (*_contained(models, len(cubes), len(chosen), len(keys)), *reasons),
    )


def _contained(
    models: Mapping[str, Mapping[str, Any]], n_explanations: int, n_rows: int, n_page_rows: int
) -> Iterator[str]:
    """Sentences about the parts of the models on the page."""
    kinds = {one["kind"] for one in models.values()}
    s = "s" * (len(models) > 1)
    of = f" of explanation{s} {' and '.join(map(label, models))}" * (n_explanations > 1)
    with_rows = ""
    if "kernel" in kinds:
        with_rows = ", and rows of the table that the model was fitted on or compares with"
    yield (
        f"This page contains the model{s}{of}{with_rows}, so that it can compute what the model "
        "predicts for a changed row; nothing is sent anywhere."
    )
    if n_rows < n_page_rows:
        yield (
            f"{n_rows:,} of the {n_page_rows:,} rows of this page can be changed, as many as "
            f"{MAX_BYTES // 1000} kB have room for."
        )


def _places_of(arrays: CubeArrays, keys: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """The position in the cube of each row of the page."""
    wanted = {tuple(key): row for row, key in enumerate(keys)}
    places = np.zeros(len(keys), np.int64)
    # block by block, as all keys of a cube may be more than fits in memory
    for start in range(0, arrays.n_rows, _step(arrays)):
        rows = slice(start, min(start + _step(arrays), arrays.n_rows))
        for offset, key in enumerate(_keys_of(arrays, rows)):
            row = wanted.get(key)
            if row is not None:
                places[row] = start + offset
    return places


def _step(arrays: CubeArrays) -> int:
    return max(arrays.block_rows, 1)


def _keys_of(arrays: CubeArrays, rows: slice) -> list[tuple[str, ...]]:
    if not arrays.keys:
        return [(str(row),) for row in range(rows.start, rows.stop)]
    columns = [key_texts(each).tolist() for each in arrays.rows(arrays.keys, rows).values()]
    return [tuple(map(str, key)) for key in zip(*columns, strict=True)]


def _read(arrays: CubeArrays, name: str, places: NDArray[np.int64]) -> NDArray[Any]:
    """The values of a column in the rows at these places."""
    column = {name: arrays.columns[name]}
    order = np.argsort(places, kind="stable")
    parts = []
    for start in range(0, arrays.n_rows, _step(arrays)):
        rows = slice(start, min(start + _step(arrays), arrays.n_rows))
        inside = places[order][(places[order] >= rows.start) & (places[order] < rows.stop)]
        if len(inside):
            parts.append(arrays.rows(column, rows)[name][inside - rows.start])
    values = np.concatenate(parts) if parts else np.zeros(0)
    found = np.empty_like(values)
    found[order] = values
    return found


def _page_column(
    name: str, values: NDArray[Any], categories: Sequence[Any] | None, words: ColumnTexts
) -> PageColumn:
    """A column of the page: categories, flags, numbers that all have names, or plain numbers."""
    if categories is not None:
        texts = tuple(words.value_text(name, each) for each in categories)
        return PageColumn(name, "category", _codes(values, categories), texts)
    if values.dtype.kind == "b" or words.has_flags(name):
        return PageColumn(name, "boolean", values.astype(np.float64))
    numbers = np.asarray(values, np.float64)
    named = words.entry(name).values
    different = np.unique(numbers[~np.isnan(numbers)])
    if named and len(different) <= MOST_NAMED:
        texts = tuple(words.value_text(name, each) for each in different.tolist())
        codes = _codes(numbers, different.tolist())
        return PageColumn(name, "category", codes, texts, tuple(different.tolist()))
    return PageColumn(name, "number", numbers)


def _codes(values: NDArray[Any], categories: Sequence[Any]) -> FloatArray:
    """The position of each value among the categories; NaN for missing and unknown ones."""
    place = {_comparable(each): float(code) for code, each in enumerate(categories)}
    return np.array([place.get(_comparable(each), np.nan) for each in values.tolist()], np.float64)


def _comparable(value: Any) -> Any:
    """A category in a form that equal ones share: numbers as float, all others as text."""
    # True is an int too, and would be equal to the category 1
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return float(value)
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def _model_content(
    arrays: CubeArrays,
    name: str,
    model: Mapping[str, Any],
    columns: Sequence[str],
    features: Sequence[str],
    part_of: Mapping[tuple[str, str], int],
) -> dict[str, Any]:
    """The record of a model with its places on the page."""
    notes = read_notes(arrays.path)
    kept = ("kind", "columns", "players", "player", "facts", "arrays")
    return {
        **{each: model[each] for each in kept},
        "explanation": label(name),
        "column": [columns.index(each) for each in model["columns"]],
        "feature": [features.index(each) for each in model["players"]],
        "parts": [part_of[name, output] for output in arrays.outputs],
        "outputs": [label(output) for output in arrays.outputs],
        "error": max(notes.get("closed_form", {}).get("node_error", [0.0])),
        "isSingle": arrays.read_rows("attribution", slice(0, 1)).dtype == np.float32,
    }


def _rows_within(
    n_bytes: int, columns: Sequence[PageColumn], n_rows: int, first_rows: Sequence[int]
) -> NDArray[np.int64]:
    """The rows of the page whose values fit: all, or `first_rows` and others chosen evenly."""
    whole = sum(len(packed(each.values)["data"]) for each in columns)
    if whole <= n_bytes:
        return np.arange(n_rows)
    n_even = max(1, int(n_rows * n_bytes / whole) - len(first_rows))
    even = np.linspace(0, n_rows - 1, n_even).astype(np.int64)
    return np.union1d(even, np.array(first_rows, np.int64))


def _player_of(column: str, models: Mapping[str, Mapping[str, Any]]) -> str:
    """The name of the player of a column if it has other columns too; else empty."""
    for model in models.values():
        if column in model["columns"]:
            player = model["player"][model["columns"].index(column)]
            if player >= 0 and model["player"].count(player) > 1:
                return str(model["players"][player])
    return ""


def _control(column: PageColumn, player: str, words: ColumnTexts) -> dict[str, Any]:
    """The control of a column: its label, kind, and the ends and step of its slider."""
    found: dict[str, Any] = {"name": _control_name(column.name, words), "kind": column.kind}
    if player:
        found["player"] = words.label_of(player)
    if about := words.description_of(column.name):
        found["about"] = label(about, LONGEST_ABOUT)
    if form := FORMAT.fullmatch(words.entry(column.name).format):
        comma, decimals, kind = form.groups()
        found["format"] = {
            "isGrouped": bool(comma),
            "decimals": DECIMALS if decimals is None else int(decimals),
            "isPercent": kind == "%",
        }
    if unit := words.unit_of(column.name):
        found["unit"] = unit
    if words.is_year(column.name):
        found["isYear"] = True
    if column.numbers:
        found["numbers"] = list(column.numbers)
    if column.kind == "category":
        return {**found, "texts": list(column.texts)}
    known = column.values[np.isfinite(column.values)]
    if column.kind == "boolean" or not len(known):
        return {**found, "low": 0.0, "high": 1.0, "step": 1.0}
    low, high = _ends(known)
    is_whole = bool((known == np.rint(known)).all())
    step = _step_of(high - low, is_whole)
    # ends on the steps, so that a slider stops at short numbers
    places = {"low": np.floor(low / step) * step, "high": np.ceil(high / step) * step}
    return {**found, **{end: float(f"{at:.12g}") for end, at in places.items()}, "step": step}


def _control_name(column: str, words: ColumnTexts) -> str:
    """The label of a control: the column's label, with its unit or the percent sign of its format."""
    name = words.axis_of(column)
    form = FORMAT.fullmatch(words.entry(column).format)
    if form and form.group(3) == "%" and not words.unit_of(column):
        return f"{name} (%)"
    return name


def _ends(values: FloatArray) -> tuple[float, float]:
    """The ends of a slider: the range of the values without long tails."""
    inner = np.quantile(values, [TAIL, 1.0 - TAIL], method="nearest").tolist()
    outer = [float(values.min()), float(values.max())]
    if outer[1] - outer[0] > LONG * (inner[1] - inner[0]) > 0.0:
        return inner[0], inner[1]
    return outer[0], outer[1]


def _step_of(span: float, is_whole: bool) -> float:
    """A step of 1, 2 or 5 times a power of ten for about `STEPS` steps; whole for whole numbers."""
    if not span > 0.0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(span / STEPS))
    step = float(power * next(each for each in (1, 2, 5, 10) if power * each >= span / STEPS))
    if is_whole:
        return max(1.0, step)
    return step


def _order(
    cubes: Mapping[str, CubeArrays], models: Mapping[str, Any], columns: Sequence[str]
) -> list[int]:
    """The columns that a model reads, by mean |attribution| of their player, the largest first."""
    weight: dict[str, float] = {}
    for name, model in models.items():
        ranking = feature_ranking(cubes[name].path)
        sizes = ranking["mean_magnitude"].max("output")
        mean = dict(zip(ranking["feature"].values.tolist(), sizes.values.tolist(), strict=True))
        for place in model["reads"]:
            column = model["columns"][place]
            size = float(np.nan_to_num(mean[model["players"][model["player"][place]]]))
            weight[column] = max(weight.get(column, 0.0), size)
    return sorted(map(columns.index, weight), key=lambda place: -weight[columns[place]])
