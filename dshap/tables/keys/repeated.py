"""The search for rows that repeat a key, by hashes of the keys in files.

Each file contains the hashes of the keys of a span in order, and the position of the row of each.
The hashes are read range by range (`sorted_runs`), and one hash with too many rows is counted.
Different keys may share a hash, so the keys of rows with equal hashes are read before the rows
count as repeated.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dshap.core.types import RowReader
from dshap.tables.keys.sorted_runs import (
    Range,
    count_rows,
    leave_sorted,
    ranges,
    rows_between,
    slice_of,
    sorted_files,
)

SHOWN_ROWS = 5
"""Largest number of repeated rows whose positions are reported."""
KEYS_TOGETHER = 1 << 19
"""Number of keys that are compared at once, in 8 MiB."""
COMPARED_HASHES = 8
"""Number of hashes whose rows are compared by their keys; more are compared until a key repeats.

Among N different keys N^2 / 2^65 pairs share a hash, 0.03 at a billion.
"""
COMPARED_ROWS = 64
"""Number of rows of one hash that are compared by their keys; all if these have several keys."""
KeyAt = Callable[[int], Hashable]
"""The key of the row at a position."""


@dataclass(frozen=True)
class SharedKey:
    """A key that several rows have."""

    position: int
    """The first of the rows."""
    n_rows: int


@dataclass(frozen=True)
class RepeatedKeys:
    """The rows that repeat the key of an earlier row."""

    n_rows: int
    """Their number."""
    positions: list[int]
    """A few of them: the first in the first range of hashes that has any."""
    keys: list[SharedKey]
    """A few of their keys."""


def leave_hashes(folder: Path, start: int, hashes: NDArray[np.uint64]) -> None:
    """Write hashes (n,) of the keys of consecutive rows, the first at `start`, into a folder."""
    positions = np.arange(start, start + len(hashes), dtype=np.uint64)
    leave_sorted(folder / f"{start:015d}.npy", np.stack([hashes, positions]))


def repeated_keys(folder: Path, key_at: KeyAt, together: int = KEYS_TOGETHER) -> RepeatedKeys:
    """Find the rows that repeat the key of an earlier row.

    Parameters
    ----------
    folder : the files of `leave_hashes`
    key_at : the key of the row at a position; asked for few rows, and only if hashes are equal
    together : the number of rows in memory at once
    """
    files = sorted_files(folder)
    if not count_rows(files):
        return RepeatedKeys(0, [], [])
    comparison = _Comparison(key_at)
    n_repeated = 0
    positions: list[int] = []
    for part in ranges(files, together):
        if part.n_rows > together:
            # `ranges` cuts down to single hashes: one hash has more rows than may be in memory
            n_here, first = _of_one_hash(files, part, comparison)
        else:
            n_here, first = _of_few_rows(files, part, comparison)
        n_repeated += n_here
        positions = positions or first
    return RepeatedKeys(n_repeated, positions, comparison.shared)


def key_of_row(reader: RowReader, position: int) -> tuple[Hashable, ...]:
    """The key of one row, as a tuple of its columns."""
    keys = reader.read(position, position + 1, keys=True).keys
    return tuple(values[0] for values in keys.values())


class _Comparison:
    """The comparison of rows with equal hashes by their keys."""

    def __init__(self, key_at: KeyAt) -> None:
        self._key_at = key_at
        self._n_hashes = 0
        self.shared: list[SharedKey] = []
        """A few keys that several rows have."""

    @property
    def is_enough(self) -> bool:
        """Whether further rows with equal hashes count as repeated without a look at their keys."""
        return bool(self.shared) and self._n_hashes >= COMPARED_HASHES

    def different(self, rows: Iterable[int], n_rows: int) -> list[int]:
        """The rows, of those with one hash, whose key no earlier of them has; but for the first.

        If the first `COMPARED_ROWS` have one key, the others have it too.
        """
        self._n_hashes += 1
        first: dict[Hashable, int] = {}
        counts: Counter[Hashable] = Counter()
        for n_before, row in enumerate(rows):
            if n_before == COMPARED_ROWS and len(first) == 1:
                counts.update(dict.fromkeys(first, n_rows - n_before))
                break
            key = self._key_at(row)
            first.setdefault(key, row)
            counts[key] += 1
        shared = [SharedKey(first[key], count) for key, count in counts.items() if count > 1]
        self.shared = [*self.shared, *shared][:SHOWN_ROWS]
        return list(first.values())[1:]


def _of_few_rows(
    files: Sequence[Path], part: Range, comparison: _Comparison
) -> tuple[int, list[int]]:
    """The number of repeated rows in a range, and the first positions."""
    if part.n_rows < 2:
        return 0, []
    # positions are read only if two hashes are equal, which most ranges do not have
    (hashes,) = rows_between(files, part.low, part.high, [0])
    hashes.sort()
    if not (hashes[1:] == hashes[:-1]).any():
        return 0, []
    hashes, rows = rows_between(files, part.low, part.high)
    order = np.lexsort((rows, hashes))
    hashes = hashes[order]
    rows = rows[order]
    starts = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
    is_repeated = np.ones(len(rows), bool)
    is_repeated[starts] = False
    stops = np.append(starts[1:], len(rows))
    is_shared = stops - starts > 1
    for start, stop in zip(starts[is_shared], stops[is_shared], strict=True):
        if comparison.is_enough:
            break
        new = comparison.different(rows[start:stop].tolist(), int(stop - start))
        is_repeated[start:stop] &= ~np.isin(rows[start:stop], new)
    return int(np.count_nonzero(is_repeated)), np.sort(rows[is_repeated])[:SHOWN_ROWS].tolist()


def _of_one_hash(
    files: Sequence[Path], part: Range, comparison: _Comparison
) -> tuple[int, list[int]]:
    """The number of repeated rows of one hash, which has too many for the memory, and the first."""
    new: list[int] = []
    if not comparison.is_enough:
        new = comparison.different(_rows_of(files, part), part.n_rows)
    first = itertools.islice(_rows_of(files, part), len(new) + SHOWN_ROWS + 1)
    shown = [row for row in itertools.islice(first, 1, None) if row not in new]
    return part.n_rows - 1 - len(new), shown[:SHOWN_ROWS]


def _rows_of(files: Sequence[Path], part: Range) -> Iterator[int]:
    """The positions of the rows of one hash, in order."""
    for file in files:
        yield from map(int, slice_of(file, part.low, part.high, [1])[0])
