"""Trees against a background: whole tables, samples, weights, prepared counts, kills and clusters."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.attributors.trees import TreeForm
from dshap.core.errors import InputError
from dshap.values import Marginal, Trees

pytestmark = pytest.mark.usefixtures("in_this_process")

ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5)).round(1)
    y = (1 + x[:, 0]) * (1 - x[:, 1]) + x[:, 2] * x[:, 3]
    return x, ensemble.RandomForestRegressor(6, max_depth=5, random_state=0).fit(x, y)


def same(found, wanted):
    for name in ("attribution", "base_value", "prediction"):
        np.testing.assert_allclose(found[name], wanted[name], atol=1e-11)


def test_the_table_itself(table):
    """ "all" is the rows that are explained, as an array, a frame or a file; a number is a sample."""
    x, model = table
    wanted = dshap.explain(Marginal(model.predict, x), x[:9])
    whole = dshap.explain(Trees(model, "all"), x)
    np.testing.assert_allclose(whole.attribution[:9], wanted.attribution, atol=1e-11)
    np.testing.assert_allclose(whole.base_value, model.predict(x).mean())
    np.testing.assert_array_equal(
        dshap.explain(Trees(model, 300), x).attribution, whole.attribution
    )
    few = [dshap.explain(Trees(model, 40), x) for _ in range(2)]
    np.testing.assert_array_equal(few[0].attribution, few[1].attribution)
    assert abs(float(few[0].base_value[0] - whole.base_value[0])) > 1e-6


def test_a_file_is_read_by_spans(table, tmp_path):
    x, model = table
    names = list("abcde")
    named = ensemble.RandomForestRegressor(6, max_depth=5, random_state=0).fit(
        pd.DataFrame(x, columns=names), model.predict(x)
    )
    pd.DataFrame(x, columns=names).to_parquet(tmp_path / "rows.parquet")
    rows = pd.DataFrame(x[:9], columns=names)
    same(
        dshap.explain(Trees(named, tmp_path / "rows.parquet"), rows, row_span=64),
        dshap.explain(Trees(named, pd.DataFrame(x, columns=names)), rows),
    )


@pytest.mark.parametrize("weights", [np.arange(50.0), np.r_[1e-12, 1.0, 1e6 * np.ones(48)]])
def test_weights(weights, table):
    x, model = table
    found = dshap.explain(Trees(model, x[:50], weights=weights), x[:9], interactions=True)
    wanted = dshap.explain(Marginal(model.predict, x[:50], weights=weights), x[:9])
    same(found, wanted)


def test_a_chosen_background(table):
    x, model = table
    chosen = dshap.choose_background(x, 20)
    same(
        dshap.explain(Trees(model, chosen), x[:9]),
        dshap.explain(Marginal(model.predict, chosen), x[:9]),
    )


def test_groups_of_columns(table):
    x, model = table
    players = {"front": ["x0", "x1"], "back": ["x3", "x4"]}
    for background in (None, x[:30]):
        found = dshap.explain(Trees(model, background, players=players), x[:9], interactions=True)
        assert found.feature.values.tolist() == ["front", "x2", "back"]
    same(found, dshap.explain(Marginal(model.predict, x[:30], players=players), x[:9]))


def test_counts_are_prepared_once(table, tmp_path):
    """`prepare` counts; later rows are looked up in the same tables, on any table."""
    x, model = table
    prepared = dshap.prepare(Trees(model, "all"), x, store=tmp_path / "counts")
    wanted = dshap.explain(Trees(model, x), x[:9])
    same(dshap.explain(prepared, x[:9]), wanted)
    opened = dshap.open_prepared(tmp_path / "counts", Trees(model, "all"))
    same(dshap.explain(opened, x[:9]), wanted)


def test_a_constant_column_of_the_rows_is_a_player(table):
    """One row: what the background has elsewhere counts."""
    x, model = table
    one, many = (dshap.explain(Trees(model, x), x[:n]) for n in (1, 20))
    np.testing.assert_array_equal(one.attribution[0], many.attribution[0])


@pytest.mark.slow
@pytest.mark.parametrize("span", [64, 100, 1_000])
def test_on_a_cluster_in_any_parts(span, table, client):
    """Integers: the same bits by any spans of rows and any workers."""
    x, model = table
    here = dshap.explain(Trees(model, x), x)
    there = dshap.explain(Trees(model, x), x, client=client, row_span=span, instance_tile=64)
    np.testing.assert_array_equal(here.attribution, there.attribution)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda m, x: Trees(m, 0), "background is 0: give a whole number of at least 1"),
        (lambda m, x: Trees(m, True), "background is True: give a whole number"),
        (lambda m, x: Trees(m, x[:5], weights=[1, 2]), r"give one for each of the 5 background"),
        (lambda m, x: Trees(m, x[:5], weights=[-1] * 5), "weights must be finite, not negative"),
        (lambda m, x: Trees(m, x[:5], weights=[0] * 5), "not all zero"),
        (lambda m, x: Trees(m, "all", weights=[1]), "weights are for a background in memory"),
        (
            lambda m, x: Trees(m, dshap.choose_background(x, 5), weights=[1] * 5),
            "a Background has its own",
        ),
        (lambda m, x: dshap.explain(Trees(m, x[:5, :3]), x), "rows have 3 columns"),
        (lambda m, x: dshap.explain(Trees(m, x[:0]), x), "empty table"),
        (
            lambda m, x: dshap.explain(Trees(m, np.where(x > 2, np.nan, x)), x),
            "background or data .*rows contain NaN or infinity",
        ),
        (lambda m, x: dshap.explain(Trees(m, "nowhere"), x), "no Parquet file at nowhere"),
        (lambda m, x: dshap.prepare(Trees(m, "all"), store="p"), "contains no rows to learn from"),
        (lambda m, x: dshap.prepare(Trees(m), store="p"), "contains no rows to learn from"),
    ],
)
def test_bad_input_is_refused_in_a_line(make, said, table):
    x, model = table
    with pytest.raises(InputError, match=said) as caught:
        make(model, x)
    assert "\n" not in str(caught.value)


def test_categories_of_a_background_go_by_value():
    """A model of pandas categories, and a background whose categories have another order."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    x["k"] = pd.Categorical(rng.choice(["Köln", "z", "Ω"], 400), ["z", "Köln", "Ω"])
    y = x.a * (x.k.cat.codes - 1) + x.b
    model = lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(x, y)
    turned = x[:60].assign(k=x.k[:60].cat.reorder_categories(["Ω", "Köln", "z"]))
    same(
        dshap.explain(Trees(model, turned), x[:9]),
        dshap.explain(Marginal(model.predict, x[:60]), x[:9]),
    )
    same(dshap.explain(Trees(model, "all"), x), dshap.explain(Trees(model, x), x))
    same(dshap.explain(Trees(model, 400), turned), dshap.explain(Trees(model, turned), turned))
    assert dshap.explain(Trees(model, 50), turned).attribution.notnull().all()
    strange = x[:60].assign(k=x.k[:60].astype(object).where(x.a[:60] < 1, "foggy"))
    same(
        dshap.explain(Trees(model, strange), x[:9]),
        dshap.explain(
            Marginal(
                model.predict, strange.assign(k=pd.Categorical(strange.k, x.k.cat.categories))
            ),
            x[:9],
            missing="pass",
        ),
    )


