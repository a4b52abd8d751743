"""Parquet files one by one: finding, opening, reading rows, and what their footers tell."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dshap.errors import InputError
from dshap.tables.arrow import own_dtype
from dshap.tables.hive import Partitions
from dshap.tables.table import BATCH_ROWS, STREAM_BYTES, Layout, layout_of

__all__ = ["FileStamp", "Footer", "Paths", "find_files", "open_file", "read_footer", "read_rows", "stamp_file"]

Paths = str | Path | Sequence[str | Path]
TICK_NS, COARSE_NS, COARSE_TICK_NS = 20_000_000, 1_000_000_000, 2_000_000_000
"""File times go by the ticks of the system, 1 to 10 ms; where they are whole seconds, by seconds, or two."""
FOOTER_END, MAGIC = 8, b"PAR1"
"""Bytes at the end of a Parquet file: the length of its footer, little-endian in four, and these letters."""
_DATABASE = "read the table first, pandas.read_sql(query, connection), or export it to Parquet"
_BUCKET = "object stores are not built yet; copy the files to a file system that every worker sees, or mount it"
INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "r2"), _BUCKET),
    **dict.fromkeys(("postgresql", "postgres", "mysql", "mssql", "oracle", "sqlite", "snowflake", "duckdb"), _DATABASE),
}
"""What is written before :// -> what to do."""
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
"""End of a file's name -> what to do with such a file."""


def find_files(path: Paths) -> tuple[str, tuple[str, ...]]:
    """(absolute folder, file names below it) of a file, a folder or a glob, sorted; of a list in the order given."""
    if not isinstance(path, str | Path):
        found = [os.path.join(root, name) for root, names in map(find_files, path) for name in names]
        root = os.path.commonpath([os.path.dirname(each) for each in found])
        return root, tuple(os.path.relpath(each, root) for each in found)
    _refuse_address(str(path))
    text = os.path.abspath(os.path.expanduser(path))
    if os.path.isfile(text):
        return os.path.dirname(text), (os.path.basename(text),)
    if os.path.isdir(text):
        found, root = [str(each) for each in Path(text).rglob("*.parquet") if each.is_file()], text
    else:
        found = [each for each in glob.glob(text, recursive=True) if os.path.isfile(each)]
        root = os.path.commonpath([os.path.dirname(each) for each in found]) if found else ""
    if not found:
        raise InputError(f"no Parquet file at {path}: give a file, a folder that holds *.parquet files, or a glob")
    return root, tuple(sorted(os.path.relpath(each, root) for each in found))


def _refuse_address(text: str) -> None:
    """Raise for what is no path of a file system, with what to do."""
    scheme, mark, _ = text.partition("://")
    if mark:
        advice = INSTEAD.get(scheme.split("+")[0], "copy it to a file system that every worker sees, or mount it")
        raise InputError(f"{scheme}://… is no path of a file system: {advice}")


def open_file(root: str, name: str) -> pq.ParquetFile:
    """The file, its footer read, set to stream its columns."""
    path = os.path.join(root, name)
    try:
        return pq.ParquetFile(path, buffer_size=STREAM_BYTES, pre_buffer=False)
    except pa.ArrowInvalid as error:
        suffix = os.path.splitext(path)[1].lower()
        advice = AS_PARQUET.get(suffix, f"remove it or write it again ({str(error).splitlines()[0]})")
        raise InputError(f"{path} is not a Parquet file: {advice}") from None


@dataclass(frozen=True)
class FileStamp:
    """By what a file is taken for unchanged without reading its rows; see `stamp_file`."""

    path: str
    size: int
    written_ns: int
    """Time of its content, which programs can set (touch -r, cp -p, rsync -t)."""
    changed_ns: int
    """Time of its entry, which the system sets whenever content, times or name change."""
    inode: int
    footer: str
    """Digest of its last bytes, the footer: offsets, sizes, and bounds of every column."""

    @property
    def tick_ns(self) -> int:
        """Changes that lie closer together may have one time."""
        return COARSE_TICK_NS if self.changed_ns % COARSE_NS == 0 else TICK_NS


