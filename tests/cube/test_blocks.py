"""The finished blocks of a cube, read one by one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.blocks import finished_blocks as public_name
from dshap.core.errors import DamagedError
from dshap.cube import finished_blocks
from dshap.cube.value_digests import block_digests
from dshap.values import Marginal
from tests.cube.cubes import make_cube


def test_blocks_are_what_was_explained(tmp_path, in_this_process):
    """Only those that have a receipt; keys of every kind, kept columns, predictions, in order."""
    x = np.random.default_rng(0).normal(size=(50, 2))
    when = pd.Timestamp("2020-01-01") + pd.to_timedelta(range(50), "D")
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(
        id=range(50), name=[f"r{i}" for i in range(50)], when=when
    )
    value = Marginal(lambda rows: rows[:, 0] * rows[:, 1], x[:5], feature_names=["a", "b"])
    store = tmp_path / "c.zarr"
    options = {
        "key": ["id", "name", "when"],
        "keep_rows": True,
        "instance_tile": 16,
        "progress": False,
    }
    dshap.explain(value, frame, store=store, **options)
    (store / "state/receipts/block-00000001.json").unlink()
    found = list(finished_blocks(store))
    assert [block.start for block in found] == [0, 32, 48]
    for block in found:
        part = frame.iloc[block.start : block.start + len(block.prediction)]
        assert block.keys["id"].tolist() == part.id.tolist()
        assert block.keys["name"].tolist() == part["name"].tolist()
        np.testing.assert_array_equal(
            block.keys["when"], part.when.to_numpy().astype("datetime64[ns]")
        )
        np.testing.assert_array_equal(
            np.column_stack([block.columns[name] for name in "ab"]), part[["a", "b"]]
        )
        np.testing.assert_array_equal(block.prediction[:, 0], part.a * part.b)
    cube = dshap.open_cube(store)
    for block in found:
        rows = slice(block.start, block.stop)
        assert block.index == block.start // 16
        assert block.cube.features == ("a", "b")
        assert block.cube.outputs == tuple(cube.output.values)
        np.testing.assert_array_equal(block.attribution, cube.attribution[rows])
        np.testing.assert_array_equal(block.read("status"), cube.status[rows])
        # as `CubeWriter` makes it
        assert block.digests["attribution"] == block_digests({"": block.attribution})[""]
        assert block.summary["count"] == block.stop - block.start
        np.testing.assert_allclose(
            block.summary["attribution"][0, 0], block.attribution.sum(axis=0), rtol=1e-12
        )
    assert public_name is finished_blocks


def test_a_chunk_that_cannot_be_read_is_damage(tmp_path):
    _, writer = make_cube(tmp_path / "cube.zarr", tiles=(0, 1))
    (first, _) = finished_blocks(str(writer.path))
    (writer.path / "attribution" / "c.0.0.0").write_bytes(b"nothing")
    with pytest.raises(DamagedError, match="is damaged"):
        first.attribution  # noqa: B018
