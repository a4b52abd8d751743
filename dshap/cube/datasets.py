"""Cubes as Datasets, opened or in memory: their rows by the slice, and their global means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from dshap.core.duck_typing import has_member
from dshap.core.errors import InputError, shown
from dshap.core.records import FloatArray, Moments, tree_sum
from dshap.core.rules import as_path
from dshap.cube.arrays import read_run
from dshap.cube.blocks import CubeArrays
from dshap.cube.reader import feature_ranking, importance_table, open_cube
from dshap.cube.summary import bounded_sums

SLICE_BYTES = 8 << 20
"""About the most bytes of attributions that are read at once."""


def as_cube(given: Any) -> xr.Dataset:
    """The Dataset of a cube, which is given itself or by the path of its store.

    Raises
    ------
    InputError
        It is neither, or a Dataset without attributions.
    """
    if not has_member(given, "data_vars"):
        return open_cube(as_path("cube", given, "store"))
    if "attribution" not in given:
        raise InputError(
            f"cube is {shown(given)} without attributions: give that of dshap.explain or "
            "dshap.open_cube, or the path of a store"
        )
    cube: xr.Dataset = given
    return cube


def row_slices(cube: xr.Dataset) -> Iterator[slice]:
    """Slices of the rows of a cube, each of a few megabytes of attributions.

    Where a Dataset is read lazily they are whole blocks of it.
    """
    n_rows = cube.sizes["instance"]
    block = max(cube["attribution"].chunksizes.get("instance", (1,)))
    row_bytes = 8 * cube.sizes["feature"] * cube.sizes["output"]
    step = block * max(1, SLICE_BYTES // max(row_bytes * block, 1))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def attribution_of(cube: xr.Dataset, rows: slice, output: int) -> FloatArray:
    """Attributions (n, d) of these rows for one output; NaN where a row has none."""
    values = cube["attribution"].isel(instance=rows, output=output)
    return np.asarray(values.transpose("instance", "feature").values, np.float64)


def origin_of(cube: xr.Dataset) -> Path | None:
    """The store that a Dataset was opened from, whatever was done to it since; None without one."""
    source = cube.encoding.get("source")
    if source is None or read_run(Path(source)) is None:
        return None
    return Path(source)


def store_of(cube: xr.Dataset) -> Path | None:
    """The store whose attributions a Dataset has as they are; None where they may be others."""
    path = origin_of(cube)
    if path is None or not cube.chunksizes:
        return None
    stored = open_cube(path)["attribution"]
    # the name of a lazy array is a digest of what it is computed from
    if cube["attribution"].data.name != stored.data.name:
        return None
    return path


def global_means(cube: xr.Dataset) -> xr.Dataset:
    """Global importance of the features, as `feature_ranking` has it, of any Dataset.

    They come from the summaries of the blocks where the Dataset is that of a store.  Else its rows
    are added up, and `<name>_std_error` are upper bounds made of the rows' standard errors.
    """
    path = store_of(cube)
    if path is not None:
        return feature_ranking(path)
    total = tree_sum(_sums_of(cube, rows) for rows in row_slices(cube))
    count = int(total["count"])
    names = {dim: cube[dim].values for dim in ("feature", "output")}
    return importance_table(total["attribution"] / max(count, 1), names, count)


def _sums_of(cube: xr.Dataset, rows: slice) -> Moments:
    """The sums of a block's summary, over the rows of a Dataset that have attributions."""
    part = cube.isel(instance=rows)
    dims = ("instance", "feature", "output")
    phi = np.asarray(part["attribution"].transpose(*dims).values, np.float64)
    is_good = ~np.isnan(phi).all(axis=(1, 2))
    errors = None
    if "std_error" in part:
        errors = np.asarray(part["std_error"].transpose(*dims).values, np.float64)[is_good]
    sums = bounded_sums(np.nan_to_num(phi[is_good]), errors, 2)
    return Moments({"attribution": sums, "count": np.array(np.count_nonzero(is_good))})


def same_rows(cube: xr.Dataset, arrays: CubeArrays) -> bool:
    """Whether a Dataset has the rows of its store, in their order: the same predictions."""
    if cube.sizes["instance"] != arrays.n_rows or "prediction" not in cube:
        return False
    if store_of(cube) is not None:
        return True
    predicted = cube["prediction"]
    chosen = np.flatnonzero(np.isin(arrays.outputs, predicted["output"].values))
    return all(
        np.array_equal(
            predicted.isel(instance=rows).values.reshape(rows.stop - rows.start, -1),
            arrays.read("prediction", rows)[:, chosen],
            equal_nan=True,
        )
        for rows in row_slices(cube)
    )
