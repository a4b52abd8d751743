"""Units and scale in words, and explanations on two scales, which no figure shows together."""

from __future__ import annotations

import json

import pytest

from dshap.analysis.measures import (
    bracketed,
    scale_sentence,
    scales_differ,
    stated_scale,
    without_scale,
)
from dshap.analysis.rankings import rankings
from dshap.analysis.single_rows import breakdown
from dshap.core.scales import LOG_ODDS, MEANINGS, PROBABILITY, SCORE, TARGET, UNSTATED
from dshap.cube.arrays import create_store
from dshap.report.attribution_lines import breakdown_lines, ranking_lines
from dshap.report.pages.writing import page
from tests.cube.cubes import make_cube
from tests.report.pictures.test_densities import memory_cube


def test_words():
    assert bracketed("EUR", TARGET) == " (EUR)"
    assert bracketed("1", "") == ""
    assert bracketed("1", SCORE) == " (score)"
    assert scale_sentence(SCORE) == f"score: {MEANINGS[SCORE]}"
    assert scale_sentence("") == scale_sentence(TARGET) == scale_sentence(UNSTATED) == ""
    assert "later version" in scale_sentence("decibel")


def test_cubes_without_a_scale():
    old, _ = memory_cube(3)
    new, _ = memory_cube(3)
    new["attribution"].attrs["scale"] = SCORE
    assert without_scale({"new": new}) == ""
    assert without_scale({"a": old, "new": new}).startswith("a has no scale, because an earlier")
    assert without_scale({"a": old, "b": old}).startswith("a and b have no scale")


def test_cubes_of_functions_whose_scale_is_not_stated():
    """They are compared: among themselves without a word."""
    of_function, _ = memory_cube(3)
    of_function["attribution"].attrs["scale"] = UNSTATED
    of_trees, _ = memory_cube(3)
    of_trees["attribution"].attrs["scale"] = SCORE
    assert without_scale({"f": of_function, "g": of_function}) == ""
    both = {"f": of_function, "trees": of_trees}
    assert without_scale(both).startswith("f has no scale, because the model is a function")
    assert not scales_differ([UNSTATED, SCORE])
    assert not scales_differ(["", SCORE])
    assert scales_differ([TARGET, SCORE])
    assert stated_scale([of_function, of_trees]) == SCORE
    assert stated_scale([of_function, of_function]) == UNSTATED


@pytest.fixture
def store(tmp_path):
    """A job's store of two explanations of the same outputs, on two scales."""
    create_store(tmp_path / "job", {"name": "job"})
    run = {"digest": "d1", "fingerprint": {"rows": {"digest": "r1"}}}
    for name, scale in (("trees", LOG_ODDS), ("shares", PROBABILITY)):
        make_cube(tmp_path / "job" / name, scale=scale, units="1", run=run)
    return tmp_path / "job"


def test_tables_name_the_scale_of_each_explanation(store):
    """Once where all are on one scale, else beside each; a sentence says what it means."""
    cubes = {name: store / name for name in ("trees", "shares")}
    both = ranking_lines(rankings(cubes))
    assert "21 rows (trees, y, log-odds)" in both[0]
    assert "(shares, z, probability)" in both[0]
    assert both[-2:] == [scale_sentence(LOG_ODDS), scale_sentence(PROBABILITY)]
    one = ranking_lines(rankings({"trees": str(store / "trees")}))
    assert one[0].startswith("attributions (log-odds), over 21 rows (trees, y)")
    assert one[-1] == scale_sentence(LOG_ODDS)
    lines = breakdown_lines(breakdown(cubes))
    assert lines[2].split() == ["scale", "log-odds", "log-odds", "probability", "probability"]
    alone = breakdown_lines(breakdown({"trees": store / "trees"}), "EUR")
    assert alone[0].endswith(", EUR, log-odds")
    assert breakdown({"trees": store / "trees"}).to_dict()["parts"][0]["scale"] == LOG_ODDS


def test_a_page_states_scales_and_shows_two_of_them_apart(store):
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    text = page(store, store.with_suffix(".html")).read_text()
    assert MEANINGS[LOG_ODDS].partition(":")[0] in text
    for scale in (LOG_ODDS, PROBABILITY):
        assert f"mean |φ| ({scale})" in text
    assert "The explanations compared" not in text  # no output is on one scale in both
    rows = json.loads(text.partition('"parts":')[2].partition("],")[0] + "]")
    assert [each["units"] for each in rows] == [" (probability)"] * 2 + [" (log-odds)"] * 2
