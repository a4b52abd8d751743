"""Kernel ridge regression against closed forms and scikit-learn, and the sums that it is made
of."""

import io
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge as PeerRidge  # scikit-learn 1.5 or later
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dshap
from dshap.core.errors import InputError, NotFittedError
from dshap.core.records import Record
from dshap.core.rows import SPAN_ROWS, row_draws, sample_positions
from dshap.kernels import RBF, Categorical, Fourier, Laplacian, Nystrom, Product, ProductKernel
from dshap.models import FourierExpansion, KernelExpansion, KernelRidge
from dshap.models.ridge import PENALTIES
from dshap.models.rows import placed_blocks
from dshap.values import KernelInterventional
from tests.models.row_blocks import block_of, chunks

BIKE = [
    "season",
    "yr",
    "mnth",
    "hr",
    "holiday",
    "weekday",
    "workingday",
    "weathersit",
    "temp",
    "atemp",
    "hum",
]
BIKE += ["windspeed"]


def both_embeddings(n):
    return [Nystrom(n), Fourier(2 * n)]


def make_table(n=300, k=1, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    signal = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    return x, signal[:, None] * np.arange(1, k + 1) + 0.1 * rng.normal(size=(n, k)) + 5.0


def weights_of(model):
    return model.expansion_.weights


@pytest.mark.parametrize("k", [1, 3])
def test_every_row_a_landmark_is_full_kernel_ridge(k):
    """c + K(x, X)(K + nλI)⁻¹(y − c), and scikit-learn's with alpha = nλ on centred y.

    1e-6 of the largest value: rank_tolerance 1e-12 over λ 1e-4, times some tens.
    """
    x, y = make_table(k=k)
    n, penalty = len(x), 1e-4
    model = KernelRidge(RBF(1.5), Nystrom(n), penalty).fit(x, y)
    new, kernel = x[:40] + 0.1, RBF(1.5).bind(3)
    dual = np.linalg.solve(kernel.matrix(x, x) + n * penalty * np.eye(n), y - y.mean(0))
    dense = y.mean(0) + kernel.matrix(new, x) @ dual
    peer = PeerRidge(alpha=n * penalty, kernel="rbf", gamma=0.5 / 1.5**2).fit(x, y - y.mean(0))
    np.testing.assert_allclose(model.predict(new), dense, atol=1e-6 * np.abs(dense).max())
    np.testing.assert_allclose(
        model.predict(new), peer.predict(new) + y.mean(0), atol=1e-6 * np.abs(dense).max()
    )
    assert model.predict(new).shape == (40, k)


def test_landmark_weights_solve_the_stated_normal_equations():
    x, y = make_table()
    model = KernelRidge(RBF(1.0), Nystrom(30), 1e-3, intercept=2.0).fit(x, y[:, 0])
    z, kernel = model.expansion_.landmarks, model.expansion_.kernel
    cross, own = kernel.matrix(x, z), kernel.matrix(z, z)
    expected = np.linalg.solve(cross.T @ cross + len(x) * 1e-3 * own, cross.T @ (y[:, 0] - 2.0))
    # 1e-7: the condition of this system is about 1e6
    np.testing.assert_allclose(
        weights_of(model)[:, 0], expected, atol=1e-7 * np.abs(expected).max()
    )
    np.testing.assert_array_equal(model.expansion_.intercept, [2.0])
    assert model.predict(x).shape == (len(x),)


def test_fourier_weights_are_those_of_ridge_on_cosines_and_sines():
    """The features written out: 1e-8, the condition of the system (about 1e6) times 1e-15, and
    some."""
    x, y = make_table(k=2)
    kernel = Product([RBF(1.0), Laplacian(2.0), RBF(0.5)])
    model = KernelRidge(kernel, Fourier(60, seed=3), 1e-3).fit(x, y)
    angle = x @ Fourier(60, seed=3).anchors(x, kernel.bind(3)).T  # (n, 30)
    phi = np.hstack([np.cos(angle), np.sin(angle)]) / np.sqrt(30)
    centred = y - y.mean(axis=0)
    twin = np.linalg.solve(phi.T @ phi + len(x) * 1e-3 * np.eye(60), phi.T @ centred)
    np.testing.assert_allclose(model.predict(x), y.mean(axis=0) + phi @ twin, atol=1e-8)
    assert isinstance(model.expansion_, FourierExpansion)
    assert model.expansion_.size == 30
    np.testing.assert_array_equal(model.expansion_.kernel.parameters, [1.0, 2.0, 0.5])


def test_fourier_features_and_landmarks_tell_the_same_story():
    """A smooth function of 3 columns: 400 features of either kind leave next to nothing
    unexplained."""
    x, y = make_table(4000)
    fits = [
        KernelRidge(RBF("median"), embedding, 1e-7, holdout=0.2).fit(x, y)
        for embedding in both_embeddings(200)
    ]
    assert min(fit.r2_[0] for fit in fits) > 0.97  # noise alone leaves 0.993
    assert abs(fits[0].r2_[0] - fits[1].r2_[0]) < 0.01
    assert "frequencies: 200, a cosine and a sine each" in str(fits[1].report_)


def test_fourier_features_take_tuned_lengthscales_but_no_categories():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(0, 12, 1500), rng.normal(size=1500)]).astype(float)
    y = rng.normal(size=12)[x[:, 0].astype(int)] + 0.3 * x[:, 1]
    families = [KernelRidge(RBF("validate"), own, 1e-4).fit(x, y).expansion_.kernel.families for own in
                both_embeddings(20)]  # fmt: skip
    assert families == [("categorical", "rbf"), ("rbf", "rbf")]
    with pytest.raises(
        InputError, match="column 0 has a categorical kernel, which has no frequencies"
    ):
        KernelRidge(Product([Categorical(), RBF("validate")]), Fourier(40)).fit(x, y)


