"""From what a user has to what a task reads: every kind of table becomes a `RowReader`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dshap.checks import as_array, checked
from dshap.cube import Workspace
from dshap.engine import DaskExecutor, Executor, LoopExecutor, collect_partitions, is_dask_collection, map_spans
from dshap.errors import InputError, shown, unknown_name
from dshap.options import RunOptions
from dshap.prepared import Prepared, PreparedData
from dshap.sources import (
    SPAN_ROWS,
    ArraySource,
    Census,
    ParquetSource,
    census_span,
    frame_of_arrow,
    merge_census,
    open_source,
    repeated_keys,
    write_part,
)
from dshap.types import BoolArray, RowReader, ValueFunction, replaced

__all__ = ["Inputs", "check_targets", "open_rows", "refuse_unknown_categories", "take_census"]

SPOOL_ROWS = 1_048_576
"""Rows of one spooled part."""
MAX_CATEGORIES = 65_536
TARGET = "dshap target "
"""Name of a spooled target that had none."""


def open_rows(
    rows: Any,
    executor: Executor,
    make_folder: Callable[[], Path],
    *,
    features: Sequence[str] | None = None,
    n_columns: int | None = None,
    target: Any = None,
    key: Any = (),
    missing: str = "refuse",
    categories: Mapping[str, tuple[Any, ...]] | None = None,
) -> RowReader:
    """A reader that the tasks of this executor can use.

    Parameters
    ----------
    rows : path or list of paths, numpy array, data frame, what speaks Arrow (pyarrow, polars, DuckDB), Dask array or
        dataframe, xarray Dataset or DataArray, or a source
    executor : where the tasks run; rows in the memory of this process are spooled to Parquet for other processes, and
        Dask collections are, by the workers, for any
    make_folder : gives an empty folder for the spool
    features : columns to take, by name; where None all number columns but key and target
    n_columns : how many there must be
    target, key, missing, categories : as in `dshap.sources.open_source`

    Raises
    ------
    InputError
        A table of the wrong columns, kind or size.
    """
    key = _checked_key(key)
    rows, features = _from_xarray(rows, features, [*as_names(target), *as_names(key)])
    is_paths = isinstance(rows, list | tuple) and len(rows) > 0 and all(isinstance(each, str | Path) for each in rows)
    rows, (features,) = rows if is_paths else frame_of_arrow(as_array("rows", rows)), checked(features=features)
    if n_columns is not None and not is_paths:
        _check_columns(rows, features, n_columns)
    if hasattr(rows, "iloc") and not is_dask_collection(rows) and target is not None and not as_names(target):
        rows, target = rows.assign(**{TARGET: np.asarray(target)}), TARGET  # a data frame and its y
    options = {"features": features, "target": target, "key": key, "missing": missing, "categories": categories}
    if is_dask_collection(rows):
        reader: RowReader = _spool_dask(rows, executor, make_folder(), options)
    elif is_paths or isinstance(rows, str | Path):
        reader = ParquetSource(rows, **options)
    elif isinstance(rows, RowReader):
        reader = _checked_reader(rows, features, target, key, missing)
        _refuse_other_codes(reader, categories or {})
    else:
        reader = open_source(rows, **options)
    if n_columns is not None and len(reader.feature_names) != n_columns:  # a table, and no names to take from it
        held = f"{len(reader.feature_names)} columns of numbers{_in_brackets(reader.feature_names)}"
        raise InputError(f"the rows have {held}, the {_made_for(features, n_columns)}")
    if isinstance(reader, ArraySource) and not executor.is_local:
        reader = _spool_source(reader, make_folder())
    return reader


def _checked_key(given: Any) -> Any:
    """A name, names, or a mapping from names to values."""
    if given is None:
        return ()
    if isinstance(given, Mapping) or as_names(given) or (isinstance(given, list | tuple) and not given):
        return given
    raise InputError(f"key is {shown(given)}: give a column's name, a list of names, or for an array {{name: values}}")


def as_names(given: Any) -> list[str]:
    """Column names out of one name or a list of them; none out of values and mappings."""
    if isinstance(given, str):
        return [given]
    return list(given) if isinstance(given, list | tuple) and all(isinstance(own, str) for own in given) else []


def _from_xarray(rows: Any, features: Sequence[str] | None, taken: Sequence[str]) -> tuple[Any, Sequence[str] | None]:
    """xarray objects as the data frame, Dask collection or array that they hold; met by their methods.

    The data variables of a dataset are its features, those `taken` as key or target apart; coordinates are not.
    """
    if hasattr(rows, "data_vars"):  # a Dataset: one variable a column
        if len(rows.sizes) != 1:
            raise InputError(f"the dataset has dims {dict(rows.sizes)}: give one variable a column, along one dim")
        is_lazy = any(is_dask_collection(variable.data) for variable in rows.variables.values())
        features = features or [str(name) for name in rows.data_vars if name not in taken]
        return (rows.to_dask_dataframe() if is_lazy else rows.to_dataframe().reset_index()), features
    if hasattr(rows, "dims") and hasattr(rows, "coords"):  # a DataArray (instance, feature)
        if rows.ndim != 2:
            raise InputError(f"the array has dims {rows.dims}: give (instance, feature)")
        labels = rows.coords.get(rows.dims[1])
        names = None if labels is None else [str(label) for label in labels.values]
        if names and features and set(features) <= set(names):
            rows = rows.isel({rows.dims[1]: [names.index(name) for name in features]})
            names = list(features)
        return rows.data, names or features
    return rows, features


def _check_columns(rows: Any, features: Sequence[str] | None, n_columns: int) -> None:
    """Refuse an array or a data frame that lacks columns of the value function, before it is read."""
    held = [str(name) for name in getattr(rows, "columns", ())]
    if not held and np.ndim(rows) == 2 and rows.shape[1] != n_columns:
        raise InputError(f"the rows have {rows.shape[1]} columns, the {_made_for(features, n_columns)}")
    absent = [name for name in features or () if name not in held]
    if held and absent:
        named = unknown_name("column", absent[0], held)
        raise InputError(f"the table lacks a column of the model: {named} The {_made_for(features, n_columns)}.")


def _made_for(features: Sequence[str] | None, n_columns: int) -> str:
    return f"value function was made for {n_columns} columns{_in_brackets(features or ())}"


def _in_brackets(names: Sequence[str]) -> str:
    """The first eight in brackets, a space before them; nothing where there are none."""
    return f" ({', '.join(names[:8])}{', …' if len(names) > 8 else ''})" if len(names) else ""


def _checked_reader(
    reader: RowReader, features: Sequence[str] | None, target: Any, key: Any, missing: str
) -> RowReader:
    """A source as it was opened: what belongs to it is not said again with another meaning."""
    if target is not None or len(key):
        raise InputError("target and key belong to the source that was given: name them where it is opened")
    if missing not in ("refuse", reader.missing):
        raise InputError(f"missing = {missing!r}, but the source was opened with {reader.missing!r}: say it there")
    if features is not None and tuple(reader.feature_names) != tuple(features):
        raise InputError(
            f"the source gives columns {list(reader.feature_names)}, the model was fitted on {list(features)}: "
            "open the source with features= these names, in this order"
        )
    return reader


def _refuse_other_codes(reader: RowReader, categories: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise where a source gives numbers, or other codes, for columns of categories."""
    held = getattr(reader, "categories", {})
    for name, own in categories.items():
        if tuple(held.get(name, ())) != tuple(own):
            raise InputError(
                f"the model takes the categories of column {name!r}, and the source was opened without them: give the "
                "path or the data frame itself as rows"
            )


