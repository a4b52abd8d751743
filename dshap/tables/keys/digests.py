"""Digests of rows by key: which rows of a table are those of an earlier table, unchanged.

A row's digest is made of its used columns, in a form that does not depend on how the table was
stored.  Two tables are compared by their keys, then by digests of a kind that both have
(`key_join`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from dshap.tables.columns import key_array, key_dtype, null_key_refusal
from dshap.tables.keys.earlier_digests import earlier_row_digests
from dshap.tables.keys.row_digests import row_digests
from dshap.tables.stored_parts import opened_part

DIGEST_BYTES = 16
Digests = NDArray[np.uint64]
"""(n, 2): a digest of 128 bits for each row."""


@dataclass(frozen=True)
class DigestKind:
    """A way to digest rows."""

    column: str
    """The name of the column that such digests have in a file: it is the name of the kind."""
    digest: Callable[[Sequence[pa.Array]], Digests]
    """Digests the rows of some columns."""


KINDS = (
    DigestKind("row digest 2", row_digests),
    DigestKind("row digest", earlier_row_digests),
)
"""The kinds of digests, the newest first.  A store of an earlier version has only the last."""
DIGEST = KINDS[0].column
"""The column of the digests that every run makes."""
_COLUMNS = tuple(kind.column for kind in KINDS)
UNREADABLE = (OSError, EOFError, ValueError)
"""The errors of Arrow and numpy for a file that is missing, empty or damaged."""
BATCH_ROWS = 65_536
"""Rows that are digested at once: 20 columns need 21 MB."""
DigestBatches = Iterator[pa.RecordBatch]
"""Keys and digests of rows, in row order."""
Follower = Callable[[pa.RecordBatch, pa.RecordBatch, Digests], None]
"""Called with the columns, the keys and the digests (n, 2) of each batch."""


@dataclass(frozen=True)
class RowDigests:
    """The keys of a table and the digest of each of its rows, in row order, in a Parquet file.

    They are read a batch at a time: no method has those of all rows in memory.
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
        empty = schema.empty_table()
        keys = _keys_of(empty, _key_names(schema))
        return [(name, values.dtype.kind) for name, values in keys.items()]

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The names of the kinds of digests that the file has, the newest first."""
        with self._opened() as opened:
            names = opened.schema_arrow.names
        return tuple(kind for kind in _COLUMNS if kind in names)

    def count_erased(self) -> int:
        """The number of rows that were erased: their places stay, without key and digest."""
        return sum(int(np.count_nonzero(batch.is_erased)) for batch in self.batches())

    def read_through(self) -> None:
        """Read all batches, and raise one of `UNREADABLE` if one cannot be read."""
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
        """The values (n,) of each key column; those of erased rows have no meaning."""
        return _keys_of(self.batch, self._names, may_be_null=True)

    @property
    def is_erased(self) -> BoolArray:
        """(n,): whether a row was erased: its position stays, without its key and its digest."""
        is_null = np.zeros(self.n_rows, bool)
        for name in self._names:
            is_null |= self.batch[name].is_null().to_numpy(zero_copy_only=False)
        return is_null

    def without(self, is_gone: BoolArray) -> pa.RecordBatch:
        """The batch with nulls in the place of the keys, and zeros in that of the digests, of rows (n,)."""
        columns = {}
        for name in self.batch.schema.names:
            column = self.batch[name]
            filled = pa.scalar(None, column.type)
            if name in _COLUMNS:
                filled = pa.scalar(bytes(DIGEST_BYTES), column.type)
            columns[name] = pc.if_else(pa.array(is_gone), filled, column)
        return pa.record_batch(columns)

    def digests(self, kind: str = DIGEST) -> Digests:
        """The digests (n, 2) of the rows of a kind, or of the newest that the file has."""
        names = self.batch.schema.names
        has = [column for column in (kind, *_COLUMNS) if column in names]
        return _as_numbers(self.batch[has[0]])

    def keys_where(self, is_wanted: BoolArray) -> pa.RecordBatch:
        """The key columns of the wanted rows (n,)."""
        return self.batch.select(self._names).filter(pa.array(is_wanted))

    @property
    def _names(self) -> list[str]:
        return _key_names(self.batch.schema)


def _key_names(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name not in _COLUMNS]


def shared_kind(one: RowDigests, other: RowDigests) -> str:
    """The newest kind of digests that two files have; if they share none, each its own.

    No row is found unchanged then.
    """
    return next((kind for kind in one.kinds if kind in other.kinds), DIGEST)


def write_digests(batches: DigestBatches, file: Path) -> None:
    """Write batches of `digest_rows` to a Parquet file, each as it comes.

    Without rows no key has a type: then the file has no key column.
    """
    first = next(batches, None)
    if first is None:
        first = _digested({}, {DIGEST: np.zeros((0, 2), np.uint64)})
    with parquet_writer(file, first.schema, **KEPT) as writer:
        for batch in itertools.chain([first], batches):
            writer.write_batch(batch)


def digest_rows(
    parts: Sequence[Place],
    key: Sequence[str],
    features: Sequence[str],
    wanted_kinds: Collection[str] = (DIGEST,),
    more: Sequence[str] = (),
    follow: Follower | None = None,
) -> DigestBatches:
    """Digest the rows of Parquet files, in their order; yields batches of keys and digests.

    Each kind of digest that is wanted has a column.  `follow` is called with each batch of rows,
    which has the columns `more` too, with its keys and its digests (n, 2).

    No two rows have one key: that was seen to where they were spooled (`contract.check_keys`).

    Raises
    ------
    InputError
        A row has no key.
    """
    wanted = list(dict.fromkeys([*key, *features, *more]))
    kinds = [kind for kind in KINDS if kind.column in wanted_kinds]
    for part in parts:
        for batch in _batches_of(part, wanted):
            columns = [batch[name] for name in features]
            digests = {kind.column: kind.digest(columns) for kind in kinds}
            found = _digested(_keys_of(batch, key), digests)
            if follow is not None:
                follow(batch, found, digests[kinds[0].column])
            yield found


def _digested(keys: Mapping[str, NDArray[Any]], digests: Mapping[str, Digests]) -> pa.RecordBatch:
    """A batch of keys and of digests (n, 2) of each kind."""
    columns: dict[str, Any] = {name: pa.array(_plain(values)) for name, values in keys.items()}
    for kind, values in digests.items():
        content = pa.py_buffer(np.ascontiguousarray(values))
        columns[kind] = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(DIGEST_BYTES), len(values), [None, content]
        )
    return pa.record_batch(columns)


def _batches_of(part: Place, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a part, a batch at a time; an `InputError` if it cannot be read."""
    try:
        with open_parquet(opened_part(part), pre_buffer=False) as file:
            yield from file.iter_batches(BATCH_ROWS, columns=names)
    except UNREADABLE as error:
        raise unreadable(part, error) from error


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Values in a dtype that pandas and Arrow accept: text as objects."""
    if values.dtype.kind == "T":
        return values.astype(object)
    return values


def _keys_of(
    table: pa.Table | pa.RecordBatch, key: Sequence[str], *, may_be_null: bool = False
) -> dict[str, NDArray[Any]]:
    """key column -> values (n,); an `InputError` if one is null that may not be."""
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
        if is_null is not None and not may_be_null:
            raise InputError(null_key_refusal({name: int(is_null.sum())}))
        found[name] = values
    return found


def _as_numbers(column: pa.Array) -> NDArray[np.uint64]:
    """Digests (n, 2) of a column of fixed-size binary."""
    content = np.frombuffer(column.buffers()[1], np.uint64)
    start = column.offset * 2
    return content[start : start + 2 * len(column)].reshape(-1, 2)
