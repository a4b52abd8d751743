"""The rows of a page: keys, predictions, attributions and values, read from the cubes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.numbers_as_text import shown_value
from dshap.core.blocks import Status
from dshap.core.errors import DamagedError
from dshap.core.places import Place
from dshap.core.records import FloatArray
from dshap.cube.blocks import CubeArrays
from dshap.cube.erased_note import erased_rows
from dshap.cube.reader import key_texts
from dshap.report.pages.codes import WIDTH, number_codes, place_codes, place_width
from dshap.report.pictures.waterfall import MAX_STEPS

MISSING = {"NaT": "missing"}
"""The word for a time that is missing."""
NUMBERS = "iuf"
"""Kinds of numpy dtypes that are written as numbers; all others are written as texts."""


@dataclass(frozen=True)
class Part:
    """One output of one explanation: a waterfall of each row."""

    explanation: str
    output: str
    place: int
    """The place of the output in its cube."""


@dataclass(frozen=True)
class RowFiles:
    """A folder of files with all rows, sorted by their keys."""

    folder: str
    """Its name, beside the page."""
    firsts: Sequence[Sequence[str]]
    """The first key of each file."""


@dataclass(frozen=True)
class RowBatch:
    """Some rows, with their numbers in every part."""

    keys: Sequence[NDArray[Any]]
    """The values (n,) of each key column; the position of a row if there is none."""
    prediction: FloatArray
    """(n, p)"""
    base: FloatArray
    """(n, p); (n, 0) if base values are the same in all rows."""
    phi: FloatArray
    """(n, p, d); NaN for rows without attributions"""
    columns: Mapping[int, NDArray[Any]]
    """Place of a feature -> the values (n,) of its column."""

    def taken(self, chosen: NDArray[Any]) -> RowBatch:
        """The rows at these places of the batch, or those that are marked."""
        return RowBatch(
            [key[chosen] for key in self.keys],
            self.prediction[chosen],
            self.base[chosen],
            self.phi[chosen],
            {place: values[chosen] for place, values in self.columns.items()},
        )


@dataclass(frozen=True)
class RowTable:
    """The cubes of a store that explain the same rows, read side by side."""

    cubes: Mapping[str, CubeArrays]
    """Name of an explanation -> its arrays."""
    unreadable: dict[str, list[slice]] = field(default_factory=dict)
    """Name of an explanation -> the slices that could not be read, added as they are met."""

    @property
    def first(self) -> CubeArrays:
        return next(iter(self.cubes.values()))

    @property
    def parts(self) -> list[Part]:
        """Every output of every explanation."""
        return [
            Part(name, str(output), place)
            for name, arrays in self.cubes.items()
            for place, output in enumerate(arrays.outputs)
        ]

    @property
    def key_names(self) -> list[str]:
        return list(self.first.key_kinds) or ["position"]

    @property
    def key_kinds(self) -> list[str]:
        """Kinds of the key columns; positions are whole numbers."""
        return list(self.first.key_kinds.values()) or ["int64"]

    @property
    def top(self) -> int:
        """The number of attributions that are written for each row; the others are summed up."""
        d = len(self.first.features)
        if d <= MAX_STEPS:
            return d
        return MAX_STEPS - 1

    @property
    def values_shown(self) -> int:
        """The most values of columns that are written for a row, by its largest attributions."""
        return min(len(self.first.features), self.top * len(self.parts))

    def slices(self) -> Iterator[slice]:
        """Slices of the rows, one for each block, because a damaged block cannot be read at all."""
        n_rows = self.first.n_rows
        step = max(self.first.block_rows, 1)
        for start in range(0, n_rows, step):
            yield slice(start, min(start + step, n_rows))

    def keys(self, rows: slice) -> list[NDArray[Any]]:
        """The keys of these rows, column by column: numbers, texts or times."""
        if not self.first.keys:
            return [np.arange(rows.start, rows.stop)]
        return list(self.first.rows(self.first.keys, rows).values())

    def attributions(self, rows: slice) -> tuple[FloatArray, FloatArray] | None:
        """Predictions (n, p) and attributions (n, p, d) of these rows; None if one is damaged."""
        predictions = []
        found = []
        for name, arrays in self.cubes.items():
            try:
                phi = arrays.read_rows("attribution", rows).astype(np.float64, copy=False)
                predictions.append(arrays.read_rows("prediction", rows))
            except DamagedError:
                self._note(name, rows)
                return None
            # NaN beyond the end of a text would make the row count as one without numbers.
            if arrays.has("length"):
                beyond = np.arange(phi.shape[1]) >= arrays.read_rows("length", rows)[:, None]
                phi[beyond] = 0.0
            found.append(phi.transpose(0, 2, 1))
        return np.concatenate(predictions, axis=1), np.concatenate(found, axis=1)

    @property
    def fixed_base(self) -> list[float] | None:
        """The base value of each part; None if they differ from row to row."""
        values = [arrays.base_value for arrays in self.cubes.values()]
        known = [each.tolist() for each in values if each is not None]
        if len(known) < len(values):
            return None
        return [number for each in known for number in each]

    def bases(self, rows: slice) -> FloatArray:
        """Base values (n, p) of these rows; (n, 0) if they are the same in all rows."""
        n = rows.stop - rows.start
        if self.fixed_base is not None:
            return np.zeros((n, 0))
        found = []
        for arrays in self.cubes.values():
            values = arrays.base_value
            if values is None:
                values = arrays.read_rows("base_value", rows).astype(np.float64)
            found.append(np.broadcast_to(values, (n, len(arrays.outputs))))
        return np.concatenate(found, axis=1)

    def columns(self, rows: slice) -> dict[int, NDArray[Any]]:
        """Place of a feature -> the values of its column, of the first cube that stores it.

        A position of texts has their tokens.
        """
        found: dict[int, NDArray[Any]] = {}
        if self.first.has("token"):
            return dict(enumerate(self.first.read_rows("token", rows).T))
        for arrays in self.cubes.values():
            wanted = {
                name: array
                for name, array in arrays.columns.items()
                if name in self.first.features and self.first.features.index(name) not in found
            }
            read = arrays.rows(wanted, rows)
            found |= {self.first.features.index(name): read[name] for name in wanted}
        return found

    def is_there(self, rows: slice) -> NDArray[np.bool_]:
        """Whether each row has a key: it is neither pending nor erased."""
        is_there = np.array(self.first.read_rows("status", rows) != Status.PENDING)
        erased = erased_rows(self.first.path)
        inside = erased[(erased >= rows.start) & (erased < rows.start + len(is_there))]
        is_there[inside - rows.start] = False
        return is_there

    def batch(self, rows: slice) -> RowBatch | None:
        """Everything that the page shows of these rows; None if they cannot be read."""
        numbers = self.attributions(rows)
        if numbers is None:
            return None
        try:
            return RowBatch(
                self.keys(rows), numbers[0], self.bases(rows), numbers[1], self.columns(rows)
            )
        except DamagedError:
            self._note(next(iter(self.cubes)), rows)
            return None

    def _note(self, name: str, rows: slice) -> None:
        """Note that rows of an explanation cannot be read."""
        known = self.unreadable.setdefault(name, [])
        if rows not in known:
            known.append(rows)


def tables_of(cubes: Mapping[str, Place]) -> tuple[RowTable, list[str]]:
    """The cubes that explain the rows of the first, and the names of those that explain others."""
    opened = {name: CubeArrays(path) for name, path in cubes.items()}
    first = next(iter(opened.values()))
    alike = {name: each for name, each in opened.items() if _has_same_rows(first, each)}
    return RowTable(alike), [name for name in opened if name not in alike]


def _has_same_rows(first: CubeArrays, other: CubeArrays) -> bool:
    """Whether two cubes explain the same rows in the same order, by the same features."""
    if other is first:
        return True
    if (first.n_rows, first.features) != (other.n_rows, other.features):
        return False
    if first.rows_digest is None or first.rows_digest != other.rows_digest:
        return False
    return first.key_kinds == other.key_kinds


def row_texts(table: RowTable, batch: RowBatch) -> list[str]:
    """The JSON of each row: keys, predictions, base values, attributions of each part, values.

    Attributions of a part are one text: the sum of the small ones, then the `top` largest, each the
    place of its feature and its number.  Values of the columns of these features are one text too,
    and an object, place -> text, of those that are no numbers.
    """
    n, n_parts, d = batch.phi.shape
    width = place_width(d)
    shown = np.zeros((n, d), bool)
    fields = [[json_text(text) for text in key_texts(key).tolist()] for key in batch.keys]
    fields += [[_plain(value) for value in each] for each in batch.prediction.T.tolist()]
    fields += [[_plain(value) for value in each] for each in batch.base.T.tolist()]
    for part in range(n_parts):
        phi = batch.phi[:, part]
        # the order of rows without attributions has no meaning
        order = np.argsort(-np.abs(phi), axis=1, kind="stable")
        largest = order[:, : table.top]
        np.put_along_axis(shown, largest, True, axis=1)
        fields.append(_attribution_texts(phi, order, table.top, width))
    fields += _value_texts(batch.columns, shown, width)
    return [f"[{','.join(filter(None, row))}]" for row in zip(*fields, strict=True)]


def _attribution_texts(phi: FloatArray, order: NDArray[Any], top: int, width: int) -> list[str]:
    """The quoted attributions of each row (n, d): the sum of the small ones, then the large ones."""
    sorted_phi = np.take_along_axis(phi, order, axis=1)
    large = np.concatenate(
        [place_codes(order[:, :top], width), number_codes(sorted_phi[:, :top])], axis=2
    )
    small = number_codes(sorted_phi[:, top:].sum(axis=1))
    lines = np.concatenate([small, large.reshape(len(phi), -1)], axis=1)
    text = lines.tobytes().decode("ascii")
    length = lines.shape[1]
    return [f'"{text[start : start + length]}"' for start in range(0, len(text), length)]


def _value_texts(
    columns: Mapping[int, NDArray[Any]], shown: NDArray[np.bool_], width: int
) -> tuple[list[str], list[str]]:
    """The values of each row in the columns of shown features: numbers, and an object of texts."""
    n, d = shown.shape
    numbers = np.zeros((n, d))
    is_number = np.zeros(d, bool)
    words: list[dict[int, str]] = [{} for _ in range(n)]
    for place, values in columns.items():
        if values.dtype.kind in NUMBERS:
            numbers[:, place] = values
            is_number[place] = True
            continue
        chosen = np.flatnonzero(shown[:, place])
        for row, word in zip(chosen.tolist(), _words(values[chosen]), strict=True):
            if word:  # beyond the end of a text there is none
                words[row][place] = word
    rows, places = np.nonzero(shown & is_number)
    codes = np.concatenate(
        [place_codes(places, width), number_codes(numbers[rows, places])], axis=1
    )
    text = codes.tobytes().decode("ascii")
    ends = np.concatenate([[0], np.cumsum((shown & is_number).sum(axis=1))]) * (width + WIDTH)
    quoted = [f'"{text[start:stop]}"' for start, stop in pairwise(ends.tolist())]
    return quoted, [json_text(each) * bool(each) for each in words]


def _words(values: NDArray[Any]) -> list[str]:
    """Texts, times or flags for people."""
    if values.dtype.kind == "M":
        texts: list[str] = key_texts(values).tolist()
        return [MISSING.get(text, text) for text in texts]
    return [shown_value(value) for value in values.tolist()]


def _plain(value: float) -> str:
    """A number in nine digits, or null."""
    if np.isfinite(value):
        return f"{value:.9g}"
    return "null"


def json_text(content: Any) -> str:
    """JSON that is safe at any place in HTML: it contains no tag, comment or line end."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def has_numbers(predictions: FloatArray, phi: FloatArray) -> NDArray[np.bool_]:
    """Whether each row has its predictions (n, p) and attributions (n, p, d)."""
    return np.asarray(~np.isnan(predictions).any(axis=1) & ~np.isnan(phi).any(axis=(1, 2)))
