"""Regressions of f(X) on the columns of each coalition: against plain linear algebra, and as
Shapley values."""

from __future__ import annotations

import itertools
import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dshap
from dshap.core.errors import InputError
from dshap.core.records import Moments
from dshap.core.types import replaced
from dshap.kernels import RBF, Categorical, Fourier, Laplacian, Nystrom, Product
from dshap.kernels.ridge import PENALTIES
from dshap.values import ConditionalRegression
from tests.values import oracles
from tests.values.oracles import shapley

D = 4


def predict(x):
    """Interactions of every order."""
    return np.column_stack(
        [x[:, 0] * x[:, 1] + np.sin(x[:, 2] + x[:, 3]), x.prod(axis=1) + x[:, 0]]
    )


def one_output(x):
    return predict(x)[:, 0]


@pytest.fixture
def data(rng):
    x = rng.normal(size=(300, D))
    x[:, 1] += x[:, 0]
    return x


def masks_of(d: int = D) -> np.ndarray:
    every = np.array(list(itertools.product([False, True], repeat=d)))
    return every[every.any(axis=1) & ~every.all(axis=1)]


def values_of(value, masks, data, rows):
    value = value.chosen(value.choose(data)) if value.sample_size else value
    return value.evaluate(value.prepare(masks, value.moments(masks, data)), rows)


def dense(kernel, f, data, rows, columns, penalty):
    """Kernel ridge regression with every row a centre: f̄ + K(x, X) (K + nλI)⁻¹ (f − f̄), λn on n
    rows."""
    inside, n = np.flatnonzero(columns).tolist(), len(data)
    own = kernel.matrix(data, data, inside)
    return f.mean(0) + kernel.matrix(rows, data, inside) @ np.linalg.solve(
        own + n * penalty * np.eye(n), f - f.mean(0)
    )


@pytest.mark.parametrize("penalty", [1e-1, 1e-3])
def test_every_row_a_landmark_is_the_dense_regression(data, rng, penalty):
    kernel = Product([RBF(1.5), Laplacian(2.0), RBF(0.8), RBF(2.0)]).bind(D)
    value = ConditionalRegression(
        predict, data, kernel, Nystrom(landmarks=data), penalty, rank_tolerance=1e-13
    )
    rows, masks = rng.normal(size=(20, D)), masks_of()
    values = values_of(value, masks, data, rows)
    for j, present in enumerate(masks):
        expected = dense(kernel, predict(data), data, rows, present, penalty)
        assert_allclose(values[:, j], expected, atol=1e-7)  # rank tolerance over λ, seen: 2e-10


def test_fewer_landmarks_are_ridge_regression_on_their_kernel_columns(data, rng):
    """min ‖f − f̄ − K w‖² + nλ wᵀK_zz w, solved by plain linear algebra."""
    # well conditioned: plain algebra can solve it
    kernel, z, penalty = Laplacian(1.2).bind(D), data[:25], 1e-3
    value = ConditionalRegression(
        one_output, data, kernel, Nystrom(landmarks=z), penalty, rank_tolerance=1e-12
    )
    rows, masks = rng.normal(size=(9, D)), masks_of()
    values, f = values_of(value, masks, data, rows)[:, :, 0], one_output(data)
    for j, present in enumerate(masks):
        inside = np.flatnonzero(present).tolist()
        k, own = kernel.matrix(data, z, inside), kernel.matrix(z, z, inside)
        w = np.linalg.solve(k.T @ k + len(data) * penalty * own, k.T @ (f - f.mean()))
        assert_allclose(values[:, j], f.mean() + kernel.matrix(rows, z, inside) @ w, atol=1e-9)


