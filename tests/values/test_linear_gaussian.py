"""Linear models of normal columns: conditional expectations one by one, closed forms at any d,
shap's own transform."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

import dshap
from dshap import linear_transform
from dshap.attributors.choice import choose
from dshap.core.errors import InputError
from dshap.designs import exact, kernelshap
from dshap.values import Gaussian, LinearGaussian, LinearTransform, Marginal
from tests.values.oracles import shapley

pytestmark = pytest.mark.usefixtures("in_this_process")


def normal(d, seed, k=2):
    """mean, covariance, coefficients (k, d), intercepts, rows (9, d)."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d + 1))
    covariance = root @ root.T
    mean = rng.normal(size=d)
    return (
        mean,
        covariance,
        rng.normal(size=(k, d)),
        rng.normal(size=k),
        mean + rng.normal(size=(9, d)) * 3,
    )


def expectation(mean, covariance, x, inside):
    """E[X | x_S] (d,), by the textbook formula."""
    inside = sorted(inside)
    away = [j for j in range(len(mean)) if j not in inside]
    out = x.copy()
    if away:
        out[away] = mean[away]
    if away and inside:
        gain = np.linalg.solve(covariance[np.ix_(inside, inside)], x[inside] - mean[inside])
        out[away] += covariance[np.ix_(away, inside)] @ gain
    return out


def brute_force(mean, covariance, coef, intercept, x, members=None):
    members = members or [[j] for j in range(len(mean))]
    return shapley(
        lambda s: (
            coef @ expectation(mean, covariance, x, [c for i in s for c in members[i]]) + intercept
        ),
        len(members),
    )


@pytest.mark.parametrize("d", [1, 2, 5, 7])
def test_exact_form_equals_all_conditional_expectations(d):
    mean, covariance, coef, intercept, rows = normal(d, d)
    cube = dshap.explain(LinearGaussian(coef, intercept, mean, covariance), rows)
    for i, x in enumerate(rows):
        wanted = brute_force(mean, covariance, coef, intercept, x)
        np.testing.assert_allclose(
            cube.attribution[i], wanted, rtol=0, atol=1e-10 * np.abs(wanted).max()
        )
    np.testing.assert_allclose(cube.base_value, coef @ mean + intercept)
    assert "std_error" not in cube


def test_groups_of_columns():
    mean, covariance, coef, intercept, rows = normal(6, 3)
    value = LinearGaussian(
        coef, intercept, mean, covariance, players={"a": ["x1", "x4"], "b": ["x5", "x0"]}
    )
    cube = dshap.explain(value, rows)
    members = [[5, 0], [1, 4], [2], [3]]
    assert cube.feature.values.tolist() == ["b", "a", "x2", "x3"]
    wanted = brute_force(mean, covariance, coef, intercept, rows[2], members)
    np.testing.assert_allclose(cube.attribution[2], wanted, atol=1e-10)


def test_a_column_at_its_mean_still_counts():
    """What it says of the others is worth something, though nothing varies in one row."""
    mean, covariance, coef, intercept, rows = normal(4, 8)
    one = rows[:1].copy()
    one[0, 2] = mean[2]
    cube = dshap.explain(LinearGaussian(coef, intercept, mean, covariance), one)
    wanted = brute_force(mean, covariance, coef, intercept, one[0])
    np.testing.assert_allclose(cube.attribution[0], wanted, atol=1e-10)
    assert np.abs(wanted[2]).min() > 0.01


def blocks(n_blocks, seed):
    """Independent blocks of five normal columns: values of the whole are those of the blocks, by
    all coalitions."""
    parts = [normal(5, seed + i) for i in range(n_blocks)]
    covariance = np.zeros((5 * n_blocks, 5 * n_blocks))
    for i, part in enumerate(parts):
        covariance[5 * i : 5 * i + 5, 5 * i : 5 * i + 5] = part[1]
    mean, coef = np.concatenate([p[0] for p in parts]), np.hstack([p[2] for p in parts])
    rows = np.hstack([p[4] for p in parts])
    truth = np.concatenate(
        [np.array([brute_force(p[0], p[1], p[2], p[3], x) for x in p[4]]) for p in parts], axis=1
    )  # (9, d, 2)
    return mean, covariance, coef, rows, truth


