"""The index of a data frame as the key of its rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.tables.frame_index import with_index

NAMES = ["Größe", "b"]
CUSTOMERS = [f"kundin {i}" for i in range(6)]


def first(x):
    return np.asarray(x)[:, 0]


@pytest.fixture
def frame(rng):
    return pd.DataFrame(rng.normal(size=(6, 2)), columns=NAMES)


def explained(frame, **options):
    value = dshap.values.Marginal(first, frame[NAMES].to_numpy(), feature_names=NAMES)
    return dshap.explain(value, frame, **options)


def test_a_named_index_is_the_key(frame):
    frame.index = pd.Index(CUSTOMERS, name="customer")
    cube = explained(frame)
    assert cube.customer.values.tolist() == CUSTOMERS
    assert cube.feature.values.tolist() == NAMES
    np.testing.assert_array_equal(cube["row_Größe"].values, frame["Größe"])


def test_the_columns_of_a_function_of_arrays_are_those_without_the_index(frame):
    frame.index = pd.Index(range(10, 16), name="id")
    value = dshap.values.Marginal(first, frame.to_numpy())
    cube = dshap.explain(value, frame)
    assert cube.sizes["feature"] == 2
    assert cube.id.values.tolist() == list(range(10, 16))


def test_an_index_of_levels_is_a_key_of_columns(frame):
    days = pd.to_datetime(["2026-01-01", "2026-01-02"]).repeat(3)
    frame.index = pd.MultiIndex.from_arrays([days, [1, 2, 3] * 2], names=["day", "shop"])
    cube = explained(frame)
    assert cube.day.values.astype("datetime64[D]").tolist() == list(days.date)
    assert cube.shop.values.tolist() == [1, 2, 3] * 2


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(6),
        pd.Index(CUSTOMERS),
        pd.Index(np.linspace(0, 1, 6), name="share"),
        pd.Index([*CUSTOMERS[:5], None], name="customer"),
        pd.Index(range(6), name="b"),
        pd.MultiIndex.from_arrays([range(6), range(6)], names=["a", None]),
    ],
    ids=["default", "no name", "floats", "missing", "name of a column", "half a name"],
)
def test_another_index_is_no_key(frame, index):
    frame.index = index
    lines = []
    rows, key = with_index(frame, None, lines.append)
    assert rows is frame
    assert key is None
    assert not lines


def test_an_index_that_repeats_is_told(frame):
    frame.index = pd.Index([7, 8, 8, 9, 10, 11], name="customer")
    lines = []
    rows, key = with_index(frame, None, lines.append)
    assert rows is frame
    assert key is None
    assert (
        lines[-1] == "the index 'customer' repeats (8 more than once), so that it cannot be the key"
    )


def test_a_key_that_is_given_counts(frame):
    frame["id"] = range(20, 26)
    frame.index = pd.Index(CUSTOMERS, name="customer")
    cube = explained(frame, key="id")
    assert cube.id.values.tolist() == list(range(20, 26))
    assert "customer" not in cube.coords


@pytest.mark.parametrize(
    ("index", "name"),
    [(pd.Index(CUSTOMERS), "index"), (pd.Index(CUSTOMERS, name="kunde"), "kunde")],
)
def test_an_index_that_is_given_is_the_key(frame, index, name):
    cube = explained(frame, key=index)
    assert cube[name].values.tolist() == CUSTOMERS


@pytest.mark.parametrize(
    ("rows", "index", "said"),
    [
        (np.zeros((6, 2)), pd.Index(range(6), name="id"), "rows are not a data frame"),
        (None, pd.Index(range(5), name="id"), "key has 5 values for 6 rows"),
        (None, pd.Index(range(6), name="b"), "the index and a column are both called 'b'"),
    ],
)
def test_an_index_that_does_not_fit_is_refused(frame, rows, index, said):
    with pytest.raises(InputError, match=said):
        with_index(frame if rows is None else rows, index, print)


def test_an_index_that_is_given_and_repeats_is_refused(frame, tmp_path):
    with pytest.raises(InputError, match=r"repeat|more than once|twice"):
        explained(frame, key=pd.Index([1, 1, 2, 3, 4, 5], name="id"), store=tmp_path / "c.zarr")
