"""Canaries: values that only one person has, and a search that decodes every file for them."""

from __future__ import annotations

import json
import re
import sqlite3
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from numpy.typing import NDArray

WORD = r"(?:KEY|TEXT)CANARY\d+"
"""The pattern of the keys and texts."""
NUMBER = r"\d+\.\d{6,}"
"""The pattern of numbers that may be canaries."""
DIGITS = 24
"""The most digits before the point of such a number."""
PIECE = 1 << 24
"""The bytes that are searched at once for numbers at any place."""
DATABASES = (".duckdb", ".sqlite")


@dataclass(frozen=True)
class Canaries:
    """The values of forgotten persons that nobody else has."""

    keys: frozenset[Any]
    texts: frozenset[str]
    numbers: frozenset[float]

    def in_values(self, values: Any) -> set[Any]:
        """The canaries among values of any kind."""
        found = np.asarray(values).ravel()
        if found.dtype.kind in "fc":
            return self._in_numbers(found.astype(np.float64))
        if found.dtype.kind in "iu":
            wanted = [each for each in self.keys if isinstance(each, int)]
            return {int(each) for each in found[np.isin(found, wanted)].tolist()}
        listed = found.tolist()
        numbers = [each for each in listed if isinstance(each, float)]
        whole = [each for each in listed if isinstance(each, int)]
        texts = [each for each in listed if isinstance(each, str)]
        more = self._in_numbers(np.array(numbers, np.float64)) | (set(whole) & self.keys)
        return more | self.in_text("\0".join(texts))

    def _in_numbers(self, numbers: NDArray[np.float64]) -> set[Any]:
        """The canaries among numbers, those that were rounded to float32 too.

        Of a million other numbers, some agree with a canary to the seven digits of float32 by chance:
        a number counts as a rounded canary only if it has no more digits than float32 itself.
        """
        with np.errstate(over="ignore"):
            rounded = numbers.astype(np.float32)
        is_rounded = rounded.astype(np.float64) == numbers
        is_found = is_rounded & _is_among(rounded, self._sorted.astype(np.float32))
        return {*numbers[is_found | _is_among(numbers, self._sorted)].tolist()}

    @cached_property
    def _sorted(self) -> NDArray[np.float64]:
        return np.array(sorted(self.numbers), "<f8")

    def in_text(self, text: str) -> set[Any]:
        """The canaries that stand in a text, numbers in their shortest form."""
        words = set(re.findall(WORD, text)) & {*self.keys, *self.texts}
        return words | (set(re.findall(NUMBER, text)) & self._as_text)

    @cached_property
    def _as_text(self) -> set[str]:
        return {repr(each) for each in self.numbers}

    def in_bytes(self, content: bytes) -> set[Any]:
        """The canaries that stand in raw bytes, numbers as float64 at any place too."""
        words = {each.decode() for each in re.findall(WORD.encode(), content)}
        found: set[Any] = words & {*self.keys, *self.texts}
        found |= {*_numbers_in_text(content)} & self._as_text
        for start in range(0, len(content), PIECE):
            found |= self._at_any_place(content[start : start + PIECE + 7])
        return found

    def _at_any_place(self, content: bytes) -> set[Any]:
        """The canaries that stand in bytes as float64, at any place: by their last byte first."""
        octets = np.frombuffer(content, np.uint8)
        last = np.zeros(256, bool)
        last[self._sorted.view(np.uint8)[7::8]] = True
        places = np.flatnonzero(last[octets[7:]])
        values = octets[places[:, None] + np.arange(8)].view("<f8")[:, 0]
        return {*values[_is_among(values, self._sorted)].tolist()}


def _is_among(values: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.bool_]:
    """(n,): whether each value is one of some sorted ones."""
    if not len(wanted):
        return np.zeros(len(values), bool)
    places = np.searchsorted(wanted, values).clip(max=len(wanted) - 1)
    return np.asarray(wanted[places] == values)


