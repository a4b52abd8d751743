"""Streams of Arrow batches from outside: which columns are stored, in types that dshap reads back.

Values stay as in the source; a value that would be read back as another one is refused.
"""

from __future__ import annotations

import binascii
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dshap.core.errors import InputError, unknown_column
from dshap.core.late import pa, pc
from dshap.tables.row_values import words_of_arrow

FIRST_DAY = -719_162
LAST_DAY = 2_932_896
"""Days since 1970 of 0001-01-01 and 9999-12-31: databases give infinite dates as others."""
_DAYS_OF = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
"""Unit of a timestamp -> its number in a day."""
_CASTS = {"postgresql": "{name}::float8 AS {name}"}
_CAST = "CAST({name} AS DOUBLE PRECISION) AS {name}"


GATHERED_ROWS = 16_384
GATHERED_BYTES = 8 << 20
"""Rows and bytes of small batches that are joined; at that size a batch costs little."""
Piece = Callable[[], "AbstractContextManager[Iterable[pa.RecordBatch]]"]
"""The type of a function that opens some of the rows of a stream."""


@dataclass(frozen=True)
class RowStream:
    """Rows that come once, in batches: in one piece, or in several that may be read at once."""

    schema: pa.Schema
    """All columns of the source; batches may have fewer."""
    pieces: Sequence[Piece]
    """The pieces in the order of the rows."""
    n_rows: int | None = None
    """The number of rows by a count of the source itself; None if it was not counted."""
    detail: Mapping[str, Any] = field(default_factory=dict)


def in_one_piece(batches: Iterable[pa.RecordBatch]) -> tuple[Piece]:
    """The pieces of a stream that has one, which is open already."""
    return (lambda: nullcontext(batches),)


