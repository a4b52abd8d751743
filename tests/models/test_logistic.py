"""Kernel logistic regression against scikit-learn and against its own definition, and how Newton's
method ends."""

import io
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression  # scikit-learn 1.5 or later
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score

from dshap.core.errors import InputError
from dshap.core.records import Record
from dshap.core.rows import sample_positions
from dshap.kernels import RBF, Fourier, Nystrom
from dshap.models import FourierExpansion, KernelLogistic
from dshap.models.logistic import LogisticStep
from dshap.models.newton import PENALTIES, Newton, class_pairs, contrasts, logistic_sums, newton_on
from tests.models.row_blocks import block_of, chunks

NAMES = np.array(["high", "low", "middle"])


def make_table(n=800, seed=0, noise=1.0):
    """x (n, 3), and a noisy number that classes are cut from."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + noise * rng.normal(size=n)


def labels_of(number, k):
    return (number > 0.3).astype(int) if k == 2 else NAMES[np.digitize(number, [-0.5, 0.6])]


def nystrom_features(model, x):
    """Φ by a plain Cholesky factor: any root of K_zz gives the same penalty."""
    kernel, z = model.expansion_.kernel, model.expansion_.landmarks
    return np.linalg.solve(np.linalg.cholesky(kernel.matrix(z, z)), kernel.matrix(x, z).T).T


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("penalty", [1e-2, 1e-5])
def test_it_is_scikit_learns_logistic_regression_on_the_features(k, penalty):
    """C = 1/(λn); probabilities, since scikit-learn's intercepts are free up to a constant.  1e-6
    as promised."""
    x, number = make_table()
    y = labels_of(number, k)
    model = KernelLogistic(RBF(1.0), Nystrom(25), penalty, tol=1e-12).fit(x, y)
    phi = nystrom_features(model, x)
    peer = LogisticRegression(
        C=1.0 / (penalty * len(x)), solver="newton-cg", tol=1e-11, max_iter=10_000
    ).fit(phi, y)
    np.testing.assert_array_equal(model.classes_, peer.classes_)
    np.testing.assert_allclose(model.predict_proba(x), peer.predict_proba(phi), atol=1e-6)
    own, others = model.decision_function(x), peer.decision_function(phi)
    assert own.shape == others.shape == ((800,) if k == 2 else (800, 3))
    if k > 2:
        np.testing.assert_allclose(own.sum(axis=1), 0.0, atol=1e-9)
        others = others - others.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(own, others, atol=1e-5 if k > 2 else 1e-6)  # newton-cg stops there
    np.testing.assert_array_equal(model.predict(x), peer.predict(phi))
    assert model.score(x, y) == pytest.approx(peer.score(phi, y))
    assert model.expansion_.output_names == ((str(model.classes_[1]),) if k == 2 else tuple(NAMES))


@pytest.mark.parametrize(
    ("k", "embedding"), [(2, Nystrom(20)), (3, Nystrom(20)), (2, Fourier(40)), (3, Fourier(40))]
)
def test_no_direction_lowers_the_objective(k, embedding):
    """The stated objective, written with the expansion alone: its numeric gradient vanishes.

    1e-7: central differences of step 1e-4 with curvatures of at most 1 err by 1e-9, rounding by
    1e-16/1e-4.
    """
    x, number = make_table(400)
    y, penalty = labels_of(number, k), 1e-3
    model = KernelLogistic(RBF(1.0), embedding, penalty, tol=1e-13).fit(x, y)
    expansion, codes = model.expansion_, np.searchsorted(model.classes_, y)

    def objective(moved):
        f = moved.predict(x)
        logits = f if k > 2 else np.hstack([np.zeros_like(f), f])
        loss = np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(x)), codes])
        if isinstance(moved, FourierExpansion):
            norm = np.square(moved.weights).sum() * len(moved.frequencies) / 2
        else:
            own = moved.kernel.matrix(moved.landmarks, moved.landmarks)
            norm = np.sum(moved.weights * (own @ moved.weights))
        return loss + penalty / 2 * norm

    rng = np.random.default_rng(1)
    for name in ("weights", "intercept", "weights"):
        value = getattr(expansion, name)
        direction = rng.normal(size=value.shape)
        direction /= np.linalg.norm(direction)
        up, down = (
            objective(replace(expansion, **{name: value + h * direction})) for h in (1e-4, -1e-4)
        )
        assert abs(up - down) / 2e-4 < 1e-7
        assert min(up, down) > objective(expansion)
    assert model.report_.convergence.objective == pytest.approx(objective(expansion), rel=1e-9)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_sums_are_the_derivatives_of_the_loss(k):
    rng = np.random.default_rng(k)
    psi = np.column_stack([rng.normal(size=(40, 2)), np.ones(40)])
    codes, contrast = rng.integers(0, k, 40), contrasts(k)
    at = rng.normal(size=(3, contrast.shape[1]))
    sums = logistic_sums([(psi[:15], codes[:15]), (psi[15:], codes[15:])], at, contrast)

    def moved(i, j, h):
        point = at.copy()
        point[i, j] += h
        return logistic_sums([(psi, codes)], point, contrast)

    for i, j in np.ndindex(*at.shape):
        up, down = moved(i, j, 1e-5), moved(i, j, -1e-5)
        # central differences: step² in truncation, 1e-14/step in rounding
        np.testing.assert_allclose(
            (up["loss"] - down["loss"]) / 2e-5, sums["gradient"][i, j], rtol=1e-6, atol=1e-7
        )
        slope = (up["gradient"] - down["gradient"]) / 2e-5  # (3, c)
        for block, (a, b) in zip(sums["hessian"], class_pairs(contrast.shape[1]), strict=True):
            if j in (a, b):
                np.testing.assert_allclose(
                    slope[:, b if j == a else a], block[i], rtol=1e-6, atol=1e-7
                )
    np.testing.assert_array_equal(sums["counts"], np.bincount(codes))


def test_a_loose_tolerance_takes_no_long_step_unseen():
    """Nine tenths of the objective would be gained at once, by steps that move log-odds by tens:
    more passes follow."""
    rng = np.random.default_rng(0)
    psi = np.column_stack([rng.normal(size=(200, 4)) / 2.0, np.ones(200)])
    codes = (psi[:, 0] > 0).astype(int)
    start = Newton(1e-6, contrasts(2), np.zeros((5, 1)), 0.999, 50)
    first = start.next(logistic_sums([(psi, codes)], start.weights, start.contrast))
    assert first.decrement < 0.999 * first.objective
    assert np.linalg.norm(first.direction) > 1.0
    assert first.ending is None


@pytest.mark.slow
def test_a_start_from_a_separable_sample_is_left_for_none():
    """300 rows and 250 landmarks fit anything; noisy classes of 20,000 rows then start from their
    shares instead."""
    x, number = make_table(20_000)
    make = lambda size: KernelLogistic(RBF(1.0), Nystrom(landmarks=x[:200]), 1e-9, sample_size=size)  # noqa: E731
    misled, well = make(300).fit(x, labels_of(number, 2)), make(20_000).fit(x, labels_of(number, 2))
    assert misled.report_.convergence.n_passes <= 12
    # 1e-3: tol is 1e-8 of the objective, next to no penalty holds the log-odds, which reach 15
    np.testing.assert_allclose(misled.decision_function(x), well.decision_function(x), atol=1e-3)


def test_a_bad_start_is_damped_and_ends_at_the_same_point():
    """From saturated weights the full Newton step overshoots; every accepted objective is lower
    than the last."""
    rng = np.random.default_rng(0)
    psi = np.column_stack([rng.normal(size=(200, 4)), np.ones(200)])
    codes = (psi[:, 0] + rng.normal(size=200) > 0).astype(int)
    start = Newton(1e-3, contrasts(2), np.zeros((5, 1)), 1e-13, 200)
    good = newton_on(start, psi, codes)
    bad = np.full((5, 1), 9.0)
    now, accepted, halvings = replace(start, weights=bad, accepted=bad), [], 0
    while now.ending is None:
        now = now.next(logistic_sums([(psi, codes)], now.weights, now.contrast))
        halvings += now.step < 1.0
        accepted.append(now.objective)
    assert now.is_converged
    assert halvings > 0
    assert good.n_passes < 12
    assert (np.diff(accepted) <= 1e-13).all()
    np.testing.assert_allclose(now.weights, good.weights, atol=1e-9)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (lambda y: y, [0, 1, 2]),
        (lambda y: y > 0, [False, True]),
        (lambda y: 10.0 * y, [0.0, 10.0, 20.0]),
        (lambda y: NAMES[y], sorted(NAMES)),
        (lambda y: NAMES[y].astype(object), sorted(NAMES)),
        (lambda y: pd.Series(NAMES[y], dtype="category"), sorted(NAMES)),
        (lambda y: pd.DataFrame({"y": y}), [0, 1, 2]),
        (lambda y: list(NAMES[y]), sorted(NAMES)),
    ],
)
def test_labels_of_any_kind(labels, classes):
    x, number = make_table(300)
    given = labels(np.digitize(number, [-0.5, 0.6]))
    model = KernelLogistic(RBF(1.0), Nystrom(20), 1e-3).fit(x, given)
    np.testing.assert_array_equal(model.classes_, classes)
    predicted = model.predict(x)
    assert predicted.shape == (300,)
    assert set(predicted) <= set(classes)
    assert model.score(x, np.asarray(given).ravel()) > 0.6
    np.testing.assert_allclose(model.predict_proba(x).sum(axis=1), 1.0, rtol=1e-12)
    plain = KernelLogistic(RBF(1.0), Nystrom(20), 1e-3).fit(
        x, np.searchsorted(classes, np.asarray(given).ravel())
    )
    np.testing.assert_array_equal(model.decision_function(x), plain.decision_function(x))


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3])
@settings(max_examples=15, deadline=None)
@given(chunks=chunks(400))
def test_any_chunks_of_the_input_give_the_same_bits(k, chunks):
    """Seven spans of 64 rows, the last of 16."""
    x, number = make_table(400)
    y = labels_of(number, k)
    model = KernelLogistic(RBF("median"), Nystrom(12), "validate", holdout=0.1, sample_size=300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dshap.models.rows.SPAN_ROWS", 64)
        whole = model.unfitted().fit(x, y)
        parts = model.unfitted().fit(chunks(x, y))
    assert parts.expansion_.digest() == whole.expansion_.digest()
    assert str(parts.report_) == str(whole.report_)


def test_the_pieces_a_cluster_runs_give_the_same_bits():
    """Classes are numbers there; a step travels by pickle."""
    x, number = make_table(3000)
    y = 2.0 * np.digitize(number, [-0.5, 0.6]) + 1.0
    model = KernelLogistic(RBF(1.0), Nystrom(15), "validate", holdout=0.2, sample_size=1000)
    whole = model.unfitted().fit(x, y)
    own = sample_positions(len(x), 1000, model.seed)
    step, n_steps = model.tuned(x[own], y[own], own), 0
    while isinstance(step, LogisticStep):
        step = pickle.loads(pickle.dumps(step))
        step, n_steps = step.finish(step.partial(block_of(x, y))), n_steps + 1
    assert step.expansion_.digest() == whole.expansion_.digest()
    assert step.expansion_.output_names == ("1", "3", "5")
    assert n_steps == whole.report_.convergence.n_passes
    np.testing.assert_array_equal(step.classes_, [1.0, 3.0, 5.0])


def test_held_out_rows_enter_no_sum_and_give_the_scores():
    x, number = make_table(3000)
    y = labels_of(number, 3)
    make = lambda: KernelLogistic(RBF(1.0), Nystrom(15), 1e-3, holdout=0.2)  # noqa: E731
    model = make().fit(x, y)
    held = np.flatnonzero(model.roles(np.arange(3000)) == 2)
    spoiled = y.copy()
    spoiled[held] = "low"
    assert make().fit(x, spoiled).expansion_.digest() == model.expansion_.digest()
    scores, chances = model.report_.held_out, model.predict_proba(x[held])
    np.testing.assert_allclose(scores["accuracy"], model.score(x[held], y[held]), rtol=1e-12)
    np.testing.assert_allclose(
        scores["log_loss"], log_loss(y[held], chances, labels=model.classes_), rtol=1e-9
    )
    assert model.report_.n_held_out == len(held)
    assert "held-out accuracy: 0." in str(model.report_)


def test_the_sample_spares_passes_over_all_rows():
    """A quarter of the rows leads to within a step or two of the end; from zero it takes several
    more."""
    x, number = make_table(20_000)
    model = KernelLogistic(RBF(1.0), Nystrom(20), 1e-4, sample_size=5000).fit(
        x, labels_of(number, 2)
    )
    ending = model.report_.convergence
    assert ending.is_converged
    assert ending.n_passes <= 4
    assert ending.decrement < 1e-8 * ending.objective
    assert "converged in" in str(model.report_)


def test_too_few_passes_are_told():
    x, number = make_table(3000)
    make = lambda **given: KernelLogistic(RBF(0.5), Nystrom(60), 1e-6, sample_size=300, **given)  # noqa: E731
    with pytest.warns(
        RuntimeWarning, match=r"NOT converged in 2 passes .*max_iter = 2 passes are over"
    ):
        model = make(max_iter=2).fit(x, labels_of(number, 2))
    assert not model.report_.convergence.is_converged
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        full = make().fit(x, labels_of(number, 2))
    assert full.report_.convergence.objective < model.report_.convergence.objective


def test_separable_classes_converge_with_a_penalty_and_are_told_without():
    x = np.random.default_rng(0).normal(size=(500, 2))
    x, y = x[np.abs(x[:, 0]) > 0.2], np.sign(x[np.abs(x[:, 0]) > 0.2, 0])
    model = KernelLogistic(RBF(1.0), Nystrom(30), 1e-9).fit(x, y)
    assert model.report_.convergence.is_converged
    assert model.score(x, y) == 1.0
    assert np.abs(model.decision_function(x)).min() > 5.0
    with pytest.warns(RuntimeWarning, match="NOT converged"):  # no minimum exists
        KernelLogistic(RBF(1.0), Nystrom(5), 0.0).fit(x, y)
    with pytest.raises(
        InputError, match=r"rows is 0, too small for the landmarks .*\(41 weights.*make it"
    ):
        # with the intercept more weights than rows
        KernelLogistic(RBF(0.3), Nystrom(40), 0.0).fit(x[:40], y[:40])


@pytest.mark.parametrize("k", [2, 3])
def test_validated_penalty_has_nearly_the_least_validation_loss(k):
    """Against full fits on the training rows of the sample at every penalty of the grid.

    1e-3: the path stops Newton's method where it gains 1e-3 of the objective.
    """
    x, number = make_table(1000)
    y = labels_of(number, k)
    model = KernelLogistic(RBF(0.7), Nystrom(100), "validate").fit(x, y)
    is_train = model.roles(np.arange(1000)) == 0
    losses = {}
    for penalty in PENALTIES[:13]:
        trial = KernelLogistic(
            RBF(0.7), Nystrom(landmarks=model.expansion_.landmarks), float(penalty)
        )
        trial.fit(x[is_train], y[is_train])
        losses[float(penalty)] = log_loss(
            y[~is_train], trial.predict_proba(x[~is_train]), labels=trial.classes_
        )
    assert PENALTIES[12] < model.penalty_ < 1.0
    assert losses[model.penalty_] <= min(losses.values()) * 1.001
    assert model.report_.n_rows == 1000


def test_lengthscales_are_validated_on_the_classes():
    """Columns: one that decides, one that does not."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (2000, 2))
    y = np.where(np.sin(6 * x[:, 0]) + 0.3 * rng.normal(size=2000) > 0, "yes", "no")
    model = KernelLogistic(RBF("validate"), Nystrom(60), 1e-4, holdout=0.2).fit(x, y)
    scale = model.expansion_.kernel.parameters
    assert scale[1] > 3 * scale[0]
    assert model.report_.tuning is not None
    assert model.report_.held_out["accuracy"][0] > 0.85


