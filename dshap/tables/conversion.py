"""Rows of each kind as a reader: one function for a kind, which a line of `sources.KINDS` names.

A function may give the rows as those of another kind instead, such as a list as an array.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dshap.core.errors import EmptyTableError, InputError, unknown_column, unknown_name
from dshap.core.fixed_words import MissingRule
from dshap.core.floats import as_array
from dshap.core.late import pd
from dshap.core.types import RowReader
from dshap.predictors.times import misfit, times_of
from dshap.tables.arrays import ArraySource, frame_of_arrow, from_pandas
from dshap.tables.checksums import open_parquet
from dshap.tables.dask_parquet import plain_files_of
from dshap.tables.memory_to_parts import ROW_GROUP_ROWS, TARGET, write_partition
from dshap.tables.parquet import ParquetFiles, ParquetSource
from dshap.tables.reader import BATCH_ROWS, categories_of
from dshap.tables.site import Site
from dshap.tables.stream_to_parts import PartWriter
from dshap.tables.streams import StreamColumns


@dataclass(frozen=True)
class Asked:
    """Rows, and the options of opening them; see `open_rows`."""

    rows: Any
    site: Site | None = None
    features: Sequence[str] | None = None
    n_columns: int | None = None
    target: Any = None
    key: Any = ()
    missing: MissingRule = "refuse"
    categories: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    times: Mapping[str, str] = field(default_factory=dict)

    @property
    def roles(self) -> dict[str, Any]:
        """The options of readers of named columns."""
        if isinstance(self.key, Mapping):
            raise InputError(
                f"key is a mapping with values for {', '.join(map(repr, self.key))}, which is for "
                "an array: these rows have named columns, so add the values as a column and give "
                "its name as key="
            )
        named = {"features": self.features, "target": self.target, "key": self.key}
        return {
            **named,
            "missing": self.missing,
            "categories": self.categories,
            "times": self.times,
        }


def unknown_rows(rows: Any) -> InputError:
    """The error for rows of a type that cannot be read."""
    return InputError(f"rows of type {type(rows).__name__}: give {_remedy(rows)}")


def _remedy(rows: Any) -> str:
    """A phrase that explains how to make a table of these rows."""
    match rows:
        case pd.Series():
            return (
                "a data frame, such as series.to_frame().T for one row, series.to_frame() for one "
                "column"
            )
        case Mapping():
            return "a data frame, such as pandas.DataFrame(rows)"
    return "a path, a pandas DataFrame, a numpy array or a source such as ParquetSource"


def names_in(given: Any) -> list[str]:
    """The column names in a single name or a list of names; empty for values and mappings."""
    match given:
        case str():
            return [given]
        case [*names] if all(isinstance(name, str) for name in names):
            return names
    return []


def open_list(asked: Asked) -> RowReader | Asked:
    """Open a list of paths as Parquet files; any other list becomes an array."""
    if asked.rows and all(isinstance(part, str | os.PathLike) for part in asked.rows):
        return ParquetSource(asked.rows, **asked.roles)
    if any(isinstance(part, Mapping) for part in asked.rows):
        raise InputError(
            "rows is a list of mappings: give a data frame, such as pandas.DataFrame(rows)"
        )
    return replace(asked, rows=as_array("rows", asked.rows))


def open_dataset(asked: Asked) -> Asked:
    """Open an xarray Dataset: its variables are features, except those named as key or target.

    Coordinates are no features.
    """
    rows = asked.rows
    taken = [*names_in(asked.target), *names_in(asked.key)]
    if len(rows.sizes) != 1:
        raise InputError(
            f"the dataset has dims {dict(rows.sizes)}: give one variable for each column, along one dimension"
        )
    is_lazy = any(variable.chunks is not None for variable in rows.variables.values())
    names = tuple(asked.features or [str(name) for name in rows.data_vars if name not in taken])
    if is_lazy:
        table = rows.to_dask_dataframe()
    else:
        table = rows.to_dataframe().reset_index()
    return replace(asked, rows=table, features=names)


def open_data_array(asked: Asked) -> Asked:
    """Open an xarray DataArray (instance, feature); columns are named by their labels."""
    rows = asked.rows
    features = asked.features
    if rows.ndim != 2:
        raise InputError(f"the array has dims {rows.dims}: give (instance, feature)")
    labels = rows.coords.get(rows.dims[1])
    if labels is None:
        names = None
    else:
        names = tuple(str(label) for label in labels.values)
    if names and features and set(features) <= set(names):
        rows = rows.isel({rows.dims[1]: [names.index(name) for name in features]})
        names = tuple(features)
    return replace(asked, rows=rows.data, features=names or features)


def open_dask_array(asked: Asked) -> RowReader:
    """Write the rows of a Dask array as Parquet parts, and open them."""
    _check_columns(asked, ())
    if asked.target is not None or len(asked.key):
        raise InputError("a Dask array has no columns for target and key: use a Dask dataframe")
    if asked.site is None:
        raise unknown_rows(asked.rows)
    if asked.rows.ndim != 2:
        raise InputError(f"a Dask array of shape {asked.rows.shape}: give (rows, columns)")
    names = list(asked.features or [f"x{j}" for j in range(asked.rows.shape[1])])
    parts = asked.rows.rechunk({1: -1}).to_delayed().ravel()
    return _spooled(replace(asked, features=names), parts, asked.site, names)


def open_dask_frame(asked: Asked) -> RowReader:
    """Open a Dask dataframe: its files if it is those, else Parquet parts that are written."""
    columns = [str(name) for name in asked.rows.columns]
    _check_columns(asked, columns)
    files = plain_files_of(asked.rows)
    if files is not None:
        there = ParquetFiles(files)
        # without names of features all columns of the files would be read, also those that the
        # frame leaves out
        if asked.features is not None or set(columns) == set(there.schema.names):
            return ParquetSource(files, **asked.roles)
    if asked.site is None:
        raise unknown_rows(asked.rows)
    return _spooled(asked, asked.rows.to_delayed(), asked.site)


def _spooled(
    asked: Asked, parts: Sequence[Any], site: Site, names: Sequence[str] | None = None
) -> RowReader:
    """Write every partition of a Dask collection as one Parquet part, and open the parts in order.

    Each partition is written by the worker that has it in memory.
    """
    folder = site.folder("rows")
    if not sum(site.each_partition(parts, partial(write_partition, folder, names))):
        raise EmptyTableError("the Dask collection has no rows")
    return ParquetSource(folder, **asked.roles)


def open_reader(asked: Asked) -> RowReader:
    """Return a source as it was opened; refuse options that contradict it."""
    reader = asked.rows
    features = asked.features
    has_roles = asked.target is not None or len(asked.key)
    if asked.site is None and (features is not None or has_roles):
        raise InputError(
            "features, target and key belong to the source that was given: set them where it is "
            "made"
        )
    if has_roles:
        raise InputError(
            "target and key belong to the source that was given: name them where it is opened"
        )
    if asked.missing not in ("refuse", reader.missing):
        raise InputError(
            f"missing = {asked.missing!r}, but the source was opened with {reader.missing!r}: set "
            "missing there"
        )
    if features is not None and tuple(reader.feature_names) != tuple(features):
        raise InputError(
            f"the source gives columns {list(reader.feature_names)}, the model was fitted on "
            f"{list(features)}: "
            "open the source with features= these names, in this order"
        )
    coded = categories_of(reader)
    for name, values in asked.categories.items():
        if tuple(coded.get(name, ())) != tuple(values):
            raise InputError(
                f"the model takes the categories of column {name!r}, and the source was opened "
                "without them: give the "
                "path or the data frame itself as rows"
            )
    _check_times(asked)
    return reader


def _check_times(asked: Asked) -> None:
    """Refuse a source whose columns of times, or their kinds, are not those of the model."""
    held = times_of(asked.rows)
    for name, wanted in asked.times.items():
        if wanted and name not in held:
            raise InputError(
                f"the model takes the times of column {name!r}, and the source was opened without "
                "them: open it with "
                f"times=[{name!r}], or give the path or the data frame itself as rows"
            )
        if wanted and (why := misfit(held[name], wanted)):
            raise InputError(f"column {name!r} of the source contains {why}")
    if asked.site is not None and (others := [name for name in held if name not in asked.times]):
        raise InputError(
            f"column {others[0]!r} of the source contains times, and numbers are taken here: open "
            "the source without it, or explain a predict function of data frames by Marginal, with "
            "a background that has it"
        )


def open_array(asked: Asked) -> RowReader:
    """Open an array (n, columns)."""
    _check_columns(asked, ())
    if asked.categories:
        raise InputError(
            f"the model takes text columns ({', '.join(asked.categories)}), and an array has none: "
            "give a data frame "
            "or a path, with the names of the columns"
        )
    if times := [name for name, kind in asked.times.items() if kind]:
        raise InputError(
            f"the model takes times ({', '.join(times)}), and an array has none: give a data frame "
            "or a path, with "
            "the names of the columns"
        )
    if names_in(asked.target) or names_in(asked.key):
        raise InputError(
            "target and key of a numpy array are values, not names: give target = an array and key "
            "= {name: values}, "
            "or pass a pandas DataFrame"
        )
    keys = dict(asked.key)
    missing = asked.missing
    return ArraySource(
        asked.rows, feature_names=asked.features, keys=keys, target=asked.target, missing=missing
    )


def open_frame(asked: Asked) -> RowReader:
    """Open a data frame, with its target in it or beside it."""
    _check_columns(asked, [str(name) for name in asked.rows.columns])
    if asked.target is not None and not names_in(asked.target):
        asked = replace(
            asked, rows=asked.rows.assign(**{TARGET: np.asarray(asked.target)}), target=TARGET
        )
    return from_pandas(asked.rows, **asked.roles)


def refuse_column(asked: Asked) -> RowReader:
    """Raise the error for a single column in place of a table."""
    raise unknown_rows(asked.rows)


def open_arrow(asked: Asked) -> Asked:
    """Make a data frame of an Arrow table or record batch."""
    return replace(asked, rows=frame_of_arrow(asked.rows))


def open_arrow_dataset(asked: Asked) -> Asked:
    """Write the rows of a pyarrow Dataset, as its own scanner gives them, as Parquet parts.

    The scanner applies the filters of the dataset, and reads files of any format.
    """
    rows = asked.rows
    wanted = _wanted_of(asked, rows.schema.names)
    columns = StreamColumns(rows.schema, wanted, kind="parquet")
    folder = _folder_of_run(asked)
    batches = rows.to_batches(
        columns=columns.schema.names,
        batch_size=BATCH_ROWS,
        batch_readahead=2,
        fragment_readahead=1,
    )
    with PartWriter(folder, columns.schema) as writer:
        for batch in batches:
            writer.write(columns.convert(batch))
    return replace(asked, rows=folder)


def open_polars_query(asked: Asked) -> Asked:
    """Write the rows of a polars LazyFrame as Parquet parts, without collecting them.

    Polars writes pages without checksums, so that its file is written again, group by group.
    """
    from polars import exceptions, selectors

    folder = _folder_of_run(asked)
    written = folder.with_name(f"{folder.name}.of_polars")
    try:
        held = asked.rows.collect_schema().names()
        wanted = _wanted_of(asked, held) or held
        # by selectors, as a plain name may be a pattern
        query = asked.rows.select(selectors.by_name(*wanted))
        query.sink_parquet(written, row_group_size=ROW_GROUP_ROWS)
        with open_parquet(written) as file, PartWriter(folder, file.schema_arrow) as writer:
            for batch in file.iter_batches(BATCH_ROWS):
                writer.write(batch)
    except exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"the LazyFrame cannot be collected ({reason}): try rows.collect() by itself"
        ) from None
    finally:
        written.unlink(missing_ok=True)
    return replace(asked, rows=folder)


def open_hugging_face(asked: Asked) -> Asked:
    """Write the rows of a `datasets.Dataset` as Parquet parts, batch by batch."""
    folder = _folder_of_run(asked)
    wanted = _wanted_of(asked, asked.rows.column_names)
    rows = asked.rows.with_format("arrow")
    schema = rows.features.arrow_schema
    columns = StreamColumns(schema.remove_metadata(), wanted, kind="parquet")
    with PartWriter(folder, columns.schema) as writer:
        for table in rows.select_columns(columns.schema.names).iter(BATCH_ROWS):
            for batch in table.to_batches():
                writer.write(columns.convert(batch))
    return replace(asked, rows=folder)


def _wanted_of(asked: Asked, held: Sequence[str]) -> list[str] | None:
    """The columns that are read of a table with these columns; None if all may be.

    Raises
    ------
    InputError
        The table lacks a column.
    """
    _check_columns(asked, held)
    if asked.features is None:
        return None
    wanted = [*asked.features, *names_in(asked.key), *names_in(asked.target)]
    for name in wanted:
        if name not in held:
            raise unknown_column(name, held)
    return list(dict.fromkeys(wanted))


def _folder_of_run(asked: Asked) -> Path:
    """An empty folder for rows that are written once for a run."""
    if asked.site is None:
        raise InputError(
            f"rows of type {type(asked.rows).__name__} can only be read by a run, such "
            "as dshap.explain: give the rows in memory, or their files as a path or a source"
        )
    return asked.site.folder("rows")


def _check_columns(asked: Asked, held: Sequence[str]) -> None:
    """Refuse a table that lacks columns of the value function, before it is read.

    `held` are the names of its columns, empty for an array.
    """
    if asked.n_columns is None:
        return
    if not held and asked.rows.ndim == 2 and asked.rows.shape[1] != asked.n_columns:
        raise InputError(f"the rows have {asked.rows.shape[1]} columns, the {made_for(asked)}")
    absent = [name for name in asked.features or () if name not in held]
    if held and absent:
        named = unknown_name("column", absent[0], held)
        raise InputError(f"the table lacks a column of the model: {named} The {made_for(asked)}.")


def made_for(asked: Asked) -> str:
    """The words of an error about a table of other columns."""
    return (
        f"value function was made for {asked.n_columns} columns{in_brackets(asked.features or ())}"
    )


def in_brackets(names: Sequence[str]) -> str:
    """The first eight names in brackets after a space; empty without names."""
    if len(names):
        return f" ({', '.join(names[:8])}{', …' if len(names) > 8 else ''})"
    return ""