def test_fourier_features_are_ridge_regression_on_cosines_and_sines(data, rng):
    kernel, embedding, penalty = (
        Product([RBF(1.0), Laplacian(3.0), RBF(2.0), RBF(1.0)]).bind(D),
        Fourier(60),
        1e-2,
    )
    value = ConditionalRegression(predict, data, kernel, embedding, penalty)
    omega, rows, masks = embedding.anchors(data, kernel), rng.normal(size=(11, D)), masks_of()
    values, f, n = values_of(value, masks, data, rows), predict(data), len(data)

    def features(x, present):
        angle = (x * present) @ omega.T
        return np.hstack([np.cos(angle), np.sin(angle)]) / np.sqrt(len(omega))

    for j, present in enumerate(masks):
        phi = features(data, present)
        w = np.linalg.solve(phi.T @ phi + n * penalty * np.eye(60), phi.T @ (f - f.mean(0)))
        assert_allclose(values[:, j], f.mean(0) + features(rows, present) @ w, atol=1e-11)


@pytest.mark.slow
def test_many_fourier_features_come_close_to_the_kernel(data, rng):
    kernel, rows, masks = RBF(1.5).bind(D), rng.normal(size=(10, D)), masks_of()
    value = ConditionalRegression(one_output, data, kernel, Fourier(2_000), 1e-2)
    values = values_of(value, masks, data, rows)[:, :, 0]
    exact = np.stack(
        [dense(kernel, one_output(data), data, rows, own, 1e-2) for own in masks], axis=1
    )
    assert np.sqrt(np.mean((values - exact) ** 2)) < 0.05 * exact.std()  # seen: 0.02


def test_it_is_the_conditional_expectation_where_that_is_known(rng):
    """X1 = X0 + noise, Gaussian: E[X0·X1 | X0] = X0², E[X0·X1 | X1] = ½X1²."""
    x0 = rng.normal(size=20_000)
    x = np.column_stack([x0, x0 + rng.normal(size=20_000)])
    value = ConditionalRegression(lambda x: x[:, 0] * x[:, 1], x, RBF(), Nystrom(60), 1e-6)
    rows = rng.uniform(-1.5, 1.5, size=(200, 2))
    values = values_of(value, np.eye(2, dtype=bool), x, rows)[:, :, 0]
    truth = np.column_stack([rows[:, 0] ** 2, rows[:, 1] ** 2 / 2])
    assert np.abs(values - truth).max() < 0.1  # noise of 20,000 rows; seen: 0.05


