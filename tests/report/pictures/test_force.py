"""One row as arrows: they add up, the largest next to the prediction."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.report import force
from dshap.report.panels import BLUE, RED
from tests.report.pictures.test_densities import memory_cube

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")


@pytest.fixture(autouse=True)
def closed():
    """No figure is left open."""
    yield
    plt.close("all")


def arrows(axes, colour):
    """(start, end) of the arrows of this colour."""
    patches = [each for each in axes.patches if isinstance(each, plt.Polygon)]
    return [
        (each.get_xy()[0, 0], each.get_xy()[1, 0])
        for each in patches
        if plt.matplotlib.colors.to_hex(each.get_facecolor()) == colour
    ]


@pytest.mark.parametrize("row", [0, 1, 2, 3])
def test_arrows_meet_at_the_prediction_and_have_the_lengths_of_attributions(row):
    cube, frame = memory_cube(5, d=6)
    cube["base_value"][:] = 3.0
    cube["prediction"][:] += 3.0
    phi = cube["attribution"].values[row, :, 0]
    if row == 3:
        phi[:] = np.abs(phi)  # no blue arrow
        cube["prediction"][row] = 3.0 + phi.sum()
    axes = force(cube, row, rows=frame)
    prediction = float(cube["prediction"][row, 0])
    for colour, sign in ((RED, 1), (BLUE, -1)):
        found = arrows(axes, colour)
        lengths = [end - start for start, end in found]
        expected = sorted(phi[sign * phi > 0], key=abs, reverse=True)
        np.testing.assert_allclose(lengths, expected, rtol=1e-9)
        assert [end for _, end in found] == pytest.approx(
            [prediction, *(x for x, _ in found)][: len(found)]
        )
    largest = int(np.abs(phi).argmax())
    words = [text.get_text() for text in axes.texts]
    value = f"{frame.iloc[row, largest]:.4g}".replace("-", "\N{MINUS SIGN}")
    assert any(each.startswith(f"x{largest} = {value}  ") for each in words)
    texts = [f"prediction {prediction:,.{n}f}".replace("-", "\N{MINUS SIGN}") for n in (2, 3)]
    assert set(texts) & set(words)


def test_a_row_without_any_attribution_and_names_with_signs():
    cube, _ = memory_cube(2)
    cube["attribution"][0] = 0.0
    cube = cube.assign_coords(feature=["$x$", "<b>", "\x1b[31m"])
    assert arrows(force(cube, 0), RED) == []
    axes = force(cube, 1)
    axes.figure.canvas.draw()
    (named,) = [text for text in axes.texts if text.get_text().startswith("$x$  ")]
    assert named.get_color() == plt.rcParams["text.color"]  # legible on white and on black
