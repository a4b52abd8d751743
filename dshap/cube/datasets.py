"""Cubes as Datasets, opened or in memory: their rows by the slice, and their global means."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import Status
from dshap.core.duck_typing import has_member
from dshap.core.errors import InputError, shown
from dshap.core.late import xr
from dshap.core.places import Place, place_of
from dshap.core.records import BoolArray, FloatArray, Moments, tree_sum
from dshap.core.rules import as_place
from dshap.cube.arrays import read_run
from dshap.cube.blocks import CubeArrays
from dshap.cube.erased_note import ERASED, erased_rows, is_filled
from dshap.cube.importance import Importance, feature_ranking, stored_deviations, stored_share
from dshap.cube.reader import (
    ROW_PREFIX,
    key_texts,
    open_cube,
    read_cube,
)
from dshap.cube.summary import bounded_sums
from dshap.storage.folder import Folder

KEY_OF_ROW = "key of the row ("
"""The beginning of the long name of a key, before the name of its column."""
SHARE = "share_of_coalitions"
"""The attribute of `std_error` in a cube in memory that notes its `coalition_share`."""
AXES = {
    "attribution": {"instance", "feature", "output"},
    "prediction": {"instance", "output"},
    "status": {"instance"},
}
"""Variable -> its axes, in any order."""
SLICE_BYTES = 8 << 20
"""About the most bytes of attributions that are read at once."""


def as_cube(given: Any) -> xr.Dataset:
    """The Dataset of a cube, which is given itself or by the path of its store.

    Raises
    ------
    InputError
        It is neither, or a Dataset without attributions, or that lost an axis.
    """
    is_dataset = has_member(given, "data_vars")
    if has_member(given, "shape") or (is_dataset and "attribution" not in given):
        raise InputError(
            f"cube is {shown(given)} without attributions: give the result of dshap.explain "
            "or dshap.open_cube, or the path of a store"
        )
    if not is_dataset:
        return open_cube(as_place("cube", given))
    cube: xr.Dataset = given
    for name, axes in AXES.items():
        if name in cube and set(cube[name].dims) != axes:
            raise InputError(
                f"cube has {name} along {_listed(cube[name].dims)} instead of "
                f"{_listed(sorted(axes))}: choose rows by cube.isel(instance=[...]) and outputs by "
                'cube.sel(output=["..."]), which keep all axes'
            )
    return cube


def _listed(axes: Iterable[Any]) -> str:
    """The names of axes in words."""
    return ", ".join(map(str, axes)) or "no axis"


def row_slices(cube: xr.Dataset, name: str = "attribution") -> Iterator[slice]:
    """Slices of the rows of a cube, each of a few megabytes of the variable `name`.

    If a Dataset is read lazily they are whole blocks of it.
    """
    n_rows = cube.sizes["instance"]
    block = max(cube[name].chunksizes.get("instance", (1,)))
    row_bytes = 8 * math.prod(cube[name].sizes.values()) // max(n_rows, 1)
    step = block * max(1, SLICE_BYTES // max(row_bytes * block, 1))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def attribution_of(cube: xr.Dataset, rows: slice, output: int) -> FloatArray:
    """Attributions (n, d) of these rows for one output; NaN if a row has none."""
    return variable_of(cube, "attribution", rows, output)


def variable_of(cube: xr.Dataset, name: str, rows: slice, output: int) -> FloatArray:
    """The values (n, d, …) of a variable along instance, feature and output, for one output."""
    arrays = stored_arrays(cube, name)
    if arrays is not None:
        return np.asarray(arrays.read_rows(name, rows)[..., output], np.float64)
    values = cube[name].isel(instance=rows, output=output)
    return np.asarray(values.transpose("instance", "feature", ...).values, np.float64)


def status_of(cube: xr.Dataset, rows: slice) -> NDArray[np.int8]:
    """How the explanation of these rows ended (n,), a number of `Status` each."""
    return rows_of(cube, "status", rows)


def are_erased(cube: xr.Dataset, rows: slice) -> BoolArray:
    """(n,): whether each of these rows was erased: skipped, and its key is the fill value.

    Of a Dataset that is as its store has it, the note of the store lists the rows.
    """
    if ERASED not in cube.attrs:
        return np.zeros(len(range(*rows.indices(cube.sizes["instance"]))), bool)
    path = store_of(cube)
    if path is not None:
        erased = np.zeros(cube.sizes["instance"], bool)
        erased[erased_rows(path)] = True
        return erased[rows]
    found = status_of(cube, rows) == Status.SKIPPED
    names = key_coordinates(cube)
    for name in names:
        found &= is_filled(np.asarray(cube[name].isel(instance=rows).values))
    return found & bool(names)


def rows_of(cube: xr.Dataset, name: str, rows: slice) -> NDArray[Any]:
    """The values of a variable in these rows, its axes in the order of the cube."""
    arrays = stored_arrays(cube, name)
    if arrays is not None and name.startswith(ROW_PREFIX):
        return arrays.read_rows(f"rows/{name.removeprefix(ROW_PREFIX)}", rows)
    if arrays is not None:
        return arrays.read_rows(name, rows)
    order = ("instance", "feature", "feature_other", "output")
    axes = [axis for axis in order if axis in cube[name].dims]
    return np.asarray(cube[name].isel(instance=rows).transpose(*axes).values)


def key_coordinates(cube: xr.Dataset) -> list[str]:
    """The coordinates of the rows' keys, in the order of the key if the Dataset records it."""
    names = [str(name) for name in cube.coords if cube[name].dims == ("instance",)]
    order = str(cube["attribution"].encoding.get("coordinates", "")).split()
    return sorted(names, key=lambda name: order.index(name) if name in order else len(order))


