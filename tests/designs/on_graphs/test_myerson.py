"""Myerson values.  Games have interactions of every order unless a test says otherwise."""

import numpy as np
import pytest
import scipy.sparse

from dshap.core.errors import InputError
from dshap.designs import chain, connected, grid, myerson
from tests.designs.design_games import attribute, codes, dividends, game, shapley_by_subsets
from tests.designs.graph_games import (
    all_graphs,
    components,
    myerson_by_subsets,
    neighbours,
    of_runs,
)

GRAPHS = all_graphs()
SMALL = 1e-10


@pytest.mark.parametrize("name", GRAPHS)
def test_values_are_the_definition(name):
    """Sums of at most 2^9 values of size 20 and weights below 1."""
    graph = GRAPHS[name]
    v = game(dividends(graph.n_nodes, np.random.default_rng(1)))
    expected = myerson_by_subsets(v, neighbours(graph))
    np.testing.assert_allclose(attribute(myerson(graph), v), expected, atol=SMALL)
    np.testing.assert_allclose(attribute(myerson(graph), v, step=3), expected, atol=SMALL)


@pytest.mark.parametrize("name", GRAPHS)
def test_each_component_shares_what_it_is_worth(name):
    """Also where the sum is not v(N) − v(∅), which `is_efficient` says."""
    graph = GRAPHS[name]
    d = graph.n_nodes
    v, design = game(dividends(d, np.random.default_rng(2))), myerson(graph)
    phi, parts = attribute(design, v), components(neighbours(graph), 2**d - 1)
    for part in parts:
        members = [i for i in range(d) if part >> i & 1]
        np.testing.assert_allclose(phi[members].sum(), v[part] - v[0], atol=SMALL)
    assert design.info.is_efficient == (len(parts) == 1)


def test_only_connected_coalitions_are_asked_for():
    """The two ends, and of a disconnected graph no value of everybody counts."""
    for graph in GRAPHS.values():
        design, beside = myerson(graph), neighbours(graph)
        listed = codes(design.masks).tolist()
        right = {S for S in range(1, 2**graph.n_nodes) if len(components(beside, S)) == 1}
        assert set(listed) == right | {0, 2**graph.n_nodes - 1}
        assert len(set(listed)) == len(listed)
        assert (design.operator[1] == 0).all() == (not graph.is_connected)


def test_complete_graphs_and_games_of_runs_give_shapley_values():
    everybody = myerson(~np.eye(6, dtype=bool))
    v = game(dividends(6, np.random.default_rng(5)))
    np.testing.assert_allclose(attribute(everybody, v), shapley_by_subsets(v), atol=SMALL)
    runs = of_runs(8, 8, np.random.default_rng(6))
    np.testing.assert_allclose(
        attribute(myerson(chain(8)), runs), shapley_by_subsets(runs), atol=SMALL
    )


@pytest.mark.slow
def test_a_long_chain_at_its_largest_weights():
    """Additive games: phi_i is the value of i, in 80,200 runs of up to 400 players."""
    design, w = myerson(chain(400)), np.random.default_rng(0).normal(size=400)
    assert design.n_coalitions == 80_200 + 1  # the run of all is one of the two ends
    phi = np.zeros(400)
    for start in range(0, design.n_coalitions, 9_000):
        block = design.block(start, min(start + 9_000, design.n_coalitions))
        phi += block.score.T @ (block.masks @ w + 3.0)
    np.testing.assert_allclose(phi, w, atol=1e-9)


def test_too_many_coalitions_are_refused_with_the_order_that_fits():
    """A grid of 8 × 8 has 10^12 connected sets or so; order 2 (13 players) fits, order 3 (25
    players) does not."""
    said = (
        r"graph of 64 players has more than 1,048,576 connected coalitions: give connected\(graph, order, "
        r'coefficients="boundary"\), where the highest order that fits is \d$'
    )
    with pytest.raises(InputError, match=said) as caught:
        myerson(grid(8, 8))
    best = int(str(caught.value)[-1])
    assert connected(grid(8, 8), best, coefficients="boundary").n_coalitions > 1_000
    with pytest.raises(
        InputError, match=f"order {best + 1}: .*the highest order that fits is {best}"
    ):
        connected(grid(8, 8), best + 1, coefficients="boundary")


def test_a_sparse_adjacency_is_taken():
    ring = scipy.sparse.csr_array(np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0))
    v = game(dividends(5, np.random.default_rng(8)))
    np.testing.assert_allclose(
        attribute(myerson(ring), v), myerson_by_subsets(v, ring.toarray() > 0), atol=SMALL
    )
