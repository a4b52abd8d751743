"""The one opener of tables: the first kind of `sources.KINDS` that knows the rows makes a reader."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from dshap.core.annotations import KeyLike, TableLike, TargetLike
from dshap.core.errors import InputError, shown
from dshap.core.fixed_words import MissingRule
from dshap.core.rules import checked
from dshap.core.types import RowReader
from dshap.tables.arrays import ArraySource
from dshap.tables.columns import Times, as_names, as_times
from dshap.tables.conversion import Asked, in_brackets, made_for, names_in
from dshap.tables.memory_to_parts import spool_source
from dshap.tables.site import Site
from dshap.tables.sources import opened


def open_rows(
    rows: TableLike,
    site: Site,
    *,
    features: Sequence[str] | None = None,
    n_columns: int | None = None,
    target: TargetLike | None = None,
    key: KeyLike | None = (),
    missing: MissingRule = "refuse",
    categories: Mapping[str, tuple[Hashable, ...]] | None = None,
    times: Times = None,
) -> RowReader:
    """Open rows as a reader that the tasks of a run can use.

    Parameters
    ----------
    rows : path or list of paths, numpy array, data frame, object with Arrow's protocol (pyarrow,
        polars, DuckDB), Dask array or dataframe, xarray Dataset or DataArray, DeltaTable, pyarrow
        Dataset, polars LazyFrame, or a source
    site : site of the run; rows in the memory of this process are spooled to Parquet for other
        processes; Dask collections are always spooled, by the workers, and so are a Dataset and a
        LazyFrame, by this process
    features : names of the columns to read; None reads all number columns but key and target
    n_columns : number of columns that there must be
    target : column names; for an array or a data frame also the values, (n,) or (n, k)
    key : column names; for an array a mapping of key column -> values (n,)
    missing : "refuse", "skip" or "pass"
    categories : feature -> the categories of a column of text or of numbers: it is read as their
        positions
    times : features with times, or feature -> the kind that is accepted: they are read as
        microseconds since 1970

    Raises
    ------
    InputError
        The table has the wrong columns, kind or size.

    Examples
    --------
    >>> import pandas as pd
    >>> from dshap.run.session import open_session
    >>> from dshap.sources import open_rows
    >>> houses = pd.DataFrame({"id": [7, 8], "rooms": [2.0, 3.0], "price": [200.0, 300.0]})
    >>> with open_session(None, None, False, {}) as (_, session):
    ...     reader = open_rows(houses, session, key="id", target="price")
    ...     block = reader.read(0, 2)
    >>> reader.feature_names, block.x.tolist()
    (('rooms',), [[2.0], [3.0]])
    """
    (features,) = checked(features=features)
    asked = Asked(
        rows,
        site,
        features,
        n_columns,
        target,
        checked_key(key),
        missing,
        categories or {},
        as_times(times),
    )
    reader = opened(asked)
    # possible only if the model names no columns
    if n_columns is not None and len(reader.feature_names) != n_columns:
        held = f"{len(reader.feature_names)} columns of numbers{in_brackets(reader.feature_names)}"
        raise InputError(f"the rows have {held}, the {made_for(asked)}")
    if isinstance(reader, ArraySource) and not site.is_local:
        return spool_source(reader, site.folder("rows"))
    return reader


def open_source(
    data: TableLike,
    *,
    features: Sequence[str] | str | None = None,
    target: TargetLike | None = None,
    key: KeyLike | None = (),
    missing: MissingRule = "refuse",
    categories: Mapping[str, tuple[Hashable, ...]] | None = None,
    times: Times = None,
) -> RowReader:
    """Open a table of any kind as a source of rows.

    Some tables have to be written to files before tasks can read them: Dask collections that are
    not plain Parquet files, pyarrow Datasets, LazyFrames of polars, and `datasets.Dataset`.  Only a
    run such as `dshap.explain` does that, so that they are refused here.

    Parameters
    ----------
    data : path or list of paths, numpy array, data frame, or any other `TableLike`
    features : name or names, optional
        The columns to explain; by default all number columns except key and target.  For an array,
        the names of its columns.
    target : name or names, optional
        The columns of the target; for an array or a data frame also its values, (n,) or (n, k).
    key : name or names, optional
        The columns that name a row; for an array a mapping of key column -> values (n,).
    missing, categories, times : as in `ParquetSource`

    Returns
    -------
    RowReader
        A source such as `ParquetSource` or `ArraySource`.

    Raises
    ------
    InputError
        The kind of table is not known, or the table does not fit the options.

    Examples
    --------
    >>> import pandas as pd
    >>> from dshap.sources import open_source
    >>> houses = pd.DataFrame({"id": [7, 8], "rooms": [2.0, 3.0], "price": [200.0, 300.0]})
    >>> source = open_source(houses, key="id", target="price")
    >>> source.n_rows, source.feature_names
    (2, ('rooms',))
    """
    if features is None:
        names = None
    else:
        names = as_names(features)
    return opened(
        Asked(
            data,
            None,
            names,
            None,
            target,
            checked_key(key),
            missing,
            categories or {},
            as_times(times),
        )
    )


def checked_key(given: Any) -> Any:
    """The key, checked to be a name, names, or a mapping from names to values."""
    match given:
        case None | []:
            return ()
        case Mapping():
            return given
        case _ if names_in(given):
            return given
    raise InputError(
        f"key is {shown(given)}: give a column's name, a list of names, or for an array {{name: "
        f"values}}"
    )
