"""Rows from Parquet: a file, a folder or a glob, read by row group and by column name."""

from __future__ import annotations

import copy
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dshap.errors import InputError
from dshap.tables.hive import find_partitions
from dshap.tables.parquet_files import Paths, find_files, open_file, read_footer, read_rows, stamp_file
from dshap.tables.table import BlockBuilder, Names, TableBlock, check_span, layout_of, read_bytes_of, said_left_out

__all__ = ["ParquetSource"]

OPEN_FILES = 4
"""Files kept open per thread."""


class ParquetSource:
    """A table in Parquet files, as the tasks read it.

    Opening reads the footers only and checks every column that is asked for.  A read touches the row groups that
    overlap, in batches, so memory does not grow with the size of a row group; time does (every read decodes its row
    group up to the last row that it needs), so row groups of up to a million rows are good.

    Parameters
    ----------
    path : str or Path
        A file, a folder (``*.parquet`` at any depth) or a glob pattern.  Files follow one another sorted by path.
        Columns are found by name in every file.  Keys in the names of folders (``year=2024/``) are columns too, unless
        the files hold a column of that name.
    features : names, optional
        Columns to explain; by default every number column that is neither key nor target, in the first file's order.
    target : name or names, optional
        One name is read as (n,), several as (n, k), in float64.  A missing target is NaN and leaves `is_ok` alone:
        such a row can be explained, and `fit` skips it.
    key : name or names
        Integers become int64, text StringDType, dates and timestamps datetime64[ns] (in UTC where they have a zone).
        A key may be a feature too.
    missing : "refuse", "skip" or "pass"
        What becomes of rows that hold NaN or infinity; "pass" takes every row as ok.
    categories : mapping, optional
        feature -> the categories of a text column, or of numbers: it is read as their positions.

    Raises
    ------
    InputError
        No file, a file that is not Parquet, no rows, or columns that do not fit their role.
    """

    def __init__(
        self,
        path: Paths,
        *,
        features: Names = None,
        target: Names = None,
        key: Names = (),
        missing: str = "refuse",
        categories: Mapping[str, tuple[Any, ...]] | None = None,
    ) -> None:
        self._root, self._names = find_files(path)
        self._stamps, self._opened_ns = [stamp_file(self._root, name) for name in self._names], time.time_ns()
        self._local = threading.local()
        with open_file(self._root, self._names[0]) as first:
            inside = first.schema_arrow
        self._partitions = find_partitions(self._root, self._names, inside)
        schema = self._partitions.schema(inside)
        roles: dict[str, Any] = {"features": features, "target": target, "key": key, "missing": missing}
        self._layout = layout_of(schema, **roles, categories=categories)
        footers = [
            read_footer(self._root, name, self._layout, self._partitions, index)
            for index, name in enumerate(self._names)
        ]
        self._starts = np.concatenate([[0], np.cumsum([each.n_rows for each in footers])])  # (files + 1,)
        self.column_dtypes: Mapping[str, np.dtype[Any]] = {
            feature: np.result_type(*(each.dtypes[feature] for each in footers)) for feature in self._layout.features
        }
        """feature -> dtype of `RowBlock.columns`, one for the whole table: integers with nulls anywhere are float64."""
        self.null_counts: Mapping[str, int | None] = {
            name: _total(each.nulls[name] for each in footers) for name in self._layout.names()
        }
        """feature, key or target -> its nulls; None where a file does not count them."""
        if self.n_rows == 0:
            raise InputError(f"empty table: {path} holds {len(footers)} file(s) and no rows; give a table with rows")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _local=threading.local())

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, in the order of their rows."""
        return tuple(os.path.join(self._root, name) for name in self._names)

    @property
    def left_out(self) -> Mapping[str, str]:
        """column that is not read, since it holds no numbers -> what it holds; where features are not named."""
        return self._layout.left_out

    @property
    def stamp(self) -> Mapping[str, Any] | None:
        """Roles and files: a source of the same stamp gives the same rows (as far as `stamp_file` can tell).

        None where a file was changed so shortly before it was opened that its times would not tell a further change.
        """
        if any(self._opened_ns - stamp.changed_ns < stamp.tick_ns for stamp in self._stamps):
            return None
        return {"files": [astuple(stamp) for stamp in self._stamps], "roles": self._layout.to_dict()}

    @property
    def n_rows(self) -> int:
        return int(self._starts[-1])

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
        """The target columns, empty where there is no target."""
        return self._layout.targets

    @property
    def has_target(self) -> bool:
        return bool(self._layout.targets)

    @property
    def missing(self) -> str:
        return self._layout.missing

    @property
    def categories(self) -> Mapping[str, tuple[Any, ...]]:
        """feature -> its categories, where it is read as their positions."""
        return self._layout.categories

    def with_categories(self, categories: Mapping[str, tuple[Any, ...]]) -> ParquetSource:
        """The same rows, coded by these lists."""
        other = copy.copy(self)
        other._layout = replace(self._layout, categories=dict(categories))
        return other

    def read(
        self, start: int, stop: int, *, keys: bool = False, target: bool = False, columns: bool = False
    ) -> TableBlock:
        """Rows start..stop; see `dshap.types.RowBlock`.

        Missing keys read as -1, "" or NaT, marked in `null_keys`.  The target of a source without one is None.
        """
        check_span(start, stop, self.n_rows)
        target = target and self.has_target
        layout = self._layout
        builder = BlockBuilder(layout, start, stop - start, keys, target, self.column_dtypes if columns else {})
        for batch in self._batches(start, stop, layout.names(keys, target)):
            builder.add(batch)
        return builder.block()

    def read_bytes(self, n_rows: int) -> int:
        """Peak bytes that reading n_rows takes beyond the block; see `read_bytes_of`."""
        return read_bytes_of(
            n_rows, self.n_rows, self.feature_names, self.key_dtypes, len(self.target_names), self.column_dtypes
        )

    def describe(self) -> str:
        """One line for plans and logs."""
        where = self.paths[0] if len(self.paths) == 1 else f"{self._root} ({len(self.paths)} files)"
        names = ", ".join(self.feature_names[:12]) + (", …" if len(self.feature_names) > 12 else "")
        roles = [f"{self.n_rows:,} rows", f"{len(self.feature_names)} features ({names})"]
        roles += [f"key {', '.join(self.key_names)}"] if self.key_names else []
        roles += [f"target {', '.join(self.target_names)}"] if self.has_target else []
        roles += [f"left out, no numbers: {said_left_out(self.left_out)}"] if self.left_out else []
        return f"parquet {where}: {', '.join(roles)}"

    def _batches(self, start: int, stop: int, names: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows start..stop in order, file by file."""
        inside = [name for name in names if name not in self._partitions.names]
        index = int(np.searchsorted(self._starts, start, side="right")) - 1
        while start < stop:
            low, high = self._starts[index : index + 2].tolist()
            if start < high:
                for batch in read_rows(self._open(index), start - low, min(stop, high) - low, inside):
                    yield self._partitions.batch(index, batch, names)
            start, index = max(start, high), index + 1

    def _open(self, index: int) -> pq.ParquetFile:
        """A file, kept open per thread (Arrow's handles are not shared between threads)."""
        files = self._local.__dict__.setdefault("files", OrderedDict())
        if index not in files:
            files[index] = open_file(self._root, self._names[index])
            self._check_unchanged(index, files[index].metadata.num_rows)
        files.move_to_end(index)
        if len(files) > OPEN_FILES:
            files.popitem(last=False)[1].close()
        return files[index]

    def _check_unchanged(self, index: int, n_rows: int) -> None:
        expected = int(self._starts[index + 1] - self._starts[index])
        if n_rows != expected:
            raise InputError(
                f"{self.paths[index]} had {expected} rows when it was opened and has {n_rows} now: keep the table as "
                "it is while a run goes, or start a new run"
            )


def _total(counts: Iterable[int | None]) -> int | None:
    """None where one is None."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count)
