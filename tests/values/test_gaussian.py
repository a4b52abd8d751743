"""The Gaussian value function against closed forms and a slow oracle of the conditional
formulas."""

from __future__ import annotations

import itertools
import math
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import xarray as xr
from numpy.testing import assert_allclose

import dshap
from dshap import designs
from dshap.core.errors import InputError, PredictError
from dshap.core.types import ValueFunction, replaced
from dshap.values.gaussian import Gaussian
from tests.values import oracles

pytestmark = pytest.mark.usefixtures("in_this_process")

D = 4
NAMES = ["a", "b", "c", "d"]
BETA = np.array([[1.0, -2.0], [0.5, 3.0], [-4.0, 0.0], [2.0, 1.0]])
MASKS = designs.exact(D).block(2, 2**D).masks


def linear(x):
    return x @ BETA + [5.0, -1.0]


def rough(x):
    """Two outputs, interactions of every order, nothing smooth or even about it."""
    a, b, c, d = x.T
    return np.column_stack(
        [np.sin(a) * b + a * b * c + np.abs(c - d), (a * b * c * d > 0) + np.exp(a / 5) * d]
    )


def total_of(x):
    return x.sum(axis=1)


@pytest.fixture
def data(rng):
    """(300, 4): dependent columns of different means and scales."""
    mixing = np.array(
        [[1.0, 0.6, 0.0, 0.3], [0.0, 1.0, -0.8, 0.2], [0.0, 0.0, 0.7, 0.5], [0.0, 0.0, 0.0, 0.9]]
    )
    return rng.normal(size=(300, D)) @ mixing * [1.0, 2.0, 0.5, 1.5] + [0.0, 1.0, -2.0, 0.5]


def chosen(value, data):
    return value.chosen(value.choose(data[:50]))


def prepared(value, data, masks=MASKS, cuts=3):
    """The value function with its shift, and its state with the moments summed over uneven parts of
    the data."""
    value = chosen(value, data)
    total = sum_of(value.moments(masks, part) for part in np.array_split(data, cuts))
    return value, value.prepare(masks, total)


def sum_of(parts):
    first, *others = parts
    return sum(others, first)


def values_of(value, rows, data, masks=MASKS):
    value, state = prepared(value, data, masks)
    return value.evaluate(state, rows)


def conditional(row, data, inside, ridge=0.0):
    """Mean and covariance of the columns outside given those inside, from the formula alone."""
    outside = [j for j in range(data.shape[1]) if j not in inside]
    mean, covariance = data.mean(axis=0), np.cov(data.T)
    covariance = covariance + ridge * np.diag(np.diag(covariance))
    across = covariance[np.ix_(outside, inside)]
    slope = across @ np.linalg.inv(covariance[np.ix_(inside, inside)])
    spread = covariance[np.ix_(outside, outside)] - slope @ across.T
    return outside, mean[outside] + slope @ (row[inside] - mean[inside]), spread


