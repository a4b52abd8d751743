"""Keys that are looked for in the rows of any table, by the hashes of the keys."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.late import pa
from dshap.tables.checksums import open_parquet, unreadable
from dshap.tables.keys.hashes import wide_hashes

NO_KEY = -1
"""Marks a row whose key is not wanted."""


@dataclass(frozen=True)
class WantedKeys:
    """Keys that are looked for, each once.

    Parameters
    ----------
    columns : mapping
        Key column -> values (k,) as int64, text or datetime64[ns].
    """

    columns: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def names(self) -> tuple[str, ...]:
        """The key columns, in their order."""
        return tuple(self.columns)

    def numbers(self, keys: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
        """(n,): the number of the wanted key that each row has; `NO_KEY` for none."""
        rows = wide_hashes({name: keys[name] for name in self.columns})
        first, second, order = self._hashed
        places = np.searchsorted(first, rows[:, 0])
        found = np.full(len(rows), NO_KEY, np.int64)
        for shift in range(self._most_alike):  # wanted keys that share the first half of a hash
            # a hash beyond the last wanted one has no place of its own
            at = np.minimum(places + shift, len(first) - 1)
            is_same = (first[at] == rows[:, 0]) & (second[at] == rows[:, 1])
            found[is_same] = order[at[is_same]]
        return found

    def texts(self) -> list[str]:
        """Each key as one line of text, its columns joined by a comma and a blank."""
        rows = zip(*(values.tolist() for values in self._as_text), strict=True)
        return [", ".join(row) for row in rows]

    def digests(self, secret: bytes) -> list[str]:
        """A keyed digest (HMAC-SHA-256) of each key, from which the key cannot be read."""
        found = []
        for row in zip(*(values.tolist() for values in self._as_text), strict=True):
            # separated by "\0", so that the keys ("a, b", "c") and ("a", "b, c") differ
            content = "\0".join([*self.columns, *row]).encode()
            found.append(hmac.new(secret, content, hashlib.sha256).hexdigest())
        return found

    def only(self, is_chosen: NDArray[np.bool_]) -> WantedKeys:
        """The chosen ones of the keys (k,)."""
        return WantedKeys({name: values[is_chosen] for name, values in self.columns.items()})

    @cached_property
    def _as_text(self) -> list[NDArray[Any]]:
        return [values.astype(np.dtypes.StringDType()) for values in self.columns.values()]

    @cached_property
    def _hashed(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.intp]]:
        """The two halves of the hashes (k,), sorted by the first, and the numbers of their keys."""
        hashes = wide_hashes(self.columns)
        order = np.argsort(hashes[:, 0], kind="stable")
        return hashes[order, 0], hashes[order, 1], order

    @cached_property
    def _most_alike(self) -> int:
        """The most wanted keys that share the first half of a hash."""
        _, counts = np.unique(self._hashed[0], return_counts=True)
        return int(counts.max(initial=1))


def columns_as_text(file: Path, names: Sequence[str]) -> list[list[str]]:
    """The values of columns of a Parquet file as texts.

    Raises
    ------
    InputError
        The file cannot be read, or lacks a column.
    """
    try:
        with open_parquet(file) as opened:
            table = opened.read()
    except (OSError, ValueError) as error:  # those of Arrow are ValueErrors
        raise unreadable(file, error) from error
    if missing := [name for name in names if name not in table.column_names]:
        raise InputError(f"{file} has no column {missing[0]!r}, which is part of the key")
    return [[str(text) for text in table[name].cast(pa.string()).to_pylist()] for name in names]