def key_column(variable: xr.DataArray) -> str:
    """The key column of a coordinate, by the name that it had in the table."""
    told = str(variable.attrs.get("long_name", ""))
    if told.startswith(KEY_OF_ROW):
        return told[len(KEY_OF_ROW) : -1]
    return str(variable.name)


def key_text(value: Any) -> str:
    """A part of a key as text, as `key_texts`."""
    return str(key_texts(np.array([value]))[0])


def key_words(key: Mapping[str, str]) -> str:
    """The key of a row in words: "17", or "shop=5 day=2012-08-09" for several columns."""
    if len(key) == 1:
        return next(iter(key.values()))
    return " ".join(f"{name}={value}" for name, value in key.items())


def origin_of(cube: xr.Dataset) -> Place | None:
    """The store that a Dataset was opened from, also after operations on it; None without one."""
    source = cube.encoding.get("source")
    if source is None or read_run(place_of(source)) is None:
        return None
    return place_of(source)


def store_of(cube: xr.Dataset) -> Place | None:
    """The store whose attributions a Dataset has as they are; None if they may be others."""
    arrays = stored_arrays(cube, "attribution")
    if arrays is None:
        return None
    return arrays.path


def stored_arrays(cube: xr.Dataset, name: str) -> CubeArrays | None:
    """The arrays of the store whose variable `name` a Dataset has as it is; None without any."""
    source = cube.encoding.get("source")
    if not source or not cube[name].chunks:
        return None
    path = place_of(source)
    version = Folder(path).version("zarr.json")
    if version is None:
        return None
    arrays, names = _stored(path, version)
    # the name of a lazy array is a digest of what it is computed from
    if cube[name].data.name != names.get(name):
        return None
    return arrays


@lru_cache(maxsize=8)
def _stored(path: Place, version: str) -> tuple[CubeArrays | None, Mapping[str, str]]:
    """The arrays of a store, and the names of its lazy ones; `version` identifies their state.

    There are none if `path` is not a cube of this program.
    """
    if read_run(path) is None:
        return None, {}
    cube = open_cube(path)
    return CubeArrays(path), {
        str(name): each.data.name for name, each in cube.variables.items() if each.chunks
    }