def test_rows_with_nan_are_refused_or_skipped_and_counted():
    x, number = make_table(300)
    y = labels_of(number, 3).astype(object)
    bad_x, bad_y = x.copy(), y.copy()
    bad_x[17, 1], bad_y[40], bad_y[41] = np.nan, None, np.nan
    with pytest.raises(
        InputError, match=r"3 of rows 0..299 .* the first is row 17: .* missing='skip'"
    ):
        KernelLogistic(RBF(1.0), Nystrom(20)).fit(bad_x, bad_y)
    own = Nystrom(landmarks=x[:15])
    skipped = KernelLogistic(RBF(1.0), own).fit(bad_x, bad_y, missing="skip")
    clean = KernelLogistic(RBF(1.0), own).fit(
        *(np.delete(rows, [17, 40, 41], axis=0) for rows in (x, y))
    )
    # 1e-9: micro-blocks of another length, the same sums
    np.testing.assert_allclose(skipped.decision_function(x), clean.decision_function(x), atol=1e-9)
    assert skipped.report_.n_skipped == 3
    assert len(skipped.classes_) == 3


def test_a_class_that_the_sample_lacks_is_refused_by_name():
    x, number = make_table(5000)
    y = labels_of(number, 2).astype(float)
    y[4321] = 7.0
    with pytest.raises(
        InputError, match="class 7 occurs in the data and not in the 100 rows of the sample"
    ):
        KernelLogistic(RBF(1.0), Nystrom(10), sample_size=100).fit(x, y)
    own = sample_positions(5000, 100, 0)
    step = KernelLogistic(RBF(1.0), Nystrom(10), sample_size=100).tuned(x[own], y[own], own)
    with pytest.raises(
        InputError,
        match=r"class 7 occurs in the data \(1 of .* whose classes are 0, 1: raise sample",
    ):
        step.partial(block_of(x[4000:], y[4000:], 4000))


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (lambda x, y: KernelLogistic().fit(x, np.full(len(x), "a")), r"one class only \(a\)"),
        (
            lambda x, y: KernelLogistic().fit(x, y),
            "more than 256 distinct values: for numbers use KernelRidge",
        ),
        (
            lambda x, y: KernelLogistic().fit(x, np.column_stack([y > 0, y > 1])),
            r"\(300, 2\): .* one column of labels",
        ),
        (
            lambda x, y: KernelLogistic().fit(x, np.array([1, "a"] * 150, dtype=object)),
            "labels of several kinds",
        ),
        (lambda x, y: KernelLogistic().fit(x, (y > 0)[:-1]), "X has 300 rows and y has shape"),
        (lambda x, y: KernelLogistic().fit(x[:0], y[:0]), "X is empty"),
        (lambda x, y: KernelLogistic(max_iter=0), "max_iter is 0"),
        (lambda x, y: KernelLogistic(penalty="auto"), "penalty is 'auto'"),
    ],
)
def test_bad_input_is_refused(fit, words):
    with pytest.raises(InputError, match=words):
        fit(*make_table(300))


