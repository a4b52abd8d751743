"""Graphs and games on them, and Myerson values by their definition, in code of its own; sets are
bit codes."""

import numpy as np

from dshap.designs import chain, graph_of, grid
from tests.designs.design_games import game, shapley_by_subsets


def neighbours(graph):
    """(d, d) booleans by the definition: of a chain, of a grid, of pairs."""
    d = graph.n_nodes
    out = np.zeros((d, d), dtype=bool)
    for i in range(d):
        for j in range(d):
            if graph.edges is not None:
                out[i, j] = (min(i, j), max(i, j)) in graph.edges
            elif len(graph.shape) == 1:
                out[i, j] = abs(i - j) == 1
            else:
                (a, b), (c, e) = divmod(i, graph.shape[1]), divmod(j, graph.shape[1])
                out[i, j] = abs(a - c) + abs(b - e) == 1
    return out


def steps(beside, i):
    """(d,): edges from i to each node, −1 where there is no way; breadth first."""
    found, last, n = np.full(len(beside), -1), {i}, 0
    while last:
        for j in last:
            found[j] = n
        last, n = {k for j in last for k in np.flatnonzero(beside[j]) if found[k] < 0}, n + 1
    return found


def components(beside, code):
    """Codes of the connected parts of a set."""
    parts, left = [], {i for i in range(len(beside)) if code >> i & 1}
    while left:
        part, last = set(), {min(left)}
        while last:
            part |= last
            last = {j for i in last for j in np.flatnonzero(beside[i]).tolist() if j in left} - part
        left -= part
        parts.append(sum(1 << i for i in part))
    return parts


def restricted(v, beside):
    """The game of joined players: S is worth Σ over its components C of v(C) − v(∅)."""
    return np.array([sum(v[part] - v[0] for part in components(beside, S)) for S in range(len(v))])


def within(v, inside, outside=0):
    """The game (2^n,) that the players `inside` (n,) play, with those of the code `outside` always
    there."""
    codes = [
        sum(1 << int(i) for b, i in enumerate(inside) if S >> b & 1) | outside
        for S in range(2 ** len(inside))
    ]
    return v[codes]


def myerson_by_subsets(v, beside):
    """Shapley values of the restricted game."""
    return shapley_by_subsets(restricted(v, beside))


def of_neighbourhoods(
    v, graph, order, of=lambda v, beside: shapley_by_subsets(v), outside="absent"
):
    """(d,): the value `of` each player in the game of its neighbourhood."""
    beside, phi = neighbours(graph), np.zeros(graph.n_nodes)
    for i in range(graph.n_nodes):
        far = steps(beside, i)
        inside = np.flatnonzero((far >= 0) & (far <= (len(far) if order is None else order)))
        others = (
            sum(1 << j for j in range(len(far)) if j not in inside) if outside == "present" else 0
        )
        values = of(within(v, inside, others), beside[np.ix_(inside, inside)])
        phi[i] = values[list(inside).index(i)]
    return phi


def of_runs(d, longest, rng):
    """A game whose terms are of at most so many consecutive players: (2^d,)."""
    a = np.zeros(2**d)
    for size in range(1, longest + 1):
        for start in range(d - size + 1):
            a[((1 << size) - 1) << start] = rng.normal()
    return game(a)


def random_graph(d, rng, share=0.35):
    """Any graph of d nodes, often in parts."""
    half = np.triu(rng.random((d, d)) < share, 1)
    return graph_of(half | half.T)


def all_graphs():
    """Name -> graph: random ones of up to 9 nodes, chains, grids, without edges, of two parts."""
    rng = np.random.default_rng(3)
    found = {f"random {d}": random_graph(d, rng) for d in (2, 3, 5, 7, 8, 9)}
    found |= {f"dense {d}": random_graph(d, rng, 0.7) for d in (4, 6)}
    found |= {f"chain {d}": chain(d) for d in (1, 2, 3, 6, 9)}
    found |= {f"grid {h} x {w}": grid(h, w) for h, w in ((2, 2), (2, 3), (3, 3), (1, 4), (4, 1))}
    apart = np.zeros((7, 7), dtype=int)
    apart[[0, 1, 2, 4, 5], [1, 2, 0, 5, 6]] = 1
    return found | {"no edge": graph_of(np.zeros((4, 4))), "two parts": graph_of(apart + apart.T)}
