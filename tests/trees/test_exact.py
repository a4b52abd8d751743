"""Values of parsed trees against all coalitions of them, for every kind of model in one table.

A kind is a fitted model with its own predict function and, where its library has one, its own
path-dependent values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dshap.core.errors import InputError
from dshap.loops.codes import TILE
from dshap.loops.tree_cut import MAX_BITS
from dshap.trees.coding import SHORT
from dshap.trees.ensemble import Tree, TreeEnsemble
from dshap.trees.exact import MIN_LANES, CountedRows, Division, ExactTrees
from dshap.trees.products import TreeProducts
from dshap.trees.walks import MAX_WALKED
from dshap.values import Trees
from tests.trees.brute import interventional, path_dependent, shapley, shapley_pairs

D = 6
PLAYERS = {
    "columns": np.arange(D),
    "groups": np.array([0, 0, 1, 2, 2, 3]),
    "one player": np.zeros(D, np.int64),
}
"""Name -> the player of each column."""


def rows_with(kind: str, n: int = 500) -> tuple[Any, Any]:
    """Rows (n, D) and a target with interactions of every order."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, D))
    if kind == "rounded":
        x = x.round(1)
    y = (1 + x[:, 0]) * (1 - x[:, 1]) * (1 + x[:, 2]) + np.sin(3 * x[:, 3]) * x[:, 4] - x[:, 5]
    if kind == "holes":
        x[rng.random(x.shape) < 0.1] = np.nan
        x[::7, 1] = 0.0
    if kind == "codes":
        x[:, 0] = rng.integers(0, 9, n)
        x[:, 3] = rng.integers(0, 30, n)
        y = y + 3 * (x[:, 0] % 3) - (x[:, 3] % 2) * x[:, 1]
    return x, y


def labels(y: Any) -> Any:
    return np.digitize(y, [0.0, 1.5])


def xgboost_of(rows: str = "holes", target: Callable[[Any], Any] = lambda y: y, **options: Any):
    def make() -> tuple[Any, Any]:
        xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
        x, y = rows_with(rows)
        types = ["c" if rows == "codes" and j in (0, 3) else "float" for j in range(D)]
        data = xgboost.DMatrix(x, target(y), feature_types=types, enable_categorical=True)
        options.setdefault("max_depth", 4)
        n_rounds = options.pop("rounds", 5)
        return xgboost.train({"nthread": 1, "eta": 0.3, **options}, data, n_rounds), x

    return make


def lightgbm_of(rows: str = "holes", target: Callable[[Any], Any] = lambda y: y, **options: Any):
    def make() -> tuple[Any, Any]:
        lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
        x, y = rows_with(rows)
        coded = [0, 3] if rows == "codes" else "auto"
        data = lightgbm.Dataset(x, target(y), categorical_feature=coded)
        given = {"num_threads": 1, "verbose": -1, "min_data_in_leaf": 5, "num_leaves": 12}
        return lightgbm.train({**given, **options}, data, 5), x

    return make


def scikit_of(
    name: str, rows: str = "rounded", target: Callable[[Any], Any] = lambda y: y, **options: Any
):
    def make() -> tuple[Any, Any]:
        ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
        tree = pytest.importorskip("sklearn.tree")
        kind = getattr(ensemble, name, None) or getattr(tree, name)
        x, y = rows_with(rows)
        return kind(**{"random_state": 0, **options}).fit(x, target(y)), x

    return make


def histogram_of(name: str, *, of_frame: bool, target: Callable[[Any], Any] = lambda y: y):
    """Categories as numbers of an array, or as words, numbers and missing ones of a data frame."""

    def make() -> tuple[Any, Any]:
        ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
        pandas = pytest.importorskip("pandas", reason="pandas is not installed")
        x, y = rows_with("codes")
        x[::9, 0] = x[1::9, 4] = np.nan
        frame = x
        if of_frame:
            frame = pandas.DataFrame(x, columns=list("äbcdef"))
            words = [None if np.isnan(code) else f"Straße {code:.0f}" for code in x[:, 0]]
            frame["ä"] = pandas.Categorical(words)
            frame["d"] = pandas.Categorical(10 * x[:, 3])
            x[:, 3] = np.unique(x[:, 3], return_inverse=True)[1]
        else:
            x[:, 3] = x[:, 3] / 4 - 2
        made = getattr(ensemble, name)(
            max_iter=4, categorical_features=[0, 3], random_state=0, min_samples_leaf=5
        )
        return made.fit(frame, target(y)), x

    return make


