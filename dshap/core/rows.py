"""Rows by their position in a table: spans, and seeded draws that no chunking changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import RowBlock
from dshap.core.records import FloatArray, Record, Stacked
from dshap.core.types import RowReader

SPAN_ROWS = 65_536
"""The rows of a span, which begins at a multiple of it.  It is part of the fingerprint of data, so
it must not change."""

Positions = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True)
class OfTable:
    """Data of a value function that are the rows which are explained."""

    n_rows: int | None = None
    """A random sample of so many of them; None: all."""

    def sample(self, reader: RowReader) -> FloatArray | None:
        """The sample of a table, without rows that are skipped; None if all rows are used."""
        if self.n_rows is None or self.n_rows >= reader.n_rows:
            return None
        return read_sample(reader, self.n_rows, seed=0)["x"]


def spans(start: int, stop: int, step: int = SPAN_ROWS) -> list[tuple[int, int]]:
    """Consecutive pairs (a, b) from start to stop, each `step` long but the last."""
    return [(a, min(a + step, stop)) for a in range(start, stop, step)]


def spans_with(positions: Positions, cut: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans of `cut` that contain at least one of these sorted positions."""
    return [(a, b) for a, b in cut if np.searchsorted(positions, a) < np.searchsorted(positions, b)]


def runs_of_neighbours(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The runs of consecutive numbers among sorted ones: the first and the last number of each."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def splitmix64(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of SplitMix64, a bijection of 64 bits (Steele, Lea and Flood 2014)."""
    z = (state ^ (state >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


def row_draws(positions: NDArray[np.integer], seed: int) -> FloatArray:
    """A uniform number in [0, 1) for each row (n,), from seed and position in the table alone."""
    key = splitmix64(np.array([seed % 2**64], dtype=np.uint64) + _GOLDEN)
    counter = np.asarray(positions).astype(np.uint64) + np.uint64(1)
    # the upper 53 bits, which a float64 represents exactly
    return (splitmix64(key + counter * _GOLDEN) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def smallest_draws(n_rows: int, size: int, seed: int, below: float = 1.0) -> Positions:
    """The sorted positions of the `size` rows with the smallest draws below `below`.

    There are fewer if fewer draws are below it.
    """
    positions = np.empty(0, dtype=np.int64)
    draws = np.empty(0)
    for span in spans(0, n_rows):
        more = np.arange(*span)
        positions = np.concatenate([positions, more])
        draws = np.concatenate([draws, row_draws(more, seed)])
        order = np.argsort(draws, kind="stable")[:size]
        order = order[draws[order] < below]
        positions = positions[order]
        draws = draws[order]
    return np.sort(positions)


def sample_positions(n_rows: int, size: int, seed: int) -> Positions:
    """Sorted positions of a sample without replacement; all rows if there are at most `size`."""
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, size, replace=False, shuffle=False))


def chosen_rows(block: RowBlock, positions: Positions) -> Stacked:
    """The good rows of a block that are among these sorted positions of its table.

    The record contains `x` (n, columns), `position` (n,) and, where the block has one, `target`.
    """
    inside = positions[slice(*np.searchsorted(positions, [block.start, block.stop]))]
    position = inside[block.is_ok[inside - block.start]]
    place = position - block.start
    found = {"x": block.x[place], "position": position}
    if block.target is not None:
        found["target"] = block.target[place]
    return Stacked(found)


def read_sample(
    reader: RowReader, size: int, seed: int, step: int = SPAN_ROWS, *, target: bool = False
) -> Record:
    """Read a seeded sample of a table: see `read_rows`."""
    return read_rows(reader, sample_positions(reader.n_rows, size, seed), step, target=target)


def read_rows(
    reader: RowReader, positions: Positions, step: int = SPAN_ROWS, *, target: bool = False
) -> Record:
    """Read the rows at these positions, `step` rows at once; an empty record for no position."""
    parts = []
    # no list of all spans: a table may have 10¹¹ rows
    for start in np.unique(positions // step * step).tolist():
        block = reader.read(start, min(start + step, reader.n_rows), target=target)
        parts.append(chosen_rows(block, positions).arrays)
    return Record(
        {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}
    )


def read_columns(reader: RowReader) -> Mapping[str, NDArray[Any]]:
    """The feature columns of all rows of a table (n,), in their own dtypes, read by spans."""
    blocks = [reader.read(*span, columns=True).columns for span in spans(0, reader.n_rows)]
    return {name: np.concatenate([each[name] for each in blocks]) for name in reader.column_dtypes}


def column_bytes(reader: RowReader) -> int:
    """The bytes of these columns in memory, without the characters of texts."""
    return reader.n_rows * sum(dtype.itemsize for dtype in reader.column_dtypes.values())
