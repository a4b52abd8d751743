"""Single rows of a cube: where a key is, and what the row held."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from dshap.cube.foreign import reading, refuse_foreign
from dshap.errors import InputError

__all__ = ["find_row", "kept_row", "key_names", "row_key"]


def find_row(path: Path, key: Sequence[str | int]) -> int:
    """Position of the row with this key (one value a key column); of a cube without keys, the position itself.

    Reads the keys shard by shard up to the row.

    Raises
    ------
    InputError
        No such row.
    """
    refuse_foreign(path)
    with reading(path):
        return _found(path, key)


def _found(path: Path, key: Sequence[str | int]) -> int:
    arrays = _keys(path)
    shown = ", ".join(map(str, key))
    if len(key) != (len(arrays) or 1):
        raise InputError(f"row {shown}: the key has {len(arrays)} columns ({', '.join(arrays)}), give one value each")
    if not arrays:
        n_rows = zarr.open_array(path / "status", mode="r").shape[0]
        if not isinstance(key[0], int) or not 0 <= key[0] < n_rows:
            raise InputError(f"row {shown}: the cube has no key, give a position from 0 to {n_rows - 1}")
        return key[0]
    first = next(iter(arrays.values()))
    step = (first.shards or first.chunks)[0]
    for start in range(0, first.shape[0], step):
        pairs = zip(arrays.values(), key, strict=True)
        is_it = [_plain(array, slice(start, start + step)) == str(own) for array, own in pairs]
        if len(found := np.flatnonzero(np.logical_and.reduce(is_it))):
            return start + int(found[0])
    raise InputError(f"no row has the key {shown} ({', '.join(arrays)}); a row that is still pending has none")


def row_key(path: Path, position: int) -> dict[str, str]:
    """key column -> the key of one row; empty for a cube without keys."""
    with reading(path):
        return {name: str(_plain(array, slice(position, position + 1))[0]) for name, array in _keys(path).items()}


def kept_row(path: Path, position: int) -> dict[str, Any]:
    """column -> value of one row, where the cube keeps the explained columns."""
    if not (path / "rows").is_dir():
        return {}
    with reading(path):
        rows = zarr.open_group(path / "rows", mode="r")
        return {str(array.attrs["long_name"]): np.asarray(array[position])[()].item() for _, array in rows.arrays()}


def key_names(path: Path) -> list[str]:
    """Variables of the key columns, in the order that they were given in."""
    return str(zarr.open_array(path / "attribution", mode="r").attrs.get("coordinates", "")).split()


def _keys(path: Path) -> dict[str, zarr.Array[Any]]:
    """key column -> its array, in the order of the cube's keys."""
    group = zarr.open_group(path, mode="r")
    arrays = [array for array in map(group.get, key_names(path)) if isinstance(array, zarr.Array)]
    return {str(array.attrs["long_name"])[len("key of the row (") : -1]: array for array in arrays}


def _plain(array: zarr.Array[Any], rows: slice) -> np.ndarray:
    """Keys as text: whole numbers, text, times in ISO form (a date alone where the time is midnight)."""
    values = np.asarray(array[rows])
    if "calendar" in array.attrs:
        text = np.datetime_as_string(values.astype("datetime64[ns]"), unit="s")
        return np.array([own.removesuffix("T00:00:00") for own in text])
    return np.array([str(own) for own in values])