def _spool_dask(rows: Any, executor: Executor, folder: Path, options: Mapping[str, Any]) -> RowReader:
    """Every partition written where it lives, as one part; read back in order."""
    client = executor.client if isinstance(executor, DaskExecutor) else None
    if hasattr(rows, "ndim") and rows.ndim == 2 and not hasattr(rows, "columns"):
        if options["target"] is not None or len(options["key"]):
            raise InputError("target and key of a Dask array have no place: use a Dask dataframe")
        names = list(options["features"] or [f"x{j}" for j in range(rows.shape[1])])
        _refuse_empty(collect_partitions(rows, _PartWriter(folder, names), client))
        return ParquetSource(folder, **{**options, "features": names})
    _refuse_empty(collect_partitions(rows, _PartWriter(folder, None), client))
    return ParquetSource(folder, **options)


def _refuse_empty(counts: Sequence[int]) -> None:
    if not sum(counts):
        raise InputError("empty table: the Dask collection has no rows; give a table with rows")


class _PartWriter:
    """write(partition, index) -> rows, on a worker; empty partitions leave no part."""

    def __init__(self, folder: Path, names: Sequence[str] | None) -> None:
        self.folder, self.names = folder, names

    def __call__(self, partition: Any, index: int) -> int:
        if len(partition):
            write_part(self.folder, index, partition, names=self.names)
        return len(partition)


