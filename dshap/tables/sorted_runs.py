"""Columns of numbers in files, each file sorted by its first column, taken range by range.

Together the files are one table that is never in memory: of a range of the first column each file
has a slice, and few rows are held at once.  A range with too many rows is cut again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dshap.core.disk import whole_file

Columns = NDArray[np.uint64]
"""(columns, n): the first column sorts the rows."""

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
    if (in_order[1:] == in_order[:-1]).any():
        order = np.argsort(columns[0], kind="stable")
    head = {"descr": columns.dtype.str, "fortran_order": False, "shape": columns.shape}
    with whole_file(file) as private, private.open("wb") as opened:
        npy.write_array_header_1_0(opened, head)
        for column in columns:  # a copy of all columns would take as much memory again
            opened.write(column[order].tobytes())


def sorted_files(folder: Path) -> list[Path]:
    """The files of `leave_sorted` in a folder, in the order of their names."""
    return sorted(folder.glob("*.npy"))


def count_rows(files: Sequence[Path]) -> int:
    """The number of rows in all files."""
    return sum(int(np.load(file, mmap_mode="r").shape[1]) for file in files)


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


def _places(file: Path, edges: Sequence[int]) -> NDArray[np.intp]:
    """(edges,): the places in a file of the first numbers that are not below these edges."""
    numbers = np.load(file, mmap_mode="r")[0]
    below = np.array([edge for edge in edges if edge < N_NUMBERS], np.uint64)
    ends = [len(numbers)] * (len(edges) - len(below))
    return np.append(np.searchsorted(numbers, below), ends).astype(np.intp)


def slice_of(file: Path, low: int, high: int) -> Columns:
    """(columns, m): the rows of a file whose number is in low..high, still on disk."""
    start, stop = _places(file, (low, high))
    found: Columns = np.load(file, mmap_mode="r")[:, start:stop]
    return found


def rows_between(files: Sequence[Path], low: int, high: int) -> Columns:
    """(columns, m): the rows of all files whose number is in low..high, file after file."""
    return np.concatenate([slice_of(file, low, high) for file in files], axis=1)
