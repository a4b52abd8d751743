"""Bars of a drift are its attributions, red where they are more than chance."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex

import dshap
from dshap.core.errors import InputError
from dshap.report import drift_bars
from dshap.report.panels import BLUE, RED
from tests.discrepancy.made_up import turned

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")


@pytest.fixture(autouse=True)
def closed():
    """No figure is left open."""
    yield
    plt.close("all")


@pytest.mark.parametrize("d", [2, 25])
def test_bars_are_attributions(d):
    old, new = turned(400, 0.8, d, seed=1), turned(400, -0.8, d, seed=2)
    found = dshap.mmd_drift(old, new, n_permutations=99)
    axes = drift_bars(found)
    shown = found.columns[:20]
    rest = [sum(each.attribution for each in found.columns[20:])] * (d == 25)
    np.testing.assert_allclose(
        [bar.get_width() for bar in axes.patches], [*(each.attribution for each in shown), *rest]
    )
    colours = [to_hex(bar.get_facecolor()) for bar in axes.patches]
    assert colours[:2] == [RED, RED]
    assert set(colours[2:20]) <= {BLUE}
    words = ["sum of 5 other columns"] * (d == 25)
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        *(each.column for each in shown), *words,
    ]  # fmt: skip
    assert "p = 0.0" in axes.get_xlabel()


def test_they_are_drawn_into_axes_that_are_given():
    found = dshap.mmd_drift(np.eye(5), np.zeros((5, 5)), n_permutations=19)
    axes = plt.subplots()[1]
    assert drift_bars(found, ax=axes) is axes


def test_a_cube_is_no_drift():
    with pytest.raises(InputError, match=r"found is .*: give the drift that dshap.mmd_drift gives"):
        drift_bars({"a": 1})