@pytest.mark.slow
def test_orders_above_16_players_and_their_errors():
    """d = 20: φ ± t·std_error covers the truth; 20 seeds × 9 rows × 20 players × 2 outputs, rows of
    a seed together: the mean of 20 seeds has a standard deviation of about 1.5 %, false alarm below
    1e-3."""
    mean, covariance, coef, rows, truth = blocks(4, 40)
    covered = []
    for seed in range(20):
        value = LinearGaussian(coef, 0.0, mean, covariance, n_permutations=100, seed=seed)
        cube = dshap.explain(value, rows)
        apart = np.abs(cube.attribution.values - truth)
        covered.append(np.mean(apart <= t.ppf(0.975, 19) * cube.std_error.values + 1e-12))
    # errors of orders are wide where games are nearly additive: 0.992
    assert 0.90 < np.mean(covered) < 0.997
    many = dshap.explain(LinearGaussian(coef, 0.0, mean, covariance), rows)
    assert np.abs(many.attribution.values - truth).max() < 0.1 * np.abs(truth).max()
    assert (many.std_error.mean() < 0.5 * cube.std_error.mean()).all()


def test_orders_add_up_and_agree_with_the_exact_form():
    mean, covariance, coef, intercept, rows = normal(6, 11)
    whole = dshap.explain(LinearGaussian(coef, intercept, mean, covariance), rows)
    drawn = dshap.explain(
        LinearGaussian(coef, intercept, mean, covariance, n_permutations=720), rows
    )
    np.testing.assert_allclose(
        drawn.attribution.sum("feature") + drawn.base_value, drawn.prediction
    )
    assert np.abs(drawn.attribution - whole.attribution).max() < 5 * drawn.std_error.max()


def test_shap_agrees_to_its_own_sampling_error():
    """shap's transform is a mean over random orders: two runs of it tell how far off one is."""
    shap = pytest.importorskip("shap", reason="shap is not installed")
    mean, covariance, coef, intercept, rows = normal(6, 21, k=1)
    runs = []
    for seed in range(6):
        np.random.seed(seed)  # noqa: NPY002 - where shap draws from
        explainer = shap.LinearExplainer(
            (coef[0], intercept[0]),
            (mean, covariance),
            feature_perturbation="correlation_dependent",
            nsamples=400,
        )
        runs.append(explainer.shap_values(rows))
    theirs, error = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(6)
    ours = dshap.explain(LinearGaussian(coef, intercept, mean, covariance), rows).attribution[
        ..., 0
    ]
    assert np.abs((ours - theirs) / np.maximum(error, 1e-9)).max() < t.ppf(1 - 1e-4 / 108, 5)
    assert error.max() < 0.1 * np.abs(theirs).max()


@pytest.mark.parametrize("r", [0.999999, -0.999999])
def test_nearly_equal_columns_do_not_explode(r):
    """Rows of the distribution itself: attributions stay within a few deviations of f."""
    mean, covariance = (
        np.zeros(4),
        np.array([[1, r, 0.3, 0], [r, 1, 0.3 * r, 0], [0.3, 0.3 * r, 1, 0.5], [0, 0, 0.5, 1]]),
    )
    rows = np.random.default_rng(0).multivariate_normal(mean, covariance, 200, method="svd")
    coef = np.array([1.0, -2.0, 0.5, 3.0])
    cube = dshap.explain(LinearGaussian(coef, 0.0, mean, covariance), rows)
    assert np.abs(cube.attribution).max() < 5 * np.sqrt(coef @ covariance @ coef) + 5
    wanted = np.array([brute_force(mean, covariance, coef[None], np.zeros(1), x) for x in rows[:5]])
    np.testing.assert_allclose(cube.attribution[:5], wanted, atol=1e-8)


