"""The attribution cube as Zarr arrays, created whole or not at all, and the records of a store."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import Status
from dshap.core.errors import StoreMismatchError
from dshap.core.late import zarr
from dshap.core.places import Place
from dshap.core.scales import MEANINGS
from dshap.cube.array_groups import ArrayGroup, NewArray, ZarrGroup
from dshap.cube.creation import CONTAINER, creation_at, is_free
from dshap.cube.layout import TEXT, TIME_UNITS, CubeLayout, flag_attributes
from dshap.cube.reference_copy import PLAN, has_copy, keep_copy, renew_copy, states_of, whole_copy
from dshap.cube.summary import STATISTICS
from dshap.storage.folder import Folder

RUN = "dshap_run"
JOB = "dshap_job"
"""The attributes that describe a run (`RUN`) or a job of several runs (`JOB`), as JSON strings."""
RUNS = "runs"
"""The room of the records of a job's runs, in its store."""
ROOMS_OF_RUNS = ("keys", "parts", "prepared", RUNS)
"""The folders in the store of a job without a cube: see `dshap.history.run_folders`."""
RUN_TIME = re.compile(r"\d{8}T\d{6}Z")
"""The form of the names in the folder `runs`: times in UTC."""
NAT = np.iinfo(np.int64).min
"""The integer that represents a missing time."""
KEY_FILL: Mapping[str, Any] = {"int64": -1, "string": "", "datetime64[ns]": NAT}


def create_cube(path: Place, layout: CubeLayout, plan: str | None = None) -> None:
    """Create the cube at `path`, with its plan, complete metadata and every row pending.

    It is built in a private folder and then renamed, so that it is never half there.
    """
    path = Folder(path).true_place()
    try:
        _created(path, lambda private: _create(private, layout, plan), _put_whole)
    except OSError as error:
        if Folder(path).is_there():
            raise StoreMismatchError(
                f"{path} appeared while it was being created: is another run using it?"
            ) from error
        raise


def renew_cube(path: Place, layout: CubeLayout, plan: str) -> None:
    """Make the reference copy of a cube's created files again, and restore those that differ.

    Blocks stay as they are.
    """
    _created(
        path,
        lambda private: _create(private, layout, plan),
        lambda private, path: renew_copy(path, private),
    )


def _created(
    path: Place, create: Callable[[Path], None], put: Callable[[Path, Place], None]
) -> None:
    """Create a store with its reference copy in a private folder, then `put` it at `path`.

    Private folders of a killed creation are removed.
    """
    with creation_at(path).making() as private:
        create(private)
        keep_copy(private)
        put(private, path)


def _put_whole(private: Path, path: Place) -> None:
    """Put a store that was made in a private folder at its place, so that it is never half there.

    Raises
    ------
    OSError
        A store is there already.
    """
    creation_at(path).put_whole(private)


def _create(path: Path, layout: CubeLayout, plan: str | None) -> None:
    _create_arrays(path, layout)
    if plan is not None:
        Folder(path).put_new(PLAN, plan.encode())


def _create_arrays(path: Path, layout: CubeLayout) -> None:
    lay_out(ZarrGroup(zarr.open_group(path, mode="w-", zarr_format=3)), layout)
    if layout.columns:
        _keep_order(path / "rows", layout.row_variables.values())