@pytest.mark.parametrize("declared", ["from_dtype", ["größe", "n"]])
def test_categories_of_histogram_boosting(declared, tmp_path):
    """Words and numbers, some missing, some that the fit did not see: as the model predicts."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(
        {"größe": rng.choice(["klein", "mittel", "groß"], 300), "x": rng.normal(size=300)}
    )
    x["n"] = pd.Categorical(10 * rng.integers(1, 5, 300))
    x["größe"] = pd.Categorical(x["größe"].where(x.x < 1))
    y = x.x * (x["größe"] == "groß") + (x.n.astype(int) > 20)
    model = ensemble.HistGradientBoostingRegressor(
        max_iter=9, min_samples_leaf=5, categorical_features=declared
    ).fit(x, y)
    rows = x[:40].assign(größe=x["größe"][:40].astype(object))
    rows.loc[::5, "größe"] = "riesig"
    for background in (None, x, "all"):
        found = dshap.explain(Trees(model, background), rows, missing="pass")
        total = found.attribution.sum("feature") + found.base_value
        np.testing.assert_allclose(total[:, 0], model.predict(rows), atol=1e-12)
    prepared = dshap.prepare(Trees(model, x), store=tmp_path / "counts", missing="pass")
    same(
        dshap.explain(prepared, rows, missing="pass"),
        dshap.explain(Trees(model, x), rows, missing="pass"),
    )
    shuffled = x.assign(größe=x["größe"].cat.reorder_categories(["mittel", "klein", "groß"]))
    same(
        dshap.explain(Trees(model, shuffled[:60]), x[:9], missing="pass"),
        dshap.explain(Marginal(model.predict, x[:60]), x[:9], missing="pass"),
    )


def test_too_many_rows_for_deep_trees_are_refused_by_the_plan(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_200, 20))
    model = ensemble.ExtraTreesRegressor(2, random_state=0).fit(x, x.sum(axis=1))
    assert (dshap.explain(Trees(model, x[:1_000]), x[:9]).status == 1).all()
    with pytest.raises(InputError, match=r"a background of 1,200 rows by .*: give at most 1,000"):
        dshap.explain(Trees(model, "all"), x, store=tmp_path / "cube")
    assert not (tmp_path / "cube").exists()  # nothing was begun


def test_weights_of_skipped_rows_alone(table):
    x, model = table
    holes = np.where(np.arange(5)[:, None] == 2, np.nan, x[:5])
    with pytest.raises(
        InputError, match="all background rows with a weight above 0 have missing values"
    ):
        dshap.explain(Trees(model, holes, weights=[0, 0, 1, 0, 0]), x[:9], missing="skip")


def test_rows_beyond_one_call_of_the_engine(table):
    """A row has the same bits whichever block it stands in."""
    x, model = table
    n = TreeForm.micro_rows
    rows = np.tile(x, (n // len(x) + 1, 1))[: n + 3]
    found = dshap.explain(Trees(model, x), rows, instance_tile=n + 3).attribution
    wanted = dshap.explain(Trees(model, x), rows[n - 2 :]).attribution
    np.testing.assert_array_equal(found[n - 2 :], wanted)


def test_a_background_that_is_read_wrongly(table):
    """Some background rows of every block are held against the library's own margins."""
    x, model = table
    value = Trees(model, np.where(x > 1, 7.0, x))
    value.model.trees.decisions.columns.thresholds[-9:] = -7.0
    with pytest.raises(InputError, match="miss its own margins"):
        dshap.explain(value, x[:9])
