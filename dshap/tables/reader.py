"""Base classes of readers: columns by their roles, and blocks that are filled batch by batch."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import RowBlock
from dshap.core.errors import InputError
from dshap.core.fixed_words import MissingRule
from dshap.core.late import pa
from dshap.core.records import JSON, BoolArray
from dshap.core.types import RowReader
from dshap.tables.columns import (
    KEY_DTYPES,
    Layout,
    code_array,
    kept_array,
    key_array,
    number_array,
    time_array,
)

BATCH_ROWS = 16_384
"""Rows decoded at once: 3 MB at 20 columns.  8,192 and 65,536 were measured to be equally fast."""
COLUMNS_AT_ONCE = 64
"""Number of columns that are decoded at once.

A wide table is read in several passes over the rows of a block; each opens only the pages of its
own columns.
"""
STREAM_BYTES = 65_536
"""Bytes of read-ahead per column.

A row group of 1e6 rows and 20 columns needs 47 MB so, and 211 MB with Arrow's pre_buffer.
"""
PAGE_BYTES = 1 << 20
"""Bytes of the largest page that writers make by default."""
NUMBER_BYTES = 8
NUMBER_PAGES = 2
"""Bytes of a decoded number or time, and pages in memory: one compressed and one decoded."""
TEXT_BYTES = 64
TEXT_PAGES = 5
"""A text counts as 64 bytes, because the schema does not give its length.

Its dictionary and the buffers that grow while it is decoded needed 5 pages at 64 characters
(pyarrow 26, 300,000 different texts).
"""
COLUMN_BYTES = 8_192
"""Bytes of the footer of a column and its description, as Python objects in several places.

Without them a task with 2,000 columns needs 16 MiB more than was planned.
"""
TEXT_ROW_BYTES = 150
"""Bytes of a text in each of two batches.