def _spool_source(source: ArraySource, folder: Path) -> RowReader:
    """Rows of this process's memory as Parquet parts with the same values, keys and target."""
    targets: list[str] = []
    for index, start in enumerate(range(0, source.n_rows, SPOOL_ROWS)):
        block = source.read(start, min(start + SPOOL_ROWS, source.n_rows), keys=True, target=True, columns=True)
        columns = {**block.columns, **block.keys}
        if block.target is not None:
            outputs = block.target.reshape(len(block.x), -1).T
            targets = [f"{TARGET}{j}" for j in range(len(outputs))]
            columns |= dict(zip(targets, outputs, strict=True))
        write_part(folder, index, columns)
    return ParquetSource(
        folder,
        features=source.feature_names,
        key=source.key_names,
        target=targets[0] if len(targets) == 1 else targets or None,
        missing=source.missing,
        categories=source.categories,
    )


@dataclass(frozen=True)
class Inputs:
    """The rows to explain and the rows that a value function learns from, opened and counted."""

    value: ValueFunction
    """With the categories of all these rows."""
    rows: RowReader
    census: Census
    data: RowReader
    data_census: Census

    @classmethod
    def open(
        cls,
        value: ValueFunction,
        rows: Any,
        executor: Executor,
        workspace: Workspace,
        options: RunOptions,
        key: Any,
        census: Census | None = None,
        prepared: Prepared | None = None,
    ) -> Inputs:
        """One reader and one census where both are the same table; the data of a prepared value are not read."""
        columns: dict[str, Any] = {"features": value.model.feature_names, "n_columns": value.model.n_columns}
        reader = open_rows(
            rows,
            executor,
            lambda: workspace.folder("rows"),
            key=key,
            missing=options.missing,
            categories=value.model.categories,
            **columns,
        )
        if value.model.categories:
            value, reader = _with_all_categories(value, reader, executor)
        census = census or take_census(reader, executor, lambda: workspace.folder("keys"))
        if reader.missing == "pass" and value.needs_moments:
            raise InputError('missing = "pass" is for black boxes: explain a kernel model with "refuse" or "skip"')
        if prepared is not None:
            return cls(value, reader, census, prepared.data, _census_of(prepared.data))
        if _is_same(value.data, rows):
            return cls(value, reader, census, reader, census)
        is_named = not isinstance(value.data, np.ndarray)  # by the rows' own names where the value function knows none
        columns["features"] = value.model.feature_names or (reader.feature_names if is_named else None)
        is_read = value.needs_moments or value.streams_data  # row by row, so that bad ones can be skipped
        missing = "skip" if reader.missing == "refuse" and not is_read else reader.missing
        try:
            data = open_rows(value.data, executor, lambda: workspace.folder("data"), missing=missing, **columns)
            data_census = take_census(data, executor, lambda: workspace.folder("data-keys"), not value.needs_moments)
        except InputError as error:
            raise InputError(f"background or data of the value function: {error}") from error
        if data_census.n_bad and data.missing == "skip" and not is_read:
            raise InputError(
                f"{data_census.n_bad} rows of the background hold NaN or infinity: drop them, or set missing = "
                '"pass" for a model that takes NaN'
            )
        return cls(value, reader, census, data, data_census)

    def active_players(self) -> BoolArray:
        """(d,): players with a column that varies over rows and data; the others are worth nothing.

        Where nothing varies, the first player is kept: a game needs one.
        """
        low = np.minimum(self.census.low, self.data_census.low)
        high = np.maximum(self.census.high, self.data_census.high)
        names = self.rows.feature_names
        varies = (low < high) | [name in self.census.bad or name in self.data_census.bad for name in names]
        is_active = np.array((self.value.players.members & varies).any(axis=1))
        is_active[0] |= not is_active.any()
        return is_active


