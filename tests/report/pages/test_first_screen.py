"""The five sentences of the first screen: what, for whom, what drives it, how sure, what not."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.analysis.rankings import Ranking
from dshap.cube.blocks import CubeArrays
from dshap.report.pages.first_screen import first_screen, prediction_words
from tests.cube.cubes import make_cube
from tests.report.pages.page_names import plain_texts

CARD = {
    "purpose": "Renewal risk",
    "owner": "Pricing team",
    "contact": "p@x.example",
    "audience": "the board",
    "model": "a <b>",
    "target": "whether a policy lapses",
    "source": "the warehouse",
    "period": "May 2026",
    "population": "motor policies",
}
RANKING = Ranking("one", 21, {"a": 3.0, "b": 2.0, "c": 1.0, "d": 4.0}, {})


def screen(path, card=None, about=None, ranking=RANKING, value=None, **change):
    run = {"digest": "d1", "fingerprint": {"value": value or {"value": "marginal"}}}
    make_cube(path, outputs=("y",), run=run, **change)
    texts = plain_texts("abcd", d={"label": "Debt"})
    return first_screen(
        {"one": path}, card or {}, about or {}, [("y", [ranking])], ["It predicts 3; "], texts
    )


def test_a_card_is_told_in_sentences(tmp_path):
    found = screen(tmp_path / "s", CARD)
    assert found.what == (
        "The model, a <b>, predicts whether a policy lapses; this page explains its predictions for "
        "all 21 rows of the warehouse (motor policies), for May 2026."
    )
    assert found.whom == "The model's owner is Pricing team (p@x.example), and it is for the board."
    assert found.drives == (
        "It predicts 3; “Debt”, “a” and “b” move predictions most: together 90 % of all movement.",
    )
    assert "exact for these rows" in found.sure[0]
    assert "its value was treated as unknown and filled in from other rows" in found.limits
    assert "not what causes the outcome" in found.limits
    assert "whether the model is fair" in found.limits


def test_without_a_card_the_run_says_what_it_can(tmp_path):
    about = {"table": "policies.parquet", "model kind": "xgboost", "day": "2026-05-04"}
    found = screen(tmp_path / "s", about=about, tiles=[0, 2], skipped=(1,))
    assert "The model, boosted trees of XGBoost, predicts “y”" in found.what
    assert "11 of 21 rows of policies.parquet, for 2026-05-04." in found.what
    assert found.whom == "The model has no named owner."
    bare = screen(tmp_path / "bare")
    assert "computed on 20" in bare.what


def test_estimates_have_their_errors(tmp_path):
    errors = {"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.5}
    sampled = Ranking("one", 21, RANKING.magnitude, {}, errors)
    found = screen(tmp_path / "s", ranking=sampled)
    assert (
        "the share of “Debt” is within ± 9.8 % of all movement in 19 of 20 cases" in found.sure[0]
    )
    spread = Ranking("one", 21, RANKING.magnitude, {}, magnitude_spread={"d": 0.5})
    exact = screen(tmp_path / "e", ranking=spread).sure[0]
    assert exact.startswith("The shares are exact for these rows")
    assert "for other rows like these, the share of “Debt” is within ± 10.4 % of all" in exact
    unknown = Ranking("one", 21, RANKING.magnitude, {}, {**errors, "d": np.nan})
    assert "of unknown error" in screen(tmp_path / "u", ranking=unknown).sure[0]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"value": "trees", "absent": "path-dependent"}, "the branches of the trees"),
        ({"value": "trees", "absent": "interventional"}, "filled in from other rows"),
        ({"value": "kernel_observational"}, "rows that are alike"),
        ({"value": "linear_gaussian", "kind": "interventional"}, "filled in from other rows"),
        ({"value": "linear_gaussian", "kind": "observational"}, "rows that are alike"),
        ({"value": "tokens"}, "reference word"),
        ({"value": "mine"}, "the rule of its value function"),
    ],
)
def test_how_an_unknown_value_was_replaced(tmp_path, value, said):
    assert said in screen(tmp_path / "s", value=value).limits


def test_predictions_are_probabilities_where_they_can_be(tmp_path):
    chances = np.array([[0.1], [0.2], [0.3], [0.4], [0.5]])
    sample = np.log(chances / (1.0 - chances))
    make_cube(tmp_path / "odds", outputs=("log-odds of yes",), scale="log-odds")
    said = prediction_words(CubeArrays(tmp_path / "odds"), 0, sample, "1")
    assert (
        said
        == "The mean predicted probability of “yes” is 30 %, and half of the rows have 20 % to 40 %; "
    )
    make_cube(tmp_path / "power", outputs=("y",))
    said = prediction_words(CubeArrays(tmp_path / "power"), 0, 1_000.0 * sample, "kW")
    assert said.startswith("The mean prediction is −9")
    assert " kW, and half" in said
    assert prediction_words(CubeArrays(tmp_path / "power"), 0, sample[:0], "kW") == ""