@dataclass(frozen=True)
class StreamColumns:
    """The stored columns of a stream, and their types in the parts.

    Parameters
    ----------
    given : pa.Schema
        The columns of the source.
    used : collection of names, optional
        The columns to store; all that Parquet can store if None.
    keys : collection of names
        Columns of the key: whole decimals become int64.
    kind : str
        The kind of the source, whose words a message uses.
    """

    given: pa.Schema
    used: Collection[str] | None = None
    keys: Collection[str] = ()
    kind: str = ""

    def __post_init__(self) -> None:
        names = self.given.names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(
                f"the source gives {', '.join(map(repr, twice))} more than once: name each column "
                "once, with AS in a query"
            )
        for name in self.used or ():
            if name not in names:
                raise unknown_column(name, names)

    @cached_property
    def types(self) -> dict[str, str]:
        """Column -> its type, of all columns of the source."""
        return {each.name: str(self._plain(each.type)) for each in self.given}

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the parts."""
        return pa.schema([(name, self._kept_type(name)) for name in self._names()])

    def _plain(self, kind: pa.DataType) -> pa.DataType:
        """The type that a column has in the parts; the types of rows of Parquet files stay."""
        if self.kind == "parquet":
            return kind
        return _plain_type(kind)

    def _names(self) -> list[str]:
        """The stored columns, in the order of the source."""
        if self.used is None:
            return [each.name for each in self.given if not _refusal(each.type)]
        return [name for name in self.given.names if name in self.used]

    def _kept_type(self, name: str) -> pa.DataType:
        kind = self.given.field(name).type
        if reason := _refusal(kind):
            cast = _CASTS.get(self.kind, _CAST).format(name=name)
            if "numbers" not in reason:
                cast = f"CAST({name} AS VARCHAR) AS {name}"
            raise InputError(
                f"column {name!r} {reason}: write {cast} in the query, or leave it out"
            )
        plain = self._plain(kind)
        if name in self.keys and pa.types.is_decimal(plain) and plain.scale == 0:
            return pa.int64()
        return plain

    def gathered(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """Batches to convert: small ones are joined, unless nothing is converted."""
        if self._is_kept_as_is:
            return batches
        return gathered(batches)

    @cached_property
    def _is_kept_as_is(self) -> bool:
        """Whether rows are stored as the source gives them, with no time among them to check."""
        return self.given == self.schema and not any(
            pa.types.is_temporal(each.type) for each in self.schema
        )

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The stored columns of a batch."""
        schema = self.schema
        if self._is_kept_as_is and batch.schema == schema:
            return batch
        columns = [
            _converted(batch.column(batch.schema.get_field_index(each.name)), each)
            for each in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of small batches in batches of up to `GATHERED_ROWS` and `GATHERED_BYTES`.

    A batch that is larger stays as it is.  DuckDB gives 2,048 rows at once: each column of each
    batch costs a few microseconds.
    """
    held: list[pa.RecordBatch] = []
    n_rows = 0
    n_bytes = 0
    for batch in batches:
        n_rows += batch.num_rows
        n_bytes += batch.nbytes
        if held and (n_rows > GATHERED_ROWS or n_bytes > GATHERED_BYTES):
            yield _joined(held)
            held = []
            n_rows = batch.num_rows
            n_bytes = batch.nbytes
        held.append(batch)
    if held:
        yield _joined(held)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    schema = batches[0].schema
    columns = [
        pa.chunked_array([batch.column(j) for batch in batches], each.type).combine_chunks()
        for j, each in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def digest_of_types(types: Mapping[str, str]) -> str:
    """A digest of columns and types, independent of their order."""
    return hashlib.sha256(json.dumps(sorted(types.items())).encode()).hexdigest()[:32]


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that a column has in the parts."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if _is_uuid(kind):
        return pa.string()
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    return kind


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"


def _refusal(kind: pa.DataType) -> str:
    """The reason why a column of this type cannot be stored; empty if it can."""
    is_opaque = isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.opaque"
    if is_opaque and getattr(kind, "type_name", "") == "numeric":
        return "is NUMERIC, and its numbers arrive as text"
    plain = _plain_type(kind)
    if pa.types.is_interval(plain) or pa.types.is_union(plain):
        return f"is {plain}, which Parquet cannot store"
    return ""


def _converted(column: pa.Array, wanted: pa.Field) -> pa.Array:
    if _is_uuid(column.type):
        return _uuid_texts(column.storage)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_temporal(wanted.type):
        refuse_infinite(column, wanted.name)
    if column.type == wanted.type:
        return column
    try:
        return column.cast(wanted.type)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"column {wanted.name!r} ({column.type}) does not fit {wanted.type}: {words_of_arrow(error)}"
        ) from None


def _uuid_texts(stored: pa.Array) -> pa.Array:
    """UUIDs (n,) of 16 bytes as texts of 36 characters."""
    # a null has no bytes, but every row needs its 16 in the joined string
    bytes_of = pc.fill_null(stored, b"\0" * 16)
    raw = b"".join(bytes_of.to_pylist())
    hexadecimal = np.frombuffer(binascii.hexlify(raw), np.uint8).reshape(len(stored), 32)
    texts = np.full((len(stored), 36), ord("-"), np.uint8)
    at = 0
    for begin, end in ((0, 8), (9, 13), (14, 18), (19, 23), (24, 36)):
        texts[:, begin:end] = hexadecimal[:, at : at + end - begin]
        at += end - begin
    made = pa.array(texts.view("S36").ravel().astype(str), pa.string())
    return pc.if_else(stored.is_valid(), made, None)


def refuse_infinite(column: pa.Array, name: str) -> None:
    """Raise if a date or time is outside of the years 1 to 9999."""
    kind = column.type
    if pa.types.is_date32(kind):
        numbers = column.cast(pa.int32())
        per_day = 1
    elif pa.types.is_timestamp(kind):
        numbers = column.cast(pa.int64())
        per_day = _DAYS_OF[kind.unit]
    elif pa.types.is_date64(kind):
        numbers = column.cast(pa.int64())
        per_day = _DAYS_OF["ms"]
    else:
        return
    # nanoseconds end in the year 2262: there the ends of int64 are infinite
    first = max(FIRST_DAY * per_day, -(2**63) + 2)
    behind = min((LAST_DAY + 1) * per_day, 2**63 - 1)
    outside = pc.or_(pc.less(numbers, first), pc.greater_equal(numbers, behind))
    if pc.any(outside).as_py():
        raise InputError(
            f"column {name!r} contains an infinite date, or one outside of the years 1 to 9999: "
            f"write NULLIF({name}, 'infinity') AS {name} in the query"
        )
