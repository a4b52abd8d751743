"""Opening, counting, ranking, checking."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import numpy as np
import pytest
import zarr

from dshap.core.errors import InputError
from dshap.cube import (
    cube_paths,
    cube_status,
    feature_ranking,
    find_row,
    kept_row,
    open_cube,
    row_key,
    verify_cube,
)
from dshap.cube.reader import key_texts
from dshap.storage.sealed_files import ReceiptFolder
from tests.cube.cubes import CHUNK, KEYS, N_ROWS, TILE, bytes_of, make_cube, phi_of

FLIPPED = {"attribution": (13, 1, 0), "prediction": (13, 1), "status": (13,)}


def test_open_cube_is_lazy_and_set_up(tmp_path):
    make_cube(tmp_path / "cube.zarr")
    before = bytes_of(tmp_path)
    cube = open_cube(tmp_path / "cube.zarr")
    assert dict(cube.sizes) == {"instance": N_ROWS, "feature": 3, "output": 2}
    assert cube.attribution.chunks[0] == (TILE, TILE, N_ROWS - 2 * TILE)  # a shard is read once
    assert set(cube.indexes) == {"feature", "output"}
    assert "id" in cube.coords
    assert set(cube.data_vars) == {"attribution", "prediction", "base_value", "status"}
    sums = cube.attribution.sum("feature") + cube.base_value
    # roundings of numbers of 1
    np.testing.assert_allclose(sums.values, cube.prediction.values, rtol=0, atol=1e-14)
    assert bytes_of(tmp_path) == before


@pytest.mark.parametrize("kind", KEYS)
def test_index_selects_by_key(tmp_path, kind):
    layout, _ = make_cube(tmp_path / "cube.zarr", keys={"id": kind})
    cube = open_cube(tmp_path / "cube.zarr", index=True)
    row = cube.sel(id=KEYS[kind](N_ROWS)[13])
    np.testing.assert_array_equal(np.squeeze(row.attribution.values), phi_of(layout)[13])


def test_index_of_several_keys(tmp_path):
    layout, _ = make_cube(tmp_path / "cube.zarr", keys={"id": "int64", "name": "string"})
    cube = open_cube(tmp_path / "cube.zarr", index=True)
    row = cube.sel(id=int(KEYS["int64"](N_ROWS)[4]), name=str(KEYS["string"](N_ROWS)[4]))
    np.testing.assert_array_equal(np.squeeze(row.attribution.values), phi_of(layout)[4])


def test_index_without_a_key_says_what_to_do(tmp_path):
    make_cube(tmp_path / "cube.zarr", keys={})
    with pytest.raises(InputError, match="no key: give key= to explain, or select with isel"):
        open_cube(tmp_path / "cube.zarr", index=True)


@pytest.mark.parametrize("content", ["nothing", "a file", "a folder", "another group"])
def test_a_store_that_is_none_is_refused(tmp_path, content):
    path = tmp_path / "store"
    if content == "a file":
        path.write_text("hello")
    elif content == "a folder":
        path.mkdir()
    elif content == "another group":
        zarr.open_group(path, mode="w", zarr_format=3)
    with pytest.raises(InputError, match="contains no attribution cube"):
        open_cube(path)


def test_a_store_of_several_names_them(tmp_path):
    for name in ("observational", "interventional"):
        make_cube(tmp_path / name)
    with pytest.raises(InputError, match=r"open one of: .*interventional, .*observational"):
        open_cube(tmp_path)
    assert [path.name for path in cube_paths(tmp_path)] == ["interventional", "observational"]
    assert cube_paths(tmp_path / "interventional") == [tmp_path / "interventional"]
    assert cube_paths(tmp_path / "nothing") == []


def test_status_counts(tmp_path):
    _, writer = make_cube(tmp_path / "cube.zarr", tiles=[0], skipped=(2,))
    writer.mark_failed(2, 2 * TILE, N_ROWS, "no memory")
    status = cube_status(writer.path)
    assert (status.n_rows, status.ok, status.skipped, status.failed, status.pending) == (
        21,
        7,
        1,
        5,
        8,
    )
    assert (status.blocks_done, status.n_blocks, status.is_complete) == (1, 3, False)
    make_cube(tmp_path / "whole.zarr")
    assert cube_status(tmp_path / "whole.zarr").is_complete


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("skipped", [(), (0, 5)])
def test_summaries_are_the_sums_of_the_attributions(tmp_path, skipped, dtype):
    """To rounding of sums of eight numbers; those of a float32 cube are of the float64
    attributions."""
    layout, writer = make_cube(tmp_path / "cube.zarr", skipped=skipped, dtype=dtype)
    blocks = zarr.open_group(writer.path / "blocks", mode="r")
    phi = phi_of(layout, skipped)
    for tile in range(layout.n_blocks):
        own = phi[tile * TILE : (tile + 1) * TILE]
        own = own[~np.isnan(own[:, 0, 0])]
        magnitude = abs(own).sum(axis=0)
        nothing = np.zeros_like(magnitude)
        expected = [own.sum(axis=0), magnitude, (own**2).sum(axis=0), magnitude, nothing, nothing]
        np.testing.assert_allclose(blocks["attribution"][tile, 0], expected, rtol=1e-14, atol=1e-14)
        assert blocks["count"][tile] == len(own)


def test_ranking_is_that_of_the_attributions(tmp_path):
    layout, writer = make_cube(tmp_path / "cube.zarr", skipped=(1,))
    ranking, phi = feature_ranking(writer.path), phi_of(layout, (1,))
    np.testing.assert_allclose(ranking["mean"], np.nanmean(phi, axis=0), atol=1e-14)
    np.testing.assert_allclose(ranking.mean_magnitude, np.nanmean(abs(phi), axis=0), atol=1e-14)
    np.testing.assert_allclose(
        ranking.root_mean_square, np.sqrt(np.nanmean(phi**2, axis=0)), atol=1e-14
    )
    assert list(ranking.feature.values) == ["a", "b", "c"]
    assert ranking.attrs["rows"] == 18


def test_ranking_ignores_blocks_without_a_receipt(tmp_path):
    """Their summary may be half-written by a task that was killed."""
    layout, writer = make_cube(tmp_path / "cube.zarr")
    (writer.path / "state" / "receipts" / "block-00000001.json").unlink()
    blocks = zarr.open_group(writer.path / "blocks", mode="r+")
    blocks["attribution"][1], blocks["count"][1] = 1e9, 1_000
    phi = phi_of(layout)[np.arange(N_ROWS) // TILE != 1]
    ranking = feature_ranking(writer.path)
    np.testing.assert_allclose(ranking.mean_magnitude, abs(phi).mean(axis=0), atol=1e-14)
    assert ranking.attrs["rows"] == len(phi)


def test_ranking_of_a_cube_that_has_not_begun(tmp_path):
    make_cube(tmp_path / "cube.zarr", tiles=[])
    assert float(feature_ranking(tmp_path / "cube.zarr").mean_magnitude.max()) == 0.0


def test_verify_finds_nothing_in_a_good_cube(tmp_path):
    make_cube(tmp_path / "cube.zarr", skipped=(3,), dtype="float32")
    assert verify_cube(tmp_path / "cube.zarr") == []


@pytest.mark.parametrize("name", FLIPPED)
def test_verify_finds_a_flipped_value(tmp_path, name):
    """One value of row 13, by its smallest bit where it is a float."""
    make_cube(tmp_path / "cube.zarr")
    array = zarr.open_array(tmp_path / "cube.zarr" / name, mode="r+")
    value = array[FLIPPED[name]]
    array[FLIPPED[name]] = 2 if name == "status" else np.nextafter(value, np.inf)
    (found,) = verify_cube(tmp_path / "cube.zarr")
    assert str(found) == f"block 1 (rows 8 to 15): stored values changed ({name})"


def test_verify_finds_a_receipt_of_another_run(tmp_path):
    make_cube(tmp_path / "cube.zarr")
    receipts = ReceiptFolder(tmp_path / "cube.zarr" / "state" / "receipts")
    content = receipts.get("block-00000002")
    receipts.remove("block-00000002")
    receipts.put("block-00000002", {**content, "fingerprint": "d2"})
    (found,) = verify_cube(tmp_path / "cube.zarr")
    assert str(found) == "block 2: its receipt belongs to a different run"


def test_verify_finds_a_lost_shard(tmp_path):
    make_cube(tmp_path / "cube.zarr")
    (tmp_path / "cube.zarr" / "attribution" / "c.1.0.0").unlink()
    (found,) = verify_cube(tmp_path / "cube.zarr")
    assert str(found) == "block 1 (rows 8 to 15): stored values changed (attribution)"


@pytest.mark.parametrize("kind", KEYS)
def test_find_row_by_key(tmp_path, kind):
    make_cube(tmp_path / "cube.zarr", keys={"id": kind}, columns={"a": "float64"})
    path, key = tmp_path / "cube.zarr", KEYS[kind](N_ROWS)[17]
    shown = str(key.astype("datetime64[s]")) if kind == "datetime64[ns]" else str(key)
    assert find_row(path, [shown]) == 17
    assert row_key(path, 17) == {"id": shown}
    assert kept_row(path, 17) == {"a": 17.0}
    with pytest.raises(InputError, match="no row has the key"):
        find_row(path, ["nobody"])


def test_find_row_of_two_keys_and_of_none(tmp_path):
    make_cube(tmp_path / "two.zarr", keys={"id": "int64", "name": "string"})
    with pytest.raises(InputError, match=r"the key has 2 columns \(id, name\)"):
        find_row(tmp_path / "two.zarr", [5])
    assert (
        find_row(
            tmp_path / "two.zarr", [str(KEYS["int64"](N_ROWS)[9]), str(KEYS["string"](N_ROWS)[9])]
        )
        == 9
    )
    make_cube(tmp_path / "none.zarr", keys={})
    assert find_row(tmp_path / "none.zarr", [7]) == 7
    assert row_key(tmp_path / "none.zarr", 7) == {}
    with pytest.raises(InputError, match="give a position from 0 to 20"):
        find_row(tmp_path / "none.zarr", [21])


def test_find_row_of_keys_with_blanks_in_their_names(tmp_path):
    make_cube(tmp_path / "cube.zarr", keys={"customer id": "int64", "name": "string"})
    key = [str(KEYS["int64"](N_ROWS)[9]), str(KEYS["string"](N_ROWS)[9])]
    assert find_row(tmp_path / "cube.zarr", key) == 9


def test_chunks_of_the_cube_are_read_alone(tmp_path):
    """A few rows cost an inner chunk, not the shard."""
    make_cube(tmp_path / "cube.zarr")
    assert (
        zarr.open_array(tmp_path / "cube.zarr" / "attribution", mode="r").chunks[0] == CHUNK < TILE
    )


ORDERS = """
import sys, xarray as xr
from dshap.cube import open_cube
cube = open_cube(sys.argv[1], index=True)
row = cube.sel(shop=5, day="zeile-ü0-雪", at="2024-02-28T23:00")
rows = xr.open_zarr(sys.argv[1], group="rows")
print(list(cube.coords), list(cube.data_vars), list(rows.data_vars), row.attribution.values.ravel().tolist())
"""


@pytest.mark.slow
def test_keys_and_kept_columns_keep_their_order_in_every_process(tmp_path):
    """Names of a folder come in the order of their hashes, which differ from process to process."""
    keys = {"shop": "int64", "day": "string", "at": "datetime64[ns]"}
    columns = dict.fromkeys(("z", "a", "q", "hr", "b", "m"), "float32")
    path = tmp_path / "cube.zarr"
    make_cube(path, keys=keys, columns=columns)
    said = set()
    for seed in ("1", "2"):
        made = subprocess.run(
            [sys.executable, "-c", ORDERS, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        said.add(made.stdout)
    assert len(said) == 1
    coords, _, kept, _ = said.pop().replace("] [", "]|[").split("|")
    assert [name for name in ast.literal_eval(coords) if name in keys] == list(keys)
    assert ast.literal_eval(kept) == list(columns)


def test_a_key_named_like_a_variable_of_the_cube_is_told_apart(tmp_path):
    make_cube(
        tmp_path / "cube.zarr", keys={"status": "int64", "key": "string", "instance": "int64"}
    )
    cube = open_cube(tmp_path / "cube.zarr", index=True)
    assert [str(name) for name in cube.coords if cube[name].dims == ("instance",) and name != "instance"] == [
        "key_status", "key", "instance_",
    ]  # fmt: skip
    assert cube.status.dtype == np.int8


def test_times_of_keys_that_differ_have_texts_that_differ():
    times = np.array(
        ["2020-01-01", "2020-01-01T00:00:00.25", "2020-01-01T00:00:01", "NaT"], "M8[ns]"
    )
    assert key_texts(times).tolist() == [
        "2020-01-01",
        "2020-01-01T00:00:00.25",
        "2020-01-01T00:00:01",
        "NaT",
    ]
