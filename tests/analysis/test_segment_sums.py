"""Sums over groups of rows are those of each group by itself, in one pass, and are kept."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import dshap
from dshap.analysis import segment_sums
from dshap.analysis.column_values import columns_of
from dshap.analysis.segment_groups import row_groups
from dshap.analysis.segment_sums import sums_by_group
from dshap.analysis.segments import segments_of
from dshap.analysis.view import view_of
from dshap.cube import histograms
from dshap.cube.summary import bounded_sums
from tests.analysis.test_segments import with_plan
from tests.analysis.test_tallies import ROWS, explained, no_pass


@pytest.mark.parametrize("has_errors", [False, True])
def test_sums_of_many_groups_in_one_pass_are_those_of_each_alone(has_errors):
    """To 1e-12 of `bounded_sums` of the rows of each group; a row without attributions is in none."""
    cube, frame = with_plan(700)
    cube["attribution"][7, 1] = np.nan
    if has_errors:
        cube["std_error"] = xr.full_like(cube["attribution"], 0.2)
    other = cube.assign(attribution=-2.0 * cube["attribution"])
    views = [view_of(cube), view_of(other)]
    columns = [columns_of(view.cube, frame) for view in views]
    groups = [row_groups(views[0], columns[0], segment) for segment in ("plan", "x0:3")]
    plan = frame["plan"].map({"basic": 0, "pro & <b>": 1}).fillna(3).to_numpy()
    x0 = np.searchsorted(groups[1].column.bins["edges"], frame["x0"].to_numpy(), side="right")
    for view, found in zip(views, sums_by_group(views, columns, groups), strict=True):
        phi = view.cube["attribution"].values[:, :, 0]
        is_there = ~np.isnan(phi).all(axis=1)
        for codes, each in zip((plan, x0), found, strict=True):
            for code in np.unique(codes):
                own = is_there & (codes == code)
                errors = None
                if has_errors:
                    errors = view.cube["std_error"].values[own]
                filled = np.where(np.isnan(phi[own]), 0.0, phi[own])[..., None]
                expected = bounded_sums(filled, errors, 2)[..., 0]
                place = int(code)
                assert each["counts"][place] == np.count_nonzero(own)
                np.testing.assert_allclose(each["sums"][:, :, place], expected, rtol=1e-12)
            assert each["counts"].sum() == 699


def test_sums_of_a_finished_cube_are_kept(tmp_path, monkeypatch, in_this_process):
    """Of its own columns only: other rows in the same bins are summed anew."""
    monkeypatch.setattr(histograms, "LEAST_ROWS", ROWS)
    monkeypatch.setattr(histograms, "SHARE", 10.0)
    explained(tmp_path / "s")
    first = segments_of(tmp_path / "s", "a:4")
    monkeypatch.setattr(segment_sums, "summed_anew", no_pass)
    again = segments_of(tmp_path / "s", "a:4")
    for name in ("counts", "mean", "magnitude", "half_width", "mean_half_width"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    cube = dshap.open_cube(tmp_path / "s")
    with pytest.raises(AssertionError, match="a pass"):
        segments_of(cube, "a:3")
    with pytest.raises(AssertionError, match="a pass"):
        segments_of(cube.assign(attribution=2 * cube["attribution"]), "a:4")
