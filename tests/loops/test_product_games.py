"""Values of product games by quadrature: brute force over all coalitions, closed forms, the numpy
twin, properties."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher
from numpy.testing import assert_allclose, assert_array_equal

from dshap.attributors import nodes
from dshap.kernels import RBF, Categorical, Laplacian, Matern, Product
from dshap.kernels.product import ProductKernel
from dshap.loops import game_sizes as sizes
from dshap.loops import product_games as games
from tests.loops.twins import plain_game_values, worst_node_error
from tests.values.oracles import shapley

FAMILIES = (
    RBF(1.1),
    Laplacian(1.4),
    Matern(1.5, 0.9),
    Categorical(0.3),
    Matern(2.5, 1.2),
    Categorical(0.0),
)


@dataclass(frozen=True)
class KernelGame:
    """f(x) = 0.5 + Σ_r A_r k(x, z_r)."""

    kernel: ProductKernel
    landmarks: np.ndarray
    weights: np.ndarray

    def predict(self, x):
        return 0.5 + self.kernel.matrix(x, self.landmarks) @ self.weights

    def values(self, x, background, members, q):
        a, c = (
            self.kernel.factors(x, self.landmarks),
            self.kernel.factors(background, self.landmarks),
        )
        own, other = nodes.player_factors(a, members), nodes.player_factors(c, members)
        return games.product_game_values(
            own, other, self.weights, q, rest=nodes.rest_factor(c, members)
        )


@dataclass(frozen=True)
class FourierGame:
    """f(x) = 0.5 + Re Σ_r A_r e^{iω_rᵀx}."""

    frequencies: np.ndarray
    weights: np.ndarray

    def predict(self, x):
        return 0.5 + (np.exp(1j * x @ self.frequencies.T) @ self.weights).real

    def values(self, x, background, members, q):
        own, other = (
            nodes.player_angles(rows, self.frequencies, members) for rows in (x, background)
        )
        rest = nodes.rest_angle(background, self.frequencies, members)
        return games.fourier_game_values(own, other, self.weights, q, rest=rest)


def kernel_game(rng, columns, r=6, k=2):
    kernel = Product([FAMILIES[j % len(FAMILIES)] for j in range(columns)]).bind(columns)
    return KernelGame(kernel, table(rng, r, columns), rng.normal(size=(r, k)))


def fourier_game(rng, columns, r=6, k=2):
    return FourierGame(
        rng.normal(size=(r, columns)), rng.normal(size=(r, k)) + 1j * rng.normal(size=(r, k))
    )


MAKERS = {"kernel": kernel_game, "fourier": fourier_game}


def table(rng, n, columns):
    """Normal columns, categories where `FAMILIES` wants them."""
    out = rng.normal(size=(n, columns))
    for j in range(columns):
        if isinstance(FAMILIES[j % len(FAMILIES)], Categorical):
            out[:, j] = rng.integers(0, 3, n)
    return out


def brute_force(predict, row, background, members):
    """φ (d, k) from the predictions of all 2^d mixtures of the row and every background row."""
    d = len(members)
    present = (np.arange(2**d)[:, None] >> np.arange(d)) & 1  # (2^d, d)
    columns = (present @ members) > 0  # (2^d, columns)
    mixed = np.where(columns[:, None, :], row, background)  # (2^d, b, columns)
    worth = predict(mixed.reshape(-1, len(row))).reshape(2**d, len(background), -1).mean(axis=1)
    return shapley(lambda coalition: worth[sum(1 << i for i in coalition)], d)


def unit(game, rng):
    """Standard deviation (k,) of the predictions."""
    columns = game.landmarks.shape[1] if isinstance(game, KernelGame) else game.frequencies.shape[1]
    return game.predict(table(rng, 400, columns)).std(axis=0)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("d", range(1, 13))
def test_exact_nodes_equal_brute_force(rng, kind, d):
    game = MAKERS[kind](rng, d)
    x, background, members = table(rng, 2, d), table(rng, 4, d), np.eye(d, dtype=bool)
    phi = game.values(x, background, members, sizes.exact_nodes(d))
    truth = np.stack([brute_force(game.predict, row, background, members) for row in x])
    assert phi.shape == (2, d, 2)
    assert np.max(np.abs(phi - truth) / unit(game, rng)) < 1e-10


@pytest.mark.parametrize("kind", MAKERS)
def test_groups_and_columns_of_no_player(rng, kind):
    # players {0, 3}, {1}, {5, 6, 8}; the columns 2, 4 and 7 always come from the background
    members = np.zeros((3, 9), dtype=bool)
    members[[0, 0, 1, 2, 2, 2], [0, 3, 1, 5, 6, 8]] = True
    game = MAKERS[kind](rng, 9)
    x, background = table(rng, 2, 9), table(rng, 5, 9)
    phi = game.values(x, background, members, sizes.exact_nodes(3))
    truth = np.stack([brute_force(game.predict, row, background, members) for row in x])
    assert np.max(np.abs(phi - truth) / unit(game, rng)) < 1e-10


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(
    ("d", "n", "b", "r", "k", "q"),
    [
        (1, 2, 1, 1, 1, 1),  # the smallest
        (2, 3, 5, 9, 2, 2),
        (5, 2, 33, 20, 1, 3),  # odd players, odd nodes, a row more than a block of background
        (6, 2, 32, 128, 3, 4),  # whole blocks
        (7, 3, 70, 300, 2, 5),  # three blocks of rows, three of terms, the last ones short
        (9, 1, 3, 129, 1, 1),
    ],
)
def test_compiled_loops_equal_numpy_twin(rng, kind, d, n, b, r, k, q):
    x, background = rng.normal(size=(d, n, r)), rng.normal(size=(d, b, r))
    rest, weights = rng.normal(size=(b, r)), rng.random(b)
    coefficients = rng.normal(size=(r, k)) + (
        1j * rng.normal(size=(r, k)) if kind == "fourier" else 0.0
    )
    given = [array.copy() for array in (x, background, coefficients, rest, weights)]
    if kind == "fourier":
        phi = games.fourier_game_values(x, background, coefficients, q, rest=rest, weights=weights)
        turned = (np.exp(1j * angle) for angle in (x, background, rest))
    else:
        phi = games.product_game_values(x, background, coefficients, q, rest=rest, weights=weights)
        turned = iter((x, background, rest))
    a, c, own = turned
    twin = plain_game_values(a, c, coefficients, q, rest=own, weights=weights)
    assert_allclose(phi, twin, rtol=0, atol=1e-13 * np.abs(twin).max() * d)
    for before, after in zip(given, (x, background, coefficients, rest, weights), strict=True):
        assert_array_equal(before, after)


@pytest.mark.parametrize("game", [games.product_game_values, games.fourier_game_values])
def test_rows_do_not_depend_on_their_neighbours_or_on_memory_order(rng, game):
    x, background, coefficients = (
        rng.normal(size=(5, 7, 150)),
        rng.normal(size=(5, 40, 150)),
        rng.normal(size=(150, 2)),
    )
    phi = game(x, background, coefficients, 3)
    for row in range(7):
        assert_array_equal(game(x[:, row : row + 1], background, coefficients, 3)[0], phi[row])
    turned = (np.asfortranarray(array) for array in (x, background, coefficients))
    assert_array_equal(game(*turned, 3), phi)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("d", [15, 32])
def test_exact_nodes_are_efficient(rng, kind, d):
    """Σφ = f(x) − mean f(background): too many players for brute force."""
    game = MAKERS[kind](rng, d, r=30)
    x, background = table(rng, 4, d), table(rng, 35, d)
    phi = game.values(x, background, np.eye(d, dtype=bool), sizes.exact_nodes(d))
    gap = phi.sum(axis=1) - (game.predict(x) - game.predict(background).mean(axis=0))
    assert np.max(np.abs(gap) / unit(game, rng)) < 1e-10


def test_weights_of_the_background_are_repeated_rows(rng):
    x, background, coefficients = (
        rng.random((4, 2, 9)),
        rng.random((4, 3, 9)),
        rng.normal(size=(9, 1)),
    )
    weighted = games.product_game_values(
        x, background, coefficients, 2, weights=np.array([3, 0, 1]) / 4
    )
    assert_allclose(
        weighted,
        games.product_game_values(x, background[:, [0, 0, 0, 2]], coefficients, 2),
        rtol=1e-12,
    )


@pytest.mark.parametrize("kind", MAKERS)
def test_players_alike_share_and_a_player_that_never_differs_gets_nothing(rng, kind):
    x, background, coefficients = (
        rng.random((6, 3, 20)),
        rng.random((6, 4, 20)),
        rng.normal(size=(20, 1)),
    )
    x[4], background[4] = x[1], background[1]  # alike
    x[2], background[2] = x[2, :1], x[2, :1]  # dummy: one value everywhere
    game = games.product_game_values if kind == "kernel" else games.fourier_game_values
    phi = game(x, background, coefficients, 3)
    assert_allclose(phi[:, 4], phi[:, 1], rtol=1e-11)
    assert_allclose(phi[:, 2], 0.0, atol=1e-16)
    order = rng.permutation(6)
    assert_allclose(
        game(x[order], background[order], coefficients, 3), phi[:, order], rtol=1e-10, atol=1e-14
    )


def ridge_weights(features, y, penalty):
    """Weights of the ridge regression of y on features, as a kernel model has them: large and of
    both signs."""
    return np.linalg.solve(
        features.T @ features + penalty * np.eye(features.shape[1]), features.T @ (y - y.mean())
    )


@pytest.fixture(scope="module")
def fitted():
    """d -> a fitted RBF model (length-scale the median distance) and a Fourier model of the same
    length-scale."""
    rng, models = np.random.default_rng(3), {}
    for d in (32, 64):
        x = rng.normal(size=(1500, d))
        y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + np.abs(x[:, 3]) + x.sum(axis=1) / np.sqrt(d)
        kernel = RBF("median").bind(d, x)
        scale = kernel.parameters
        gram = kernel.matrix(x, x[:200])
        frequencies = rng.normal(size=(100, d)) / scale
        waves = np.exp(1j * x @ frequencies.T)
        cosines = ridge_weights(np.hstack([waves.real, waves.imag]), y, 1.0)
        models[d] = (
            x,
            (
                KernelGame(kernel, x[:200], ridge_weights(gram, y, 1e-3)[:, None]),
                FourierGame(frequencies, (cosines[:100] - 1j * cosines[100:])[:, None]),
            ),
        )
    return models


def node_errors(game, x, d):
    """q -> largest error of q nodes in standard deviations of the predictions, for 1 ≤ q <
    exact."""
    rows, background, members = x[:8], x[500:530], np.eye(d, dtype=bool)
    exact = game.values(rows, background, members, sizes.exact_nodes(d))
    spread = game.predict(x).std()
    return {
        q: np.abs(game.values(rows, background, members, q) - exact).max() / spread
        for q in range(1, sizes.exact_nodes(d))
    }


@pytest.mark.slow
@pytest.mark.parametrize("d", [32, 64])
def test_four_nodes_are_enough_for_an_rbf_model(fitted, d):
    # measured at d = 32: 3e-5, 3e-8, 2e-11 with 2, 3, 4 nodes; a third of the length-scale needs 5
    # nodes for 1e-6
    x, (kernel, fourier) = fitted[d]
    errors = node_errors(kernel, x, d)
    assert errors[2] > 1e-7  # two are not: the bound means something
    assert errors[3] < 1e-6
    assert errors[4] < 1e-9
    # Fourier features of the same length-scale: 4 or 5
    assert node_errors(fourier, x, d)[5] < 1e-6


@pytest.mark.parametrize(("d", "few", "enough"), [(32, 8, 11), (64, 12, 15)])
def test_turning_phases_need_more_nodes(rng, d, few, enough):
    """Angles all around the circle, the worst that frequencies can do: 10 or 11 nodes for 1e-6, 14
    or 15 at d = 64."""
    angles, others = rng.uniform(0, 2 * np.pi, (d, 6, 300)), rng.uniform(0, 2 * np.pi, (d, 20, 300))
    coefficients = rng.normal(size=(300, 1)) + 0j
    spread = np.sqrt((np.abs(coefficients) ** 2).sum() / 2)
    exact = games.fourier_game_values(angles, others, coefficients, sizes.exact_nodes(d))
    error = {
        q: np.abs(games.fourier_game_values(angles, others, coefficients, q) - exact).max() / spread
        for q in (few, enough)
    }
    assert error[few] > 1e-5
    assert error[enough] < 1e-6


@pytest.mark.parametrize("kind", MAKERS)
def test_more_nodes_converge(rng, kind):
    game = MAKERS[kind](rng, 24, r=50)
    errors = list(node_errors(game, table(rng, 600, 24), 24).values())
    assert all(later < 0.5 * earlier for earlier, later in pairwise(errors) if earlier > 1e-13)
    assert errors[0] > 1e-3
    assert errors[-1] < 1e-9


def test_nodes_integrate_polynomials():
    for q in (1, 2, 5, 9):
        t, w = games.legendre_nodes(q)
        assert_allclose(
            [w @ t**power for power in range(2 * q)], 1 / np.arange(1, 2 * q + 1), rtol=1e-13
        )
    assert [sizes.exact_nodes(d) for d in (0, 1, 2, 3, 12, 13)] == [1, 1, 1, 2, 6, 7]


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-9])
def test_node_count_is_the_smallest_even_number_that_does(rng, tolerance):
    game = kernel_game(rng, 20, r=40, k=2)
    x, background = table(rng, 10, 20), table(rng, 12, 20)
    a, c = (game.kernel.factors(rows, game.landmarks) for rows in (x, background))
    spread = game.predict(x).std(axis=0)
    rest = rng.random((12, 40))
    found = nodes.node_count(
        games.product_game_values, a, c, game.weights, tolerance, unit=spread, rest=rest
    )

    def error(q):
        few, exact = (
            games.product_game_values(a, c, game.weights, nodes, rest=rest) for nodes in (q, 10)
        )
        return np.max(np.abs(few - exact) / spread)

    assert found.nodes % 2 == 0
    assert 1 < found.nodes < 10
    assert_allclose(found.error, error(found.nodes), rtol=1e-6)
    assert found.error <= tolerance
    assert found.nodes == 2 or error(found.nodes - 2) > tolerance
    more = nodes.node_count(
        games.product_game_values,
        a,
        c,
        game.weights,
        tolerance,
        unit=spread,
        rest=rest,
        least=found.nodes + 1,
    )
    assert more.nodes == min(found.nodes + 2, 10)


def test_node_count_falls_back_to_exact(rng):
    angles, others, coefficients = (
        rng.normal(size=(9, 50, 30)),
        rng.normal(size=(9, 60, 30)),
        rng.normal(size=(30, 1)),
    )
    assert nodes.node_count(games.fourier_game_values, angles, others, coefficients, 0.0) == (
        5,
        0.0,
    )
    one = rng.random((1, 3, 30))
    assert nodes.node_count(games.product_game_values, one, one[:, ::-1], coefficients, 1e-6) == (
        1,
        0.0,
    )


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 13, 14, 40, 64, 100, 300, 1_000])
def test_reference_nodes_are_nearly_exact_whatever_the_factors(d):
    """In [0, 1]; from one node on, and never more than the exact number."""
    few = nodes.reference_nodes(d, 1)
    assert few <= sizes.exact_nodes(d)
    assert worst_node_error(d, few) < 3e-5
    assert nodes.reference_nodes(d, 400) == sizes.exact_nodes(d)
    assert nodes.reference_nodes(100, 20) == 40


def test_worst_node_error_holds_and_is_attained(rng):
    for d, q in ((4, 1), (9, 2), (16, 3)):
        worst = worst_node_error(d, q)
        a, c = rng.integers(0, 2, (d, 200, 1)).astype(float), rng.random((d, 50, 1))
        one = np.ones((1, 1))
        gap = games.product_game_values(a, c, one, q) - games.product_game_values(
            a, c, one, sizes.exact_nodes(d)
        )
        assert np.abs(gap).max() <= worst
        # one of the corners: Π = t^p (1 − t)^s of the others, and a_i − c_i = 1
        corner = []
        for p in range(d):
            for s in range(d - p):
                a, c = np.ones((d, 1, 1)), np.ones((d, 1, 1))
                c[: p + 1], a[p + 1 : p + 1 + s] = 0.0, 0.0
                exact = games.product_game_values(a, c, one, sizes.exact_nodes(d))
                corner.append(abs(games.product_game_values(a, c, one, q) - exact)[0, 0, 0])
        assert_allclose(max(corner), worst, rtol=1e-9)
    assert worst_node_error(8, 4) < 1e-15  # exact
    assert_allclose(
        [worst_node_error(32, q) for q in (4, 8, 12)], [1.3e-2, 2.8e-5, 1.6e-10], rtol=0.05
    )


@pytest.mark.parametrize("is_fourier", [False, True])
@pytest.mark.parametrize(
    ("n", "b", "r", "d", "k"), [(40, 100, 300, 8, 1), (3, 20, 50, 17, 2), (200, 4, 130, 5, 1)]
)
def test_projected_bytes_are_kept(rng, is_fourier, n, b, r, d, k):
    x, background, coefficients = rng.random((d, n, r)), rng.random((d, b, r)), rng.random((r, k))
    game = games.fourier_game_values if is_fourier else games.product_game_values
    game(x, background, coefficients, 2)  # compiled before
    peaks = []
    for _ in range(5):  # other threads of the test run, a cluster's, are seen too, now and then
        tracemalloc.start()
        game(x, background, coefficients, 2)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    peak = min(peaks)
    projected = sizes.product_game_bytes(n, b, r, d, k, is_fourier=is_fourier)
    others = 256 << 10  # Python objects, those of other threads of the test run too
    assert peak - others <= projected <= 1.5 * peak


def test_operations():
    # one pair of players, one pair of nodes: 38 operations for two nodes and two differences, see
    # the loop
    assert sizes.product_game_operations(3, 5, 7, 2, 2) == 3 * 5 * 7 * 40
    assert sizes.product_game_operations(3, 5, 7, 1, 1) == sizes.product_game_operations(
        3, 5, 7, 2, 2
    )
    assert sizes.product_game_operations(1, 1, 1, 4, 9, is_fourier=True) == 2 * (30 + 27 * 5)


def test_one_compilation_serves_all():
    """Whatever the dtype and the memory order of the arguments: no task waits for another
    compilation."""
    whole = np.asfortranarray(np.ones((3, 4, 5), dtype=int))
    for game in (games.product_game_values, games.fourier_game_values):
        game(whole, whole, whole[0].T, 2, rest=whole[0], weights=np.ones(4, dtype=int))
        game(whole.astype(np.float32), whole[:, ::2], np.ones((5, 1)), 3)
        fixed = np.ones((3, 4, 1))
        fixed.flags.writeable = False  # as workers receive them
        game(fixed, fixed, fixed[0, :1], 1, rest=fixed[0])
    compiled = {
        name: len(each.signatures)
        for name, each in vars(games).items()
        if isinstance(each, CPUDispatcher)
    }
    assert len(compiled) >= 2
    assert set(compiled.values()) == {1}