def test_scikit_learns_tools_take_the_model():
    """Options by name, clones, cross-validation and grid search of scikit-learn 1.5 or later."""
    x, y = make_table(600)
    model = KernelRidge(RBF("median"), Nystrom(40), 1e-3, seed=5)
    assert clone(model).get_params()["seed"] == 5
    search = GridSearchCV(model, {"penalty": [1e-4, 10.0]}, cv=2).fit(x, y[:, 0])
    assert search.best_params_ == {"penalty": 1e-4}
    fitted = search.best_estimator_
    assert fitted.score(x, y[:, 0]) == pytest.approx(
        r2_score(y[:, 0], fitted.predict(x)), abs=1e-12
    )
    assert cross_val_score(make_pipeline(StandardScaler(), model), x, y[:, 0], cv=2).min() > 0.8
    with pytest.raises(InputError, match="unknown option 'penaly'; did you mean 'penalty'"):
        model.set_params(penaly=1.0)
    with pytest.raises(InputError, match="penalty is -1"):
        model.set_params(penalty=-1)


def test_a_large_mean_of_the_target_costs_no_digits():
    x, y = make_table()
    low, high = (
        KernelRidge(RBF(1.0), Nystrom(30), "validate").fit(x, y + shift) for shift in (0.0, 1e6)
    )
    # 1e6 carries 1e-10 in float64
    np.testing.assert_allclose(low.predict(x), high.predict(x) - 1e6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("embedding", both_embeddings(20))
@pytest.mark.parametrize("penalty", [1e-4, "validate"])
@settings(max_examples=15, deadline=None)
@given(chunks=chunks(300))
def test_any_chunks_of_the_input_give_the_same_bits(penalty, embedding, chunks):
    """Five spans of 64 rows, the last of 44."""
    x, y = make_table(300, k=2)
    model = KernelRidge(RBF("median"), embedding, penalty, holdout=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dshap.models.rows.SPAN_ROWS", 64)
        whole = model.unfitted().fit(x, y)
        parts = model.unfitted().fit(chunks(x, y))
    np.testing.assert_array_equal(weights_of(parts), weights_of(whole))
    np.testing.assert_array_equal(parts.r2_, whole.r2_)


def test_the_pieces_a_cluster_runs_give_the_same_bits():
    x, y = make_table(SPAN_ROWS + 500)
    model = KernelRidge(RBF(1.0), Nystrom(20), "validate", holdout=0.2)
    whole = KernelRidge(RBF(1.0), Nystrom(20), "validate", holdout=0.2).fit(x, y)
    own = sample_positions(len(x), model.sample_size, model.seed)
    tuned = pickle.loads(pickle.dumps(model.tuned(x[own], y[own], own)))
    leaves = [
        tuned.partial(block_of(x[s : s + SPAN_ROWS], y[s : s + SPAN_ROWS], s))
        for s in (0, SPAN_ROWS)
    ]
    fitted = tuned.finish(leaves[0] + leaves[1])
    np.testing.assert_array_equal(weights_of(fitted), weights_of(whole))
    scores = fitted.score_moments(block_of(x, y))
    # 1e-12: one sum here, a tree of two there
    np.testing.assert_allclose(fitted.held_out_score(scores)["r2"], whole.r2_, rtol=1e-12)


def test_held_out_rows_enter_no_sum():
    x, y = make_table(2000)
    make = lambda: KernelRidge(RBF("validate"), Nystrom(20), "validate", holdout=0.2)  # noqa: E731
    first = make().fit(x, y)
    held = np.flatnonzero(first.roles(np.arange(2000)) == 2)
    assert 300 < len(held) < 500  # binomial(2000, 0.2): 5.6 standard deviations either way
    spoiled = y.copy()
    spoiled[held] = 1e9
    second = make().fit(x, spoiled)
    np.testing.assert_array_equal(weights_of(first), weights_of(second))
    own = first.predict(x[held])
    r2 = 1 - np.square(y[held] - own).sum() / np.square(y[held] - y[held].mean()).sum()
    np.testing.assert_allclose(first.r2_, [r2], rtol=1e-10)
    assert first.report_.n_held_out == len(held)


def test_the_validated_penalty_is_the_largest_near_the_least_error_and_all_rows_are_used():
    x, y = make_table(3000)
    # noise that asks for a penalty inside the grid
    y = y + np.random.default_rng(1).normal(size=y.shape)
    model = KernelRidge(RBF(0.5), Nystrom(100), "validate").fit(x, y)
    is_validation = model.roles(np.arange(3000)) == 1
    errors = {}
    for penalty in PENALTIES:
        trial = KernelRidge(RBF(0.5), Nystrom(landmarks=model.expansion_.landmarks), float(penalty))
        trial.fit(x[~is_validation], y[~is_validation])
        errors[penalty] = np.square(trial.predict(x[is_validation]) - y[is_validation]).sum()
    assert PENALTIES[0] < model.penalty_ < PENALTIES[-1]
    assert model.penalty_ == max(
        own for own, error in errors.items() if error <= 1.005 * min(errors.values())
    )
    assert model.penalty_ > min(errors, key=errors.get)  # seen: twice as large
    assert model.report_.n_rows == 3000


def test_names_are_kept_and_matched():
    x, y = make_table()
    table = pd.DataFrame(x, columns=["a", "b", "c"])
    model = KernelRidge(embedding=Nystrom(20)).fit(table, pd.Series(y[:, 0]))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.n_features_in_ == 3
    np.testing.assert_array_equal(model.predict(table[["c", "a", "b"]]), model.predict(x))
    with pytest.raises(InputError, match="column 'c' is missing"):
        model.predict(table[["a", "b"]])
    assert "c: rbf" in str(model.report_)
    assert not hasattr(model.fit(x, y), "feature_names_in_")  # nothing of the first fit stays


def test_standardize_counts_lengthscales_in_standard_deviations():
    x, y = make_table()
    model = KernelRidge(RBF(2.0), Nystrom(20), standardize=True).fit(x * [1.0, 10.0, 100.0], y)
    np.testing.assert_allclose(
        model.expansion_.kernel.parameters, 2.0 * x.std(axis=0) * [1.0, 10.0, 100.0], rtol=1e-12
    )


def test_constant_columns_and_targets_are_allowed():
    x, y = make_table()
    x = np.column_stack([x, np.full(len(x), 7.0)])
    model = KernelRidge(RBF("validate"), Nystrom(20), "validate").fit(x, y)
    assert model.expansion_.kernel.parameters[3] == 1.0
    flat = KernelRidge(RBF("validate"), Nystrom(20), "validate", holdout=0.2).fit(
        x, np.full(len(x), 3.0)
    )
    np.testing.assert_allclose(flat.predict(x), 3.0, atol=1e-12)
    assert np.isnan(flat.r2_).all()


def test_rows_with_nan_are_refused_or_skipped_and_counted():
    x, y = make_table()
    bad_x, bad_y = x.copy(), y.copy()
    bad_x[17, 1], bad_y[40] = np.nan, np.inf
    with pytest.raises(
        InputError, match=r"2 of rows 0..299 .* the first is row 17: .* missing='skip'"
    ):
        KernelRidge(embedding=Nystrom(20)).fit(bad_x, bad_y)
    own = Nystrom(landmarks=x[:20])
    skipped = KernelRidge(RBF(1.0), own).fit(bad_x, bad_y, missing="skip")
    clean = KernelRidge(RBF(1.0), own).fit(
        np.delete(x, [17, 40], axis=0), np.delete(y, [17, 40], axis=0)
    )
    # 1e-9: micro-blocks of another length, the same sums
    np.testing.assert_allclose(skipped.predict(x), clean.predict(x), atol=1e-9)
    assert skipped.report_.n_skipped == 2


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (lambda x, y: KernelRidge(penalty=-1.0), "penalty is -1.0"),
        (lambda x, y: KernelRidge(penalty="auto"), "penalty is 'auto'"),
        (lambda x, y: KernelRidge(holdout=1.0), "holdout is 1.0"),
        (lambda x, y: KernelRidge(RBF(0.0)).fit(x, y), "lengthscale is 0.0"),
        (lambda x, y: KernelRidge().fit(x, y), "more landmarks than"),
        (lambda x, y: KernelRidge("rbf"), r"kernel is 'rbf': give one of dshap\.kernels"),
        (lambda x, y: KernelRidge(embedding=50), r"embedding is 50: give dshap\.kernels\.Nystrom"),
        (lambda x, y: KernelRidge().fit(x, y[:-1]), "X has 300 rows and y has shape"),
        (
            lambda x, y: KernelRidge(ProductKernel(("rbf",), [1.0])).fit(x, y),
            "the kernel has 1 columns, the data 3",
        ),
        (
            lambda x, y: KernelRidge(embedding=Nystrom(9), intercept=[1, 2]).fit(x, y),
            r"intercept has shape \(2,\)",
        ),
        (lambda x, y: KernelRidge().fit(x), "y is missing"),
        (lambda x, y: KernelRidge().fit(iter([(x, y)])), "not an iterator"),
        (lambda x, y: KernelRidge().fit(x[:0], y[:0]), "X is empty"),
        (lambda x, y: KernelRidge().fit(x, y, missing="drop"), "'refuse' or 'skip'"),
        (
            lambda x, y: KernelRidge(RBF(0.1), Nystrom(landmarks=x[:50]), 0.0).fit(x[:20], y[:20]),
            "penalty times rows is 0, too small for the landmarks",
        ),
        (
            lambda x, y: KernelRidge(RBF(0.1), Fourier(60), 0.0).fit(x[:20], y[:20]),
            "penalty times rows is 0, too small for the Fourier features",
        ),
        (
            lambda x, y: KernelRidge(embedding=Nystrom(9)).fit(x, ["a"] * 300),
            "targets must be numbers",
        ),
    ],
)
def test_bad_input_is_refused(fit, words):
    with pytest.raises(InputError, match=words):
        fit(*make_table())


