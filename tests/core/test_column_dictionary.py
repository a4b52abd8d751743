"""The dictionary of columns: its fields are checked, and it comes back as it was."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from dshap.core.column_dictionary import (
    COLUMNS,
    ColumnDictionary,
    ColumnEntry,
    dictionary_of_frame,
    formatted,
    formatted_time,
)
from dshap.core.errors import InputError

WHOLE = {
    "label": "Debt-to-income ratio",
    "unit": "€/m²",
    "format": ".0%",
    "description": "Monthly debt payments divided by monthly income",
    "order": ["low", "mittel", "hoch 🚀"],
    "values": {"1": "spring"},
    "direction": "lower is better",
}


def test_every_field_comes_back():
    given = ColumnDictionary.of({"debt ratio": WHOLE, "seal": {}, "entries": {"unit": "kg"}})
    note = json.loads(json.dumps(given.to_note(), sort_keys=True))
    assert ColumnDictionary.of_note(note) == given
    assert ColumnDictionary.of_attributes({COLUMNS: json.dumps(note)}) == given
    assert given["debt ratio"].to_dict() == WHOLE
    assert given["debt ratio"].order == ("low", "mittel", "hoch 🚀")


def test_an_empty_dictionary_is_no_note():
    assert ColumnDictionary.of(None).to_note() == {} == ColumnDictionary.of({}).to_note()
    assert (
        ColumnDictionary.of_note(None) == ColumnDictionary() == ColumnDictionary.of_attributes({})
    )


@pytest.mark.parametrize("note", [3, "x", [], {"entries": 3}, {"entries": {"a": {"later": 1}}}])
def test_a_note_of_something_else_is_left_out(note):
    """Another program, or a later version, may have put it there."""
    assert ColumnDictionary.of_attributes({COLUMNS: json.dumps(note)}) == ColumnDictionary()


def test_labels():
    given = ColumnDictionary.of({"a": {"label": "Alter"}, "b": {}})
    assert [given.label_of(name) for name in "abc"] == ["Alter", "b", "c"]
    assert given.entry("c") == ColumnEntry()
    assert given.over(ColumnDictionary.of({"a": {"label": "x"}, "d": {}})).label_of("a") == "Alter"
    assert list(given.only(["b", "c"])) == ["b"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"labl": "x"}, r"columns 'a': unknown field 'labl'; did you mean 'label'\?"),
        ({"label": 3}, "columns 'a' label = 3: give a text"),
        ({"format": "€"}, "columns 'a' format = '€': give a format of Python"),
        ({"format": ".999f"}, "with widths and decimals below 100"),
        ({"format": "1000000000d"}, "with widths and decimals below 100"),
        ({"format": "s"}, "give a format of Python"),
        ({"direction": "up"}, "unknown direction 'up'. Allowed: higher is better, lower is better"),
        ({"order": "low"}, "order = 'low': give a list of categories"),
        ({"order": ["a", "b", "a"]}, "order names 'a' twice"),
        ({"values": ["a"]}, "give a text for each value"),
        (["label"], "give a mapping of fields"),
    ],
)
def test_a_bad_entry_is_one_clear_line(entry, message):
    with pytest.raises(InputError, match=message) as caught:
        ColumnDictionary.of({"a": entry})
    assert "\n" not in str(caught.value)


def test_what_is_no_dictionary():
    with pytest.raises(InputError, match="columns = 3: give a dictionary of columns"):
        ColumnDictionary.of(3)


def test_unknown_columns_and_categories():
    given = ColumnDictionary.of({"plan": {"order": ["gold", "silber"]}})
    given.refuse_unknown(["plan"])
    given.refuse_categories({"plan": ["silber", "gold", "basic"], "city": ["Ulm"]})
    with pytest.raises(InputError, match=r"unknown column 'plan'; did you mean 'plans'\?"):
        given.refuse_unknown(["plans"])
    with pytest.raises(
        InputError, match=r"'plan' order: unknown category 'silber'; did .* 'silver'"
    ):
        given.refuse_categories({"plan": ["silver", "gold"]})
    named = ColumnDictionary.of({"plan": {"values": {"g": "gold"}}})
    with pytest.raises(InputError, match="'plan' values: unknown category 'g'"):
        named.refuse_categories({"plan": ["silver", "gold"]})


def test_texts_for_values_that_a_column_of_numbers_cannot_have():
    given = ColumnDictionary.of({"late": {"values": {"1": "yes", "-0.5": "no"}}})
    given.refuse_texts_of_numbers(["late", "age"])
    given = ColumnDictionary.of({"late": {"values": {"true": "ja", "false": "nein"}}})
    given.refuse_texts_of_numbers(["age"])
    with pytest.raises(
        InputError, match=r"\[columns.late\] values: 'true' is no number, and .* \"1\""
    ):
        given.refuse_texts_of_numbers(["late"], "[columns]")


def test_a_shared_dictionary_may_have_columns_of_other_jobs():
    given = ColumnDictionary.of({"income": {}, "rent": {}, "debt_ratio": {}})
    given.refuse_mistyped(["income", "plan"])
    given.refuse_mistyped(["income", "debt_ratio", "debt_ratios"][:2])
    with pytest.raises(
        InputError, match=r"unknown column 'debt_ratio'; did you mean 'debt_rate'\?"
    ):
        given.refuse_mistyped(["income", "debt_rate"])


def test_frames_bring_the_entries_of_their_columns():
    frame = pd.DataFrame({"a": [1.0], "b": [2.0]})
    frame.attrs["columns"] = {"a": {"label": "A"}, "gone": {"label": "x"}}
    assert dictionary_of_frame(frame) == ColumnDictionary.of({"a": {"label": "A"}})
    assert dictionary_of_frame(frame[["b"]]) == ColumnDictionary()
    for other in (["a"], {"a": 3}, "x"):
        frame.attrs["columns"] = other
        assert dictionary_of_frame(frame) == ColumnDictionary()
    frame.attrs["columns"] = {"a": {"labl": "A"}}
    with pytest.raises(InputError, match=r"attrs\[\"columns\"\] 'a': unknown field 'labl'"):
        dictionary_of_frame(frame)
    assert dictionary_of_frame([[1.0]]) == dictionary_of_frame(None) == ColumnDictionary()


def test_formats():
    assert formatted(0.814, ".0%") == "81%"
    assert formatted(3.0, "d") == "3"
    with pytest.raises(ValueError, match="Unknown format code"):
        formatted(3.5, "d")
    assert formatted_time(86_400_000_001, "%d.%m.%Y %f") == "02.01.1970 000001"
    assert formatted_time(-1, "%Y") == "1969"
