"""Erased rows keep their place; sums and errors of their blocks are those of the rows that are left."""

from __future__ import annotations

import numpy as np
import pytest

import dshap
from dshap.core.errors import DamagedError
from dshap.core.places import place_of
from dshap.cube import cube_status, read_notes, stored_importance
from dshap.cube.erased_note import erased_rows
from dshap.cube.erased_rows import erase_rows, redacted
from dshap.cube.verify import verify_cube
from dshap.designs import kernelshap
from dshap.values import Marginal


def game(x: np.ndarray) -> np.ndarray:
    return x[:, 0] * x[:, 1] * x[:, 4] + np.sin(x[:, 2:6].prod(axis=1)) + x.sum(axis=1)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(60, 8))


def explained(rows, store, ids, **options):
    value = Marginal(game, rows[:20])
    design = kernelshap(8, 120)
    dshap.explain(
        value, rows, key={"id": ids}, store=store, design=design, instance_tile=20, **options
    )
    return place_of(store)


def test_sums_are_those_of_the_rows_left_and_errors_bound_theirs(rows, tmp_path):
    gone = np.array([0, 3, 21, 22])
    left = np.delete(np.arange(60), gone)
    path = explained(rows, tmp_path / "all.zarr", np.arange(60) + 100)
    before = stored_importance(path)
    erase_rows(path, gone, has_learned=False)
    erase_rows(path, gone, has_learned=False)  # again: nothing more happens
    assert erased_rows(path).tolist() == gone.tolist()
    assert read_notes(path)["erased"] == {"rows": gone.tolist()}
    assert verify_cube(path) == []
    assert (cube_status(path).ok, cube_status(path).erased) == (56, 4)
    now = stored_importance(path)
    without = np.random.default_rng(2).normal(size=(60, 8))
    value = Marginal(game, without[:20])
    dshap.explain(value, rows[left], store=tmp_path / "left.zarr", design=kernelshap(8, 120))
    truth = stored_importance(place_of(tmp_path / "left.zarr"))
    for name in ("mean", "mean_magnitude", "mean_square"):
        np.testing.assert_allclose(now.means[name].value, truth.means[name].value, rtol=1e-9)
        assert (now.means[name].std_error > 0).all()
    stated = now.means["mean"].std_error
    assert (stated >= 0.8 * truth.means["mean"].std_error).all()
    assert (stated <= 3 * before.means["mean"].std_error).all()


def test_more_rows_are_erased_later_and_float32_too(rows, tmp_path):
    path = explained(rows, tmp_path / "cube.zarr", np.arange(60), dtype="float32")
    erase_rows(path, np.array([5]), has_learned=False)
    erase_rows(path, np.arange(20, 40), has_learned=False)  # a whole block
    assert verify_cube(path) == []
    assert erased_rows(path).tolist() == [5, *range(20, 40)]
    assert cube_status(path).ok == 39
    cube = dshap.open_cube(path)
    assert np.isnan(cube["attribution"].values[20:40]).all()
    assert (cube["id"].values[20:40] == -1).all()


def test_a_damaged_block_is_refused_by_name(rows, tmp_path):
    path = explained(rows, tmp_path / "cube.zarr", np.arange(60))
    file = next((tmp_path / "cube.zarr" / "attribution").glob("c.1.*"))
    content = bytearray(file.read_bytes())
    content[10] ^= 255
    file.write_bytes(bytes(content))
    with pytest.raises(DamagedError, match=r"block 1 of .* is not as it was written"):
        erase_rows(path, np.array([25]), has_learned=False)


def test_texts_are_redacted_at_any_depth():
    found = redacted({"a": ["x", "y", {"b": "x"}], "x": 1}, {"x"})
    assert found == {"a": ["(erased)", "y", {"b": "(erased)"}], "x": 1}
