"""L-Shapley.  Games have interactions of every order unless a test says otherwise."""

from itertools import pairwise

import numpy as np
import pytest

from dshap.core.errors import InputError
from dshap.designs import chain, exact, grid, local, permutation
from tests.designs.design_games import (
    assert_joined,
    attribute,
    dividends,
    estimates,
    game,
    shapley_by_subsets,
    std_errors,
)
from tests.designs.graph_games import all_graphs, neighbours, of_neighbourhoods, of_runs, steps

GRAPHS = all_graphs()
SMALL = 1e-10


@pytest.mark.parametrize("outside", ["absent", "present"])
@pytest.mark.parametrize("name", GRAPHS)
def test_values_are_the_definition(name, outside):
    """Sums of at most 2^9 values of size 20 and weights below 1."""
    graph = GRAPHS[name]
    v = game(dividends(graph.n_nodes, np.random.default_rng(1)))
    for order in (1, 2, None):
        design = local(graph, order, outside=outside)
        expected = of_neighbourhoods(v, graph, order, outside=outside)
        np.testing.assert_allclose(attribute(design, v), expected, atol=SMALL)
        np.testing.assert_allclose(attribute(design, v, step=5), expected, atol=SMALL)


@pytest.mark.parametrize("outside", ["absent", "present"])
def test_a_neighbourhood_of_everybody_gives_shapley_values(outside):
    for graph, order in (
        (chain(7), None),
        (chain(7), 6),
        (grid(3, 3), 4),
        (~np.eye(6, dtype=bool), 1),
    ):
        design = local(graph, order, outside=outside)
        v = game(dividends(design.n_players, np.random.default_rng(3)))
        np.testing.assert_allclose(attribute(design, v), shapley_by_subsets(v), atol=SMALL)
        assert design.info.is_efficient
        assert design.n_coalitions == exact(design.n_players).n_coalitions
    assert not local(chain(7), 5).info.is_efficient


@pytest.mark.parametrize("outside", ["absent", "present"])
def test_parts_of_a_graph_are_games_by_themselves(outside):
    """Players 0, 2, 4 and 1, 3, 5, 6 are two parts: by brute force over the subsets of each, the
    Shapley values of its own game; they add up to what the part is worth there, and are those of
    all players where parts do not interact."""
    parts = [[0, 2, 4], [1, 3, 5, 6]]
    adjacency = np.zeros((7, 7), dtype=bool)
    for part in parts:
        for i, j in pairwise(part):
            adjacency[i, j] = adjacency[j, i] = True
    design = local(adjacency, None, outside=outside)
    everybody = np.arange(128)
    v = game(dividends(7, np.random.default_rng(5)))
    alone = np.zeros(128)
    for part in parts:
        members = sum(1 << i for i in part)
        beyond = 127 & ~members if outside == "present" else 0
        of_part = v[(everybody & members) | beyond] - v[beyond]
        expected = shapley_by_subsets(of_part)[part]
        np.testing.assert_allclose(attribute(design, v)[part], expected, atol=SMALL)
        np.testing.assert_allclose(expected.sum(), v[members | beyond] - v[beyond], atol=SMALL)
        alone += of_part
    assert not design.info.is_efficient
    assert np.abs(attribute(design, v) - shapley_by_subsets(v)).max() > 0.1
    np.testing.assert_allclose(attribute(design, alone), shapley_by_subsets(alone), atol=SMALL)


@pytest.mark.parametrize(("d", "k"), [(d, k) for d in (4, 6, 9) for k in (1, 2, 3)])
def test_exact_for_terms_of_up_to_k_plus_1_consecutive_players(d, k):
    """And not for one more."""
    v, longer = (
        of_runs(d, k + 1, np.random.default_rng(d)),
        of_runs(d, k + 2, np.random.default_rng(d)),
    )
    np.testing.assert_allclose(attribute(local(chain(d), k), v), shapley_by_subsets(v), atol=SMALL)
    if k + 2 <= d:
        assert (
            np.abs(attribute(local(chain(d), k), longer) - shapley_by_subsets(longer)).max() > 1e-3
        )


@pytest.mark.parametrize("outside", ["absent", "present"])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("d", [3, 7, 8, 13, 40, 400])
def test_distinct_coalitions_of_a_chain(d, k, outside):
    """(d − 2k + 1) 4^k from d = 2k on, the empty one counted (or that of everybody, where those
    beyond are present); then the other end is listed too, where no neighbourhood has it."""
    design = local(chain(d), k, outside=outside)
    if d > 2 * k + 1:
        assert design.n_coalitions == (d - 2 * k + 1) * 4**k + 1
    else:
        assert design.n_coalitions == 2**d


def orders_of(design):
    """(P, 2, d): the orders that are drawn, as the docstrings of `permutation` and `local` say."""
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(design.seed)))
    orders = rng.random((design.n_units, design.n_players)).argsort(axis=1)
    return np.stack([orders, orders[:, ::-1]], axis=1)


def by_orders(design, v):
    """(P, d): mean of the two orders of each pair, of every player's contribution to its neighbours
    before it."""
    graph = design.graph
    far = np.stack([steps(neighbours(graph), i) for i in range(graph.n_nodes)])
    near = (far >= 0) & (far <= design.order) if design.order else far >= 0
    found = np.zeros((design.n_units, 2, graph.n_nodes))
    for p, both in enumerate(orders_of(design)):
        for side, order in enumerate(both):
            for at, i in enumerate(order):
                before = sum(1 << int(j) for j in order[:at] if near[i, j])
                if design.outside == "present":
                    before |= sum(1 << j for j in range(graph.n_nodes) if not near[i, j])
                found[p, side, i] = v[before | 1 << int(i)] - v[before]
    return found.mean(axis=1)