def catboost_of(
    name: str = "CatBoostRegressor",
    rows: str = "holes",
    target: Callable[[Any], Any] = lambda y: y,
    **options: Any,
):
    def make() -> tuple[Any, Any]:
        catboost = pytest.importorskip("catboost", reason="catboost is not installed")
        x, y = rows_with(rows)
        quiet = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}
        made = getattr(catboost, name)(iterations=4, **{"depth": 4, **quiet, **options})
        return made.fit(x, target(y)), x

    return make


def two_targets(y: Any) -> Any:
    return np.column_stack([y, 3 - 2 * y])


def shares(y: Any) -> Any:
    return (y > 0).astype(float)


FEW = {"n_estimators": 4, "max_depth": 4}
KINDS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "xgboost": xgboost_of(),
    "xgboost stumps": xgboost_of(max_depth=1, rounds=9),
    "xgboost deep": xgboost_of(max_depth=22, rounds=2, min_child_weight=0),
    "xgboost by leaves": xgboost_of(grow_policy="lossguide", max_leaves=20, max_depth=0),
    "xgboost dart": xgboost_of(booster="dart", rate_drop=0.5, eta=1.0),
    "xgboost forest": xgboost_of(num_parallel_tree=3, subsample=0.5, rounds=2),
    "xgboost codes": xgboost_of("codes", max_cat_to_onehot=1),
    "xgboost one code": xgboost_of("codes", max_cat_to_onehot=99),
    "xgboost logistic": xgboost_of(target=shares, objective="binary:logistic"),
    "xgboost logitraw": xgboost_of(target=shares, objective="binary:logitraw"),
    "xgboost classes": xgboost_of(target=labels, objective="multi:softprob", num_class=3),
    "xgboost poisson": xgboost_of(target=abs, objective="count:poisson"),
    "xgboost gamma": xgboost_of(target=lambda y: abs(y) + 0.1, objective="reg:gamma"),
    "xgboost vectors": xgboost_of(target=two_targets, multi_strategy="multi_output_tree"),
    "xgboost targets": xgboost_of(target=two_targets),
    "lightgbm": lightgbm_of(),
    "lightgbm rounded": lightgbm_of("rounded"),
    "lightgbm codes": lightgbm_of("codes", cat_smooth=1.0, min_data_per_group=1),
    "lightgbm dart": lightgbm_of(boosting="dart", drop_rate=0.5),
    "lightgbm forest": lightgbm_of(boosting="rf", bagging_freq=1, bagging_fraction=0.5),
    "lightgbm zeros": lightgbm_of(zero_as_missing=True),
    "lightgbm no missing": lightgbm_of(use_missing=False),
    "lightgbm binary": lightgbm_of(target=shares, objective="binary", sigmoid=2.0),
    "lightgbm classes": lightgbm_of(target=labels, objective="multiclass", num_class=3),
    "lightgbm poisson": lightgbm_of(target=abs, objective="poisson"),
    "lightgbm leaf": lightgbm_of(min_data_in_leaf=400),
    "catboost": catboost_of(),
    "catboost largest missing": catboost_of(nan_mode="Max", depth=6),
    "catboost of two": catboost_of("CatBoostClassifier", target=shares),
    "catboost of three": catboost_of("CatBoostClassifier", target=labels),
    "catboost poisson": catboost_of(target=abs, loss_function="Poisson"),
    "catboost targets": catboost_of(target=two_targets, loss_function="MultiRMSE"),
    "tree": scikit_of("DecisionTreeRegressor", max_depth=9),
    "tree of leaves": scikit_of("DecisionTreeRegressor", max_leaf_nodes=15),
    "tree of classes": scikit_of("DecisionTreeClassifier", target=labels, max_depth=5),
    "tree of targets": scikit_of("DecisionTreeRegressor", target=two_targets, max_depth=5),
    "tree with holes": scikit_of("DecisionTreeRegressor", "holes", max_depth=5),
    "forest": scikit_of("RandomForestRegressor", **FEW),
    "forest of classes": scikit_of("RandomForestClassifier", target=labels, **FEW),
    "forest of seven": scikit_of(
        "RandomForestClassifier", target=lambda y: np.digitize(y, range(-2, 4)), **FEW
    ),
    "forest with holes": scikit_of("RandomForestRegressor", "holes", **FEW),
    "isolation": scikit_of("IsolationForest", n_estimators=5),
    "isolation of some": scikit_of("IsolationForest", n_estimators=5, max_features=0.5),
    "bagging of some": scikit_of("BaggingRegressor", n_estimators=5, max_features=0.5),
    "extra trees": scikit_of("ExtraTreesRegressor", **FEW),
    "boosting": scikit_of("GradientBoostingRegressor", **FEW),
    "boosting of two": scikit_of("GradientBoostingClassifier", target=shares, **FEW),
    "boosting exponential": scikit_of(
        "GradientBoostingClassifier", target=shares, loss="exponential", **FEW
    ),
    "boosting of three": scikit_of("GradientBoostingClassifier", target=labels, **FEW),
    "histogram": scikit_of("HistGradientBoostingRegressor", "holes", max_iter=4),
    "histogram gamma": scikit_of(
        "HistGradientBoostingRegressor", target=lambda y: abs(y) + 0.1, loss="gamma", max_iter=4
    ),
    "histogram of three": scikit_of(
        "HistGradientBoostingClassifier", "holes", target=labels, max_iter=3
    ),
    "histogram of categories": histogram_of("HistGradientBoostingRegressor", of_frame=False),
    "histogram of words": histogram_of(
        "HistGradientBoostingClassifier", of_frame=True, target=labels
    ),
}


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    model, x = KINDS[request.param]()
    return Trees(model).model, x


