"""`dshap.Explainer` beside shap's own: the same numbers in the same places, and its plots take
them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelLogistic, KernelRidge
from dshap.values import LinearGaussian, Marginal

pytestmark = pytest.mark.usefixtures("in_this_process")

shap = pytest.importorskip("shap", reason="shap is not installed")
NAMES = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    return tuple(pd.DataFrame(rng.normal(size=(n, 4)), columns=NAMES) for n in (25, 12))


def product(x):
    x = np.asarray(x)
    return (1 + x[:, 0]) * (1 - x[:, 1]) * (2 + x[:, 2]) + np.sin(x[:, 3])


def two(x):
    x = np.asarray(x)
    p = 1 / (1 + np.exp(-x[:, 0] * x[:, 1] - x[:, 2]))
    return np.column_stack([1 - p, p])


@pytest.mark.slow
@pytest.mark.parametrize("predict", [product, two])
def test_one_changed_import(predict, tables):
    """shap's exact explainer on the same background: values, base values, names, shapes."""
    background, rows = tables
    ours = dshap.Explainer(predict, background)(rows)
    theirs = shap.explainers.Exact(
        predict, shap.maskers.Independent(background, max_samples=1_000)
    )(rows)
    assert type(ours) is type(theirs)
    assert ours.values.shape == theirs.values.shape
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-10)
    np.testing.assert_allclose(ours.base_values, theirs.base_values, atol=1e-12)
    assert list(ours.feature_names) == list(theirs.feature_names) == NAMES
    np.testing.assert_array_equal(ours.data, rows)


@pytest.mark.slow
def test_shap_maskers_and_links_are_taken(tables):
    """shap links the expectation too where it is told not to linearize; its logit is known by its
    name."""
    background, rows = tables

    def share(x):
        return two(x)[:, 1]

    masker = shap.maskers.Independent(background, max_samples=1_000)
    ours = dshap.Explainer(share, masker, link=shap.links.logit, feature_names=NAMES)(rows)
    theirs = shap.explainers.Exact(share, masker, link=shap.links.logit, linearize_link=False)(rows)
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-10)


def test_a_masker_of_a_frame_knows_its_columns(tables):
    """Rows in another order of columns are matched by name."""
    background, rows = tables
    masker = shap.maskers.Independent(background, max_samples=1_000)
    one, two_ = (dshap.Explainer(product, masker)(each) for each in (rows, rows[NAMES[::-1]]))
    np.testing.assert_array_equal(one.values, two_.values)


def test_plots_take_it(tables, tmp_path, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr("matplotlib.pyplot.show", lambda *_, **__: None)
    background, rows = tables
    found = dshap.Explainer(product, background)(rows)
    for plot in (shap.plots.beeswarm, shap.plots.bar, lambda e: shap.plots.waterfall(e[0])):
        plt.figure()
        plot(found)
        plt.close("all")


def test_sampled_coalitions_bring_errors():
    rng = np.random.default_rng(1)
    background, rows = rng.normal(size=(5, 14)), rng.normal(size=(4, 14))
    found = dshap.Explainer(lambda x: np.prod(1 + 0.2 * x, axis=1), background)(rows, max_evals=200)
    assert found.error_std.shape == found.values.shape == (4, 14)
    assert (found.error_std > 0).all()
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.base_values, np.prod(1 + 0.2 * rows, axis=1)
    )


def test_kernel_models_and_value_functions_have_their_own_way(tables):
    background, rows = tables
    model = dshap.models.KernelRidge(dshap.kernels.RBF(), dshap.kernels.Nystrom(20), penalty=1e-3)
    model.fit(background, product(background))
    closed, called = (
        dshap.Explainer(model, background)(rows),
        dshap.Explainer(model.predict, background)(rows),
    )
    np.testing.assert_allclose(closed.values, called.values, atol=1e-9)
    linear = dshap.Explainer(LinearGaussian(np.ones(4), 0.0, np.zeros(4), np.eye(4)))(rows)
    np.testing.assert_allclose(linear.values, rows)