def test_determined_columns_are_refused_or_get_a_ridge(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(500, 4)), columns=list("abcd")).assign(
        e=lambda f: f.a + f.b
    )
    store = tmp_path / "cube.zarr"
    with pytest.raises(
        InputError,
        match=r"smallest eigenvalue .* columns .*a.* determine one another.*set ridge=0\.0001",
    ):
        dshap.explain(
            LinearGaussian(np.ones(5), 0.0, data=table, feature_names=list("abcde")),
            table,
            store=store,
        )
    assert not store.exists()
    held = dshap.explain(
        LinearGaussian(np.ones(5), data=table, ridge=1e-4, feature_names=list("abcde")), table
    )
    assert np.abs(held.attribution).max() < 30


def test_a_ridge_is_added_to_the_correlations():
    """Σ + ridge·diag Σ in place of Σ, in the value function and in the transform."""
    mean, covariance, coef, intercept, rows = normal(5, 4)
    wider = covariance + 0.3 * np.diag(np.diag(covariance))
    kept = linear_transform(mean, covariance, ridge=0.3)
    wanted = brute_force(mean, wider, coef, intercept, rows[1])
    for value in (
        LinearGaussian(coef, intercept, mean, covariance, ridge=0.3),
        LinearGaussian(coef, intercept, transform=kept),
    ):
        np.testing.assert_allclose(dshap.explain(value, rows).attribution[1], wanted, atol=1e-10)


SINGULAR = np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]])
TOGETHER = np.array([[2.0, 0, 2], [0, 1, 1], [2, 1, 3]])
INDEFINITE = np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]])


@pytest.mark.parametrize(
    "covariance", [SINGULAR, TOGETHER, np.ones((2, 2)), np.kron(np.eye(7), SINGULAR)], ids=len
)
def test_a_singular_covariance_is_refused(covariance):
    """x2 = x0 + x1 too, which no proper coalition shows; 21 columns go by orders."""
    mean = np.zeros(len(covariance))
    for make in (
        lambda: LinearGaussian(mean + 1, 0.0, mean, covariance),
        lambda: linear_transform(mean, covariance),
    ):
        with pytest.raises(
            InputError, match=r"columns .*x0.* determine one another.*set ridge=0\.0001"
        ):
            make()
    assert (
        LinearGaussian(mean + 1, 0.0, mean, covariance, kind="interventional").kind
        == "interventional"
    )


def test_what_is_no_covariance_is_refused():
    for make in (linear_transform, lambda *own: LinearGaussian(np.ones(3), 0.0, *own)):
        with pytest.raises(
            InputError, match=r"covariance is not one: .* eigenvalue -0\.8, below 0"
        ):
            make(np.zeros(3), INDEFINITE)


def test_a_kept_transform_serves_another_model(tmp_path):
    mean, covariance, coef, intercept, rows = normal(5, 2)
    linear_transform(mean, covariance, players={"both": ["x0", "x3"]}).save(
        tmp_path / "transform.npz"
    )
    kept = LinearTransform.load(tmp_path / "transform.npz")
    direct = LinearGaussian(coef, intercept, mean, covariance, players={"both": ["x0", "x3"]})
    one, two = (
        dshap.explain(value, rows)
        for value in (LinearGaussian(coef, intercept, transform=kept), direct)
    )
    np.testing.assert_allclose(one.attribution, two.attribution, rtol=1e-12)
    assert one.feature.values.tolist() == two.feature.values.tolist() == ["both", "x1", "x2", "x4"]
    drawn = linear_transform(mean, covariance, n_permutations=100)
    drawn.save(tmp_path / "drawn.npz")
    made, again = (
        dshap.explain(LinearGaussian(coef, intercept, transform=own), rows)
        for own in (drawn, LinearTransform.load(tmp_path / "drawn.npz"))
    )
    assert (made.std_error > 0).any()
    assert kept.replicates.shape[0] == 0
    np.testing.assert_array_equal(made.std_error, again.std_error)