def _with_all_categories(
    value: ValueFunction, reader: RowReader, executor: Executor
) -> tuple[ValueFunction, RowReader]:
    """Both with the categories of the rows behind those that the value function knows, in order; one pass over them."""
    spans = map_spans(executor, None, _unknown_categories, reader.n_rows, SPAN_ROWS, reader)
    found = {name: set().union(*(span.get(name, ()) for span in spans)) for name in value.model.categories}
    if not any(found.values()):
        return value, reader
    every = {name: (*own, *sorted(found[name])) for name, own in value.model.categories.items()}
    for name, own in every.items():
        if len(own) > MAX_CATEGORIES:
            raise InputError(
                f"column {name!r} holds {len(own):,} different values, at most {MAX_CATEGORIES:,} categories are "
                "taken: group them, or take the column out of the model"
            )
    return replaced(value, model=value.model.with_categories(every)), reader.with_categories(every)  # type: ignore[attr-defined]


def refuse_unknown_categories(reader: RowReader, executor: Executor) -> None:
    """Raise where rows to learn from hold categories that the value function's own data lack."""
    for span in map_spans(executor, None, _unknown_categories, reader.n_rows, SPAN_ROWS, reader):
        for name, found in span.items():
            raise InputError(
                f"column {name!r} holds {min(found)!r}, which the data of the value function lack: make the value "
                "function with rows that hold every category"
            )


def _unknown_categories(_: Any, start: int, stop: int, reader: RowReader) -> dict[str, set[Any]]:
    """Values of the coded columns that are in no list."""
    block = reader.read(start, stop, columns=True)
    coded = reader.categories  # type: ignore[attr-defined]
    places = {name: block.x[:, reader.feature_names.index(name)] < 0 for name in coded}
    return {name: set(block.columns[name][is_new].tolist()) for name, is_new in places.items() if is_new.any()}


def _census_of(data: PreparedData) -> Census:
    """As far as it is kept: the number of rows and their digest."""
    return Census(data.n_rows, 0, 0, {}, {}, (), (), data.digest)


def _is_same(data: Any, rows: Any) -> bool:
    """The value function learns from the very rows that are explained."""
    return data is rows or (isinstance(data, str | Path) and isinstance(rows, str | Path) and str(data) == str(rows))


def take_census(
    reader: RowReader, executor: Executor, make_folder: Callable[[], Path], takes_nan: bool = True
) -> Census:
    """One pass over the rows: counts, digests; refuses bad values by the reader's policy, and repeated keys.

    Where nothing `takes_nan`, the refusal does not propose to let it pass.

    Raises
    ------
    InputError
        What is bad, how much of it, and what to do.
    """
    keys = make_folder() if reader.key_names else None
    if reader.n_rows <= SPAN_ROWS:
        executor = LoopExecutor()  # one span: no cluster starts for it
    spans = map_spans(executor, None, _census_task, reader.n_rows, SPAN_ROWS, reader, keys)
    census = merge_census(spans)
    census.raise_on_bad(reader, takes_nan)
    if keys is not None:
        n_repeated, positions = repeated_keys(keys, spans)
        if n_repeated:
            raise InputError(
                f"{n_repeated} rows repeat the key of an earlier row, for example {_examples(reader, positions)}: "
                "give a key that names each row once, or none"
            )
    return census


def _census_task(_: Any, start: int, stop: int, reader: RowReader, keys: Path | None) -> Any:
    return census_span(reader, start, stop, keys)


def _examples(reader: RowReader, positions: Sequence[int]) -> str:
    shown = []
    for position in list(positions)[:3]:
        keys = reader.read(position, position + 1, keys=True).keys
        shown.append(" ".join(f"{name}={values[0]}" for name, values in keys.items()) + f" (row {position})")
    return ", ".join(shown)


def check_targets(census: Census, missing: str) -> None:
    """Refuse rows that cannot be fitted on, unless they are to be skipped."""
    if missing == "refuse" and census.n_bad_targets:
        raise InputError(f'{census.n_bad_targets} rows have no finite target: drop them, or fit with missing = "skip"')