def stamp_file(root: str, name: str) -> FileStamp:
    """The stamp of one file, taken before it is opened.

    A file of the same stamp is trusted to hold the same rows.  What would deceive it: pages altered below the file
    system, or a clock set back by whoever writes the file, to the nanosecond, with the same footer.
    """
    path = os.path.join(root, name)
    told = os.stat(path)
    with open(path, "rb") as file:
        file.seek(-min(FOOTER_END, told.st_size), os.SEEK_END)
        end = file.read(FOOTER_END)
        length = int.from_bytes(end[:4], "little") if end.endswith(MAGIC) else 0
        file.seek(-min(FOOTER_END + length, told.st_size), os.SEEK_END)
        footer = hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    return FileStamp(path, told.st_size, told.st_mtime_ns, told.st_ctime_ns, told.st_ino, footer)


def _group_rows(file: pq.ParquetFile) -> list[int]:
    """Rows of each row group."""
    return [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]


def read_rows(file: pq.ParquetFile, start: int, stop: int, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Rows start..stop of one file, from the row groups that overlap them."""
    sizes = _group_rows(file)
    ends = np.cumsum(sizes)
    first, last = np.searchsorted(ends, [start, stop - 1], side="right").tolist()
    at = int(ends[first]) - sizes[first]
    groups = list(range(first, last + 1))
    for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=names, use_threads=False):
        low, high = max(start - at, 0), min(stop - at, batch.num_rows)
        if low < high:
            yield batch.slice(low, high - low)
        at += batch.num_rows
        if at >= stop:
            return


@dataclass(frozen=True)
class Footer:
    """What the footer of one file tells, without reading a row."""

    n_rows: int
    dtypes: Mapping[str, np.dtype[Any]]
    """feature -> the numpy dtype that keeps it; a column whose nulls are not counted may hold some."""
    nulls: Mapping[str, int | None]
    """feature, key or target -> its nulls; None where they are not counted."""


def read_footer(root: str, name: str, layout: Layout, partitions: Partitions, index: int) -> Footer:
    """The footer of one file; raises where its columns, those of its folders too, do not fit the layout."""
    with open_file(root, name) as file:
        schema, n_rows = partitions.schema(file.schema_arrow), file.metadata.num_rows
        _check_same_layout(layout, schema, name)
        of_folders = partitions.nulls(index, n_rows)
        nulls = {own: of_folders[own] if own in of_folders else _nulls(_chunks(file, own)) for own in layout.names()}
        dtypes = {own: own_dtype(schema.field(own).type, has_nulls=nulls[own] != 0) for own in layout.features}
        return Footer(n_rows, dtypes, nulls)


def _check_same_layout(layout: Layout, schema: pa.Schema, name: str) -> None:
    """Raise unless a further file holds the same columns, fit for the same roles."""
    keys = tuple(layout.key_dtypes)
    try:
        here = layout_of(
            schema,
            features=layout.features,
            target=layout.targets,
            key=keys,
            missing=layout.missing,
            categories=layout.categories,
        )
    except InputError as error:
        raise InputError(f"in file {name}: {error}") from None
    for key, dtype in here.key_dtypes.items():
        if dtype != layout.key_dtypes[key]:
            raise InputError(
                f"key {key!r} is {dtype} in file {name} and {layout.key_dtypes[key]} in the first: write it as one type"
            )


def _chunks(file: pq.ParquetFile, name: str) -> list[Any]:
    """The metadata of one column in every row group."""
    metadata = file.metadata
    leaf = next(j for j in range(metadata.num_columns) if metadata.schema.column(j).path == name)
    return [metadata.row_group(i).column(leaf) for i in range(metadata.num_row_groups)]


def _nulls(chunks: list[Any]) -> int | None:
    """Nulls of one column; None where a row group does not count them."""
    statistics = [chunk.statistics for chunk in chunks]
    is_counted = all(each is not None and each.has_null_count for each in statistics)
    return sum(each.null_count for each in statistics) if is_counted else None
