"""Columns of numbers in files, each file sorted by its first column, read range by range.

Together the files are one table that is never in memory: of a range of the first column each file
has a slice, and few rows are in memory at once.  A range with too many rows is cut again.
"""

from __future__ import annotations

import bisect
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dshap.storage.disk import whole_file

Columns = NDArray[np.uint64]
"""(columns, n): the first column sorts the rows."""

NUMBER_BYTES = 8
"""The bytes of a value."""
N_NUMBERS = 1 << 64
"""The number of different values of a column."""
LEAST_CUTS = 16
"""Least number of parts that a range with too many rows is cut into."""
SPARE = 1.1
"""Parts for each `together` rows: hashes are spread evenly, but for chance."""


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to below `high`, and the number of rows that have one of them."""

    low: int
    high: int
    n_rows: int


def leave_sorted(file: Path, columns: Columns) -> None:
    """Write columns (columns, n) to a new file, in the order of the first.

    Rows with one number stay in their order.
    """
    order = np.argsort(columns[0])
    in_order = columns[0][order]
    # the default sort may change the order of rows with one number
    if (in_order[1:] == in_order[:-1]).any():
        order = np.argsort(columns[0], kind="stable")
    head = {"descr": columns.dtype.str, "fortran_order": False, "shape": columns.shape}
    with whole_file(file) as private, private.open("wb") as opened:
        npy.write_array_header_1_0(opened, head)
        for column in columns:  # a copy of all columns would need as much memory again
            opened.write(column[order].tobytes())


def sorted_files(folder: Path) -> list[Path]:
    """The files of `leave_sorted` in a folder, in the order of their names."""
    return sorted(folder.glob("*.npy"))


class SortedFile:
    """A file of `leave_sorted`, opened to read few of its rows.

    It is read and not mapped: the pages of a mapped file count as memory of the process.
    """

    def __init__(self, file: Path) -> None:
        self._opened = file.open("rb", buffering=0)
        npy.read_magic(self._opened)
        shape, _, _ = npy.read_array_header_1_0(self._opened)
        self.n_columns, self.n_rows = shape
        self._start = self._opened.tell()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def place(self, number: int) -> int:
        """The place of the first row whose number is not below this one."""
        return bisect.bisect_left(range(self.n_rows), number, key=self._number)

    def column(self, column: int, start: int, stop: int) -> NDArray[np.uint64]:
        """(stop - start,): the values of a column in these rows."""
        at = self._start + NUMBER_BYTES * (column * self.n_rows + start)
        content = os.pread(self._opened.fileno(), NUMBER_BYTES * (stop - start), at)
        return np.frombuffer(content, np.uint64)

    def _number(self, row: int) -> int:
        return int(self.column(0, row, row + 1)[0])


def count_rows(files: Sequence[Path]) -> int:
    """The number of rows in all files."""
    return sum(map(_count_rows, files))


def _count_rows(file: Path) -> int:
    with SortedFile(file) as opened:
        return opened.n_rows


def ranges(
    files: Sequence[Path], together: int, low: int = 0, high: int = N_NUMBERS
) -> Iterator[Range]:
    """Ranges from `low` to `high` with at most `together` rows each, or of one number."""
    if not files:
        return iter(())
    return _ranges(files, low, high, count_rows(files), together)


def _ranges(
    files: Sequence[Path], low: int, high: int, n_rows: int, together: int
) -> Iterator[Range]:
    n_parts = 1
    if n_rows > together:
        n_parts = min(max(math.ceil(SPARE * n_rows / together), LEAST_CUTS), high - low)
    edges = [low + (high - low) * edge // n_parts for edge in range(n_parts + 1)]
    counts = np.sum([np.diff(_places(file, edges)) for file in files], axis=0)
    for (start, stop), count in zip(itertools.pairwise(edges), counts, strict=True):
        if count <= together or stop - start == 1:
            yield Range(start, stop, int(count))
        else:
            yield from _ranges(files, start, stop, int(count), together)


def _places(file: Path, edges: Sequence[int]) -> list[int]:
    """The places in a file of the first numbers that are not below these edges."""
    with SortedFile(file) as opened:
        return [opened.place(edge) for edge in edges]


def slice_of(file: Path, low: int, high: int, columns: Sequence[int] | None = None) -> Columns:
    """(columns, m): the rows of a file whose number is in low..high; all columns, or those chosen."""
    with SortedFile(file) as opened:
        start = opened.place(low)
        stop = opened.place(high)
        if columns is None:
            columns = range(opened.n_columns)
        return np.stack([opened.column(column, start, stop) for column in columns])


def rows_between(
    files: Sequence[Path], low: int, high: int, columns: Sequence[int] | None = None
) -> Columns:
    """(columns, m): the rows of all files whose number is in low..high, file after file."""
    return np.concatenate([slice_of(file, low, high, columns) for file in files], axis=1)
