"""Charts of Altair have the numbers of the records, texts under the pointer, and readable axes."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.analysis.dependences import dependence_of
from dshap.core.blocks import Status
from dshap.core.errors import InputError
from dshap.report import (
    bar,
    beeswarm,
    compare,
    dependence,
    drift_bars,
    force,
    heatmap,
    interactions,
    over_runs,
    waterfall,
)
from dshap.report.charts.chart_grammar import hex_colours, short_text
from dshap.report.panels import BLUE, GREY, RED, rgb_of
from tests.report.pictures.test_densities import memory_cube
from tests.report.pictures.test_interaction_triangle import with_interactions
from tests.report.pictures.test_over_runs import nights

GREY_OF_POINTS = hex_colours(rgb_of(GREY)[None])[0]


def test_altair_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    cube, _ = memory_cube(5)
    with pytest.raises(InputError, match=r'needs Altair: pip install "dshap\[altair\]"'):
        bar(cube, chart="altair")
    with pytest.raises(InputError, match=r"unknown chart 'plotly'.*Allowed: altair, matplotlib"):
        bar(cube, chart="plotly")
    with pytest.raises(InputError, match="ax with chart='altair': leave ax out"):
        bar(cube, chart="altair", ax=FakeAxes())
    with pytest.raises(InputError, match="ax is 3: give axes of matplotlib"):
        bar(cube, ax=3)


class FakeAxes:
    """An object with the methods of axes that are asked for."""

    def get_subplotspec(self):
        return None


def rows_of(chart, layer):
    """The rows of data of a layer, and its encoding, of a chart that was checked by Altair's schema."""
    spec = chart.to_dict()
    found = spec["layer"][layer]
    data = found.get("data", spec.get("data"))
    values = data.get("values")
    if values is None:
        values = spec["datasets"][data["name"]]
    return values, found["encoding"]


def points_of(chart, layer) -> list[list[dict]]:
    """The points of each line of a layer, as Vega computes them from the lists of its lines."""
    lines, _ = rows_of(chart, layer)
    transforms = chart.to_dict()["layer"][layer]["transform"]
    asked = {each["as"]: each["calculate"] for each in transforms if "calculate" in each}
    names, palette, rows = (
        json.loads(re.match(r"\[.*\](?=\[)", asked[field])[0])
        for field in ("feature", "colour", "row")
    )
    assert asked["y"] == f"datum.line - 1 + floor(datum.spot / {len(palette)}) / 100"
    assert asked["colour"].endswith(f"[datum.spot % {len(palette)}]")
    found = []
    for line in lines:
        points = zip(line["attribution"], line["short"], line["spot"], rows, strict=True)
        found.append(
            [
                {
                    "feature": names[line["line"]],
                    "attribution": phi,
                    "value": short,
                    "row": row,
                    "y": line["line"] - 1 + spot // len(palette) / 100,
                    "colour": palette[spot % len(palette)],
                }
                for phi, short, spot, row in points
            ]
        )
    return found


@pytest.mark.parametrize("n", [40, 2_100])
def test_swarms(n):
    pytest.importorskip("altair", reason="altair is not installed")
    cube, frame = memory_cube(n, d=5)
    frame.loc[3, "x0"] = np.nan
    chart = beeswarm(cube, rows=frame, chart="altair", max_display=2, title="All rows")
    assert chart.to_dict()["title"] == "All rows"
    rows, encoding = rows_of(chart, 1)
    phi = cube["attribution"].values[:, :, 0]
    ranked = np.argsort(-np.abs(phi).mean(axis=0), kind="stable")
    lines = [phi[:, ranked[0]], phi[:, ranked[1]], phi[:, ranked[2:]].sum(axis=1)]
    assert "sum of 3 other features" in encoding["y"]["axis"]["labelExpr"]
    if n == 40:
        points = points_of(chart, 1)
        found = [[each["attribution"] for each in line] for line in points]
        np.testing.assert_allclose(found, lines, rtol=1e-3)
        assert points[0][3]["value"] == "missing"
        assert [each["row"] for each in points[1]] == [f"{row}" for row in range(40)]
        assert points[0][5]["value"] == pytest.approx(frame["x0"][5], rel=1e-3)
        assert all(abs(each["y"] - at) < 0.5 for at in range(3) for each in points[at])
        order = np.argsort(frame["x0"].drop(3))
        known = [each for each in points[0] if each["value"] != "missing"]
        assert known[order.iloc[0]]["colour"] == BLUE
        assert known[order.iloc[-1]]["colour"] == RED
        assert {each["colour"] for each in [points[0][3], *points[2]]} == {GREY_OF_POINTS}
        assert {tip["field"] for tip in encoding["tooltip"]} == {
            "feature", "value", "attribution", "row",
        }  # fmt: skip
        return
    for at, values in enumerate(lines):
        own = [row for row in rows if at - 0.5 < row["y"] <= at + 0.5]
        assert min(row["attribution"] for row in own) == pytest.approx(values.min(), rel=1e-5)
        assert max(row["end"] for row in own) == pytest.approx(values.max(), rel=1e-5)


def test_the_end_of_a_density_is_its_largest_attribution_and_not_that_of_its_bin():
    """The bin of 7,194 reaches from 7,168 to 7,680, that of -51 from -52 to -48."""
    pytest.importorskip("altair", reason="altair is not installed")
    cube, _ = memory_cube(2_100)
    cube["attribution"][7, 0, 0] = 7_194.0
    cube["attribution"][8, 0, 0] = -51.0
    rows, _ = rows_of(beeswarm(cube, chart="altair"), 1)
    own = [row for row in rows if row["y"] <= 0 and row["feature"] == "x0"]
    assert own[-1]["attributions"].endswith(" to 7,194")
    assert own[0]["attributions"].startswith("\N{MINUS SIGN}51")
    assert beeswarm(cube).get_xlim() == pytest.approx((-51 - 217.35, 7_194 + 217.35))