def checked_rows(model: Any, x: Any) -> Any:
    """A few rows, one of them with every value on a threshold of a tree."""
    columns = model.trees.decisions.columns
    rows = x[[3, 14]].copy()
    rows = np.concatenate([rows, rows[:1]])
    for c, j in enumerate(columns.columns):
        own = columns.thresholds[columns.starts[c] : columns.starts[c + 1]]
        if len(own):
            rows[2, j] = own[len(own) // 2]
    return rows


def counted(trees: Any, player_of: Any, rows: Any, start: int = 0) -> CountedRows | None:
    """CountedRows rows of equal weight; None without any."""
    if rows is None:
        return None
    division = Division.of(trees, player_of, is_counted=True)
    return division.counted(rows, np.ones(len(rows), np.int64), start)


def differ(found: Any, wanted: Any, scale: float) -> float:
    return float(np.abs(found - wanted).max(initial=0.0)) / scale


@pytest.mark.parametrize("grouping", PLAYERS)
def test_all_coalitions(fitted, grouping):
    """Values and pairs, without and with a background of one row and of many: 1e-12 of the largest
    value."""
    model, x = fitted
    trees, player_of = model.trees, PLAYERS[grouping]
    n_players = int(player_of.max()) + 1
    rows = checked_rows(model, x)
    for background in (None, x[:1], x[:40]):
        counts = counted(trees, player_of, background)
        exact = ExactTrees.of(trees, player_of, counts)
        pairs = ExactTrees.of(trees, player_of, counts, pairs=True)
        found, of_pairs = exact.values(rows), pairs.values(rows)
        for i, row in enumerate(rows):

            def worth(present, row=row, background=background):
                if background is None:
                    return path_dependent(trees, row, present, player_of)
                return interventional(trees, row, present, player_of, background)

            wanted = shapley(worth, n_players)
            scale = max(np.abs(wanted).max(), np.abs(trees.values).max(initial=1e-300))
            assert differ(found[i], wanted, scale) < 1e-12
            assert differ(exact.base, worth(frozenset()), scale) < 1e-12
            total = exact.base + found[i].sum(axis=0)
            assert differ(total, trees.margins(row[None])[0], scale) < 1e-12
            if n_players > 1:
                assert differ(of_pairs[i], shapley_pairs(worth, n_players), scale) < 1e-12


def test_margins_are_the_models_own(fitted):
    """Sums of leaves in double precision, to the rounding of the library."""
    model, x = fitted
    own = np.asarray(model.library.predict(x), np.float64).reshape(len(x), -1)
    reach = np.abs(own).max()
    np.testing.assert_allclose(model.trees.margins(x), own, atol=2 * model.trees.rounding * reach)


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if kind.startswith(("xgboost", "lightgbm", "catboost"))],
)
def test_the_librarys_own_path_dependent_values(kind):
    """XGBoost's in single precision; LightGBM's times what its predictions are times."""
    model, x = KINDS[kind]()
    value = Trees(model).model
    found = ExactTrees.of(value.trees, np.arange(D)).values(x[:50])
    if kind.startswith("xgboost"):
        import xgboost

        types = model.feature_types
        data = xgboost.DMatrix(x[:50], feature_types=types, enable_categorical=True, nthread=1)
        wanted = model.predict(data, pred_contribs=True).reshape(50, -1, D + 1)
        tolerance = 1e-5
    elif kind.startswith("catboost"):
        import catboost

        own = model.get_feature_importance(catboost.Pool(x[:50]), type="ShapValues")
        wanted = own.reshape(50, -1, D + 1)
        tolerance = 1e-11
    else:
        own = model.predict(x[:50], pred_contrib=True, num_threads=1)
        wanted = value.library.factor * own.reshape(50, -1, D + 1)
        tolerance = 1e-11
    wanted = wanted[..., :D].swapaxes(1, 2)
    np.testing.assert_allclose(found, wanted, atol=tolerance * max(1.0, np.abs(wanted).max()))


