"""Datasets of stores: read by whole shards while they are as stored, else as they are now."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import xarray as xr

import dshap
from dshap import designs
from dshap.core.errors import DamagedError, InputError
from dshap.cube.blocks import CubeArrays
from dshap.cube.datasets import (
    as_cube,
    attribution_of,
    coalition_share,
    global_means,
    row_position,
    same_rows,
    status_of,
    store_of,
)
from tests.cube.cubes import make_cube, phi_of

ROWS = slice(3, 19)


def test_a_dataset_of_a_store_has_the_attributions_of_its_shards(tmp_path):
    layout, _ = make_cube(tmp_path / "c", skipped=(2,))
    cube = dshap.open_cube(tmp_path / "c")
    phi = phi_of(layout, skipped=(2,))
    np.testing.assert_array_equal(attribution_of(cube, ROWS, 1), phi[ROWS, :, 1])
    np.testing.assert_array_equal(status_of(cube, ROWS), cube["status"].values[ROWS])
    assert store_of(cube) == tmp_path / "c"


def test_what_was_done_to_a_dataset_counts(tmp_path):
    layout, _ = make_cube(tmp_path / "c")
    cube = dshap.open_cube(tmp_path / "c")
    phi = phi_of(layout)
    changed = {
        "turned": (cube.isel(instance=slice(None, None, -1)), phi[::-1]),
        "doubled": (cube.assign(attribution=2 * cube["attribution"]), 2 * phi),
        "chosen": (cube.isel(output=[1, 0], feature=[2, 0]), phi[:, [2, 0]][:, :, [1, 0]]),
        "across": (cube.transpose("output", ...), phi),
        "loaded": (cube.load(), phi),
    }
    for name, (other, expected) in changed.items():
        found = attribution_of(other, ROWS, 1)
        np.testing.assert_array_equal(found, expected[ROWS, :, 1], err_msg=name)
        assert store_of(other) is None
    other = dshap.open_cube(tmp_path / "c").assign(status=("instance", np.zeros(21, np.int8)))
    assert not status_of(other, ROWS).any()


def test_a_store_in_the_place_of_another_is_read_anew(tmp_path):
    make_cube(tmp_path / "c")
    attribution_of(dshap.open_cube(tmp_path / "c"), ROWS, 0)
    shutil.rmtree(tmp_path / "c")
    layout, _ = make_cube(tmp_path / "c", n_rows=19, players=("a", "b"))
    found = attribution_of(dshap.open_cube(tmp_path / "c"), ROWS, 0)
    np.testing.assert_array_equal(found, phi_of(layout)[ROWS, :, 0])


def test_a_damaged_shard_is_refused_in_one_line(tmp_path):
    make_cube(tmp_path / "c")
    cube = dshap.open_cube(tmp_path / "c")
    file = tmp_path / "c/attribution/c.1.0.0"
    content = bytearray(file.read_bytes())
    content[40] ^= 1
    file.write_bytes(content)
    attribution_of(cube, slice(0, 8), 0)
    with pytest.raises(DamagedError, match=r"damaged .*dshap verify"):
        attribution_of(cube, ROWS, 0)


def test_a_dataset_of_a_store_in_another_order_is_told_by_its_keys(tmp_path):
    """All predictions may be the same: columns of other rows would stand beside the attributions."""
    make_cube(tmp_path / "c", keys={"id": "int64", "name": "string"}, columns={"a": "float64"})
    cube = dshap.open_cube(tmp_path / "c")
    cube["prediction"] = cube["prediction"].isel(instance=0).broadcast_like(cube["prediction"])
    arrays = CubeArrays(tmp_path / "c")
    arrays.read_rows = lambda name, rows: cube["prediction"].values[rows]
    assert same_rows(cube.load(), arrays)
    assert not same_rows(cube.isel(instance=slice(None, None, -1)), arrays)


def test_a_key_is_found_as_it_is():
    """A fraction is no whole number, and a long text not its beginning."""
    cube = xr.Dataset({"attribution": (("instance", "feature", "output"), np.zeros((3, 1, 1)))})
    whole = cube.assign_coords(id=("instance", [2**53, 2**53 + 1, 7]))
    assert [row_position(whole, key) for key in (2**53 + 1, 7.0, "7")] == [1, 2, 2]
    for key in (7.5, np.nan, 2**70, None):
        with pytest.raises(InputError, match="is not of type int64, the type of the key column"):
            row_position(whole, key)
    short = cube.assign_coords(id=("instance", np.array(["a1", "a2", "a3"])))
    with pytest.raises(InputError, match="no row has the key a22"):
        row_position(short, "a22")


@pytest.mark.parametrize("table", [np.zeros((2, 3)), xr.DataArray(np.zeros(2)), xr.Dataset()])
def test_a_table_is_no_cube(table):
    with pytest.raises(
        InputError, match=r"without attributions: give the result of dshap\.explain"
    ):
        as_cube(table)


def test_the_nearest_keys_are_named():
    cube = xr.Dataset(
        {"attribution": (("instance", "feature", "output"), np.zeros((2, 1, 1)))},
        coords={"id": ("instance", [3, 7])},
    )
    with pytest.raises(InputError, match=r"key 5 \(id\): near it are 3 and 7"):
        row_position(cube, 5)
    with pytest.raises(InputError, match=r"key 9 \(id\): the nearest is 7"):
        row_position(cube, 9)


TABLE = np.random.default_rng(4).normal(size=(60, 9))


def of_products(x):
    return x[:, 0] * x[:, 1] + np.abs(x[:, 2]) * x[:, 3] + x[:, 4:].sum(axis=1)


@pytest.mark.parametrize("design", [designs.exact(9), designs.kernelshap(9, 200, seed=1)])
def test_nothing_is_subtracted_from_magnitudes_for_few_background_rows(design, tmp_path):
    """Chosen rows are a sample of the table, and have an error; the same rows given as the
    background have none.  Attributions, mean squares and magnitudes are the same, the errors larger,
    in the store, of a part of it, in memory and in segments."""
    chosen = dshap.choose_background(TABLE, 7)
    counts = np.rint(7 * chosen.weights / chosen.weights.sum()).astype(int)
    sampled = dshap.values.Marginal(of_products, chosen)
    plain = dshap.values.Marginal(of_products, np.repeat(chosen.rows, counts, axis=0))
    of_sample = dshap.explain(sampled, TABLE, design=design, store=tmp_path / "sampled")
    of_rows = dshap.explain(plain, TABLE, design=design, store=tmp_path / "plain")
    in_memory = dshap.explain(sampled, TABLE, design=design)
    expected = global_means(of_rows)
    for found in (of_sample, in_memory):
        means = global_means(found)
        for name in ("mean", "mean_magnitude", "mean_square"):
            np.testing.assert_allclose(means[name], expected[name], rtol=1e-6, atol=1e-12)
        assert (means["mean_magnitude_std_error"] > 0).all()
    share = coalition_share(of_sample)
    np.testing.assert_allclose(coalition_share(in_memory), share)
    np.testing.assert_array_equal(coalition_share(of_rows), 1.0)
    assert (share < 1).all()
    assert (share == 0).all() == (design.info.n_replicates == 0)
    renamed = of_sample.assign_coords(feature=[f"column {j}" for j in range(9)])
    np.testing.assert_array_equal(coalition_share(renamed), share)
    in_memory.to_netcdf(tmp_path / "in_memory.nc")
    few = slice(10, 30)
    part = [
        global_means(each.isel(instance=few, feature=[3, 0])) for each in (of_sample, in_memory)
    ]
    for name in ("mean_magnitude", "mean_square"):
        np.testing.assert_allclose(part[0][name], part[1][name], rtol=1e-6)