def ensembles(rows, y):
    """Fitted ensembles, with the interventional or path-dependent values that shap itself has of
    them."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    options = {"n_estimators": 5, "n_jobs": 1}
    yield xgboost.XGBRegressor(**options).fit(rows, y)
    yield xgboost.XGBClassifier(**options).fit(rows, np.digitize(y, [1.0, 3.0]))
    yield lightgbm.LGBMRegressor(verbose=-1, min_child_samples=3, **options).fit(rows, y)
    yield ensemble.RandomForestRegressor(5, random_state=0).fit(rows, y)


@pytest.mark.slow
def test_a_tree_ensemble_needs_no_masker(tables):
    """shap's own TreeExplainer without data: the same numbers in the same shapes, by both calls."""
    rows = tables[0]
    for model in ensembles(rows, product(rows)):
        ours, theirs = dshap.Explainer(model), shap.TreeExplainer(model)
        np.testing.assert_allclose(ours.shap_values(rows), theirs.shap_values(rows), atol=1e-5)
        found, wanted = ours(rows), theirs(rows)
        np.testing.assert_allclose(found.values, wanted.values, atol=1e-5)
        np.testing.assert_allclose(found.base_values, wanted.base_values, atol=1e-5)
        assert list(found.feature_names) == NAMES
        assert found.data.shape == (25, 4)
    classifier = list(ensembles(rows, product(rows)))[1]
    assert list(dshap.Explainer(classifier)(rows).output_names) == [
        f"score of {k}" for k in range(3)
    ]


def test_three_lines_to_a_beeswarm(tables, monkeypatch):
    """As a person with shap's habits types them."""
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr("matplotlib.pyplot.show", lambda *_, **__: None)
    X = tables[0]
    model = next(ensembles(X, product(X)))
    explainer = dshap.Explainer(model)
    shap_values = explainer(X)
    shap.plots.beeswarm(shap_values)
    assert len(plt.gca().collections) > 0
    plt.close("all")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("TreeExplainer", r"'TreeExplainer': dshap\.Explainer\(ensemble\)\(X\)$"),
        (
            "KernelExplainer",
            r"'KernelExplainer': dshap\.Explainer\(model\.predict, X\[:100\]\)\(X\)$",
        ),
        ("nonsense", "'nonsense'$"),
    ],
)
def test_names_of_shap_say_what_there_is_here(name, said):
    with pytest.raises(AttributeError, match=said):
        getattr(dshap, name)


def test_no_rows_are_explained_by_none(tables):
    found = dshap.Explainer(product, tables[0])(tables[1][:0])
    assert found.values.shape == (0, 4)
    assert found.base_values.shape == (0,)


def test_shap_values_of_other_models(tables):
    background, rows = tables
    explainer = dshap.Explainer(product, background)
    np.testing.assert_array_equal(explainer.shap_values(rows), explainer(rows).values)
    assert dshap.Explainer(two, background).shap_values(rows, max_evals=16).shape == (12, 4, 2)


@pytest.mark.parametrize("predict", [product, two])
def test_interactions_are_the_values(tables, predict):
    """Pairs of columns (n, d, d, ...), the sums of which are the attributions."""
    background, rows = tables
    explainer = dshap.Explainer(predict, background)
    found = explainer(rows, interactions=True)
    assert found.values.shape[:3] == (12, 4, 4)
    assert list(found.feature_names) == NAMES
    np.testing.assert_allclose(found.values.sum(axis=2), explainer(rows).values, atol=1e-12)
    np.testing.assert_allclose(found.values, found.values.swapaxes(1, 2), atol=1e-12)
    with pytest.raises(InputError, match="shap_values gives attributions: leave interactions out"):
        explainer.shap_values(rows, interactions=True)


def test_interactions_of_shap_are_those_of_trees_and_others_where_three_columns_interact(tables):
    """shap's exact explainer has Shapley-Taylor indices: equal where pairs alone interact.

    A product of three columns, from 0: half the Shapley interaction index of a pair is 1/4 of it,
    half the Shapley-Taylor index 1/6.
    """
    background = np.zeros((1, 3))
    rows = np.ones((2, 3))
    for predict, is_equal in (
        (lambda x: x[:, 0] * x[:, 1] + x[:, 2], True),
        (lambda x: np.prod(x, axis=1), False),
    ):
        ours = dshap.Explainer(predict, background)(rows, interactions=True).values
        of_shap = shap.explainers.Exact(predict, shap.maskers.Independent(background))
        theirs = of_shap(rows, interactions=True).values
        np.testing.assert_allclose(ours.sum(axis=2), theirs.sum(axis=2), atol=1e-12)
        assert np.allclose(ours, theirs, atol=1e-12) == is_equal
    np.testing.assert_allclose([ours[0, 0, 1], theirs[0, 0, 1]], [1 / 4, 1 / 6], atol=1e-12)
    np.testing.assert_allclose([ours[0, 0, 0], theirs[0, 0, 0]], [-1 / 6, 0.0], atol=1e-12)
    background, rows = tables
    model = next(ensembles(background, product(background)))
    ours = dshap.Explainer(model)(rows, interactions=True).values
    theirs = shap.TreeExplainer(model).shap_interaction_values(rows)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_what_trees_have_no_use_for(tables):
    model = next(ensembles(tables[0], product(tables[0])))
    with pytest.raises(InputError, match=r"link is given, .*: leave link out, or give a masker"):
        dshap.Explainer(model, link="logit")


