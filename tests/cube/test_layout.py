"""What a cube looks like to a program that knows xarray and nothing of this package."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import xarray as xr
import zarr

from dshap.core.errors import StoreMismatchError
from dshap.cube import create_cube, create_store, read_job, read_run
from dshap.cube.creation import CONTAINER
from tests.cube.cubes import CHUNK, KEYS, N_ROWS, TILE, bytes_of, layout_of, make_cube, phi_of

EVERY_KEY = {"id": "int64", "name": "string", "at": "datetime64[ns]"}


@pytest.fixture
def cube(tmp_path):
    path = tmp_path / "cube.zarr"
    make_cube(path, keys=EVERY_KEY, columns={"a": "float32", "b": "int16"}, dtype="float32")
    return path


def test_dims_dtypes_and_fill_values(cube):
    group = zarr.open_group(cube, mode="r")
    expected = {
        "attribution": (("instance", "feature", "output"), "float32", np.nan),
        "prediction": (("instance", "output"), "float64", np.nan),
        "status": (("instance",), "int8", 0),
        "id": (("instance",), "int64", -1),  # 0 would look like a key
        "at": (("instance",), "int64", np.iinfo(np.int64).min),  # NaT
        "base_value": (("output",), "float64", np.nan),
        "rows/a": (("instance",), "float32", np.nan),
        "rows/b": (("instance",), "int16", 0),
        "blocks/attribution": (
            ("block", "replicate", "statistic", "feature", "output"),
            "float64",
            np.nan,
        ),
        "blocks/count": (("block",), "int64", 0),
    }
    for name, (dims, dtype, fill) in expected.items():
        array = group[name]
        assert array.metadata.dimension_names == dims, name
        assert array.dtype == dtype, name
        np.testing.assert_equal(array.fill_value, fill, err_msg=name)
    assert group["name"].fill_value == ""
    assert group["name"].dtype == np.dtypes.StringDType()
    assert group["attribution"].shape == (N_ROWS, 3, 2)


def test_a_shard_is_a_tile_in_every_array_along_instance(cube):
    """Two tasks in one shard would lose data without an error."""
    group = zarr.open_group(cube, mode="r")
    names = ("attribution", "prediction", "status", "id", "name", "at", "rows/a", "rows/b")
    for name in names:
        assert group[name].shards[0] == TILE, name
        assert group[name].chunks[0] == CHUNK, name
        assert group[name].shards[1:] == group[name].shape[1:], name


def test_attributes_are_cf(cube):
    group = zarr.open_group(cube, mode="r")
    assert group.attrs["Conventions"] == "CF-1.11"
    assert group.attrs["title"]
    for name, array in group.arrays():
        assert array.attrs["long_name"], name
    assert group["attribution"].attrs["units"] == group["base_value"].attrs["units"] == "kW"
    assert group["attribution"].attrs["ancillary_variables"] == "status"
    assert group["attribution"].attrs["coordinates"].split() == ["id", "name", "at"]
    assert group["status"].attrs["flag_values"] == [0, 1, 2, 3]
    assert group["status"].attrs["flag_meanings"] == "pending ok skipped failed"


def test_attributes_are_flat(cube):
    """Numbers, strings and lists of them; all else is one JSON string."""
    group = zarr.open_group(cube, mode="r")
    holders = [group, *(array for _, array in group.arrays())]
    for value in (value for holder in holders for value in dict(holder.attrs).values()):
        assert isinstance(value, str | int | float | list), value
    assert json.loads(group.attrs["dshap_run"]) == read_run(cube)


def test_xarray_reads_it_without_a_warning(cube):
    """And without a dimension coordinate for instance, which would be loaded whole on opening."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = xr.open_zarr(cube, consolidated=False)
        tree = xr.open_datatree(cube, engine="zarr", consolidated=False)
    for opened in (dataset, tree.to_dataset()):
        assert "instance" not in opened.coords
        assert "instance" not in opened.indexes
        assert list(opened.feature.values) == ["a", "b", "c"]
        assert list(opened.output.values) == [
            "y",
            "z",
        ]
        np.testing.assert_array_equal(
            opened.attribution.values, phi_of(layout_of()).astype("float32")
        )
        # CF says which they are
        assert {str(name) for name in opened.coords} >= {"id", "name", "at"}
        for name, kind in EVERY_KEY.items():
            assert (opened[name].values == KEYS[kind](N_ROWS)).all(), name
    assert set(tree.children) == {"blocks", "rows"}
    np.testing.assert_array_equal(tree["rows/b"].values, np.arange(N_ROWS))