Measured were 294 for both: nearly four times its characters, and a Python string.
"""


def check_span(start: int, stop: int, n_rows: int) -> None:
    """Raise unless start..stop is within the table."""
    if not 0 <= start <= stop <= n_rows:
        raise InputError(
            f"rows {start}..{stop} asked of a table of {n_rows} rows: give 0 <= start <= stop <= "
            f"{n_rows}"
        )


@runtime_checkable
class CodedReader(RowReader, Protocol):
    """A reader that gives text, and other categories, as their positions in lists."""

    @property
    def categories(self) -> Mapping[str, tuple[Hashable, ...]]: ...
    def with_categories(
        self, categories: Mapping[str, tuple[Hashable, ...]], *, others_are_missing: bool = False
    ) -> CodedReader:
        """A reader of the same rows, coded by these lists.

        Values outside of the lists are NaN with `others_are_missing`, else -1.
        """
        ...


def categories_of(reader: RowReader) -> Mapping[str, tuple[Any, ...]]:
    """feature -> its categories, if it is read as their positions."""
    if isinstance(reader, CodedReader):
        return reader.categories
    return {}


def plain_numbers(reader: RowReader) -> tuple[str, ...]:
    """The features that contain numbers, and neither flags nor categories."""
    match reader:
        case LaidOut():
            others = {*reader.flags, *categories_of(reader)}
            dtypes = reader.column_dtypes
            own = [name for name in reader.feature_names if name in dtypes and name not in others]
            return tuple(name for name in own if dtypes[name].kind in "iuf")
    return ()


def number_flags(reader: RowReader) -> tuple[str, ...]:
    """The features that contain False and True and are kept as 0 and 1: some of them are missing."""
    match reader:
        case LaidOut():
            dtypes = reader.column_dtypes
            return tuple(name for name in reader.flags if dtypes[name].kind == "f")
    return ()


class BlockBuilder:
    """A builder of a block: fills its arrays batch by batch, one group of columns after another."""

    def __init__(
        self,
        layout: Layout,
        start: int,
        n: int,
        keys: bool,
        target: bool,
        dtypes: Mapping[str, np.dtype[Any]],
    ) -> None:
        self.layout = layout
        self.start = start
        self.at = 0
        self.x = np.empty((n, len(layout.features)))  # (n, columns)
        self.is_ok = np.ones(n, dtype=bool)
        wanted = layout.key_dtypes if keys else {}
        self.keys: dict[str, NDArray[Any]] = {
            name: np.empty(n, KEY_DTYPES[kind]) for name, kind in wanted.items()
        }
        self.null_keys: dict[str, BoolArray] = {}
        self.target = np.empty((n, len(layout.targets))) if target else None  # (n, k)
        self.columns = {name: np.empty(n, dtype) for name, dtype in dtypes.items()}
        self._positions = {name: j for j, name in enumerate(layout.features)}

    def rewind(self) -> None:
        """Go back to the first row, for another group of columns."""
        self.at = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the next rows of the columns in the batch."""
        rows = slice(self.at, self.at + batch.num_rows)
        held = batch.schema.names
        for name in held:
            self._add_feature(name, rows, batch.column(name))
            if name in self.keys:
                self._add_key(name, rows, batch.column(name))
            if name in self.columns:
                self.columns[name][rows] = kept_array(
                    batch.column(name), name, self.columns[name].dtype
                )
        if self.target is not None:
            for j, name in enumerate(self.layout.targets):
                if name in held:
                    self.target[rows, j] = number_array(batch.column(name), name)
        self.at = rows.stop

    def _add_feature(self, name: str, rows: slice, column: pa.Array) -> None:
        """Store a column if it is a feature; values that are not finite make their rows bad."""
        j = self._positions.get(name)
        categories = self.layout.categories.get(name)
        if j is None:
            return
        if name in self.layout.times:
            values = time_array(column, name)
        elif categories is None:
            values = number_array(column, name)
        else:
            values = code_array(column, categories, self.layout.unknown_code)
        self.x[rows, j] = values
        if self.layout.missing != "pass":
            self.is_ok[rows] &= np.isfinite(values)

    def _add_key(self, name: str, rows: slice, column: pa.Array) -> None:
        self.keys[name][rows], is_null = key_array(column, name, self.layout.key_dtypes[name])
        if is_null is not None:
            self.null_keys.setdefault(name, np.zeros(len(self.x), dtype=bool))[rows] = is_null

    def block(self) -> RowBlock:
        """The finished block."""
        target = self.target
        if target is not None and self.layout.is_single_target:
            target = target[:, 0]
        return RowBlock(
            self.start,
            self.x,
            self.is_ok,
            self.keys,
            target,
            self.columns,
            null_keys=self.null_keys,
        )


