"""Models whose trees are not read, each refused in a line that names what works."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dshap.core.errors import InputError
from dshap.trees.ensemble import TreeEnsemble
from dshap.values import Trees

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))
Y = X[:, 0] * X[:, 1] + X[:, 2]


def started() -> Any:
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    linear = pytest.importorskip("sklearn.linear_model")
    return ensemble.GradientBoostingRegressor(n_estimators=3, init=linear.LinearRegression())


def linear_leaves() -> Any:
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    return lightgbm.LGBMRegressor(n_estimators=3, linear_tree=True, verbose=-1)


def linear_booster() -> Any:
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    return xgboost.XGBRegressor(n_estimators=3, booster="gblinear")


def catboost(**options: Any) -> Any:
    made = pytest.importorskip("catboost", reason="catboost is not installed")
    return made.CatBoostRegressor(iterations=3, verbose=0, allow_writing_files=False, **options)


def of_scikit(name: str, **options: Any) -> Any:
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    return getattr(ensemble, name)(n_estimators=3, **options)


def voting() -> Any:
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    linear = pytest.importorskip("sklearn.linear_model")
    forest = ensemble.RandomForestRegressor(3)
    return ensemble.VotingRegressor([("forest", forest), ("line", linear.LinearRegression())])


def chained() -> Any:
    multioutput = pytest.importorskip("sklearn.multioutput", reason="scikit-learn is not installed")
    tree = pytest.importorskip("sklearn.tree")
    made = multioutput.RegressorChain(tree.DecisionTreeRegressor(max_depth=2))
    made.fit(X, np.column_stack([Y, Y]))
    return made


def test_estimators_of_other_columns():
    """The second of a chain reads the prediction of the first."""
    with pytest.raises(InputError, match="RegressorChain are not all trees of its columns: use"):
        Trees(chained())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (started, r"starts from a model of its own \(init=\)"),
        (linear_leaves, r"linear \(linear_tree\)"),
        (linear_booster, "is a linear model and has no trees"),
        (lambda: catboost(grow_policy="Lossguide"), r"not symmetric \(grow_policy\)"),
        (lambda: of_scikit("AdaBoostRegressor"), "takes a vote of its trees"),
        (voting, "VotingRegressor are not all trees of its columns"),
    ],
)
def test_a_model_that_is_not_read(make, said):
    rows = X.copy()
    rows[:, 3] = RNG.integers(0, 4, len(rows))
    model = make().fit(rows, Y + 2 * (rows[:, 3] == 2))
    with pytest.raises(InputError, match=said) as caught:
        Trees(model)
    assert "use Marginal(" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_classes_of_several_targets():
    labels = np.column_stack([Y > 0, Y > 1]).astype(int)
    model = of_scikit("RandomForestClassifier").fit(X, labels)
    with pytest.raises(InputError, match=r"predicts classes of 2 targets: .* Marginal\("):
        Trees(model)


def with_categories(categories: Any, name: Any = "town") -> Any:
    """Histogram boosting that was fitted on a column of these categories beside one of numbers."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    rows = pandas.DataFrame({name: pandas.Categorical(categories), name * 2: X[:, 0]})
    model = ensemble.HistGradientBoostingRegressor(max_iter=3, categorical_features="from_dtype")
    return model.fit(rows, Y)


@pytest.mark.parametrize(
    ("categories", "name", "said"),
    [
        (np.arange(200).astype("datetime64[D]"), "town", "'town' has categories of type"),
        (
            RNG.choice([2**60, 2**60 + 1], 200),
            "town",
            "'town' contains the integer 1152921504606846976",
        ),
        (RNG.choice(["Köln", "Ω"], 200), 1, "column 0 contains categories that are no numbers"),
    ],
)
def test_categories_that_rows_cannot_hold(categories, name, said):
    model = with_categories(categories, name)
    with pytest.raises(InputError, match=said):
        Trees(model)


def test_a_column_that_was_missing_in_the_whole_fit():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    model = with_categories(pandas.Categorical([None] * 200, categories=["Köln"]))
    assert Trees(model).n_players == 2


def test_an_embedding_by_trees():
    model = of_scikit("RandomTreesEmbedding").fit(X)
    with pytest.raises(InputError, match="RandomTreesEmbedding has no predict"):
        Trees(model)


def test_missing_values_that_are_read_wrongly(monkeypatch):
    """A library that takes missing values is tried with some, one that refuses them is not."""
    holes = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    model = ensemble.HistGradientBoostingRegressor(max_iter=3).fit(holes, Y)
    without = of_scikit("GradientBoostingRegressor").fit(X, Y)
    plain = TreeEnsemble.of

    def with_other_ways(trees, base, **options):
        turned = [replace(tree, missing_left=~tree.missing_left) for tree in trees]
        return plain(turned, base, **options)

    monkeypatch.setattr(TreeEnsemble, "of", with_other_ways)
    with pytest.raises(InputError, match="miss its own margins"):
        Trees(model)
    assert Trees(without).n_players == 4


def test_a_model_without_trees():
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    with pytest.raises(InputError, match="has no trees: fit it with at least one boosting round"):
        Trees(xgboost.train({}, xgboost.DMatrix(X, Y), 0))


def test_categories_of_catboost():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    rows = pandas.DataFrame(X, columns=list("abcd"))
    rows["town"] = np.random.default_rng(5).choice(["Köln", "z", "Ω"], len(rows))
    model = catboost(cat_features=["town"], one_hot_max_size=1).fit(
        rows, Y + 5 * (rows.town == "z")
    )
    with pytest.raises(InputError, match=r"CatBoost.*use Marginal\("):
        Trees(model)


def test_a_dump_that_is_read_wrongly(monkeypatch):
    """Margins of the parsed trees are held against the library's: one leaf, or one way, is enough."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    model = xgboost.XGBRegressor(n_estimators=5, n_jobs=1).fit(X, Y)
    plain = TreeEnsemble.of

    def with_another_leaf(trees, base, **options):
        trees[3].values[trees[3].left < 0] *= 1.001
        return plain(trees, base, **options)

    def with_other_ends(trees, base, **options):
        for tree in trees:
            tree.threshold[:] = np.nextafter(tree.threshold.astype(np.float32), np.float32(np.inf))
        return plain(trees, base, **options)

    for wrong in (with_another_leaf, with_other_ends):
        with monkeypatch.context() as patch:
            patch.setattr(TreeEnsemble, "of", wrong)
            with pytest.raises(InputError, match="this version of the library is not known"):
                Trees(model)
    assert Trees(model).n_players == 4