def drawn(predict, row, data, inside, n_samples, seed=0, ridge=0.0):
    """Mean of f (k,) over the documented draws: conditional mean + D A^½ z, A^½ the symmetric
    root."""
    outside, mean, spread = conditional(row, data, inside, ridge)
    z = np.random.default_rng(seed).standard_normal((n_samples // 2, data.shape[1]))
    deviation = data.std(axis=0, ddof=1)[outside]
    root = scipy.linalg.sqrtm(spread / np.outer(deviation, deviation)).real
    total = 0.0
    for draw in np.vstack([z, -z]):
        full = row.copy()
        full[outside] = mean + deviation * (root @ draw[outside])
        total = total + predict(full[None])[0]
    return total / n_samples


def test_it_is_a_value_function(data):
    assert isinstance(Gaussian(linear, data), ValueFunction)


def test_linear_models_are_exact(data, rng):
    """β(μ + G(x − μ)): z and −z cancel, so two draws are enough; rows off the data too.  1e-10:
    rounding."""
    rows = np.vstack([data[:3], 10 * rng.normal(size=(2, D))])
    got = values_of(Gaussian(linear, data, n_samples=2), rows, data)
    assert got.shape == (5, len(MASKS), 2)
    for (i, row), (j, mask) in itertools.product(enumerate(rows), enumerate(MASKS)):
        full = row.copy()
        outside, full[outside], _ = conditional(row, data, np.flatnonzero(mask))
        assert_allclose(got[i, j], linear(full[None])[0], rtol=0, atol=1e-10)


def test_quadratic_models_within_their_monte_carlo_error(data, rng):
    """E x'Ax = m'Am + tr(AC), and only tr(AC) is left to chance: 10,000 pairs have standard error
    √(2 tr(ACAC)/10,000).

    5 of them: a false alarm in 14 coalitions once in 100,000 seeds.
    """
    quadratic = rng.normal(size=(D, D))
    quadratic += quadratic.T
    rows = data[:2]
    value = Gaussian(lambda x: np.einsum("ni,ij,nj->n", x, quadratic, x), data, n_samples=20_000)
    got = values_of(value, rows, data)[..., 0]
    for (i, row), (j, mask) in itertools.product(enumerate(rows), enumerate(MASKS)):
        full = row.copy()
        outside, full[outside], spread = conditional(row, data, np.flatnonzero(mask))
        matrix = quadratic[np.ix_(outside, outside)] @ spread
        error = math.sqrt(2 * np.trace(matrix @ matrix) / 10_000)
        assert abs(got[i, j] - full @ quadratic @ full - np.trace(matrix)) <= 5 * error + 1e-10


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("players", [None, {"pair": ["b", "d"]}, {"pair": [0, 1], "other": [2, 3]}])
def test_any_model_equals_the_mean_over_the_documented_draws(data, players, ridge):
    """Every proper coalition of the players, two outputs.  1e-9: a step of `rough` is nowhere
    within rounding."""
    value = Gaussian(
        rough, data, n_samples=40, seed=3, ridge=ridge, players=players, feature_names=NAMES
    )
    masks = designs.exact(value.n_players).block(2, 2**value.n_players).masks
    got = values_of(value, data[:2], data, masks)
    for (i, row), (j, mask) in itertools.product(enumerate(data[:2]), enumerate(masks)):
        inside = np.flatnonzero(mask @ value.players.members)
        assert_allclose(got[i, j], drawn(rough, row, data, inside, 40, 3, ridge), rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "design", [designs.exact(D), designs.kernelshap(D, 2**D)], ids=["exact", "kernelshap"]
)
def test_explain_gives_the_shapley_values_of_the_oracle(data, design):
    """Brute force over marginal contributions; v(∅) is the mean over the draws too, v(N) the
    prediction."""
    rows = data[:3].copy()

    def worth(coalition):
        inside = sorted(coalition)
        return (
            rough(rows)
            if len(inside) == D
            else np.array([drawn(rough, row, data, inside, 60) for row in rows])
        )

    cube = dshap.explain(Gaussian(rough, data, n_samples=60), rows, design=design)
    assert_allclose(
        cube.attribution.values.swapaxes(0, 1), oracles.shapley(worth, D), rtol=0, atol=1e-9
    )
    gap = cube.attribution.sum("feature") + cube.base_value - cube.prediction
    assert float(abs(gap).max()) < 1e-12 * float(abs(cube.prediction).max())


def test_tiles_of_coalitions_are_put_together(data):
    """Prepared apart and joined it is the same state; four tiles and one give the same values."""
    value, whole = prepared(Gaussian(rough, data, n_samples=20), data)
    parts = [
        prepared(value, data, MASKS[cut])[1] for cut in (slice(0, 3), slice(3, 4), slice(4, None))
    ]
    assert value.join(parts).digest() == whole.digest()
    one, few = (
        dshap.explain(value, data[:5], coalition_tile=tile).attribution.values for tile in (14, 4)
    )
    assert_allclose(few, one, rtol=0, atol=1e-12)


def test_shap_gives_the_same_values_of_a_linear_model(data):
    """shap.LinearExplainer with the masker Impute (shap 0.51), which averages 1,000 random orders
    of the columns.

    Ours is exact; theirs was off by 0.03 to 0.14 in 20 runs, the median 0.07: 0.4 is never met by
    chance.  Values that ignore the dependence are off by 1.7.
    """
    shap = pytest.importorskip("shap", reason="shap is not installed")
    theirs = shap.LinearExplainer(
        (BETA[:, 0], 5.0), shap.maskers.Impute(data), nsamples=1_000
    ).shap_values(data[:5])
    ours = dshap.explain(Gaussian(linear, data, n_samples=2), data[:5]).attribution.values[..., 0]
    assert_allclose(ours, theirs, rtol=0, atol=0.4)
    assert np.abs((data[:5] - data.mean(axis=0)) * BETA[:, 0] - ours).max() > 1.5


def test_every_kind_of_data_gives_the_same_attributions(data, tmp_path):
    frame = pd.DataFrame(data, columns=NAMES)
    frame[["d", "c", "b", "a"]].assign(id=range(len(frame))).to_parquet(tmp_path / "data.parquet")
    path = tmp_path / "data.parquet"
    given = {
        "array": Gaussian(rough, data, n_samples=20),
        "list": Gaussian(rough, data.tolist(), n_samples=20),
        "frame": Gaussian(rough, frame.assign(text="t"), n_samples=20, feature_names=NAMES),
        "path": Gaussian(rough, str(path), n_samples=20, feature_names=NAMES),
        "source": Gaussian(rough, dshap.sources.ParquetSource(path, features=NAMES), n_samples=20),
    }
    assert [value.n_columns for value in given.values()] == 5 * [D]
    cubes = {
        name: dshap.explain(value, frame[:5]).attribution.values for name, value in given.items()
    }
    for name, phi in cubes.items():
        assert_allclose(phi, cubes["array"], rtol=0, atol=1e-12, err_msg=name)


def test_without_correlation_each_absent_column_is_drawn_from_its_margin():
    """A factorial table has a diagonal covariance.  E Π cos(x_j) = Π_S cos(x_j) Π_S̄ cos(μ_j)
    exp(−σ_j²/2).

    Each factor is at most 1, so 20,000 draws err by less than 1/√20,000 = 0.007: 0.03 is more than
    four of them.
    """
    table = np.array(list(itertools.product([0.0, 1.0], [-0.5, 0.5, 2.0], [1.0, 2.0])))
    mean, variance = table.mean(axis=0), table.var(axis=0, ddof=1)
    masks, row = designs.exact(3).block(2, 8).masks, np.array([0.3, 1.0, -0.4])
    value = Gaussian(lambda x: np.cos(x).prod(axis=1), table, n_samples=20_000)
    got = values_of(value, row[None], table, masks)[0, :, 0]
    margin = np.cos(mean) * np.exp(-variance / 2)
    assert_allclose(got, np.where(masks, np.cos(row), margin).prod(axis=1), rtol=0, atol=0.03)
    _, state = prepared(value, table, masks)
    assert np.abs(state["regression"]).max() < 1e-12


@pytest.mark.parametrize("cuts", [1, 7, 6_000])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_moments_of_any_chunks_are_the_covariance(data, cuts, offset):
    """An offset of 1e8 standard deviations costs the digits that the data lose by it, 1e-8, not
    those of its square."""
    data = np.tile(data, (20, 1))
    moved = data + offset
    _, state = prepared(Gaussian(linear, moved, n_samples=2), moved, cuts=cuts)
    _, _, spread = conditional(data[0], data, [0])
    factor = state["factor"][MASKS.tolist().index([True, False, False, False])][1:, 1:]
    tolerance = 1e-12 if offset == 0.0 else 1e-6
    assert_allclose(factor @ factor.T, spread, rtol=0, atol=tolerance)
    assert_allclose(state["mean"] - offset, data.mean(axis=0), rtol=0, atol=tolerance)


def test_moments_do_not_depend_on_coalitions_and_want_a_shift(data):
    value = Gaussian(linear, data)
    with pytest.raises(InputError, match="shift is not chosen yet"):
        value.moments(MASKS, data)
    assert chosen(value, data).sample_size == 0
    assert value.sample_size > 0
    value = chosen(value, data)
    assert value.moments(MASKS, data).digest() == value.moments(MASKS[:1], data).digest()
    assert value.choose(np.empty((0, D)))["shift"].tolist() == D * [0.0]


@pytest.mark.parametrize("buffer_rows", [1, 7, 40, 100])
def test_the_buffer_changes_nothing_and_is_not_exceeded(data, buffer_rows):
    sizes = []

    def watched(x):
        sizes.append(len(x))
        return rough(x)

    whole = values_of(Gaussian(rough, data, n_samples=20), data[:5], data)
    value, state = prepared(Gaussian(watched, data, n_samples=20, buffer_rows=buffer_rows), data)
    sizes.clear()
    assert_allclose(value.evaluate(state, data[:5]), whole, rtol=0, atol=1e-12)
    assert_allclose(value.model(data), rough(data))
    assert max(sizes) <= buffer_rows


def test_one_call_of_the_model_for_all_coalitions_of_few_rows(data):
    sizes = []

    def watched(x):
        sizes.append(len(x))
        return rough(x)

    value, state = prepared(Gaussian(watched, data, n_samples=20), data)
    sizes.clear()
    value.evaluate(state, data[:2])
    assert sizes == [2 * 20 * len(state["columns"])]


def test_collinear_columns_are_refused_with_their_names_and_a_remedy(data):
    """c = a − 2b: of the coalitions that hold all three, the correlation matrix has no inverse."""
    table = np.column_stack([data[:, :2], data[:, 0] - 2 * data[:, 1], data[:, 3]])
    message = r"smallest eigenvalue -?\d.*e-1\d .*columns (a|b|c), (a|b|c), (a|b|c) determine .* set ridge=0\.0001"
    with pytest.raises(InputError, match=message):
        dshap.explain(Gaussian(linear, table, n_samples=2, feature_names=NAMES), table[:2])
    remedied = Gaussian(linear, table, n_samples=2, feature_names=NAMES, ridge=1e-4)
    phi = dshap.explain(remedied, table[:20]).attribution.values
    assert np.abs(phi).max() < 10 * np.abs(linear(table)).max()
    with pytest.raises(InputError, match=r"ridge 1e-12 added.* set ridge=0\.0001"):
        dshap.explain(
            Gaussian(linear, table, n_samples=2, feature_names=NAMES, ridge=1e-12), table[:2]
        )


def test_an_absent_column_that_others_determine_has_no_spread(data):
    """b = 3a + 1 is no obstacle while a and b are not both present: given a, b is that number, and
    so the other way."""
    table = np.column_stack([data[:, 0], 3 * data[:, 0] + 1])
    rows, masks = table[:6] + np.array([0.0, 0.5]), np.array([[True, False], [False, True]])
    value, state = prepared(
        Gaussian(lambda x: np.floor(7 * x[:, 0]) + x[:, 1], table), table, masks
    )
    assert (state["factor"] == 0.0).all()
    a, b = rows.T
    expected = np.column_stack([np.floor(7 * a) + 3 * a + 1, np.floor(7 * (b - 1) / 3) + b])
    assert_allclose(value.evaluate(state, rows)[..., 0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("slope", [-2.0, -0.3, 0.1, 0.7, 3.0])
def test_a_singular_conditional_covariance_is_no_error(data, slope):
    """c = a + slope·b with one of the three present: b and c, say, vary along a line, and drawn
    rows keep to it.

    Rounding leaves a variance of ±1e-16 across it, which drawn from would be 1e-8; with two present
    it is all there is.
    """
    table = np.column_stack([data[:, :2], data[:, 0] + slope * data[:, 1]])
    _, state = prepared(
        Gaussian(total_of, table, n_samples=50), table, np.vstack([np.eye(3), 1 - np.eye(3)]) > 0
    )
    for inside, (present, factor) in enumerate(zip(state["columns"], state["factor"], strict=True)):
        noise = state["draws"] @ factor.T
        assert_allclose(noise @ [1.0, slope, -1.0], 0.0, atol=1e-12)
        assert (np.abs(noise).max(axis=0) > 0.1).tolist() == ((~present) & (inside < 3)).tolist()


def test_a_constant_column_keeps_its_mean_where_absent(data):
    """Constant in data and rows: no player, and the others get what they get in the game without
    it.

    The mean of 50 numbers 0.7 is not 0.7 to the last bit, so the sums about it are not 0.
    """
    table = data.copy()
    table[:, 2] = constant = 0.7
    assert table[:50].mean(axis=0)[2] != constant
    _, state = prepared(Gaussian(rough, table, n_samples=20), table)
    assert (state["regression"][:, 2] == 0).all()
    assert (state["regression"][..., 2] == 0).all()
    assert (state["factor"][:, 2] == 0).all()
    assert abs(state["mean"][2] - constant) <= np.spacing(constant)
    phi = dshap.explain(Gaussian(linear, table, n_samples=2), table[:4]).attribution.values
    folded = Gaussian(
        lambda x: linear(np.insert(x, 2, constant, axis=1)),
        np.delete(table, 2, axis=1),
        n_samples=2,
    )
    assert (phi[:, 2] == 0).all()
    without = dshap.explain(folded, np.delete(table[:4], 2, axis=1)).attribution.values
    assert_allclose(np.delete(phi, 2, axis=1), without, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_sample", [0, 1_000])
def test_rounding_of_a_constant_column_is_no_variance(rng, n_sample):
    """Thirty numbers, 20,000 times each: their sums are off by roundings, those of squares too
    without a shift."""
    table = np.tile(rng.normal(size=31) * 10.0 ** rng.integers(-6, 7, 31), (20_000, 1))
    table[:, 0] = rng.normal(size=20_000)
    value, masks = Gaussian(total_of, table, n_samples=2), np.eye(31)[:2] > 0
    value = value.chosen(value.choose(table[:n_sample]))
    state = value.prepare(masks, value.moments(masks, table))
    assert (state["factor"][:, 1:] == 0).all()
    assert (state["regression"] == 0).all()
    assert state["factor"][1, 0, 0] > 0.9
    assert_allclose(state["mean"][1:], table[0, 1:], rtol=1e-12)


def test_a_column_constant_in_the_data_alone_tells_nothing_about_others(data):
    """Present, it is what the row says; the others are drawn as if it were not known."""
    table, rows = data.copy(), data[:4].copy()
    table[:, 2], rows[:, 2] = 0.3, 7.0
    got = values_of(
        Gaussian(linear, table, n_samples=2),
        rows,
        table,
        np.array([[1, 1, 0, 1], [0, 0, 1, 0]], bool),
    )
    assert_allclose(got[:, 0], linear(rows - [0, 0, 6.7, 0]), rtol=0, atol=1e-12)
    mean = table.mean(axis=0) + np.array([0, 0, 6.7, 0])
    assert_allclose(got[:, 1], np.tile(linear(mean[None]), (4, 1)), rtol=0, atol=1e-12)


def test_inactive_players_are_absent_from_every_coalition(data):
    """`over` keeps the columns and plays without them."""
    value = Gaussian(rough, data, n_samples=20)
    value = replaced(value, players=value.players.over(np.array([True, False, True, True])))
    got = values_of(value, data[:2], data, np.array([[True, False, True]]))
    for i, row in enumerate(data[:2]):
        assert_allclose(got[i, 0], drawn(rough, row, data, [0, 3], 20), rtol=0, atol=1e-9)


def test_the_seed_makes_the_draws_and_they_are_shared(data):
    value, state = prepared(Gaussian(rough, data, n_samples=30, seed=5), data)
    draws = state["draws"]
    assert draws.shape == (30, D)
    assert (draws[:15] == -draws[15:]).all()
    assert len(np.unique(draws)) == 30 * D
    again, same = prepared(Gaussian(rough, data, n_samples=30, seed=5), data)
    assert state.digest() == same.digest()
    assert (value.evaluate(state, data[:3]) == again.evaluate(same, data[:3])).all()
    _, other = prepared(Gaussian(rough, data, n_samples=30, seed=6), data)
    assert state.digest() != other.digest()
    _, part = prepared(Gaussian(rough, data, n_samples=30, seed=5), data, MASKS[3:5])
    assert (part["draws"] == draws).all()
    assert (part["factor"] == state["factor"][3:5]).all()
    assert_allclose(
        value.evaluate(state, data[2:3])[0], value.evaluate(state, data[:3])[2], rtol=1e-13
    )


def test_without_data_it_travels(data):
    value, state = prepared(Gaussian(rough, data, n_samples=20), data)
    small = replaced(value, data=None)
    assert small.data is None
    assert value.data is data
    sent = pickle.dumps(small)
    assert len(sent) < data.nbytes
    assert (pickle.loads(sent).evaluate(state, data[:3]) == value.evaluate(state, data[:3])).all()


def test_the_fingerprint_tells_all_that_changes_a_value(data):
    def digest(predict=rough, **options):
        return str(Gaussian(predict, data, **options).fingerprint())

    others = [
        {"n_samples": 10},
        {"ridge": 0.1},
        {"seed": 1},
        {"players": {"p": [0, 1]}},
        {"predict": linear},
    ]
    assert len({digest(), *(digest(**options) for options in others)}) == 1 + len(others)
    assert digest(buffer_rows=10) == digest()
    assert digest(lambda x: x) != digest(lambda x: 2 * x)


OTHERS = 256 << 10


@pytest.mark.parametrize("buffer_rows", [500, 65_536])
def test_projected_bytes_hold_the_measured(rng, buffer_rows):
    """Peaks by tracemalloc, which sees every array of numpy, against the projection and what Python
    objects take, those of other threads of the test run too.

    The model takes next to nothing itself, where two buffers are allowed for it.
    """
    m, c = 40, 20
    table, masks = rng.normal(size=(9_000, c)), rng.random((m, c)) < 0.5
    value = chosen(Gaussian(total_of, table, n_samples=400, buffer_rows=buffer_rows), table)
    total, most = measured(lambda: value.moments(masks, table))
    assert most - OTHERS <= value.cost(m, 9_000).moment_task_bytes <= 3 * most
    assert total.nbytes <= value.cost(m).moment_bytes
    state, most = measured(lambda: value.prepare(masks, total))
    assert most + total.nbytes - OTHERS <= value.cost(m).prepare_bytes <= 3 * most
    assert state.nbytes <= value.cost(m).state_bytes
    _, most = measured(lambda: value.evaluate(state, table[:40]))
    assert most - OTHERS <= value.cost(m, 40).task_bytes <= 4 * most
    assert value.cost(1, 1).operations == math.inf
    assert value.cost(5, 10).moment_operations > 0


def measured(work):
    """Its result and the most bytes that it held."""
    work()  # what is made once is made
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class Estimator:
    feature_names_in_ = np.array(["b", "a"])

    def predict(self, x):
        x = np.asarray(x)
        return x[:, 0] * 2 + x[:, 1]


def test_columns_are_those_of_the_estimator(data):
    """A path and a frame are read by the names that the model was fitted on, in its order."""
    value = Gaussian(Estimator().predict, "no/such/file.parquet")
    assert value.model.feature_names == ("b", "a")
    assert value.n_columns == 2
    frame = pd.DataFrame(data, columns=NAMES)
    phi = dshap.explain(Gaussian(Estimator().predict, frame, n_samples=2), frame[:3]).attribution
    assert phi.feature.values.tolist() == ["b", "a"]
    with pytest.raises(InputError, match="'a'"):
        Gaussian(Estimator().predict, frame[["b", "c"]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 7}, "n_samples is 7: give an even number of at least 2"),
        ({"n_samples": 0}, "n_samples is 0"),
        ({"ridge": -1.0}, "ridge is -1"),
        ({"ridge": math.nan}, "ridge is nan"),
        ({"ridge": math.inf}, "ridge is inf"),
        ({"seed": -1}, "seed is -1"),
        ({"buffer_rows": 0}, "buffer_rows is 0"),
        ({"players": {"p": ["x9"]}}, "'x9'"),
        ({"feature_names": ["a"]}, "1 names for 4 columns: give one for each"),
        ({"output_names": ["one"]}, "1 output names for 2 outputs"),
        ({"data": "some/path"}, "there is no file some/path: give the path of Parquet files"),
        ({"data": np.array([["a"]])}, "data has text"),
        (
            {"data": pd.DataFrame({"a": ["b"]})},
            "column 'a' contains text or categories, which Gaussian cannot draw",
        ),
    ],
)
def test_bad_options(data, options, message):
    with pytest.raises(InputError, match=message):
        Gaussian(linear, **{"data": data, **options})


def test_a_bad_predict_function_is_told_at_once(data):
    with pytest.raises(PredictError, match=r"gave shape \(63,\) for 64 rows"):
        Gaussian(lambda x: x[1:, 0], data)
    with pytest.raises(PredictError, match="failed: ZeroDivisionError"):
        Gaussian(lambda x: 1 / 0, "some/path", feature_names=NAMES)
    # rows with NaN are not tried
    with pytest.raises(PredictError, match=r"gave shape \(0,\) for 1 rows"):
        Gaussian(lambda x: x[1:, 0], np.where(np.arange(4) == 1, np.nan, data))


def test_intervals_of_an_exact_design_hold_the_truth():
    """Every coalition counts, and the draws are random: with 12 seeds, three rows and three columns
    at least 85 % of φ ± 2.09 std_error hold the value of 40,000 draws (nominally 95 %)."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(200, 3))
    data[:, 1] += data[:, 0]

    def explained(n_samples: int, seed: int) -> xr.Dataset:
        value = Gaussian(lambda x: x[:, 0] * x[:, 1], data, n_samples=n_samples, seed=seed)
        return dshap.explain(value, data[:3], design="exact", dtype="float64")

    truth = explained(40_000, 1_000).attribution
    cubes = [explained(100, seed) for seed in range(12)]
    held = [abs(cube.attribution - truth) <= 2.09 * cube.std_error + 1e-12 for cube in cubes]
    assert np.mean(held) >= 0.85
