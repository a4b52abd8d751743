"""Means and quartiles by the values of columns, of many features in one pass."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

from dshap.analysis import dependences
from dshap.analysis.dependences import dependence_of, dependences_of
from dshap.core.histograms import value_bins
from dshap.core.records import Record
from tests.report.pictures.test_densities import memory_cube
from tests.report.pictures.test_dependence import with_product


def test_those_of_many_features_are_those_of_each_read_once(monkeypatch):
    cube, frame = with_product(3_000)
    alone = [dependence_of(cube, name, rows=frame) for name in ("x2", "x0", "x1")]
    passes = []
    tallied = dependences.tallied
    monkeypatch.setattr(
        dependences, "tallied", lambda *given: passes.append(given) or tallied(*given)
    )
    together = dependences_of(cube, ["x2", "x0", "x1"], rows=frame)
    assert len(passes) == 1
    for one, other in zip(alone, together, strict=True):
        for each in fields(one):
            mine, its = getattr(one, each.name), getattr(other, each.name)
            if isinstance(mine, Record):
                mine, its = mine.digest(), its.digest()
            np.testing.assert_array_equal(mine, its, err_msg=each.name)
    assert [each.partner for each in together] == ["", "x2", ""]


@pytest.mark.parametrize("n", [300, 5_000])
def test_means_and_quantiles_are_those_of_the_rows_of_each_bin(n):
    """Means to 1e-9, quantiles to within a bin of 12.5 %, missing values in the last bin."""
    cube, frame = with_product(n)
    frame.loc[::9, "x0"] = np.nan
    found = dependence_of(cube, "x0", "x1", frame)
    phi = pd.Series(cube["attribution"].values[:, 0, 0])
    groups = phi.groupby(value_bins(found.bins, frame["x0"].to_numpy()))
    np.testing.assert_array_equal(found.counts, groups.size())
    np.testing.assert_allclose(found.means, groups.mean(), rtol=1e-9, atol=1e-12)
    shares = (0.05, 0.25, 0.75, 0.95)
    below = [groups.quantile(share, interpolation="lower") for share in shares]
    above = [groups.quantile(share, interpolation="higher") for share in shares]
    quantiles = found.quantiles(shares).T
    wide = 0.125 * np.abs(quantiles) + 1e-12
    assert (quantiles >= below - wide).all()
    assert (quantiles <= above + wide).all()
    assert found.is_line
    assert len(found.ends) == len(found.counts) == len(found.middles) + 1
    assert (found.points is None) == (n == 5_000)


def test_categories_of_the_second_column_are_named_in_their_order():
    cube, frame = with_product(2_400)
    frame["x2"] = np.where(frame["x2"] > 0, "yes", "no")
    found = dependence_of(cube, "x0", "x2", frame)
    assert found.names_of_colours == ["no", "yes"]
    phi = cube["attribution"].values[:, 0, 0]
    shades = found.shades(found.grid(200))
    assert phi.std() > 0
    assert {0.0, 1.0} <= set(np.round(shades.place[shades.rows > 1], 2))


@pytest.mark.parametrize("kind", [bool, object])
def test_flags_are_two_categories(kind):
    cube, frame = memory_cube(2_400)
    flags = (frame["x0"] > 0).to_numpy().astype(kind)
    if kind is object:
        flags[:3] = None
    frame["x0"] = flags
    found = dependence_of(cube, "x0", "", frame)
    assert found.bins["categories"].tolist()[:2] == ["False", "True"]
    assert not found.is_line
    phi = cube["attribution"].values[:, 0, 0]
    expected = [phi[flags == False].mean(), phi[flags == True].mean()]  # noqa: E712
    np.testing.assert_allclose(found.means[:2], expected)
    assert found.counts[-1] == 3 * (kind is object)
    other = dependence_of(cube, "x1", "x0", frame)
    assert other.names_of_colours == ["False", "True"]