@pytest.mark.parametrize("outside", ["absent", "present"])
@pytest.mark.parametrize(
    ("graph", "order", "n"), [(chain(9), 2, 4), (chain(9), 4, 100), (grid(3, 3), 2, 120)]
)
def test_large_neighbourhoods_are_sampled_and_small_ones_listed(graph, order, n, outside):
    """Those of more than 2n subsets; errors are the standard deviation over pairs / √P, in groups
    above 20 pairs."""
    v = game(dividends(9, np.random.default_rng(2)))
    design = local(graph, order, n_permutations=n, seed=5, outside=outside, n_replicates=20)
    size = graph.neighbourhoods(order).sum(axis=1)
    drawn = 2.0**size > 2 * n
    assert drawn.any()
    assert (design.is_sampled == drawn).all()
    listed, each = of_neighbourhoods(v, graph, order, outside=outside), by_orders(design, v)
    expected = np.where(drawn, each.mean(axis=0), listed)
    np.testing.assert_allclose(attribute(design, v), expected, atol=SMALL)
    if n < 100:
        np.testing.assert_array_equal(std_errors(design, v), np.where(drawn, np.nan, 0.0))
        assert (
            design.info.why_no_errors
            == f"n_permutations={n} is too few for standard errors: give 100 or more"
        )
        return
    groups = [np.arange(len(each)) % 20 == g for g in range(min(20, len(each)))]
    without = np.array([each[~group].mean(axis=0) for group in groups])
    error = np.sqrt((1 - 1 / len(groups)) * np.square(without - each.mean(axis=0)).sum(axis=0))
    np.testing.assert_allclose(std_errors(design, v), np.where(drawn, error, 0.0), atol=SMALL)


def test_of_no_limit_the_orders_are_those_of_permutation():
    """Efficient too, as all contributions along an order are counted."""
    v = game(dividends(8, np.random.default_rng(2)))
    design, other = local(chain(8), None, n_permutations=40, seed=3), permutation(8, 40, seed=3)
    for mine, others in zip(estimates(design, v), estimates(other, v), strict=True):
        np.testing.assert_allclose(mine, others, atol=SMALL)
    assert design.info.is_efficient
    assert design.n_coalitions == other.n_coalitions
    np.testing.assert_allclose(attribute(design, v).sum(), v[-1] - v[0], atol=SMALL)


@pytest.mark.slow
def test_errors_cover_the_value_of_the_neighbourhood():
    """120 games, φ ± 2.09 std_error: 95 % nominally, 90 to 94 % at 50 pairs (a binomial of some
    1,000 has ± 1 %)."""
    covered = []
    for seed in range(120):
        v = game(dividends(9, np.random.default_rng(seed)))
        design = local(chain(9), 4, n_permutations=100, seed=seed)
        truth = of_neighbourhoods(v, chain(9), 4)
        error = std_errors(design, v)
        covered += (np.abs(attribute(design, v) - truth) <= 2.09 * error)[
            design.is_sampled
        ].tolist()
    assert 0.88 < np.mean(covered) < 0.98


def test_enough_orders_list_everything_and_have_no_error():
    design = local(chain(6), 1, n_permutations=4)
    assert not design.is_sampled.any()
    assert design.info.n_replicates == 0
    assert design.info.seed == 0
    np.testing.assert_array_equal(design.operator, local(chain(6), 1).operator)


def test_any_chunking_equals_one_with_groups():
    design = local(grid(3, 4), 2, n_permutations=32, seed=1)
    m = design.n_coalitions
    for step in (1, 7, 300):
        parts = [design.block(i, min(i + step, m)) for i in range(0, m, step)]
        assert_joined(parts, design.block(0, m))


@pytest.mark.parametrize(
    ("graph", "options", "said"),
    [
        (chain(400), {"order": 8}, r"order 8: the neighbourhoods, of up to 17 players, have 50,592,768 subsets, at "
                                   r"most 2,097,152 allowed: the highest order that fits is 5; or give n_permutations"),
        (chain(400), {"order": None}, r"order None: .*up to 400 players, have 2\^400 and more .*fits is 5; or"),
        (grid(32, 32), {"order": 2}, "have [0-9,]* subsets, .*the highest order that fits is 1"),
        (~np.eye(30, dtype=bool), {"order": 1}, "no order fits: group columns into fewer players"),
        (chain(9), {"order": 2, "n_permutations": 3}, "n_permutations is 3: give an even number of at least 2"),
        (chain(9), {"order": 2, "outside": "away"}, "unknown outside 'away'"),
        (chain(9), {"order": 2, "n_replicates": 1}, "n_replicates is 1"),
        (chain(9), {"order": 2, "seed": -1}, "seed is -1"),
        (chain(2000), {"order": 20, "n_permutations": 1000}, r"1000 orders of the neighbourhoods of 2000 players "
                                                            r"are 4,000,000 steps, at most 2,097,152: lower n_perm"),
    ],
)  # fmt: skip
def test_what_is_refused(graph, options, said):
    with pytest.raises(InputError, match=said):
        local(graph, **options)