def lay_out(root: ArrayGroup, layout: CubeLayout) -> None:
    """Create all arrays of a cube in a group, every row pending."""
    root.describe(
        {
            "Conventions": "CF-1.11",
            "title": "Shapley attributions",
            "source": "dshap",
            RUN: json.dumps(layout.run, sort_keys=True),
        }
    )
    _per_row(
        root,
        layout,
        "attribution",
        layout.dtype,
        np.nan,
        ("feature", "output"),
        long_name="Shapley value of each feature for each output",
        **_measure(layout),
        scale_meaning=MEANINGS[layout.scale],
        link=layout.link,
        ancillary_variables="status std_error" if layout.n_replicates else "status",
        coordinates=" ".join(layout.key_variables.values()),
    )
    if layout.n_replicates:
        _per_row(
            root,
            layout,
            "std_error",
            layout.dtype,
            np.nan,
            ("feature", "output"),
            long_name=f"standard error of the attribution, from {layout.n_replicates} jackknife groups",
            **_measure(layout),
            ancillary_variables="status",
        )
    if layout.has_interactions:
        _per_row(
            root,
            layout,
            "interaction",
            layout.dtype,
            np.nan,
            ("feature", "feature_other", "output"),
            long_name="half the Shapley interaction index of two features, main effect of one on the diagonal",
            **_measure(layout),
            ancillary_variables="status",
            unknown_error=layout.interaction_errors,
        )
        _names(root, "feature_other", layout.players, "the other player of an interaction")
    if layout.codes:
        _codes(root, layout)
    if layout.is_adaptive:
        _per_row(
            root,
            layout,
            "n_coalitions",
            "int32",
            0,
            (),
            long_name="coalitions evaluated for this row",
            ancillary_variables="status",
        )
        _per_row(
            root,
            layout,
            "relative_error",
            "float64",
            np.nan,
            ("output",),
            long_name="largest standard error over the range of the attributions",
            ancillary_variables="status",
        )
    _per_row(
        root,
        layout,
        "prediction",
        "float64",
        np.nan,
        ("output",),
        long_name="model output: base value plus the sum of attributions",
        **_measure(layout),
        link=layout.link,
        ancillary_variables="status",
    )
    if layout.classes:
        _per_row(
            root,
            layout,
            "explained_class",
            "int16",
            -1,
            (),
            long_name="class that this row is explained for",
            flag_values=list(range(len(layout.classes))),
            ancillary_variables="status",
            flag_meanings=" ".join(re.sub(r"\s+", "_", name) for name in layout.classes),
        )
    _per_row(
        root,
        layout,
        "status",
        "int8",
        Status.PENDING,
        (),
        long_name="how the explanation of this row ended",
        flag_values=list(range(len(Status.MEANINGS))),
        flag_meanings=" ".join(Status.MEANINGS),
    )
    if layout.vocabulary is not None:
        _text(root, layout, TEXT if layout.vocabulary.words else "int64")
    for column, kind in layout.keys.items():
        _key(root, layout, layout.key_variables[column], column, kind)
    _names(root, "feature", layout.players, "player: a column or a group of columns")
    _names(root, "output", layout.outputs, "output")
    base: dict[str, Any] = {
        "long_name": "value of the empty coalition: mean over the background",
        **_measure(layout),
    }
    if layout.is_base_by_row:
        _per_row(root, layout, "base_value", "float64", np.nan, ("output",), **base)
    else:
        _small(root, "base_value", np.full(len(layout.outputs), np.nan), ("output",), **base)
    _container(root)
    _blocks(root, layout)
    if layout.columns:
        rows = root.inner("rows", {"title": "the explained columns, as they were read"})
        for column, name in layout.columns.items():
            _column(
                rows,
                layout,
                layout.row_variables[column],
                name,
                _column_fill(name),
                long_name=column,
                **flag_attributes(column, layout.flags),
            )


def _codes(root: ArrayGroup, layout: CubeLayout) -> None:
    """Create the arrays of the codes: errors of their differences, and values without each."""
    _names(root, "reason_code", layout.codes, "code: several players under one name")
    if layout.has_code_errors:
        _names(root, "reason_code_other", layout.codes, "the other code of a difference")
        _per_row(
            root,
            layout,
            "reason_code_error",
            layout.dtype,
            np.nan,
            ("reason_code", "reason_code_other", "output"),
            long_name="standard error of the difference of two codes, on the diagonal of one code, "
            f"from {layout.n_replicates} jackknife groups",
            **_measure(layout),
            ancillary_variables="status",
        )
    if layout.undoes_codes:
        _per_row(
            root,
            layout,
            "reason_code_undone",
            layout.dtype,
            np.nan,
            ("reason_code", "output"),
            long_name="prediction less the value of the coalition without the players of the code",
            **_measure(layout),
            ancillary_variables="status",
        )


def _measure(layout: CubeLayout) -> dict[str, str]:
    """The attributes of arrays of attributions: the units, and the scale."""
    return {"units": layout.units, "scale": layout.scale}


def _text(root: ArrayGroup, layout: CubeLayout, dtype: str) -> None:
    """Create the arrays that only a cube of texts has: lengths and tokens."""
    _per_row(
        root,
        layout,
        "length",
        "int32",
        0,
        (),
        long_name="tokens of this text: positions beyond have none",
    )
    _per_row(
        root,
        layout,
        "token",
        dtype,
        "" if dtype == TEXT else -1,
        ("feature",),
        long_name="token at each position of this text",
    )


def _keep_order(group: Place, names: Iterable[str]) -> None:
    """Write consolidated metadata of a group that list its arrays in this order.

    A reader that lists the folder instead gets the order of the file system.
    """
    folder = Folder(group)
    document = json.loads(folder.get("zarr.json") or b"")
    members = {name: json.loads(folder.get(f"{name}/zarr.json") or b"") for name in names}
    document["consolidated_metadata"] = {
        "kind": "inline",
        "must_understand": False,
        "metadata": members,
    }
    folder.replace("zarr.json", json.dumps(document).encode())


