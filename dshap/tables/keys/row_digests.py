"""The digest of each row of a batch: SipHash-2-4 of 128 bits over its values in a canonical form.

The form does not depend on how the table was stored: numbers are the bits of float64 (one NaN for
all) or of int64, text is two words of its own hash, so that no boundary between two texts can move,
and missing values are marks in words of their own, before the values.

A row is compared with one row, that of its key in the earlier table: a changed row counts as an
unchanged one with probability 2^-128.  With 10^12 changed rows every night that happens once in
10^23 years.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.core.late import pa, pc
from dshap.tables.columns import is_text

MARKS = 64
"""The columns whose missing values one word marks."""
_NAN = np.array(np.nan).view(np.uint64)[()]
"""The bits that represent all NaN."""
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Unit of a column of times -> the nanoseconds in one."""
Words = NDArray[np.uint64]
"""(w, n): a word of 64 bits of n rows after the other."""


def row_digests(columns: Sequence[pa.Array]) -> NDArray[np.uint64]:
    """The digests (n, 2) of the rows of these columns, which are at least one."""
    plain = [_without_dictionary(column) for column in columns]
    values = [words_of(column) for column in plain]
    words = np.concatenate([_marks(plain), *values])
    digests = np.empty((words.shape[1], 2), np.uint64)
    loops.hash_rows(words, digests)
    return digests


def _without_dictionary(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    return column


def _marks(columns: Sequence[pa.Array]) -> Words:
    """(w, n): the missing values of each row, a bit for each column."""
    marks = np.zeros((-(-len(columns) // MARKS), len(columns[0])), np.uint64)
    for place, column in enumerate(columns):
        if column.null_count:
            is_null = column.is_null().to_numpy(zero_copy_only=False).astype(np.uint64)
            marks[place // MARKS] |= is_null << np.uint64(place % MARKS)
    return marks


def words_of(column: pa.Array) -> Words:
    """The values of a column as words (1, n), of text (2, n); a missing value is 0, or no text."""
    kind = column.type
    if is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _of_texts(column)
    if pa.types.is_decimal(kind):
        return _of_texts(column.cast(pa.string()))
    if pa.types.is_floating(kind):
        return _of_floats(column)
    return as_whole_numbers(column).view(np.uint64)[None]


def _of_floats(column: pa.Array) -> Words:
    """float64 bits, one NaN for all; −0.0 is not 0.0."""
    numbers = column.cast(pa.float64())
    if numbers.null_count:
        numbers = numbers.fill_null(0.0)
    values = numbers.to_numpy(zero_copy_only=False)
    words = values.view(np.uint64)
    is_nan = np.isnan(values)
    if is_nan.any():
        words = np.where(is_nan, _NAN, words)
    return words[None]


def _of_texts(column: pa.Array) -> Words:
    """The two halves (2, n) of the hash of each text."""
    words = np.empty((2, len(column)), np.uint64)
    loops.hash_texts(*bytes_of_texts(column), words)
    return words


def bytes_of_texts(column: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all texts, and the place (n + 1,) where each begins, and the last ends.

    A missing text is empty.
    """
    texts = column.cast(pa.large_binary())
    if texts.null_count:
        texts = texts.fill_null(b"")
    if not len(texts):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, ends, content = texts.buffers()
    places = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(content or b"", np.uint8), places


def as_whole_numbers(column: pa.Array) -> NDArray[np.int64]:
    """int64 (n,) of a column of whole numbers, flags, times or nulls; a missing value is 0.

    uint64 wraps around.  Times are nanoseconds since 1970, modulo 2^64; dates are days, times of a
    day are in their unit.  No two times of the years 1 to 9999 share such a number, as they are
    whole microseconds there.
    """
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_uint64(kind):
        buffers = column.buffers()
        # a cast would refuse numbers from 2^63 on, while the bits are all that a digest needs
        column = pa.Array.from_buffers(pa.int64(), len(column), buffers, offset=column.offset)
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = pc.multiply(column.cast(pa.int64()), _NANOSECONDS[kind.unit])  # wraps around
    numbers = column.cast(pa.int64())
    if numbers.null_count:
        numbers = numbers.fill_null(0)
    found: NDArray[Any] = numbers.to_numpy(zero_copy_only=False)
    return found