def global_means(cube: xr.Dataset) -> xr.Dataset:
    """Global importance of the features, as `feature_ranking` has it, of any Dataset.

    They come from the summaries of the blocks if the Dataset is that of a store.  Else its rows
    are added up, and `<name>_std_error` are upper bounds made of the rows' standard errors.
    """
    path = store_of(cube)
    if path is not None:
        return feature_ranking(path)
    slices = [*row_slices(cube)] or [slice(0, 0)]
    share = coalition_share(cube)
    total = tree_sum(_sums_of(cube, rows, share) for rows in slices)
    count = int(total["count"])
    features, outputs = (names_along(cube, dim) for dim in ("feature", "output"))
    scale = str(cube["attribution"].attrs.get("scale", ""))
    means = total["attribution"] / max(count, 1)
    return Importance.of(means, features, outputs, count, scale).dataset()


def names_along(cube: Any, dim: str) -> list[str]:
    """The names of the features or outputs of a cube, a row or a table of means."""
    return [str(name) for name in cube[dim].values]


def coalition_share(cube: xr.Dataset) -> FloatArray:
    """(feature, output): the share of the sampled coalitions in the variance of `std_error`.

    The rest is that of random draws.  It comes from the store of a Dataset, or from the notes of
    `loaded`: by name, and by position if features or outputs have other names.  It is 1 if
    neither has it.
    """
    found = _noted_share(cube)
    if found is None:
        return np.ones((cube.sizes["feature"], cube.sizes["output"]))
    named = [names_along(cube, dim) for dim in ("feature", "output")]
    is_renamed = not all(
        set(own) <= set(found[dim].values) for own, dim in zip(named, found.dims, strict=True)
    )
    if is_renamed and found.shape == tuple(map(len, named)):
        return np.asarray(found.values)
    return np.asarray(found.reindex(feature=named[0], output=named[1], fill_value=1.0).values)


def _noted_share(cube: xr.Dataset) -> xr.DataArray | None:
    """The share (feature, output) that the store of a Dataset, or `loaded`, contains."""
    path = origin_of(cube)
    if path is not None:
        return _named_share(open_cube(path), stored_share(path))
    if "std_error" not in cube or SHARE not in cube["std_error"].attrs:
        return None
    return xr.DataArray.from_dict(json.loads(cube["std_error"].attrs[SHARE]))


def _named_share(cube: xr.Dataset, share: FloatArray) -> xr.DataArray:
    """The share (d, k) of the sampled coalitions, with the names of features and outputs."""
    names = {dim: names_along(cube, dim) for dim in ("feature", "output")}
    return xr.DataArray(share, names, tuple(names))


def loaded(path: Place) -> xr.Dataset:
    """A cube in memory, without its store; if its errors have a part of draws, it notes how much."""
    cube = read_cube(path)
    if "std_error" in cube:
        note_share(cube, stored_share(path))
    return cube


def note_share(cube: xr.Dataset, share: FloatArray) -> None:
    """Note in the attributes of a cube in memory how much of its errors is not of draws, (d, k)."""
    if (share < 1).any():
        cube["std_error"].attrs[SHARE] = json.dumps(_named_share(cube, share).to_dict())


def _sums_of(cube: xr.Dataset, rows: slice, share: FloatArray) -> Moments:
    """The sums of a block's summary, over the rows of a Dataset that have attributions."""
    dims = ("instance", "feature", "output")
    part = cube[[name for name in ("attribution", "std_error") if name in cube]].isel(instance=rows)
    phi = np.asarray(part["attribution"].transpose(*dims).values, np.float64)
    is_good = ~np.isnan(phi).all(axis=(1, 2))
    errors = None
    if "std_error" in part:
        errors = np.asarray(part["std_error"].transpose(*dims).values, np.float64)[is_good]
    sums = bounded_sums(np.nan_to_num(phi[is_good]), errors, 2, share=share)
    return Moments({"attribution": sums, "count": np.array(np.count_nonzero(is_good))})