def test_what_a_fit_leaves_is_missing_before_it():
    with pytest.raises(
        NotFittedError,
        match=r"KernelRidge is not fitted, so it has no expansion_: call fit\(X, y\)",
    ):
        KernelRidge().predict(np.zeros((2, 3)))
    assert not hasattr(KernelRidge(), "report_")
    assert not hasattr(KernelRidge(), "nonsense")


def test_spans_begin_at_fixed_rows_and_draws_are_uniform():
    x = np.arange(2 * SPAN_ROWS + 7.0)[:, None]
    found = list(
        placed_blocks(
            lambda: ((x[a : a + 30_001], x[a : a + 30_001, 0]) for a in range(0, len(x), 30_001))
        )
    )
    assert [start for start, _, _ in found] == [0, SPAN_ROWS, 2 * SPAN_ROWS]
    assert [len(rows) for _, rows, _ in found] == [SPAN_ROWS, SPAN_ROWS, 7]
    np.testing.assert_array_equal(np.concatenate([rows for _, rows, _ in found]), x)
    draws = row_draws(np.arange(100_000), 5)
    # Kolmogorov distance of 1e5 uniform draws: above 0.0062 once in a thousand seeds; this seed is
    # fixed
    assert np.abs(np.sort(draws) - np.arange(1e5) / 1e5).max() < 0.0062
    np.testing.assert_array_equal(row_draws(np.array([99_999]), 5), draws[-1:])
    # 3.3 standard errors
    assert abs(np.corrcoef(draws, row_draws(np.arange(100_000), 6))[0, 1]) < 0.0104