def test_scikit_learns_tools_take_the_model():
    x, number = make_table(600, noise=0.3)
    y = labels_of(number, 3)
    model = KernelLogistic(RBF("median"), Nystrom(30), 1e-4)
    assert clone(model).get_params()["max_iter"] == 30
    search = GridSearchCV(model, {"penalty": [1e-4, 1.0]}, cv=2, scoring="neg_log_loss").fit(x, y)
    assert search.best_params_ == {"penalty": 1e-4}
    assert search.best_estimator_.score(x, y) > 0.8
    assert cross_val_score(model, x, y, cv=2).min() > 0.7


@pytest.mark.parametrize("embedding", [Nystrom(15), Fourier(30)])
@pytest.mark.parametrize("k", [2, 3])
def test_a_stored_model_comes_back_whole(k, embedding):
    x, number = make_table(1000)
    table = pd.DataFrame(x, columns=["a", "b", "c"])
    model = KernelLogistic(RBF("median"), embedding, "validate", holdout=0.2)
    fitted = model.unfitted().fit(table, labels_of(number, k))
    back = model.restored(Record.load(io.BytesIO(fitted.to_record().to_bytes())))
    np.testing.assert_array_equal(back.predict(table), fitted.predict(table))
    np.testing.assert_array_equal(back.predict_proba(x), fitted.predict_proba(x))
    assert str(back.report_) == str(fitted.report_)
    assert list(back.feature_names_in_) == [
        "a",
        "b",
        "c",
    ]
    assert back.report_.convergence == fitted.report_.convergence
