"""Rows from Parquet: a file, a folder or a glob, read by row group and by column name."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import EmptyTableError, InputError
from dshap.core.fixed_words import MissingRule
from dshap.core.late import pa, pd, pq
from dshap.core.places import is_in_bucket
from dshap.core.records import JSON
from dshap.tables.bucket_files import open_object
from dshap.tables.checksums import open_parquet, unreadable
from dshap.tables.columns import Layout, Names, Times, is_listed, layout_of, said_left_out
from dshap.tables.files import (
    Partitions,
    Paths,
    check_same_file,
    find_files,
    find_partitions,
    path_in_words,
    stamp_file,
    table_stamp,
)
from dshap.tables.reader import BATCH_ROWS, PAGE_BYTES, STREAM_BYTES, BatchReader

OPEN_FILES = 4
"""Number of open files of each thread."""
_CSV = "read it first, rows=pandas.read_csv(path), or write it once with pandas.read_csv(path).to_parquet(...)"
AS_PARQUET: Mapping[str, str] = {
    ".csv": _CSV,
    ".tsv": _CSV.replace("read_csv(path", "read_csv(path, sep='\\t'"),
    ".gz": _CSV,
    ".json": _CSV.replace("read_csv", "read_json"),
    ".xlsx": _CSV.replace("read_csv", "read_excel"),
    ".feather": _CSV.replace("read_csv", "read_feather"),
    ".arrow": _CSV.replace("read_csv", "read_feather"),
}
"""End of a file's name -> advice on how to read such a file."""


