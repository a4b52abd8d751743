"""Reading cubes: lazily, while they grow, and row by row."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import xarray as xr
import zarr
from numpy.typing import NDArray

from dshap.core.blocks import Status
from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.core.records import FloatArray
from dshap.core.rules import as_place, checked
from dshap.cube.arrays import read_job, read_run
from dshap.cube.creation import CONTAINER
from dshap.cube.current import cube_at, has_nights, names_of_cubes, night_at, runs_of
from dshap.cube.layout import decoded, reading, refuse_foreign
from dshap.cube.reference_copy import failures_of, has_copy, notes_of, receipts_of, refuse_altered
from dshap.cube.summary import (
    estimates,
    magnitude_deviations,
    named_means,
    share_of_coalitions,
)
from dshap.cube.writer import block_name
from dshap.cube.zarr_stores import stored_array, stored_dataset, stored_group
from dshap.storage.folder import Folder

MAX_TOLD = 1_000
"""Largest number of blocks with failed rows whose reasons a status reports."""
MAX_INDEXED_ROWS = 10_000_000
SHOWN_STORES = 4
"""The most stores in a folder that a message names."""
ORDER = (
    "attribution",
    "std_error",
    "interaction",
    "n_coalitions",
    "relative_error",
    "prediction",
    "status",
    "base_value",
    "length",
    "token",
)
"""The order of the variables of an opened cube; other variables follow."""
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
    """The attribution cube at `store`, opened lazily: attributions are read when they are used.

    Parameters
    ----------
    store : path of a cube, or of the folder of an explanation with a cube for each run, of which
        the current one is opened; a store of several explanations holds one in each of its groups
    index : make the key an index, so that ``cube.sel(id=5)`` works for a key column "id", with
        several key columns ``cube.sel(shop=5, day="2012-08-09")`` (up to 10 million rows)

    Returns
    -------
    xarray.Dataset
        dims (instance, feature, output); `attribution`, `prediction`, `base_value`, `status`, the
        explained columns that the store keeps, as `row_COLUMN`, and the key as a coordinate without
        an index, named after its column (`key_status` and the like where the cube has that name).

    Raises
    ------
    InputError
        There is no cube at `store` (the message lists the groups that are cubes), or the store was
        made by another program.
    DamagedError
        Names, units or other metadata are not what was written.
    """
    path = cube_at(as_place("store", store))
    (index,) = checked(index=index)
    refuse_altered(path, with_plan=False)
    if read_run(path) is None:
        inside = [str(path / name) for name in _cubes_in(path)]
        raise InputError(
            f"{path} holds no attribution cube"
            + (f"; open one of: {', '.join(inside)}" if inside else "")
        )
    refuse_foreign(path)
    with reading(path):
        cube = _opened(path)
    if index:
        return _indexed(cube, key_names(path))
    return cube


def _opened(path: Place) -> xr.Dataset:
    tile = stored_array(path / "attribution").shards
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification.*")
        cube = stored_dataset(path, {"instance": tile[0] if tile else -1})
    cube = _beside_columns(cube.drop_vars(CONTAINER), path)
    keys = key_names(path)
    # keys come last, in their given order
    ordered = [*sorted(str(name) for name in cube.coords if name not in keys), *keys]
    cube = cube.drop_vars(ordered).assign_coords({name: cube[name] for name in ordered})
    cube = cube[
        sorted(
            cube.data_vars, key=lambda name: ORDER.index(str(name)) if name in ORDER else len(ORDER)
        )
    ]
    if "instance" not in cube["base_value"].dims:
        cube["base_value"] = cube["base_value"].load()
    return cube.assign_attrs(
        {name: json.dumps(note, sort_keys=True) for name, note in read_notes(path).items()}
    )


def _beside_columns(cube: xr.Dataset, path: Place) -> xr.Dataset:
    """A cube with the explained columns that its store keeps, as lazy variables `row_COLUMN`."""
    kept = kept_arrays(path)
    if not kept:
        return cube
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification.*")
        rows = stored_dataset(path / "rows", {"instance": cube.chunksizes["instance"][0]})
    return cube.assign(
        {f"{ROW_PREFIX}{array.basename}": rows[array.basename] for array in kept.values()}
    )


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


def cube_paths(store: Place) -> list[Place]:
    """The paths of the cubes that are read at a store or directly below it."""
    return [*_cubes_in(store).values()]


def _cubes_in(store: Place, run_id: str = "") -> dict[str, Place]:
    """Name -> path of each cube that is read at a store or directly below it."""
    if read_run(store) is not None:
        return {store.name: cube_at(store, run_id)}
    if has_nights(store):
        return {store.name: night_at(store, run_id)}
    found = {}
    for name in names_of_cubes(store):
        place = store / name
        if has_nights(place):
            if not run_id or run_id in runs_of(place):
                found[name] = night_at(place, run_id)
        elif not run_id and read_run(place) is not None:
            found[name] = place
    return found


def named_cubes(store: Place, run_id: str = "") -> dict[str, Place]:
    """Name -> path of each cube of a store, which is one cube or holds several.

    Of an explanation with a cube for each run it is the current one, or that of `run_id`.

    Raises
    ------
    InputError
        There is no store, or it holds no cube; the message names stores inside the folder.
    DamagedError
        The pointer to the current cube names none that is there.
    """
    if not Folder(store).is_there():
        raise InputError(f"{store} does not exist: give the store of a run")
    paths = _cubes_in(store, run_id)
    if not paths and run_id:
        runs = sorted({run for name in Folder(store).list() for run in runs_of(store / name)})
        raise InputError(
            f"{store} holds no cube of the run {run_id!r}: give one of {', '.join(runs) or 'none'}"
        )
    if not paths and read_job(store) is not None:
        raise InputError(f"{store} holds no attribution cube yet: its job is not that far")
    if not paths:
        raise InputError(f"{store} holds no attribution cube: {_instead(store)}")
    return paths


def _instead(folder: Place) -> str:
    """Advice on what to give instead of a folder that is no store, such as stores inside it."""
    stores = [name for name in Folder(folder).list() if cube_paths(folder / name)]
    if not stores:
        return "give the store of a run"
    return f"give one of the stores in it, {', '.join(stores[:SHOWN_STORES])}{', …' * (len(stores) > SHOWN_STORES)}"


@dataclass(frozen=True)
class FailedRows:
    """The rows that failed for one reason."""

    rows: int
    first: str
    """The first of these rows, with its key."""
    reason: str


@dataclass(frozen=True)
class CubeStatus:
    """The progress of a cube: numbers of rows by status, and of finished blocks."""

    path: str
    n_rows: int
    ok: int
    skipped: int
    failed: int
    pending: int
    blocks_done: int
    n_blocks: int
    failures: tuple[FailedRows, ...] = ()
    """The reasons why rows failed, from the first blocks with such rows."""

    @property
    def is_complete(self) -> bool:
        return self.blocks_done == self.n_blocks


def cube_status(path: Place) -> CubeStatus:
    """Count the rows by status and the blocks with a receipt; reads one byte for each row."""
    refuse_foreign(path)
    with reading(path):
        return _status(path)


def _status(path: Place) -> CubeStatus:
    status = stored_array(path / "status")
    counts = np.zeros(len(Status.MEANINGS), dtype=np.int64)
    failed_blocks = list[int]()
    tile = (status.shards or status.chunks)[0]
    for start in range(0, status.shape[0], 64 * tile):
        found = np.asarray(status[start : start + 64 * tile])
        counts += np.bincount(found, minlength=len(counts))
        failed_blocks += np.unique(
            (start + np.flatnonzero(found == Status.FAILED)) // tile
        ).tolist()
    n_blocks = stored_array(path / "blocks" / "count").shape[0]
    done = sum(1 for _ in receipts_of(path).names())
    return CubeStatus(
        str(path),
        n_rows=status.shape[0],
        ok=int(counts[Status.OK]),
        skipped=int(counts[Status.SKIPPED]),
        failed=int(counts[Status.FAILED]),
        pending=int(counts[Status.PENDING]),
        blocks_done=done,
        n_blocks=n_blocks,
        failures=_failures(path, failed_blocks[:MAX_TOLD]),
    )


def _failures(path: Place, blocks: Sequence[int]) -> tuple[FailedRows, ...]:
    """The reasons why rows of these blocks failed; those that differ in numbers only are merged."""
    found: dict[str, FailedRows] = {}
    for name in map(block_name, blocks):
        folder = next(
            (each for each in (receipts_of(path), failures_of(path)) if each.is_whole(name)), None
        )
        for group in [] if folder is None else folder.get(name).get("failed", []):
            kind = re.sub(r"\d+", "#", group["reason"])
            before = found.get(kind, FailedRows(0, group["first"], group["reason"]))
            found[kind] = replace(before, rows=before.rows + group["rows"])
    return tuple(found.values())


def feature_ranking(path: Place) -> xr.Dataset:
    """Global importance of the features, from the summaries of the finished blocks.

    Gives `mean`, `mean_magnitude` and `mean_square` (feature, output) of the attributions, in
    milliseconds at any number of rows.  Each has a `<name>_std_error`, the error of sampling
    coalitions and of random draws.  All instances share the coalitions and the draws, so this error
    comes from the statistics of the jackknife groups and does not fall with the number of instances;
    it is 0 where all coalitions are evaluated and nothing is drawn.  The upward bias of |φ̂| and φ̂²
    by sampled coalitions is subtracted (`dshap.cube.summary.estimates`): a player without effect has
    about 0.  Nothing is subtracted for draws (`dshap.cube.summary`).  `root_mean_square` has
    no error of its own: take the square roots of the ends of the interval of `mean_square`.
    `residual` (output) is the largest |Σφ + base value − prediction| of a row.
    """
    return feature_importance(path).assign(residual=("output", largest_residual(path)))


def feature_importance(path: Place) -> xr.Dataset:
    """The table of `feature_ranking` without `residual`, which costs one more read of each block."""
    refuse_foreign(path)
    with reading(path):
        means, count = _block_means(path)
        names = {dim: np.asarray(stored_array(path / dim)[:]) for dim in ("feature", "output")}
        scale = str(stored_array(path / "attribution").attrs.get("scale", ""))
    return importance_table(means, names, count, scale)


def _block_means(path: Place) -> tuple[FloatArray, int]:
    """Means (1 + R, statistic, feature, output) over the finished rows, and their number."""
    blocks = stored_dataset(path / "blocks", None)
    blocks = blocks[["attribution", "count"]]
    chosen = blocks.isel(block=_finished(path, blocks.sizes["block"])).load()
    count = int(chosen["count"].sum())
    return chosen["attribution"].sum("block", skipna=False).values / max(count, 1), count


def stored_deviations(path: Place) -> FloatArray:
    """(R, feature, output): what sampled coalitions do to mean |φ|, from the summaries of the blocks.

    The squares add up to the square of `mean_magnitude_std_error` of `feature_ranking`.
    """
    with reading(path):
        means, _ = _block_means(path)
    return magnitude_deviations(named_means(means))


def stored_share(path: Place) -> FloatArray:
    """(feature, output): `share_of_coalitions`, from the summaries of the finished blocks."""
    with reading(path):
        means, _ = _block_means(path)
    return share_of_coalitions(named_means(means))


def importance_table(
    means: FloatArray, names: Mapping[str, NDArray[Any]], count: int, scale: str
) -> xr.Dataset:
    """The table of `feature_ranking`, from means (replicate, statistic, feature, output).

    Its attributes are the number of rows, `rows`, and the scale of the attributions, `scale`.
    """
    found = estimates(named_means(means))
    dims = ("feature", "output")
    out = xr.Dataset({name: (dims, estimate.value) for name, estimate in found.items()})
    out = out.assign(
        {f"{name}_std_error": (dims, estimate.std_error) for name, estimate in found.items()}
    )
    out = out.assign(root_mean_square=np.sqrt(out["mean_square"]))
    return out.assign_coords(names).assign_attrs(rows=count, scale=scale)


def largest_residual(path: Place) -> FloatArray:
    """(output,): the largest |Σφ + base value − prediction| over the rows of the finished blocks.

    NaN if no block is finished.
    """
    with reading(path):
        residual = np.asarray(stored_array(path / "blocks" / "residual")[:], float)
        finished = _finished(path, len(residual))
    if len(finished):
        return residual[finished].max(axis=0)
    return np.full(residual.shape[1], np.nan)


def _finished(path: Place, n_blocks: int) -> NDArray[np.intp]:
    """The indices of the blocks that have a receipt."""
    names = set(receipts_of(path).names())
    return np.flatnonzero([block_name(block) in names for block in range(n_blocks)])


def written_at(path: Place) -> datetime | None:
    """The time at which the last block of a cube was finished; None where none is."""
    times = receipts_of(path).folder.times()
    if not times:
        return None
    return datetime.fromtimestamp(max(times.values()), UTC)


def read_notes(path: Place) -> dict[str, Any]:
    """name -> a record that the run wrote beside its values.

    The names are "closed_form", "base_value", "pilot", "background", "carried",
    "rounds", "counted", "additivity" and "mse_v".
    """
    notes = notes_of(path)
    found = {}  # notes of earlier versions have no seal
    for name in notes.names():
        content, fault = notes.looked_at(name)
        if content is None or (fault and has_copy(path)):
            warnings.warn(
                f"note {name} of {path} is damaged and left out: dshap verify --repair",
                stacklevel=2,
            )
        else:
            found[name] = content
    return found


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
    first = next(iter(arrays.values()))
    step = (first.shards or first.chunks)[0]
    for start in range(0, first.shape[0], step):
        pairs = zip(arrays.values(), key, strict=True)
        is_it = [_plain(array, slice(start, start + step)) == str(value) for array, value in pairs]
        if len(found := np.flatnonzero(np.logical_and.reduce(is_it))):
            return start + int(found[0])
    raise InputError(
        f"no row has the key {shown} ({', '.join(arrays)}); a row that is still pending has none"
    )


def row_key(path: Place, position: int) -> dict[str, str]:
    """key column -> the key of one row as text; empty for a cube without keys."""
    with reading(path):
        return {
            name: str(_plain(array, slice(position, position + 1))[0])
            for name, array in key_arrays(path).items()
        }


def kept_row(path: Place, position: int) -> dict[str, Any]:
    """column -> value of one row; empty if the cube does not keep the explained columns."""
    with reading(path):
        return {name: _plain_value(array, position) for name, array in kept_arrays(path).items()}


def kept_arrays(path: Place) -> dict[str, zarr.Array[Any]]:
    """kept column -> its array; empty if the cube keeps none."""
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
    return {str(array.attrs["long_name"])[len("key of the row (") : -1]: array for array in arrays}


def _plain(array: zarr.Array[Any], rows: slice) -> np.ndarray:
    """Keys as text (n,)."""
    return key_texts(decoded(np.asarray(array[rows]), array))


def key_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Keys as text (n,); times in ISO form, as a date alone where the time is midnight.

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
    """A kept value as a number or text; a time in ISO form, empty where it is missing."""
    values = decoded(np.asarray(array[position : position + 1]), array)
    value = values[0]
    if values.dtype.kind == "T":
        return str(value)
    if value.dtype.kind != "M":
        return value.item()
    text = "" if np.isnat(value) else str(value)
    return re.sub(r"(T00:00:00)?\.000000$", "", text)