class LaidOut:
    """The column properties of a reader, from its layout."""

    _layout: Layout
    n_rows: int
    column_dtypes: Mapping[str, np.dtype]
    """feature -> dtype of `RowBlock.columns`."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self._layout.features

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(self._layout.key_dtypes)

    @property
    def key_dtypes(self) -> Mapping[str, str]:
        """key column -> "int64", "datetime64[ns]" or "string"."""
        return self._layout.key_dtypes

    @property
    def target_names(self) -> tuple[str, ...]:
        """The names of the target columns; empty without a target."""
        return self._layout.targets

    @property
    def has_target(self) -> bool:
        return bool(self._layout.targets)

    @property
    def missing(self) -> MissingRule:
        return self._layout.missing

    @property
    def categories(self) -> Mapping[str, tuple[Hashable, ...]]:
        """feature -> its categories, if it is read as their positions."""
        return self._layout.categories

    @property
    def flags(self) -> tuple[str, ...]:
        """The features that contain False and True, read as 0 and 1."""
        return self._layout.flags

    @property
    def times(self) -> Mapping[str, str]:
        """feature -> the kind of times that the model accepts.

        Such a feature is read as microseconds since 1970.
        """
        return self._layout.times

    @property
    def stamp(self) -> Mapping[str, JSON] | None:
        """The stamp of the table; None if readers must read rows to recognize them."""
        return None

    @cached_property
    def null_counts(self) -> Mapping[str, int | None]:
        """feature, key or target -> nulls in the whole table; None if counting needs the rows."""
        return dict.fromkeys(self._layout.names())

    @property
    def left_out(self) -> Mapping[str, str]:
        """column that is not read, as it has no numbers -> its type.

        Empty if features were named.
        """
        return self._layout.left_out

    def with_categories(
        self, categories: Mapping[str, tuple[Hashable, ...]], *, others_are_missing: bool = False
    ) -> Self:
        """A reader of the same rows, coded by these lists.

        Values outside of the lists are NaN with `others_are_missing`, else -1.
        """
        other = copy.copy(self)
        other._layout = replace(
            self._layout, categories=dict(categories), others_are_missing=others_are_missing
        )
        return other

    def read_bytes(self, n_rows: int) -> int:
        """Peak bytes of reading n_rows rows beyond the block, from shapes alone.

        They are the same for any files and any source: two decoded batches, the open pages and the
        read-ahead of each column that is decoded at once, one flag for each row, and the footer of
        every column.
        """
        features = set(self.feature_names)
        dtypes = self.column_dtypes
        texts = {name for name, dtype in self.key_dtypes.items() if dtype == "string"}
        n_texts = len(texts | {name for name in features if dtypes[name].kind == "T"})
        n_numbers = len(features | set(self.key_dtypes)) - n_texts + len(self.target_names)
        batch = min(BATCH_ROWS, self.n_rows)
        number = (
            2 * batch * NUMBER_BYTES
            + NUMBER_PAGES * min(PAGE_BYTES, NUMBER_BYTES * self.n_rows)
            + STREAM_BYTES
        )
        text = (
            2 * batch * TEXT_ROW_BYTES
            + TEXT_PAGES * min(PAGE_BYTES, TEXT_BYTES * self.n_rows)
            + STREAM_BYTES
        )
        footers = COLUMN_BYTES * (n_texts + n_numbers)
        # the most that one group of columns can need: texts first, which need more than numbers
        n_texts, n_numbers = (
            min(n_texts, COLUMNS_AT_ONCE),
            min(n_numbers, max(0, COLUMNS_AT_ONCE - n_texts)),
        )
        return footers + n_numbers * number + n_texts * text + 2 * max(n_rows, batch)

    def describe(self) -> str:
        """One line for plans and logs."""
        return self._described(type(self).__name__)

    def _described(self, source: str, features: str = "", target: str = "") -> str:
        """One line for plans and logs: the source, and the roles of its columns."""
        roles = [f"{self.n_rows:,} rows", f"{len(self.feature_names)} features{features}"]
        roles += [f"times {', '.join(self.times)}"] if self.times else []
        roles += [f"key {', '.join(self.key_names)}"] if self.key_names else []
        roles += [target or f"target {', '.join(self.target_names)}"] if self.has_target else []
        return f"{source}: {', '.join(roles)}"


class BatchReader(LaidOut, ABC):
    """A reader of Arrow batches, which its method `_batches` gives."""

    def read(
        self,
        start: int,
        stop: int,
        *,
        keys: bool = False,
        target: bool = False,
        columns: bool = False,
    ) -> RowBlock:
        """Rows start..stop as a `dshap.core.blocks.RowBlock`.

        Missing keys read as -1, "" or NaT, marked in `null_keys`.  The target of a source without
        one is None.
        """
        check_span(start, stop, self.n_rows)
        target = target and self.has_target
        if columns:
            dtypes = self.column_dtypes
        else:
            dtypes = {}
        builder = BlockBuilder(self._layout, start, stop - start, keys, target, dtypes)
        names = self._layout.names(keys, target)
        for first in range(0, max(len(names), 1), COLUMNS_AT_ONCE):
            builder.rewind()
            for batch in self._batches(start, stop, names[first : first + COLUMNS_AT_ONCE]):
                builder.add(batch)
        return builder.block()

    @abstractmethod
    def _batches(self, start: int, stop: int, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Batches of these columns of the rows start..stop, in order."""
