"""The digest of each row as dshap made it until 0.2: blake2b over its values, a row at a time.

A store that has such digests gets them once more, beside those of `row_digests`, in the first night
after the change: so that its rows are found unchanged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dshap.core.late import pa
from dshap.tables.columns import is_text
from dshap.tables.keys.row_digests import as_whole_numbers

DIGEST_BYTES = 16


def earlier_row_digests(columns: Sequence[pa.Array]) -> NDArray[np.uint64]:
    """The digests (n, 2) of the rows of these columns, which are at least one."""
    rows = np.concatenate([_canonical(column) for column in columns], axis=1)
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
    elif pa.types.is_decimal(kind):
        values = _text_digests(column.cast(pa.string()))
    elif pa.types.is_floating(kind):
        values = _float_bytes(column)
    else:
        values = np.ascontiguousarray(as_whole_numbers(column)).view(np.uint8).reshape(-1, 8)
    flags = column.is_null().to_numpy(zero_copy_only=False).astype(np.uint8)
    return np.concatenate([flags[:, None], values], axis=1)


def _float_bytes(column: pa.Array) -> NDArray[np.uint8]:
    """float64 bits, one NaN for all."""
    values = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    plain = np.where(np.isnan(values), np.nan, values)
    return np.ascontiguousarray(plain).view(np.uint8).reshape(-1, 8)


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
