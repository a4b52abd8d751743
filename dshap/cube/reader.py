"""Reading cubes: lazily, while they grow, and row by row."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.late import xr, zarr
from dshap.core.places import Place
from dshap.core.rules import as_place, checked
from dshap.cube.arrays import read_run
from dshap.cube.creation import CONTAINER
from dshap.cube.current import cube_at
from dshap.cube.layout import decoded, reading, refuse_foreign
from dshap.cube.metadata import block_rows
from dshap.cube.named_cubes import cubes_in
from dshap.cube.notes import read_notes
from dshap.cube.opening import Opening, packed_opening
from dshap.cube.reference_copy import receipts_of, refuse_altered
from dshap.cube.zarr_stores import stored_array, stored_dataset, stored_group
from dshap.storage.folder import Folder

MAX_INDEXED_ROWS = 10_000_000
"""The most rows of a cube whose key `open_cube` makes an index, which is in memory."""
ORDER = (
    "attribution",
    "std_error",
    "interaction",
    "reason_code_error",
    "reason_code_undone",
    "n_coalitions",
    "relative_error",
    "prediction",
    "status",
    "base_value",
    "learning_error",
    "length",
    "token",
)
"""The order of the variables of an opened cube; other variables follow."""
LEARNING_ERROR = "standard error of attributions by learning from a part of the rows"
ROW_PREFIX = "row_"
"""The beginning of a Dataset's variables that are explained columns."""


def empty_cube(players: Sequence[str], outputs: Sequence[str], scale: str) -> xr.Dataset:
    """A cube without instances: the result for a table without rows."""
    sizes = {"instance": 0, "feature": len(players), "output": len(outputs)}
    dims = {
        "attribution": ("instance", "feature", "output"),
        "prediction": ("instance", "output"),
        "base_value": ("instance", "output"),
    }
    arrays: dict[str, Any] = {
        name: (along, np.zeros([sizes[axis] for axis in along]), {"scale": scale})
        for name, along in dims.items()
    }
    arrays["status"] = (("instance",), np.zeros(0, np.int8))
    return xr.Dataset(arrays, {"feature": list(players), "output": list(outputs)})


def open_cube(store: str | Place, *, index: bool = False) -> xr.Dataset:
    """Open the attribution cube at `store` lazily: attributions are read when they are used.

    A cube can be opened while a run still writes it: rows of unfinished blocks are pending.

    Parameters
    ----------
    store : str, Path or BucketPath
        The path of a cube, such as "build/loans/reasons", or its address in a bucket.  A store of
        several explanations has a cube in each of its groups.  In the folder of an explanation with
        a cube for each run the current cube is opened.
    index : bool
        Whether to make the key an index, so that ``cube.sel(id=5)`` works for a key column "id",
        and ``cube.sel(shop=5, day="2012-08-09")`` for several key columns.  The index is in memory
        (10 million rows at most).

    Returns
    -------
    xarray.Dataset
        A Dataset along (instance, feature, output) with the variables `attribution`, `prediction`,
        `base_value` and `status`, and the stored explained columns as `row_COLUMN`.  Each key
        column is a coordinate of its name (with the prefix `key_` if the cube has a variable of
        that name).

    Raises
    ------
    InputError
        There is no cube at `store` (the message lists the groups that are cubes), or the store was
        made by another program.
    DamagedError
        Names, units or other metadata differ from those written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dshap
    >>> rows = np.arange(12.0).reshape(6, 2)
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] + x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     computed = dshap.explain(value, rows, store=f"{folder}/cube", progress=False)
    ...     cube = dshap.open_cube(f"{folder}/cube").load()
    >>> dict(cube.sizes)
    {'instance': 6, 'feature': 2, 'output': 1}
    """
    path = cube_at(as_place("store", store))
    (index,) = checked(index=index)
    opening = _opening_of(path)
    with reading(path):
        cube = _opened(path, opening, {"instance": opening.rows_at_once})
    if index:
        return _indexed(cube, _keys_of(cube))
    return cube


