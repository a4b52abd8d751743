"""Digests of rows by key: which rows of a table are those of an earlier table, unchanged.

A row's digest is the first 128 bits of blake2b over its used columns, each in a canonical form that
does not depend on how the table was stored: numbers as float64 or int64, text as its own digest, a
missing value as a flag.  Two tables are compared by their keys, then by these digests.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.tables.checksums import KEPT, open_parquet, unreadable, write_parquet
from dshap.tables.columns import is_text, key_array, key_dtype, null_key_refusal
from dshap.tables.stored_parts import opened_part

DIGEST_BYTES = 16
"""Bytes of a digest: two different rows among 10^12 share one with probability 10^-15."""
DIGEST = "row digest"
"""The column of the digests in a file of them."""
UNREADABLE = (OSError, EOFError, ValueError)
"""The errors of Arrow and numpy for a file that is missing, empty or damaged."""
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Unit of a column of times -> the nanoseconds in one."""
BATCH_ROWS = 65_536
"""Rows that are digested at once: 20 columns take 21 MB."""


@dataclass(frozen=True)
class RowDigests:
    """The keys of a table, and the digest of each of its rows, in row order."""

    keys: Mapping[str, NDArray[Any]]
    """key column -> values (n,)"""
    digests: NDArray[np.uint64]
    """(n, 2)"""

    def __len__(self) -> int:
        return len(self.digests)

    @cached_property
    def index(self) -> pd.Index:
        """The keys as an index, by which rows are found."""
        columns = [_plain(values) for values in self.keys.values()]
        if len(columns) == 1:
            return pd.Index(columns[0])
        return pd.MultiIndex.from_arrays(columns)

    def positions_in(self, before: RowDigests) -> NDArray[np.int64]:
        """(n,): the row of an earlier table that has this row's key, −1 where it had none."""
        if not (len(self) and len(before)):
            return np.full(len(self), -1, np.int64)
        return before.index.get_indexer(self.index).astype(np.int64)

    def is_unchanged(self, before: RowDigests, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(n,): whether a row's digest is that of the row at its position in the earlier table."""
        unchanged = np.zeros(len(self), dtype=bool)
        known = np.flatnonzero(positions >= 0)
        is_same = self.digests[known] == before.digests[positions[known]]  # (known, 2)
        unchanged[known] = is_same.all(axis=1)
        return unchanged

    def without(self, others: RowDigests) -> pa.Table:
        """The keys of the rows whose keys no row of `others` has, as a table."""
        is_gone = self.positions_in(others) < 0
        return pa.table({name: pa.array(_plain(keys[is_gone])) for name, keys in self.keys.items()})

    def count_repeats(self) -> int:
        """The number of rows whose key is that of an earlier row."""
        if not len(self):
            return 0
        return int(self.index.duplicated().sum())

    def to_parquet(self) -> bytes:
        """Keys and digests as the content of a Parquet file."""
        columns: dict[str, Any] = {
            name: pa.array(_plain(values)) for name, values in self.keys.items()
        }
        content = pa.py_buffer(np.ascontiguousarray(self.digests))
        columns[DIGEST] = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(DIGEST_BYTES), len(self), [None, content]
        )
        written = io.BytesIO()
        write_parquet(pa.table(columns), written, **KEPT)
        return written.getvalue()

    @classmethod
    def from_parquet(cls, content: bytes) -> RowDigests:
        """The keys and digests in the content that `to_parquet` made."""
        with open_parquet(pa.BufferReader(content)) as opened:
            table = opened.read().combine_chunks()
        keys = _keys_of(table, [name for name in table.column_names if name != DIGEST])
        return cls(keys, _as_numbers(table[DIGEST].combine_chunks()))


def digest_rows(parts: Sequence[Place], key: Sequence[str], features: Sequence[str]) -> RowDigests:
    """Digest the rows of Parquet files, in their order, a batch at a time.

    No two rows have one key: that was seen to where they were spooled (`contract.check_keys`).

    Raises
    ------
    InputError
        A row has no key.
    """
    keys: dict[str, list[NDArray[Any]]] = {name: [] for name in key}
    digests: list[NDArray[np.uint64]] = [np.zeros((0, 2), np.uint64)]
    wanted = list(dict.fromkeys([*key, *features]))
    for part in parts:
        for batch in _batches_of(part, wanted):
            for name, values in _keys_of(batch, key).items():
                keys[name].append(values)
            digests.append(_digests_of(batch, features))
    if len(digests) == 1:  # no row: then no key has a type
        return RowDigests({}, digests[0])
    joined = {name: np.concatenate(values) for name, values in keys.items()}
    return RowDigests(joined, np.concatenate(digests))


