"""Tables of segments: the leading features and segments, and a line that counts the others."""

from __future__ import annotations

import numpy as np
import pandas as pd

import dshap
from dshap.report import segment_tables
from dshap.values import LinearGaussian


def test_many_segments_and_features_are_counted_in_a_line(tmp_path, in_this_process):
    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(7)]
    frame = pd.DataFrame(rng.normal(size=(400, 7)), columns=names)
    frame["c0"] = np.arange(400) % 20
    value = LinearGaussian(
        np.arange(7.0, 0.0, -1.0), 0.0, np.zeros(7), np.eye(7), feature_names=names
    )
    dshap.explain(value, frame, store=tmp_path / "s", keep_rows=True, progress=False)
    (table,) = segment_tables({"mine\n": tmp_path / "s"}, "c0")
    title, heads, *rows, last = table.lines()
    assert title == r"mean |φ| by c0 (mine\n)"
    assert heads.split() == ["segment", "rows", "c0", "c1", "c2", "c3", "c4"]
    assert [row.split()[:2] for row in rows] == [[str(s), "20"] for s in range(12)]
    assert last.startswith("8 more segments and 2 more features: ")
    content = table.content()
    assert len(content) == 20
    assert len(content["19"]["mean"]) == 7
    expected = np.abs(dshap.open_cube(tmp_path / "s")["attribution"].values[3::20, 0, 0]).mean()
    assert abs(content["3"]["mean_magnitude"]["c0"] - expected) < 1e-9
    assert rows[3].split()[2].replace(",", "")[:4] == f"{expected:.4f}"[:4]
