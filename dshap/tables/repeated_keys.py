"""The search for rows that repeat a key, by hashes of the keys in files.

Each file holds the hashes of the keys of a span in order, and the position of the row of each.  The
hashes are taken in ranges, a range from all files at once, so that few rows are held in memory: a
range with too many rows is cut again, and one hash with too many rows is counted.  Different keys
may share a hash, so the keys of rows with equal hashes are read before the rows count as repeated.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dshap.core.disk import whole_file
from dshap.core.types import RowReader

SHOWN_ROWS = 5
"""Largest number of repeated rows whose positions are reported."""
KEYS_TOGETHER = 1 << 22
"""Number of keys that are compared at once, in 64 MiB."""
N_HASHES = 1 << 64
"""The number of different hashes."""
LEAST_CUTS = 16
"""Least number of parts that a range with too many rows is cut into."""
SPARE = 1.1
"""Parts for each `together` rows: hashes are spread evenly, but for chance."""
COMPARED_HASHES = 8
"""Number of hashes whose rows are compared by their keys; more are compared until a key repeats.

Among N different keys N^2 / 2^65 pairs share a hash, 0.03 at a billion.
"""
COMPARED_ROWS = 64
"""Number of rows of one hash that are compared by their keys; all where these have several keys."""
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
    order = np.argsort(hashes)
    in_order = hashes[order]
    if (in_order[1:] == in_order[:-1]).any():  # rows of one hash stand in their order
        order = np.argsort(hashes, kind="stable")
    held = np.stack([in_order, (start + order).astype(np.uint64)])  # (2, n)
    with whole_file(folder / f"{start:015d}.npy") as private, private.open("wb") as file:
        np.save(file, held)


def repeated_keys(folder: Path, key_at: KeyAt, together: int = KEYS_TOGETHER) -> RepeatedKeys:
    """Find the rows that repeat the key of an earlier row.

    Parameters
    ----------
    folder : the files of `leave_hashes`
    key_at : the key of the row at a position; asked for few rows, and only where hashes are equal
    together : the number of rows that are held at once
    """
    files = sorted(folder.glob("*.npy"))
    if not files:
        return RepeatedKeys(0, [], [])
    n_rows = sum(np.load(file, mmap_mode="r").shape[1] for file in files)
    comparison = _Comparison(key_at)
    n_repeated = 0
    positions: list[int] = []
    for part in _ranges(files, 0, N_HASHES, n_rows, together):
        if part.n_rows > together:
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


@dataclass(frozen=True)
class _Range:
    """The hashes from `low` to below `high`, and the number of rows that have one of them."""

    low: int
    high: int
    n_rows: int


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

        Where the first `COMPARED_ROWS` have one key, the others have it too.
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


def _ranges(
    files: Sequence[Path], low: int, high: int, n_rows: int, together: int
) -> Iterator[_Range]:
    """Ranges of hashes with at most `together` rows each, or of one hash."""
    n_parts = 1
    if n_rows > together:
        n_parts = min(max(math.ceil(SPARE * n_rows / together), LEAST_CUTS), high - low)
    edges = [low + (high - low) * edge // n_parts for edge in range(n_parts + 1)]
    counts = np.sum([np.diff(_places(file, edges)) for file in files], axis=0)
    for (start, stop), count in zip(itertools.pairwise(edges), counts, strict=True):
        if count <= together or stop - start == 1:
            yield _Range(start, stop, int(count))
        else:
            yield from _ranges(files, start, stop, int(count), together)


def _places(file: Path, edges: Sequence[int]) -> NDArray[np.intp]:
    """(edges,): the places in a file of the first hashes that are not below these edges."""
    hashes = np.load(file, mmap_mode="r")[0]
    below = np.array([edge for edge in edges if edge < N_HASHES], np.uint64)
    ends = [len(hashes)] * (len(edges) - len(below))
    return np.append(np.searchsorted(hashes, below), ends).astype(np.intp)


def _slice(file: Path, part: _Range) -> NDArray[np.uint64]:
    """(2, m): the hashes of a file in a range, and the positions of their rows, still on disk."""
    start, stop = _places(file, (part.low, part.high))
    found: NDArray[np.uint64] = np.load(file, mmap_mode="r")[:, start:stop]
    return found


def _of_few_rows(
    files: Sequence[Path], part: _Range, comparison: _Comparison
) -> tuple[int, list[int]]:
    """The number of repeated rows in a range, and the first positions."""
    if part.n_rows < 2:
        return 0, []
    hashes = np.concatenate([_slice(file, part)[0] for file in files])
    hashes.sort()
    if not (hashes[1:] == hashes[:-1]).any():
        return 0, []
    hashes, rows = np.concatenate([_slice(file, part) for file in files], axis=1)
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
    files: Sequence[Path], part: _Range, comparison: _Comparison
) -> tuple[int, list[int]]:
    """The number of repeated rows of one hash, which has too many to be held, and the first."""
    new: list[int] = []
    if not comparison.is_enough:
        new = comparison.different(_rows_of(files, part), part.n_rows)
    first = itertools.islice(_rows_of(files, part), len(new) + SHOWN_ROWS + 1)
    shown = [row for row in itertools.islice(first, 1, None) if row not in new]
    return part.n_rows - 1 - len(new), shown[:SHOWN_ROWS]


def _rows_of(files: Sequence[Path], part: _Range) -> Iterator[int]:
    """The positions of the rows of one hash, in order."""
    for file in files:
        yield from map(int, _slice(file, part)[1])