def test_groups_of_columns_of_trees(tables):
    background, rows = tables
    model = next(ensembles(background, product(background)))
    found = dshap.Explainer(model, players={"ab": ["a", "b"]})(rows)
    assert list(found.feature_names) == ["ab", "c", "d"]


def test_groups_of_columns_have_no_data(tables):
    background, rows = tables
    found = dshap.Explainer(product, background, players={"ab": ["a", "b"]})(rows)
    assert list(found.feature_names) == ["ab", "c", "d"]
    assert found.data is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda b: dshap.Explainer(product), "masker is missing"),
        (lambda b: dshap.Explainer("model", b), "model is str: give a predict function"),
        (lambda b: dshap.Explainer(Marginal(product, b), b), "leave masker out"),
        (lambda b: dshap.Explainer(Marginal(product, b), link="logit"), "leave link out"),
        (lambda b: dshap.Explainer(product, b, link=np.log), "unknown link 'log'"),
        (lambda b: dshap.Explainer(product, b)(b.drop(columns="c")), "unknown column 'c'"),
    ],
)
def test_bad_input_is_refused(make, message, tables):
    with pytest.raises(InputError, match=message):
        make(tables[0])


def test_a_classifier_is_asked_what_to_explain(tables):
    linear = pytest.importorskip("sklearn.linear_model")
    background, _ = tables
    model = linear.LogisticRegression().fit(background, product(background) > 1)
    with pytest.raises(
        InputError, match=r"LogisticRegression is a classifier: .*model\.predict_proba"
    ):
        dshap.Explainer(model, background)
    found = dshap.Explainer(model.predict_proba, background)(background[:5])
    assert found.values.shape == (5, 4, 2)
    assert list(found.output_names) == ["False", "True"]


def test_without_shap_the_extra_is_named(tables, monkeypatch):
    import builtins

    real = builtins.__import__

    def missing(name, *rest, **options):
        if name == "shap":
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InputError, match=r"pip install 'dshap\[shap\]'"):
        dshap.Explainer(product, tables[0])(tables[1])


def test_classes_of_an_explainer(tables):
    """Of trees, of a predict function and of a kernel model: the numbers of all classes."""
    background, rows = tables
    labels = np.digitize(product(background), [0.0, 1.0])
    boosted = list(ensembles(background, product(background)))[1]
    forest = pytest.importorskip("sklearn.ensemble").RandomForestClassifier(3, random_state=0)
    forest.fit(background, labels)
    kernel = KernelLogistic(RBF(1.0), Nystrom(9), 1e-3).fit(background.to_numpy(), labels)
    for model, masker in (
        (boosted, None),
        (forest.predict_proba, background[:4]),
        (kernel, background.to_numpy()[:4]),
        (kernel.decision_function, background.to_numpy()[:4]),
    ):
        given = rows.to_numpy() if masker is not None and isinstance(masker, np.ndarray) else rows
        whole = dshap.Explainer(model, masker)
        some = dshap.Explainer(model, masker, classes=[2, 0])
        np.testing.assert_allclose(
            some.shap_values(given), whole.shap_values(given)[..., [2, 0]], atol=1e-12
        )
        names = whole.value.model.output_names
        assert some.value.model.output_names == (names[2], names[0])
        with pytest.raises(InputError, match="unknown class '7'"):
            dshap.Explainer(model, masker, classes=["7"])


def test_classes_that_an_explainer_has_not(tables):
    background, _ = tables
    ridge = KernelRidge(RBF(1.0), Nystrom(9), 1e-3)
    ridge.fit(background.to_numpy(), product(background))
    with pytest.raises(InputError, match="KernelRidge has no classes: leave classes out"):
        dshap.Explainer(ridge, background.to_numpy()[:4], classes=["a"])
    with pytest.raises(InputError, match="the model has no classes: leave classes out"):
        dshap.Explainer(product, background, classes=["a"])
    labels = product(background) > 0
    forest = (
        pytest.importorskip("sklearn.ensemble").RandomForestClassifier(2).fit(background, labels)
    )
    with pytest.raises(InputError, match="explains one class: leave classes out"):
        dshap.Explainer(forest.predict_proba, background[:4], link="log_odds", classes=["True"])
    value = dshap.values.Marginal(product, background)
    with pytest.raises(InputError, match="has its own classes: leave classes out"):
        dshap.Explainer(value, classes=["a"])
