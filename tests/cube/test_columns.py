"""The explained columns that are given beside a cube."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dshap.core.errors import InputError
from dshap.cube.columns import columns_of
from tests.report.pictures.test_densities import memory_cube

DAYS = [datetime.date(2020, 1, 2), None, datetime.date(2020, 1, 3)]
TIMES = np.array(["2020-01-02", "NaT", "2020-01-03"], "datetime64[us]")


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"t": np.array(DAYS, object)}),
        pd.DataFrame({"t": pd.Series(TIMES).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")}),
        pa.table({"t": pa.array(DAYS)}),
        pa.table({"t": pa.array(TIMES).cast(pa.timestamp("ms", "Asia/Tokyo"))}),
    ],
)
def test_days_and_times_of_any_zone_are_times(frame):
    """They were numbers, in units of their own, missing ones far before all others."""
    cube, _ = memory_cube(3)
    values = columns_of(cube, frame)["t"](slice(0, 3))
    np.testing.assert_array_equal(values.astype("datetime64[us]"), TIMES)


def test_a_missing_text_of_arrow_stays_missing():
    """numpy's array of a dictionary has the text of another row in its place."""
    cube, _ = memory_cube(3)
    texts = pa.table({"s": pa.array(["a", None, "b"]).dictionary_encode()})
    values = columns_of(cube, texts)["s"](slice(0, 3))
    assert (values[0], pd.isna(values[1]), values[2]) == ("a", True, "b")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("x.parquet", "rows is 'x.parquet': give a data frame or a table"),
        (np.zeros(3), r"rows is a ndarray of shape \(3,\): give a data frame"),
        (pd.DataFrame(np.zeros((3, 2)), columns=["a", "a"]), "rows has more than one column 'a'"),
    ],
)
def test_rows_that_cannot_be(rows, said):
    cube, _ = memory_cube(3)
    with pytest.raises(InputError, match=said):
        columns_of(cube, rows)


def test_the_dictionary_of_columns_orders_categories():
    """Before the order of the data frame; other columns keep theirs."""
    import dshap

    sizes = pd.CategoricalDtype(["s", "m", "l"], ordered=True)
    frame = pd.DataFrame({"a": ["s", "m", "l"] * 3, "b": ["s", "m", "l"] * 3}).astype(sizes)
    value = dshap.values.Marginal(lambda rows: (rows["a"] == "s") + 1.0 * (rows["b"] == "m"), frame)
    cube = dshap.explain(value, frame, columns={"a": {"order": ["l", "m", "s"]}})
    assert {name: list(order) for name, order in columns_of(cube).orders.items()} == {
        "a": ["l", "m", "s"],
        "b": ["s", "m", "l"],
    }
