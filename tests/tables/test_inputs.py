"""Rows to explain and data to learn from: opened once where they are one table, in one list of
categories."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dshap.core.errors import InputError
from dshap.engine import LoopExecutor
from dshap.run.session import Session
from dshap.storage.running import alone
from dshap.tables import ArraySource, Inputs, open_for, refuse_unknown_categories
from dshap.values import Marginal

X = np.array([[0.0, 1.0, 5.0], [0.0, 2.0, 5.0], [0.0, 3.0, 5.0]])


@pytest.fixture
def site(tmp_path):
    with alone(tmp_path / "store", "a run") as workspace:
        yield Session(LoopExecutor(), workspace)


def first_column(rows: np.ndarray) -> np.ndarray:
    return rows[:, 0]


def letters(frame: pd.DataFrame) -> np.ndarray:
    return (frame["letter"] == "a").to_numpy(dtype=float)


def lettered(*values: str) -> pd.DataFrame:
    return pd.DataFrame({"letter": list(values), "x": np.arange(float(len(values)))})


def test_one_table_is_opened_and_counted_once(site):
    value = Marginal(first_column, X)
    inputs = Inputs.open(value, value.data, site)
    assert inputs.rows is inputs.data
    assert inputs.census is inputs.data_census
    two = Inputs.open(value, X + 1.0, site)
    assert two.rows is not two.data
    assert two.census != two.data_census


def test_players_that_vary_in_rows_or_between_rows_and_data(site):
    value = Marginal(first_column, X)
    np.testing.assert_array_equal(
        Inputs.open(value, X, site).active_players(), [False, True, False]
    )
    # constant in both, and not the same constant
    moved = Inputs.open(value, X + np.array([1.0, 0.0, 0.0]), site)
    np.testing.assert_array_equal(moved.active_players(), [True, True, False])
    alone = Marginal(first_column, X[:1])
    np.testing.assert_array_equal(
        Inputs.open(alone, X[:1], site).active_players(), [True, False, False]
    )


def test_categories_of_the_rows_follow_those_of_the_data(site):
    value = Marginal(letters, lettered("m", "a"))
    inputs = Inputs.open(value, lettered("z", "a", "b"), site)
    assert inputs.value.model.categories == {"letter": ("a", "m", "b", "z")}
    np.testing.assert_array_equal(inputs.rows.read(0, 3).x[:, 0], [3.0, 0.0, 2.0])


def test_rows_to_learn_from_bring_no_category(site):
    value = Marginal(letters, lettered("m", "a"))
    refuse_unknown_categories(open_for(value, lettered("a", "m"), site), site)
    with pytest.raises(
        InputError,
        match="column 'letter' contains 'b', which is not in the data of the value function",
    ):
        refuse_unknown_categories(open_for(value, lettered("a", "z", "b"), site), site)


def test_where_no_column_is_coded_no_row_is_read(site, monkeypatch):
    reader = ArraySource(X)
    monkeypatch.setattr(ArraySource, "read", lambda *_, **__: pytest.fail("a row is read"))
    refuse_unknown_categories(reader, site)
