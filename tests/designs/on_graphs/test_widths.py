"""Designs of graphs from 13 to 300 players: counts by the documented formulas, games whose values
are known."""

import math

import numpy as np
import pytest

import dshap
from dshap.designs import chain, connected, connected_regression, grid, local, myerson

WIDTHS = (13, 64, 100, 300)
CHAINS = {f"chain {d}": chain(d) for d in WIDTHS}
GRIDS = {"grid 8 x 8": grid(8, 8), "grid 10 x 10": grid(10, 10), "grid 15 x 20": grid(15, 20)}
STEP = 4_096
MAKERS = {
    "local": lambda graph, k: local(graph, k),
    "local, present": lambda graph, k: local(graph, k, outside="present"),
    "local, sampled": lambda graph, k: local(graph, 3 * k, n_permutations=4, n_replicates=0),
    "boundary": lambda graph, k: connected(graph, k, coefficients="boundary"),
    "boundary, present": lambda graph, k: connected(
        graph, k, coefficients="boundary", outside="present"
    ),
    "regression": lambda graph, k: connected_regression(graph, k + 1),
    "regression, kernel": lambda graph, k: connected_regression(graph, k + 1, weights="kernel"),
}
"""Name -> a design of order k that gives each player of an additive game its own part."""


def attributed(design, game):
    """(d,): attributions of a game, masks (m, d) -> values (m,); every score is finite."""
    sums, m = np.zeros(design.n_players), design.n_coalitions
    for start in range(0, m, STEP):
        masks, score, _ = design.block(start, min(start + STEP, m))
        assert np.isfinite(score).all()
        sums += score.T @ game(masks)
    ends = game(np.array([[False], [True]]).repeat(design.n_players, axis=1))
    phi = design.finish(sums[None, :, None], ends[:1, None], ends[1:, None])[0, :, 0]
    assert np.isfinite(phi).all()
    return phi


def additive(d):
    """Parts w (d,), and the game Σ_{i∈S} w_i + 3."""
    w = np.random.default_rng(d).normal(size=d)
    return w, lambda masks: masks @ w + 3.0


def of_runs(d, longest):
    """A game Σ a_R 1[R ⊆ S] over the runs R of at most so many players, and its Shapley values
    Σ_{R∋i} a_R/|R|."""
    rng, phi, terms = np.random.default_rng(longest), np.zeros(d), []
    for size in range(1, longest + 1):
        a = rng.normal(size=d - size + 1)
        terms.append((size, a))
        for start, share in enumerate(a / size):
            phi[start : start + size] += share

    def game(masks):
        worth = np.zeros(len(masks))
        for size, a in terms:
            # (m, starts, size)
            windows = np.lib.stride_tricks.sliding_window_view(masks, size, axis=1)
            worth += windows.all(axis=2) @ a
        return worth

    return game, phi


def of_edges(graph):
    """The same over the edges of a graph."""
    i, j = np.nonzero(np.triu(graph.adjacency.toarray()))
    a = np.random.default_rng(5).normal(size=len(i))
    phi = (np.bincount(i, a, graph.n_nodes) + np.bincount(j, a, graph.n_nodes)) / 2
    return lambda masks: (masks[:, i] & masks[:, j]) @ a, phi


CASES = [(of, name, k) for of in (*CHAINS, *GRIDS) for name in MAKERS for k in (1, 2)
         if k == 1 or of in CHAINS or not name.startswith("local")]  # fmt: skip
"""Two steps on a grid are 13 players and 2^13 subsets: too many of 300 players;
tests/designs/test_local.py has few."""