class ParquetFiles:
    """The files of a table, read in row order as Arrow batches of chosen columns.

    It can be pickled, and opens its files again when it is unpickled.  Every read checks by their
    stamps that the files are still those that were first opened, so that all rows are of one table.
    """

    batch_rows = BATCH_ROWS
    """Largest number of rows of a batch."""
    kind = "parquet"
    """The kind of table, as a job file has it."""

    def __init__(self, path: Paths) -> None:
        files = find_files(path)
        self.given = path_in_words(path)
        self._stamp_files(*files)
        with open_file(self._root, self._names[0], self._stamps[0].size) as first:
            inside = first.schema_arrow
        self._partitions = find_partitions(self._root, self._names, inside)
        self._schema = self._partitions.schema(inside)

    def _stamp_files(self, root: str, names: tuple[str, ...]) -> None:
        """Begin with these files below a folder, as they are now."""
        self._root = root
        self._names = names
        self._stamps = [stamp_file(root, name) for name in names]
        self._opened_ns = time.time_ns()
        self._host = platform.node()
        self._local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _local=threading.local())

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the files, in row order."""
        return tuple(os.path.join(self._root, name) for name in self._names)

    @property
    def named(self) -> str:
        """The kind and the place of the table as it was given, for records."""
        return f"{self.kind} {self.given}"

    @property
    def detail(self) -> Mapping[str, JSON]:
        """Further facts for records."""
        return {"files": len(self.paths)}

    @property
    def place(self) -> str:
        """The place of the table, for plans and records."""
        if len(self.paths) == 1:
            return self.paths[0]
        return f"{self._root} ({len(self.paths)} files)"

    @property
    def schema(self) -> pa.Schema:
        """All columns, with those of the names of folders."""
        return self._schema

    def all_batches(self, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, file by file, as they were when the files were first opened.

        They have all columns, or those of these names.
        """
        wanted = list(names or self._schema.names)
        for index in range(len(self._names)):
            n_rows = self._rows_of_file(index)
            if n_rows:
                yield from self._of_file(index, 0, n_rows, wanted)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """(files + 1,): the first row of each file, and the number of rows, by all footers."""
        counts = [self._rows_of_file(index) for index in range(len(self._names))]
        return np.cumsum([0, *counts])

    def _rows_of_file(self, index: int) -> int:
        """The number of rows of one file, by its footer."""
        return int(self._open(index).metadata.num_rows)

    def count_rows(self) -> int:
        """Count the rows by the footers of all files."""
        return int(self._starts[-1])

    def row(self, position: int, names: Sequence[str]) -> tuple[object, ...]:
        """The values of these columns in one row, read from its row group."""
        (batch,) = self._batches(position, position + 1, list(names))
        return tuple(column[0].as_py() for column in batch.columns)

    def template(self, names: Sequence[str]) -> pd.DataFrame:
        """An empty data frame of these columns, in the types of pandas."""
        return pa.schema([self._schema.field(name) for name in names]).empty_table().to_pandas()

    def listed(self, names: Iterable[str]) -> list[str]:
        """List the columns among these with text, or are stored as categories."""
        held = [name for name in names if name in self._schema.names]
        return [name for name in held if is_listed(self._schema.field(name).type)]

    def check_unchanged(self, start: int, stop: int) -> None:
        """Raise if a file of rows start..stop was rewritten, replaced or removed.

        See `check_same_file`.
        """
        for index, _, _ in self._parts(start, stop):
            check_same_file(self._stamps[index], self._host)

    def _parts(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """(file, first row, last row + 1) of each file with rows start..stop.

        Rows are counted from the start of each file.
        """
        index = int(np.searchsorted(self._starts, start, side="right")) - 1
        while start < stop:
            low, high = self._starts[index : index + 2].tolist()
            if start < high:
                yield index, start - low, min(stop, high) - low
            start = max(start, high)
            index += 1

    def _batches(self, start: int, stop: int, names: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows start..stop in order, file by file.

        After each file it raises if the file changed while it was read.
        """
        for index, low, high in self._parts(start, stop):
            yield from self._of_file(index, low, high, names)

    def _of_file(
        self, index: int, low: int, high: int, names: list[str]
    ) -> Iterator[pa.RecordBatch]:
        """The rows low..high of one file."""
        inside = [name for name in names if name not in self._partitions.names]
        for batch in self._stored(index, low, high, inside):
            yield self._partitions.batch(index, batch, names)

    def _stored(
        self, index: int, low: int, high: int, inside: list[str]
    ) -> Iterator[pa.RecordBatch]:
        """The rows low..high of one file, with columns that are inside the file."""
        at_once = not is_in_bucket(self._root)
        with self._unchanged(index):
            yield from read_batches(
                self._open(index), low, high, inside, self.batch_rows, at_once=at_once
            )

    @contextmanager
    def _unchanged(self, index: int) -> Iterator[None]:
        """Raise if a file changed while it was read."""
        try:
            yield
        # reading a changed file fails like reading a damaged one
        except (OSError, ValueError, pa.ArrowException) as error:
            check_same_file(self._stamps[index], self._host)
            raise unreadable(self.paths[index], error) from error
        check_same_file(self._stamps[index], self._host)

    def _open(self, index: int) -> pq.ParquetFile:
        """A file, which stays open per thread (threads cannot share Arrow's handles)."""
        files = self._local.__dict__.setdefault("files", OrderedDict())
        if index not in files:
            opened = open_file(self._root, self._names[index], self._stamps[index].size)
            check_same_file(self._stamps[index], self._host)
            files[index] = opened
        files.move_to_end(index)
        if len(files) > OPEN_FILES:
            files.popitem(last=False)[1].close()
        return files[index]


class ParquetSource(ParquetFiles, BatchReader):
    """Parquet files as a source of rows: a file, a folder, or a glob pattern.

    Opening reads only the footers of the files, and checks that each column fits its role.  A read
    decodes the row groups that overlap its rows in batches, so that its memory does not grow with
    the size of a row group.  Its time does grow, because it decodes a row group up to the last row
    that it needs: write row groups of at most a million rows.

    Parameters
    ----------
    path : str, Path, or a list of them
        A file, a folder (``*.parquet`` at any depth), a glob pattern such as
        ``"lifts/2024-*.parquet"``, or an address in a bucket.  Files are read in the order of their
        paths, those of a list in the order of the list.  Columns are found by name in every file.
        Keys in the names of folders (``year=2024/``) are columns too, unless the files have a
        column of that name.
    features : names, optional
        The columns to explain, such as ``["area", "rooms"]``; by default every number column that
        is neither key nor target, in the order of the first file.
    target : name or names, optional
        One name is read as (n,), several as (n, k), in float64.  A missing target is NaN: such a
        row can be explained, and `fit` skips it.
    key : name or names
        The columns that name a row, such as ``"id"``.  Integers become int64, text StringDType,
        dates and timestamps datetime64[ns] (in UTC if they have a zone).  A key may be a feature
        too.
    missing : {"refuse", "skip", "pass"}
        What a run does with rows that contain NaN or infinity: it stops with an error, leaves them
        out, or passes them to the model.
    categories : mapping, optional
        feature -> the categories of a column of text or of numbers, such as ``{"city": ("Bonn",
        "Ulm")}``; the column is read as positions in this list.
    times : names or mapping, optional
        Features with timestamps or dates, or feature -> the kind that the model accepts
        ("datetime64[us]", "datetime64[us, Europe/Berlin]", "date").  They are read as microseconds
        since 1970, in UTC if they have a zone, for a predict function of data frames.

    Raises
    ------
    InputError
        There is no file, a file is not Parquet or has no rows, or columns do not fit their role.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from dshap.sources import ParquetSource, write_part
    >>> houses = pd.DataFrame({"id": [7, 8], "rooms": [2.0, 3.0], "price": [200.0, 300.0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_part(folder, 0, houses)
    ...     source = ParquetSource(folder, key="id", target="price")
    ...     rows = source.read(0, 2).x
    >>> source.n_rows, source.feature_names, rows.tolist()
    (2, ('rooms',), [[2.0], [3.0]])
    """

    def __init__(
        self,
        path: Paths,
        *,
        features: Names = None,
        target: Names = None,
        key: Names = (),
        missing: MissingRule = "refuse",
        categories: Mapping[str, tuple[Hashable, ...]] | None = None,
        times: Times = None,
    ) -> None:
        super().__init__(path)
        self._take_roles(
            features=features,
            target=target,
            key=key,
            missing=missing,
            categories=categories,
            times=times,
        )

    def _take_roles(self, **roles: Any) -> None:
        """Give the columns their roles, by the schema and the footers of all files.

        Raises
        ------
        InputError
            Columns do not fit their role, or there are no rows.
        """
        self._layout = layout_of(self._schema, **roles)
        footers = [self._footer(index) for index in range(len(self._names))]
        # (files + 1,): first row of each file, and the number of rows
        self._starts = np.concatenate([[0], np.cumsum([each.n_rows for each in footers])])
        self.n_rows = int(self._starts[-1])
        if self.n_rows == 0:
            raise EmptyTableError(f"{self.place} contains {len(footers)} file(s) and no rows")
        # one dtype for the whole table: integers with nulls anywhere are float64
        self.column_dtypes = {
            feature: np.result_type(*(each.dtypes[feature] for each in footers))
            for feature in self._layout.features
        }
        self.null_counts = {
            name: _total(each.nulls[name] for each in footers) for name in self._layout.names()
        }

    def _footer(self, index: int) -> Footer:
        """The facts in the footer of one file, whose columns must fit the layout."""
        return read_footer(
            self._root,
            self._names[index],
            self._layout,
            self._partitions,
            index,
            self._stamps[index].size,
        )

    @property
    def stamp(self) -> Mapping[str, JSON] | None:
        """The stamp of roles and files, which identifies the table; see `table_stamp`."""
        return table_stamp(self._stamps, self._opened_ns, self._layout.to_dict())

    def describe(self) -> str:
        """One line for plans and logs."""
        names = ", ".join(self.feature_names[:12]) + (", …" if len(self.feature_names) > 12 else "")
        if self.left_out:
            left_out = f", left out, no numbers: {said_left_out(self.left_out)}"
        else:
            left_out = ""
        return self._described(f"{self.kind} {self.place}", f" ({names})") + left_out


def _total(counts: Iterable[int | None]) -> int | None:
    """The sum of counts; None if one of them is None."""
    known = list(counts)
    if None in known:
        return None
    return sum(count for count in known if count)


def open_file(root: str, name: str, size: int | None = None) -> pq.ParquetFile:
    """Open a file and read its footer; its columns are streamed.

    The columns of an object with small row groups are fetched together, group by group: a request
    in place of several for each column.  `size` is the bytes of an object, where they are known.
    """
    path = os.path.join(root, name)
    try:
        if not is_in_bucket(path):
            return open_parquet(path, buffer_size=STREAM_BYTES, pre_buffer=False)
        file = open_object(path, size)
        opened = open_parquet(file, buffer_size=STREAM_BYTES, pre_buffer=False)
        if has_small_chunks(opened.metadata):
            return open_parquet(file, metadata=opened.metadata, pre_buffer=True)
        return opened
    except pa.ArrowInvalid as error:
        suffix = os.path.splitext(path)[1].lower()
        advice = AS_PARQUET.get(
            suffix, f"remove it or write it again ({str(error).splitlines()[0]})"
        )
        raise InputError(f"{path} is not a Parquet file: {advice}") from None
    except OSError as error:
        raise unreadable(path, error) from error


def has_small_chunks(metadata: Any) -> bool:
    """Whether no column of a row group has more bytes than a page, which plans count with."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return all(
        group.column(j).total_compressed_size <= PAGE_BYTES
        for group in groups
        for j in range(metadata.num_columns)
    )


def read_batches(
    file: pq.ParquetFile,
    start: int,
    stop: int,
    names: list[str],
    batch_rows: int,
    *,
    at_once: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Rows start..stop of one file, from the row groups that overlap them.

    With `at_once` False the row groups are opened one after the other, as those of an object that
    are fetched whole.
    """
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    ends = np.cumsum(sizes)
    first, last = np.searchsorted(ends, [start, stop - 1], side="right").tolist()
    at = int(ends[first]) - sizes[first]
    groups = list(range(first, last + 1))
    opened = [groups] if at_once else [[group] for group in groups]
    for chosen in opened:
        for batch in file.iter_batches(
            batch_rows, row_groups=chosen, columns=names, use_threads=False
        ):
            low = max(start - at, 0)
            high = min(stop - at, batch.num_rows)
            if low < high:
                yield batch.slice(low, high - low)
            at += batch.num_rows
            if at >= stop:
                return


@dataclass(frozen=True)
class Footer:
    """The facts in the footer of one file, for which no row is read."""

    n_rows: int
    dtypes: Mapping[str, np.dtype[Any]]
    """feature -> the numpy dtype that stores it.

    A column whose nulls are not counted is treated as if it had some.
    """
    nulls: Mapping[str, int | None]
    """feature, key or target -> number of nulls; None if the file does not count them."""


def read_footer(
    root: str, name: str, layout: Layout, partitions: Partitions, index: int, size: int
) -> Footer:
    """Read the footer of one file of so many bytes; raise if its columns do not fit the layout.

    `partitions` adds the columns of its folders.
    """
    with open_file(root, name, size) as file:
        schema = partitions.schema(file.schema_arrow)
        n_rows = file.metadata.num_rows
        _check_same_layout(layout, schema, name)
        of_folders = partitions.nulls(index, n_rows)
        nulls = {
            column: of_folders[column] if column in of_folders else stored_nulls(file, column)
            for column in layout.names()
        }
        dtypes = {
            column: layout.kept_dtype(
                column, schema.field(column).type, has_nulls=nulls[column] != 0
            )
            for column in layout.features
        }
        return Footer(n_rows, dtypes, nulls)


def _check_same_layout(layout: Layout, schema: pa.Schema, name: str) -> None:
    """Raise unless a further file has the same columns, fit for the same roles."""
    keys = tuple(layout.key_dtypes)
    try:
        here = layout_of(
            schema,
            features=layout.features,
            target=layout.targets,
            key=keys,
            missing=layout.missing,
            categories=layout.categories,
            times=layout.times,
        )
    except InputError as error:
        raise InputError(f"in file {name}: {error}") from None
    for key, dtype in here.key_dtypes.items():
        if dtype != layout.key_dtypes[key]:
            raise InputError(
                f"key {key!r} is {dtype} in file {name} and {layout.key_dtypes[key]} in the first: "
                "write it as one type"
            )


def stored_nulls(file: pq.ParquetFile, name: str) -> int | None:
    """The number of nulls in one column of a file; None if a row group does not count them."""
    metadata = file.metadata
    # a nested column has several leaves, so that a column's place among the leaves is not its place
    # in the schema
    leaf = next(j for j in range(metadata.num_columns) if metadata.schema.column(j).path == name)
    chunks = [metadata.row_group(i).column(leaf) for i in range(metadata.num_row_groups)]
    statistics = [chunk.statistics for chunk in chunks]
    is_counted = all(each is not None and each.has_null_count for each in statistics)
    if is_counted:
        return sum(each.null_count for each in statistics)
    return None