def _array(
    group: ArrayGroup,
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    dims: tuple[str, ...],
    chunks: tuple[int, ...],
    fill: Any,
    shards: tuple[int, ...] | None = None,
    separator: Literal["/", "."] = ".",
    values: NDArray[Any] | None = None,
    **attributes: Any,
) -> None:
    """Create an array of the cube; empty attributes are left out."""
    kept = {key: value for key, value in attributes.items() if value != ""}
    new = NewArray(shape, dtype, dims, chunks, fill, shards, separator, kept, values)
    group.create(name, new)


def _per_row(
    group: ArrayGroup,
    layout: CubeLayout,
    name: str,
    dtype: Any,
    fill: Any,
    dims: tuple[str, ...],
    **attributes: Any,
) -> None:
    """Create an array along `instance`, with one shard for each tile."""
    sizes = {
        "feature": len(layout.players),
        "feature_other": len(layout.players),
        "output": len(layout.outputs),
        "reason_code": len(layout.codes),
        "reason_code_other": len(layout.codes),
    }
    tail = tuple(sizes[dim] for dim in dims)
    _array(
        group,
        name,
        (layout.n_rows, *tail),
        dtype,
        ("instance", *dims),
        (layout.chunk, *tail),
        fill,
        (layout.tile, *tail),
        **attributes,
    )


def _key(group: ArrayGroup, layout: CubeLayout, name: str, column: str, kind: str) -> None:
    _column(group, layout, name, kind, KEY_FILL[kind], long_name=f"key of the row ({column})")


def _column(
    group: ArrayGroup, layout: CubeLayout, name: str, kind: str, fill: Any, **attributes: Any
) -> None:
    """Create the array of a column; times become integers with attributes of the CF conventions."""
    if kind in TIME_UNITS:
        attributes |= {
            "units": f"{TIME_UNITS[kind]} since 1970-01-01",
            "calendar": "proleptic_gregorian",
            "_FillValue": NAT,
        }
        kind = "int64"
    _per_row(group, layout, name, kind, fill, (), **attributes)


def _column_fill(kind: str) -> Any:
    """The fill value of a stored column, for rows that are not written yet."""
    if kind == TEXT:
        return ""
    if kind in TIME_UNITS:
        return NAT
    if np.dtype(kind).kind == "f":
        return np.nan
    return np.dtype(kind).type(0)


def _container(root: ArrayGroup) -> None:
    _small(
        root,
        CONTAINER,
        np.array(0, np.int8),
        (),
        long_name="container of the run's receipts, plan and prepared states; no data",
    )


def _small(
    group: ArrayGroup, name: str, values: np.ndarray, dims: tuple[str, ...], **attributes: Any
) -> None:
    """Create an array of one chunk, and write its values."""
    dtype = "string" if values.dtype.kind == "T" else values.dtype
    if values.dtype.kind == "f":
        fill = np.nan
    else:
        fill = None
    _array(
        group,
        name,
        values.shape,
        dtype,
        dims,
        values.shape or (),
        fill,
        # packing takes arrays with "." for those with a file for each block
        separator="/",
        values=values if values.shape else None,
        **attributes,
    )


def _names(group: ArrayGroup, name: str, names: Iterable[str], long_name: str) -> None:
    """Create the array of the names along a dimension."""
    _small(
        group,
        name,
        np.array(list(names), dtype=np.dtypes.StringDType()),
        (name,),
        long_name=long_name,
    )


def _blocks(root: ArrayGroup, layout: CubeLayout) -> None:
    """Create the arrays of block summaries, one chunk for each block.

    A global ranking reads these and no attribution.
    """
    blocks = root.inner("blocks", {"title": "sums over each finished block of rows"})
    n = layout.n_blocks
    d = len(layout.players)
    k = len(layout.outputs)
    sums = (1 + layout.n_replicates, len(STATISTICS), d, k)
    _array(
        blocks,
        "attribution",
        (n, *sums),
        "float64",
        ("block", "replicate", "statistic", "feature", "output"),
        (1, *sums),
        np.nan,
        long_name="sums of the attributions of the good rows of a block: of the estimate "
        "(replicate 0), and with each jackknife group left out",
    )
    _array(blocks, "count", (n,), "int64", ("block",), (1,), 0, long_name="good rows of a block")
    largest = "largest |sum of attributions + base value - prediction| of a block"
    _array(
        blocks,
        "residual",
        (n, k),
        "float64",
        ("block", "output"),
        (1, k),
        np.nan,
        long_name=largest,
        units=layout.units,
        scale=layout.scale,
    )
    _names(blocks, "statistic", STATISTICS, "what is summed")


