"""Sources of rows in memory: numpy arrays and pandas data frames."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dshap.core.blocks import RowBlock
from dshap.core.errors import EmptyTableError, InputError, shown, unknown_name
from dshap.core.fixed_words import MissingRule
from dshap.core.floats import finite_rows, refuse_rounded, unmasked
from dshap.core.late import pa, pd
from dshap.tables.columns import (
    Layout,
    Names,
    Times,
    arrow_array,
    as_names,
    check_missing,
    code_array,
    key_array,
    key_dtype,
    key_refusal,
    layout_of,
    null_key_refusal,
    repeats,
)
from dshap.tables.reader import BlockBuilder, LaidOut, check_span


class ArraySource(LaidOut):
    """A numpy array as a source of rows, with names, keys and a target.

    The source is pickled with its data.  A run whose tasks are in other processes therefore writes
    the rows to Parquet parts first, and its tasks read those.

    Parameters
    ----------
    x : (n, columns) array of numbers
        It is not converted; a float64 block in C order is read without a copy.
    feature_names : names, optional
        The names of the columns, such as ``["area", "rooms"]``; by default x0, x1, …
    keys : mapping, optional
        key column -> its values (n,): integers, text or times, as in `ParquetSource`.
    target : (n,) or (n, k) array, optional
        A missing target is NaN; its row can be explained, and `fit` skips it.
    missing : {"refuse", "skip", "pass"}
        What a run does with rows that contain NaN or infinity: it stops with an error, leaves them
        out, or passes them to the model.
    columns : mapping, optional
        feature -> the values (n,) that a cube stores for it; by default the columns of x in its
        dtype.
    categories : mapping, optional
        feature -> its categories, if x contains their positions, such as ``{"city": ("Bonn",
        "Ulm")}`` if x has 0 for Bonn and 1 for Ulm.

    Raises
    ------
    InputError
        The table contains text, has a wrong shape or no rows, its parts differ in length, or a row
        has no key.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import ArraySource
    >>> x = np.array([[60.0, 2.0], [90.0, 3.0]])
    >>> source = ArraySource(x, feature_names=["area", "rooms"], keys={"house": np.array([7, 8])})
    >>> source.n_rows, source.feature_names, source.key_names
    (2, ('area', 'rooms'), ('house',))
    >>> block = source.read(1, 2, keys=True)
    >>> block.x.tolist(), block.keys["house"].tolist()
    ([[90.0, 3.0]], [8])
    """

    def __init__(
        self,
        x: ArrayLike,
        *,
        feature_names: Names = None,
        keys: Mapping[str, ArrayLike] | None = None,
        target: ArrayLike | None = None,
        missing: MissingRule = "refuse",
        columns: Mapping[str, np.ndarray] | None = None,
        categories: Mapping[str, tuple[Hashable, ...]] | None = None,
    ) -> None:
        check_missing(missing)
        self._x = _numbers(x, "the table")
        if self._x.ndim != 2:
            raise InputError(
                f"the table has shape {self._x.shape} where (rows, columns) is needed: for one "
                "column use "
                "x.reshape(-1, 1), for one row x.reshape(1, -1)"
            )
        if not self._x.shape[1]:
            raise InputError(f"empty table: shape {self._x.shape}; give at least one column")
        if not len(self._x):
            raise EmptyTableError(f"shape {self._x.shape}")
        self.n_rows = len(self._x)
        names = _feature_names(feature_names, self._x.shape[1])
        read = {str(name): _key(str(name), values) for name, values in (keys or {}).items()}
        self._keys = {name: values for name, (values, _) in read.items()}
        if target is not None and not np.ndim(target):
            raise InputError(
                f"target is {shown(target)}: give one value for each row, (n,) or (n, k)"
            )
        if target is None:
            self._target = None
        else:
            self._target = _numbers(target, "the target")
        self._columns = dict(columns or {})
        self._check_lengths()
        if self._target is None:
            n_targets = 0
        else:
            n_targets = self._target.size // self.n_rows
        self._layout = Layout(
            features=names,
            key_dtypes={name: dtype for name, (_, dtype) in read.items()},
            targets=tuple(f"y{j}" for j in range(n_targets)),
            is_single_target=self._target is not None and self._target.ndim == 1,
            missing=missing,
            categories=dict(categories or {}),
        )
        self.column_dtypes = {name: self._column(name).dtype for name in names}

    def with_categories(
        self, categories: Mapping[str, tuple[Hashable, ...]], *, others_are_missing: bool = False
    ) -> ArraySource:
        """A source of the same rows, with columns coded by these lists of categories."""
        other = super().with_categories(categories, others_are_missing=others_are_missing)
        # this source keeps its codes: other readers may share it
        other._x = self._x.copy()
        for name, values in categories.items():
            column = arrow_array(self._columns[name], name)
            other._x[:, self.feature_names.index(name)] = code_array(
                column, values, other._layout.unknown_code
            )
        return other

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

        The target of a source without one is None.
        """
        check_span(start, stop, self.n_rows)
        x = np.ascontiguousarray(self._x[start:stop], dtype=np.float64)  # (n, columns)
        is_ok = np.ones(len(x), dtype=bool)
        if self.missing != "pass":
            is_ok = finite_rows(x)
        return RowBlock(
            start=start,
            x=x,
            is_ok=is_ok,
            keys={name: values[start:stop] for name, values in self._keys.items()} if keys else {},
            target=self._target[start:stop].astype(np.float64)
            if target and self._target is not None
            else None,
            columns={name: self._column(name)[start:stop] for name in self.feature_names}
            if columns
            else {},
        )

    def describe(self) -> str:
        """One line for plans and logs."""
        return self._described("in memory", target="a target")

    def _column(self, name: str) -> NDArray[Any]:
        """One explained column (n,) in the dtype of the cube."""
        if name in self._columns:
            return self._columns[name]
        return self._x[:, self.feature_names.index(name)]

    def _check_lengths(self) -> None:
        parts = {f"key {name!r}": len(values) for name, values in self._keys.items()}
        parts |= {f"column {name!r}": len(values) for name, values in self._columns.items()}
        parts |= {"the target": len(self._target)} if self._target is not None else {}
        for name, length in parts.items():
            if length != self.n_rows:
                raise InputError(
                    f"{name} has {length} values for {self.n_rows} rows: give one for each row"
                )


