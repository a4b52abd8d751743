"""Digests of rows by key: which rows of a table are those of an earlier table, unchanged.

A row's digest is the first 128 bits of blake2b over its used columns, each in a canonical form that
does not depend on how the table was stored: numbers as float64 or int64, text as its own digest, a
missing value as a flag.  Two tables are compared by their keys, then by these digests
(`key_join`).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.late import pa, pc, pq
from dshap.core.places import Place
from dshap.core.records import BoolArray
from dshap.tables.checksums import KEPT, open_parquet, parquet_writer, unreadable
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
DigestBatches = Iterator[pa.RecordBatch]
"""Keys and digests of rows, in row order."""


@dataclass(frozen=True)
class RowDigests:
    """The keys of a table and the digest of each of its rows, in row order, in a Parquet file.

    They are read a batch at a time: no method holds those of all rows.
    """

    file: Place
    """The file that `write_digests` wrote, on a disk or in a bucket."""

    def __len__(self) -> int:
        return self._n_rows

    @cached_property
    def _n_rows(self) -> int:
        with self._opened() as opened:
            return int(opened.metadata.num_rows)

    @cached_property
    def key_kinds(self) -> list[tuple[str, str]]:
        """The key columns in their order, each with the kind of its values: number, text or time."""
        with self._opened() as opened:
            schema = opened.schema_arrow
        names = [name for name in schema.names if name != DIGEST]
        empty = schema.empty_table()
        return [(name, keys.dtype.kind) for name, keys in _keys_of(empty, names).items()]

    def read_through(self) -> None:
        """Read all batches, and raise one of `UNREADABLE` where one cannot be read."""
        for _ in self.batches():
            pass

    def batches(self) -> Iterator[DigestBatch]:
        """Yield the keys and digests of at most `BATCH_ROWS` rows after the other."""
        start = 0
        with self._opened() as opened:
            for batch in opened.iter_batches(BATCH_ROWS):
                yield DigestBatch(start, batch)
                start += batch.num_rows

    @contextmanager
    def _opened(self) -> Iterator[pq.ParquetFile]:
        with opened_part(self.file) as source, open_parquet(source, pre_buffer=False) as opened:
            yield opened


@dataclass(frozen=True)
class DigestBatch:
    """The keys and digests of consecutive rows."""

    start: int
    """The position of the first row in the table."""
    batch: pa.RecordBatch

    @property
    def n_rows(self) -> int:
        return int(self.batch.num_rows)

    @property
    def keys(self) -> dict[str, NDArray[Any]]:
        """The values (n,) of each key column."""
        return _keys_of(self.batch, self._names)

    @property
    def digests(self) -> NDArray[np.uint64]:
        """The digests (n, 2) of the rows."""
        return _as_numbers(self.batch[DIGEST])

    def keys_where(self, is_wanted: BoolArray) -> pa.RecordBatch:
        """The key columns of the wanted rows (n,)."""
        return self.batch.select(self._names).filter(pa.array(is_wanted))

    @property
    def _names(self) -> list[str]:
        return [name for name in self.batch.schema.names if name != DIGEST]


def write_digests(batches: DigestBatches, file: Path) -> None:
    """Write batches of `digest_rows` to a Parquet file, each as it comes.

    Without rows no key has a type: then the file has no key column.
    """
    first = next(batches, None)
    if first is None:
        first = _digested({}, np.zeros((0, 2), np.uint64))
    with parquet_writer(file, first.schema, **KEPT) as writer:
        for batch in itertools.chain([first], batches):
            writer.write_batch(batch)


def digest_rows(
    parts: Sequence[Place], key: Sequence[str], features: Sequence[str]
) -> DigestBatches:
    """Digest the rows of Parquet files, in their order; yields batches of keys and digests.

    No two rows have one key: that was seen to where they were spooled (`contract.check_keys`).

    Raises
    ------
    InputError
        A row has no key.
    """
    wanted = list(dict.fromkeys([*key, *features]))
    for part in parts:
        for batch in _batches_of(part, wanted):
            yield _digested(_keys_of(batch, key), _digests_of(batch, features))


def _digested(keys: Mapping[str, NDArray[Any]], digests: NDArray[np.uint64]) -> pa.RecordBatch:
    """A batch of keys and digests (n, 2)."""
    columns: dict[str, Any] = {name: pa.array(_plain(values)) for name, values in keys.items()}
    content = pa.py_buffer(np.ascontiguousarray(digests))
    columns[DIGEST] = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(DIGEST_BYTES), len(digests), [None, content]
    )
    return pa.record_batch(columns)


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