def test_a_bound_kernel_is_taken_as_it_is():
    x, y = make_table()
    kernel = ProductKernel(("rbf", "matern32", "laplacian"), [1.0, 2.0, 3.0])
    assert KernelRidge(kernel, Nystrom(20)).fit(x, y).expansion_.kernel is kernel


@pytest.mark.slow
def test_bike_sharing_reaches_its_r2():
    root = Path(__file__).parents[2]
    files = [
        root.parent / "shared/data/bike_hour.parquet",
        root / "workflows/data/bike_hour.parquet",
    ]
    path = next((path for path in files if path.exists()), None)
    if path is None:
        pytest.skip("bike_hour.parquet is missing")
    table = pd.read_parquet(path)
    model = KernelRidge(RBF("validate"), Nystrom(500), "validate", holdout=0.1).fit(
        table[BIKE], table["count"]
    )
    assert model.r2_[0] > 0.92  # seen: 0.932 to 0.938 over four seeds


@pytest.mark.parametrize("embedding", both_embeddings(20))
def test_a_stored_model_comes_back_whole(embedding):
    x, y = make_table(2000)
    model = KernelRidge(RBF("validate"), embedding, "validate", holdout=0.2)
    fitted = model.unfitted().fit(x, y)
    back = model.restored(Record.load(io.BytesIO(fitted.to_record().to_bytes())))
    np.testing.assert_array_equal(back.predict(x), fitted.predict(x))
    assert str(back.report_) == str(fitted.report_)
    assert back.penalty_ == fitted.penalty_
    assert type(back.expansion_) is type(fitted.expansion_)
    assert back.r2_.tobytes() == fitted.r2_.tobytes()
    assert back.n_features_in_ == fitted.n_features_in_


