"""Means by segment are those of numpy, and their intervals cover."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from dshap.analysis.segments import segments_of
from dshap.core.blocks import Status
from dshap.core.errors import InputError
from tests.report.pictures.test_densities import memory_cube


def with_plan(n: int):
    cube, frame = memory_cube(n)
    frame["plan"] = np.where(frame["x1"] > 1, "pro & <b>", "basic")
    frame.loc[::10, "plan"] = None
    cube["attribution"][5] = np.nan
    cube["status"][5] = Status.SKIPPED
    return cube, frame


def test_means_are_those_of_the_rows_of_each_segment():
    """Means to 1e-9, the spread to 1e-9 of pandas' standard error."""
    cube, frame = with_plan(3_000)
    found = segments_of(cube, "plan", frame)
    assert found.names == ("basic", "pro & <b>", "missing")
    assert found.column == "plan"
    phi = pd.DataFrame(cube["attribution"].values[:, :, 0], columns=list(found.features))
    groups = phi.groupby(frame["plan"].fillna("missing"))
    magnitudes = phi.abs().groupby(frame["plan"].fillna("missing"))
    order = list(found.names)
    np.testing.assert_array_equal(found.counts, groups["x0"].count()[order])
    np.testing.assert_allclose(found.mean, groups.mean().loc[order], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.magnitude, magnitudes.mean().loc[order], rtol=1e-9)
    ratio = found.half_width / magnitudes.sem().loc[order]
    assert ((ratio > 1.959) & (ratio < 1.98)).all(axis=None)


def test_numbers_are_in_bins_of_equally_many_rows_or_each_alone():
    cube, frame = memory_cube(1_000)
    frame["x0"] = np.arange(1_000)
    found = segments_of(cube, "x0:4", frame)
    assert found.names == ("below 249.5", "249.5 to 499.5", "499.5 to 749.5", "from 749.5")
    assert found.counts.tolist() == [250] * 4
    frame["x0"] = pd.date_range("2024-01-01", periods=1_000, freq="h").astype("datetime64[us]")
    assert segments_of(cube, "x0:2", frame).names == (
        "below 2024-01-21T19:30",
        "from 2024-01-21T19:30",
    )
    for values, names in (
        (np.arange(1_000) % 3, ("0", "1", "2")),
        (np.arange(1_000) < 1, ("False", "True")),
        (np.full(1_000, np.nan), ("missing",)),
        (np.full(1_000, None), ("missing",)),
    ):
        frame["x0"] = values
        assert segments_of(cube, "x0", frame).names == names
    alone = segments_of(cube.isel(instance=slice(1)), "x0", frame[:1])
    assert np.isnan(alone.half_width).all()
    assert alone.counts.tolist() == [1]


def test_intervals_cover():
    """200 segments of 60 rows x 12 features, of three distributions with known mean |φ|.

    Of 800 intervals each covers with 90 to 97 % (four standard deviations of a binomial are 3 %).
    """
    rng = np.random.default_rng(46)
    n, d = 12_000, 12
    phi = rng.normal(size=(n, d))
    phi[:, 4:8] = rng.exponential(size=(n, 4)) * rng.choice([-1, 1], (n, 4))
    phi[:, 8:] = rng.uniform(-1, 1, (n, 4))
    truth = np.repeat([np.sqrt(2 / np.pi), 1.0, 0.5], 4)
    names = [f"x{j}" for j in range(d)]
    cube = xr.Dataset(
        {"attribution": (("instance", "feature", "output"), phi[:, :, None])},
        {"feature": names, "output": ["y"]},
    )
    found = segments_of(cube, "group", pd.DataFrame({"group": np.arange(n) % 200}))
    truth = truth[[names.index(name) for name in found.features]]
    covers = np.abs(found.magnitude - truth) <= found.half_width
    for kind in np.unique(truth):
        assert 0.90 < covers[:, truth == kind].mean() < 0.97


def test_errors_of_sampled_coalitions_widen_the_intervals():
    """Mean |φ| is corrected for them, by at most their mean."""
    cube, frame = with_plan(500)
    error = xr.full_like(cube["attribution"], 0.2)
    plain = segments_of(cube, "plan", frame)
    found = segments_of(cube.assign(std_error=error), "plan", frame)
    assert (found.half_width > plain.half_width).all()
    np.testing.assert_allclose(found.mean, plain.mean, rtol=1e-9)
    corrected = plain.magnitude - found.magnitude
    assert (corrected > 0).all()
    assert (corrected < 0.2).all()
    assert (found.mean_half_width >= 1.96 * 0.2).all()


def test_segments_that_cannot_be():
    cube, frame = with_plan(300)
    with pytest.raises(InputError, match=r"'x0' has more than 200 values.*\"x0:5\" for 5 bins"):
        segments_of(cube, "x0", frame)
    frame["name"] = [f"n{i}" for i in range(300)]
    with pytest.raises(InputError, match=r"'name' has more than 200 values.*: give a column with"):
        segments_of(cube, "name", frame)
    with pytest.raises(
        InputError, match="'plan:5': the column 'plan' contains no numbers or times"
    ):
        segments_of(cube, "plan:5", frame)
    with pytest.raises(InputError, match="'x0:1': give from 2 to 200 bins"):
        segments_of(cube, "x0:1", frame)
    with pytest.raises(InputError, match="unknown column 'plans'; did you mean 'plan'"):
        segments_of(cube, "plans", frame)
    with pytest.raises(InputError, match="no values of the column 'plan': give rows=, or store"):
        segments_of(cube, "plan")


def test_every_segment_has_a_name_of_its_own():
    """A table by name would lose segments; an empty text is how a store keeps a missing one."""
    cube, frame = memory_cube(400)
    frame["shop"] = 1_000_000 + np.arange(400) % 5
    frame["part"] = 1.0 + np.arange(400) / 1e7
    frame["time"] = np.datetime64("2020-01-01T00:00:00.25") + np.arange(400) % 3
    frame["plan"] = np.array(["missing", None, "", "a"], object)[np.arange(400) % 4]
    shops = segments_of(cube, "shop", frame)
    assert shops.names == tuple(f"1,000,00{i}" for i in range(5))
    for segment, size in (("part:4", 4), ("time", 3), ("shop:5", 5)):
        names = segments_of(cube, segment, frame).names
        assert len(set(names)) == len(names) == size, names
    plans = segments_of(cube, "plan", frame)
    assert plans.names == ("a", "missing", "missing (no value)")
    assert plans.counts.tolist() == [100, 100, 200]