def create_store(path: Place, job: Mapping[str, Any]) -> None:
    """Create the root group of a job's store; its cubes are groups inside it.

    A store that is there and whole is left as it is.
    """

    def create(private: Path) -> None:
        root = zarr.open_group(private, mode="w-", zarr_format=3)
        root.attrs.update(
            {"title": "Shapley attributions, one group for each explanation", "source": "dshap"}
        )
        root.attrs[JOB] = json.dumps(job, sort_keys=True)
        _container(ZarrGroup(root))

    if read_job(path) is not None:
        if not has_copy(path):
            _created(path, create, lambda private, path: renew_copy(path, private))
        return
    # cubes and records of runs stay as they are: only the documents of the root are made again
    if lost_its_metadata(path) or holds_runs_alone(path):
        _created(path, create, lambda private, path: renew_copy(path, private))
        return
    if not is_free(path):
        raise StoreMismatchError(f"{path} exists and is not a store of dshap: choose another store")
    _created(path, create, _put_whole)


def holds_runs_alone(path: Place) -> bool:
    """Whether a job has begun here: there is a record of a run, and rows that it read, at most."""
    rooms = set(Folder(path).list())
    return RUNS in rooms and rooms <= set(ROOMS_OF_RUNS)


def lost_its_metadata(path: Place) -> bool:
    """Whether this is a job's store that lost its own metadata.

    It is, if the copy of its first metadata names a job.  If that is lost too, it is one
    if it contains whole states, or records of runs, and cubes of dshap, and nothing else.
    """
    return read_job(path) is None and _was_job_store(path)


def _was_job_store(path: Place) -> bool:
    """Whether the rest of a store without its metadata belongs to a job."""
    names = set(Folder(path).list())
    if not names & {CONTAINER, "runs"}:
        return False
    created = whole_copy(path)
    if created is not None:
        return _names_a_job(created.get("zarr.json", b""))
    states = states_of(path)
    has_runs = any(map(RUN_TIME.fullmatch, Folder(path / "runs").list()))
    if not has_runs and not any(map(states.is_whole, states.names())):
        return False
    others = names - {CONTAINER, "zarr.json", *ROOMS_OF_RUNS}
    return all(_holds_cubes(path / name) for name in others)


def _names_a_job(metadata: bytes) -> bool:
    """Whether the metadata of a group belong to a job's store."""
    try:
        return JOB in json.loads(metadata)["attributes"]
    except (ValueError, KeyError, TypeError):
        return False


def _holds_cubes(path: Place) -> bool:
    """Whether this is a cube, or the folder of an explanation with a cube for each run."""
    places = (path, *(path / name for name in Folder(path).list()))
    return any(read_run(place) is not None for place in places)


def is_job_store(path: Place) -> bool:
    """Whether this is the store of a job, even if it lost its own metadata."""
    return read_job(path) is not None or _was_job_store(path)


def is_cube_or_job(path: Place) -> bool:
    """Whether this is a cube, or the store of a job, even if that lost its own metadata."""
    return is_described(path) or _was_job_store(path)


def is_described(path: Place) -> bool:
    """Whether the root document at `path` records a run or a job."""
    attributes = _attributes_of(path)
    return any(_described(attributes, attribute) is not None for attribute in (RUN, JOB))


def read_job(path: Place) -> dict[str, Any] | None:
    """The job that a store records, or None if `path` is not the store of a job."""
    return _described(_attributes_of(path), JOB)


def read_run(path: Place) -> dict[str, Any] | None:
    """The run that a cube records, or None if `path` is not a cube of dshap."""
    return _described(_attributes_of(path), RUN)


def _attributes_of(path: Place) -> Any:
    """The attributes of the group at `path`; none if its document cannot be read."""
    try:
        return json.loads(Folder(path).get("zarr.json") or b"")["attributes"]
    except (OSError, KeyError, ValueError, TypeError):
        return {}


def _described(attributes: Any, name: str) -> dict[str, Any] | None:
    """The record in an attribute; None if it is missing or no record."""
    try:
        content = json.loads(str(attributes[name]))
    except (KeyError, ValueError, TypeError):
        return None
    if isinstance(content, dict):
        return content
    return None
