"""The finished blocks of a cube, read one by one."""

from __future__ import annotations

import numpy as np
import pandas as pd

import dshap
from dshap.cube import finished_blocks
from dshap.values import Marginal


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
        assert (
            block.keys["id"].tolist() == part.id.tolist()
            and block.keys["name"].tolist() == part["name"].tolist()
        )
        np.testing.assert_array_equal(
            block.keys["when"], part.when.to_numpy().astype("datetime64[ns]")
        )
        np.testing.assert_array_equal(
            np.column_stack([block.columns[name] for name in "ab"]), part[["a", "b"]]
        )
        np.testing.assert_array_equal(block.prediction[:, 0], part.a * part.b)