def magnitude_errors(cube: xr.Dataset) -> FloatArray:
    """(R, d, k): the changes of the mean |φ| of `global_means` by sampled coalitions, R at least 0.

    The squares add up to squared standard errors.  They come from the jackknife groups if the
    Dataset is that of a store; else each feature has an error of its own, an upper bound.
    """
    path = store_of(cube)
    if path is not None:
        return stored_deviations(path)
    if "std_error" not in cube:
        return np.zeros((0, cube.sizes["feature"], cube.sizes["output"]))
    errors = global_means(cube)["mean_magnitude_std_error"].values  # (d, k)
    return np.eye(len(errors))[:, :, None] * errors


def same_rows(cube: xr.Dataset, arrays: CubeArrays) -> bool:
    """Whether a Dataset has the rows of its store, in their order: the same keys and predictions."""
    if cube.sizes["instance"] != arrays.n_rows or "prediction" not in cube:
        return False
    if store_of(cube) is not None:
        return True
    if not _has_same_keys(cube, arrays):
        return False
    predicted = cube["prediction"]
    chosen = np.flatnonzero(np.isin(arrays.outputs, predicted["output"].values))
    return all(
        np.array_equal(
            predicted.isel(instance=rows).values.reshape(rows.stop - rows.start, -1),
            arrays.read_rows("prediction", rows)[:, chosen],
            equal_nan=True,
        )
        for rows in row_slices(cube)
    )


def _has_same_keys(cube: xr.Dataset, arrays: CubeArrays) -> bool:
    """Whether the keys of a Dataset are still equal to the keys in its store, row by row."""
    held = {key_column(cube[name]): name for name in key_coordinates(cube)}
    known = {column: array for column, array in arrays.keys.items() if column in held}
    for rows in row_slices(cube):
        for column, stored in arrays.rows(known, rows).items():
            values = cube[held[column]].isel(instance=rows).values
            if not np.array_equal(values.astype(stored.dtype), stored):
                return False
    return True


def row_position(cube: xr.Dataset, key: Any) -> int:
    """The position of the row with this key, or the position itself in a cube without keys.

    Raises
    ------
    InputError
        There is none; the message names the keys before and after it in their order.
    """
    given = np.atleast_1d(np.array(key, object))
    names = key_coordinates(cube)
    if len(given) != (len(names) or 1):
        raise InputError(
            f"key {key}: the cube has {len(names)} key columns ({', '.join(names)}), give a value "
            "for each"
        )
    if not names:
        n_rows = cube.sizes["instance"]
        if given[0] not in range(n_rows):
            raise InputError(
                f"key {key}: the cube has no key, give a position from 0 to {n_rows - 1}"
            )
        return int(given[0])
    before: list[Any] = []
    after: list[Any] = []
    for rows in row_slices(cube):
        values = [cube[name].isel(instance=rows).values for name in names]
        wanted = [_as_key(each, array, key) for each, array in zip(given, values, strict=True)]
        is_it = np.logical_and.reduce([a == b for a, b in zip(values, wanted, strict=True)])
        if is_it.any():
            return int(rows.start + is_it.argmax())
        ordered = np.unique(values[0])
        place = np.searchsorted(ordered, wanted[0])
        before += [*ordered[:place][-1:]]
        after += [*ordered[place:][:1]]
    near = [str(each) for each in [*sorted(before)[-1:], *sorted(after)[:1]]]
    said = f"near it are {' and '.join(near)}"
    if len(near) == 1:
        said = f"the nearest is {near[0]}"
    raise InputError(f"no row has the key {key} ({', '.join(names)}): {said}")


def _as_key(value: Any, array: np.ndarray, key: Any) -> Any:
    """A part of a key in the type of its column; texts stay as long as they are."""
    if array.dtype.kind in "OTU":
        return str(value)
    try:
        given = np.array(value)
        if given.dtype.kind == "f" and array.dtype.kind in "iu" and int(value) != value:
            raise ValueError
        return given.astype(array.dtype)[()]
    except (OverflowError, TypeError, ValueError):
        raise InputError(
            f"key {key}: {value!r} is not of type {array.dtype}, the type of the key column"
        ) from None