def test_too_few_orders_state_why_no_error_is_known():
    """As designs do: sinks of reasons refuse such attributions, a call warns."""
    mean, covariance, coef, intercept, rows = normal(6, 11)
    few = linear_transform(mean, covariance, n_permutations=20)
    for value, count in (
        (LinearGaussian(coef, intercept, mean, covariance, n_permutations=20), "=20 is too few"),
        (LinearGaussian(coef, intercept, transform=few), " of the transform is too few"),
    ):
        why = choose("auto", value, 1_000, 0).why_no_order
        assert why.startswith(f"n_permutations{count} for standard errors: give 100 or more")
        with pytest.warns(RuntimeWarning, match="std_error is NaN: n_permutations"):
            cube = dshap.explain(value, rows)
        assert np.isnan(cube.std_error).all()
    for known in (
        LinearGaussian(coef, intercept, mean, covariance, n_permutations=100),
        LinearGaussian(coef, intercept, mean, covariance, n_permutations=20, kind="interventional"),
        LinearGaussian(coef, intercept, mean, covariance),
        LinearGaussian(coef, intercept, transform=linear_transform(mean, covariance)),
    ):
        assert choose("auto", known, 1_000, 0).why_no_order == ""


def test_data_are_summed_wherever_they_lie(tmp_path):
    """Mean and covariance of a table in Parquet, those that numpy computes; prepared once."""
    mean, covariance, coef, intercept, rows = normal(5, 6)
    data = np.random.default_rng(1).multivariate_normal(mean, covariance, 3_000)
    names = list("abcde")
    pd.DataFrame(data, columns=names).to_parquet(tmp_path / "data.parquet")
    given = LinearGaussian(coef, intercept, data.mean(axis=0), np.cov(data.T), feature_names=names)
    wanted = dshap.explain(given, pd.DataFrame(rows, columns=names))
    for table in (data, tmp_path / "data.parquet"):
        value = LinearGaussian(coef, intercept, data=table, feature_names=names)
        cube = dshap.explain(value, pd.DataFrame(rows, columns=names), row_span=700)
        np.testing.assert_allclose(cube.attribution, wanted.attribution, rtol=1e-9)
    prepared = dshap.prepare(value, store=tmp_path / "prepared")
    again = dshap.explain(prepared, pd.DataFrame(rows, columns=names))
    np.testing.assert_allclose(again.attribution, wanted.attribution, rtol=1e-9)


def test_sampled_expectations_agree():
    """`Gaussian` draws with antithetic pairs: a linear model has no Monte-Carlo error in it."""
    mean, covariance, coef, intercept, rows = normal(4, 9)
    data = np.random.default_rng(1).multivariate_normal(mean, covariance, 2_000)
    drawn = dshap.explain(Gaussian(lambda x: x @ coef.T + intercept, data, n_samples=2), rows)
    closed = dshap.explain(LinearGaussian(coef, intercept, data=data), rows)
    np.testing.assert_allclose(closed.attribution, drawn.attribution, atol=1e-10)


def test_interventional_form():
    _, _, coef, intercept, rows = normal(5, 12)
    background = np.random.default_rng(0).normal(size=(50, 5))
    players = {"two": ["x1", "x2"]}
    plugged = Marginal(lambda x: x @ coef.T + intercept, background, players=players)
    value = LinearGaussian(
        coef, intercept, background.mean(axis=0), kind="interventional", players=players
    )
    cube = dshap.explain(value, rows)
    np.testing.assert_allclose(
        cube.attribution, dshap.explain(plugged, rows).attribution, atol=1e-12
    )


def test_fitted_models_by_their_names():
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd"))
    X["d"] += X["a"]
    y = X @ rng.normal(size=(4, 2))
    model = linear.Ridge(1e-6).fit(X, y)
    shuffled = X[list("dcba")]
    cube = dshap.explain(LinearGaussian(model, data=shuffled), shuffled)
    assert cube.feature.values.tolist() == list("abcd")
    np.testing.assert_allclose(cube.prediction, model.predict(X), atol=1e-10)
    labels = np.array(["low", "mid", "high"])[np.digitize(y[0], [-0.5, 0.5])]
    classifier = linear.LogisticRegression().fit(X, labels)
    cube = dshap.explain(LinearGaussian(classifier, data=X), X[:50])
    assert cube.output.values.tolist() == [f"score of {name}" for name in classifier.classes_]
    np.testing.assert_allclose(cube.prediction, classifier.decision_function(X[:50]), atol=1e-10)


