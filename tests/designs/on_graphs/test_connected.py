"""C-Shapley.  Games have interactions of every order unless a test says otherwise."""

import numpy as np
import pytest

from dshap.core.errors import InputError
from dshap.designs import chain, connected, grid, myerson
from tests.designs.design_games import attribute, dividends, game, shapley_by_subsets
from tests.designs.graph_games import (
    all_graphs,
    components,
    myerson_by_subsets,
    neighbours,
    of_neighbourhoods,
    of_runs,
)

GRAPHS = all_graphs()
SMALL = 1e-10
ORDERS = (1, 2, 3, None)


def by_the_paper(v, beside):
    """Definition 2, in a graph that is one neighbourhood: (d,)."""
    phi = np.zeros(len(beside))
    for U in range(1, len(v)):
        u = U.bit_count()
        if len(components(beside, U)) == 1:
            for i in range(len(beside)):
                if U >> i & 1:
                    phi[i] += 2 / ((u + 2) * (u + 1) * u) * (v[U] - v[U & ~(1 << i)])
    return phi


OF = {"paper": by_the_paper, "boundary": myerson_by_subsets}


@pytest.mark.parametrize("outside", ["absent", "present"])
@pytest.mark.parametrize("coefficients", OF)
@pytest.mark.parametrize("name", GRAPHS)
def test_values_are_the_definition(name, coefficients, outside):
    """Sums of at most 2^9 values of size 20 and weights below 1."""
    graph = GRAPHS[name]
    v = game(dividends(graph.n_nodes, np.random.default_rng(1)))
    for order in ORDERS:
        design = connected(graph, order, coefficients=coefficients, outside=outside)
        expected = of_neighbourhoods(v, graph, order, OF[coefficients], outside)
        np.testing.assert_allclose(attribute(design, v), expected, atol=SMALL)
        np.testing.assert_allclose(attribute(design, v, step=5), expected, atol=SMALL)


@pytest.mark.parametrize("name", GRAPHS)
def test_no_limit_is_the_myerson_value(name):
    graph = GRAPHS[name]
    v = game(dividends(graph.n_nodes, np.random.default_rng(4)))
    expected = myerson_by_subsets(v, neighbours(graph))
    for order in (None, graph.n_nodes):
        design = connected(graph, order, coefficients="boundary")
        np.testing.assert_allclose(attribute(design, v), expected, atol=SMALL)
        assert design.info.is_efficient == graph.is_connected
        assert design.n_coalitions == myerson(graph).n_coalitions
        assert not connected(graph, order).info.is_efficient


@pytest.mark.parametrize(("d", "k"), [(d, k) for d in (4, 6, 9) for k in (1, 2, 3)])
def test_boundary_is_exact_for_terms_of_up_to_k_plus_1_consecutive_players(d, k):
    """And not for one more, where it could be seen; "paper" is off by a third of the largest value
    and more."""
    v, longer = (
        of_runs(d, k + 1, np.random.default_rng(d)),
        of_runs(d, k + 2, np.random.default_rng(d)),
    )
    design, paper = connected(chain(d), k, coefficients="boundary"), connected(chain(d), k)
    truth = shapley_by_subsets(v)
    np.testing.assert_allclose(attribute(design, v), truth, atol=SMALL)
    assert np.abs(attribute(paper, v) - truth).max() > 0.3 * np.abs(truth).max()
    if k + 2 <= d:
        assert np.abs(attribute(design, longer) - shapley_by_subsets(longer)).max() > 1e-3


def test_paper_is_not_exact_on_an_additive_game():
    """Its coefficients of a player in the middle sum to 1/3 + 2/12 + 1/30 = 0.53 at order 1."""
    w = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    v = np.array([sum(w[i] for i in range(5) if S >> i & 1) for S in range(32)])
    phi = attribute(connected(chain(5), 1), v)
    np.testing.assert_allclose(phi[1:4] / w[1:4], 1 / 3 + 2 / 12 + 1 / 30, atol=1e-14)
    np.testing.assert_allclose(phi[[0, 4]] / w[[0, 4]], 1 / 3 + 1 / 12, atol=1e-14)
    np.testing.assert_allclose(
        attribute(connected(chain(5), 1, coefficients="boundary"), v), w, atol=1e-13
    )


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("d", [7, 8, 13, 40, 400])
def test_distinct_coalitions_of_a_chain(d, k):
    """Beside the two ends, from d = 2k + 1 on: what runs and pairs of runs there are, below the (k
    + 1)² d and (2k + 1) d of a chain without ends.  Where d = 2k + 1 one of the runs is
    everybody."""
    runs, two_runs = (2 * k + 1) * (d - k), k * k * (d - k - 1)
    is_everybody = int(d == 2 * k + 1)
    assert (
        connected(chain(d), k).n_coalitions - 2 == runs + two_runs - is_everybody < (k + 1) ** 2 * d
    )
    boundary = connected(chain(d), k, coefficients="boundary")
    assert boundary.n_coalitions - 2 == runs - is_everybody < (2 * k + 1) * d


@pytest.mark.slow
def test_coalitions_that_no_player_needs_are_left_out():
    """On a grid a set may lie in the neighbourhood of a player that is neither in it nor beside
    it."""
    design = connected(grid(5, 5), 3, coefficients="boundary")
    assert (design.operator[2:] != 0).any(axis=1).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"order": 0}, "order is 0: give a whole number of at least 1"),
        ({"order": 1.5}, "order is 1.5"),
        (
            {"order": 1, "coefficients": "papers"},
            "unknown coefficients 'papers'; did you mean 'paper'",
        ),
        ({"order": 1, "outside": "gone"}, "unknown outside 'gone'"),
    ],
)
def test_what_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        connected(chain(5), **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"coefficients": "boundary"}, {"coefficients": "boundary", "outside": "present"}],
)
def test_too_high_an_order_is_refused_with_the_highest_that_fits(options):
    said = (
        r"order 9: the neighbourhoods, of up to \d+ players, have more than 1,048,576 connected coalitions, or pairs "
        r".*: the highest order that fits is \d$"
    )
    with pytest.raises(InputError, match=said) as caught:
        connected(grid(12, 12), 9, **options)
    best = int(str(caught.value)[-1])
    assert 1 <= best < 9
    assert connected(grid(12, 12), best, **options).n_coalitions > 144
