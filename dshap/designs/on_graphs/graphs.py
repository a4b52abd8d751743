"""Graphs whose nodes are the players: chains, grids, or any adjacency matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.core.annotations import Adjacency
from dshap.core.errors import InputError, shown
from dshap.core.records import JSON, BoolArray
from dshap.core.rules import Whole
from dshap.designs.coalitions import coalition_spans


@dataclass(frozen=True)
class Graph:
    """An undirected graph whose nodes are the players, for designs that use neighbours.

    The functions `chain`, `grid` and `graph_of` make it.

    Examples
    --------
    >>> import dshap
    >>> graph = dshap.designs.chain(4)
    >>> graph.n_nodes, graph.is_chain, graph.is_connected
    (4, True, True)
    >>> graph.adjacency.toarray().astype(int).tolist()
    [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    """

    shape: tuple[int, ...]
    """(d,), or (height, width) of a grid, whose nodes go row by row."""
    edges: tuple[tuple[int, int], ...] | None = None
    """Pairs i < j in rising order; None: the edges of a chain or a grid of this shape."""

    @property
    def n_nodes(self) -> int:
        """The number of nodes d."""
        return math.prod(self.shape)

    @property
    def is_chain(self) -> bool:
        """Whether `chain` made the graph."""
        return self.edges is None and len(self.shape) == 1

    @property
    def is_grid(self) -> bool:
        """Whether `grid` made the graph, with at least two rows and two columns."""
        return self.edges is None and len(self.shape) == 2

    @property
    def adjacency(self) -> scipy.sparse.csr_array:
        """The adjacency matrix (d, d): 1 for two nodes that are neighbours, else 0."""
        i, j = self._pairs()
        ends = np.concatenate([i, j]), np.concatenate([j, i])
        return scipy.sparse.csr_array(
            (np.ones(2 * len(i), np.int32), ends), shape=(self.n_nodes,) * 2
        )

    @property
    def neighbours(self) -> BoolArray:
        """Whether two nodes (d, d) are neighbours."""
        return self.adjacency.toarray() > 0

    def neighbourhoods(self, order: int | None) -> BoolArray:
        """Neighbourhoods (d, d): row i has the nodes at most `order` edges from i, and i itself.

        With `order` None, row i has all nodes of the component of i.
        """
        return _near(self, order)

    def components(self) -> NDArray[np.int32]:
        """The index of the connected component of each node (d,)."""
        return np.asarray(
            scipy.sparse.csgraph.connected_components(self.adjacency, directed=False)[1]
        )

    @property
    def is_connected(self) -> bool:
        """Whether all nodes are in one component."""
        return not self.components().any()

    def fingerprint(self) -> dict[str, JSON]:
        """Plain values from which `graph_of` makes the same graph."""
        if self.edges is not None:
            return {"nodes": self.n_nodes, "edges": [list(edge) for edge in self.edges]}
        if self.is_chain:
            return {"chain": self.n_nodes}
        return {"grid": list(self.shape)}

    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The two ends of each edge."""
        if self.edges is not None:
            ends = np.array(self.edges, np.int64).reshape(-1, 2)
            return ends[:, 0], ends[:, 1]
        node = np.arange(self.n_nodes).reshape(self.shape)
        right = (node[..., :-1], node[..., 1:])
        down = (node[:-1], node[1:])
        both = (right,) if self.is_chain else (right, down)
        return tuple(np.concatenate([ends[side].ravel() for ends in both]) for side in (0, 1))  # type: ignore[return-value]


def chain(d: int) -> Graph:
    """Make a chain of d players: each is a neighbour of the player before and the one after.

    Use it for the words of a text, or the steps of a time series.

    Parameters
    ----------
    d : int
        Number of players, 1 or more.

    Examples
    --------
    >>> import dshap
    >>> graph = dshap.designs.chain(3)
    >>> graph.n_nodes, graph.is_chain
    (3, True)
    """
    return Graph((Whole(1)("d", d),))


def grid(height: int, width: int) -> Graph:
    """Make a grid of height × width players, row by row: each has up to four neighbours.

    Use it for pixels, or patches of pixels.  A grid of one row or one column is a chain.

    Parameters
    ----------
    height, width : int
        Numbers of rows and columns of players, 1 or more.

    Examples
    --------
    >>> import dshap
    >>> graph = dshap.designs.grid(2, 3)
    >>> graph.n_nodes, graph.is_grid
    (6, True)
    """
    shape = Whole(1)("height", height), Whole(1)("width", width)
    if min(shape) == 1:
        return chain(math.prod(shape))
    return Graph(shape)


def graph_of(given: Graph | Adjacency | Mapping[str, JSON]) -> Graph:
    """Make a graph from an adjacency matrix, or from the `fingerprint` of a graph.

    Parameters
    ----------
    given : Graph, or sparse or dense array (d, d)
        An adjacency matrix: every entry that is not zero is an edge, whatever its value; the
        diagonal does not count.  A `Graph` is returned unchanged.

    Returns
    -------
    Graph

    Raises
    ------
    InputError
        A matrix that is not square or not symmetric, or an object that is none of these.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> graph = dshap.designs.graph_of(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> graph.n_nodes, graph.edges
    (3, ((0, 1), (1, 2)))
    """
    plain: Any = given  # the values of a fingerprint are checked by the pattern
    match plain:
        case Graph():
            return plain
        case np.ndarray() | scipy.sparse.sparray() | scipy.sparse.spmatrix():
            return _of_adjacency(plain)
        case {"chain": d}:
            return chain(d)
        case {"grid": (height, width)}:
            return grid(height, width)
        case {"nodes": d, "edges": edges}:
            return Graph((d,), tuple((i, j) for i, j in edges))
    raise InputError(
        f"graph is {shown(given)}: give chain(d), grid(height, width) or the adjacency (d, d) as a "
        "scipy sparse array"
    )


@lru_cache(maxsize=8)
def _near(graph: Graph, order: int | None) -> BoolArray:
    """`Graph.neighbourhoods`, cached."""
    component = graph.components()
    near = np.asarray(component == component[:, None])
    if order is not None:
        adjacency = graph.adjacency
        # some nodes at a time: the path lengths of all would take eight times the bytes of `near`
        for start, stop in coalition_spans(*near.shape):
            paths = scipy.sparse.csgraph.dijkstra(
                adjacency, indices=np.arange(start, stop), unweighted=True, limit=order
            )
            near[start:stop] = np.isfinite(paths)
    # cached: a caller that wrote into it would change later results
    near.setflags(write=False)
    return near


def _of_adjacency(given: Any) -> Graph:
    """The graph of an adjacency matrix (d, d)."""
    if given.ndim != 2 or given.shape[0] != given.shape[1] or not given.shape[0]:
        raise InputError(
            f"graph is an adjacency of shape {given.shape}: give a square one, a row for each "
            "player"
        )
    edges = scipy.sparse.csr_array(given) != 0
    one_way = scipy.sparse.coo_array(edges > edges.T)
    if one_way.nnz:
        i = int(one_way.row[0])
        j = int(one_way.col[0])
        raise InputError(
            f"graph is an adjacency that is not symmetric: [{i}, {j}] is an edge and [{j}, {i}] is "
            f"not, and so in {one_way.nnz} places: give adjacency + adjacency.T"
        )
    i, j = scipy.sparse.triu(edges, k=1).nonzero()
    return Graph((given.shape[0],), tuple(sorted(zip(i.tolist(), j.tolist(), strict=True))))
