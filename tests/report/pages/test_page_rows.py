"""The rows of a page: the largest of each feature, extreme predictions, and the others evenly."""

from __future__ import annotations

import json

import numpy as np

from dshap.report.pages import page_rows as page_module
from dshap.report.pages.page_rows import page_rows
from dshap.report.pages.row_tables import tables_of
from tests.cube.cubes import make_cube, phi_of


def test_the_largest_rows_are_there_and_the_others_evenly(tmp_path, monkeypatch):
    layout, _ = make_cube(tmp_path / "s", n_rows=400)
    monkeypatch.setattr(page_module, "MAX_ROWS", 60)
    monkeypatch.setattr(page_module, "N_LARGEST", 4)
    monkeypatch.setattr(page_module, "N_EXTREME", 2)
    table, _ = tables_of({"one": tmp_path / "s"})
    found = page_rows(table, ["c", "a"])
    keys = np.array([int(json.loads(text)[0]) for text in found.texts])
    rows = (keys - 5) // 3
    phi = phi_of(layout)
    for output in range(2):
        for feature in (0, 2):
            largest = np.argsort(-np.abs(phi[:, feature, output]))[:4]
            assert rows[found.largest[output][feature]].tolist() == largest.tolist()
        assert list(found.largest[output]) == [2, 0]
        prediction = phi[:, :, output].sum(axis=1)
        ends = np.argsort(prediction)[[0, 1, -2, -1]]
        assert set(ends.tolist()) <= set(rows.tolist())
    assert np.all(np.diff(keys) > 0)
    assert 50 <= len(keys) <= 60
    assert np.diff(keys).max() <= 3 * 18
    assert found.n_explained == 400
    expected = phi.sum(axis=1) + np.array([1.0, 2.0])
    np.testing.assert_allclose(found.predictions, expected, rtol=1e-12)


def test_rows_without_attributions_are_not_listed(tmp_path):
    make_cube(tmp_path / "s", tiles=[0, 2], skipped=(1,), outputs=("y",))
    table, _ = tables_of({"one": tmp_path / "s"})
    found = page_rows(table, ["a"])
    assert len(found) == found.n_explained == 11
    assert sorted(found.largest[0][0]) == list(range(11))


def test_many_lists_have_fewer_rows(tmp_path, monkeypatch):
    make_cube(tmp_path / "s", n_rows=100)
    monkeypatch.setattr(page_module, "MOST_LARGEST", 12)
    table, _ = tables_of({"one": tmp_path / "s"})
    found = page_rows(table, ["a", "b", "c"])
    assert all(len(rows) == 2 for of_part in found.largest.values() for rows in of_part.values())
