"""Cells are the means of the interactions of all rows."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.analysis.pair_effects import pair_effects
from dshap.core.errors import InputError
from dshap.report import interactions
from tests.report.pictures.test_densities import memory_cube, texts_of

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")


@pytest.fixture(autouse=True)
def closed():
    """No figure is left open."""
    yield
    plt.close("all")


def with_interactions(n: int, d: int):
    """A cube whose attributions are the sums of their interactions; a row has none."""
    cube, _ = memory_cube(n, d)
    halves = np.random.default_rng(d).normal(size=(n, d, d)) * 0.7 ** np.add.outer(
        np.arange(d), np.arange(d)
    )
    halves += halves.transpose(0, 2, 1)
    halves[1] = np.nan
    cube["attribution"][:, :, 0] = halves.sum(axis=2)
    dims = ("instance", "feature", "feature_other", "output")
    cube = cube.assign(interaction=(dims, halves[..., None]))
    return cube.assign_coords(feature_other=cube["feature"].values), halves


@pytest.mark.parametrize("d", [1, 4, 25])
def test_a_pair_has_both_halves_and_the_diagonal_main_effects(d):
    cube, halves = with_interactions(30, d)
    found = pair_effects(cube)
    places = [int(name[1:]) for name in found.features]
    sizes = np.abs(np.delete(cube["attribution"].values[:, :, 0], 1, axis=0)).mean(axis=0)
    assert places == np.argsort(-sizes, kind="stable")[:20].tolist()
    means = np.nanmean(np.abs(halves), axis=0)[np.ix_(places, places)]
    np.testing.assert_allclose(np.diag(found.magnitude), np.diag(means), rtol=1e-9)
    apart = ~np.eye(len(places), dtype=bool)
    np.testing.assert_allclose(found.magnitude[apart], 2 * means[apart], rtol=1e-9)
    assert found.rows == 29
    axes = interactions(cube)
    cells = axes.images[0].get_array()
    words = ["sum of 5 other features"] * (d == 25)
    assert texts_of(axes) == [*found.features, *words]
    np.testing.assert_allclose(cells[-1].filled(np.nan)[: len(places)], found.magnitude[-1])
    assert np.ma.getmaskarray(cells)[np.triu_indices(len(places), 1)].all()
    total = np.nanmean(np.abs(halves), axis=0).sum()
    others = [] if pair_effects(cube).others is None else pair_effects(cube).others
    assert np.tril(found.magnitude).sum() + np.sum(others) == pytest.approx(total)


def test_a_cube_without_interactions_is_told():
    cube, _ = memory_cube(5)
    with pytest.raises(InputError, match=r"no interactions: explain\(..., interactions=True\)"):
        interactions(cube)
