import json
import pickle

import numpy as np
import pytest
import scipy.sparse

from dshap.core.errors import InputError
from dshap.designs import Graph, chain, graph_of, grid
from tests.designs.graph_games import all_graphs, neighbours, steps

GRAPHS = all_graphs()


@pytest.mark.parametrize("name", GRAPHS)
def test_edges_and_distances_are_the_definition(name):
    graph = GRAPHS[name]
    beside = neighbours(graph)
    np.testing.assert_array_equal(graph.adjacency.toarray() > 0, beside)
    far = np.stack([steps(beside, i) for i in range(graph.n_nodes)])
    for order in (1, 2, 3, 20):
        np.testing.assert_array_equal(graph.neighbourhoods(order), (far >= 0) & (far <= order))
    np.testing.assert_array_equal(graph.neighbourhoods(None), far >= 0)
    assert graph.is_connected == bool((far >= 0).all())


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_known_again_by_its_fingerprint(name):
    graph = GRAPHS[name]
    assert (
        graph_of(json.loads(json.dumps(graph.fingerprint())))
        == graph
        == pickle.loads(pickle.dumps(graph))
    )
    assert graph_of(graph) is graph


def test_a_large_graph_by_its_parts():
    """1,500 nodes are more than one span of distances."""
    near = chain(1_500).neighbourhoods(2)
    assert near.sum() == 5 * 1_500 - 6
    assert near[700, 698:703].all()
    assert not near.flags.writeable


def test_what_counts_in_an_adjacency():
    """Any entry that is not zero, whatever its value; not those stored as 0, nor the diagonal."""
    sparse = scipy.sparse.coo_array(
        ([2.0, -1.0, 0.0, 0.0, 5.0], ([0, 1, 1, 2, 2], [1, 0, 2, 1, 2])), shape=(3, 3)
    )
    expected = Graph((3,), ((0, 1),))
    for given in (
        sparse,
        sparse.tocsr(),
        scipy.sparse.csc_matrix(sparse),
        sparse.toarray(),
        sparse.toarray() != 0,
    ):
        assert graph_of(given) == expected
    unsorted = scipy.sparse.csr_array(
        (np.ones(6), [3, 1, 0, 3, 1, 0], [0, 2, 4, 4, 6]), shape=(4, 4)
    )
    assert graph_of(unsorted) == Graph((4,), ((0, 1), (0, 3), (1, 3)))
    assert grid(1, 5) == grid(5, 1) == chain(5)
    assert (chain(4).is_chain, grid(2, 3).is_grid, expected.is_chain, expected.is_grid) == (
        True,
        True,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (scipy.sparse.csr_array((3, 4)), r"adjacency of shape \(3, 4\): give a square one"),
        (np.zeros((0, 0)), "give a square one"),
        (np.zeros(4), "give a square one"),
        (
            np.triu(np.ones((3, 3))),
            r"not symmetric: \[0, 1\] is an edge and \[1, 0\] is not, and so in 3 places",
        ),
        ("chain", r"graph is 'chain': give chain\(d\), grid\(height, width\) or the adjacency"),
        (5, "graph is 5: give chain"),
        ([[0, 1], [1, 0]], "graph is "),
        ({"ring": 4}, "graph is "),
        (None, "graph is None"),
    ],
)
def test_what_is_no_graph_is_refused_in_one_line(given, said):
    with pytest.raises(InputError, match=said) as caught:
        graph_of(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "make", [lambda: chain(0), lambda: chain(2.5), lambda: grid(0, 3), lambda: grid(3, "4")]
)
def test_sizes_are_whole_numbers(make):
    with pytest.raises(InputError, match="give a whole number of at least 1"):
        make()
