"""The one opener of tables: the first entry of `KINDS` that knows the rows makes a `RowReader`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from dshap.core.errors import EmptyTableError, InputError, shown, unknown_name
from dshap.core.rules import as_array, checked
from dshap.core.types import Pass, RowReader
from dshap.predictors.times import misfit, times_of
from dshap.tables.arrays import ArraySource, frame_of_arrow, from_pandas
from dshap.tables.columns import Times, as_names, as_times
from dshap.tables.parquet import ParquetSource
from dshap.tables.spool import TARGET, spool_source, write_partition

Learn = Callable[[Pass, RowReader], Any]
"""A function that runs a pass over all rows of a table and returns its result."""


class Site(Protocol):
    """The place where the tables of a run are read and spooled: its executor and workspace."""

    @property
    def is_local(self) -> bool:
        """Whether tasks run in this process and can see its arrays."""
        ...

    def folder(self, name: str) -> Path:
        """An empty folder that all tasks can reach until the run ends."""
        ...

    def learn(self, one: Pass, reader: RowReader) -> Any:
        """Run a pass over all rows of a table, and return its result."""
        ...

    def each_partition(self, parts: Sequence[Any], write: Callable[[Any, int], int]) -> list[int]:
        """Run write(partition, index) for delayed partitions of a Dask collection.

        It runs where the partitions are; the row counts are returned in their order.
        """
        ...


@runtime_checkable
class CodedReader(RowReader, Protocol):
    """A reader that gives text, and other categories, as their positions in lists."""

    @property
    def categories(self) -> Mapping[str, tuple[Any, ...]]: ...
    def with_categories(
        self, categories: Mapping[str, tuple[Any, ...]], *, others_are_missing: bool = False
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


@dataclass(frozen=True)
class Asked:
    """Rows, and the options of opening them; see `open_rows`."""

    rows: Any
    site: Site | None = None
    features: Sequence[str] | None = None
    n_columns: int | None = None
    target: Any = None
    key: Any = ()
    missing: str = "refuse"
    categories: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    times: Mapping[str, str] = field(default_factory=dict)

    @property
    def roles(self) -> dict[str, Any]:
        """The options that readers of named columns take."""
        if isinstance(self.key, Mapping):
            raise InputError(
                f"key is a mapping with values for {', '.join(map(repr, self.key))}, which goes "
                "with an array: these "
                "rows have columns with names, so put the values in as a column and give key= its "
                "name"
            )
        named = {"features": self.features, "target": self.target, "key": self.key}
        return {
            **named,
            "missing": self.missing,
            "categories": self.categories,
            "times": self.times,
        }


def open_rows(
    rows: Any,
    site: Site,
    *,
    features: Sequence[str] | None = None,
    n_columns: int | None = None,
    target: Any = None,
    key: Any = (),
    missing: str = "refuse",
    categories: Mapping[str, tuple[Any, ...]] | None = None,
    times: Times = None,
) -> RowReader:
    """Open rows as a reader that the tasks of a run can use.

    Parameters
    ----------
    rows : path or list of paths, numpy array, data frame, object with Arrow's protocol (pyarrow,
        polars, DuckDB), Dask array or dataframe, xarray Dataset or DataArray, or a source
    site : site of the run; rows in the memory of this process are spooled to Parquet for other
        processes; Dask collections are always spooled, by the workers
    features : names of the columns to take; None takes all number columns but key and target
    n_columns : number of columns that there must be
    target : column names; for an array or a data frame also the values, (n,) or (n, k)
    key : column names; for an array a mapping of key column -> values (n,)
    missing : "refuse", "skip" or "pass"
    categories : feature -> the categories of a column of text or of numbers: it is read as their
        positions
    times : features that hold times, or feature -> the kind that is taken: they are read as
        microseconds since 1970

    Raises
    ------
    InputError
        The table has the wrong columns, kind or size.
    """
    (features,) = checked(features=features)
    asked = Asked(
        rows,
        site,
        features,
        n_columns,
        target,
        _checked_key(key),
        missing,
        categories or {},
        as_times(times),
    )
    reader = _opened(asked)
    # possible only where the model names no columns
    if n_columns is not None and len(reader.feature_names) != n_columns:
        held = f"{len(reader.feature_names)} columns of numbers{_in_brackets(reader.feature_names)}"
        raise InputError(f"the rows have {held}, the {_made_for(asked)}")
    if isinstance(reader, ArraySource) and not site.is_local:
        return spool_source(reader, site.folder("rows"))
    return reader


def open_source(
    data: Any,
    *,
    features: Sequence[str] | str | None = None,
    target: Any = None,
    key: Any = (),
    missing: str = "refuse",
    categories: Mapping[str, tuple[Any, ...]] | None = None,
    times: Times = None,
) -> RowReader:
    """Open a table without a run; tables that only a run can spool are refused.

    Parameters
    ----------
    data, target, key, missing, categories, times : as in `open_rows`
    features : name or names, optional
        The columns to explain, for an array the names of its columns.

    Raises
    ------
    InputError
        The kind of table is not known, or the table does not fit the options.
    """
    if features is None:
        names = None
    else:
        names = as_names(features)
    return _opened(
        Asked(
            data,
            None,
            names,
            None,
            target,
            _checked_key(key),
            missing,
            categories or {},
            as_times(times),
        )
    )


def _opened(asked: Asked) -> RowReader:
    kind = kind_of(asked.rows)
    if kind is None:
        raise _unknown(asked.rows)
    return KINDS[kind].open(asked)


def kind_of(rows: Any) -> str | None:
    """The name of the first entry of `KINDS` that knows these rows; None if none does."""
    return next((name for name, kind in KINDS.items() if kind.knows(rows)), None)


def _unknown(rows: Any) -> InputError:
    return InputError(f"rows of type {type(rows).__name__}: give {_remedy(rows)}")


def _remedy(rows: Any) -> str:
    """A phrase that says how to make a table of these rows."""
    match rows:
        case pd.Series():
            return "a data frame, such as series.to_frame().T where it is one row, series.to_frame() where one column"
        case Mapping():
            return "a data frame, such as pandas.DataFrame(rows)"
    return "a path, a pandas DataFrame, a numpy array or a source such as ParquetSource"


def _checked_key(given: Any) -> Any:
    """The key, checked to be a name, names, or a mapping from names to values."""
    match given:
        case None | []:
            return ()
        case Mapping():
            return given
        case _ if _names_in(given):
            return given
    raise InputError(
        f"key is {shown(given)}: give a column's name, a list of names, or for an array {{name: "
        f"values}}"
    )


def _names_in(given: Any) -> list[str]:
    """The column names in a single name or a list of names; empty for values and mappings."""
    match given:
        case str():
            return [given]
        case [*names] if all(isinstance(name, str) for name in names):
            return names
    return []


def _open_paths(asked: Asked) -> RowReader:
    return ParquetSource(asked.rows, **asked.roles)


def _open_list(asked: Asked) -> RowReader:
    if asked.rows and all(isinstance(part, str | Path) for part in asked.rows):
        return _open_paths(asked)
    if any(isinstance(part, Mapping) for part in asked.rows):
        raise InputError(
            "rows is a list of mappings: give a data frame, such as pandas.DataFrame(rows)"
        )
    return _opened(replace(asked, rows=as_array("rows", asked.rows)))


def _open_dataset(asked: Asked) -> RowReader:
    """Open an xarray Dataset: its variables are features, except those named as key or target.

    Coordinates are no features.
    """
    rows = asked.rows
    taken = [*_names_in(asked.target), *_names_in(asked.key)]
    if len(rows.sizes) != 1:
        raise InputError(
            f"the dataset has dims {dict(rows.sizes)}: give one variable a column, along one dim"
        )
    is_lazy = any(variable.chunks is not None for variable in rows.variables.values())
    names = tuple(asked.features or [str(name) for name in rows.data_vars if name not in taken])
    if is_lazy:
        table = rows.to_dask_dataframe()
    else:
        table = rows.to_dataframe().reset_index()
    return _opened(replace(asked, rows=table, features=names))


def _open_data_array(asked: Asked) -> RowReader:
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
    return _opened(replace(asked, rows=rows.data, features=names or features))


def _open_dask_array(asked: Asked) -> RowReader:
    _check_columns(asked, ())
    if asked.target is not None or len(asked.key):
        raise InputError("target and key of a Dask array have no place: use a Dask dataframe")
    if asked.site is None:
        raise _unknown(asked.rows)
    if asked.rows.ndim != 2:
        raise InputError(f"a Dask array of shape {asked.rows.shape}: give (rows, columns)")
    names = list(asked.features or [f"x{j}" for j in range(asked.rows.shape[1])])
    parts = asked.rows.rechunk({1: -1}).to_delayed().ravel()
    return _spooled(replace(asked, features=names), parts, asked.site, names)


def _open_dask_frame(asked: Asked) -> RowReader:
    _check_columns(asked, [str(name) for name in asked.rows.columns])
    if asked.site is None:
        raise _unknown(asked.rows)
    return _spooled(asked, asked.rows.to_delayed(), asked.site)


def _spooled(
    asked: Asked, parts: Sequence[Any], site: Site, names: Sequence[str] | None = None
) -> RowReader:
    """Write every partition of a Dask collection as one Parquet part, and open the parts in order.

    Each partition is written by the worker that holds it.
    """
    folder = site.folder("rows")
    if not sum(site.each_partition(parts, partial(write_partition, folder, names))):
        raise EmptyTableError("the Dask collection has no rows")
    return ParquetSource(folder, **asked.roles)


def _open_reader(asked: Asked) -> RowReader:
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
            f"missing = {asked.missing!r}, but the source was opened with {reader.missing!r}: say "
            "it there"
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
            raise InputError(f"column {name!r} of the source holds {why}")
    if asked.site is not None and (others := [name for name in held if name not in asked.times]):
        raise InputError(
            f"column {others[0]!r} of the source holds times, and numbers are taken here: open the "
            "source without it, "
            "or explain a predict function of data frames by Marginal, with a background that has "
            "it"
        )


def _open_array(asked: Asked) -> RowReader:
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
    if _names_in(asked.target) or _names_in(asked.key):
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


def _open_frame(asked: Asked) -> RowReader:
    """Open a data frame, with its target in it or beside it."""
    _check_columns(asked, [str(name) for name in asked.rows.columns])
    if asked.target is not None and not _names_in(asked.target):
        asked = replace(
            asked, rows=asked.rows.assign(**{TARGET: np.asarray(asked.target)}), target=TARGET
        )
    return from_pandas(asked.rows, **asked.roles)


def _refuse(asked: Asked) -> RowReader:
    raise _unknown(asked.rows)


def _open_arrow(asked: Asked) -> RowReader:
    return _opened(replace(asked, rows=frame_of_arrow(asked.rows)))


class Kind(NamedTuple):
    """A kind of rows, known by its types or by members that all of its kind have.

    Members are used for libraries that are not imported here.
    """

    open: Callable[[Asked], RowReader]
    types: tuple[type, ...] = ()
    members: tuple[str, ...] = ()

    def knows(self, rows: Any) -> bool:
        return isinstance(rows, self.types) or (
            bool(self.members) and all(hasattr(rows, name) for name in self.members)
        )


KINDS: Mapping[str, Kind] = {
    "path": Kind(_open_paths, (str, Path)),
    "list": Kind(_open_list, (list, tuple)),
    "reader": Kind(_open_reader, (RowReader,)),
    "array": Kind(_open_array, (np.ndarray,)),
    "data frame": Kind(_open_frame, (pd.DataFrame,)),
    "column": Kind(_refuse, (pd.Series,)),
    "xarray dataset": Kind(_open_dataset, members=("data_vars",)),
    "xarray array": Kind(_open_data_array, members=("dims", "coords")),
    "dask array": Kind(_open_dask_array, members=("__dask_graph__", "rechunk")),
    "dask frame": Kind(_open_dask_frame, members=("__dask_graph__", "columns")),
    "arrow stream": Kind(_open_arrow, members=("__arrow_c_stream__",)),
    "arrow array": Kind(_open_arrow, members=("__arrow_c_array__",)),
}
"""Name -> kind of rows; the first kind that knows the rows opens them."""


def _check_columns(asked: Asked, held: Sequence[str]) -> None:
    """Refuse a table that lacks columns of the value function, before it is read.

    `held` are the names of its columns, empty for an array.
    """
    if asked.n_columns is None:
        return
    if not held and asked.rows.ndim == 2 and asked.rows.shape[1] != asked.n_columns:
        raise InputError(f"the rows have {asked.rows.shape[1]} columns, the {_made_for(asked)}")
    absent = [name for name in asked.features or () if name not in held]
    if held and absent:
        named = unknown_name("column", absent[0], held)
        raise InputError(f"the table lacks a column of the model: {named} The {_made_for(asked)}.")


def _made_for(asked: Asked) -> str:
    return (
        f"value function was made for {asked.n_columns} columns{_in_brackets(asked.features or ())}"
    )


def _in_brackets(names: Sequence[str]) -> str:
    """The first eight names in brackets after a space; empty without names."""
    if len(names):
        return f" ({', '.join(names[:8])}{', …' if len(names) > 8 else ''})"
    return ""
