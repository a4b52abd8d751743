"""Hashes of row keys, and the search for keys that occur twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dshap.tables.files import whole_file

__all__ = ["hash_keys", "repeated_keys", "save_key_hashes"]

Hashes = NDArray[np.uint64]

SHOWN_ROWS = 5
"""Repeated rows whose positions are reported."""
PRIMES = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""splitmix64 (Steele, Lea, Flood 2014): a bijection of 64 bits, so single integer keys never collide."""


class Span(Protocol):
    """Consecutive rows: a `SpanCensus`, a range."""

    @property
    def start(self) -> int: ...
    @property
    def stop(self) -> int: ...


def hash_keys(keys: Mapping[str, NDArray[Any]]) -> Hashes:
    """A hash (n,) of each row's tuple of keys, the same in every process.

    Exact for one column of integers or times; otherwise two of N different keys share a hash with probability
    N^2 / 2^65, 1e-7 at two million rows.
    """
    total = np.zeros(len(next(iter(keys.values()))), dtype=np.uint64)
    for values in keys.values():
        total = _mix(total ^ _hash_column(values))
    return total


def _hash_column(values: NDArray[Any]) -> Hashes:
    if values.dtype.kind != "T":
        return values.view(np.uint64)
    from pandas.util import hash_array

    return np.asarray(hash_array(values.astype(object), categorize=False))


def _mix(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ (hashes >> np.uint64(30))) * PRIMES[0]
    hashes = (hashes ^ (hashes >> np.uint64(27))) * PRIMES[1]
    return hashes ^ (hashes >> np.uint64(31))


def save_key_hashes(directory: str | Path, start: int, keys: Mapping[str, NDArray[Any]]) -> Path:
    """Write the hashes of the rows from `start` on as ``keys-<start>.npy``, under a private name first."""
    path = _path(directory, start)
    with whole_file(path) as private, private.open("wb") as file:
        np.save(file, hash_keys(keys))
    return path


def _path(directory: str | Path, start: int) -> Path:
    return Path(directory) / f"keys-{start}.npy"


def repeated_keys(key_directory: str | Path, spans: Sequence[Span]) -> tuple[int, list[int]]:
    """How many rows repeat the key of an earlier row, and the positions of the first few of them.

    Parameters
    ----------
    key_directory : path
        Where `census_span` left the hashes of every span.
    spans : sequence
        The spans, in any order: anything with `start` and `stop`.

    Notes
    -----
    Memory: 8 bytes a row for the sorted hashes, and at most 9 more where every key is repeated.
    """
    ordered = sorted(spans, key=lambda span: span.start)
    hashes = np.concatenate([np.load(_path(key_directory, span.start)) for span in ordered])  # (n,)
    hashes.sort()
    is_repeat = hashes[1:] == hashes[:-1]
    n_repeated = int(np.count_nonzero(is_repeat))
    repeated = np.unique(hashes[1:][is_repeat])
    return n_repeated, _first_repeats(key_directory, ordered, repeated) if n_repeated else []


def _first_repeats(key_directory: str | Path, ordered: Sequence[Span], repeated: Hashes) -> list[int]:
    """Positions of the first few rows whose hash, one of the sorted `repeated`, has been seen before."""
    is_seen = np.zeros(len(repeated), dtype=bool)
    positions: list[int] = []
    for span in ordered:
        hashes = np.load(_path(key_directory, span.start))  # (n,)
        rows = np.flatnonzero(np.isin(hashes, repeated))
        which = np.searchsorted(repeated, hashes[rows])
        is_again = np.ones(len(rows), dtype=bool)
        first = np.unique(which, return_index=True)[1]
        is_again[first] = is_seen[which[first]]
        is_seen[which] = True
        positions += (span.start + rows[is_again]).tolist()
        if len(positions) >= SHOWN_ROWS:
            break
    return positions[:SHOWN_ROWS]
