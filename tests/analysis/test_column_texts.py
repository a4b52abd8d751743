"""The words for columns: labels, values, years; with and without a dictionary."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.analysis.column_texts import ColumnTexts, card_of, has_year_name, texts_of
from dshap.core.column_dictionary import ColumnDictionary

DICTIONARY = {
    "ratio": {"label": "Debt-to-income ratio", "format": ".0%", "direction": "lower is better"},
    "rent": {"label": "Miete", "unit": "€", "format": ",.2f", "description": "Warm."},
    "built": {"format": "year"},
    "season": {"values": {"1": "spring", "2": "summer"}, "order": ["2", "1"]},
    "owner": {"values": {"true": "an owner", "false": "no owner"}},
    "day": {"format": "%d.%m.%Y"},
    "count": {"format": "d"},
}
TEXTS = ColumnTexts(ColumnDictionary.of(DICTIONARY))


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("ratio", 0.814, "81%"),
        ("rent", 1234.5, "1,234.50"),
        ("rent", np.float32(0.5), "0.50"),
        ("built", 1976.0, "1976"),
        ("built", 1976.5, "1,976"),
        ("built", np.datetime64("1976-05-01T00:00", "ns"), "1976"),
        ("season", 1, "spring"),
        ("season", 2.0, "summer"),
        ("season", 3.0, "3"),
        ("owner", True, "an owner"),
        ("owner", np.False_, "no owner"),
        ("day", np.datetime64("2024-02-29T10:00", "us"), "29.02.2024"),
        ("count", 3.0, "3"),
        ("count", 3.25, "3.25"),
        ("other", np.datetime64("2024-02-29T00:00", "ns"), "2024-02-29"),
        ("other", np.datetime64("2024-02-29T10:30", "ns"), "2024-02-29T10:30:00"),
        ("other", 21_023, "21,023"),
        ("other", 21_023.4, "21,023"),
        ("other", "Köln\n", "Köln\\n"),
        ("other", True, "True"),
        ("other", np.inf, "inf"),
        *((name, value, "missing") for name in ("ratio", "other") for value in (None, np.nan, "")),
        ("day", np.datetime64("NaT", "D"), "missing"),
    ],
)
def test_values(column, value, text):
    assert TEXTS.value_text(column, value) == text


def test_units_follow_where_they_are_asked_for():
    assert TEXTS.value_text("rent", 5.0, with_unit=True) == "5.00 €"
    assert TEXTS.value_text("rent", None, with_unit=True) == "missing"
    assert TEXTS.value_text("ratio", 0.5, with_unit=True) == "50%"


def test_labels_and_axes():
    assert TEXTS.label_of("ratio") == TEXTS.axis_of("ratio") == "Debt-to-income ratio"
    assert TEXTS.axis_of("rent") == "Miete (€)"
    assert TEXTS.label_of("other") == TEXTS.axis_of("other") == "other"
    assert TEXTS.label_of("x" * 50, 9) == "xxxx…xxxx"
    assert TEXTS.description_of("rent") == "Warm."
    assert TEXTS.direction_of("ratio") == "lower is better"
    assert TEXTS.order_of("season") == ("2", "1")
    assert (
        TEXTS.unit_of("other") == TEXTS.description_of("other") == TEXTS.direction_of("other") == ""
    )


@pytest.mark.parametrize(
    ("name", "values", "is_year"),
    [
        ("year", [1976, 1999], True),
        ("yr_built", [1976.0, np.nan], True),
        ("YearBuilt", [1850.0, 1700.0], True),
        ("Baujahr", [1976], True),
        ("année", [1976], True),
        ("años", [1976], False),
        ("years_employed", [3.0, 12.0], False),
        ("yearly_income", [2500.0, 2400.0], False),
        ("built", [1976, 1999, 2004], True),
        ("built", [1976.0, 1999.5], False),
        ("built", [1976.0, 2500.0], False),
        ("one_value", [1998.0, 1998.0], False),
        ("flags", [True, False], False),
        ("texts", ["1976", "1999"], False),
        ("year", [np.nan, np.nan], False),
    ],
)
def test_plain_years(name, values, is_year):
    texts = ColumnTexts(sample={name: np.array(values)}.get)
    assert texts.is_year(name) is is_year
    if is_year:
        assert texts.value_text(name, values[0]) == str(int(values[0]))


def test_a_name_alone_says_year_where_no_values_are_known():
    assert has_year_name("Year of construction")
    assert not has_year_name("yearling")
    assert ColumnTexts().value_text("year", 1976) == "1976"
    assert ColumnTexts().value_text("built", 1976) == "1,976"


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"built": rng.integers(1950, 2020, 40), "area": rng.normal(1500, 300, 40)})


def value_of(frame):
    return dshap.values.Marginal(lambda x: x[:, 0] + x[:, 1], frame[:10])


def test_a_cube_in_memory_and_one_in_a_store(frame, tmp_path):
    columns = {"area": {"label": "Fläche", "unit": "m²"}}
    store = tmp_path / "c.zarr"
    given = {"columns": columns, "card": {"purpose": "Preise"}}
    in_memory = dshap.explain(value_of(frame), frame, **given)
    opened = dshap.explain(value_of(frame), frame, store=store, keep_rows=True, **given)
    for cube in (in_memory, opened, store, str(store)):
        texts = texts_of(cube)
        assert texts.axis_of("area") == "Fläche (m²)"
        assert texts.value_text("built", 1976) == "1976"
        assert card_of(cube) == {"purpose": "Preise"}


def test_a_cube_without_a_dictionary(frame, tmp_path):
    cube = dshap.explain(value_of(frame), frame, store=tmp_path / "c.zarr")
    texts = texts_of(cube)
    assert texts.axis_of("built") == "built"
    assert texts.value_text("built", 1976) == "1,976", "no values of the column are known"
    assert texts_of(cube, frame).value_text("built", 1976) == "1976"
    assert card_of(cube) == {}


def test_rows_that_are_pending_are_no_years(frame, tmp_path):
    """Their stored values are 0."""
    store = tmp_path / "c.zarr"
    dshap.explain(value_of(frame), frame, store=store, keep_rows=True, compute=False)
    assert not texts_of(store).is_year("built")
    dshap.explain(value_of(frame), frame, store=store, keep_rows=True)
    assert texts_of(store).is_year("built")