@pytest.mark.slow
@pytest.mark.parametrize(("of", "name", "k"), CASES)
def test_additive_games(of, name, k):
    """Sums of at most 10^5 values of size 20: 1e-9 is rounding."""
    graph = (CHAINS | GRIDS)[of]
    w, game = additive(graph.n_nodes)
    np.testing.assert_allclose(attributed(MAKERS[name](graph, k), game), w, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("of", CHAINS)
def test_additive_games_of_myerson(of):
    w, game = additive(CHAINS[of].n_nodes)
    np.testing.assert_allclose(attributed(myerson(CHAINS[of]), game), w, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("of", CHAINS)
def test_games_of_k_plus_1_consecutive_players_are_exact(of, k):
    """L-Shapley and "boundary" of order k, and the Myerson value."""
    d = CHAINS[of].n_nodes
    game, phi = of_runs(d, k + 1)
    for design in (
        local(chain(d), k),
        connected(chain(d), k, coefficients="boundary"),
        myerson(chain(d)),
    ):
        np.testing.assert_allclose(attributed(design, game), phi, atol=1e-9)
    longer, phi = of_runs(d, k + 2)
    assert np.abs(attributed(local(chain(d), k), longer) - phi).max() > 1e-3
    np.testing.assert_allclose(attributed(myerson(chain(d)), longer), phi, atol=1e-9)


@pytest.mark.parametrize("of", GRIDS)
def test_games_of_neighbours_on_a_grid_are_exact(of):
    game, phi = of_edges(GRIDS[of])
    for design in (local(GRIDS[of], 1), connected(GRIDS[of], 1, coefficients="boundary")):
        np.testing.assert_allclose(attributed(design, game), phi, atol=1e-9)


def share(u):
    """The paper's coefficient of a coalition of u players."""
    return 2 / ((u + 2) * (u + 1) * u)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("of", CHAINS)
def test_the_papers_coefficients_on_a_chain(of, k):
    """Of an additive game each player gets its part times the sum over the runs of its
    neighbourhood that hold it."""
    d = CHAINS[of].n_nodes
    w, game = additive(d)
    before, behind = np.minimum(np.arange(d), k), np.minimum(np.arange(d)[::-1], k)
    factor = [
        sum(share(a + b + 1) for a in range(p + 1) for b in range(q + 1))
        for p, q in zip(before, behind, strict=True)
    ]
    np.testing.assert_allclose(attributed(connected(chain(d), k), game), factor * w, atol=1e-9)


@pytest.mark.parametrize("of", GRIDS)
def test_the_papers_coefficients_on_a_grid(of):
    """Of order 1: alone, or with some of its neighbours."""
    w, game = additive(GRIDS[of].n_nodes)
    beside = GRIDS[of].adjacency.sum(axis=1)
    factor = [sum(math.comb(n, t) * share(t + 1) for t in range(n + 1)) for n in beside.tolist()]
    np.testing.assert_allclose(attributed(connected(GRIDS[of], 1), game), factor * w, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("design", [
    lambda d: connected_regression(chain(d), 3), lambda d: connected_regression(chain(d), 3, weights="kernel"),
    lambda d: myerson(chain(d)), lambda d: local(chain(d), None, n_permutations=4, n_replicates=0),
])  # fmt: skip
@pytest.mark.parametrize("d", WIDTHS)
def test_efficient_designs_share_what_there_is(d, design):
    """Of a game with interactions of every order."""
    w = np.random.default_rng(d).normal(size=(d, 3)) / np.sqrt(d)

    def game(masks):
        return np.tanh(masks @ w).sum(axis=1) + np.cos(masks @ w[:, 0])

    made, ends = design(d), game(np.array([[False], [True]]).repeat(d, axis=1))
    assert made.info.is_efficient
    np.testing.assert_allclose(attributed(made, game).sum(), ends[1] - ends[0], atol=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("d", WIDTHS)
def test_coalitions_of_a_chain(d, k):
    """As docs/graphs.md says; the empty one is in the first count, both ends come beside the
    others."""
    assert local(chain(d), k).n_coalitions == (d - 2 * k + 1) * 4**k + 1
    runs = (2 * k + 1) * (d - k)
    assert connected(chain(d), k).n_coalitions == runs + k * k * (d - k - 1) + 2 <= (k + 1) ** 2 * d
    assert (
        connected(chain(d), k, coefficients="boundary").n_coalitions == runs + 2 <= (2 * k + 1) * d
    )
    assert (
        connected_regression(chain(d), k).n_coalitions
        == sum(d - size + 1 for size in range(1, k + 1)) + 2
    )
    assert myerson(chain(d)).n_coalitions == d * (d + 1) // 2 + 1


@pytest.mark.parametrize("of", GRIDS)
def test_coalitions_of_a_grid(of):
    """By sets: subsets of a player with its neighbours; of these the connected ones, for "paper"
    each without one of its players too; squares."""
    graph = GRIDS[of]
    adjacency, (height, width) = graph.adjacency.toarray() > 0, graph.shape
    stars = [(i, np.flatnonzero(row).tolist()) for i, row in enumerate(adjacency)]
    picked = [(i, {b for t, b in enumerate(beside) if code >> t & 1}) for i, beside in stars
              for code in range(2 ** len(beside))]  # fmt: skip
    joined = {frozenset({i, *some}) for i, some in picked}
    apart = {frozenset(some) for _, some in picked}
    assert local(graph, 1).n_coalitions == len(joined | apart) + 1
    assert connected(graph, 1, coefficients="boundary").n_coalitions == len(joined) + 2
    assert connected(graph, 1).n_coalitions == len(joined | apart) + 1
    squares = sum((height - side + 1) * (width - side + 1) for side in (1, 2, 3))
    assert connected_regression(graph, 3).n_coalitions == squares + 2


@pytest.mark.parametrize("graph", [chain(13), chain(64), grid(8, 8), chain(300)])
@pytest.mark.parametrize("name", ["local", "boundary", "regression"])
def test_a_model_is_asked_for_each_coalition_once(graph, name, in_this_process):
    """Of a row of ones over zeros the rows that a model gets are the coalitions; the two ends are
    asked for anew."""
    seen, d = {}, graph.n_nodes

    def counting(rows):
        for row in rows.astype(bool):
            seen[row.tobytes()] = seen.get(row.tobytes(), 0) + 1
        return rows.sum(axis=1)

    design, value = MAKERS[name](graph, 1), dshap.values.Marginal(counting, np.zeros((1, d)))
    cube = dshap.explain(value, np.ones((1, d)), design=design, progress=False)
    ends = (np.zeros(d, dtype=bool).tobytes(), np.ones(d, dtype=bool).tobytes())
    assert {mask.tobytes() for mask in design.masks} == set(seen)
    assert all(count == 1 for mask, count in seen.items() if mask not in ends)
    np.testing.assert_allclose(cube.attribution.values[0, :, 0], 1.0, atol=1e-9)