def _key(name: str, values: Any) -> tuple[NDArray[Any], str]:
    """The values (n,) of a key column, and their name in `KEY_DTYPES`."""
    if not isinstance(values, pa.Array) and np.ndim(values) != 1:
        raise InputError(f"key {name!r} is {shown(values)}: give one value for each row, (n,)")
    if isinstance(values, pa.Array):
        column = values
    else:
        column = arrow_array(np.asarray(values), name)
    dtype = key_dtype(column.type)
    if dtype is None:
        raise InputError(key_refusal(name, column.type))
    array, is_null = key_array(column, name, dtype)
    if is_null is not None:
        raise InputError(null_key_refusal({name: int(np.count_nonzero(is_null))}))
    return array, dtype


def _numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    """The values as an array of bools, integers or floats; masked values are NaN."""
    array = np.asarray(unmasked(values, name))
    if array.dtype == np.longdouble:
        array = array.astype(np.float64)
    if array.dtype.kind in "OUST":
        raise InputError(
            f"{name} contains text or objects (dtype {array.dtype}) where numbers are needed: "
            "encode them as numbers, or pass a pandas DataFrame and name the number columns in "
            "features"
        )
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"{name} has dtype {array.dtype}, but only bools, integers and floats are taken: "
            "convert it"
        )
    refuse_rounded(array, name)
    return array


def _feature_names(given: Names, n_columns: int) -> tuple[str, ...]:
    if given is None:
        names = tuple(f"x{j}" for j in range(n_columns))
    else:
        names = as_names(given)
    if len(names) != n_columns:
        raise InputError(
            f"{len(names)} feature names for {n_columns} columns: give one for each column"
        )
    if twice := repeats(names):
        raise InputError(
            f"feature names contain {', '.join(map(repr, twice))} more than once: name each column "
            "once"
        )
    return names


