"""Values of tree ensembles: brute force over path-dependent games, `Marginal`, other programs."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError, StoreMismatchError
from dshap.cube import verify_cube
from dshap.engine import Plan
from dshap.trees.exact import ExactTrees
from dshap.values import Marginal, Trees
from tests.values.oracles import shapley

pytestmark = pytest.mark.usefixtures("in_this_process")

ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
tree = pytest.importorskip("sklearn.tree")
D, NAMES = 5, list("abcde")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(600, D)), columns=NAMES)
    y = (1 + x.a) * (1 - x.b) * (1 + x.c) + np.sin(3 * x.d)
    return x, y.to_numpy(), np.digitize(y, [0.0, 1.5])


def xgboost_models(x, y, labels):
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    options = {"n_estimators": 12, "max_depth": 4, "n_jobs": 1}
    yield xgboost.XGBRegressor(**options).fit(x, y), lambda m, r: m.predict(r, output_margin=True)
    yield (
        xgboost.XGBClassifier(**options).fit(x, labels),
        lambda m, r: m.predict(r, output_margin=True),
    )


def lightgbm_models(x, y, labels):
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    options = {"n_estimators": 12, "max_depth": 4, "n_jobs": 1, "verbose": -1}
    yield lightgbm.LGBMRegressor(**options).fit(x, y), lambda m, r: m.predict(r, raw_score=True)
    yield (
        lightgbm.LGBMClassifier(**options).fit(x, labels),
        lambda m, r: m.predict(r, raw_score=True),
    )


def sklearn_models(x, y, labels):
    yield (
        ensemble.RandomForestRegressor(8, max_depth=4, random_state=0).fit(x, y),
        lambda m, r: m.predict(r),
    )
    yield (
        ensemble.RandomForestClassifier(8, max_depth=4, random_state=0).fit(x, labels),
        lambda m, r: m.predict_proba(r),
    )
    yield tree.DecisionTreeRegressor(max_depth=4).fit(x, y), lambda m, r: m.predict(r)
    boosted = ensemble.GradientBoostingClassifier(n_estimators=8, random_state=0).fit(x, labels > 0)
    yield boosted, lambda m, r: m.decision_function(r)


LIBRARIES = {"xgboost": xgboost_models, "lightgbm": lightgbm_models, "sklearn": sklearn_models}


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_margins_base_and_sum(library, table, tmp_path):
    """The model's own margins; every row adds up; the store verifies and is resumed."""
    x = table[0]
    for i, (model, margin) in enumerate(LIBRARIES[library](*table)):
        value, store = Trees(model), tmp_path / f"{i}.zarr"
        cube = dshap.explain(value, x[:200], store=store, instance_tile=64)
        wanted = np.asarray(margin(model, x[:200]), dtype=float).reshape(200, -1)
        np.testing.assert_allclose(cube.prediction, wanted, rtol=1e-5, atol=1e-6)
        total = cube.attribution.sum("feature") + cube.base_value
        np.testing.assert_allclose(total, cube.prediction, atol=1e-5 * np.abs(wanted).max())
        assert cube.feature.values.tolist() == NAMES
        assert verify_cube(store) == []
        assert dshap.explain(value, x[:200], store=store, instance_tile=64).attrs["additivity"]


def path_dependent(model, x, inside):
    """E of one tree of scikit-learn: both branches by the training rows where the column is
    absent."""
    own = model.tree_

    def down(node):
        if own.children_left[node] < 0:
            return own.value[node].ravel()[0]
        left, right = own.children_left[node], own.children_right[node]
        if own.feature[node] in inside:
            return down(left if np.float32(x[own.feature[node]]) <= own.threshold[node] else right)
        share = own.weighted_n_node_samples[left] / own.weighted_n_node_samples[node]
        return share * down(left) + (1 - share) * down(right)

    return np.asarray(down(0))