def test_a_category_that_was_not_seen_is_another_one_or_refused(rng, tmp_path):
    """ "other": as different from every landmark as two categories are; "refuse": nothing is
    written."""
    x = np.column_stack([rng.integers(0, 3, 80), rng.normal(size=80)]).astype(float)
    new = x.copy()
    new[70, 0] = 7.0
    kernel = Product([Categorical(0.4), RBF(1.0)])
    other = KernelRidge(kernel, Nystrom(20), 1e-3).fit(x, x[:, 1] * x[:, 0])
    stranger, factor = (
        other.expansion_,
        other.expansion_.kernel.factor(0, np.array([7.0]), np.array([0.0, 1.0, 2.0])),
    )
    np.testing.assert_array_equal(factor, np.full((1, 3), 0.4))
    assert np.isfinite(stranger.predict(new)).all()
    model = KernelRidge(kernel, Nystrom(20), 1e-3, unseen="refuse").fit(x, x[:, 1] * x[:, 0])
    np.testing.assert_array_equal(model.predict(x), other.predict(x))
    match = r"column 'x0' contains category 7 in 1 row\(s\), which the model was not fitted on \(it knows 0, 1, 2\)"
    with pytest.raises(InputError, match=match):
        model.predict(new)
    with pytest.raises(InputError, match=match):
        dshap.explain(KernelInterventional(model, x), new, store=tmp_path / "c.zarr")
    assert not list(tmp_path.iterdir())
    again = KernelExpansion.from_record(model.expansion_.to_record())
    assert again.unseen == "refuse"
    assert again.digest() == model.expansion_.digest() != stranger.digest()
    with pytest.raises(InputError, match="unseen"):
        KernelRidge(unseen="ignore")


def test_what_is_no_table_of_real_numbers_is_refused():
    """Complex numbers would lose their imaginary parts; sparse matrices are no arrays."""
    x, y = make_table()
    for rows, target in ((x + 1j, y), (x, y + 1j), (scipy.sparse.csr_array(x), y)):
        with pytest.raises(InputError, match="not supported"):
            KernelRidge(RBF(1.0), Nystrom(10)).fit(rows, target)
    with pytest.raises(InputError, match="Complex data"):
        KernelRidge(RBF(1.0), Nystrom(10)).fit(x, y).predict(x + 1j)