def test_sums_over_any_parts_are_the_same(data):
    value = ConditionalRegression(predict, data, RBF(1.0), Nystrom(landmarks=data[:20]))
    masks = masks_of()
    whole = value.moments(masks, data)
    assert isinstance(whole, Moments)
    assert whole.nbytes <= value.cost(len(masks)).moment_bytes
    parts = value.moments(masks, data[:77]) + value.moments(masks, data[77:], predict(data[77:]))
    for name, array in whole.arrays.items():
        assert_allclose(parts[name], array, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("function", [predict, one_output])
def test_the_penalty_is_validated_by_default(data, function):
    """Coalition by coalition against residuals and hat matrices of all rows; and fitted with it.
    Column 3 is binary, column 2 constant: coalitions of two landmarks, and of one."""
    data[:, 3], data[:, 2] = data[:, 3] > 0.0, 0.5
    kernel, f = Laplacian(1.0).bind(D), function(data).reshape(len(data), -1)
    value = ConditionalRegression(
        function, data, kernel, Nystrom(landmarks=data[:30]), rank_tolerance=1e-10
    )
    assert value.penalty == "validate"
    assert value.fingerprint()["penalty"] == "validate"
    masks = masks_of()
    state = value.prepare(masks, value.moments(masks, data))
    assert state.nbytes <= value.cost(len(masks)).state_bytes
    values, g = value.evaluate(state, data), (f - f.mean(axis=0)) / f.std(axis=0)
    for j, present in enumerate(masks):
        phi, kept = oracles.whitened(
            kernel, data[:30], data, np.flatnonzero(present).tolist(), 1e-10
        )
        penalty, error = oracles.validated(phi, g, PENALTIES, 1.4)
        assert state["penalty"][j] == penalty
        assert state["rank"][j] == len(kept)
        assert state["error"][j] == pytest.approx(error, rel=1e-6)
        weights = np.linalg.solve(
            phi.T @ phi + len(data) * penalty * np.eye(len(kept)), phi.T @ (f - f.mean(axis=0))
        )
        assert_allclose(values[:, j], f.mean(axis=0) + phi @ weights, atol=1e-8)
    assert len(set(state["penalty"].tolist())) > 3
    assert {1, 2} <= set(state["rank"].tolist())


@pytest.mark.parametrize("n", [1, 2, 20, 100])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_few_rows_are_explained(rng, n, d):
    """Additive whatever was chosen; columns twice and a constant one among them."""
    data = rng.normal(size=(n, 3))
    data[:, 1], data[:, 2] = data[:, 0], 4.0
    value = ConditionalRegression(
        lambda x: x.sum(axis=1), data[:, :d], RBF(1.0), Nystrom(landmarks=data[:1, :d])
    )
    cube = dshap.explain(value, rng.normal(size=(4, d)))
    assert_allclose(cube.attribution.sum("feature") + cube.base_value, cube.prediction, atol=1e-10)


def test_what_was_chosen_is_noted_in_the_cube(data):
    """By number of players present: how many coalitions, the least, median and largest λ, the
    median error."""
    value = ConditionalRegression(one_output, data, RBF(1.5), Nystrom(landmarks=data[:30]))
    note = json.loads(dshap.explain(value, data[:5], coalition_tile=4).attrs["penalties"])
    masks = dshap.designs.exact(D).masks[2:]
    state, size = value.prepare(masks, value.moments(masks, data)), masks.sum(axis=1)
    assert note["players"] == [1, 2, 3]
    assert note["coalitions"] == [4, 6, 4]
    for name, level in {"least": 0.0, "median": 0.5, "largest": 1.0}.items():
        assert_allclose(
            note[name], [np.quantile(state["penalty"][size == s], level) for s in (1, 2, 3)]
        )
    assert_allclose(note["error"], [np.median(state["error"][size == s]) for s in (1, 2, 3)])
    given = ConditionalRegression(one_output, data, RBF(1.5), Nystrom(landmarks=data[:30]), 1e-3)
    assert "penalties" not in dshap.explain(given, data[:5]).attrs


def test_shapley_values_in_a_cube_are_those_of_the_definition(data):
    value = ConditionalRegression(
        predict, data, RBF(1.5), Nystrom(landmarks=data), 1e-2, rank_tolerance=1e-12
    )
    cube = dshap.explain(value, data[:8])
    kernel, f = RBF(1.5).bind(D), predict(data)

    def worth(s):
        present = np.isin(np.arange(D), list(s))
        if present.all():
            return predict(data[:8])
        return (
            dense(kernel, f, data, data[:8], present, 1e-2)
            if present.any()
            else np.tile(f.mean(0), (8, 1))
        )

    assert_allclose(cube.attribution.values, shapley(worth, D).transpose(1, 0, 2), atol=1e-7)
    assert_allclose(cube.attribution.sum("feature") + cube.base_value, cube.prediction, atol=1e-12)


def test_the_model_is_called_once_for_each_row_of_the_data(tmp_path, rng):
    calls = []

    def counting(x):
        calls.append(len(x))
        return x[:, 0]

    data = rng.normal(size=(500, 6))
    value = ConditionalRegression(counting, data, RBF(2.0), Nystrom(20), 1e-3)
    calls.clear()
    dshap.explain(value, data[:10], coalition_tile=8, row_span=100)
    assert sum(calls) <= 500 + 10 + 64  # the data once, the rows once, and the probe


def test_groups_of_columns_are_one_player(data, rng):
    kernel, penalty = RBF(1.5).bind(D), 1e-2
    grouped = ConditionalRegression(
        one_output, data, kernel, Nystrom(landmarks=data), penalty, 1e-12, players={"pair": [0, 3]}
    )
    values = values_of(grouped, np.array([[True, False, False]]), data, data[:5])[:, 0, 0]
    present = np.array([True, False, False, True])
    assert_allclose(
        values, dense(kernel, one_output(data), data, data[:5], present, penalty), atol=1e-7
    )


def test_categories_and_the_rank_of_a_binary_column(rng):
    x = np.column_stack([rng.integers(0, 2, 200), rng.normal(size=200)]).astype(float)
    kernel = Product([Categorical(0.3), RBF(1.0)])
    value = ConditionalRegression(lambda x: x[:, 0] * x[:, 1], x, kernel, Nystrom(40), 1e-3)
    value = value.chosen(value.choose(x))
    masks = np.eye(2, dtype=bool)
    state = value.prepare(masks, value.moments(masks, x))
    assert state["rank"].tolist()[0] == 2
    assert 2 < state["rank"][1] <= 40


def test_bad_options_are_told(data):
    with pytest.raises(InputError, match="penalty is 0: give a number above 0, or 'validate'"):
        ConditionalRegression(predict, data, RBF(), Nystrom(5), 0)
    with pytest.raises(InputError, match=r"kernel is None: give one of dshap\.kernels"):
        ConditionalRegression(predict, data, None, Nystrom(5))
    with pytest.raises(InputError, match='"validate" belongs to models'):
        ConditionalRegression(predict, data, RBF("validate"), Nystrom(5))
    with pytest.raises(InputError, match="rank_tolerance is 2"):
        ConditionalRegression(predict, data, RBF(), Nystrom(5), rank_tolerance=2)
    with pytest.raises(InputError, match=r"embedding is 50: give dshap\.kernels\.Nystrom"):
        ConditionalRegression(predict, data, RBF(), 50)
    with pytest.raises(InputError, match="the kernel has 3 columns, the data 4"):
        dshap.explain(ConditionalRegression(predict, data, RBF(1.0).bind(3), Nystrom(5)), data)
    with pytest.raises(InputError, match="400 landmarks asked for and the sample has 300 rows"):
        dshap.explain(ConditionalRegression(predict, data, RBF(), Nystrom(400)), data)
    with pytest.raises(InputError, match=r"there is no file table.parquet: give the path"):
        ConditionalRegression(predict, "table.parquet", RBF(), Nystrom(5))


def test_it_travels(data):
    value = replaced(ConditionalRegression(one_output, data, RBF(), Nystrom(9)), data=None)
    value = pickle.loads(pickle.dumps(value.chosen(value.choose(data))))
    masks = masks_of()
    state = value.prepare(masks, value.moments(masks, data))
    assert state.nbytes <= value.cost(len(masks)).state_bytes
    assert_array_equal(value.evaluate(state, data[:3]).shape, (3, len(masks), 1))


@pytest.mark.slow
def test_float32_sums_err_by_what_is_stated(rng):
    """The error that was measured on a sample holds for the whole; ill-conditioned sums are
    refused."""
    x = rng.normal(size=(6_000, D))
    x[:, 1] += x[:, 0]
    options = {"kernel": RBF(1.5), "embedding": Nystrom(60), "penalty": 1e-3}
    exact, fast = (
        ConditionalRegression(predict, x, **options, precision=own)
        for own in ("float64", "float32")
    )
    choice = fast.choose(x)
    rms, largest = choice["float32_error"]
    assert 0 < rms < largest <= 1e-3
    masks, unit = masks_of(), predict(x).std(axis=0)
    values = [own.evaluate(own.prepare(masks, own.moments(masks, x)), x[:2_000]) for own in (
        exact.chosen(exact.choose(x)), fast.chosen(choice))]  # fmt: skip
    gap = np.abs(values[1] - values[0]) / unit
    assert 0 < np.sqrt(np.mean(gap**2)) < 3 * rms
    assert gap.max() < 5 * largest
    assert exact.fingerprint() != fast.fingerprint()
    wild = ConditionalRegression(
        predict, x, RBF(30.0), Nystrom(60), 1e-12, rank_tolerance=1e-13, precision="float32"
    )
    with pytest.raises(
        InputError, match=r"float32 errs by .* standard deviations of f on a sample"
    ):
        wild.choose(x)
    with pytest.raises(InputError, match="precision"):
        ConditionalRegression(predict, x, RBF(1.0), Nystrom(5), precision="float16")
    with pytest.raises(InputError, match='precision "float32" is for Nystrom landmarks'):
        ConditionalRegression(predict, x, RBF(1.0), Fourier(6), precision="float32")
