"""The table of the kinds of tables: the forms of rows for `explain`, and a job file in [source].

A kind that has a reader of its own is a line of `KINDS` with the place of that class.  The
parameters of its constructor are the keys of [source] in a job file, its name is their `kind`, and
`dshap.sources` has the class.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from dshap.core.duck_typing import SCANNED
from dshap.core.types import RowReader
from dshap.tables import conversion
from dshap.tables.conversion import Asked


class Kind(NamedTuple):
    """A kind of tables: how it is known among the rows that are given, and what opens it.

    Rows are known by their types, or by members that all of the kind have (for libraries that are
    not imported here); of paths, by the end of the file's name.
    """

    open: Callable[[Asked], RowReader | Asked] | None = None
    """The function that opens rows of this kind; None: its reader does."""
    types: tuple[type | str, ...] = ()
    """Types, or "package:name" of one: rows of it are there once its package is imported."""
    members: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    reader: str = ""
    """"package.module:name" of the reader's class; empty for rows that no job file can name."""
    files: str = ""
    """The place of the class of its files, which know the columns before these have roles."""
    version: str = ""
    """The option that names a version of the table; empty if it has none."""

    def knows(self, rows: Any) -> bool:
        has_members = bool(self.members) and all(hasattr(rows, name) for name in self.members)
        is_one = has_members or isinstance(rows, tuple(_loaded(self.types)))
        return is_one and (not self.suffixes or str(rows).endswith(self.suffixes))

    def opened(self, asked: Asked) -> RowReader | Asked:
        """A reader of these rows, or the same rows as another kind."""
        if self.open is not None:
            return self.open(asked)
        reader: RowReader = reader_class(self.reader)(asked.rows, **asked.roles)
        return reader


def _loaded(types: Iterable[type | str]) -> Iterator[type]:
    """The types among these that anything here can be of."""
    for each in types:
        match each:
            case type():
                yield each
            case str():
                package, _, name = each.partition(":")
                if package in sys.modules:
                    yield getattr(sys.modules[package], name)


KINDS: Mapping[str, Kind] = {
    "parquet": Kind(
        types=(str, os.PathLike),
        reader="dshap.tables.parquet:ParquetSource",
        files="dshap.tables.parquet:ParquetFiles",
    ),
    "delta": Kind(
        members=SCANNED["delta"],
        reader="dshap.tables.delta:DeltaSource",
        files="dshap.tables.delta:DeltaFiles",
        version="version",
    ),
    "iceberg": Kind(
        reader="dshap.tables.iceberg:IcebergSource",
        files="dshap.tables.iceberg:IcebergFiles",
        version="snapshot",
    ),
    "synthetic": Kind(reader="dshap.tables.synthetic:SyntheticTable"),
    "texts": Kind(reader="dshap.tables.texts:TextFiles"),
    "list": Kind(conversion.open_list, (list, tuple)),
    "reader": Kind(conversion.open_reader, (RowReader,)),
    "array": Kind(conversion.open_array, (np.ndarray,)),
    "data frame": Kind(conversion.open_frame, ("pandas:DataFrame",)),
    "column": Kind(conversion.refuse_column, ("pandas:Series",)),
    # before arrays: a Dataset has dims and coords too
    "xarray dataset": Kind(conversion.open_dataset, members=("data_vars",)),
    "xarray array": Kind(conversion.open_data_array, members=("dims", "coords")),
    "dask array": Kind(conversion.open_dask_array, members=("__dask_graph__", "rechunk")),
    "dask frame": Kind(conversion.open_dask_frame, members=("__dask_graph__", "columns")),
    "arrow dataset": Kind(conversion.open_arrow_dataset, members=SCANNED["arrow dataset"]),
    "polars query": Kind(conversion.open_polars_query, members=SCANNED["polars query"]),
    "hugging face dataset": Kind(
        conversion.open_hugging_face, members=SCANNED["hugging face dataset"]
    ),
    # after data frames and Datasets, several of which have Arrow's protocol too
    "arrow stream": Kind(conversion.open_arrow, members=("__arrow_c_stream__",)),
    "arrow array": Kind(conversion.open_arrow, members=("__arrow_c_array__",)),
}
"""Name -> kind of tables; the first kind that knows the rows opens them."""
READERS: Mapping[str, str] = {name: kind.reader for name, kind in KINDS.items() if kind.reader}
"""Kind that a job file can name -> the place of its reader's class."""

IN_FILES = tuple(name for name, kind in KINDS.items() if kind.files)
"""Kinds of tables that are Parquet files, read in place or copied for a night."""


def version_key(kind: str) -> str:
    """The option that names a version of a table of this kind; empty if it has none."""
    return KINDS.get(kind, Kind()).version


def reader_class(place: str) -> Any:
    """The class at "package.module:name"."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def kind_of(rows: object) -> str | None:
    """The name of the first kind that knows these rows; None if none does.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import kind_of
    >>> kind_of(np.ones((2, 2))), kind_of("houses.parquet"), kind_of(object())
    ('array', 'parquet', None)
    """
    return next((name for name, kind in KINDS.items() if kind.knows(rows)), None)


def opened(asked: Asked) -> RowReader:
    """A reader of rows of any kind."""
    kind = kind_of(asked.rows)
    if kind is None:
        raise conversion.unknown_rows(asked.rows)
    match KINDS[kind].opened(asked):
        case Asked() as other:
            return opened(other)
        case reader:
            return reader