def read_cube(path: Place) -> xr.Dataset:
    """The cube at `path` in memory, as `open_cube` opens it lazily."""
    opening = _opening_of(path)
    with reading(path):
        return _opened(path, opening, None).load()


def _opening_of(path: Place) -> Opening:
    """The opening of the cube at `path`; raises the errors of `open_cube`."""
    packed = packed_opening(path)
    if packed is not None:
        return packed
    _refuse_unreadable(path)
    with reading(path):
        columns = [array.basename for array in kept_arrays(path).values()]
        tile = stored_array(path / "attribution").shards
        return Opening({}, read_notes(path), columns, tile[0] if tile else -1)


def _refuse_unreadable(path: Place) -> None:
    """Raise the errors of `open_cube` about the content of a place."""
    refuse_altered(path, with_plan=False)
    if read_run(path) is None:
        inside = [str(path / name) for name in cubes_in(path)]
        raise InputError(
            f"{path} contains no attribution cube"
            + (f"; open one of: {', '.join(inside)}" if inside else "")
        )
    refuse_foreign(path)


def _opened(path: Place, opening: Opening, chunks: dict[str, int] | None) -> xr.Dataset:
    """The cube at `path`, in lazy chunks; if `chunks` is None, without any."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification.*")
        cube = stored_dataset(path, chunks, opening.known).drop_vars(CONTAINER)
        if opening.columns:
            rows = stored_dataset(path / "rows", chunks, opening.known_of("rows"))
            cube = cube.assign({f"{ROW_PREFIX}{name}": rows[name] for name in opening.columns})
    keys = _keys_of(cube)
    # keys come last, in their given order
    ordered = [*sorted(str(name) for name in cube.coords if name not in keys), *keys]
    cube = cube.drop_vars(ordered).assign_coords({name: cube[name] for name in ordered})
    if "instance" not in cube["base_value"].dims:
        cube["base_value"] = cube["base_value"].load()
    cube = cube.assign(learning_error_in(opening.notes, cube["attribution"].attrs.get("units", "")))
    cube = cube[in_order([str(name) for name in cube.data_vars])]
    return cube.assign_attrs(
        {name: json.dumps(note, sort_keys=True) for name, note in opening.notes.items()}
    )


def _keys_of(cube: xr.Dataset) -> list[str]:
    """The variables of the key columns of an opened cube, in the order of the key."""
    return str(cube["attribution"].encoding.get("coordinates", "")).split()


def learning_error_in(notes: Mapping[str, Any], units: str) -> dict[str, xr.Variable]:
    """The variable `learning_error` (feature, output) of a cube with these notes, by its name; or none."""
    if "learning_error" not in notes:
        return {}
    errors = np.array(notes["learning_error"]["errors"])
    about = {"long_name": LEARNING_ERROR, "units": units}
    return {"learning_error": xr.Variable(("feature", "output"), errors, about)}


def in_order(names: Iterable[str]) -> list[str]:
    """The names of variables in the order of an opened cube."""
    return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


def _indexed(cube: xr.Dataset, keys: list[str]) -> xr.Dataset:
    if not keys:
        raise InputError("the cube has no key: give key= to explain, or select with isel")
    if cube.sizes["instance"] > MAX_INDEXED_ROWS:
        raise InputError(
            f"an index over {cube.sizes['instance']:,} rows is too large (at most "
            f"{MAX_INDEXED_ROWS:,}): "
            "select with isel"
        )
    return cube.set_xindex(keys if len(keys) > 1 else keys[0])


def written_at(path: Place) -> datetime | None:
    """The time at which the last block of a cube was finished; None if none is."""
    times = receipts_of(path).times()
    if not times:
        return None
    return datetime.fromtimestamp(max(times.values()), UTC)


def find_row(path: Place, key: Sequence[str | int]) -> int:
    """The position of the row with this key, which has one value for each key column.

    In a cube without keys the key is the position.  Keys are read shard by shard up to the row.

    Raises
    ------
    InputError
        There is no such row.
    """
    refuse_foreign(path)
    with reading(path):
        return _found(path, key)


def _found(path: Place, key: Sequence[str | int]) -> int:
    arrays = key_arrays(path)
    shown = ", ".join(map(str, key))
    if len(key) != (len(arrays) or 1):
        raise InputError(
            f"row {shown}: the key has {len(arrays)} columns ({', '.join(arrays)}), give one value "
            "each"
        )
    if not arrays:
        n_rows = stored_array(path / "status").shape[0]
        if not isinstance(key[0], int) or not 0 <= key[0] < n_rows:
            raise InputError(
                f"row {shown}: the cube has no key, give a position from 0 to {n_rows - 1}"
            )
        return key[0]
    n_rows = next(iter(arrays.values())).shape[0]
    step = block_rows(path)
    for start in range(0, n_rows, step):
        pairs = zip(arrays.values(), key, strict=True)
        is_it = [_plain(array, slice(start, start + step)) == str(value) for array, value in pairs]
        if len(found := np.flatnonzero(np.logical_and.reduce(is_it))):
            return start + int(found[0])
    raise InputError(
        f"no row has the key {shown} ({', '.join(arrays)}); a row that is still pending has no key"
    )


def row_key(path: Place, position: int) -> dict[str, str]:
    """key column -> the key of one row as text; empty for a cube without keys."""
    with reading(path):
        return {
            name: str(_plain(array, slice(position, position + 1))[0])
            for name, array in key_arrays(path).items()
        }


def kept_row(path: Place, position: int) -> dict[str, Any]:
    """column -> value of one row; empty if the cube does not store the explained columns."""
    with reading(path):
        return {name: _plain_value(array, position) for name, array in kept_arrays(path).items()}


def kept_arrays(path: Place) -> dict[str, zarr.Array[Any]]:
    """stored column -> its array; empty if the cube has none."""
    if not Folder(path).has_room("rows"):
        return {}
    rows = stored_group(path / "rows")
    return {str(array.attrs["long_name"]): array for _, array in rows.arrays()}


def key_names(path: Place) -> list[str]:
    """The variables of the key columns, in the order of the key."""
    return str(stored_array(path / "attribution").attrs.get("coordinates", "")).split()


def key_arrays(path: Place) -> dict[str, zarr.Array[Any]]:
    """key column -> its array, in the order of the key."""
    group = stored_group(path)
    arrays = [array for array in map(group.get, key_names(path)) if isinstance(array, zarr.Array)]
    # the long_name that `arrays` writes has the column in brackets
    return {str(array.attrs["long_name"])[len("key of the row (") : -1]: array for array in arrays}


def _plain(array: zarr.Array[Any], rows: slice) -> np.ndarray:
    """Keys as text (n,)."""
    return key_texts(decoded(np.asarray(array[rows]), array))


def key_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Keys as text (n,); times in ISO form, as a date alone if the time is midnight.

    Times have as many parts of a second as they need.
    """
    if values.dtype.kind == "M":
        whole = values.astype("datetime64[s]")
        texts = [time.removesuffix("T00:00:00") for time in np.datetime_as_string(whole).tolist()]
        for place in np.flatnonzero((whole != values) & ~np.isnat(values)).tolist():
            texts[place] = str(values[place]).rstrip("0")
        return np.array(texts, str)
    return np.array([str(value) for value in values])


def _plain_value(array: zarr.Array[Any], position: int) -> Any:
    """A stored value as a number or text; a time in ISO form, empty if it is missing."""
    values = decoded(np.asarray(array[position : position + 1]), array)
    value = values[0]
    if values.dtype.kind == "T":
        return str(value)
    if value.dtype.kind != "M":
        return value.item()
    text = "" if np.isnat(value) else str(value)
    return re.sub(r"(T00:00:00)?\.000000$", "", text)
