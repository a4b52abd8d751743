"""Regression on connected coalitions.  Games have interactions of every order unless a test says
otherwise."""

import math

import numpy as np
import pytest

from dshap.core.errors import InputError
from dshap.designs import chain, connected_regression, exact, grid
from tests.designs.design_games import attribute, codes, dividends, game
from tests.designs.graph_games import all_graphs, components, neighbours

GRAPHS = all_graphs()


def expected_codes(graph, order):
    """Runs, squares and connected coalitions by their definition, everybody left out."""
    d, beside = graph.n_nodes, neighbours(graph)
    if not graph.is_grid:
        fits = lambda code: code.bit_count() <= order and len(components(beside, code)) == 1  # noqa: E731
        return {code for code in range(1, 2**d - 1) if fits(code)}
    height, width = graph.shape
    squares = {
        sum(1 << (a + i) * width + b + j for i in range(side) for j in range(side))
        for side in range(1, order + 1)
        for a in range(height - side + 1)
        for b in range(width - side + 1)
    }
    return squares - {2**d - 1}


def solved(v, listed, d, weights):
    """The regression under its constraint, by Lagrange's equations."""
    listed = sorted(listed)
    z = np.array([[S >> i & 1 for i in range(d)] for S in listed], dtype=float).reshape(-1, d)
    s = z.sum(axis=1).astype(int)
    w = (
        np.ones(len(s))
        if weights == "uniform"
        else np.array([(d - 1) / (math.comb(d, n) * n * (d - n)) for n in s])
    )
    a = np.block([[z.T * w @ z, np.ones((d, 1))], [np.ones((1, d)), np.zeros((1, 1))]])
    b = np.append(z.T * w @ (v[listed] - v[0]), v[-1] - v[0])
    return np.linalg.solve(a, b)[:d]


@pytest.mark.parametrize("weights", ["uniform", "kernel"])
@pytest.mark.parametrize("name", GRAPHS)
def test_values_are_the_definition(name, weights):
    graph = GRAPHS[name]
    d = graph.n_nodes
    v = game(dividends(d, np.random.default_rng(1)))
    for order in (1, 2, 3):
        design, listed = (
            connected_regression(graph, order, weights=weights),
            expected_codes(graph, order),
        )
        assert sorted(codes(design.masks)) == sorted(listed | {0, 2**d - 1})
        phi = attribute(design, v)
        expected = solved(v, listed, d, weights) if listed else v[1:] - v[0]
        np.testing.assert_allclose(phi, expected, atol=1e-9)
        np.testing.assert_allclose(phi.sum(), v[-1] - v[0], atol=1e-10)
        assert design.info.is_efficient


def test_every_coalition_with_kernel_weights_gives_shapley_values():
    """A complete graph without a limit is KernelSHAP on all coalitions."""
    v = game(dividends(6, np.random.default_rng(2)))
    phi = attribute(connected_regression(~np.eye(6, dtype=bool), None, weights="kernel"), v)
    np.testing.assert_allclose(phi, attribute(exact(6), v), atol=1e-10)


def test_kernel_weights_give_single_values_plus_a_constant():
    """Of 20 × 20 pixels: pairs and larger squares weigh nothing beside single players (1/d against
    1e-5 and less)."""
    design, rng = connected_regression(grid(20, 20), 4, weights="kernel"), np.random.default_rng(0)
    masks, w = design.masks, rng.normal(size=400)
    v = masks @ w + np.tanh(masks @ rng.normal(size=(400, 3))).sum(axis=1)
    phi = design.operator.T @ v
    single = np.array([v[(masks.sum(axis=1) == 1) & masks[:, i]][0] for i in range(400)]) - v[0]
    assert np.corrcoef(phi, single)[0, 1] > 0.9999
    even = connected_regression(grid(20, 20), 4).operator.T @ v
    assert np.corrcoef(even, single)[0, 1] < 0.999


@pytest.mark.parametrize(("graph", "order", "number"), [
    (chain(400), 4, 400 + 399 + 398 + 397),
    (chain(5), 5, 14),
    (grid(32, 32), 4, 1_024 + 961 + 900 + 841),
    (grid(2, 9), 4, 18 + 8),
    (grid(3, 3), 3, 9 + 4),
])  # fmt: skip
def test_number_of_coalitions(graph, order, number):
    """About `order` a player; everybody is one of the two ends."""
    assert connected_regression(graph, order).n_coalitions == number + 2


def test_no_weight_underflows_to_an_error():
    """1/C(1500, 700) is below every float64."""
    design = connected_regression(chain(1_500), 2, weights="kernel")
    phi = design.finish(np.ones((1, 1_500, 1)), np.zeros((1, 1)), np.ones((1, 1)))
    np.testing.assert_allclose(phi.sum(), 1.0)


@pytest.mark.parametrize(
    ("graph", "options", "said"),
    [
        (grid(3, 3), {"order": 0}, "order is 0"),
        (grid(3, 3), {"order": 1, "weights": "kernels"}, "unknown weights 'kernels'; did you mean 'kernel'"),
        (~np.eye(40, dtype=bool), {"order": 20}, "order 20: there are more than 1,048,576 connected coalitions: "
                                                 "the highest order that fits is 5"),
    ],
)  # fmt: skip
def test_what_is_refused(graph, options, said):
    with pytest.raises(InputError, match=said):
        connected_regression(graph, **options)
