"""The census of rows, made while their Arrow batches are digested: it needs no separate pass.

It counts as `dshap.tables.census.CensusPass` does.  Its fingerprint is of another kind: that of the
digests of the rows, in their order, with their keys and targets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.late import pa, pc
from dshap.core.records import BoolArray, FloatArray
from dshap.core.types import RowReader
from dshap.predictors.times import times_of
from dshap.tables.census import Census
from dshap.tables.columns import is_text, number_array, time_array
from dshap.tables.keys.digests import DIGEST, Digests
from dshap.tables.keys.row_digests import bytes_of_texts
from dshap.tables.reader import categories_of

FINGERPRINT_BYTES = 16


@dataclass
class RowCensus:
    """Counts and ranges of the rows of a reader, batch by batch in their order."""

    reader: RowReader
    n_rows: int = 0
    n_bad: int = 0
    n_bad_targets: int = 0
    bad: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    """feature -> its smallest and largest finite value; of a listed column see `_codes`."""
    _first: dict[str, Any] = field(default_factory=dict)
    """Listed column -> its first value."""
    _streams: dict[str, Any] = field(default_factory=dict)
    """Name of a stream of values -> their digest so far."""

    @property
    def names(self) -> list[str]:
        """The columns that a batch must have."""
        return list(dict.fromkeys([*self.reader.feature_names, *self.reader.target_names]))

    def add(self, batch: pa.RecordBatch, keys: pa.RecordBatch, digests: Digests) -> None:
        """Add the next rows: their columns, their keys and their digests (n, 2)."""
        is_bad = np.zeros(batch.num_rows, bool)
        for name in self.reader.feature_names:
            is_bad |= self._added(name, self._values(name, batch[name]))
        self.n_rows += batch.num_rows
        self.n_bad += int(np.count_nonzero(is_bad))
        self._stream(DIGEST, digests)
        for name in self.reader.key_names:
            self._stream_column(f"key {name}", keys[name])
        self._add_targets(batch)

    def _values(self, name: str, column: pa.Array) -> FloatArray:
        """A feature as float64 (n,), with NaN for missing values."""
        if name in times_of(self.reader):
            return time_array(column, name)
        if name in categories_of(self.reader):
            return self._codes(name, column)
        return number_array(column, name)

    def _codes(self, name: str, column: pa.Array) -> FloatArray:
        """0 (n,) for the first value of a listed column, 1 for others, NaN for missing ones.

        Their range is enough to see whether the column is constant.
        """
        is_missing = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        there = column.filter(pa.array(~is_missing))
        if name not in self._first and len(there):
            self._first[name] = there[0].as_py()
        codes = np.full(len(column), np.nan)
        if len(there):
            first = pa.scalar(self._first[name])
            is_other = pc.not_equal(_plain(there), first.cast(_plain(there).type))
            codes[~is_missing] = is_other.to_numpy(zero_copy_only=False)
        return codes

    def _added(self, name: str, values: FloatArray) -> BoolArray:
        """Add the values (n,) of a feature; returns those that are not finite."""
        is_finite = np.isfinite(values)
        finite = values
        if not is_finite.all():
            self.bad[name] = self.bad.get(name, 0) + int(np.count_nonzero(~is_finite))
            finite = values[is_finite]
        low, high = self.ranges.get(name, (np.inf, -np.inf))
        if len(finite):
            self.ranges[name] = (min(low, float(finite.min())), max(high, float(finite.max())))
        return np.array(~is_finite)

    def _add_targets(self, batch: pa.RecordBatch) -> None:
        is_bad = np.zeros(batch.num_rows, bool)
        for name in self.reader.target_names:
            values = number_array(batch[name], name)
            is_bad |= ~np.isfinite(values)
            self._stream(f"target {name}", np.where(np.isnan(values), np.nan, values))
        self.n_bad_targets += int(np.count_nonzero(is_bad))

    def _stream_column(self, name: str, column: pa.Array) -> None:
        """Add the values of a key to its stream; of text lengths and bytes."""
        if is_text(column.type):
            content, places = bytes_of_texts(column)
            self._stream(f"{name} lengths", np.diff(places))
            self._stream(f"{name} text", content[places[0] : places[-1]])
            return
        self._stream(f"{name} {column.type}", column.cast(pa.int64()).to_numpy())

    def _stream(self, name: str, values: NDArray[Any]) -> None:
        if name not in self._streams:
            self._streams[name] = hashlib.blake2b(digest_size=FINGERPRINT_BYTES)
        self._streams[name].update(np.ascontiguousarray(values))

    def census(self) -> Census:
        """The census of all rows that were added."""
        whole = hashlib.blake2b(digest_size=FINGERPRINT_BYTES)
        for name, stream in self._streams.items():
            whole.update(f"{name}:{stream.hexdigest()};".encode())
        names = self.reader.feature_names
        ranges = [self.ranges.get(name, (np.inf, -np.inf)) for name in names]
        return Census(
            n_rows=self.n_rows,
            n_bad=self.n_bad,
            n_bad_targets=self.n_bad_targets,
            bad={name: self.bad[name] for name in names if name in self.bad},
            null_keys={},
            low=tuple(low for low, _ in ranges),
            high=tuple(high for _, high in ranges),
            fingerprint=whole.hexdigest(),
        )

    def to_dict(self) -> dict[str, Any]:
        """The census and the columns that it is of, as plain values."""
        return {**asdict(self.census()), "columns": _columns_of(self.reader)}


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    return column


def _columns_of(reader: RowReader) -> dict[str, Any]:
    """The columns that a census is of, and how they are read."""
    return {
        "features": list(reader.feature_names),
        "targets": list(reader.target_names),
        "keys": dict(reader.key_dtypes),
        "times": dict(times_of(reader)),
        "listed": sorted(categories_of(reader)),
    }


def census_in(facts: Mapping[str, Any], reader: RowReader) -> Census | None:
    """The census from `RowCensus.to_dict`; None if it is of other columns, or not there."""
    content = dict(facts)
    if content.pop("columns", None) != _columns_of(reader):
        return None
    return Census(**content | {"low": tuple(content["low"]), "high": tuple(content["high"])})
