"""Hashes of the keys of rows, and which rows of two tables have one key by them.

A hash of 64 bits finds rows that may have one key, and their keys decide (`repeated_keys`).  Where
keys are not at hand any more, a hash of 128 bits decides: two halves that come about apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.late import pd
from dshap.core.rows import splitmix64

WideHashes = NDArray[np.uint64]
"""(n, 2): a hash of 128 bits for each row."""

_SECOND_TEXT_KEY = "dshap: 2nd half."
"""The 16 bytes that SipHash is seeded with for the second half; pandas has others for the first."""
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX2 = np.uint64(0xC4CEB9FE1A85EC53)


def hash_keys(keys: Mapping[str, np.ndarray]) -> NDArray[np.uint64]:
    """A hash (n,) of the tuple of keys of each row, the same in every process.

    Exact for one column of integers or times.  Otherwise two of N different keys share a hash with
    probability N^2 / 2^65: 1e-7 at two million rows, 2.7 % at a billion.  Callers that treat rows
    of one hash as rows of one key therefore compare their keys (`repeated_keys`), or `wide_hashes`.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import hash_keys
    >>> hashes = hash_keys({"shop": np.array([1, 1, 2]), "day": np.array([5, 6, 5])})
    >>> hashes.dtype, len(set(hashes.tolist()))
    (dtype('uint64'), 3)
    """
    total = np.zeros(len(next(iter(keys.values()))), dtype=np.uint64)
    for values in keys.values():
        is_text = values.dtype.kind == "T"
        if is_text:
            hashes = pd.util.hash_array(values.astype(object), categorize=False)
        else:
            hashes = values.view(np.uint64)
        total = splitmix64(total ^ hashes)
    return total


def wide_hashes(keys: Mapping[str, np.ndarray]) -> WideHashes:
    """A hash (n, 2) of 128 bits of the tuple of keys of each row, the same in every process.

    The first half is `hash_keys`, the second made from the keys by another function.  Exact for one
    column of integers or times; otherwise two of N different keys share a hash with probability
    N^2 / 2^129: 1.5e-21 at a billion rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import wide_hashes
    >>> wide_hashes({"shop": np.array([1, 1, 2]), "day": np.array([5, 6, 5])}).shape
    (3, 2)
    """
    return np.stack([hash_keys(keys), _second_half(keys)], axis=1)


def _second_half(keys: Mapping[str, NDArray[Any]]) -> NDArray[np.uint64]:
    """A hash (n,) of the keys, by sums and the mixing steps of MurmurHash3 (Appleby 2011).

    `hash_keys` joins columns by exclusive or, and mixes them otherwise: keys that meet there do not
    meet here.
    """
    total = np.zeros(len(next(iter(keys.values()))), dtype=np.uint64)
    for values in keys.values():
        if values.dtype.kind == "T":
            hashes = pd.util.hash_array(
                values.astype(object), hash_key=_SECOND_TEXT_KEY, categorize=False
            )
        else:
            hashes = values.view(np.uint64)
        total = _mixed(total + hashes + _STEP)
    return total


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of MurmurHash3, a bijection of 64 bits."""
    z = (state ^ (state >> np.uint64(33))) * _MIX1
    z = (z ^ (z >> np.uint64(33))) * _MIX2
    return z ^ (z >> np.uint64(33))


def hash_columns(columns: Mapping[str, np.ndarray]) -> NDArray[np.uint64]:
    """A hash (n,) of the values of each row.

    It is the same for the columns of a table and for the columns that a cube stores of it.  Two
    given rows with other values share one with probability 2^-64: 5e-11 that one of a billion
    changed rows counts as unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import hash_columns
    >>> monday = hash_columns({"age": np.array([30.0, 40.0]), "city": np.array([1.0, 2.0])})
    >>> tuesday = hash_columns({"age": np.array([30.0, 41.0]), "city": np.array([1.0, 2.0])})
    >>> (monday == tuesday).tolist()  # the second row has changed
    [True, False]
    """
    return hash_keys({name: _hashable(values) for name, values in columns.items()})


def _hashable(values: NDArray[Any]) -> NDArray[Any]:
    """A column in the form that is hashed.

    Missing text is "", as in a cube; times stay as they are; numbers are float64, with one NaN.
    """
    if values.dtype.kind == "T":
        return np.array([text or "" for text in values.tolist()], dtype=np.dtypes.StringDType())
    if values.dtype.kind == "M":
        return values
    numbers = values.astype(np.float64)
    return np.where(np.isnan(numbers), np.nan, numbers)


@dataclass(frozen=True)
class NumberedKeys:
    """The rows of two sides with a number for each different key of both, in the order of hashes.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import number_keys, wide_hashes
    >>> old = wide_hashes({"id": np.array([1, 2, 3])})
    >>> new = wide_hashes({"id": np.array([3, 4, 1])})
    >>> numbered = number_keys(old, new)
    >>> numbered.n_keys
    4
    >>> [sorted(rows.tolist()) for rows in numbered.pairs]  # rows of the keys 1 and 3 on both sides
    [[0, 2], [0, 2]]
    """

    old: NDArray[np.int64]
    """(n,): the number of the key of each row."""
    new: NDArray[np.int64]
    """(m,)"""
    n_keys: int

    @cached_property
    def first_old(self) -> NDArray[np.int64]:
        """(keys,): the first row that has each key; -1 if none has."""
        return self._first(self.old)

    @cached_property
    def first_new(self) -> NDArray[np.int64]:
        return self._first(self.new)

    def _first(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        first = np.full(self.n_keys, -1, np.int64)
        first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the last assignment stays
        return first

    @property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first rows of both sides that have each key, of the keys that both sides have."""
        is_in_both = (self.first_old >= 0) & (self.first_new >= 0)
        return self.first_old[is_in_both], self.first_new[is_in_both]

    @property
    def repeated_old(self) -> NDArray[np.int64]:
        """The rows whose key an earlier row has, in order."""
        return np.flatnonzero(self.first_old[self.old] != np.arange(len(self.old)))

    @property
    def repeated_new(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.first_new[self.new] != np.arange(len(self.new)))


def number_keys(old: WideHashes, new: WideHashes) -> NumberedKeys:
    """Number the different keys of two sides by their hashes of 128 bits.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import number_keys, wide_hashes
    >>> old = wide_hashes({"id": np.array([1, 2])})
    >>> new = wide_hashes({"id": np.array([2, 2])})
    >>> numbered = number_keys(old, new)
    >>> numbered.n_keys, numbered.repeated_new.tolist()
    (2, [1])
    """
    first, second = np.concatenate([old, new]).T
    # the first half alone decides nearly always; whether it does is checked below
    order = np.argsort(first)
    is_first = _differs(first[order])
    is_second = _differs(second[order])
    if (is_second & ~is_first).any():  # different keys share the first half
        order = np.lexsort((second, first))
        is_first = _differs(first[order])
        is_second = _differs(second[order])
    is_new = is_first | is_second
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(is_new) - 1
    n_keys = int(np.count_nonzero(is_new))
    return NumberedKeys(numbers[: len(old)], numbers[len(old) :], n_keys)


def _differs(values: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """(n,): whether a value differs from the one before; the first does."""
    return np.append(np.ones(min(len(values), 1), bool), values[1:] != values[:-1])
