"""The explained columns beside a cube: put into its Dataset, and read from their place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.column_dictionary import ColumnDictionary
from dshap.core.duck_typing import has_columns, has_member, shape_of
from dshap.core.errors import InputError, shown
from dshap.core.late import pd, xr
from dshap.core.places import Place
from dshap.cube.blocks import CubeArrays
from dshap.cube.datasets import origin_of, rows_of, same_rows, stored_arrays
from dshap.cube.layout import FLAG_MEANINGS, flag_attributes, variable_names
from dshap.cube.reader import ROW_PREFIX

ReadColumn = Callable[[slice], NDArray[Any]]
"""The function that returns the values of a column in a slice of the cube's rows."""
TIMES = frozenset({"date", "datetime", "datetime64"})
"""The kinds of objects that represent times, in the words of pandas."""


@dataclass(frozen=True, eq=False)
class Columns(Mapping[str, ReadColumn]):
    """The columns of the rows of a cube, by their names."""

    readers: Mapping[str, ReadColumn]
    store: Place | None = None
    """The path of the cube that they were stored with; None for those of a Dataset, or given."""
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Column -> its categories in their order, where they have one."""

    def __getitem__(self, name: str) -> ReadColumn:
        return self.readers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.readers)

    def __len__(self) -> int:
        return len(self.readers)


def column_variables(
    columns: Mapping[str, NDArray[Any]],
    orders: Mapping[str, Sequence[str]],
    flags: Collection[str] = (),
) -> dict[str, xr.Variable]:
    """The variables `row_COLUMN` of explained columns with the values (n,).

    Texts are str, NaN if they are missing; `long_name` is the column's name as it was, `order`
    its categories in their order.  Columns in `flags` have 0 and 1 for False and True.
    """
    names = variable_names(columns)
    variables = {}
    for column, values in columns.items():
        attributes = {"long_name": column, **flag_attributes(column, flags)}
        if column in orders:
            attributes["order"] = list(orders[column])
        # an array of numpy as it is: to look at others, xarray imports dask.array
        variables[f"{ROW_PREFIX}{names[column]}"] = xr.Variable(
            ("instance",), _with_str(values), attributes, fastpath=True
        )
    return variables


def flags_of(cube: xr.Dataset) -> frozenset[str]:
    """The columns of a cube whose numbers 0 and 1 are False and True."""
    held = (cube[name].attrs for name in cube.data_vars if str(name).startswith(ROW_PREFIX))
    return frozenset(str(about.get("long_name")) for about in held if FLAG_MEANINGS in about)


def category_orders(rows: Any) -> dict[str, list[str]]:
    """Column -> its categories in their order, of a data frame with ordered categories."""
    if not has_columns(rows) or has_member(rows, "column_names"):
        return {}
    return _orders({str(name): rows[name] for name in rows.columns})


def _orders(columns: Mapping[str, Any]) -> dict[str, list[str]]:
    """Column -> its categories in their order, of columns of ordered categories."""
    types = {name: getattr(values, "dtype", None) for name, values in columns.items()}
    return {
        name: [str(each) for each in dtype.categories]
        for name, dtype in types.items()
        if dtype is not None and getattr(dtype, "ordered", False)
    }


def _with_str(values: NDArray[Any]) -> NDArray[Any]:
    """Texts as objects, equal ones the same: xarray has no missing value for numpy's own texts."""
    if values.dtype.kind not in "TO":
        return values
    codes, texts = pd.factorize(values.astype(object))
    # a cube stores a missing text as an empty one
    texts[texts == ""] = None
    found: NDArray[Any] = texts[codes]
    found[codes < 0] = None
    return found


def columns_of(cube: Any, rows: Any = None) -> Columns:
    """The columns of the rows of a cube: those given, else those that it was stored with.

    Categories have the order of the cube's dictionary of columns, else that of the data frame.

    Parameters
    ----------
    cube : the Dataset
    rows : data frame, table, or array (n, columns), in the order of the cube's rows

    Raises
    ------
    InputError
        The rows are not as many as the cube's; or the cube's are in another order than its store.
    """
    found = _read(cube, rows)
    described = ColumnDictionary.of_attributes(cube.attrs)
    orders = {name: entry.order for name, entry in described.items() if entry.order}
    return replace(found, orders={**found.orders, **orders})


def _read(cube: Any, rows: Any) -> Columns:
    if rows is not None:
        return _given(cube, rows)
    held = [str(name) for name in cube.data_vars if str(name).startswith(ROW_PREFIX)]
    if held:
        return _held(cube, held)
    path = origin_of(cube)
    if path is None:
        return Columns({})
    arrays = CubeArrays(path)
    if arrays.columns and not same_rows(cube, arrays):
        raise InputError(
            f"the Dataset has other rows than {path}, from which it was opened: give rows=, the "
            "columns of these rows in their order"
        )
    return Columns({name: partial(_of_store, arrays, name) for name in arrays.columns}, path)


def _held(cube: Any, names: Sequence[str]) -> Columns:
    """The columns that are variables of a Dataset, from their store if they are its own."""
    stores = {getattr(stored_arrays(cube, name), "path", None) for name in names}
    store = None
    if len(stores) == 1:
        (store,) = stores
    readers: dict[str, ReadColumn] = {}
    orders = {}
    for name in names:
        attributes = cube[name].attrs
        column = str(attributes.get("long_name", name.removeprefix(ROW_PREFIX)))
        readers[column] = partial(rows_of, cube, name)
        if "order" in attributes:
            orders[column] = attributes["order"]
    return Columns(readers, store, orders)


def _of_store(arrays: CubeArrays, name: str, rows: slice) -> NDArray[Any]:
    return arrays.rows({name: arrays.columns[name]}, rows)[name]


def _given(cube: Any, rows: Any) -> Columns:
    """The columns of rows in memory."""
    if has_member(rows, "column_names"):
        names = [str(name) for name in rows.column_names]
        # numpy's own arrays of Arrow's dictionaries have other texts if one is missing
        values = [rows[name].to_pandas() for name in names]
    elif has_columns(rows):
        names = [str(name) for name in rows.columns]
        values = [rows[name] for name in rows.columns]
    else:
        names = [str(name) for name in cube["feature"].values]
        values = []
        if len(shape_of(rows)) == 2:
            values = list(np.asarray(rows).T)
        if len(values) != len(names):
            raise InputError(
                f"rows is {shown(rows)}: give a data frame or a table, or an array with a column "
                f"for each of the {len(names)} features"
            )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"rows has more than one column {twice!r}: name each column once")
    arrays = [_as_array(each) for each in values]
    n_rows = cube.sizes["instance"]
    if arrays and len(arrays[0]) != n_rows:
        raise InputError(
            f"rows has {len(arrays[0]):,} rows and the cube {n_rows:,}: give the rows of the cube, "
            "in its order"
        )
    return Columns(
        {name: array.__getitem__ for name, array in zip(names, arrays, strict=True)},
        orders=_orders(dict(zip(names, values, strict=True))),
    )


def _as_array(values: Any) -> NDArray[Any]:
    """The values of a column; days, and times of any zone, as times in UTC."""
    array = np.asarray(values)
    if array.dtype.kind == "O" and pd.api.types.infer_dtype(array, skipna=True) in TIMES:
        return pd.to_datetime(array, utc=True).tz_localize(None).to_numpy()
    return array