def _batches_of(part: Place, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a part, a batch at a time; an `InputError` where it cannot be read."""
    try:
        with open_parquet(opened_part(part), pre_buffer=False) as file:
            yield from file.iter_batches(BATCH_ROWS, columns=names)
    except UNREADABLE as error:
        raise unreadable(part, error) from error


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Values in a dtype that pandas and Arrow take: text as objects."""
    if values.dtype.kind == "T":
        return values.astype(object)
    return values


def _keys_of(table: pa.Table | pa.RecordBatch, key: Sequence[str]) -> dict[str, NDArray[Any]]:
    """key column -> values (n,); an `InputError` where one is null."""
    found: dict[str, NDArray[Any]] = {}
    for name in key:
        column = table[name]
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        dtype = key_dtype(column.type)
        if dtype is None:
            raise InputError(
                f"[source] key {name!r} is {column.type}: a key is a whole number, text or a time"
            )
        values, is_null = key_array(column, name, dtype)
        if is_null is not None:
            raise InputError(null_key_refusal({name: int(is_null.sum())}))
        found[name] = values
    return found


def _digests_of(batch: pa.RecordBatch, features: Sequence[str]) -> NDArray[np.uint64]:
    """The digests (n, 2) of the rows of a batch."""
    canonical = [_canonical(batch[name]) for name in features]  # each (n, bytes)
    rows = np.concatenate(canonical, axis=1)
    width = rows.shape[1]
    content = memoryview(rows.tobytes())
    digests = [
        hashlib.blake2b(content[start : start + width], digest_size=DIGEST_BYTES).digest()
        for start in range(0, len(content), width)
    ]
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)


def _canonical(column: pa.Array) -> NDArray[np.uint8]:
    """The values of a column as bytes (n, bytes), a flag of missing values first."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _canonical(column.dictionary_decode())
    if is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        values = _text_digests(column)
    elif pa.types.is_floating(kind):
        values = _float_bytes(column)
    elif pa.types.is_decimal(kind):
        values = _text_digests(column.cast(pa.string()))
    elif pa.types.is_boolean(kind) or pa.types.is_null(kind):
        values = _whole_bytes(column.cast(pa.uint8()))
    elif pa.types.is_temporal(kind):
        values = _whole_bytes(_as_whole_time(column))
    else:
        values = _whole_bytes(column)
    flags = column.is_null().to_numpy(zero_copy_only=False).astype(np.uint8)
    return np.concatenate([flags[:, None], values], axis=1)


def _float_bytes(column: pa.Array) -> NDArray[np.uint8]:
    """float64 bits, one NaN for all."""
    values = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    plain = np.where(np.isnan(values), np.nan, values)
    return np.ascontiguousarray(plain).view(np.uint8).reshape(-1, 8)


def _whole_bytes(column: pa.Array) -> NDArray[np.uint8]:
    """int64 bits; those of uint64 where the column is of that type."""
    if pa.types.is_uint64(column.type):
        column = pa.Array.from_buffers(
            pa.int64(), len(column), column.buffers(), offset=column.offset
        )
    values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1, 8)


def _as_whole_time(column: pa.Array) -> pa.Array:
    """Times as nanoseconds since 1970, modulo 2^64; dates as days, times of a day in their unit.

    No two times of the years 1 to 9999 share such a number, as they are whole microseconds there.
    """
    if pa.types.is_date32(column.type) or pa.types.is_time32(column.type):
        return column.cast(pa.int32())
    if pa.types.is_timestamp(column.type):
        return pc.multiply(column.cast(pa.int64()), _NANOSECONDS[column.type.unit])  # wraps around
    return column.cast(pa.int64())


def _text_digests(column: pa.Array) -> NDArray[np.uint8]:
    """A digest (n, 16) of each text; each different text is digested once."""
    as_bytes = column.cast(pa.large_binary()).fill_null(b"")
    encoded = as_bytes.dictionary_encode()
    listed = [
        hashlib.blake2b(value, digest_size=DIGEST_BYTES).digest()
        for value in encoded.dictionary.to_pylist()
    ]
    table = np.frombuffer(b"".join(listed), np.uint8).reshape(-1, DIGEST_BYTES)
    return table[encoded.indices.to_numpy(zero_copy_only=False)]


def _as_numbers(column: pa.Array) -> NDArray[np.uint64]:
    """Digests (n, 2) of a column of fixed-size binary."""
    content = np.frombuffer(column.buffers()[1], np.uint64)
    start = column.offset * 2
    return content[start : start + 2 * len(column)].reshape(-1, 2)