def _numbers_in_text(content: bytes) -> Iterator[str]:
    """The numbers with many digits that stand in bytes as text."""
    for found in re.finditer(rb"\.\d{6,}", content):
        before = content[max(found.start() - DIGITS, 0) : found.start()]
        if digits := re.search(rb"\d+\Z", before):
            yield (digits[0] + found[0]).decode()


def found_in(place: Path, canaries: Canaries) -> dict[str, set[Any]]:
    """file -> the canaries in it, of all files in a folder, decoded by their kinds."""
    found: dict[str, set[Any]] = {}
    for file in sorted(each for each in place.rglob("*") if each.is_file()):
        name = str(file.relative_to(place))
        seen = set(_decoded(file, canaries))
        if file.suffix not in DATABASES:  # whose freed pages are out of reach
            seen |= canaries.in_bytes(file.read_bytes())
        if seen:
            found[name] = seen
    for array in _arrays_in(place):
        values = zarr.open_array(array, mode="r")[...]
        if seen := canaries.in_values(values):
            found.setdefault(f"{array.relative_to(place)}/ (values)", set()).update(seen)
    return found


def _decoded(file: Path, canaries: Canaries) -> Iterator[Any]:
    """The canaries in a file whose kind its name tells."""
    match file.suffix:
        case ".parquet":
            table = pq.read_table(pa.BufferReader(file.read_bytes()))
            for column in table.columns:
                yield from _in_column(column.combine_chunks().drop_null(), canaries)
        case ".npy":
            yield from canaries.in_values(np.load(file))
        case ".npz":
            with np.load(file) as record:
                for name in record.files:
                    yield from canaries.in_values(record[name])
                    yield from canaries.in_bytes(np.ascontiguousarray(record[name]).tobytes())
        case ".json":
            yield from _in_document(json.loads(file.read_bytes()), canaries)
        case ".duckdb" | ".sqlite":
            for values in _rows_of_database(file):
                yield from canaries.in_values(np.array(values, dtype=object))


def _in_column(column: pa.Array, canaries: Canaries) -> set[Any]:
    """The canaries in a column of a table."""
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return canaries.in_values(column.to_numpy(zero_copy_only=False))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return canaries.in_text("\0".join(column.to_pylist()))
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return canaries.in_bytes(b"\0".join(column.to_pylist()))
    return canaries.in_values(np.array(column.to_pylist(), dtype=object))


def _in_document(value: Any, canaries: Canaries) -> Iterator[Any]:
    """The canaries in a document of JSON, and in the files that it holds as base64."""
    match value:
        case dict():
            for name, each in value.items():
                yield from canaries.in_text(str(name))
                yield from _in_document(each, canaries)
        case list():
            for each in value:
                yield from _in_document(each, canaries)
        case str():
            yield from canaries.in_text(value)
            try:
                yield from canaries.in_bytes(b64decode(value, validate=True))
            except ValueError:
                return
        case bool():
            return
        case int() | float():
            yield from canaries.in_values([value])


def _rows_of_database(file: Path) -> Iterator[Sequence[Any]]:
    """The columns of all tables and views of a database."""
    if file.suffix == ".sqlite":
        connection: Any = sqlite3.connect(file)
        listing = "select name from sqlite_master where type in ('table', 'view')"
    else:
        import duckdb

        connection = duckdb.connect(str(file), read_only=True)
        listing = "select table_name from information_schema.tables"
    try:
        for (table,) in connection.execute(listing).fetchall():
            rows = connection.execute(f'select * from "{table}"').fetchall()
            yield from zip(*rows, strict=True)
    finally:
        connection.close()


def _arrays_in(place: Path) -> Iterator[Path]:
    """The arrays of Zarr in a folder."""
    for document in sorted(place.rglob("zarr.json")):
        if json.loads(document.read_bytes())["node_type"] == "array":
            yield document.parent