def from_pandas(
    frame: pd.DataFrame,
    features: Names = None,
    key: Names = (),
    target: Names = None,
    missing: MissingRule = "refuse",
    categories: Mapping[str, tuple[Hashable, ...]] | None = None,
    times: Times = None,
) -> ArraySource:
    """A pandas DataFrame as a source of rows, by the rules and messages of `ParquetSource`.

    The index of the frame is not read.  Nullable, Arrow and categorical columns are read by their
    values: a categorical column of numbers becomes numbers, unless you give its categories.

    Parameters
    ----------
    frame : pandas.DataFrame
    features, key, target, missing, categories, times : as in `ParquetSource`

    Returns
    -------
    ArraySource
        The columns that have a role.

    Raises
    ------
    InputError
        The frame has no rows, or a column is unknown or does not fit its role.

    Examples
    --------
    >>> import pandas as pd
    >>> from dshap.sources import from_pandas
    >>> houses = pd.DataFrame({"id": [7, 8], "rooms": [2.0, 3.0], "price": [200.0, 300.0]})
    >>> source = from_pandas(houses, key="id", target="price")
    >>> source.feature_names, source.key_names, source.target_names
    (('rooms',), ('id',), ('price',))
    """
    named = as_names(features) + as_names(key) + as_names(target)
    _refuse_index(frame, named)
    arrays = _arrow_columns(frame, named, is_all=features is None)
    for name in categories or {}:  # an all-missing column has no kind
        if name in arrays and arrays[name].null_count == len(frame):
            arrays[name] = pa.nulls(len(frame))
    fields = [
        # Arrow cannot store this column: as binary it gets no role, and `left_out` names it
        (name, arrays[name].type if name in arrays else pa.binary())
        for name in map(str, frame.columns)
    ]
    roles: dict[str, Any] = {"features": features, "target": target, "key": key, "missing": missing}
    layout = layout_of(pa.schema(fields), **roles, categories=categories, times=times)
    if len(frame) == 0:
        raise EmptyTableError("the frame has no rows")
    dtypes = {
        name: layout.kept_dtype(name, arrays[name].type, arrays[name].null_count > 0)
        for name in layout.features
    }
    builder = BlockBuilder(
        layout, 0, len(frame), keys=False, target=bool(layout.targets), dtypes=dtypes
    )
    builder.add(pa.record_batch({name: arrays[name] for name in layout.names(keys=False)}))
    block = builder.block()
    source = ArraySource(
        block.x,
        feature_names=layout.features,
        keys={name: arrays[name] for name in layout.key_dtypes},
        target=block.target,
        missing=missing,
        columns=block.columns,
        categories=layout.categories,
    )
    # the constructor knows neither the names of targets nor which features are flags or times
    source._layout = layout
    return source


def frame_of_arrow(data: Any) -> pd.DataFrame:
    """An object with Arrow's C stream or array protocol as a data frame of Arrow columns."""
    return pa.table(data).to_pandas(types_mapper=pd.ArrowDtype)


def _refuse_index(frame: Any, named: tuple[str, ...]) -> None:
    """Raise if one of the named columns is the index of the frame."""
    names = list(map(str, frame.columns))
    index = {str(level) for level in frame.index.names if level is not None}
    for name in named:
        if name in index and name not in names:
            raise InputError(
                f"{unknown_name('column', name, names)} {name!r} is the index, which is not read: "
                "call reset_index() "
                "on the frame to make it a column"
            )


def _arrow_columns(frame: Any, named: tuple[str, ...], is_all: bool) -> dict[str, pa.Array]:
    """The named columns as Arrow arrays; with `is_all` also all others that Arrow can store."""
    arrays = {}
    for position, name in enumerate(map(str, frame.columns)):
        if is_all or name in named:
            try:
                arrays[name] = arrow_array(frame.iloc[:, position], name, from_pandas=True)
            except InputError:
                if name in named:
                    raise
    return arrays