def test_models_that_are_linear_in_name_only_are_refused():
    cross = pytest.importorskip("sklearn.cross_decomposition")
    linear, svm = pytest.importorskip("sklearn.linear_model"), pytest.importorskip("sklearn.svm")
    rng = np.random.default_rng(3)
    X = 5 + rng.normal(size=(90, 3))
    y = X @ np.ones(3) + rng.normal(size=90)
    for model in (
        linear.PoissonRegressor().fit(X, np.abs(y)),
        svm.SVC(kernel="linear").fit(X, np.digitize(y, [14, 16])),
    ):
        with pytest.raises(InputError, match=r"are not coef_·x \+ intercept_"):
            LinearGaussian(model, data=X)
    try:
        LinearGaussian(cross.PLSRegression(2).fit(X, y), data=X)
    except InputError as error:
        assert "intercept_" in str(error)


def test_a_transform_of_other_columns_is_refused():
    transform = linear_transform(MEAN, COVARIANCE, feature_names=list("abc"))
    with pytest.raises(InputError, match=r"the transform has columns .*the model's order"):
        LinearGaussian(np.ones(3), transform=transform, feature_names=list("bac"))
    assert LinearGaussian(np.ones(3), transform=transform).model.feature_names == ("a", "b", "c")


MEAN, COVARIANCE = np.zeros(3), np.eye(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LinearGaussian(np.ones(3)),
            "give mean and covariance, or data, or transform: one of the three",
        ),
        (lambda: LinearGaussian(np.ones(3), 0.0, MEAN), "covariance is missing"),
        (
            lambda: LinearGaussian(np.ones(4), 0.0, MEAN, COVARIANCE),
            r"4 coefficients and mean has shape \(3,\)",
        ),
        (
            lambda: LinearGaussian(np.ones(3), 0.0, MEAN, np.eye(2)),
            r"covariance \(2, 2\): give finite",
        ),
        (lambda: LinearGaussian(np.ones(3), 0.0, MEAN, np.triu(np.ones((3, 3)))), "not symmetric"),
        (lambda: LinearGaussian(np.ones(3), 0.0, MEAN, -np.eye(3)), "a variance is negative"),
        (
            lambda: LinearGaussian(np.ones(3), 0.0, MEAN, COVARIANCE, kind="causal"),
            "Allowed: interventional, observational",
        ),
        (
            lambda: LinearGaussian(np.ones(3), [1.0, 2.0], MEAN, COVARIANCE),
            "intercept .*with a number",
        ),
        (lambda: LinearGaussian([np.nan, 1, 1], 0.0, MEAN, COVARIANCE), "contains NaN"),
        (
            lambda: LinearGaussian(
                Gaussian(lambda x: x[:, 0], np.ones((2, 3))), 0.0, MEAN, COVARIANCE
            ),
            "Gaussian has no coef_: give a fitted linear model",
        ),
        (lambda: LinearGaussian(np.ones(3), 0.0, MEAN, COVARIANCE, ridge=-1.0), "ridge is -1"),
        (
            lambda: dshap.explain(
                LinearGaussian(np.ones(3), 0.0, MEAN, COVARIANCE), np.ones((2, 3)), design=exact(3)
            ),
            "LinearGaussian is a closed form, which uses no coalitions",
        ),
        (
            lambda: dshap.explain(
                LinearGaussian(np.ones(3), 0.0, MEAN, COVARIANCE),
                np.ones((2, 3)),
                design=kernelshap(3, 8),
            ),
            "leave design at 'auto'",
        ),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises((InputError, dshap.DshapError), match=message):
        make()
