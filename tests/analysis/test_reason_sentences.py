"""Reasons as sentences, word by word, from rows whose attributions are known."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.analysis.column_texts import ColumnTexts
from dshap.analysis.reason_sentences import (
    RowNumbers,
    SentenceWriter,
    sentences_of_rows,
    writer_of_store,
)
from dshap.core.column_dictionary import ColumnDictionary
from dshap.core.errors import InputError
from dshap.core.wordings import Wording
from dshap.cube.blocks import CubeArrays

DICTIONARY = {
    "ratio": {"label": "Debt-to-income ratio"},
    "guarantor": {"label": "Guarantor"},
    "income": {"label": "Income", "unit": "€", "format": ",.0f"},
    "season": {"values": {"1": "spring"}},
    "owner": {"values": {"0": "no owner", "1": "an owner"}},
    "place": {"label": "Location"},
    "lat": {"label": "latitude"},
    "bad": {"label": "Bad", "values": {"true": "Declined", "false": "Accepted"}},
    "price": {"label": "Price", "unit": "EUR", "format": ",.0f"},
}
GERMAN = {
    "ratio": {"label": "Verschuldungsgrad", "format": ".0%"},
    "guarantor": {"label": "Bürge"},
    "bad": {"label": "Abgelehnt"},
    "price": {"label": "Preis", "unit": "EUR", "format": ",.2f"},
}
VALUES = {
    "ratio": 0.81,
    "guarantor": True,
    "income": 5200.0,
    "season": 1,
    "owner": 0,
    "year": 1976.0,
    "plan": "gold",
    "lat": 52.5,
    "lon": -13.25,
}


def said(attributions, *, prediction=0.9, base=0.3, output="bad", scale="probability", **given):
    """The sentence about a row with these attributions of features."""
    options = {
        "wording": {},
        "values": VALUES,
        "dictionary": DICTIONARY,
        "is_predicted": None,
        **given,
    }
    writer = SentenceWriter(
        ColumnTexts(ColumnDictionary.of(options["dictionary"])),
        Wording.of(options["wording"]),
        list(attributions),
        scale,
        player_columns={"place": ("lat", "lon")},
    )
    phi = np.array([*attributions.values()])
    row = RowNumbers(phi, prediction, base, options["values"], options["is_predicted"])
    return writer.sentence(row, output)


def test_the_sentence_of_the_issue():
    assert said({"income": 0.01, "ratio": 0.66, "guarantor": -0.23}, wording={"k": 2}) == (
        "Declined mainly because the debt-to-income ratio is 0.81 (+0.66); "
        "a guarantor lowered it (−0.23)"
    )


def test_in_german():
    given = {"dictionary": GERMAN, "wording": {"language": "de"}}
    assert said({"ratio": 0.66, "guarantor": -0.23}, **given) == (
        "Abgelehnt, vor allem wegen: Verschuldungsgrad 81\N{NO-BREAK SPACE}% (+0,66); "
        "Bürge: ja wirkte senkend (−0,23)"
    )
    assert said({"ratio": 0.66, "guarantor": -0.23}, prediction=0.1, **given) == (
        "Nicht Abgelehnt, vor allem wegen: Bürge: ja (−0,23); "
        "Verschuldungsgrad 81\N{NO-BREAK SPACE}% wirkte erhöhend (+0,66)"
    )
    number = {**given, "scale": "unit of the target", "output": "price"}
    assert said({"ratio": 1234.0, "x": -1.0}, prediction=12345.6, base=11112.6, **number) == (
        "Preis: 12.345,60 EUR, vor allem wegen: Verschuldungsgrad 81\N{NO-BREAK SPACE}% (+1.234); "
        "x wirkte senkend (−1)"
    )


@pytest.mark.parametrize(
    ("prediction", "threshold", "begins"),
    [
        (0.5, None, "Declined mainly because the debt-to-income ratio is"),
        (0.49, None, "Accepted; the debt-to-income ratio of 0.81 raised it (+0.66)"),
        (0.49, 0.2, "Declined mainly"),
        (0.5, 0.6, "Accepted"),
    ],
)
def test_the_outcome_of_a_binary_model(prediction, threshold, begins):
    wording = {} if threshold is None else {"threshold": threshold}
    assert said({"ratio": 0.66}, prediction=prediction, wording=wording).startswith(begins)


def test_log_odds_change_at_zero():
    assert said({"ratio": 1.0}, prediction=0.1, scale="log-odds").startswith("Declined")
    assert said({"ratio": -1.0}, prediction=-0.1, scale="log-odds").startswith("Accepted mainly")


def test_an_outcome_without_words_for_its_opposite():
    assert said({"ratio": -0.2}, prediction=0.1, output="1") == (
        "Not 1 mainly because the debt-to-income ratio is 0.81 (−0.20)"
    )


def test_a_number_is_explained_by_what_moves_it_away_from_the_base_value():
    given = {"scale": "unit of the target", "output": "price"}
    assert said({"income": 30.0, "ratio": -120.4}, prediction=9.6, base=100.0, **given) == (
        "Price: 10 EUR mainly because the debt-to-income ratio is 0.81 (−120); "
        "the income of 5,200 € raised it (+30)"
    )
    assert said({"income": 30.0}, prediction=130.0, base=100.0, **given | {"output": "output"}) == (
        "Prediction: 130 mainly because the income is 5,200 € (+30)"
    )


@pytest.mark.parametrize(
    ("feature", "reason", "against"),
    [
        ("ratio", "the debt-to-income ratio is 0.81", "the debt-to-income ratio of 0.81"),
        ("guarantor", "there is a guarantor", "a guarantor"),
        ("owner", "there is no owner", "no owner"),
        ("season", "season is spring", "season of spring"),
        ("year", "year is 1976", "year of 1976"),
        ("plan", "plan is gold", "plan of gold"),
        (
            "place",
            "the location is latitude 52.5, lon −13.25",
            "the location of latitude 52.5, lon −13.25",
        ),
        ("unknown", "unknown plays a part", "unknown"),
    ],
)
def test_values_of_every_kind(feature, reason, against):
    assert said({feature: 0.5}) == f"Declined mainly because {reason} (+0.50)"
    assert said({feature: -0.5}) == f"Declined; {against} lowered it (−0.50)"


def test_missing_values_and_unset_flags():
    values = {"ratio": np.nan, "guarantor": False, "x": None, "flag": True}
    assert said({"ratio": 0.5, "guarantor": 0.4, "x": -0.1}, values=values) == (
        "Declined mainly because the debt-to-income ratio is missing (+0.50) and there is no "
        "guarantor (+0.40); the missing x lowered it (−0.10)"
    )
    assert said({"flag": 0.5}, values=values) == "Declined mainly because flag: yes (+0.50)"


@pytest.mark.parametrize("stored", ["memory", "store", "parquet"])
def test_flags_some_of_which_are_missing_are_answers_and_no_numbers(tmp_path, stored):
    """They are kept as 0, 1 and NaN; `visits` has the same numbers and is no flag."""
    rows = pd.DataFrame(
        {
            "owner": pd.array([True, None, True, False], "boolean"),
            "guest": pd.array([None, True, True, False], "boolean"),
            "visits": [0.0, 1.0, 1.0, 0.0],
        }
    )

    def predict(x):
        numbers = x.astype("float64").fillna(0.5)
        return numbers["owner"] - 0.5 * numbers["guest"] + 0.1 * numbers["visits"]

    value = dshap.values.Marginal(predict, rows)
    given = {"progress": False, "missing": "pass", "columns": {"guest": {"label": "Guest"}}}
    explained = rows
    if stored != "memory":
        given |= {"store": tmp_path / "s", "keep_rows": True}
    if stored == "parquet":
        rows.to_parquet(tmp_path / "rows.parquet")
        explained = tmp_path / "rows.parquet"
    cube = dshap.explain(value, explained, **given)
    (english,) = cube.dshap.sentences(2)
    assert re.fullmatch(
        r"Prediction: 0\.6 mainly because owner: yes \(\+0\.\d+\) and visits is 1 \(\+0\.\d+\); "
        r"a guest lowered it \(−0\.\d+\)",
        english,
    )
    (german,) = cube.dshap.sentences(3, language="de")
    assert "wegen: owner: nein (−" in german
    assert "Guest: nein wirkte erhöhend" in german
    assert "visits 0" in german
    assert "there is a guest (−0.19) and owner is missing" in cube.dshap.sentences(1)[0]
    about = cube["row_owner"].attrs
    assert (list(about["flag_values"]), about["flag_meanings"]) == ([0.0, 1.0], "false true")
    assert "flag_meanings" not in cube["row_visits"].attrs
    if stored != "memory":
        arrays = CubeArrays(tmp_path / "s")
        values = arrays.rows(arrays.columns, slice(0, 4))
        phi, predictions = cube["attribution"].values, cube["prediction"].values
        bases = np.broadcast_to(cube["base_value"].values, predictions.shape)
        lines = sentences_of_rows(
            writer_of_store(arrays), phi, predictions, bases, values, arrays.outputs
        )
        assert lines[2, 0] == english


def test_several_on_each_side():
    phi = {"ratio": 0.4, "plan": 0.3, "season": 0.2, "guarantor": -0.25, "year": -0.15}
    assert said(phi, wording={"k": 5}) == (
        "Declined mainly because the debt-to-income ratio is 0.81 (+0.40), plan is gold (+0.30) and "
        "season is spring (+0.20); a guarantor (−0.25) and year of 1976 (−0.15) lowered it"
    )


def test_rows_without_reasons():
    assert said({"ratio": 0.0, "plan": 1e-17}) == "Declined; no feature changed it"
    assert said({"ratio": np.nan}) == ""


def test_the_digits_are_two_of_the_largest():
    assert said({"ratio": 0.00123, "plan": -0.0004}).endswith(
        "(+0.0012); plan of gold lowered it (−0.0004)"
    )


def test_odd_names_stay_on_one_line():
    names = {'"Straße" 🚀\n': 0.5, "x" * 60: 0.4}
    sentence = said(names, values={})
    assert "\n" not in sentence
    assert "x" * 60 not in sentence


FRAME = pd.DataFrame({"a": [0.0, 1.0, 2.0, 0.5], "b": [1.0, 0.0, 1.0, 0.0]})


def three(x):
    scores = np.c_[x[:, 0], x[:, 1], np.full(len(x), 0.7)] + 0.1
    return scores / scores.sum(axis=1, keepdims=True)


def explained(predict, **given):
    value = dshap.values.Marginal(predict, FRAME, scale="probability")
    return dshap.explain(value, FRAME, **given)


def test_three_classes():
    cube = explained(three, columns={"output0": {"label": "Basic"}})
    assert cube.dshap.sentences(2)[0].startswith("Basic mainly because a is 2")
    assert len(cube.dshap.sentences(2)) == 1
    (other,) = cube.dshap.sentences(2, output="output1")
    assert other.startswith("Not output1 mainly because a is 2 (−")
    with pytest.raises(InputError, match="unknown output 'output9'"):
        cube.dshap.sentences(2, output="output9")


def test_several_numbers_have_a_sentence_each():
    value = dshap.values.Marginal(lambda x: np.c_[x[:, 0], x[:, 1]], FRAME)
    assert len(dshap.explain(value, FRAME).dshap.sentences(0)) == 2


def test_attributions_of_a_cube_are_those_of_its_sentence(tmp_path):
    """A linear model: φ = w (x − mean)."""
    value = dshap.values.Marginal(lambda x: 2 * x[:, 0] - x[:, 1], FRAME)
    frame = FRAME.assign(id=["k", "ü", "z", "q"])
    store = tmp_path / "c"
    dshap.explain(value, frame, key="id", store=store, keep_rows=True)
    phi = 2 * (0.0 - FRAME["a"].mean())
    (sentence,) = dshap.open_cube(store).dshap.sentences("k", k=1)
    assert f"a is 0 (−{abs(phi):.1f})" in sentence
    with pytest.raises(InputError, match="no row has the key"):
        dshap.open_cube(store).dshap.sentences("none")
    dshap.explain(value, frame, key="id", store=tmp_path / "d")
    bare = dshap.open_cube(tmp_path / "d").dshap.sentences("k", k=1)
    assert "because a plays a part" in bare[0]
    with_rows = dshap.open_cube(tmp_path / "d").dshap.sentences("k", k=1, rows=FRAME)
    assert "because a is 0" in with_rows[0]


def test_templates_and_a_row_without_attributions(tmp_path):
    value = dshap.values.Marginal(lambda x: x.sum(axis=1), FRAME)
    cube = dshap.explain(value, FRAME)
    templates = {"because": "{head} ← {reasons}", "reason": "{label}={value}", "k": 1}
    assert cube.dshap.sentences(2, templates=templates) == ["Prediction: 3 ← a=2"]
    pending = dshap.explain(value, FRAME, store=tmp_path / "c", compute=False)
    with pytest.raises(InputError, match="row 0 has no attribution"):
        pending.dshap.sentences(0)


def test_sentences_of_many_rows_are_those_of_each(tmp_path):
    store = tmp_path / "c"
    cube = explained(three, store=store, keep_rows=True, columns={"output0": {"label": "Basic"}})
    arrays = CubeArrays(store)
    phi = cube["attribution"].values.copy()
    phi[1] = np.nan
    found = sentences_of_rows(
        writer_of_store(arrays),
        phi,
        cube["prediction"].values,
        np.broadcast_to(cube["base_value"].values, (4, 3)),
        {name: FRAME[name].to_numpy() for name in FRAME},
        arrays.outputs,
    )
    assert found.shape == (4, 3)
    assert found[1].tolist() == [None] * 3
    for i in (0, 2, 3):
        for j, output in enumerate(arrays.outputs):
            assert [found[i, j]] == cube.dshap.sentences(i, output=output)


def test_a_row_explained_for_its_class():
    writer = SentenceWriter(ColumnTexts(), Wording.of({}), ["a"], "probability")
    found = sentences_of_rows(
        writer, np.full((2, 1, 1), 0.2), np.full((2, 1), 0.4), np.full((2, 1), 0.2), {},
        ["predicted class"], ["gold", "silver"],
    )  # fmt: skip
    assert [each.split()[0] for each in found[:, 0]] == ["Gold", "Silver"]