def test_a_growing_cube_is_read_without_a_warning(tmp_path):
    """Pending rows are NaN with status pending and no key: fill values, also those of times."""
    path = tmp_path / "cube.zarr"
    make_cube(path, keys=EVERY_KEY, tiles=[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = xr.open_zarr(path, consolidated=False).load()
    done = np.arange(N_ROWS) // TILE == 1
    np.testing.assert_array_equal(dataset.status == 1, done)
    np.testing.assert_array_equal(np.isnan(dataset.attribution).all(("feature", "output")), ~done)
    assert (dataset["id"].values[~done] == -1).all()
    assert (dataset["name"].values[~done] == "").all()
    assert np.isnat(dataset["at"].values[~done]).all()
    assert not np.isnat(dataset["at"].values[done]).any()


def test_a_key_has_the_name_of_its_column(tmp_path):
    make_cube(tmp_path / "cube.zarr", keys={"anything": "int64"})
    assert "anything" in xr.open_zarr(tmp_path / "cube.zarr", consolidated=False).coords


def test_sibling_cubes_are_one_tree(tmp_path):
    store = tmp_path / "job.zarr"
    create_store(store, {"name": "two", "fingerprint": {}})
    before = bytes_of(store)
    create_store(store, {"name": "another"})
    assert bytes_of(store) == before
    assert read_job(store)["name"] == "two"
    for name in ("interventional", "observational"):
        make_cube(store / name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = xr.open_datatree(store, engine="zarr", consolidated=False)
    assert set(tree.children) == {"interventional", "observational"}
    assert tree["observational/attribution"].shape == (N_ROWS, 3, 2)


@pytest.mark.parametrize(
    "error",
    [OSError, ValueError, KeyboardInterrupt],
)
def test_a_cube_is_created_whole_or_not_at_all(tmp_path, monkeypatch, error):
    """The creation dies half-way: nothing stands under the cube's name, and no private folder is
    left."""
    path = tmp_path / "cube.zarr"

    def broken(*_, **__):
        raise error("disk full")

    monkeypatch.setattr(zarr.Group, "create_group", broken)
    with pytest.raises(error, match="disk full"):
        create_cube(path, layout_of())
    assert list(tmp_path.iterdir()) == []


def test_a_cube_that_appeared_meanwhile_is_left_alone(tmp_path):
    path = tmp_path / "cube.zarr"
    make_cube(path)
    before = bytes_of(path)
    with pytest.raises(StoreMismatchError, match="is another run using it"):
        create_cube(path, layout_of())
    assert bytes_of(path) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["cube.zarr"]


@pytest.mark.parametrize(
    "content", ["nothing", "empty folder", "a file", "another group", "text in it"]
)
def test_what_is_no_cube_records_no_run(tmp_path, content):
    path = tmp_path / "store"
    if content == "a file":
        path.write_text("hello")
    elif content != "nothing":
        path.mkdir()
    if content == "another group":
        zarr.open_group(path, mode="w", zarr_format=3)
    if content == "text in it":
        (path / "zarr.json").write_text("{")
    assert read_run(path) is None
    assert read_job(path) is None


def test_the_container_is_a_scalar_and_its_folder_holds_no_chunk(cube):
    array = zarr.open_array(cube / CONTAINER, mode="r")
    assert array.shape == ()
    assert not (cube / CONTAINER / "c").exists()
