import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dshap.designs import chain, grid
from dshap.designs.on_graphs.subsets import (
    connected_subsets,
    has,
    set_player_pairs,
    sizes,
    subsets_of,
    to_masks,
    to_words,
)
from tests.designs.graph_games import all_graphs, components, neighbours

GRAPHS = all_graphs()


@given(st.integers(1, 200), st.integers(0, 20), st.integers(0, 9))
def test_words_are_masks(d, m, seed):
    masks = np.random.default_rng(seed).random((m, d)) < 0.4
    words = to_words(masks)
    assert words.shape == (m, -(-d // 64))
    assert words.dtype == np.uint64
    np.testing.assert_array_equal(to_masks(words, d), masks)
    np.testing.assert_array_equal(sizes(words), masks.sum(axis=1))
    nodes = np.random.default_rng(seed).integers(0, d, m)
    np.testing.assert_array_equal(has(words, nodes), masks[np.arange(m), nodes])
    if m:
        np.testing.assert_array_equal(
            np.stack(set_player_pairs(words, d)), np.stack(np.nonzero(masks))
        )


def codes(words, d):
    return [sum(1 << int(i) for i in np.flatnonzero(mask)) for mask in to_masks(words, d)]


def expected(graph, near, is_right):
    """code -> players in whose neighbourhood it is, of all sets that are right and in one."""
    d, found = graph.n_nodes, {}
    for code in range(1, 2**d):
        members = [i for i in range(d) if code >> i & 1]
        holders = [i for i in range(d) if near[i, members].all()]
        if holders and is_right(code):
            found[code] = sum(1 << i for i in holders)
    return found


@pytest.mark.parametrize("order", [1, 2, None])
@pytest.mark.parametrize("name", GRAPHS)
def test_every_set_is_there_once(name, order):
    graph = GRAPHS[name]
    d, beside, near = graph.n_nodes, neighbours(graph), graph.neighbourhoods(order)
    cases = [
        (subsets_of(near), lambda code: True),
        (connected_subsets(beside, near), lambda code: len(components(beside, code)) == 1),
        (
            connected_subsets(beside, near, max_size=2),
            lambda code: len(components(beside, code)) == 1 and code.bit_count() <= 2,
        ),
    ]
    for found, is_right in cases:
        listed = codes(found.members, d)
        assert len(set(listed)) == len(listed)
        assert dict(zip(listed, codes(found.common, d), strict=True)) == expected(
            graph, near, is_right
        )


def test_players_without_a_neighbourhood_hold_nothing():
    """Of neighbourhoods that are not listed no set is made, nor of nodes that are in no other."""
    near = chain(5).neighbourhoods(1) & np.array([True, False, False, False, False])[:, None]
    assert sorted(codes(subsets_of(near).members, 5)) == [1, 2, 3]


def test_long_lists_are_cut_and_bounded():
    """80,200 runs of a chain of 400; a grid of 4 × 4 has 11,506 connected sets (sequence A059525 of
    the OEIS)."""
    a, everywhere = chain(400).adjacency.toarray() > 0, np.ones((400, 400), dtype=bool)
    found = connected_subsets(a, everywhere)
    assert len(found.members) == 80_200
    assert len(np.unique(found.members, axis=0)) == 80_200
    assert connected_subsets(a, everywhere, most=80_199) is None
    assert len(connected_subsets(a, everywhere, most=80_200).members) == 80_200
    square = grid(4, 4)
    listed = connected_subsets(square.adjacency.toarray() > 0, square.neighbourhoods(None))
    assert len(listed.members) == 11_506


def test_a_star_is_refused_without_holding_its_sets():
    """2^300 connected sets, each grown by 300 nodes."""
    a = np.zeros((301, 301), dtype=bool)
    a[0, 1:] = a[1:, 0] = True
    assert connected_subsets(a, np.ones_like(a), most=100_000) is None
    assert subsets_of(a | np.eye(301, dtype=bool), most=100_000) is None
