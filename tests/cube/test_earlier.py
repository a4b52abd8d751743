"""Cubes whose keys have the names of an earlier version: `key`, or `key_<column>` where there are
several."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from dshap.cube import find_row, kept_row, open_cube, row_key
from tests.cube.cubes import KEYS, N_ROWS, bytes_of, make_cube, phi_of


def edit(file: Path, change: Any) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def as_earlier(path: Path, names: dict[str, str]) -> None:
    """The cube at `path` as it was written then, column -> the array of its key; no copy, seal or
    list of members."""
    for column, name in names.items():
        (path / column).rename(path / name)
    edit(
        path / "attribution" / "zarr.json",
        lambda own: own["attributes"].update(coordinates=" ".join(names.values())),
    )
    for group in (path, path / "rows"):
        if (group / "zarr.json").exists():
            edit(group / "zarr.json", lambda own: own.pop("consolidated_metadata", None))
    shutil.rmtree(path / "state" / "created")
    for file in (path / "state").rglob("*/*.json"):
        edit(file, lambda own: own.pop("seal", None))


@pytest.fixture(params=["one key", "two keys"])
def earlier(request, tmp_path):
    """A cube, its layout, and column -> array of its keys."""
    names = {"id": "key"} if request.param == "one key" else {"id": "key_id", "name": "key_name"}
    kinds = {"id": "int64", "name": "string"}
    path = tmp_path / "cube.zarr"
    layout, _ = make_cube(
        path, keys={column: kinds[column] for column in names}, columns={"a": "float32"}
    )
    as_earlier(path, names)
    return path, layout, names


def test_keys_are_coordinates_under_their_names(earlier):
    path, layout, names = earlier
    before = bytes_of(path)
    cube = open_cube(path)
    found = {name for name in cube.coords if cube[name].dims == ("instance",)}
    assert found == set(names.values())  # in the order of the folder, which is the file system's
    assert [*cube.data_vars] == ["attribution", "prediction", "status", "base_value", "row_a"]
    assert cube[names["id"]].values.tolist() == KEYS["int64"](N_ROWS).tolist()
    plain = xr.open_zarr(path, consolidated=False)
    assert set(names.values()) <= set(plain.variables)
    np.testing.assert_array_equal(cube.attribution, phi_of(layout))
    assert bytes_of(path) == before


def test_rows_are_selected_by_them(earlier):
    path, layout, names = earlier
    wanted = {
        array: KEYS["int64" if column == "id" else "string"](N_ROWS)[13]
        for column, array in names.items()
    }
    cube = open_cube(path, index=True)
    row = cube.sel(
        {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in wanted.items()
        }
    )
    np.testing.assert_array_equal(np.squeeze(row.attribution.values), phi_of(layout)[13])
    key = row_key(path, 13)
    assert list(key) == list(names)  # the columns, not the arrays
    assert find_row(path, list(key.values())) == 13
    assert list(kept_row(path, 13)) == ["a"]