def test_one_tree_against_brute_force(table):
    x, y, _ = table
    model = tree.DecisionTreeRegressor(max_depth=5, random_state=0).fit(x, y)
    cube = dshap.explain(Trees(model), x[:5])
    for i in range(5):
        wanted = shapley(lambda s, i=i: path_dependent(model, x.to_numpy()[i], s), D)
        np.testing.assert_allclose(cube.attribution[i, :, 0], wanted, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_background_gives_the_values_of_marginal(library, table):
    """Interventional values by TreeSHAP, and by all 2^5 coalitions of the model's margin."""
    x = table[0]
    for model, _ in LIBRARIES[library](*table):
        value = Trees(model, x[:30])
        called = dshap.explain(Marginal(value.model, x[:30].to_numpy()), x[:10].to_numpy())
        closed = dshap.explain(value, x[:10])
        scale = float(np.abs(called.attribution).max())
        np.testing.assert_allclose(closed.attribution, called.attribution, atol=2e-5 * scale)


def rounded_models(x, y, labels):
    """Fitted on rounded columns and on parts of the rows: many rows lie on a threshold, which is no
    float32."""
    yield ensemble.RandomForestRegressor(8, random_state=0).fit(x, y)
    yield ensemble.RandomForestClassifier(8, random_state=0).fit(x, labels)
    yield ensemble.GradientBoostingRegressor(
        n_estimators=30, max_depth=5, subsample=0.5, random_state=0
    ).fit(x, y)
    yield ensemble.HistGradientBoostingRegressor(max_iter=30, max_bins=255).fit(x, y)


@pytest.mark.slow
def test_rows_on_thresholds(table):
    """They go the model's way, in its precision."""
    x, y, labels = table
    x = (10 * x).round() / 10
    for model in rounded_models(x, y, labels):
        value, rows = Trees(model, x[:40]), x[100:140]
        called = dshap.explain(Marginal(value.model, x[:40].to_numpy()), rows.to_numpy())
        scale = float(np.abs(called.attribution).max())
        np.testing.assert_allclose(
            dshap.explain(value, rows).attribution, called.attribution, atol=1e-5 * scale
        )


@pytest.mark.slow
def test_missing_values_with_a_background(table):
    x, y, _ = table
    holes = x.copy()
    holes.iloc[::3, 0] = np.nan
    model = ensemble.HistGradientBoostingRegressor(max_iter=20).fit(holes, y)
    called, closed = (
        dshap.explain(value, holes[100:130], missing="pass").attribution
        for value in (Marginal(model.predict, holes[:30]), Trees(model, holes[:30]))
    )
    np.testing.assert_allclose(closed, called, atol=1e-5 * float(np.abs(called).max()))


def test_rounds_after_the_best_one_do_not_count(table):
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    x, y, _ = table
    model = xgboost.XGBRegressor(
        n_estimators=200, early_stopping_rounds=3, learning_rate=1.0, n_jobs=1
    )
    model.fit(x[:400], y[:400], eval_set=[(x[400:], y[400:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    np.testing.assert_allclose(
        dshap.explain(Trees(model), x[:30]).prediction[:, 0], model.predict(x[:30]), rtol=1e-5
    )


@pytest.mark.slow
def test_columns_go_by_name_and_constant_ones_count(table):
    """A column of one value in the rows to explain still has what the trees give it."""
    x, y, _ = table
    model = ensemble.RandomForestRegressor(5, max_depth=4, random_state=0).fit(x, y)
    one = dshap.explain(Trees(model), x[:1][NAMES[::-1]])
    many = dshap.explain(Trees(model), x[:20])
    np.testing.assert_array_equal(one.attribution[0], many.attribution[0])
    assert (np.abs(one.attribution[0, :4]) > 0).all()


@pytest.mark.slow
def test_missing_values_go_the_trees_own_way(table):
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    x, y, _ = table
    holes = x.copy()
    holes.iloc[::3, 0] = np.nan
    model = xgboost.XGBRegressor(n_estimators=5, n_jobs=1).fit(holes, y)
    cube = dshap.explain(Trees(model), holes[:30], missing="pass")
    np.testing.assert_allclose(cube.prediction[:, 0], model.predict(holes[:30]), rtol=1e-5)
    booster = dshap.explain(Trees(model.get_booster()), holes[:30], missing="pass")
    np.testing.assert_allclose(booster.attribution, cube.attribution)


@pytest.mark.slow
def test_names_that_a_library_changed(table):
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    x, y, _ = table
    spaced = x.rename(columns={"a": "a b"})
    model = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1).fit(spaced, y)
    cube = dshap.explain(Trees(model, feature_names=list(spaced.columns)), spaced[:20])
    assert cube.feature.values.tolist()[0] == "a b"
    # the background has its own
    for value in (Trees(model, spaced[:20]), Marginal(model.predict, spaced[:20])):
        found = dshap.explain(value, spaced[["b", "a b", "c", "d", "e"]][:20])
        assert found.feature.values.tolist() == spaced.columns.tolist()


def test_blanks_are_met_only_where_no_name_is_the_models_own(table):
    """A table that holds "a b" and "a_b": a model of "a_b" gets that one."""
    linear = pytest.importorskip("sklearn.linear_model")
    x = table[0].rename(columns={"a": "a b", "b": "a_b"})
    value = Marginal(linear.LinearRegression().fit(x[["a_b", "c"]], table[1]).predict, x[:20])
    assert value.model.feature_names == ("a_b", "c")


def test_a_model_that_was_stored_is_the_same(table):
    """The digest is of the trees' numbers, not of a pickle, which differs from load to load."""
    model = ensemble.RandomForestRegressor(5, max_depth=4, random_state=0).fit(*table[:2])
    again = pickle.loads(pickle.dumps(model))
    other = ensemble.RandomForestRegressor(5, max_depth=4, random_state=1).fit(*table[:2])
    digests = [Trees(own).fingerprint()["model"] for own in (model, again, other)]
    assert digests[0] == digests[1] != digests[2]


def boosted(library, table, **options):
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    kind = module.XGBRegressor if library == "xgboost" else module.LGBMRegressor
    quiet = {} if library == "xgboost" else {"verbose": -1}
    return kind(n_jobs=1, **options, **quiet).fit(table[0], table[1])


@pytest.mark.slow
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_a_plain_loop_takes_all_threads(library, table, monkeypatch):
    """Tasks come one after the other there; one thread each on a cluster.  The bits are the
    same."""
    value = Trees(boosted(library, table, n_estimators=9))
    x = pd.concat([table[0]] * 10, ignore_index=True)
    plain, used = ExactTrees.values, []

    def watched(self, rows, n_threads=1):
        used.append(n_threads)
        return plain(self, rows, n_threads)

    monkeypatch.setattr(ExactTrees, "values", watched)
    found = []
    for n_threads in (1, 3):
        monkeypatch.setattr(
            "dshap.run.planning.process_threads", lambda n_threads=n_threads: n_threads
        )
        found.append(dshap.explain(value, x).attribution)
        assert set(used) == {n_threads}
        used.clear()
    np.testing.assert_array_equal(*found)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_rows_are_predicted_and_explained_once(library, table, monkeypatch):
    """Beside a few rows that tell whether the model is steady, and the rows that v(empty) is asked
    with."""
    value, x = (
        Trees(boosted(library, table, n_estimators=9)),
        pd.concat([table[0]] * 5, ignore_index=True),
    )
    counts = {"predict": 0, "values": 0}
    for name, owner in (("predict", type(value.model.library)), ("values", ExactTrees)):
        plain = getattr(owner, name)

        def counted(self, rows, *more, name=name, plain=plain):
            counts[name] += len(rows)
            return plain(self, rows, *more)

        monkeypatch.setattr(owner, name, counted)
    dshap.explain(value, x)
    assert len(x) <= counts["values"] <= len(x) + 20
    assert len(x) <= counts["predict"] <= len(x) + 200


@pytest.mark.slow
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize(
    ("options", "n", "least", "most"),
    [({"n_estimators": 5}, 1_000, 1, 1), ({"n_estimators": 400}, 60_000, 2, 64)],
)
def test_tasks_follow_from_the_size_of_the_trees(library, options, n, least, most, table, tmp_path):
    """A thousand rows of a small model are one task: they were 32."""
    value = Trees(boosted(library, table, **options))
    x = pd.concat([table[0]] * 100, ignore_index=True)[:n]
    dshap.explain(value, x, store=tmp_path / "cube.zarr", compute=False)
    plan = Plan.from_json((tmp_path / "cube.zarr" / "state" / "plan.json").read_bytes())
    assert least <= len(plan.instance_spans) <= most


@pytest.mark.slow
def test_on_a_cluster(table, client):
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    x, y, _ = table
    value = Trees(lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(x, y))
    here, there = dshap.explain(value, x), dshap.explain(value, x, client=client)
    np.testing.assert_array_equal(here.attribution, there.attribution)


def holders(x, y):
    """Models around a tree ensemble, and what they are told."""
    pipeline = pytest.importorskip("sklearn.pipeline", reason="scikit-learn is not installed")
    scale, search = (
        pytest.importorskip("sklearn.preprocessing"),
        pytest.importorskip("sklearn.model_selection"),
    )
    forest, signs = ensemble.RandomForestRegressor(2, max_depth=2), y > 0
    piped = pipeline.make_pipeline(scale.StandardScaler(), forest)
    columns = (
        r"\[-1\]\) on its transformed columns, "
        r"or Marginal\({0}\.predict, background\) for the columns as they are"
    )
    yield piped.fit(x, y), r"the tree is inside: Trees\(pipeline" + columns.format("pipeline")
    tried = search.GridSearchCV(piped, {}, cv=2).fit(x, y)
    yield tried, r"the tree is inside: Trees\(model\.best_estimator_" + columns.format("model")
    tried = search.GridSearchCV(forest, {"max_depth": [1, 2]}, cv=2).fit(x, y)
    yield tried, r"Trees\(model\.best_estimator_\), or Marginal\(model\.predict, background\)$"
    calibration = pytest.importorskip("sklearn.calibration")
    calibrated = calibration.CalibratedClassifierCV(ensemble.RandomForestClassifier(2), cv=2).fit(
        x, signs
    )
    yield (
        calibrated,
        r"calibrated_classifiers_\[0\]\.estimator\).*Marginal\(model\.predict_proba, background\) for the cal",
    )
    linear = pytest.importorskip("sklearn.linear_model")
    plain = pipeline.make_pipeline(scale.StandardScaler(), linear.LinearRegression()).fit(x, y)
    yield plain, "Pipeline is not a fitted tree ensemble .*use Marginal"


def test_trees_inside_other_models(table):
    for model, message in holders(table[0], table[1]):
        with pytest.raises(InputError, match=message):
            Trees(model)


@pytest.mark.parametrize(
    ("library", "kind"), [("xgboost", "XGBRegressor"), ("lightgbm", "LGBMRegressor")]
)
def test_a_model_before_its_fit(library, kind, table):
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    with pytest.raises(InputError, match=f"{kind} is not a fitted tree ensemble .*fit it first"):
        dshap.explain(getattr(module, kind)(), table[0])


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_explain_takes_the_ensemble_itself(library, table):
    model = next(LIBRARIES[library](*table))[0]
    short, long = dshap.explain(model, table[0][:9]), dshap.explain(Trees(model), table[0][:9])
    np.testing.assert_array_equal(short.attribution, long.attribution)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x, y: Trees(np.sum), r"not a function: use Marginal\(function, background\)"),
        (
            lambda x, y: Trees(ensemble.RandomForestRegressor()),
            "RandomForestRegressor is not a fitted tree ensemble .*fit it",
        ),
        (
            lambda x, y: dshap.explain(Trees(tree.DecisionTreeRegressor().fit(x, y), x[:5, :2]), x),
            r"the rows have 2 columns, the value function was made for 5 columns",
        ),
        (
            lambda x, y: dshap.explain(
                Trees(tree.DecisionTreeRegressor().fit(x, y)), x, design="exact"
            ),
            "Trees is a closed form, which uses no coalitions",
        ),
    ],
)
def test_bad_input_is_refused(make, message, table):
    with pytest.raises(InputError, match=message):
        make(table[0].to_numpy(), table[1])


@pytest.fixture(scope="module")
def classifier(table):
    """Three classes with odd names, by LightGBM."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    x, _, labels = table
    named = np.array(["Köln", "b", "c" * 50])[labels]
    options = {"n_estimators": 6, "num_leaves": 5, "n_jobs": 1, "verbose": -1}
    return lightgbm.LGBMClassifier(**options).fit(x, named)


@pytest.mark.parametrize("chosen", [["b", "Köln"], ["Köln"], ["c" * 50, "Köln", "b"]], ids=len)
def test_some_classes_of_a_fitted_classifier(table, classifier, chosen):
    """explain(model, X, classes=[...]): the numbers of all classes, in the order asked for."""
    rows = table[0][:7]
    whole = dshap.explain(classifier, rows)
    found = dshap.explain(classifier, rows, classes=chosen)
    wanted = whole.sel(output=[f"score of {name}" for name in chosen])
    for name in ("attribution", "prediction", "base_value"):
        np.testing.assert_array_equal(found[name], wanted[name])
    assert found.output.values.tolist() == wanted.output.values.tolist()
    assert found.attribution.attrs["scale"] == "score"


def test_interactions_of_one_class(table, classifier):
    rows = table[0][:4]
    whole = dshap.explain(classifier, rows, interactions=True).isel(output=[1])
    found = dshap.explain(classifier, rows, classes=["b"], interactions=True)
    np.testing.assert_array_equal(found.interaction, whole.interaction)


def test_either_of_two_classes(table):
    """They share a margin, which is the log-odds of the second."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    x, y, _ = table
    options = {"n_estimators": 4, "num_leaves": 5, "n_jobs": 1, "verbose": -1}
    model = lightgbm.LGBMClassifier(**options).fit(x, np.where(y > 0, "yes", "no"))
    one = dshap.explain(model, x[:5])
    both = dshap.explain(model, x[:5], classes=["no", "yes"])
    assert both.output.values.tolist() == ["log-odds of no", "log-odds of yes"]
    np.testing.assert_array_equal(both.attribution[..., 1], one.attribution[..., 0])
    np.testing.assert_array_equal(both.attribution[..., 0], -one.attribution[..., 0])
    p = model.predict_proba(x[:5])
    np.testing.assert_allclose(both.prediction, np.log(p / (1 - p)), atol=1e-5)


def test_some_classes_of_a_forest_and_of_a_background(table):
    x, _, labels = table
    model = ensemble.RandomForestClassifier(3, max_depth=3, random_state=0).fit(x, labels)
    found = dshap.explain(model, x[:5], classes=[2])
    np.testing.assert_allclose(found.prediction[:, 0], model.predict_proba(x[:5])[:, 2])
    assert found.output.values.tolist() == ["2"]
    value = Trees(model, x[:6]).of_classes(["2", "0"])
    whole = dshap.explain(Trees(model, x[:6]), x[:5])
    np.testing.assert_array_equal(
        dshap.explain(value, x[:5]).attribution, whole.attribution[..., [2, 0]]
    )


def test_the_same_classes_resume_and_others_are_another_run(table, classifier, tmp_path):
    rows = table[0][:5]
    first = dshap.explain(classifier, rows, classes=["b"], store=tmp_path / "a.zarr").load()
    again = dshap.explain(classifier, rows, classes=["b"], store=tmp_path / "a.zarr").load()
    assert again.identical(first)
    with pytest.raises(StoreMismatchError):
        dshap.explain(classifier, rows, classes=["Köln"], store=tmp_path / "a.zarr")


def test_a_booster_without_names_is_given_those_of_all_classes(table):
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    x, _, labels = table
    asked = {"objective": "multi:softprob", "num_class": 3, "nthread": 1, "max_depth": 2}
    booster = xgboost.train(asked, xgboost.DMatrix(x, labels), 3)
    names = ["low", "mid", "high"]
    cube = dshap.explain(booster, x[:4], classes=names)
    assert cube.output.values.tolist() == [f"score of {name}" for name in names]
    with pytest.raises(InputError, match="the model has 3 classes: name each of these"):
        dshap.explain(booster, x[:4], classes=["low", "high"])


@pytest.mark.parametrize(
    ("value", "classes", "said"),
    [
        (lambda m, x, y: m, ["Kölm"], r"unknown class 'Kölm'; did you mean 'Köln'\? Allowed: Köln, b"),
        (
            lambda m, x, y: ensemble.RandomForestRegressor(2, max_depth=2).fit(x, y),
            ["a"],
            "classes are a, and the model has no classes: leave classes out",
        ),
        (lambda m, x, y: Marginal(m.predict_proba, x[:3]), ["b"], "classes goes with a fitted tree"),
    ],
)  # fmt: skip
def test_classes_that_do_not_apply_are_refused_in_a_line(table, classifier, value, classes, said):
    x, y, _ = table
    with pytest.raises(InputError, match=said) as caught:
        dshap.explain(value(classifier, x, y), x[:3], classes=classes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("background", [None, 12], ids=["alone", "with a background"])
def test_a_number_that_means_missing_to_xgboost(background):
    """`missing=` of its scikit-learn classes; the model is asked to predict each row itself."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).round()
    y = np.where(x[:, 0] == 0, 3.0, x[:, 0]) * x[:, 1] + x[:, 2]
    x[x == 0] = -999.9
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1, missing=-999.9).fit(x, y)
    given = None if background is None else x[:background]
    cube = dshap.explain(Trees(model, given), x[100:140])
    np.testing.assert_allclose(cube.prediction[:, 0], model.predict(x[100:140]), atol=1e-5)
    holes = np.where(x == -999.9, np.nan, x)
    plain = xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1).fit(holes, y)
    if background is None:
        wanted = dshap.explain(Trees(plain), holes[100:140], missing="pass")
        paired = dshap.explain(Trees(model), x[100:140], interactions=True)
        np.testing.assert_allclose(paired.interaction.sum("feature_other"), cube.attribution)
    else:
        wanted = dshap.explain(dshap.values.Marginal(model.predict, given), x[100:140])
    np.testing.assert_allclose(cube.attribution, wanted.attribution, atol=1e-5)