OF_SHAP = [
    kind
    for kind in KINDS
    if kind.startswith(("tree", "forest", "isolation", "extra", "boosting", "histogram"))
    and not kind.endswith((" three", " categories", " words"))
]
"""The models of scikit-learn that shap reads, in the tests' own scale or in half of it."""


@pytest.mark.parametrize("kind", OF_SHAP)
def test_values_of_shap(kind):
    """Path-dependent ones, in double precision; shap takes half log-odds of an exponential loss."""
    shap = pytest.importorskip("shap", reason="shap is not installed")
    model, x = KINDS[kind]()
    value = Trees(model).model
    found = ExactTrees.of(value.trees, np.arange(D)).values(x[:20])
    explainer = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent")
    wanted = np.asarray(explainer.shap_values(x[:20], check_additivity=False))
    wanted = value.library.factor * wanted.reshape(found.shape)
    np.testing.assert_allclose(found, wanted, atol=1e-13 * np.abs(wanted).max())


def test_counts_of_parts_add_up(fitted):
    """Integers: the same whichever way rows are split; rows that are taken away again leave none."""
    model, x = fitted
    player_of = np.arange(D)
    rows = x[:400]
    whole, first = (counted(model.trees, player_of, own) for own in (rows, rows[:123]))
    rest = counted(model.trees, player_of, rows[123:], start=123)
    assert whole.counts.dtype == np.int64
    for name, array in vars(whole).items():
        np.testing.assert_array_equal(vars(first)[name] + vars(rest)[name], array)
        np.testing.assert_array_equal(array - vars(rest)[name], vars(first)[name])


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n", [1, 15, 63, 64, 65, 4_095, 4_096, 4_097, 5_500])
def test_a_row_has_the_same_bits_among_any_others(n, n_threads):
    """Tiles of rows, their rest, threads: looked up and integrated."""
    for kind in ("lightgbm codes", "xgboost deep"):
        model, x = KINDS[kind]()
        trees = Trees(model).model.trees
        rows = np.tile(x, (11, 1))[:n]
        exact = ExactTrees.of(trees, np.arange(D))
        wanted = np.concatenate([exact.values(rows[i : i + 1]) for i in (0, n // 2, n - 1)])
        found = exact.values(rows, n_threads)[[0, n // 2, n - 1]]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("grouping", PLAYERS)
def test_counts_of_parts_of_groups(fitted, grouping):
    """Pairs are looked up in smaller groups: their counts as if they had been counted themselves."""
    model, x = fitted
    trees, player_of = model.trees, PLAYERS[grouping]
    division = Division.of(trees, player_of, is_counted=True, pairs=True)
    found = division.counts_of(counted(trees, player_of, x))
    itself = replace(division, counted_groups=division.groups)
    wanted = itself.counted(x, np.ones(len(x), np.int64)).counts
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("pairs", [False, True])
def test_a_tree_of_many_nodes_takes_fewer_rows_at_a_time(pairs):
    """Decisions of a tile stay within `MAX_DECISION_BYTES`: any tiles give a row the same bits."""
    tree = pytest.importorskip("sklearn.tree", reason="scikit-learn is not installed")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4_000, 2))
    model = tree.DecisionTreeRegressor(random_state=0).fit(x, rng.normal(size=4_000))
    trees = Trees(model).model.trees
    for counts in (None, counted(trees, np.arange(2), x[:50])):
        exact = ExactTrees.of(trees, np.arange(2), counts, pairs=pairs)
        lanes = exact.division.lanes
        assert MIN_LANES < lanes < TILE
        rows = x[: 2 * lanes + 1]
        found = exact.values(rows)
        for place in (0, lanes - 1, lanes, 2 * lanes):
            alone = exact.values(rows[place : place + 1])
            np.testing.assert_array_equal(found[place : place + 1], alone)
        if not pairs:
            total = exact.base + found.sum(axis=1)
            np.testing.assert_allclose(total, trees.margins(rows), atol=1e-12)


@pytest.mark.parametrize("n", [SHORT - 1, SHORT, SHORT + 1, 70_000])
def test_codes_of_a_column_with_many_thresholds(n):
    """Two bytes up to `SHORT` thresholds, then four: the largest codes are no missing value."""
    left, right, column = np.full((3, 2 * n + 1), -1)
    inner = 2 * np.arange(n)
    left[inner], right[inner], column[inner] = inner + 1, inner + 2, 0
    threshold = np.zeros(2 * n + 1)
    threshold[inner] = np.arange(n)
    values = np.where(left < 0, np.arange(2.0 * n + 1), 0.0)[:, None]
    missing_left = np.zeros(2 * n + 1, bool)
    tree = Tree(left, right, column, threshold, missing_left, np.ones(2 * n + 1), values)
    decisions = TreeEnsemble.of([tree], np.zeros(1), is_single=False).decisions
    codes = decisions.columns.codes(
        np.array([[-1.0], [0.0], [0.5], [n - 1.0], [n + 9.0], [np.nan]])
    )
    assert codes.dtype == (np.uint16 if n <= SHORT else np.uint32)
    assert codes[0].tolist() == [0, 0, 1, n - 1, n, np.iinfo(codes.dtype).max]


def test_a_root_without_training_weight():
    """No row came anywhere: both ways count alike, at the root too."""
    ensemble, _ = chain(5, np.random.default_rng(0))
    ensemble.weight[:] = 0.0
    row, player_of = np.array([-1.0, 1.0, 1.0, 1.0, -1.0]), np.arange(5)
    exact = ExactTrees.of(ensemble, player_of)

    def worth(present):
        return path_dependent(ensemble, row, present, player_of)

    np.testing.assert_allclose(exact.base, worth(frozenset()))
    np.testing.assert_allclose(exact.values(row[None])[0], shapley(worth, 5), atol=1e-13)


def test_columns_that_no_tree_reads_get_nothing():
    model, x = KINDS["tree of leaves"]()
    wide = np.concatenate([x, x[:, ::-1]], axis=1)
    trees = Trees(type(model)(max_leaf_nodes=3).fit(wide, x[:, 0])).model.trees
    unread = np.setdiff1d(np.arange(2 * D), trees.column)
    for counts in (None, counted(trees, np.arange(2 * D), wide)):
        found = ExactTrees.of(trees, np.arange(2 * D), counts).values(wide[:9])
        assert (found[:, unread] == 0.0).all()


def chain(k: int, rng: Any) -> tuple[TreeEnsemble, Any]:
    """A chain of k decisions, one on each column, with a leaf on the left; and the shares left."""
    n = 2 * k + 1
    left, right, column = np.full((3, n), -1)
    inner = 2 * np.arange(k)
    left[inner], right[inner], column[inner] = inner + 1, inner + 2, np.arange(k)
    share = rng.uniform(0.1, 0.5, k)
    weight = np.ones(n)
    weight[inner + 2] = np.cumprod(1 - share)
    weight[inner + 1] = share * weight[inner]
    values = np.where(left < 0, rng.normal(size=n), 0.0)[:, None]
    tree = Tree(left, right, column, np.zeros(n), np.zeros(n, bool), weight, values)
    return TreeEnsemble.of([tree], np.zeros(1), is_single=False), share


@pytest.mark.parametrize("k", [MAX_BITS + 1, 40, 64, 65, 120])
def test_more_players_than_tables_hold(k):
    """Leaves of many players by quadrature, against polynomials of coalition sizes."""
    rng = np.random.default_rng(0)
    ensemble, share = chain(k, rng)
    rows = rng.normal(size=(5, k))
    exact = ExactTrees.of(ensemble, np.arange(k))
    assert k > MAX_BITS
    assert isinstance(exact.parts[1], TreeProducts)
    found = exact.values(rows)[..., 0]
    np.testing.assert_allclose(found.sum(axis=1) + exact.base, ensemble.margins(rows)[:, 0])
    leaves = ensemble.values[ensemble.column < 0, 0]
    wanted = [chain_values(row <= 0.0, share, leaves) for row in rows]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("k", [MAX_BITS, MAX_BITS + 1, 20])
def test_few_background_rows_of_any_depth(k):
    """Chains of decisions: each leaf a game of the players that both rows pass or fail."""
    rng = np.random.default_rng(k)
    ensemble, _ = chain(k, rng)
    rows, background = rng.normal(size=(4, k)), rng.normal(size=(30, k))
    player_of = np.arange(k) % 9
    exact = ExactTrees.of(ensemble, player_of, counted(ensemble, player_of, background))
    pairs = ExactTrees.of(ensemble, player_of, counted(ensemble, player_of, background), pairs=True)
    for i, row in enumerate(rows):

        def worth(present, row=row):
            return interventional(ensemble, row, present, player_of, background)

        np.testing.assert_allclose(exact.values(rows)[i], shapley(worth, 9), atol=1e-13)
        np.testing.assert_allclose(pairs.values(rows)[i], shapley_pairs(worth, 9), atol=1e-13)
    by_columns = np.arange(k)
    exact = ExactTrees.of(ensemble, by_columns, counted(ensemble, by_columns, background))
    assert len(exact.parts) == 1 + (k > MAX_BITS)
    total = exact.base + exact.values(rows).sum(axis=1)
    np.testing.assert_allclose(total, ensemble.margins(rows))
    np.testing.assert_allclose(exact.base, ensemble.margins(background).mean(axis=0))


def test_many_background_rows_of_more_players_than_tables_hold_are_refused():
    ensemble, _ = chain(MAX_BITS + 1, np.random.default_rng(0))
    player_of = np.arange(MAX_BITS + 1)
    rows = np.zeros((MAX_WALKED, MAX_BITS + 1))
    assert counted(ensemble, player_of, rows).total == MAX_WALKED
    for start in (1, 5_000):
        with pytest.raises(
            InputError, match=r"1 of the 1 trees .*up to 13 players\): give at most 1,000 rows"
        ):
            counted(ensemble, player_of, rows, start)


def chain_values(goes_left: Any, share: Any, leaves: Any) -> Any:
    """φ (k,) of a chain: each leaf a product of its players, by polynomials of coalition sizes."""
    k = len(share)
    phi = np.zeros(k)
    for position, value in enumerate(leaves):
        depth = min(position + 1, k)
        passes, ratio = ~goes_left[:depth], 1 - share[:depth]
        if position < k:
            passes[-1], ratio[-1] = goes_left[position], share[position]
        weights = [1 / (depth * math.comb(depth - 1, size)) for size in range(depth)]
        for j in range(depth):
            poly = np.ones(1)
            for i in set(range(depth)) - {j}:
                poly = np.convolve(poly, [ratio[i], float(passes[i])])
            phi[j] += value * (passes[j] - ratio[j]) * np.dot(weights, poly)
    return phi
