"""Categories that a model does not take: a fault of the rows that hold them, by the policy for
missing values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.blocks import Status
from dshap.core.errors import InputError
from dshap.values import Marginal, Trees

N = 300
UNSEEN = {200: "zz", 120: "yy", 121: "yy"}


@pytest.fixture(autouse=True)
def alone(in_this_process) -> None:
    """No cluster of another test."""


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"city": rng.choice(["a", "b", "c"], N), "x": rng.normal(size=N)})


def with_unseen(table: pd.DataFrame) -> pd.DataFrame:
    """Two cities that no model here was made for, and one more (d) that its background lacks and it
    takes."""
    return table.assign(
        city=[UNSEEN.get(row, "d" if row == 7 else city) for row, city in enumerate(table.city)]
    )


def strict(frame: pd.DataFrame) -> np.ndarray:
    """As a OneHotEncoder of scikit-learn does by default."""
    if unknown := sorted(set(frame["city"].dropna()) - set("abcd")):
        raise ValueError(f"Found unknown categories {unknown}")
    return np.asarray(frame["x"] * (frame["city"] == "a"))


def indifferent(frame: pd.DataFrame) -> np.ndarray:
    return np.asarray(frame["x"] * (frame["city"] == "a"))


@pytest.mark.parametrize("missing", ["refuse", "pass"])
def test_the_refusal_counts_rows_and_names_column_and_values(table, missing):
    with pytest.raises(InputError) as raised:
        dshap.explain(
            Marginal(strict, table[:50]), with_unseen(table), missing=missing, progress=False
        )
    said = str(raised.value)
    assert said.startswith(
        "3 rows with a category that the model does not take: column 'city' contains 'yy' in 2 rows, "
        "'zz' in 1 row ("
    )
    assert "Found unknown categories ['yy']" in said
    assert said.endswith('set missing = "skip" to leave such rows out')


def test_a_category_that_trees_refuse_is_told_once(table):
    xgboost = pytest.importorskip("xgboost")
    rows = table.assign(city=table.city.astype("category"))
    model = xgboost.XGBRegressor(n_estimators=2, n_jobs=1, enable_categorical=True)
    model.fit(rows, table.x)
    with pytest.raises(InputError) as raised:
        dshap.explain(Trees(model), with_unseen(table), progress=False)
    said = str(raised.value)
    assert said.count("column 'city' contains") == 1
    assert said.count("'yy'") == 1
    assert "(a category that the model was not fitted on, which XGBoost refuses: " in said


@pytest.mark.slow
@pytest.mark.parametrize("is_file", [False, True])
def test_their_rows_are_skipped_and_the_others_are_what_they_are_without(table, tmp_path, is_file):
    rows = with_unseen(table)
    rows.to_parquet(tmp_path / "rows.parquet")
    value = Marginal(strict, table[:50])
    given = tmp_path / "rows.parquet" if is_file else rows
    cube = dshap.explain(value, given, missing="skip", progress=False)
    skipped = [*UNSEEN]
    assert np.flatnonzero(cube.status == Status.SKIPPED).tolist() == sorted(skipped)
    assert np.isnan(cube.attribution.values[skipped]).all()
    alone = dshap.explain(value, rows.drop(index=skipped), progress=False)
    np.testing.assert_array_equal(
        np.delete(cube.attribution.values, skipped, axis=0), alone.attribution.values
    )


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["refuse", "skip", "pass"])
def test_a_model_that_takes_them_gets_them(table, missing):
    cube = dshap.explain(
        Marginal(indifferent, table[:50]), with_unseen(table), missing=missing, progress=False
    )
    assert (cube.status == Status.OK).all()


def test_new_categories_that_a_model_takes_are_told_with_their_rows(table, capsys):
    """LightGBM takes them for missing, its other models by rules of their own."""
    lightgbm = pytest.importorskip("lightgbm")
    known = table.assign(city=table.city.astype("category"))
    rows = with_unseen(table).assign(city=lambda frame: frame.city.astype("category"))
    model = lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1, min_child_samples=2)
    value = Trees(model.fit(known, table.x * (table.city == "a")))
    cube = dshap.explain(value, rows, progress=True)
    line = (
        "column 'city' has unknown categories in 4 rows, such as 'd': the model accepts them, so these "
        "rows are explained"
    )
    assert capsys.readouterr().err.count(line) == 1
    total = cube.attribution.sum("feature") + cube.base_value
    np.testing.assert_allclose(np.ravel(total), model.predict(rows), rtol=1e-6)
    dshap.explain(value, known, progress=True)
    assert "category" not in capsys.readouterr().err


def test_the_model_is_asked_for_new_categories_by_halves(table):
    """One of a hundred: a call for all, then two for each halving, not one for each."""
    calls = []

    def counted(frame):
        calls.append(set(frame["city"]))
        return strict(frame)

    many = table.assign(
        city=[f"a{row}" if row < 100 else city for row, city in enumerate(table.city)]
    )
    known = {f"a{row}" for row in range(100)} - {"a57"}

    def but_one(frame):
        return counted(
            frame.assign(city=["a" if city in known else city for city in frame["city"]])
        )

    cube = dshap.explain(Marginal(but_one, table[:50]), many, missing="skip", progress=False)
    assert np.flatnonzero(cube.status == Status.SKIPPED).tolist() == [57]
    assert 0 < sum("a57" in cities for cities in calls) <= 8


def test_where_every_row_holds_one_there_is_nothing_to_explain(table):
    with pytest.raises(InputError):
        dshap.explain(
            Marginal(strict, table[:50]), table.assign(city="zz"), missing="skip", progress=False
        )


def test_trees_that_refuse_unseen_categories(table):
    xgboost = pytest.importorskip("xgboost")
    known = table.assign(city=table.city.astype("category"))
    rows = with_unseen(table).assign(city=lambda frame: frame.city.astype("category"))
    model = xgboost.XGBRegressor(n_estimators=3, enable_categorical=True).fit(known, table.x)
    value = Trees(model)
    with pytest.raises(
        InputError, match=r"4 rows with a category .* 'd' in 1 row, 'yy' in 2 rows, 'zz' in 1 row"
    ):
        dshap.explain(value, rows, progress=False)
    cube = dshap.explain(value, rows, missing="skip", progress=False)
    assert np.flatnonzero(cube.status == Status.SKIPPED).tolist() == [7, 120, 121, 200]
