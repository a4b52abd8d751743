"""Names on a page: no two features have one, values have theirs, and rows have addresses."""

from __future__ import annotations

import pytest

from dshap.analysis.column_texts import ColumnTexts
from dshap.core.column_dictionary import ColumnDictionary
from dshap.report.pages.page_texts import NAME, PageTexts, class_of, row_address


def test_no_two_features_have_one_name():
    long = "balance_of_all_accounts_of_the_household_in_"
    features = [f"{long}{year}_of_the_calendar" for year in (2023, 2024)] + ["a", "b", "c"]
    dictionary = ColumnDictionary.of({"a": {"label": "Age"}, "b": {"label": "Age"}})
    texts = PageTexts.named(ColumnTexts(dictionary), features)
    assert len(set(texts.names)) == len(features)
    assert all(len(name) <= NAME + 6 for name in texts.names)
    assert texts.name("c") == "c"
    assert texts.name("gone") == "gone"
    assert texts.quoted("c") == "“c”"


def test_values_have_names_units_and_the_minus_sign():
    entry = {
        "change": {"format": ".1%"},
        "plan": {"values": {"0": "basic"}},
        "age": {"unit": "years"},
    }
    texts = PageTexts.named(ColumnTexts(ColumnDictionary.of(entry)), ["change", "plan", "age", "x"])
    assert texts.value("change", -0.05) == "−5.0%"
    assert texts.value("plan", 0.0) == "basic"
    assert texts.value("age", 41.0) == "41 years"
    assert texts.value("x", -2.5) == "−2.5"
    assert texts.value("change", -0.0) == texts.value("change", -0.0001) == "0.0%"
    assert texts.value("age", 41.0, with_unit=False) == "41"
    assert texts.axis("age") == "age (years)"
    assert texts.axis("x") == "x"
    assert texts.has_named_values("plan")
    assert not texts.has_named_values("age")


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ("log-odds of yes", "yes"),
        ("score of a b", "a b"),
        ("margin of <i>", "<i>"),
        ("count", "count"),
    ],
)
def test_outputs_are_called_by_their_classes(output, name):
    assert class_of(output) == name


def test_addresses_of_rows():
    assert row_address(["1234567"]) == "#row=1234567"
    assert row_address(["Zürich, süd", "a/b"]) == "#row=Z%C3%BCrich%2C%20s%C3%BCd,a%2Fb"