def test_rows_without_attributions_have_no_points_and_keys_are_those_of_their_rows():
    pytest.importorskip("altair", reason="altair is not installed")
    cube, frame = memory_cube(30)
    cube = cube.assign_coords(id=("instance", [f'k"{row}' for row in range(30)]))
    cube["attribution"][4] = np.nan
    cube["status"][4] = Status.FAILED
    with pytest.warns(UserWarning, match="failed"):
        chart = beeswarm(cube, rows=frame, chart="altair")
    for line in points_of(chart, 1):
        assert len(line) == 29
        assert line[4]["row"].endswith("5")


@pytest.mark.parametrize(
    "text", ["0.1235", "−1,234.5", "12", "-1", "1.50", "1e5", "nan", "81%", "—"]
)
def test_a_short_text_is_written_as_it_was(text):
    """Numbers that Vega writes as the text; others stay texts."""
    found = short_text(text)
    is_number = text in ("0.1235", "−1,234.5", "12")
    assert isinstance(found, float) is is_number
    if not is_number:
        assert found == text
    else:
        assert f"{found:,}".removesuffix(".0").replace("-", "−") == text


def test_charts_of_2000_rows_and_21_lines_are_a_megabyte():
    """A row of data for each point made 4.7 and 13.6 MB of them."""
    pytest.importorskip("altair", reason="altair is not installed")
    cube, frame = memory_cube(1_999, d=30)
    chart = beeswarm(cube, rows=frame, chart="altair")
    assert 500_000 < len(chart.to_json(indent=None).encode()) <= 1_100_000
    with pytest.warns(RuntimeWarning, match="have no scale"):
        both = compare({"a": cube, "b": cube.copy()}, chart="altair")
    assert 500_000 < len(both.to_json(indent=None).encode()) <= 1_300_000
    one = dependence(cube, "x0", "x1", rows=frame, chart="altair")
    assert len(one.to_json(indent=None).encode()) <= 300_000


def test_a_heavy_tail_has_the_same_axis_as_in_matplotlib():
    pytest.importorskip("altair", reason="altair is not installed")
    cube, frame = memory_cube(300)
    frame["x0"] = np.append(np.linspace(-2, 2, 299), 40_000.0)
    chart = dependence(cube, "x0", "", rows=frame, chart="altair")
    _, encoding = rows_of(chart, 1)
    shown = dependence_of(cube, "x0", "", frame)
    assert encoding["x"]["scale"]["type"] == "symlog"
    assert encoding["x"]["scale"]["constant"] == shown.scale.constant
    assert encoding["x"]["scale"]["domain"] == [-2.0, 40_000.0]
    assert encoding["x"]["axis"]["title"] == "x0 (symmetric log axis)"
    texts = json.loads(encoding["x"]["axis"]["labelExpr"].split("[indexof")[0])
    assert ["10,000"] in texts
    assert len(texts) == len(encoding["x"]["axis"]["values"]) >= 4


def test_every_picture_is_a_chart(tmp_path):
    """Altair checks each against its schema when it becomes a dictionary."""
    pytest.importorskip("altair", reason="altair is not installed")
    cube, frame = memory_cube(60, d=14)
    frame["plan"] = np.where(np.arange(60) % 2, "pro & <b>", "Büro")
    paired, _ = with_interactions(30, 25)
    found = dshap.mmd_drift(np.eye(5), np.zeros((5, 5)), n_permutations=19)
    nights(tmp_path / "churn")
    with pytest.warns(UserWarning, match="not finished"):
        runs = over_runs(tmp_path / "churn", output="z", chart="altair", max_display=1)
    with pytest.warns(RuntimeWarning, match="have no scale"):
        both = compare({"a": cube, "b": cube}, chart="altair", max_display=3)
    charts = {
        "bar": bar(cube, chart="altair", max_display=3),
        "by": bar(cube, by="plan", rows=frame, chart="altair", max_display=3),
        "plan": dependence(cube, "x1", "plan", rows=frame, chart="altair"),
        "waterfall": waterfall(cube, 3, rows=frame, chart="altair"),
        "force": force(cube, 3, rows=frame, chart="altair"),
        "heatmap": heatmap(cube, "plan", rows=frame, chart="altair", max_display=3),
        "interactions": interactions(paired, chart="altair"),
        "drift": drift_bars(found, chart="altair", max_display=2),
        "runs": runs,
        "both": both,
    }
    sums = {
        "bar": "sum of 11 other features",
        "by": "sum of 11 other features",
        "waterfall": "sum of 3 other features",
        "heatmap": "sum of 11 other features",
        "interactions": "sum of 5 other features",
        "drift": "sum of 3 other columns",
        "runs": "other feature",
        "both": "sum of 11 other features",
    }
    for name, chart in charts.items():
        text = json.dumps(chart.to_dict(), ensure_ascii=False)
        assert sums.get(name, "") in text, name
        assert '"tooltip"' in text


def test_categories_and_missing_values_are_named_below_a_dependence():
    pytest.importorskip("altair", reason="altair is not installed")
    cube, frame = memory_cube(2_100)
    frame["x0"] = pd.Series(np.where(frame["x0"] > 0, "hoch", "tief"), dtype=object)
    frame.loc[:99, "x0"] = None
    _, encoding = rows_of(dependence(cube, "x0", "", rows=frame, chart="altair"), 1)
    assert '[["hoch"], ["tief"], ["100 missing"]]' in encoding["x"]["axis"]["labelExpr"]
