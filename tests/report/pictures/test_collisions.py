"""Nothing in a picture is cut off at its edge or lies on other words: at their own size, as one of
several axes, on a dark background, with names of 50 letters."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from dshap.report import (
    bar,
    beeswarm,
    compare,
    dependence,
    force,
    heatmap,
    interactions,
    over_runs,
    waterfall,
)
from tests.report.pictures.test_over_runs import nights

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")

TITLE = "Was den Umsatz bewegt"
PLACE = "Wohnort_Bundesland_der_letzten_Rechnungsanschrift"
NAMES = [
    *(
        f"Kundenkonto_durchschnittlicher_Kontostand_Q{j}_202{k}"
        for k in (3, 4)
        for j in (1, 2, 3, 4)
    ),
    PLACE,
    "Größe des Haushalts laut der letzten Umfrage im Mai",
    "hat_Einzugsermächtigung_für_alle_Verträge_erteilt",
    *(f"x{j}" for j in range(14)),
]


@pytest.fixture(autouse=True)
def closed():
    """No figure is left open."""
    yield
    plt.close("all")


def long_names(n: int = 120) -> tuple[xr.Dataset, pd.DataFrame]:
    """A cube of 25 features, most with long names, and its columns: texts, flags and heavy tails."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.lognormal(6, 2, (n, 25)), columns=NAMES)
    frame[PLACE] = rng.choice(["Baden-Württemberg", "Schleswig-Holstein", "Bayern", "Saarland"], n)
    frame[NAMES[10]] = rng.random(n) < 0.4
    phi = rng.normal(size=(n, 25, 1)) * 1_000 * 0.8 ** np.arange(25)[:, None]
    halves = rng.normal(size=(n, 25, 25, 1))
    cube = xr.Dataset(
        {
            "attribution": (("instance", "feature", "output"), phi, {"units": "EUR"}),
            "prediction": (("instance", "output"), phi.sum(axis=1) + 50_000),
            "base_value": (("output",), np.full(1, 50_000.0)),
            "interaction": (("instance", "feature", "feature_2", "output"), halves),
            "status": (("instance",), np.ones(n, np.int8)),
        },
        {"feature": NAMES, "output": ["Umsatz"]},
    )
    return cube, frame


CUBE, FRAME = long_names()
DRAWN = {
    "beeswarm": lambda **options: beeswarm(CUBE, rows=FRAME, **options),
    "bar": lambda **options: bar(CUBE, **options),
    "bar by": lambda **options: bar(CUBE, by=PLACE, rows=FRAME, **options),
    "dependence": lambda **options: dependence(CUBE, NAMES[0], NAMES[10], rows=FRAME, **options),
    "dependence of a text": lambda **options: dependence(CUBE, PLACE, "", rows=FRAME, **options),
    "waterfall": lambda **options: waterfall(CUBE, 3, rows=FRAME, **options),
    "force": lambda **options: force(CUBE, 3, rows=FRAME, **options),
    "heatmap": lambda **options: heatmap(CUBE, PLACE, rows=FRAME, **options),
    "interactions": lambda **options: interactions(CUBE, **options),
    "compare": lambda **options: compare(
        {"interventional values of the old model": CUBE, "observational values of it": CUBE},
        **options,
    ),
}


def texts_in(figure):
    """The texts of a figure that are shown, with their boxes in pixels."""
    figure.canvas.draw()
    found = []
    titles = [text for text in figure.findobj(plt.Text) if text.get_text().startswith(TITLE)]
    for axes in figure.axes:
        shown = [*axes.texts, axes.xaxis.label, axes.yaxis.label]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = axis.get_major_ticks()
            shown += [tick.label1 for tick in ticks if low <= tick.get_loc() <= high]
            shown += [tick.label2 for tick in ticks if low <= tick.get_loc() <= high]
        if axes.get_legend():
            shown += [axes.get_legend().get_title(), *axes.get_legend().get_texts()]
        shown += [text for text in titles if text not in shown]
        titles = []
        found += [text for text in shown if text.get_visible() and text.get_text().strip()]
    return [(text, plt.Text.get_window_extent(text)) for text in found]  # no arrows


def check(figure):
    """Every text lies in the figure, and on no other; turned names only touch by their boxes."""
    texts = texts_in(figure)
    for text, box in texts:
        assert box.x0 >= -1, text
        assert box.y0 >= -1, text
        assert box.x1 <= figure.bbox.x1 + 1, text
        assert box.y1 <= figure.bbox.y1 + 1, text
    straight = [(text, box) for text, box in texts if text.get_rotation() % 90 == 0]
    for (one, first), (other, second) in combinations(straight, 2):
        width = min(first.x1, second.x1) - max(first.x0, second.x0)
        height = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert min(width, height) <= 1.5, (one.get_text(), other.get_text())


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.filterwarnings("ignore:.*have no scale")
def test_at_its_own_size(name):
    check(DRAWN[name](title=TITLE).figure)


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.filterwarnings("ignore:.*have no scale")
def test_as_one_of_four_axes(name):
    """A name is cut where it has no room, and the axes beside it are moved away."""
    figure, axes = plt.subplots(2, 2, figsize=(15, 11))
    options = {} if name.startswith("dependence") else {"max_display": 5}
    for each in axes.flat:
        DRAWN[name](ax=each, **options)
    check(figure)


def test_lines_over_runs(tmp_path):
    with pytest.warns(UserWarning, match="not finished"):
        check(over_runs(nights(tmp_path / "churn"), output="z").figure)


def contrast(one, other) -> float:
    """The contrast of two colours, as the guidelines of web pages compute it."""
    lights = []
    for colour in (one, other):
        parts = np.array(plt.matplotlib.colors.to_rgb(colour))
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        lights.append(float(linear @ [0.2126, 0.7152, 0.0722]))
    return (max(lights) + 0.05) / (min(lights) + 0.05)


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.filterwarnings("ignore:.*have no scale")
def test_on_a_dark_background_texts_are_legible(name):
    """Numbers in cells are black on their colour; all other texts have a contrast of 3 to the figure."""
    with plt.style.context("dark_background"):
        figure = DRAWN[name]().figure
        for text, _ in texts_in(figure):
            in_cell = name in ("heatmap", "interactions") and text.get_color() == "#000000"
            assert in_cell or contrast(text.get_color(), figure.get_facecolor()) >= 3, text
